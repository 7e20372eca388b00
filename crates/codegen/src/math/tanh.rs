//! `tanh(x)` as a rational function up to where it rounds to 1.

use super::odd_rational;
use crate::ops::{Ops, V};

/// Beyond this, the nearest f32 is 1.
const LIMIT: f64 = 9.02;
/// Minimax for the relative error on the whole range.
const ABOVE: [f64; 7] = [
    1.0,
    0.13083158433437347,
    0.003103002207353711,
    1.1144250493089203e-5,
    -2.0183863469469543e-8,
    5.257690116611258e-11,
    -8.435731903592633e-14,
];
const BELOW: [f64; 4] = [1.0, 0.4641648530960083, 0.024491386488080025, 0.0002544751623645425];

/// Emits `tanh(x)`.
pub fn tanh<'c>(o: &Ops<'c>, x: V<'c>) -> V<'c> {
    odd_rational(o, x, LIMIT, &ABOVE, &BELOW)
}
