//! Smooth stand-ins for comparisons, selections, minima, rounded quotients and remainders.
//!
//! A [`Smoother`] turns an expression over integers into one that is differentiable wherever its symbols are real
//! numbers in their ranges. How far it strays from the exact value is set by a *width*, which is a symbol of the result:
//! descent starts wide and narrows without any formula being built again.
//!
//! | exact | smooth, with width `w` between 0 and 1 |
//! |---|---|
//! | `a < b` | `1/2 + d / sqrt((w s)^2 + (2 d)^2)` with `d = b - a - g`, `s = a + b + 1/2` (`s = 1` when a sign is unknown) |
//! | `a <= b` | the same with `d = b - a + g` |
//! | `a == b` | `(w s)^2 / ((w s)^2 + (4 (a - b))^2)` |
//! | `a && b`, `a \|\| b`, `not a` | `a b`, `a + b - a b`, `1 - a` |
//! | `select(c, a, b)` | a blend by `c` of `log(1 + a)` and `log(1 + b)`; of `a` and `b` when they may be negative |
//! | `min(a, b)` | `L + (p + q - sqrt((p - q)^2 + p q w^2 / 4)) / 2` with `p = a - L`, `q = b - L` above a common bound `L` |
//! | `max(a, b)` | the same with `+ sqrt` |
//! | `ceildiv(a, b)` | `q + (1 - w) (S(f) - f) / m` with `q = a / b`, `f = q % 1`, `m = 1 + w q^2 / 16` |
//! | `a // b`, `a % b` | `q - r` and `b r` with `r = f S(f) S(1 - f) / m`, where `S(x) = t^2 (3 - 2 t)`, `t = min(x / w, 1)` |
//! | `abs(a)` | `sqrt(a^2 + (w / 4)^2)` when the sign is unknown |
//!
//! The gap `g` is one half between whole numbers, so that equal ones are told apart from neighbours and not blended; it
//! is 0 otherwise. Rounded quotients are exact at exact multiples whatever the width; a ceiling is the real quotient at width 1.
//! Everything tends to the exact value at whole numbers when the width tends to 0, except where something is rounded
//! that is smoothed itself: an exact multiple moved by a trifle is rounded as if it were none.
//!
//! Interval bounds of the exact expression hold for the smooth one too, but for trifles at the ends, so logarithms and
//! divisions are guarded smoothly only where the exact operand may be zero or negative.

use std::collections::HashMap;

use crate::bounds::{Interval, Ranges};
use crate::node::{BinaryOp, Expr, Node, Ty, UnaryOp};
use crate::symbol::Symbol;

/// Operands of logarithms and divisors below this are guarded.
const GUARD: f64 = 1e-3;

/// Smooths expressions that share their parts.
pub struct Smoother {
    ranges: Ranges,
    width: Expr,
    /// The square of the width, its reciprocal, and one less the width.
    square: Expr,
    inverse: Expr,
    rest: Expr,
    memo: HashMap<Expr, Smooth>,
    bounds: HashMap<Expr, Interval>,
    whole: HashMap<Expr, bool>,
}

/// A smooth expression, and `log(1 + it)` where that is simpler.
#[derive(Clone)]
struct Smooth {
    value: Expr,
    log1p: Option<Expr>,
}

fn num(v: f64) -> Expr {
    Expr::real(v)
}

fn is(e: &Expr, v: f64) -> bool {
    match e.node() {
        Node::Int(x) => *x as f64 == v,
        Node::Real(x) => f64::from_bits(*x) == v,
        _ => false,
    }
}

/// A product as real numbers, without factors that are one.
fn mul(a: &Expr, b: &Expr) -> Expr {
    if is(a, 1.0) {
        b.clone()
    } else if is(b, 1.0) {
        a.clone()
    } else if is(a, 0.0) || is(b, 0.0) {
        num(0.0)
    } else {
        a.clone() * b
    }
}

/// A sum as real numbers, without summands that are zero.
fn add(a: &Expr, b: &Expr) -> Expr {
    if is(a, 0.0) {
        b.clone()
    } else if is(b, 0.0) {
        a.clone()
    } else {
        a.clone() + b
    }
}

fn sub(a: &Expr, b: &Expr) -> Expr {
    if a == b {
        return num(0.0);
    }
    add(a, &mul(b, &num(-1.0)))
}

fn sqrt(a: &Expr) -> Expr {
    Expr::unary(UnaryOp::Sqrt, a.clone())
}

fn log(a: &Expr) -> Expr {
    Expr::unary(UnaryOp::Log, a.clone())
}

