//! Arithmetic that every element type has, as operators need it.

use half::{bf16, f16};

use crate::element::Element;

/// Numbers with the arithmetic of the operators: integers wrap around, and dividing them by zero gives zero; half
/// precision computes in `f32` and rounds.
pub(crate) trait Number: Element {
    /// What sums are accumulated in: wider for `f32` and half precision, the type itself otherwise.
    type Sum: Number;
    const ZERO: Self;
    const ONE: Self;
    /// The smallest value, minus infinity for floats.
    const LOWEST: Self;
    /// The largest value, infinity for floats.
    const HIGHEST: Self;
    fn widen(self) -> Self::Sum;
    fn narrow(sum: Self::Sum) -> Self;
    fn add(self, other: Self) -> Self;
    fn sub(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
    fn div(self, other: Self) -> Self;
    /// The remainder with the sign of the divisor.
    fn rem_floor(self, other: Self) -> Self;
    /// The remainder with the sign of the dividend.
    fn rem_trunc(self, other: Self) -> Self;
    fn pow_float(self, exponent: f64) -> Self;
    fn pow_int(self, exponent: i64) -> Self;
    /// True for what is not a number.
    fn is_nan(self) -> bool;
    /// The larger; not a number if one of them is not.
    fn maximum(self, other: Self) -> Self {
        if self.is_nan() || self > other { self } else { other }
    }
    /// The smaller; not a number if one of them is not.
    fn minimum(self, other: Self) -> Self {
        if self.is_nan() || self < other { self } else { other }
    }
}

macro_rules! int_numbers {
    ($($type:ty),*) => {$(
        impl Number for $type {
            type Sum = $type;
            const ZERO: $type = 0;
            const ONE: $type = 1;
            const LOWEST: $type = <$type>::MIN;
            const HIGHEST: $type = <$type>::MAX;
            fn widen(self) -> $type {
                self
            }
            fn narrow(sum: $type) -> $type {
                sum
            }
            fn add(self, other: $type) -> $type {
                self.wrapping_add(other)
            }
            fn sub(self, other: $type) -> $type {
                self.wrapping_sub(other)
            }
            fn mul(self, other: $type) -> $type {
                self.wrapping_mul(other)
            }
            fn div(self, other: $type) -> $type {
                if other == 0 { 0 } else { self.wrapping_div(other) }
            }
            fn rem_floor(self, other: $type) -> $type {
                let rest = self.rem_trunc(other);
                #[allow(unused_comparisons)]
                let other_sign = rest != 0 && (rest < 0) != (other < 0);
                if other_sign { rest.wrapping_add(other) } else { rest }
            }
            fn rem_trunc(self, other: $type) -> $type {
                if other == 0 { 0 } else { self.wrapping_rem(other) }
            }
            fn pow_float(self, exponent: f64) -> $type {
                (self as f64).powf(exponent) as $type
            }
            fn pow_int(self, exponent: i64) -> $type {
                if exponent < 0 {
                    return self.pow_float(exponent as f64);
                }
                let (mut base, mut left, mut out) = (self, exponent, 1 as $type);
                while left > 0 {
                    if left & 1 == 1 {
                        out = out.wrapping_mul(base);
                    }
                    base = base.wrapping_mul(base);
                    left >>= 1;
                }
                out
            }
            fn is_nan(self) -> bool {
                false
            }
        }
    )*};
}
int_numbers!(i8, i16, i32, i64, u8, u16, u32, u64);

macro_rules! float_numbers {
    ($($type:ty),*) => {$(
        impl Number for $type {
            type Sum = f64;
            const ZERO: $type = 0.0;
            const ONE: $type = 1.0;
            const LOWEST: $type = <$type>::NEG_INFINITY;
            const HIGHEST: $type = <$type>::INFINITY;
            fn widen(self) -> f64 {
                self as f64
            }
            fn narrow(sum: f64) -> $type {
                sum as $type
            }
            fn add(self, other: $type) -> $type {
                self + other
            }
            fn sub(self, other: $type) -> $type {
                self - other
            }
            fn mul(self, other: $type) -> $type {
                self * other
            }
            fn div(self, other: $type) -> $type {
                self / other
            }
            fn rem_floor(self, other: $type) -> $type {
                let rest = self % other;
                if rest != 0.0 && (rest < 0.0) != (other < 0.0) { rest + other } else { rest }
            }
            fn rem_trunc(self, other: $type) -> $type {
                self % other
            }
            fn pow_float(self, exponent: f64) -> $type {
                (self as f64).powf(exponent) as $type
            }
            fn pow_int(self, exponent: i64) -> $type {
                self.pow_float(exponent as f64)
            }
            fn is_nan(self) -> bool {
                self.is_nan()
            }
        }
    )*};
}
float_numbers!(f32, f64);

macro_rules! half_numbers {
    ($($type:ty),*) => {$(
        impl Number for $type {
            type Sum = f32;
            const ZERO: $type = <$type>::ZERO;
            const ONE: $type = <$type>::ONE;
            const LOWEST: $type = <$type>::NEG_INFINITY;
            const HIGHEST: $type = <$type>::INFINITY;
            fn widen(self) -> f32 {
                self.to_f32()
            }
            fn narrow(sum: f32) -> $type {
                <$type>::from_f32(sum)
            }
            fn add(self, other: $type) -> $type {
                Self::narrow(self.widen() + other.widen())
            }
            fn sub(self, other: $type) -> $type {
                Self::narrow(self.widen() - other.widen())
            }
            fn mul(self, other: $type) -> $type {
                Self::narrow(self.widen() * other.widen())
            }
            fn div(self, other: $type) -> $type {
                Self::narrow(self.widen() / other.widen())
            }
            fn rem_floor(self, other: $type) -> $type {
                Self::narrow(self.widen().rem_floor(other.widen()))
            }
            fn rem_trunc(self, other: $type) -> $type {
                Self::narrow(self.widen() % other.widen())
            }
            fn pow_float(self, exponent: f64) -> $type {
                Self::from_f64(Element::to_f64(self).powf(exponent))
            }
            fn pow_int(self, exponent: i64) -> $type {
                self.pow_float(exponent as f64)
            }
            fn is_nan(self) -> bool {
                <$type>::is_nan(self)
            }
        }
    )*};
}
half_numbers!(f16, bf16);

/// What an element converts to, directly: no detour that would round twice or lose bits of 64-bit integers.
pub(crate) trait Cast: Element {
    fn f32(self) -> f32;
    fn i8(self) -> i8;
    fn i16(self) -> i16;
    fn i32(self) -> i32;
    fn i64(self) -> i64;
    fn u8(self) -> u8;
    fn u16(self) -> u16;
    fn u32(self) -> u32;
    fn u64(self) -> u64;
}

macro_rules! casts {
    ($($type:ty: |$v:ident| $prim:expr),*) => {$(
        impl Cast for $type {
            casts!(@each $v, $prim, f32 i8 i16 i32 i64 u8 u16 u32 u64);
        }
    )*};
    (@each $v:ident, $prim:expr, $($to:ident)*) => {$(
        fn $to(self) -> $to {
            let $v = self;
            $prim as $to
        }
    )*};
}
casts!(
    f32: |v| v, f64: |v| v, i8: |v| v, i16: |v| v, i32: |v| v, i64: |v| v, u8: |v| v, u16: |v| v, u32: |v| v,
    u64: |v| v, f16: |v| v.to_f32(), bf16: |v| v.to_f32()
);

/// A type that elements convert to: integers wrap around, floats truncate towards zero and saturate.
pub(crate) trait CastFrom: Element {
    fn cast_from<S: Cast>(source: S) -> Self;
}

macro_rules! cast_targets {
    ($($type:ident),*) => {$(
        impl CastFrom for $type {
            fn cast_from<S: Cast>(source: S) -> $type {
                source.$type()
            }
        }
    )*};
}
cast_targets!(f32, i8, i16, i32, i64, u8, u16, u32, u64);

impl CastFrom for f64 {
    fn cast_from<S: Cast>(source: S) -> f64 {
        source.to_f64()
    }
}

impl CastFrom for f16 {
    fn cast_from<S: Cast>(source: S) -> f16 {
        f16::from_f64(source.to_f64())
    }
}

impl CastFrom for bf16 {
    fn cast_from<S: Cast>(source: S) -> bf16 {
        bf16::from_f64(source.to_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_wrap_and_do_not_trap() {
        assert_eq!(i8::MIN.div(-1), i8::MIN);
        assert_eq!(Number::div(5i32, 0), 0);
        assert_eq!((-7i32).rem_floor(3), 2);
        assert_eq!(7i32.rem_floor(-3), -2);
        assert_eq!((-7i32).rem_trunc(3), -1);
        assert_eq!(i64::MIN.rem_floor(-1), 0);
        assert_eq!(3i64.pow_int(40), 3i64.wrapping_pow(40));
        assert_eq!(2i32.pow_int(-1), 0);
    }

    #[test]
    fn casts_are_direct() {
        let odd = (1i64 << 60) + 1;
        assert_eq!(u64::cast_from(odd), odd as u64);
        assert_eq!(i8::cast_from(200i32), -56);
        assert_eq!(u8::cast_from(-3.7f32), 0);
        assert_eq!(i32::cast_from(-3.7f32), -3);
        let tie = (1i64 << 54) + (1 << 30) + 1;
        assert_eq!(f32::cast_from(tie), tie as f32);
    }

    #[test]
    fn extremes_keep_what_is_not_a_number() {
        assert!(Number::maximum(f32::NAN, 1.0).is_nan());
        assert!(Number::maximum(1.0f32, f32::NAN).is_nan());
        assert!(Number::minimum(f16::ONE, f16::NAN).is_nan());
    }
}
