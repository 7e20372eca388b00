//! `erf(x)` as a rational function up to where it rounds to 1.

use super::odd_rational;
use crate::ops::{Ops, V};

/// Beyond this, the nearest f32 is 1.
const LIMIT: f64 = 3.92;
/// Minimax for the relative error on the whole range.
const ABOVE: [f64; 6] = [
    1.1283791065216064,
    0.19039389491081238,
    0.05274686589837074,
    0.0037650300655514,
    0.00028486171504482627,
    2.0500790469668573e-6,
];
const BELOW: [f64; 6] = [
    1.0,
    0.5020649433135986,
    0.11410374194383621,
    0.014968040399253368,
    0.0011623790487647057,
    3.8090536691015586e-5,
];

/// Emits `erf(x)`.
pub fn erf<'c>(o: &Ops<'c>, x: V<'c>) -> V<'c> {
    odd_rational(o, x, LIMIT, &ABOVE, &BELOW)
}