/// A positive number, about `a` where `a` is positive: `(a + sqrt(a^2 + d)) / 2` with a small `d`, written as
/// `max(a, 0) + d / (|a| + sqrt(a^2 + d)) / 2` so that nothing cancels where `a` is negative.
fn guarded(a: &Expr) -> Expr {
    let d = 1e-4;
    let size = Expr::unary(UnaryOp::Abs, a.clone());
    let root = sqrt(&add(&mul(a, a), &num(d)));
    let rest = num(0.5 * d).div(add(&size, &root));
    add(&a.max(num(0.0)), &rest)
}

impl Smoother {
    /// Smooths under known ranges of the symbols, with the width as a symbol of its own.
    pub fn new(ranges: Ranges, width: &Symbol) -> Smoother {
        let width = num(1.0) * Expr::sym(width);
        Smoother {
            ranges,
            square: mul(&width, &width),
            inverse: num(1.0).div(&width),
            rest: sub(&num(1.0), &width),
            width,
            memo: HashMap::new(),
            bounds: HashMap::new(),
            whole: HashMap::new(),
        }
    }

    /// The smooth form of an expression. Truth values become numbers between 0 and 1.
    pub fn smooth(&mut self, e: &Expr) -> Expr {
        self.of(e).value
    }

    /// The smooth form of `log(lhs / rhs)`, positive where `lhs <= rhs` is violated: a penalty without units.
    pub fn violation(&mut self, lhs: &Expr, rhs: &Expr) -> Expr {
        let (l, r) = (self.positive(lhs), self.positive(rhs));
        sub(&log(&l), &log(&r))
    }

    fn bounds(&mut self, e: &Expr) -> Interval {
        e.bounds_in(&self.ranges, &mut self.bounds)
    }

    /// Whether an expression takes whole values only, whatever its type.
    fn is_whole(&mut self, e: &Expr) -> bool {
        if e.ty() != Ty::Real {
            return true;
        }
        if let Some(known) = self.whole.get(e) {
            return *known;
        }
        let out = match e.node() {
            Node::Real(v) => f64::from_bits(*v).fract() == 0.0,
            Node::Binary(BinaryOp::FloorDiv | BinaryOp::CeilDiv, ..) => true,
            Node::Binary(
                BinaryOp::Add | BinaryOp::Mul | BinaryOp::Min | BinaryOp::Max | BinaryOp::Mod,
                a,
                b,
            ) => self.is_whole(a) && self.is_whole(b),
            Node::Select(_, a, b) => self.is_whole(a) && self.is_whole(b),
            Node::Unary(UnaryOp::Abs, a) => self.is_whole(a),
            _ => false,
        };
        self.whole.insert(e.clone(), out);
        out
    }

    fn of(&mut self, e: &Expr) -> Smooth {
        if let Some(done) = self.memo.get(e) {
            return done.clone();
        }
        let plain = |value: Expr| Smooth { value, log1p: None };
        let out = match e.node() {
            Node::Int(v) => plain(num(*v as f64)),
            Node::Bool(v) => plain(num(f64::from(u8::from(*v)))),
            Node::Real(_) | Node::Sym(_) => plain(e.clone()),
            Node::Unary(op, a) => plain(self.unary(*op, a)),
            Node::Binary(op, a, b) => plain(self.binary(*op, a, b)),
            Node::Select(c, a, b) => self.select(c, a, b),
        };
        self.memo.insert(e.clone(), out.clone());
        out
    }

    /// The smooth form, guarded where the exact one may not be positive.
    fn positive(&mut self, e: &Expr) -> Expr {
        let value = self.smooth(e);
        let least = self.bounds(e).lo;
        self.above(value, least, e)
    }

    /// A value that is meant to be at least `least`. What smoothing did not touch is; the rest is held where it belongs,
    /// without a kink inside its range.
    fn above(&self, value: Expr, least: f64, exact: &Expr) -> Expr {
        if least < GUARD {
            guarded(&value)
        } else if value == *exact || value.height() == 0 {
            value
        } else {
            value.max(num(0.5 * least))
        }
    }

    fn unary(&mut self, op: UnaryOp, a: &Expr) -> Expr {
        match op {
            UnaryOp::Not => sub(&num(1.0), &self.smooth(a)),
            UnaryOp::Log => {
                if let Node::Binary(BinaryOp::Add, x, one) = a.node()
                    && is(one, 1.0)
                {
                    return self.log1p(x);
                }
                log(&self.positive(a))
            }
            UnaryOp::Exp => Expr::unary(op, self.smooth(a)),
            UnaryOp::Sqrt => sqrt(&self.positive(a)),
            UnaryOp::Abs => {
                let (value, bounds) = (self.smooth(a), self.bounds(a));
                if bounds.lo >= 0.0 {
                    value
                } else if bounds.hi <= 0.0 {
                    mul(&value, &num(-1.0))
                } else {
                    sqrt(&add(&mul(&value, &value), &mul(&self.square, &num(1.0 / 16.0))))
                }
            }
        }
    }

