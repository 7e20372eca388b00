//! Real arithmetic on expressions. Integer sums are multiplied out by their constructors, which loses the sharing of
//! partial products between loop levels; real ones are kept as they are written.

use talweg_expr::{BinaryOp, Expr, Node, Ranges, Ty, UnaryOp};

/// The value of a constant.
pub(crate) fn number(e: &Expr) -> Option<f64> {
    match e.node() {
        Node::Int(v) => Some(*v as f64),
        Node::Real(v) => Some(f64::from_bits(*v)),
        Node::Bool(v) => Some(f64::from(u8::from(*v))),
        _ => None,
    }
}

pub(crate) fn is_zero(e: &Expr) -> bool {
    number(e) == Some(0.0)
}

pub(crate) fn zero() -> Expr {
    Expr::real(0.0)
}

pub(crate) fn one() -> Expr {
    Expr::real(1.0)
}

/// The same value as a real expression.
pub(crate) fn real(e: &Expr) -> Expr {
    if e.ty() == Ty::Real { e.clone() } else { Expr::real(1.0) * e }
}

pub(crate) fn mul(a: &Expr, b: &Expr) -> Expr {
    if is_zero(a) || is_zero(b) { zero() } else { real(a) * b }
}

pub(crate) fn add(a: &Expr, b: &Expr) -> Expr {
    match (is_zero(a), is_zero(b)) {
        (true, _) => real(b),
        (_, true) => real(a),
        _ if a.ty() == Ty::Real || b.ty() == Ty::Real => a.clone() + b,
        _ => real(a) + b,
    }
}

pub(crate) fn scale(a: &Expr, by: f64) -> Expr {
    mul(a, &Expr::real(by))
}

/// Every non-flag feature: `log2(x + 1)`.
pub(crate) fn log_feature(x: &Expr) -> Expr {
    log2(&(x.clone() + Expr::real(1.0)))
}

pub(crate) fn log2(x: &Expr) -> Expr {
    scale(&Expr::unary(UnaryOp::Log, x.clone()), std::f64::consts::LOG2_E)
}

/// A number that is known when the formula is written, as a feature.
pub(crate) fn log_constant(x: f64) -> Expr {
    log_feature(&Expr::real(x))
}

pub(crate) fn flag(on: bool) -> Expr {
    Expr::real(f64::from(u8::from(on)))
}

/// `select(condition, 1, 0)`.
pub(crate) fn indicator(condition: &Expr) -> Expr {
    Expr::select(condition.clone(), one(), zero())
}

/// The absolute value, left out where the sign is known.
pub(crate) fn abs(e: &Expr) -> Expr {
    let b = e.bounds(&Ranges::new());
    if b.lo >= 0.0 {
        e.clone()
    } else if b.hi <= 0.0 {
        mul(e, &Expr::real(-1.0))
    } else {
        Expr::unary(UnaryOp::Abs, e.clone())
    }
}

/// Whether a value cannot be zero, whatever the knobs are.
pub(crate) fn is_nonzero(e: &Expr) -> bool {
    let b = e.bounds(&Ranges::new());
    b.lo > 0.0 || b.hi < 0.0
}

/// The larger of two, without an operator where one is a literal zero and the other not negative.
pub(crate) fn larger(a: &Expr, b: &Expr) -> Expr {
    match (is_zero(a), is_zero(b)) {
        (true, _) => b.clone(),
        (_, true) => a.clone(),
        _ => a.max(b),
    }
}

pub(crate) fn divide(a: &Expr, b: &Expr) -> Expr {
    if is_zero(a) { zero() } else { real(a).div(b) }
}

/// The whole number at or above `a / b`.
pub(crate) fn ceil_quotient(a: &Expr, b: &Expr) -> Expr {
    if is_zero(a) { zero() } else { Expr::binary(BinaryOp::CeilDiv, real(a), b.clone()) }
}

pub(crate) fn product<'a>(factors: impl IntoIterator<Item = &'a Expr>) -> Expr {
    factors.into_iter().fold(one(), |p, f| mul(&p, f))
}

/// The expression with all loop variables zero: what is left depends on knobs only.
pub(crate) fn at_zero(e: &Expr) -> Expr {
    e.subst(&|s| (!s.is_knob()).then(|| Expr::int(0)))
}
