//! Constructors. Integer sums and products are kept as sorted polynomials, divisions and remainders cancel what is
//! provably divisible, comparisons and min/max of operands with a constant difference are decided.

use std::ops::{Add, Mul, Neg, Sub};

use crate::linear::{Sum, factors, product, weight};
use crate::node::{BinaryOp, Expr, Node, Ty, UnaryOp};
use crate::subst::{fold_int, fold_real, fold_unary_real};
use crate::symbol::Symbol;

/// Products of sums are multiplied out up to this many terms.
const EXPAND_LIMIT: usize = 24;

impl Expr {
    /// An integer constant.
    pub fn int(value: i64) -> Expr {
        Expr::intern(Node::Int(value))
    }

    /// A real constant. All NaNs are one.
    pub fn real(value: f64) -> Expr {
        let value = if value.is_nan() { f64::NAN } else { value };
        Expr::intern(Node::Real(value.to_bits()))
    }

    /// A truth constant.
    pub fn bool(value: bool) -> Expr {
        Expr::intern(Node::Bool(value))
    }

    /// A symbol.
    pub fn sym(symbol: &Symbol) -> Expr {
        Expr::intern(Node::Sym(symbol.clone()))
    }

    /// A variable by name.
    pub fn var(name: &str) -> Expr {
        Expr::sym(&Symbol::var(name))
    }

    /// A knob by name.
    pub fn knob(name: &str) -> Expr {
        Expr::sym(&Symbol::knob(name))
    }

    /// The value of an integer constant.
    pub fn as_int(&self) -> Option<i64> {
        match self.node() {
            Node::Int(v) => Some(*v),
            _ => None,
        }
    }

    /// The value of a truth constant.
    pub fn as_bool(&self) -> Option<bool> {
        match self.node() {
            Node::Bool(v) => Some(*v),
            _ => None,
        }
    }

    /// The symbol, when the expression is just one.
    pub fn as_sym(&self) -> Option<&Symbol> {
        match self.node() {
            Node::Sym(s) => Some(s),
            _ => None,
        }
    }

    fn as_number(&self) -> Option<f64> {
        match self.node() {
            Node::Int(v) => Some(*v as f64),
            Node::Real(v) => Some(f64::from_bits(*v)),
            _ => None,
        }
    }

    /// An operator of one operand.
    pub fn unary(op: UnaryOp, a: Expr) -> Expr {
        if op == UnaryOp::Not {
            let a = truth(a);
            return match a.node() {
                Node::Bool(v) => Expr::bool(!v),
                Node::Unary(UnaryOp::Not, x) => x.clone(),
                Node::Binary(BinaryOp::Lt, x, y) => y.le(x),
                Node::Binary(BinaryOp::Le, x, y) => y.lt(x),
                Node::Binary(BinaryOp::Eq, x, y) => Expr::binary(BinaryOp::Ne, x.clone(), y.clone()),
                Node::Binary(BinaryOp::Ne, x, y) => Expr::binary(BinaryOp::Eq, x.clone(), y.clone()),
                _ => Expr::intern(Node::Unary(op, a)),
            };
        }
        match (op, a.node()) {
            (UnaryOp::Abs, Node::Int(v)) if *v != i64::MIN => Expr::int(v.abs()),
            (_, Node::Int(_) | Node::Real(_)) => {
                Expr::real(fold_unary_real(op, a.as_number().unwrap_or(f64::NAN)))
            }
            _ => Expr::intern(Node::Unary(op, a)),
        }
    }

    /// An operator of two operands.
    pub fn binary(op: BinaryOp, a: Expr, b: Expr) -> Expr {
        if let (Some(x), Some(y)) = (a.as_int(), b.as_int())
            && let Some(v) = fold_int(op, x, y)
        {
            return if is_predicate(op) { Expr::bool(v != 0) } else { Expr::int(v) };
        }
        if let (Some(x), Some(y)) = (a.as_number(), b.as_number())
            && !(a.ty() == Ty::Int && b.ty() == Ty::Int && !matches!(op, BinaryOp::Div | BinaryOp::Pow))
        {
            let v = fold_real(op, x, y);
            return if is_predicate(op) { Expr::bool(v != 0.0) } else { Expr::real(v) };
        }
        let ints = a.ty() != Ty::Real && b.ty() != Ty::Real;
        match op {
            BinaryOp::Add if ints => {
                let mut sum = Sum::of(&a);
                sum.add_scaled(&Sum::of(&b), 1);
                sum.build()
            }
            BinaryOp::Mul if ints => multiply(&a, &b),
            BinaryOp::Add | BinaryOp::Mul | BinaryOp::Div | BinaryOp::Pow => real_arithmetic(op, a, b),
            BinaryOp::FloorDiv | BinaryOp::CeilDiv => divide(op, a, b),
            BinaryOp::Mod => remainder(a, b),
            BinaryOp::Min | BinaryOp::Max => min_max(op, a, b),
            BinaryOp::Lt | BinaryOp::Le | BinaryOp::Eq | BinaryOp::Ne => compare(op, a, b),
            BinaryOp::And | BinaryOp::Or => logic(op, a, b),
        }
    }

