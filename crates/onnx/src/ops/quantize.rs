//! Quantised values: `QuantizeLinear`, `DequantizeLinear`, `DynamicQuantizeLinear`, `QLinearConv`, `QLinearMatMul`.

use talweg_graph::ValueId;
use talweg_tensor::op::{Binary, Quantize, ReduceKind, Unary};
use talweg_tensor::{ElementType, Op};

use super::conv;
use super::{Entry, entry};
use crate::call::{Call, Outputs, axis, size};
use crate::error::Failure;

pub(super) const ENTRIES: &[Entry] = &[
    entry("DequantizeLinear", 10, dequantize),
    entry("DynamicQuantizeLinear", 11, dynamic),
    entry("QLinearConv", 10, q_linear_conv),
    entry("QLinearMatMul", 10, q_linear_matmul),
    entry("QuantizeLinear", 10, quantize),
];

/// The attributes, and scale and zero point with one element as scalars.
fn linear(
    call: &mut Call,
    x: ValueId,
    scale: ValueId,
    zero_point: Option<ValueId>,
    to: ElementType,
) -> Result<(Quantize, Vec<Option<ValueId>>), Failure> {
    let block = size(call.int_or("block_size", 0)?, "`block_size`")?;
    let (rank, given) = (call.rank(x), call.int_or("axis", 1)?);
    if call.builder.ty(scale).len() == 1 && block == 0 {
        let scale = call.builder.reshape(scale, vec![])?;
        let zero_point = match zero_point {
            Some(zero_point) => Some(call.builder.reshape(zero_point, vec![])?),
            None => None,
        };
        return Ok((Quantize { axis: 0, block: 0, to }, vec![Some(x), Some(scale), zero_point]));
    }
    let axis = axis(given, rank)?;
    Ok((Quantize { axis, block, to }, vec![Some(x), Some(scale), zero_point]))
}

fn quantize(call: &mut Call) -> Outputs {
    let (x, scale) = (call.input(0)?, call.input(1)?);
    let zero_point = call.optional(2);
    let to = match (zero_point, call.element_attribute("output_dtype")) {
        (Some(zero_point), _) => call.element(zero_point),
        (None, Ok(Some(to))) => to,
        (None, _) if call.int_or("output_dtype", 0)? == 0 => ElementType::U8,
        (None, Err(failure)) => return Err(failure),
        (None, Ok(None)) => ElementType::U8,
    };
    let (attributes, inputs) = linear(call, x, scale, zero_point, to)?;
    Ok(vec![call.builder.one_of(Op::Quantize(attributes), &inputs)?])
}

fn dequantize(call: &mut Call) -> Outputs {
    let (x, scale) = (call.input(0)?, call.input(1)?);
    let to = match call.int_or("output_dtype", 0)? {
        0 => call.element(scale),
        _ => call.element_attribute("output_dtype")?.unwrap_or(call.element(scale)),
    };
    let zero_point = call.optional(2);
    let (attributes, inputs) = linear(call, x, scale, zero_point, to)?;
    Ok(vec![call.builder.one_of(Op::Dequantize(attributes), &inputs)?])
}

/// To `u8`, with scale and zero point from the range of the data.
fn dynamic(call: &mut Call) -> Outputs {
    let x = call.input(0)?;
    let axes: Vec<usize> = (0..call.rank(x)).collect();
    let builder = &mut *call.builder;
    let zero = builder.scalar_like(x, 0.0);
    let range = builder.scalar_like(x, 255.0);
    let low = builder.reduce(ReduceKind::Min, x, axes.clone(), false)?;
    let low = builder.binary(Binary::Min, low, zero)?;
    let high = builder.reduce(ReduceKind::Max, x, axes, false)?;
    let high = builder.binary(Binary::Max, high, zero)?;
    let width = builder.sub(high, low)?;
    let scale = builder.div(width, range)?;
    let offset = builder.div(low, scale)?;
    let offset = builder.sub(zero, offset)?;
    let offset = builder.unary(Unary::Clip { min: Some(0.0), max: Some(255.0) }, offset)?;
    let offset = builder.unary(Unary::Round, offset)?;
    let zero_point = builder.cast(offset, ElementType::U8)?;
    let op = Op::Quantize(Quantize { axis: 0, block: 0, to: ElementType::U8 });
    let y = builder.one(op, &[x, scale, zero_point])?;
    Ok(vec![y, scale, zero_point])
}

