//! Interval arithmetic, and simplification of an expression whose symbols have known ranges.

use std::collections::{BTreeMap, HashMap};

use crate::node::{BinaryOp, Expr, Node, Ty, UnaryOp};
use crate::symbol::Symbol;

/// A closed interval; infinite ends mean unknown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// Smallest value.
    pub lo: f64,
    /// Largest value.
    pub hi: f64,
}

impl Interval {
    /// Everything.
    pub const ALL: Interval = Interval { lo: f64::NEG_INFINITY, hi: f64::INFINITY };

    /// One value.
    pub fn point(v: f64) -> Interval {
        Interval { lo: v, hi: v }
    }

    /// From `lo` to `hi`, both included.
    pub fn new(lo: f64, hi: f64) -> Interval {
        Interval { lo, hi }
    }

    fn of(values: &[f64]) -> Interval {
        if values.iter().any(|v| v.is_nan()) {
            return Interval::ALL;
        }
        Interval {
            lo: values.iter().copied().fold(f64::INFINITY, f64::min),
            hi: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        }
    }

    pub(crate) fn union(self, other: Interval) -> Interval {
        Interval { lo: self.lo.min(other.lo), hi: self.hi.max(other.hi) }
    }
}

/// What is known about symbols.
#[derive(Clone, Debug, Default)]
pub struct Ranges {
    known: BTreeMap<Symbol, Interval>,
}

impl Ranges {
    /// Nothing known: variables may be anything, knobs are at least 1.
    pub fn new() -> Ranges {
        Ranges::default()
    }

    /// Declares the range of a symbol, both ends included.
    pub fn set(&mut self, symbol: &Symbol, lo: i64, hi: i64) {
        self.known.insert(symbol.clone(), Interval::new(lo as f64, hi as f64));
    }

    /// Forgets a symbol.
    pub fn remove(&mut self, symbol: &Symbol) {
        self.known.remove(symbol);
    }

    /// The range of a symbol.
    pub fn get(&self, symbol: &Symbol) -> Interval {
        self.known.get(symbol).copied().unwrap_or(if symbol.is_knob() {
            Interval::new(1.0, f64::INFINITY)
        } else {
            Interval::ALL
        })
    }
}

fn product(a: f64, b: f64) -> f64 {
    if a == 0.0 || b == 0.0 { 0.0 } else { a * b }
}

/// The values of an operator of one operand.
pub(crate) fn map(op: UnaryOp, a: Interval) -> Interval {
    match op {
        UnaryOp::Not => Interval::new(1.0 - a.hi, 1.0 - a.lo),
        UnaryOp::Log if a.lo > 0.0 => Interval::new(a.lo.ln(), a.hi.ln()),
        UnaryOp::Log => Interval::new(f64::NEG_INFINITY, a.hi.max(0.0).ln()),
        UnaryOp::Exp => Interval::new(a.lo.exp(), a.hi.exp()),
        UnaryOp::Sqrt => Interval::new(a.lo.max(0.0).sqrt(), a.hi.max(0.0).sqrt()),
        UnaryOp::Abs if a.lo >= 0.0 => a,
        UnaryOp::Abs if a.hi <= 0.0 => Interval::new(-a.hi, -a.lo),
        UnaryOp::Abs => Interval::new(0.0, a.hi.max(-a.lo)),
    }
}

