//! `x^y = exp(y log(x))` in f64, which has the digits to spare that the product with `y` costs.

use inkwell::values::InstructionOpcode;
use inkwell::{FloatPredicate, IntPredicate};

use super::polynomial_f64;
use crate::ops::{Ops, V, splat_constant};

/// `log((1 + s) / (1 - s)) / (2 s)` as a series in `s^2`.
const LOG: [f64; 9] =
    [1.0, 1.0 / 3.0, 1.0 / 5.0, 1.0 / 7.0, 1.0 / 9.0, 1.0 / 11.0, 1.0 / 13.0, 1.0 / 15.0, 1.0 / 17.0];
/// `exp(r)` as a series.
const EXP: [f64; 11] = [
    1.0,
    1.0,
    1.0 / 2.0,
    1.0 / 6.0,
    1.0 / 24.0,
    1.0 / 120.0,
    1.0 / 720.0,
    1.0 / 5040.0,
    1.0 / 40320.0,
    1.0 / 362_880.0,
    1.0 / 3_628_800.0,
];
/// Adding this to a small number leaves the nearest integer in the lowest bits.
const MAGIC: f64 = 6_755_399_441_055_744.0;
/// The bits of the square root of one half.
const HALF_ROOT: i64 = 0x3fe6_a09e_667f_3bcd;

/// Emits `x^y`; small constant exponents become multiplications and roots.
pub fn power<'c>(o: &Ops<'c>, x: V<'c>, y: V<'c>) -> V<'c> {
    let root = |v: V<'c>| o.intrinsic("llvm.sqrt", v.get_type(), &[v]);
    let one = o.f32_like(1.0, x);
    match splat_constant(y) {
        Some(1.0) => return x,
        Some(2.0) => return o.fmul(x, x),
        Some(3.0) => return o.fmul(o.fmul(x, x), x),
        Some(-1.0) => return o.fdiv(one, x),
        Some(0.5) => return root(x),
        Some(-0.5) => return o.fdiv(one, root(x)),
        _ => {}
    }
    let (x, y) = o.unify(x, y);
    let double = o.ctx.f64_type().into();
    let wide = |v: V<'c>| o.cast(InstructionOpcode::FPExt, v, double);
    let (base, exponent) = (wide(x), wide(y));
    let magnitude = o.intrinsic("llvm.fabs", base.get_type(), &[base]);
    let product = o.fmul(exponent, logarithm(o, magnitude));
    let positive = exponential(o, product);

    // A negative base: an odd exponent gives a negative result, one that is no integer gives NaN.
    let floor = |v: V<'c>| o.intrinsic("llvm.floor", v.get_type(), &[v]);
    let half = o.fmul(exponent, o.f64_like(0.5, exponent));
    let whole = o.fcmp(FloatPredicate::OEQ, floor(exponent), exponent);
    let odd = o.and(whole, o.fcmp(FloatPredicate::UNE, floor(half), half));
    let negative = o.select(odd, o.fneg(positive), positive);
    let zero = o.f64_like(0.0, base);
    let infinite = o.fcmp(FloatPredicate::OEQ, magnitude, o.f64_like(f64::INFINITY, base));
    let defined = o.or(o.or(whole, infinite), o.fcmp(FloatPredicate::OEQ, base, zero));
    let negative = o.select(defined, negative, o.f64_like(f64::NAN, base));
    let bits = o.bitcast(base, o.i64().into());
    let below = o.icmp(IntPredicate::SLT, bits, bits.get_type().const_zero());
    let result = o.select(below, negative, positive);

    // 1^y and x^0 are 1 whatever the other operand is.
    let unit = o.f64_like(1.0, base);
    let trivial = o.or(o.fcmp(FloatPredicate::OEQ, exponent, zero), o.fcmp(FloatPredicate::OEQ, base, unit));
    let result = o.select(trivial, unit, result);
    o.cast(InstructionOpcode::FPTrunc, result, o.ctx.f32_type().into())
}

/// The logarithm of a number that is not negative.
fn logarithm<'c>(o: &Ops<'c>, x: V<'c>) -> V<'c> {
    let int = o.i64().into();
    let bits = o.bitcast(x, int);
    let like = |v: i64| o.int_of(bits.get_type(), v);
    let e = o.binary(InstructionOpcode::AShr, o.sub(bits, like(HALF_ROOT)), like(52));
    let m = o.bitcast(o.sub(bits, o.binary(InstructionOpcode::Shl, e, like(52))), o.ctx.f64_type().into());
    let one = o.f64_like(1.0, x);
    let s = o.fdiv(o.fsub(m, one), o.fadd(m, one));
    let series = polynomial_f64(o, o.fmul(s, s), &LOG);
    let log = o.fmul(o.fadd(s, s), series);
    let narrow = o.cast(InstructionOpcode::Trunc, e, o.ctx.i32_type().into());
    let e = o.cast(InstructionOpcode::SIToFP, narrow, o.ctx.f64_type().into());
    let y = o.fma(e, o.f64_like(std::f64::consts::LN_2, x), log);
    let infinity = o.f64_like(f64::INFINITY, x);
    let y = o.select(o.fcmp(FloatPredicate::UGE, x, infinity), x, y);
    o.select(o.fcmp(FloatPredicate::OEQ, x, o.f64_like(0.0, x)), o.fneg(infinity), y)
}

/// The exponential, for a result that will be rounded to f32.
fn exponential<'c>(o: &Ops<'c>, x: V<'c>) -> V<'c> {
    let (low, high) = (o.f64_like(-200.0, x), o.f64_like(200.0, x));
    let x = o.select(o.fcmp(FloatPredicate::OLT, high, x), high, x);
    let x = o.select(o.fcmp(FloatPredicate::OGT, low, x), low, x);
    let shifted = o.fma(x, o.f64_like(std::f64::consts::LOG2_E, x), o.f64_like(MAGIC, x));
    let n = o.fsub(shifted, o.f64_like(MAGIC, x));
    let r = o.fma(n, o.f64_like(-std::f64::consts::LN_2, x), x);
    let p = polynomial_f64(o, r, &EXP);
    let int = o.i64().into();
    let bits = o.bitcast(shifted, int);
    let grow = o.binary(InstructionOpcode::Shl, bits, o.int_of(bits.get_type(), 52));
    let y = o.bitcast(o.add(o.bitcast(p, int), grow), o.ctx.f64_type().into());
    o.select(o.fcmp(FloatPredicate::UNO, x, x), x, y)
}
