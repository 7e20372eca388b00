//! Rules B2 to B7 on values, and on expressions in general.

use talweg_expr::{Expr, Symbol, Ty};

use super::prove::{Domain, Verdict};
use super::{Report, Rule};
use crate::dtype::DType;
use crate::scalar::{ArithOp, MathOp, Reducer, Scalar, TensorId};

/// A tensor or buffer, as far as accesses to it are concerned.
pub(super) struct Shaped<'a> {
    pub name: &'a str,
    pub dtype: DType,
    pub shape: &'a [Expr],
}

/// What a value may refer to.
pub(super) struct Scope<'a> {
    pub tensors: &'a [Shaped<'a>],
    /// Variables in scope with their ranges, and the conditions known to hold.
    pub domain: Domain,
}

/// Checks that an extent or index is an integer expression over what is in scope; `what` names it.
pub(super) fn check_int(
    e: &Expr,
    what: &str,
    in_scope: &dyn Fn(&Symbol) -> bool,
    report: &mut Report,
) -> bool {
    if e.ty() != Ty::Int {
        report.add(
            Rule::Extent,
            format!("{what} `{e}` is no integer expression"),
            "use integer operators (`//` instead of `/`) and no comparison",
        );
        return false;
    }
    check_symbols(e, what, in_scope, report)
}

/// Checks rule B3 on one expression.
pub(super) fn check_symbols(
    e: &Expr,
    what: &str,
    in_scope: &dyn Fn(&Symbol) -> bool,
    report: &mut Report,
) -> bool {
    let stray: Vec<String> =
        e.symbols().iter().filter(|s| !s.is_knob() && !in_scope(s)).map(|s| format!("`{s}`")).collect();
    if !stray.is_empty() {
        report.add(
            Rule::Symbols,
            format!("{what} `{e}` mentions {}, which is not in scope", stray.join(", ")),
            "bind it by an axis or an enclosing loop, or make it a knob",
        );
    }
    stray.is_empty()
}

/// Checks that a symbol may be bound.
pub(super) fn check_binder(s: &Symbol, report: &mut Report) {
    let constant = matches!(s.name(), "true" | "false" | "inf" | "nan");
    if s.is_knob() || constant || !crate::text::is_identifier(s.name()) {
        report.add(Rule::Symbols, format!("`{s}` cannot be bound"), "bind a variable named by an identifier");
    }
}

/// Checks the shape of a tensor or buffer.
pub(super) fn check_shape(shape: &[Expr], report: &mut Report) {
    for e in shape {
        check_int(e, "extent", &|_| false, report);
        check_positive(e, report);
    }
}

pub(super) fn check_positive(e: &Expr, report: &mut Report) {
    if e.as_int().is_some_and(|v| v <= 0) {
        report.add(
            Rule::Extent,
            format!("extent {e} is not positive"),
            "give every dimension at least one element",
        );
    }
}

