//! Math functions of f32, written out as polynomials so that they work on vectors of any length without calls.
//!
//! Largest error over dense sweeps of inputs (`tests/math.rs`), in units in the last place of the exact result:
//!
//! | function | error | notes |
//! |---|---|---|
//! | `exp` | 1 | results below the smallest normal number are 0 |
//! | `log` | 1 | denormal operands too |
//! | `sigmoid` | 3 | results below the smallest normal number are 0 |
//! | `tanh` | 6 | never beyond 1 |
//! | `erf` | 7 | never beyond 1 |
//! | `sin`, `cos` | 1 | operands up to 2^30; beyond, values in -1..1 without meaning |
//! | `pow` | 1 | computed in f64 |
//! | `sqrt` | 0.5 | one instruction |
//! | `rsqrt` | 1.5 | one over it, no approximation |
//! | `floor`, `ceil`, `round`, `abs`, `neg` | 0 | one instruction |
//!
//! Infinities and NaN give what IEEE 754 recommends. Operands of f16 and bf16 are computed in f32.

mod erf;
mod exp;
mod log;
mod power;
mod sigmoid;
mod tanh;
mod trigonometry;

use inkwell::FloatPredicate;
use talweg_ir::MathOp;

use crate::emitter::Emitter;
use crate::ops::{Ops, V};

impl<'c, 'p> Emitter<'c, 'p> {
    /// A function of one f32 operand, scalar or vector.
    pub fn math(&mut self, op: MathOp, x: V<'c>) -> V<'c> {
        let o = &self.o;
        let native = |name: &'static str| o.intrinsic(name, x.get_type(), &[x]);
        match op {
            MathOp::Neg => o.fneg(x),
            MathOp::Abs => native("llvm.fabs"),
            MathOp::Sqrt => native("llvm.sqrt"),
            MathOp::Rsqrt => o.fdiv(o.f32_like(1.0, x), native("llvm.sqrt")),
            MathOp::Floor => native("llvm.floor"),
            MathOp::Ceil => native("llvm.ceil"),
            MathOp::Round => native("llvm.roundeven"),
            MathOp::Exp => exp::exp(o, x),
            MathOp::Log => log::log(o, x),
            MathOp::Sigmoid => sigmoid::sigmoid(o, x),
            MathOp::Tanh => tanh::tanh(o, x),
            MathOp::Erf => erf::erf(o, x),
            MathOp::Sin => trigonometry::sin(o, x),
            MathOp::Cos => trigonometry::cos(o, x),
            MathOp::Not => o.not(x),
        }
    }

    /// `a` to the power of `b`.
    pub fn power(&mut self, a: V<'c>, b: V<'c>) -> V<'c> {
        power::power(&self.o, a, b)
    }
}

/// `c[0] + c[1] * x + c[2] * x^2 ..` in f32.
fn polynomial<'c>(o: &Ops<'c>, x: V<'c>, coefficients: &[f64]) -> V<'c> {
    let mut terms = coefficients.iter().rev().map(|c| o.f32_like(*c, x));
    let first = terms.next().unwrap_or_else(|| o.f32_like(0.0, x));
    terms.fold(first, |sum, c| o.fma(sum, x, c))
}

/// `c[0] + c[1] * x + c[2] * x^2 ..` in f64.
fn polynomial_f64<'c>(o: &Ops<'c>, x: V<'c>, coefficients: &[f64]) -> V<'c> {
    let mut terms = coefficients.iter().rev().map(|c| o.f64_like(*c, x));
    let first = terms.next().unwrap_or_else(|| o.f64_like(0.0, x));
    terms.fold(first, |sum, c| o.fma(sum, x, c))
}

/// `x` limited to `-limit..limit`; NaN stays.
fn clamp<'c>(o: &Ops<'c>, x: V<'c>, limit: f64) -> V<'c> {
    let (low, high) = (o.f32_like(-limit, x), o.f32_like(limit, x));
    let x = o.select(o.fcmp(FloatPredicate::OLT, high, x), high, x);
    o.select(o.fcmp(FloatPredicate::OGT, low, x), low, x)
}

/// An odd function as `x * P(x^2) / Q(x^2)`, limited to -1..1.
fn odd_rational<'c>(o: &Ops<'c>, x: V<'c>, limit: f64, p: &[f64], q: &[f64]) -> V<'c> {
    let x = clamp(o, x, limit);
    let square = o.fmul(x, x);
    let above = o.fmul(x, polynomial(o, square, p));
    let below = polynomial(o, square, q);
    clamp(o, o.fdiv(above, below), 1.0)
}