/// The values of an operator of two operands.
pub(crate) fn combine(op: BinaryOp, a: Interval, b: Interval) -> Interval {
    let unknown = Interval::new(0.0, 1.0);
    let corners = |f: &dyn Fn(f64, f64) -> f64| {
        Interval::of(&[f(a.lo, b.lo), f(a.lo, b.hi), f(a.hi, b.lo), f(a.hi, b.hi)])
    };
    let divided = |round: &dyn Fn(f64) -> f64| {
        if b.lo > 0.0 {
            let q = |x: f64, y: f64| {
                if y.is_infinite() {
                    if x.is_infinite() { f64::NAN } else { x.signum() * 0.0 }
                } else {
                    x / y
                }
            };
            let r = corners(&q);
            Interval::new(round(r.lo), round(r.hi))
        } else {
            Interval::ALL
        }
    };
    match op {
        BinaryOp::Add => Interval::new(a.lo + b.lo, a.hi + b.hi),
        BinaryOp::Mul => corners(&product),
        BinaryOp::Div => divided(&|x| x),
        BinaryOp::FloorDiv => {
            let r = divided(&f64::floor);
            // A quotient that tends to zero from below still rounds to -1.
            if a.lo < 0.0 && b.hi.is_infinite() { Interval::new(r.lo.min(-1.0), r.hi) } else { r }
        }
        BinaryOp::CeilDiv => {
            let r = divided(&f64::ceil);
            if a.hi > 0.0 && b.hi.is_infinite() { Interval::new(r.lo, r.hi.max(1.0)) } else { r }
        }
        BinaryOp::Mod if b.lo > 0.0 => {
            let top = if a.lo >= 0.0 { (b.hi - 1.0).min(a.hi) } else { b.hi - 1.0 };
            if a.lo >= 0.0 && a.hi < b.lo { a } else { Interval::new(0.0, top) }
        }
        BinaryOp::Mod => Interval::ALL,
        BinaryOp::Min => Interval::new(a.lo.min(b.lo), a.hi.min(b.hi)),
        BinaryOp::Max => Interval::new(a.lo.max(b.lo), a.hi.max(b.hi)),
        BinaryOp::Pow => {
            if a.lo > 0.0 {
                corners(&f64::powf)
            } else {
                Interval::ALL
            }
        }
        BinaryOp::Lt if a.hi < b.lo => Interval::point(1.0),
        BinaryOp::Lt if a.lo >= b.hi => Interval::point(0.0),
        BinaryOp::Le if a.hi <= b.lo => Interval::point(1.0),
        BinaryOp::Le if a.lo > b.hi => Interval::point(0.0),
        BinaryOp::Eq if a.hi < b.lo || a.lo > b.hi => Interval::point(0.0),
        BinaryOp::Ne if a.hi < b.lo || a.lo > b.hi => Interval::point(1.0),
        BinaryOp::And => Interval::new(a.lo.min(b.lo), a.hi.min(b.hi)),
        BinaryOp::Or => Interval::new(a.lo.max(b.lo), a.hi.max(b.hi)),
        _ => unknown,
    }
}

impl Expr {
    /// An interval that holds every value the expression can take.
    pub fn bounds(&self, ranges: &Ranges) -> Interval {
        self.bounds_in(ranges, &mut HashMap::new())
    }

    /// Like [`Expr::bounds`]; the memo keeps shared parts from being visited once for every path to them.
    pub(crate) fn bounds_in(&self, ranges: &Ranges, memo: &mut HashMap<Expr, Interval>) -> Interval {
        if let Some(done) = memo.get(self) {
            return *done;
        }
        let mut of = |e: &Expr| e.bounds_in(ranges, memo);
        let r = match self.node() {
            Node::Int(v) => Interval::point(*v as f64),
            Node::Real(v) => Interval::point(f64::from_bits(*v)),
            Node::Bool(v) => Interval::point(f64::from(u8::from(*v))),
            Node::Sym(s) => ranges.get(s),
            Node::Unary(op, a) => {
                let a = of(a);
                map(*op, a)
            }
            Node::Binary(BinaryOp::Mod, a, b) if a.ty() == Ty::Real || b.ty() == Ty::Real => {
                let b = of(b);
                if b.lo > 0.0 { Interval::new(0.0, b.hi) } else { Interval::ALL }
            }
            Node::Binary(op, a, b) => {
                let a = of(a);
                combine(*op, a, of(b))
            }
            Node::Select(c, a, b) => {
                let c = of(c);
                if c.lo > 0.0 {
                    of(a)
                } else if c.hi <= 0.0 {
                    of(b)
                } else {
                    let a = of(a);
                    a.union(of(b))
                }
            }
        };
        let r = if r.lo.is_nan() || r.hi.is_nan() { Interval::ALL } else { r };
        if self.height() > 0 {
            memo.insert(self.clone(), r);
        }
        r
    }