impl Scope<'_> {
    fn in_scope(&self, s: &Symbol) -> bool {
        self.domain.binds(s)
    }

    /// Checks one access and gives the type of the element.
    pub fn access(&self, id: TensorId, indices: &[Expr], report: &mut Report) -> Option<DType> {
        let Some(t) = self.tensors.get(id.index()) else {
            let count = self.tensors.len();
            report.add(
                Rule::Reference,
                format!("tensor {} of {count} is accessed", id.0),
                "use the ids the owner handed out",
            );
            return None;
        };
        if indices.len() != t.shape.len() {
            report.add(
                Rule::Rank,
                format!(
                    "`{}` has {} dimensions and is accessed by {} indices",
                    t.name,
                    t.shape.len(),
                    indices.len()
                ),
                "give one index for each dimension",
            );
            return Some(t.dtype);
        }
        for (at, (index, extent)) in indices.iter().zip(t.shape).enumerate() {
            if check_int(index, "index", &|s| self.in_scope(s), report) && extent.ty() == Ty::Int {
                self.bounds(t, at, index, extent, report);
            }
        }
        Some(t.dtype)
    }

    fn bounds(&self, t: &Shaped<'_>, at: usize, index: &Expr, extent: &Expr, report: &mut Report) {
        let remedy = "guard the access by a select or an if, shrink the loop, or enlarge the tensor";
        let whose = format!("index `{index}` of `{}`, dimension {at} of extent {extent},", t.name);
        match self.domain.within(index, extent) {
            Verdict::Proved | Verdict::Open => {}
            Verdict::Refuted { at, value } => {
                report.add(Rule::Bounds, format!("{whose} is {value} at {at}"), remedy);
            }
            Verdict::Unknown => {
                report.add(Rule::Bounds, format!("{whose} cannot be proved in bounds"), remedy);
            }
        }
    }

    /// Checks a truth expression.
    pub fn condition(&self, e: &Expr, report: &mut Report) {
        if e.ty() != Ty::Bool {
            report.add(
                Rule::Extent,
                format!("condition `{e}` is no truth expression"),
                "compare it with something, as in `i < 3`",
            );
        }
        check_symbols(e, "condition", &|s| self.in_scope(s), report);
    }

    /// Checks a value and gives its type, `None` when it has none.
    pub fn value(&self, s: &Scalar, report: &mut Report) -> Option<DType> {
        match s {
            Scalar::Float(_, d) => {
                if !d.is_float() {
                    self.mistyped(s, "is a float of a type that is none", "write an integer literal", report);
                }
                Some(*d)
            }
            Scalar::Int(v, d) => {
                if !fits(*v, *d) {
                    self.mistyped(s, "is a constant that does not fit its type", "use a wider type", report);
                }
                Some(*d)
            }
            Scalar::Index(e, d) => self.index_value(s, e, *d, report),
            Scalar::Read(t, indices) => self.access(*t, indices, report),
            Scalar::Cast(d, a) => {
                self.value(a, report);
                Some(*d)
            }
            Scalar::Unary(op, a) => {
                let d = self.value(a, report)?;
                let (legal, wants) = match op {
                    MathOp::Not => (d == DType::Bool, "a truth value"),
                    MathOp::Neg | MathOp::Abs => (d != DType::Bool, "a number"),
                    _ => (d.is_float(), "a float"),
                };
                if !legal {
                    self.mistyped(s, &format!("takes {wants} and is given {d}"), "cast the operand", report);
                }
                Some(d)
            }
            Scalar::Binary(op, a, b) => {
                let (x, y) = (self.value(a, report), self.value(b, report));
                let (x, y) = (x?, y?);
                if x != y {
                    let what = format!("combines {x} and {y}");
                    self.mistyped(s, &what, "cast one operand to the type of the other", report);
                } else if !combines(*op, x) {
                    self.mistyped(s, &format!("is not defined on {x}"), "cast the operands", report);
                }
                Some(if op.is_predicate() { DType::Bool } else { x })
            }
            Scalar::Select(c, a, b) => self.select(s, [c, a, b], report),
        }
    }

    fn index_value(&self, s: &Scalar, e: &Expr, d: DType, report: &mut Report) -> Option<DType> {
        check_symbols(e, "index value", &|s| self.in_scope(s), report);
        let legal = match e.ty() {
            Ty::Int => d != DType::Bool,
            Ty::Bool => d == DType::Bool,
            Ty::Real => false,
        };
        if !legal {
            let what = format!("gives an expression of type {:?} the type {d}", e.ty());
            let remedy = "write `index.T` of an integer expression or `guard` of a truth expression";
            self.mistyped(s, &what, remedy, report);
        }
        Some(d)
    }

    fn select(&self, s: &Scalar, [c, a, b]: [&Scalar; 3], report: &mut Report) -> Option<DType> {
        let condition = self.value(c, report);
        if condition.is_some_and(|d| d != DType::Bool) {
            self.mistyped(s, "has a condition that is no truth value", "compare, or cast it to bool", report);
        }
        let (x, y) = match c {
            Scalar::Index(e, DType::Bool) if e.ty() == Ty::Bool => {
                let side = |holds: bool, v: &Scalar, report: &mut Report| {
                    let mut domain = self.domain.clone();
                    domain.assume(e, holds);
                    Scope { tensors: self.tensors, domain }.value(v, report)
                };
                (side(true, a, report), side(false, b, report))
            }
            _ => (self.value(a, report), self.value(b, report)),
        };
        let (x, y) = (x?, y?);
        if x != y {
            let what = format!("chooses between {x} and {y}");
            self.mistyped(s, &what, "cast one side to the type of the other", report);
        }
        Some(x)
    }

    fn mistyped(&self, s: &Scalar, what: &str, remedy: &str, report: &mut Report) {
        let names: Vec<&str> = self.tensors.iter().map(|t| t.name).collect();
        report.add(Rule::Type, format!("`{}` {what}", crate::text::value_text(&names, s)), remedy);
    }

    /// Checks that a value of some type can be stored or reduced into a tensor of a type.
    pub fn stored(&self, value: Option<DType>, to: DType, update: Option<Reducer>, report: &mut Report) {
        let Some(value) = value else { return };
        if value != to {
            report.add(
                Rule::Type,
                format!("a value of type {value} goes into a tensor of type {to}"),
                format!("write `cast.{to}(...)`"),
            );
        }
        if let Some(r) = update
            && !combines(r.op(), to)
        {
            report.add(
                Rule::Type,
                format!("{r:?} does not reduce {to}"),
                "reduce another type, or use max or min",
            );
        }
    }
}

fn combines(op: ArithOp, d: DType) -> bool {
    match op {
        ArithOp::And | ArithOp::Or => d == DType::Bool,
        ArithOp::Max | ArithOp::Min | ArithOp::Eq | ArithOp::Ne => true,
        _ => d != DType::Bool,
    }
}

fn fits(v: i64, d: DType) -> bool {
    match d {
        DType::I8 => i8::try_from(v).is_ok(),
        DType::U8 => u8::try_from(v).is_ok(),
        DType::I32 => i32::try_from(v).is_ok(),
        DType::I64 => true,
        DType::Bool => v == 0 || v == 1,
        DType::F32 | DType::F16 | DType::BF16 => false,
    }
}
