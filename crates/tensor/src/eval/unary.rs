//! Functions of one element.

use super::Call;
use crate::dispatch::{dispatch_float, dispatch_int};
use crate::element::Element;
use crate::error::OpError;
use crate::number::Number;
use crate::op::Unary;
use crate::tensor::Tensor;

pub(super) fn evaluate(call: &Call, unary: Unary) -> Result<Tensor, OpError> {
    let x = call.get(0)?;
    let shape = x.shape().to_vec();
    match unary {
        Unary::Identity => Ok(x.clone()),
        Unary::Not => Ok(Tensor::from_bools(shape, x.values::<u8>().iter().map(|&v| v == 0))),
        Unary::IsNan => Ok(test(x, f64::is_nan)),
        Unary::IsInf { negative, positive } => {
            Ok(test(x, |v| (positive && v == f64::INFINITY) || (negative && v == f64::NEG_INFINITY)))
        }
        _ => Ok(dispatch_float!(
            x.element(), T => Tensor::new(shape, floats::<T>(unary, &x.values::<T>())),
            else dispatch_int!(x.element(), T => Tensor::with_element(
                x.element(),
                shape,
                ints::<T>(unary, &x.values::<T>()),
            ))
        )),
    }
}

/// A truth value of every element of a floating-point tensor.
fn test(x: &Tensor, f: impl Fn(f64) -> bool) -> Tensor {
    let truths: Vec<bool> = dispatch_float!(
        x.element(), T => x.values::<T>().iter().map(|v| f(Element::to_f64(*v))).collect(),
        else vec![false; x.len()]
    );
    Tensor::from_bools(x.shape(), truths)
}

/// Computes in `f64` and rounds to the element type.
fn floats<T: Element>(unary: Unary, x: &[T]) -> Vec<T> {
    fn map<T: Element>(x: &[T], f: impl Fn(f64) -> f64) -> Vec<T> {
        x.iter().map(|v| T::from_f64(f(v.to_f64()))).collect()
    }
    macro_rules! functions {
        ($($pattern:pat => $f:expr,)*) => {
            match unary { $($pattern => map(x, $f),)* }
        };
    }
    functions! {
        Unary::Identity | Unary::Not | Unary::BitNot | Unary::IsNan | Unary::IsInf { .. } => |v| v,
        Unary::Abs => f64::abs,
        Unary::Neg => |v| -v,
        Unary::Sign => |v| if v == 0.0 || v.is_nan() { v } else { v.signum() },
        Unary::Reciprocal => |v| 1.0 / v,
        Unary::Sqrt => f64::sqrt,
        Unary::Exp => f64::exp,
        Unary::Log => f64::ln,
        Unary::Ceil => f64::ceil,
        Unary::Floor => f64::floor,
        Unary::Round => f64::round_ties_even,
        Unary::Sin => f64::sin,
        Unary::Cos => f64::cos,
        Unary::Tan => f64::tan,
        Unary::Asin => f64::asin,
        Unary::Acos => f64::acos,
        Unary::Atan => f64::atan,
        Unary::Sinh => f64::sinh,
        Unary::Cosh => f64::cosh,
        Unary::Tanh => f64::tanh,
        Unary::Asinh => libm::asinh,
        Unary::Acosh => libm::acosh,
        Unary::Atanh => libm::atanh,
        Unary::Erf => libm::erf,
        Unary::Relu => |v| if v < 0.0 { 0.0 } else { v },
        Unary::Sigmoid => sigmoid,
        Unary::Softplus => softplus,
        Unary::Softsign => |v| v / (1.0 + v.abs()),
        Unary::Mish => |v| v * softplus(v).tanh(),
        Unary::HardSwish => |v| v * (v / 6.0 + 0.5).clamp(0.0, 1.0),
        Unary::LeakyRelu { alpha } => |v| if v < 0.0 { f64::from(alpha) * v } else { v },
        Unary::ThresholdedRelu { alpha } => |v| if v > f64::from(alpha) { v } else { 0.0 },
        Unary::Elu { alpha } => |v| if v < 0.0 { f64::from(alpha) * v.exp_m1() } else { v },
        Unary::Celu { alpha } => |v| {
            if v < 0.0 { f64::from(alpha) * (v / f64::from(alpha)).exp_m1() } else { v }
        },
        Unary::Selu { alpha, gamma } => |v| {
            f64::from(gamma) * if v > 0.0 { v } else { f64::from(alpha) * v.exp_m1() }
        },
        Unary::HardSigmoid { alpha, beta } => |v| (f64::from(alpha) * v + f64::from(beta)).clamp(0.0, 1.0),
        Unary::Gelu { tanh: false } => |v| 0.5 * v * libm::erfc(-v * std::f64::consts::FRAC_1_SQRT_2),
        Unary::Gelu { tanh: true } => |v| {
            let inner = (2.0 / std::f64::consts::PI).sqrt() * (v + 0.044715 * v * v * v);
            0.5 * v * (1.0 + inner.tanh())
        },
        Unary::Swish { alpha } => |v| v * sigmoid(f64::from(alpha) * v),
        Unary::Shrink { bias, lambda } => |v| shrink(v, f64::from(bias), f64::from(lambda)),
        Unary::Clip { min, max } => |v| {
            let v = min.map_or(v, |min| if v < min { min } else { v });
            max.map_or(v, |max| if v > max { max } else { v })
        },
    }
}