    /// Simplifies under known ranges: decides comparisons, drops min/max, cancels divisions and remainders.
    pub fn simplify(&self, ranges: &Ranges) -> Expr {
        self.simplify_in(&mut Simplify { ranges, memo: HashMap::new(), bounds: HashMap::new() })
    }

    fn simplify_in(&self, s: &mut Simplify<'_>) -> Expr {
        if matches!(self.node(), Node::Int(_) | Node::Real(_) | Node::Bool(_)) {
            return self.clone();
        }
        if let Some(done) = s.memo.get(self) {
            return done.clone();
        }
        let rebuilt = match self.node() {
            Node::Unary(op, a) => Expr::unary(*op, a.simplify_in(s)),
            Node::Binary(op, a, b) => {
                let (a, b) = (a.simplify_in(s), b.simplify_in(s));
                s.binary(*op, a, b)
            }
            Node::Select(c, a, b) => Expr::select(c.simplify_in(s), a.simplify_in(s), b.simplify_in(s)),
            _ => self.clone(),
        };
        let b = s.bounds(&rebuilt);
        let out = match rebuilt.ty() {
            Ty::Int if b.lo == b.hi && b.lo.abs() < 9e15 => Expr::int(b.lo as i64),
            Ty::Bool if b.lo == b.hi => Expr::bool(b.lo != 0.0),
            _ => rebuilt,
        };
        s.memo.insert(self.clone(), out.clone());
        out
    }
}

/// One simplification: what is known, and what was found out so far.
struct Simplify<'a> {
    ranges: &'a Ranges,
    memo: HashMap<Expr, Expr>,
    bounds: HashMap<Expr, Interval>,
}

impl Simplify<'_> {
    fn bounds(&mut self, e: &Expr) -> Interval {
        e.bounds_in(self.ranges, &mut self.bounds)
    }

    fn binary(&mut self, op: BinaryOp, a: Expr, b: Expr) -> Expr {
        let ints = a.ty() == Ty::Int && b.ty() == Ty::Int;
        match op {
            BinaryOp::Min | BinaryOp::Max if ints => {
                // The difference keeps correlations that the two intervals alone have lost.
                let d = self.bounds(&(a.clone() - &b));
                if d.hi <= 0.0 {
                    return if op == BinaryOp::Min { a } else { b };
                }
                if d.lo >= 0.0 {
                    return if op == BinaryOp::Min { b } else { a };
                }
            }
            BinaryOp::Lt | BinaryOp::Le | BinaryOp::Eq | BinaryOp::Ne if ints => {
                let d = combine(op, self.bounds(&(a.clone() - &b)), Interval::point(0.0));
                if d.lo == d.hi {
                    return Expr::bool(d.lo != 0.0);
                }
            }
            BinaryOp::FloorDiv | BinaryOp::CeilDiv | BinaryOp::Mod if ints => {
                if let Some(e) = self.divide(op, &a, &b) {
                    return e;
                }
            }
            _ => {}
        }
        Expr::binary(op, a, b)
    }

    /// Uses ranges to cancel `(c * x + r) // c` when `0 <= r < c`.
    fn divide(&mut self, op: BinaryOp, a: &Expr, b: &Expr) -> Option<Expr> {
        let d = b.as_int().filter(|d| *d > 0)?;
        let sum = crate::linear::Sum::of(a);
        let (mut quotient, mut rest) = (Expr::int(0), Expr::int(0));
        for (t, c) in &sum.terms {
            if c % d == 0 {
                quotient = quotient + t.clone() * (c / d);
            } else {
                rest = rest + t.clone() * *c;
            }
        }
        quotient = quotient + sum.constant.div_euclid(d);
        rest = rest + sum.constant.rem_euclid(d);
        let r = self.bounds(&rest);
        let d = d as f64;
        match op {
            BinaryOp::FloorDiv if r.lo >= 0.0 && r.hi < d => Some(quotient),
            BinaryOp::CeilDiv if r.lo > -d && r.hi <= 0.0 => Some(quotient),
            BinaryOp::CeilDiv if r.lo > 0.0 && r.hi <= d => Some(quotient + 1),
            BinaryOp::Mod if r.lo >= 0.0 && r.hi < d => Some(rest),
            _ => None,
        }
    }
}
