//! Logarithm and exponential without branches or calls, so that loops over them vectorise. Both are within 2 units in
//! the last place of the exact value over the whole range, with the usual values at infinities, zero and NaN.

/// The leading 21 bits of ln 2 (so that products with an exponent are exact), and the rest.
const LN2_HIGH: f64 = 0.6931467056274414;
const LN2_LOW: f64 = 4.7493250390316726e-07;

/// 2^52: a double at least this large holds a whole number in its low bits.
const WHOLE: f64 = 4_503_599_627_370_496.0;

const MANTISSA: u64 = (1 << 52) - 1;

/// The bits of the square root of one half, where mantissas are cut so that they lie around 1.
const CUT: u64 = std::f64::consts::FRAC_1_SQRT_2.to_bits();

/// The natural logarithm.
#[inline(always)]
pub(crate) fn ln(x: f64) -> f64 {
    // Subnormal numbers are brought into the normal range first.
    let tiny = x < f64::MIN_POSITIVE;
    let scaled = if tiny { x * (WHOLE * 4.0) } else { x };
    let shifted = scaled.to_bits().wrapping_add(1.0f64.to_bits() - CUT);
    let exponent = f64::from_bits((shifted >> 52) | WHOLE.to_bits()) - WHOLE;
    let exponent = exponent - if tiny { 1023.0 + 54.0 } else { 1023.0 };
    let m = f64::from_bits((shifted & MANTISSA).wrapping_add(CUT));
    // ln(1 + f) = 2 atanh(s) with s = f / (2 + f), |s| < 0.172; 2 s = f - s f keeps the leading term exact.
    let f = m - 1.0;
    let s = f / (2.0 + f);
    let z = s * s;
    let tail = 1.0 / 15.0 + z * (1.0 / 17.0 + z * (1.0 / 19.0 + z * (1.0 / 21.0)));
    let series = z * (1.0 / 3.0 + z * (1.0 / 5.0 + z * (1.0 / 7.0)));
    let middle = 1.0 / 9.0 + z * (1.0 / 11.0 + z * (1.0 / 13.0 + z * tail));
    let z2 = z * z;
    let series = series + z2 * z2 * middle;
    let value = exponent * LN2_HIGH + (f - (s * (f - 2.0 * series) - exponent * LN2_LOW));
    let value = if x == f64::INFINITY { x } else { value };
    let value = if x == 0.0 { f64::NEG_INFINITY } else { value };
    if x >= 0.0 { value } else { f64::NAN }
}

/// The natural exponential.
#[inline(always)]
pub(crate) fn exp(x: f64) -> f64 {
    let clamped = if x > 710.0 { 710.0 } else { x };
    let clamped = if clamped < -746.0 { -746.0 } else { clamped };
    // Adding and subtracting 1.5 * 2^52 rounds to the nearest whole number.
    let k = clamped * std::f64::consts::LOG2_E + 1.5 * WHOLE - 1.5 * WHOLE;
    let r = clamped - k * LN2_HIGH - k * LN2_LOW;
    let mut p = 1.0 / 6_227_020_800.0;
    for factorial in
        [479_001_600.0, 39_916_800.0, 3_628_800.0, 362_880.0, 40_320.0, 5_040.0, 720.0, 120.0, 24.0, 6.0, 2.0]
    {
        p = p * r + 1.0 / factorial;
    }
    let e = 1.0 + (r + r * r * p);
    // Two factors, because 2^k alone may lie outside the normal range.
    let half = k * 0.5 + 1.5 * WHOLE - 1.5 * WHOLE;
    e * power_of_two(half) * power_of_two(k - half)
}

/// 2^n for a whole number in the range of normal exponents.
#[inline(always)]
fn power_of_two(n: f64) -> f64 {
    f64::from_bits((n + 1023.0 + WHOLE).to_bits() << 52)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn near(found: f64, expected: f64) -> bool {
        let apart = (found.to_bits() as i64).abs_diff(expected.to_bits() as i64);
        found == expected || (found.is_nan() && expected.is_nan()) || apart <= 2
    }

    #[test]
    fn special_values() {
        for x in
            [0.0, -0.0, 1.0, -1.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, f64::MAX, 5e-324, 1e-310, 2.0]
        {
            assert!(near(ln(x), x.ln()), "ln({x}) = {}, expected {}", ln(x), x.ln());
            assert!(near(exp(x), x.exp()), "exp({x}) = {}, expected {}", exp(x), x.exp());
        }
        for x in [709.7, 709.79, -708.5, -745.0, -745.2, -746.5, 1e9, -1e9] {
            assert!(near(exp(x), x.exp()), "exp({x}) = {}, expected {}", exp(x), x.exp());
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 20_000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn as_the_library_computes_them(bits in any::<u64>(), y in -745.0f64..709.0, near_one in 0.5f64..2.0) {
            let x = f64::from_bits(bits);
            prop_assert!(near(ln(x), x.ln()), "ln({x:e}) = {}, expected {}", ln(x), x.ln());
            prop_assert!(near(ln(near_one), near_one.ln()), "ln({near_one}) = {}", ln(near_one));
            prop_assert!(near(exp(x), x.exp()), "exp({x:e}) = {}, expected {}", exp(x), x.exp());
            prop_assert!(near(exp(y), y.exp()), "exp({y}) = {}, expected {}", exp(y), y.exp());
        }
    }
}