    /// `select(condition, then, otherwise)`.
    pub fn select(c: Expr, a: Expr, b: Expr) -> Expr {
        let c = truth(c);
        match c.as_bool() {
            Some(true) => a,
            Some(false) => b,
            None if a == b => a,
            None => Expr::intern(Node::Select(c, a, b)),
        }
    }

    /// Quotient rounded down.
    pub fn floor_div(&self, by: impl Into<Expr>) -> Expr {
        Expr::binary(BinaryOp::FloorDiv, self.clone(), by.into())
    }

    /// Quotient rounded up.
    pub fn ceil_div(&self, by: impl Into<Expr>) -> Expr {
        Expr::binary(BinaryOp::CeilDiv, self.clone(), by.into())
    }

    /// Remainder of the quotient rounded down.
    pub fn rem(&self, by: impl Into<Expr>) -> Expr {
        Expr::binary(BinaryOp::Mod, self.clone(), by.into())
    }

    /// Real quotient.
    pub fn div(&self, by: impl Into<Expr>) -> Expr {
        Expr::binary(BinaryOp::Div, self.clone(), by.into())
    }

    /// Smaller of two.
    pub fn min(&self, other: impl Into<Expr>) -> Expr {
        Expr::binary(BinaryOp::Min, self.clone(), other.into())
    }

    /// Larger of two.
    pub fn max(&self, other: impl Into<Expr>) -> Expr {
        Expr::binary(BinaryOp::Max, self.clone(), other.into())
    }

    /// Less than.
    pub fn lt(&self, other: &Expr) -> Expr {
        Expr::binary(BinaryOp::Lt, self.clone(), other.clone())
    }

    /// Less than or equal.
    pub fn le(&self, other: &Expr) -> Expr {
        Expr::binary(BinaryOp::Le, self.clone(), other.clone())
    }

    /// Equality, as an expression.
    pub fn eq_expr(&self, other: &Expr) -> Expr {
        Expr::binary(BinaryOp::Eq, self.clone(), other.clone())
    }

    /// Conjunction.
    pub fn and(&self, other: &Expr) -> Expr {
        Expr::binary(BinaryOp::And, self.clone(), other.clone())
    }

    /// Disjunction.
    pub fn or(&self, other: &Expr) -> Expr {
        Expr::binary(BinaryOp::Or, self.clone(), other.clone())
    }
}

fn is_predicate(op: BinaryOp) -> bool {
    use BinaryOp::*;
    matches!(op, Lt | Le | Eq | Ne | And | Or)
}

/// A number used as a truth value: whether it is not zero.
fn truth(e: Expr) -> Expr {
    if e.ty() == Ty::Bool { e } else { Expr::binary(BinaryOp::Ne, e, Expr::int(0)) }
}

fn multiply(a: &Expr, b: &Expr) -> Expr {
    let (p, q) = (Sum::of(a), Sum::of(b));
    for (constant, other) in [(&p, &q), (&q, &p)] {
        if constant.terms.is_empty() {
            let mut out = Sum::default();
            out.add_scaled(other, constant.constant);
            return out.build();
        }
    }
    if weight(a).saturating_mul(weight(b)) > EXPAND_LIMIT {
        let (mut parts, mut coefficient) = (Vec::new(), 1i64);
        for (e, sum) in [(a, &p), (b, &q)] {
            match sum.terms.as_slice() {
                [(term, c)] if sum.constant == 0 => {
                    factors(term, &mut parts);
                    coefficient = coefficient.wrapping_mul(*c);
                }
                _ => parts.push(e.clone()),
            }
        }
        return Sum { constant: 0, terms: vec![(product(parts), coefficient)] }.build();
    }
    let mut out = Sum { constant: p.constant.wrapping_mul(q.constant), terms: Vec::new() };
    for (t, c) in &p.terms {
        out.push(t.clone(), c.wrapping_mul(q.constant));
    }
    for (t, c) in &q.terms {
        out.push(t.clone(), c.wrapping_mul(p.constant));
    }
    for (s, c) in &p.terms {
        for (t, d) in &q.terms {
            let mut parts = Vec::new();
            factors(s, &mut parts);
            factors(t, &mut parts);
            out.push(product(parts), c.wrapping_mul(*d));
        }
    }
    out.build()
}

