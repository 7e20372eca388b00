//! The meaning of every operation on single values: floats as f64, integers and truth values as i64.

use half::{bf16, f16};

use crate::dtype::DType;
use crate::scalar::{ArithOp, MathOp, Reducer};

/// The integer as the element type holds it: wrapped at its width, `Bool` 0 or 1.
#[inline(always)]
pub(crate) fn wrap(v: i64, dtype: DType) -> i64 {
    match dtype {
        DType::I8 => i64::from(v as i8),
        DType::U8 => i64::from(v as u8),
        DType::I32 => i64::from(v as i32),
        DType::Bool => i64::from(v != 0),
        _ => v,
    }
}

/// The real number as the float type holds it.
#[inline(always)]
pub(crate) fn round(v: f64, dtype: DType) -> f64 {
    match dtype {
        DType::F16 => f16::from_f64(v).to_f64(),
        DType::BF16 => bf16::from_f64(v).to_f64(),
        _ => f64::from(v as f32),
    }
}

/// Float to integer: truncated towards zero and saturated, 0 for NaN; `Bool` is whether it is not zero.
#[inline(always)]
pub(crate) fn to_int(v: f64, dtype: DType) -> i64 {
    match dtype {
        DType::I8 => i64::from(v as i8),
        DType::U8 => i64::from(v as u8),
        DType::I32 => i64::from(v as i32),
        DType::Bool => i64::from(v != 0.0),
        _ => v as i64,
    }
}

/// A function of one float.
pub(crate) fn unary_float(op: MathOp, v: f64) -> f64 {
    match op {
        MathOp::Neg => -v,
        MathOp::Abs => v.abs(),
        MathOp::Exp => v.exp(),
        MathOp::Log => v.ln(),
        MathOp::Sqrt => v.sqrt(),
        MathOp::Rsqrt => 1.0 / v.sqrt(),
        MathOp::Tanh => v.tanh(),
        MathOp::Sigmoid => 1.0 / (1.0 + (-v).exp()),
        MathOp::Erf => erf(v),
        MathOp::Sin => v.sin(),
        MathOp::Cos => v.cos(),
        MathOp::Floor => v.floor(),
        MathOp::Ceil => v.ceil(),
        MathOp::Round => v.round_ties_even(),
        MathOp::Not => f64::from(u8::from(v == 0.0)),
    }
}

/// Whether the function is defined on integers (`Not`: on truth values).
pub(crate) fn takes_int(op: MathOp) -> bool {
    matches!(op, MathOp::Neg | MathOp::Abs | MathOp::Floor | MathOp::Ceil | MathOp::Round | MathOp::Not)
}

/// A function of one integer, before wrapping; rounding leaves integers as they are.
#[inline(always)]
pub(crate) fn unary_int(op: MathOp, v: i64) -> i64 {
    match op {
        MathOp::Neg => v.wrapping_neg(),
        MathOp::Abs => v.wrapping_abs(),
        MathOp::Not => i64::from(v == 0),
        _ => v,
    }
}

/// A function of two floats that gives a float.
#[inline(always)]
pub(crate) fn binary_float(op: ArithOp, a: f64, b: f64) -> f64 {
    match op {
        ArithOp::Add => a + b,
        ArithOp::Sub => a - b,
        ArithOp::Mul => a * b,
        ArithOp::Div => a / b,
        ArithOp::Rem => a % b,
        ArithOp::Max => a.max(b),
        ArithOp::Min => a.min(b),
        ArithOp::Pow => a.powf(b),
        _ => f64::from(u8::from(compare_values(op, a, b))),
    }
}

/// A function of two integers, before wrapping; predicates give 0 or 1.
#[inline(always)]
pub(crate) fn binary_int(op: ArithOp, a: i64, b: i64) -> i64 {
    match op {
        ArithOp::Add => a.wrapping_add(b),
        ArithOp::Sub => a.wrapping_sub(b),
        ArithOp::Mul => a.wrapping_mul(b),
        ArithOp::Div if b == 0 => 0,
        ArithOp::Div => a.wrapping_div(b),
        ArithOp::Rem if b == 0 => 0,
        ArithOp::Rem => a.wrapping_rem(b),
        ArithOp::Max => a.max(b),
        ArithOp::Min => a.min(b),
        ArithOp::Pow => power(a, b),
        ArithOp::And => i64::from(a != 0 && b != 0),
        ArithOp::Or => i64::from(a != 0 || b != 0),
        _ => i64::from(compare_values(op, a, b)),
    }
}

