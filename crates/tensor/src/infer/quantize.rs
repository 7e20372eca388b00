//! Linear quantisation.

use super::args::{Args, Kind};
use crate::element::ElementType;
use crate::error::OpError;
use crate::op::Quantize;
use crate::tensor::TensorType;

pub(super) fn quantize(args: &Args, quantize: &Quantize) -> Result<TensorType, OpError> {
    args.arity(2, 3)?;
    let x = args.get(0)?;
    args.require(0, x.element.is_float() || x.element == ElementType::I32, || "of a float type or i32")?;
    let small = quantize.to.is_int() && quantize.to.bytes() <= 2;
    args.ensure(small, || format!("{} is not an integer type of 8 or 16 bits", quantize.to))?;
    args.element(2, quantize.to)?;
    scales(args, quantize)?;
    Ok(TensorType::new(quantize.to, x.shape.clone()))
}

pub(super) fn dequantize(args: &Args, quantize: &Quantize) -> Result<TensorType, OpError> {
    args.arity(2, 3)?;
    let x = args.kind(0, Kind::Int)?;
    args.ensure(quantize.to.is_float(), || format!("{} is not a floating-point type", quantize.to))?;
    args.element(2, x.element)?;
    scales(args, quantize)?;
    Ok(TensorType::new(quantize.to, x.shape.clone()))
}

/// Checks that scales and zero points fit: one for all, one for each position of the axis, or one for each block.
fn scales(args: &Args, quantize: &Quantize) -> Result<(), OpError> {
    let x = args.get(0)?;
    let scale = args.kind(1, Kind::Float)?;
    args.shape(2, &scale.shape)?;
    if scale.len() == 1 && quantize.block == 0 {
        return Ok(());
    }
    args.axis(0, quantize.axis)?;
    let extent = x.shape[quantize.axis];
    if quantize.block == 0 {
        return args.shape(1, &[extent]);
    }
    let mut shape = x.shape.clone();
    shape[quantize.axis] = extent.div_ceil(quantize.block);
    args.shape(1, &shape)
}