    /// `log(1 + x)` of the smooth form of `x`.
    fn log1p(&mut self, x: &Expr) -> Expr {
        let smooth = self.of(x);
        if let Some(known) = smooth.log1p {
            return known;
        }
        let least = self.bounds(x).lo + 1.0;
        let sum = add(&smooth.value, &num(1.0));
        let exact = if smooth.value == *x { sum.clone() } else { x.clone() };
        log(&self.above(sum, least, &exact))
    }

    fn select(&mut self, c: &Expr, a: &Expr, b: &Expr) -> Smooth {
        let weight = self.smooth(c);
        if is(&weight, 0.0) {
            return self.of(b);
        } else if is(&weight, 1.0) {
            return self.of(a);
        }
        if self.bounds(a).lo < 0.0 || self.bounds(b).lo < 0.0 {
            let (a, b) = (self.smooth(a), self.smooth(b));
            return Smooth { value: add(&b, &mul(&weight, &sub(&a, &b))), log1p: None };
        }
        // Indicators need no logarithms.
        let flag = |e: &Expr| is(e, 0.0) || is(e, 1.0);
        if flag(a) && flag(b) {
            let value = if is(a, 1.0) { weight } else { sub(&num(1.0), &weight) };
            return Smooth { value, log1p: None };
        }
        let (a, b) = (self.log1p(a), self.log1p(b));
        let blend = add(&b, &mul(&weight, &sub(&a, &b)));
        let value = add(&Expr::unary(UnaryOp::Exp, blend.clone()), &num(-1.0));
        Smooth { value, log1p: Some(blend) }
    }

    fn binary(&mut self, op: BinaryOp, a: &Expr, b: &Expr) -> Expr {
        match op {
            BinaryOp::Add => add(&self.smooth(a), &self.smooth(b)),
            BinaryOp::Mul => mul(&self.smooth(a), &self.smooth(b)),
            BinaryOp::And => mul(&self.smooth(a), &self.smooth(b)),
            BinaryOp::Or => {
                let (a, b) = (self.smooth(a), self.smooth(b));
                sub(&add(&a, &b), &mul(&a, &b))
            }
            BinaryOp::Div => {
                let a = self.smooth(a);
                a.div(self.positive(b))
            }
            BinaryOp::Pow => {
                let a = self.positive(a);
                Expr::binary(op, a, self.smooth(b))
            }
            BinaryOp::CeilDiv => self.ceiling(a, b),
            BinaryOp::FloorDiv => self.floor(a, b),
            BinaryOp::Mod => self.modulus(a, b),
            BinaryOp::Min | BinaryOp::Max => self.extreme(op, a, b),
            BinaryOp::Lt => self.less(a, b, -0.5),
            BinaryOp::Le => self.less(a, b, 0.5),
            BinaryOp::Eq => self.equal(a, b),
            BinaryOp::Ne => sub(&num(1.0), &self.equal(a, b)),
        }
    }

    /// What differences are measured by: the operands' size, or one when they may be negative.
    fn scale(&mut self, a: &Expr, b: &Expr) -> Option<Expr> {
        let known = self.bounds(a).lo >= 0.0 && self.bounds(b).lo >= 0.0;
        known.then(|| add(&add(&self.smooth(a), &self.smooth(b)), &num(0.5)))
    }

    /// The square of the width in units of the scale.
    fn spread(&mut self, a: &Expr, b: &Expr) -> Expr {
        match self.scale(a, b) {
            Some(s) => mul(&self.square, &mul(&s, &s)),
            None => self.square.clone(),
        }
    }

    fn less(&mut self, a: &Expr, b: &Expr, gap: f64) -> Expr {
        let decided = |i: Interval| (i.lo == i.hi).then_some(i.lo);
        let op = if gap < 0.0 { BinaryOp::Lt } else { BinaryOp::Le };
        let exact = Expr::binary(op, a.clone(), b.clone());
        if let Some(v) = decided(self.bounds(&exact)) {
            return num(v);
        }
        let gap = if self.is_whole(a) && self.is_whole(b) { gap } else { 0.0 };
        let d = add(&sub(&self.smooth(b), &self.smooth(a)), &num(gap));
        let spread = self.spread(a, b);
        let root = sqrt(&add(&spread, &mul(&mul(&d, &d), &num(4.0))));
        add(&d.div(&root), &num(0.5))
    }

    fn equal(&mut self, a: &Expr, b: &Expr) -> Expr {
        let d = sub(&self.smooth(a), &self.smooth(b));
        let spread = self.spread(a, b);
        let all = add(&spread, &mul(&mul(&d, &d), &num(16.0)));
        spread.div(&all)
    }

