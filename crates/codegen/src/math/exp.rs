//! `exp(x) = 2^n exp(r)` with `n = round(x / ln 2)` and `r = x - n ln 2`, which lies within `ln 2 / 2` of zero.

use inkwell::FloatPredicate;
use inkwell::values::InstructionOpcode;

use super::polynomial;
use crate::ops::{Ops, V, lanes};

/// `(exp(r) - 1 - r) / r^2`, minimax on the range of `r` for the relative error of `exp(r)`.
const REST: [f64; 5] = [
    0.4999999403953552,
    0.1666651964187622,
    0.04166839271783829,
    0.008368780836462975,
    0.0013814462581649423,
];
/// `ln 2` as a sum of two f32.
const LN2: (f64, f64) = (0.6931471824645996, -1.9046542121259336e-9);
/// Adding this to a small number leaves the nearest integer in the lowest bits.
const MAGIC: f64 = 12_582_912.0;
/// The logarithms of the smallest normal and the largest number.
const RANGE: (f64, f64) = (-87.33654022216797, 88.72283172607422);

/// Beyond this the result is infinity.
const LIMIT: f64 = 105.0;

/// Emits `exp(x)`.
pub fn exp<'c>(o: &Ops<'c>, x: V<'c>) -> V<'c> {
    if o.scale_by_power && lanes(x) == 16 {
        // Results below the smallest normal number are 0: computing them, and computing with them, is many times slower.
        let below = o.fcmp(FloatPredicate::OLT, x, o.f32_like(RANGE.0, x));
        let limit = o.f32_like(LIMIT, x);
        let x = o.select(o.fcmp(FloatPredicate::OLT, limit, x), limit, x);
        let x = o.select(below, o.f32_like(0.0, x), x);
        let (n, _, p) = reduce(o, x);
        return o.select(below, o.f32_like(0.0, x), o.scale(p, n).unwrap_or(p));
    }
    let (_, shifted, p) = reduce(o, x);
    // The exponent grows by n; the lowest bits of `shifted` are n.
    let int = o.ctx.i32_type().into();
    let grow = o.binary(InstructionOpcode::Shl, o.bitcast(shifted, int), o.i32_like(23, x));
    let y = o.bitcast(o.add(o.bitcast(p, int), grow), o.ctx.f32_type().into());
    let above = o.fcmp(FloatPredicate::OGT, x, o.f32_like(RANGE.1, x));
    let y = o.select(above, o.f32_like(f64::INFINITY, x), y);
    // Below the range the result is 0; NaN stays NaN.
    let zero = o.f32_like(0.0, x);
    let small = o.select(o.fcmp(FloatPredicate::OGT, zero, x), zero, x);
    o.select(o.fcmp(FloatPredicate::ULT, x, o.f32_like(RANGE.0, x)), small, y)
}

/// `n`, `n` plus a large number whose lowest bits hold it, and `exp(r)`.
fn reduce<'c>(o: &Ops<'c>, x: V<'c>) -> (V<'c>, V<'c>, V<'c>) {
    let shifted = o.fma(x, o.f32_like(std::f64::consts::LOG2_E, x), o.f32_like(MAGIC, x));
    let n = o.fsub(shifted, o.f32_like(MAGIC, x));
    let r = o.fma(n, o.f32_like(-LN2.0, x), x);
    let r = o.fma(n, o.f32_like(-LN2.1, x), r);
    let [a, b, c, d, e] = REST;
    (n, shifted, polynomial(o, r, &[1.0, 1.0, a, b, c, d, e]))
}