/// A function of one number, for the activations of recurrent layers.
pub(super) fn float_function(unary: Unary, v: f64) -> f64 {
    match unary {
        Unary::Tanh => v.tanh(),
        Unary::Sigmoid => sigmoid(v),
        Unary::Relu => v.max(0.0),
        _ => floats(unary, &[v])[0],
    }
}

/// `1 / (1 + e^-v)`.
fn sigmoid(v: f64) -> f64 {
    1.0 / (1.0 + (-v).exp())
}

/// `ln(1 + e^v)`, without overflow.
fn softplus(v: f64) -> f64 {
    v.max(0.0) + (-v.abs()).exp().ln_1p()
}

fn shrink(v: f64, bias: f64, lambda: f64) -> f64 {
    if v < -lambda {
        v + bias
    } else if v > lambda {
        v - bias
    } else {
        0.0
    }
}

/// The functions that integers have, wrapping around.
fn ints<T: Number + Bits>(unary: Unary, x: &[T]) -> Vec<T> {
    fn map<T: Number>(x: &[T], f: impl Fn(T) -> T) -> Vec<T> {
        x.iter().map(|v| f(*v)).collect()
    }
    match unary {
        Unary::Abs => map(x, |v| if v < T::ZERO { T::ZERO.sub(v) } else { v }),
        Unary::Neg => map(x, |v| T::ZERO.sub(v)),
        Unary::Sign => map(x, |v| {
            if v > T::ZERO {
                T::ONE
            } else if v < T::ZERO {
                T::ZERO.sub(T::ONE)
            } else {
                v
            }
        }),
        Unary::BitNot => map(x, Bits::not),
        Unary::Relu => map(x, |v| v.maximum(T::ZERO)),
        Unary::Shrink { bias, lambda } => {
            map(x, |v| T::from_f64(shrink(v.to_f64(), f64::from(bias), f64::from(lambda))))
        }
        Unary::Clip { min, max } => {
            let (min, max) = (min.map_or(T::LOWEST, T::from_f64), max.map_or(T::HIGHEST, T::from_f64));
            map(x, |v| v.maximum(min).minimum(max))
        }
        _ => x.to_vec(),
    }
}

/// Bit patterns of integers.
pub(super) trait Bits: Copy {
    fn not(self) -> Self;
    fn and(self, other: Self) -> Self;
    fn or(self, other: Self) -> Self;
    fn xor(self, other: Self) -> Self;
    /// Shifted left; by the width or more gives zero.
    fn shl(self, by: Self) -> Self;
    /// Shifted right, keeping the sign.
    fn shr(self, by: Self) -> Self;
}

macro_rules! bits {
    ($($type:ty),*) => {$(
        impl Bits for $type {
            fn not(self) -> $type {
                !self
            }
            fn and(self, other: $type) -> $type {
                self & other
            }
            fn or(self, other: $type) -> $type {
                self | other
            }
            fn xor(self, other: $type) -> $type {
                self ^ other
            }
            fn shl(self, by: $type) -> $type {
                u32::try_from(by).ok().and_then(|by| self.checked_shl(by)).unwrap_or(0)
            }
            fn shr(self, by: $type) -> $type {
                #[allow(unused_comparisons)]
                let emptied = if self < 0 { !0 } else { 0 };
                u32::try_from(by).ok().and_then(|by| self.checked_shr(by)).unwrap_or(emptied)
            }
        }
    )*};
}
bits!(i8, i16, i32, i64, u8, u16, u32, u64);