    fn extreme(&mut self, op: BinaryOp, a: &Expr, b: &Expr) -> Expr {
        let (x, y) = (self.bounds(a), self.bounds(b));
        let is_min = op == BinaryOp::Min;
        if x.hi <= y.lo {
            return self.smooth(if is_min { a } else { b });
        } else if y.hi <= x.lo {
            return self.smooth(if is_min { b } else { a });
        }
        let (p, q) = (self.smooth(a), self.smooth(b));
        if p == q {
            return p;
        }
        let sign = if is_min { -1.0 } else { 1.0 };
        // Above a common bound the width is relative; without one it is absolute. The bound is lowered a little, because
        // smooth operands may fall short of it by a trifle.
        let bound = x.lo.min(y.lo);
        let quarter = mul(&self.square, &num(0.25));
        let spread = if bound.is_finite() {
            let bound = bound - 0.02 * bound.abs().max(1.0);
            let product = mul(&add(&p, &num(-bound)), &add(&q, &num(-bound)));
            mul(&Expr::unary(UnaryOp::Abs, product), &quarter)
        } else {
            quarter
        };
        let d = sub(&p, &q);
        let root = sqrt(&add(&mul(&d, &d), &spread));
        mul(&add(&add(&p, &q), &mul(&root, &num(sign))), &num(0.5))
    }

    /// A constant where the bounds leave one value only.
    fn decided(&mut self, op: BinaryOp, a: &Expr, b: &Expr) -> Option<Expr> {
        let bounds = self.bounds(&Expr::binary(op, a.clone(), b.clone()));
        (bounds.lo == bounds.hi).then(|| num(bounds.lo))
    }

    /// From 0 to 1 while `x` goes from 0 to the width, level before and after.
    fn step(&self, x: &Expr) -> Expr {
        let t = mul(x, &self.inverse).min(num(1.0));
        mul(&mul(&t, &t), &add(&mul(&t, &num(-2.0)), &num(3.0)))
    }

    /// What jumps are divided by: one for small quotients, more for large ones, whose rounding is too fine to follow.
    fn many(&self, quotient: &Expr) -> Expr {
        let square = mul(quotient, quotient);
        add(&mul(&square, &mul(&self.width, &num(1.0 / 16.0))), &num(1.0))
    }

    fn ceiling(&mut self, a: &Expr, b: &Expr) -> Expr {
        if let Some(known) = self.decided(BinaryOp::CeilDiv, a, b) {
            return known;
        }
        let quotient = self.smooth(a).div(self.positive(b));
        let fraction = Expr::binary(BinaryOp::Mod, quotient.clone(), num(1.0));
        let jump = mul(&self.rest, &sub(&self.step(&fraction), &fraction));
        let jump = jump.div(self.many(&quotient));
        let out = add(&quotient, &jump);
        // A ceiling is at least the ceiling of the smallest quotient, which the real quotient is not.
        let bound = self.bounds(&Expr::binary(BinaryOp::CeilDiv, a.clone(), b.clone())).lo;
        let least = self.bounds(&Expr::binary(BinaryOp::Div, a.clone(), b.clone())).lo;
        if bound.is_finite() && bound > least {
            let x = add(&out, &num(-bound));
            let root = sqrt(&add(&mul(&x, &x), &mul(&self.square, &num(1.0 / 256.0))));
            return add(&mul(&add(&x, &root), &num(0.5)), &num(bound));
        }
        out
    }

    /// The quotient, and what rounding down takes off it: between 0 and its fraction.
    fn remainder(&mut self, a: &Expr, b: &Expr) -> (Expr, Expr) {
        let quotient = self.smooth(a).div(self.positive(b));
        let fraction = Expr::binary(BinaryOp::Mod, quotient.clone(), num(1.0));
        let ends = mul(&self.step(&fraction), &self.step(&sub(&num(1.0), &fraction)));
        let taken = mul(&fraction, &ends).div(self.many(&quotient));
        (quotient, taken)
    }

    fn floor(&mut self, a: &Expr, b: &Expr) -> Expr {
        if let Some(known) = self.decided(BinaryOp::FloorDiv, a, b) {
            return known;
        }
        let (quotient, taken) = self.remainder(a, b);
        sub(&quotient, &taken)
    }

    fn modulus(&mut self, a: &Expr, b: &Expr) -> Expr {
        if let Some(known) = self.decided(BinaryOp::Mod, a, b) {
            return known;
        }
        let taken = self.remainder(a, b).1;
        mul(&self.smooth(b), &taken)
    }

    /// The width, as the smooth formulas use it.
    pub fn width(&self) -> &Expr {
        &self.width
    }
}
