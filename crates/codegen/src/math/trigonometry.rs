//! Sine and cosine in f64: the operand minus a multiple of a quarter turn, then the series of either function.

use inkwell::IntPredicate;
use inkwell::values::InstructionOpcode;

use super::polynomial_f64;
use crate::ops::{Ops, V};

/// A quarter turn as a sum of two f64.
const QUARTER: (f64, f64) = (std::f64::consts::FRAC_PI_2, 6.123233995736766e-17);
/// Adding this to a small number leaves the nearest integer in the lowest bits.
const MAGIC: f64 = 6_755_399_441_055_744.0;
/// `(sin(r) - r) / r^3` as a series in `r^2`; within an eighth of a turn the next term is below 1e-11.
const SINE: [f64; 5] = [-1.0 / 6.0, 1.0 / 120.0, -1.0 / 5040.0, 1.0 / 362_880.0, -1.0 / 39_916_800.0];
/// `cos(r)` as a series in `r^2`.
const COSINE: [f64; 7] =
    [1.0, -0.5, 1.0 / 24.0, -1.0 / 720.0, 1.0 / 40320.0, -1.0 / 3_628_800.0, 1.0 / 479_001_600.0];

/// Emits `sin(x)`.
pub fn sin<'c>(o: &Ops<'c>, x: V<'c>) -> V<'c> {
    turned(o, x, 0)
}

/// Emits `cos(x)`.
pub fn cos<'c>(o: &Ops<'c>, x: V<'c>) -> V<'c> {
    turned(o, x, 1)
}

/// The sine a number of quarter turns further on.
fn turned<'c>(o: &Ops<'c>, x: V<'c>, quarters: i64) -> V<'c> {
    let x = o.cast(InstructionOpcode::FPExt, x, o.ctx.f64_type().into());
    let shifted = o.fma(x, o.f64_like(std::f64::consts::FRAC_2_PI, x), o.f64_like(MAGIC, x));
    let n = o.fsub(shifted, o.f64_like(MAGIC, x));
    let r = o.fma(n, o.f64_like(-QUARTER.0, x), x);
    let r = o.fma(n, o.f64_like(-QUARTER.1, x), r);
    let square = o.fmul(r, r);
    let sine = o.fma(o.fmul(square, r), polynomial_f64(o, square, &SINE), r);
    let cosine = polynomial_f64(o, square, &COSINE);
    let bits = o.bitcast(shifted, o.i64().into());
    let quadrant = o.add(bits, o.int_of(bits.get_type(), quarters));
    let zero = bits.get_type().const_zero();
    let bit = |which: i64| o.icmp(IntPredicate::NE, o.and(quadrant, o.int_of(bits.get_type(), which)), zero);
    let y = o.select(bit(1), cosine, sine);
    let y = o.select(bit(2), o.fneg(y), y);
    o.cast(InstructionOpcode::FPTrunc, y, o.ctx.f32_type().into())
}
