//! Normalisations.

use super::args::{Args, Kind, broadcasts_to};
use crate::element::ElementType;
use crate::error::OpError;
use crate::tensor::TensorType;

/// Layer normalisation: the result, and in `f32` the mean and the inverse standard deviation.
pub(super) fn layer(args: &Args, axis: usize) -> Result<Vec<TensorType>, OpError> {
    args.arity(2, 3)?;
    let x = scaled(args, axis, 1..3)?;
    let mut statistics = x.shape.clone();
    statistics[axis..].fill(1);
    let statistics = TensorType::new(ElementType::F32, statistics);
    Ok(vec![x, statistics.clone(), statistics])
}

pub(super) fn rms(args: &Args, axis: usize) -> Result<TensorType, OpError> {
    args.arity(2, 2)?;
    scaled(args, axis, 1..2)
}

/// Checks that further inputs fit the normalised axes of the first.
fn scaled(args: &Args, axis: usize, further: std::ops::Range<usize>) -> Result<TensorType, OpError> {
    args.kind(0, Kind::Float)?;
    let x = args.axis(0, axis)?;
    for input in further {
        args.element(input, x.element)?;
        if let Some(ty) = args.maybe(input) {
            let inner = &x.shape[axis..];
            args.require(input, broadcasts_to(&ty.shape, inner), || {
                format!("a shape that broadcasts to {inner:?}")
            })?;
        }
    }
    Ok(x.clone())
}

pub(super) fn lrn(args: &Args, size: usize) -> Result<TensorType, OpError> {
    args.arity(1, 1)?;
    let x = args.kind(0, Kind::Float)?;
    args.require(0, x.shape.len() >= 2, || "of rank 2 or more")?;
    args.ensure(size > 0, || "the size is zero")?;
    Ok(x.clone())
}
