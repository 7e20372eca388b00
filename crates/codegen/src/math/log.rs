//! `log(x) = e ln 2 + log(m)` with `x = m 2^e` and `m` between the square roots of one half and of two.

use inkwell::FloatPredicate;
use inkwell::values::InstructionOpcode;

use super::polynomial;
use crate::ops::{Ops, V};

/// `(log(1 + f) - f + f^2 / 2) / f^3`, minimax for the relative error of `log(1 + f)`.
const REST: [f64; 8] = [
    0.3333333134651184,
    -0.250008225440979,
    0.20001226663589478,
    -0.16623355448246002,
    0.1420176774263382,
    -0.13160210847854614,
    0.12761515378952026,
    -0.07634343951940536,
];
/// `ln 2`, the first part with so few bits that its product with an exponent is exact.
const LN2: (f64, f64) = (0.693359375, std::f64::consts::LN_2 - 0.693359375);
/// The bits of the square root of one half.
const HALF_ROOT: i32 = 0x3f35_04f3;

/// Emits `log(x)`.
pub fn log<'c>(o: &Ops<'c>, x: V<'c>) -> V<'c> {
    let (int, real) = (o.ctx.i32_type().into(), o.ctx.f32_type().into());
    // Denormal operands are scaled by 2^23 first.
    let tiny = o.fcmp(FloatPredicate::OLT, x, o.f32_like(f64::from(f32::MIN_POSITIVE), x));
    let scaled = o.select(tiny, o.fmul(x, o.f32_like(8_388_608.0, x)), x);
    let shift = o.select(tiny, o.f32_like(-23.0, x), o.f32_like(0.0, x));
    let bits = o.bitcast(scaled, int);
    let e = o.binary(InstructionOpcode::AShr, o.sub(bits, o.i32_like(HALF_ROOT, x)), o.i32_like(23, x));
    let m = o.sub(bits, o.binary(InstructionOpcode::Shl, e, o.i32_like(23, x)));
    let e = o.fadd(o.cast(InstructionOpcode::SIToFP, e, real), shift);
    let f = o.fsub(o.bitcast(m, real), o.f32_like(1.0, x));
    let p = polynomial(o, f, &REST);
    let q = o.fma(p, f, o.f32_like(-0.5, x));
    let low = o.fma(q, o.fmul(f, f), o.fmul(e, o.f32_like(LN2.1, x)));
    let y = o.fma(e, o.f32_like(LN2.0, x), o.fadd(f, low));
    // Infinity and NaN are their own logarithms.
    let infinity = o.f32_like(f64::INFINITY, x);
    let y = o.select(o.fcmp(FloatPredicate::UGE, x, infinity), x, y);
    let y = o.select(o.fcmp(FloatPredicate::OLT, x, o.f32_like(0.0, x)), o.f32_like(f64::NAN, x), y);
    o.select(o.fcmp(FloatPredicate::OEQ, x, o.f32_like(0.0, x)), o.fneg(infinity), y)
}
