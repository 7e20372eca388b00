//! Linear quantisation.

use super::Call;
use crate::element::ElementType;
use crate::error::OpError;
use crate::op::Quantize;
use crate::tensor::Tensor;

/// For every element of `x` the position of its scale.
fn scale_positions(x: &Tensor, scale: &Tensor, quantize: &Quantize) -> impl Fn(usize) -> usize {
    let single = scale.len() == 1;
    let axis = quantize.axis.min(x.shape().len().saturating_sub(1));
    let extent = x.shape().get(axis).copied().unwrap_or(1).max(1);
    let inner: usize = x.shape().iter().skip(axis + 1).product::<usize>().max(1);
    let block = quantize.block;
    let blocks = if block == 0 { extent } else { extent.div_ceil(block) };
    move |i| {
        let (column, position, row) = (i % inner, i / inner % extent, i / inner / extent);
        match (single, block) {
            (true, _) => 0,
            (false, 0) => position,
            (false, block) => (row * blocks + position / block) * inner + column,
        }
    }
}

/// The smallest and the largest value of an integer type.
fn range(element: ElementType) -> (f64, f64) {
    match element {
        ElementType::I8 => (-128.0, 127.0),
        ElementType::U8 => (0.0, 255.0),
        ElementType::I16 => (-32768.0, 32767.0),
        _ => (0.0, 65535.0),
    }
}

pub(super) fn quantize(call: &Call, quantize: &Quantize) -> Result<Tensor, OpError> {
    let (x, scale) = (call.get(0)?, call.get(1)?);
    let at = scale_positions(x, scale, quantize);
    let zeros = call.maybe(2).map(Tensor::to_f64);
    let scales = scale.to_f64();
    let (low, high) = range(quantize.to);
    let double = x.element() == ElementType::F64;
    let quantized = |(i, v): (usize, f64)| {
        let scale = scales[at(i)];
        let quotient = if double { v / scale } else { f64::from(v as f32 / scale as f32) };
        let zero = zeros.as_ref().map_or(0.0, |zeros| zeros[at(i)]);
        (quotient.round_ties_even() + zero).clamp(low, high)
    };
    Ok(Tensor::from_f64(quantize.to, x.shape(), x.to_f64().into_iter().enumerate().map(quantized)))
}

pub(super) fn dequantize(call: &Call, quantize: &Quantize) -> Result<Tensor, OpError> {
    let (x, scale) = (call.get(0)?, call.get(1)?);
    let at = scale_positions(x, scale, quantize);
    let zeros = call.maybe(2).map(Tensor::to_i64);
    let scales = scale.to_f64();
    let restored = |(i, v): (usize, i64)| {
        let zero = zeros.as_ref().map_or(0, |zeros| zeros[at(i)]);
        v.wrapping_sub(zero) as f64 * scales[at(i)]
    };
    Ok(Tensor::from_f64(quantize.to, x.shape(), x.to_i64().into_iter().enumerate().map(restored)))
}