fn real_arithmetic(op: BinaryOp, a: Expr, b: Expr) -> Expr {
    let (x, y) = (a.as_number(), b.as_number());
    match op {
        BinaryOp::Add if x == Some(0.0) && b.ty() == Ty::Real => return b,
        BinaryOp::Add if y == Some(0.0) && a.ty() == Ty::Real => return a,
        BinaryOp::Mul if x == Some(1.0) && b.ty() == Ty::Real => return b,
        BinaryOp::Mul | BinaryOp::Div | BinaryOp::Pow if y == Some(1.0) && a.ty() == Ty::Real => return a,
        _ => {}
    }
    let swap = matches!(op, BinaryOp::Add | BinaryOp::Mul) && b.order(&a).is_lt();
    let (a, b) = if swap { (b, a) } else { (a, b) };
    Expr::intern(Node::Binary(op, a, b))
}

/// Divides a monomial exactly by a divisor that is one of its factors.
fn divide_monomial(term: &Expr, by: &[Expr]) -> Option<Expr> {
    let mut parts = Vec::new();
    factors(term, &mut parts);
    for d in by {
        let at = parts.iter().position(|p| p == d)?;
        parts.remove(at);
    }
    Some(parts.into_iter().fold(Expr::int(1), |a, b| a * b))
}

/// Splits `a` into `quotient * by + rest`, moving every term that is exactly divisible into the quotient.
fn split_by(a: &Expr, by: &Expr) -> (Sum, Sum) {
    let sum = Sum::of(a);
    let (mut quotient, mut rest) = (Sum::default(), Sum::default());
    if let Some(d) = by.as_int() {
        quotient.constant = sum.constant.div_euclid(d);
        rest.constant = sum.constant.rem_euclid(d);
        for (t, c) in sum.terms {
            if c % d == 0 { quotient.push(t, c / d) } else { rest.push(t, c) }
        }
    } else {
        let divisor = Sum::of(by);
        let scale = match divisor.terms.as_slice() {
            [(_, c)] if divisor.constant == 0 => *c,
            _ => 0,
        };
        let mut parts = Vec::new();
        if scale != 0 {
            factors(&divisor.terms[0].0, &mut parts);
        }
        rest.constant = sum.constant;
        for (t, c) in sum.terms {
            match divide_monomial(&t, &parts) {
                Some(q) if scale != 0 && c.checked_rem(scale) == Some(0) => {
                    quotient.add_scaled(&Sum::of(&q), c / scale);
                }
                _ => rest.push(t, c),
            }
        }
    }
    (quotient, rest)
}

fn divide(op: BinaryOp, a: Expr, b: Expr) -> Expr {
    if b.as_int().is_some_and(|d| d <= 0) || a.ty() != Ty::Int || b.ty() != Ty::Int {
        return Expr::intern(Node::Binary(op, a, b));
    }
    if b.as_int() == Some(1) || a.as_int() == Some(0) {
        return a;
    }
    if a == b {
        return Expr::int(1);
    }
    // Knobs and extents are positive, so exact terms may leave the rounding.
    let (quotient, rest) = split_by(&a, &b);
    let rest = rest.build();
    let rounded = match (rest.as_int(), b.as_int()) {
        (Some(0), _) => Expr::int(0),
        (Some(r), Some(d)) => Expr::int(fold_int(op, r, d).unwrap_or(0)),
        _ => nested_division(op, rest, b),
    };
    quotient.build() + rounded
}

/// `(a // c) // d` is `a // (c * d)`; the same holds for rounding up.
fn nested_division(op: BinaryOp, a: Expr, b: Expr) -> Expr {
    if let (Node::Binary(inner, x, c), Some(d)) = (a.node(), b.as_int())
        && *inner == op
        && let Some(c) = c.as_int().filter(|c| *c > 0)
        && let Some(by) = c.checked_mul(d)
    {
        return divide(op, x.clone(), Expr::int(by));
    }
    Expr::intern(Node::Binary(op, a, b))
}