/// Integers of an accumulator to the output: `quantize(cast(sums) * factor)`.
fn requantize(
    call: &mut Call,
    sums: ValueId,
    factor: ValueId,
    scale: ValueId,
    zero_point: ValueId,
) -> Outputs {
    let to = call.element(zero_point);
    let sums = call.builder.cast(sums, ElementType::F32)?;
    let factor = call.builder.cast(factor, ElementType::F32)?;
    let scale = call.builder.cast(scale, ElementType::F32)?;
    let real = call.builder.mul(sums, factor)?;
    let scale = call.builder.reshape(scale, vec![])?;
    let zero_point = call.builder.reshape(zero_point, vec![])?;
    let op = Op::Quantize(Quantize { axis: 0, block: 0, to });
    Ok(vec![call.builder.one(op, &[real, scale, zero_point])?])
}

fn q_linear_conv(call: &mut Call) -> Outputs {
    let (x, x_scale, x_zero) = (call.input(0)?, call.input(1)?, call.input(2)?);
    let (w, w_scale, w_zero) = (call.input(3)?, call.input(4)?, call.input(5)?);
    let (y_scale, y_zero) = (call.input(6)?, call.input(7)?);
    let attributes = conv::attributes(call, x, w)?;
    let mut sums = call.builder.one(Op::ConvInteger(attributes), &[x, w, x_zero, w_zero])?;
    let rank = call.rank(x);
    let column = |call: &mut Call, value: ValueId| {
        let len = call.builder.ty(value).len();
        let mut shape = vec![1; rank - 1];
        shape[0] = len;
        call.builder.reshape(value, shape)
    };
    if let Some(bias) = call.optional(8) {
        let bias = column(call, bias)?;
        sums = call.builder.add(sums, bias)?;
    }
    let x_scale = call.builder.reshape(x_scale, vec![])?;
    let w_scale = column(call, w_scale)?;
    let factor = call.builder.mul(w_scale, x_scale)?;
    requantize(call, sums, factor, y_scale, y_zero)
}

fn q_linear_matmul(call: &mut Call) -> Outputs {
    let (a, a_scale, a_zero) = (call.input(0)?, call.input(1)?, call.input(2)?);
    let (b, b_scale, b_zero) = (call.input(3)?, call.input(4)?, call.input(5)?);
    let (y_scale, y_zero) = (call.input(6)?, call.input(7)?);
    let per_row = |call: &mut Call, value: ValueId| match call.shape(value).as_slice() {
        [1] => call.builder.reshape(value, vec![]),
        [rows] if *rows > 1 => call.builder.reshape(value, vec![*rows, 1]),
        _ => Ok(value),
    };
    let a_scale = per_row(call, a_scale)?;
    let a_zero = per_row(call, a_zero)?;
    let scalar = |call: &mut Call, value: ValueId| match call.shape(value).as_slice() {
        [1] => call.builder.reshape(value, vec![]),
        _ => Ok(value),
    };
    let b_scale = scalar(call, b_scale)?;
    let b_zero = scalar(call, b_zero)?;
    let sums = call.builder.one(Op::MatMulInteger, &[a, b, a_zero, b_zero])?;
    let a_scale = call.builder.cast(a_scale, ElementType::F32)?;
    let b_scale = call.builder.cast(b_scale, ElementType::F32)?;
    let factor = call.builder.mul(a_scale, b_scale)?;
    requantize(call, sums, factor, y_scale, y_zero)
}
