//! `sigmoid(x) = 1 / (1 + exp(-x))`: the exponential overflows to infinity just where the result vanishes.

use super::exp::exp;
use crate::ops::{Ops, V};

/// Emits `sigmoid(x)`.
pub fn sigmoid<'c>(o: &Ops<'c>, x: V<'c>) -> V<'c> {
    let e = exp(o, o.fneg(x));
    let one = o.f32_like(1.0, x);
    o.fdiv(one, o.fadd(one, e))
}