fn remainder(a: Expr, b: Expr) -> Expr {
    if b.as_int().is_some_and(|d| d <= 0) || a.ty() != Ty::Int || b.ty() != Ty::Int {
        return Expr::intern(Node::Binary(BinaryOp::Mod, a, b));
    }
    if b.as_int() == Some(1) || a == b {
        return Expr::int(0);
    }
    let (_, rest) = split_by(&a, &b);
    let rest = rest.build();
    match (rest.as_int(), b.as_int()) {
        (Some(0), _) => Expr::int(0),
        (Some(r), Some(d)) => Expr::int(r.rem_euclid(d)),
        _ => Expr::intern(Node::Binary(BinaryOp::Mod, rest, b)),
    }
}

fn constant_difference(a: &Expr, b: &Expr) -> Option<i64> {
    if a.ty() != Ty::Int || b.ty() != Ty::Int {
        return None;
    }
    let mut sum = Sum::of(a);
    let other = Sum::of(b);
    let constant = sum.constant.checked_sub(other.constant)?;
    sum.add_scaled(&other, -1);
    sum.terms.is_empty().then_some(constant)
}

fn min_max(op: BinaryOp, a: Expr, b: Expr) -> Expr {
    if a == b {
        return a;
    }
    if let Some(d) = constant_difference(&a, &b) {
        return if (d < 0) == (op == BinaryOp::Min) { a } else { b };
    }
    let (a, b) = if b.order(&a).is_lt() { (b, a) } else { (a, b) };
    // min(min(x, c), d) with two constants.
    if let (Node::Binary(inner, x, c), Some(d)) = (a.node(), b.as_int())
        && *inner == op
        && let Some(c) = c.as_int()
    {
        let k = if op == BinaryOp::Min { c.min(d) } else { c.max(d) };
        return min_max(op, x.clone(), Expr::int(k));
    }
    for (nested, other) in [(&a, &b), (&b, &a)] {
        if let Node::Binary(inner, x, y) = nested.node()
            && *inner == op
            && (x == other || y == other)
        {
            return nested.clone();
        }
    }
    Expr::intern(Node::Binary(op, a, b))
}

fn compare(op: BinaryOp, a: Expr, b: Expr) -> Expr {
    if let Some(d) = constant_difference(&a, &b) {
        return Expr::bool(fold_int(op, d, 0) == Some(1));
    }
    if a == b {
        return Expr::bool(matches!(op, BinaryOp::Le | BinaryOp::Eq));
    }
    Expr::intern(Node::Binary(op, a, b))
}

fn logic(op: BinaryOp, a: Expr, b: Expr) -> Expr {
    let (a, b) = (truth(a), truth(b));
    let absorbing = op == BinaryOp::Or;
    match (a.as_bool(), b.as_bool()) {
        (Some(v), _) => return if v == absorbing { Expr::bool(absorbing) } else { b },
        (_, Some(v)) => return if v == absorbing { Expr::bool(absorbing) } else { a },
        _ if a == b => return a,
        _ => {}
    }
    Expr::intern(Node::Binary(op, a, b))
}

impl From<i64> for Expr {
    fn from(v: i64) -> Expr {
        Expr::int(v)
    }
}

impl From<&Expr> for Expr {
    fn from(e: &Expr) -> Expr {
        e.clone()
    }
}

impl From<&Symbol> for Expr {
    fn from(s: &Symbol) -> Expr {
        Expr::sym(s)
    }
}

impl<R: Into<Expr>> Add<R> for Expr {
    type Output = Expr;
    fn add(self, rhs: R) -> Expr {
        Expr::binary(BinaryOp::Add, self, rhs.into())
    }
}

impl<R: Into<Expr>> Sub<R> for Expr {
    type Output = Expr;
    fn sub(self, rhs: R) -> Expr {
        self + rhs.into() * -1
    }
}

impl<R: Into<Expr>> Mul<R> for Expr {
    type Output = Expr;
    fn mul(self, rhs: R) -> Expr {
        Expr::binary(BinaryOp::Mul, self, rhs.into())
    }
}

impl Neg for Expr {
    type Output = Expr;
    fn neg(self) -> Expr {
        self * -1
    }
}