/// A comparison.
#[inline(always)]
pub(crate) fn compare_values<T: PartialOrd>(op: ArithOp, a: T, b: T) -> bool {
    match op {
        ArithOp::Lt => a < b,
        ArithOp::Le => a <= b,
        ArithOp::Eq => a == b,
        _ => a != b,
    }
}

/// Integer power, wrapping; a negative exponent gives the truncated reciprocal.
fn power(base: i64, exponent: i64) -> i64 {
    if exponent < 0 {
        return match base {
            1 => 1,
            -1 => 1 - 2 * (exponent & 1),
            _ => 0,
        };
    }
    let (mut square, mut left, mut out) = (base, exponent, 1i64);
    while left > 0 {
        if left & 1 == 1 {
            out = out.wrapping_mul(square);
        }
        square = square.wrapping_mul(square);
        left >>= 1;
    }
    out
}

/// What a float reduction starts from.
pub(crate) fn start_float(reducer: Reducer) -> f64 {
    match reducer {
        Reducer::Sum => 0.0,
        Reducer::Prod => 1.0,
        Reducer::Max => f64::NEG_INFINITY,
        Reducer::Min => f64::INFINITY,
    }
}

/// What an integer reduction starts from.
pub(crate) fn start_int(reducer: Reducer, dtype: DType) -> i64 {
    match reducer.identity(dtype) {
        crate::scalar::Scalar::Int(v, _) => v,
        _ => 0,
    }
}

/// The error function to about 1e-15: a power series of positive terms near zero, a continued fraction of the
/// complement farther out.
pub(crate) fn erf(x: f64) -> f64 {
    let a = x.abs();
    if x.is_nan() || a > 6.0 {
        return if x.is_nan() { x } else { x.signum() };
    }
    let gauss = (-a * a).exp();
    let magnitude = if a < 2.5 {
        // erf(a) = 2/sqrt(pi) exp(-a^2) sum a (2 a^2)^n / (1 3 5 .. (2 n + 1))
        let (mut term, mut sum, mut odd) = (a, a, 3.0);
        while term > sum * 1e-17 {
            term *= 2.0 * a * a / odd;
            sum += term;
            odd += 2.0;
        }
        std::f64::consts::FRAC_2_SQRT_PI * gauss * sum
    } else {
        // erfc(a) = exp(-a^2)/sqrt(pi) / (a + (1/2)/(a + (2/2)/(a + (3/2)/(a + ..))))
        let mut tail = a;
        for n in (1..60).rev() {
            tail = a + f64::from(n) / 2.0 / tail;
        }
        1.0 - gauss * std::f64::consts::FRAC_2_SQRT_PI / 2.0 / tail
    };
    magnitude.copysign(x)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_function_values() {
        // Reference values to 16 digits.
        let known = [
            (0.0, 0.0),
            (0.1, 0.112_462_916_018_284_9),
            (0.5, 0.520_499_877_813_046_5),
            (1.0, 0.842_700_792_949_714_9),
            (2.0, 0.995_322_265_018_952_7),
            (3.0, 0.999_977_909_503_001_4),
        ];
        for (x, y) in known {
            assert!((erf(x) - y).abs() < 2e-15, "erf({x}) = {}", erf(x));
            assert!((erf(-x) + y).abs() < 2e-15);
        }
        assert!((erf(2.499_999_999) - erf(2.500_000_001)).abs() < 1e-10);
        assert_eq!(erf(40.0), 1.0);
        assert!(erf(f64::NAN).is_nan());
    }

    #[test]
    fn integer_edges() {
        assert_eq!(binary_int(ArithOp::Div, -7, 2), -3);
        assert_eq!(binary_int(ArithOp::Rem, -7, 2), -1);
        assert_eq!(binary_int(ArithOp::Div, 5, 0), 0);
        assert_eq!(binary_int(ArithOp::Rem, 5, 0), 0);
        assert_eq!(binary_int(ArithOp::Div, i64::MIN, -1), i64::MIN);
        assert_eq!(binary_int(ArithOp::Pow, 3, 4), 81);
        assert_eq!(binary_int(ArithOp::Pow, -1, -3), -1);
        assert_eq!(binary_int(ArithOp::Pow, 2, -1), 0);
        assert_eq!(wrap(200, DType::I8), -56);
        assert_eq!(wrap(-1, DType::U8), 255);
        assert_eq!(wrap(7, DType::Bool), 1);
        assert_eq!(to_int(300.7, DType::U8), 255);
        assert_eq!(to_int(-300.7, DType::I8), -128);
        assert_eq!(to_int(f64::NAN, DType::I32), 0);
        assert_eq!(to_int(-2.9, DType::I64), -2);
    }
}
