//! Conversion between element types.

use super::Call;
use crate::dispatch::dispatch;
use crate::element::ElementType;
use crate::error::OpError;
use crate::number::{Cast, CastFrom};
use crate::tensor::Tensor;

pub(super) fn evaluate(call: &Call, to: ElementType) -> Result<Tensor, OpError> {
    let x = call.get(0)?;
    Ok(cast(x, to))
}

/// The elements of `x` as another type: integers wrap around, floats truncate towards zero and saturate, and
/// everything but zero is true.
pub(super) fn cast(x: &Tensor, to: ElementType) -> Tensor {
    if x.element() == to {
        return x.clone();
    }
    if to == ElementType::Bool {
        return dispatch!(x.element(), S => truths::<S>(x));
    }
    if x.element() == ElementType::Bool {
        let ones: Vec<u8> = x.values::<u8>().iter().map(|&v| u8::from(v != 0)).collect();
        return cast(&Tensor::new(x.shape(), ones), to);
    }
    dispatch!(x.element(), S => dispatch!(to, T => convert::<S, T>(x)))
}

fn convert<S: Cast, T: CastFrom>(x: &Tensor) -> Tensor {
    Tensor::new(x.shape(), x.values::<S>().iter().map(|&v| T::cast_from(v)).collect())
}

fn truths<S: Cast>(x: &Tensor) -> Tensor {
    Tensor::from_bools(x.shape(), x.values::<S>().iter().map(|v| v.to_f64() != 0.0))
}
