//! Gathering and scattering by indices.

use super::args::{Args, Kind};
use crate::error::OpError;
use crate::tensor::TensorType;

pub(super) fn gather(args: &Args, axis: usize) -> Result<TensorType, OpError> {
    args.arity(2, 2)?;
    let x = args.axis(0, axis)?;
    let indices = args.kind(1, Kind::Index)?;
    let shape = [&x.shape[..axis], &indices.shape, &x.shape[axis + 1..]].concat();
    Ok(TensorType::new(x.element, shape))
}

pub(super) fn gather_elements(args: &Args, axis: usize) -> Result<TensorType, OpError> {
    args.arity(2, 2)?;
    let x = args.axis(0, axis)?;
    let indices = args.kind(1, Kind::Index)?;
    element_indices(args, x, axis)?;
    Ok(TensorType::new(x.element, indices.shape.clone()))
}

/// Checks indices that stand for single elements along an axis: at most as long as `x` on the others.
fn element_indices(args: &Args, x: &TensorType, axis: usize) -> Result<(), OpError> {
    let indices = args.kind(1, Kind::Index)?;
    let fits = indices.shape.len() == x.shape.len()
        && indices.shape.iter().zip(&x.shape).enumerate().all(|(k, (i, x))| k == axis || i <= x);
    args.require(1, fits, || format!("of the rank of {x} and no longer on axes other than {axis}"))
}

/// The shape of the slices that tuples of indices choose, with the axes of the tuples before it.
fn nd_shape(args: &Args, batch_dims: usize) -> Result<Vec<usize>, OpError> {
    let x = args.get(0)?;
    let indices = args.kind(1, Kind::Index)?;
    let rank = indices.shape.len();
    args.require(1, rank > batch_dims, || format!("of a rank above {batch_dims}"))?;
    args.require(0, x.shape.len() >= batch_dims, || format!("of rank {batch_dims} or more"))?;
    args.require(1, indices.shape[..batch_dims] == x.shape[..batch_dims], || {
        format!("of the same {batch_dims} leading extents as {x}")
    })?;
    let length = indices.shape[rank - 1];
    args.require(1, length <= x.shape.len() - batch_dims, || {
        format!("tuples no longer than {x} has axes behind the first {batch_dims}")
    })?;
    Ok([&indices.shape[..rank - 1], &x.shape[batch_dims + length..]].concat())
}

pub(super) fn gather_nd(args: &Args, batch_dims: usize) -> Result<TensorType, OpError> {
    args.arity(2, 2)?;
    Ok(TensorType::new(args.get(0)?.element, nd_shape(args, batch_dims)?))
}

pub(super) fn scatter_nd(args: &Args) -> Result<TensorType, OpError> {
    args.arity(3, 3)?;
    let x = args.get(0)?;
    args.element(2, x.element)?;
    args.shape(2, &nd_shape(args, 0)?)?;
    Ok(x.clone())
}

pub(super) fn scatter_elements(args: &Args, axis: usize) -> Result<TensorType, OpError> {
    args.arity(3, 3)?;
    let x = args.axis(0, axis)?;
    element_indices(args, x, axis)?;
    args.element(2, x.element)?;
    args.shape(2, &args.get(1)?.shape)?;
    Ok(x.clone())
}

pub(super) fn one_hot(args: &Args, axis: usize, depth: usize) -> Result<TensorType, OpError> {
    args.arity(2, 2)?;
    let indices = args.kind(0, Kind::Number)?;
    args.require(0, axis <= indices.shape.len(), || format!("of rank {axis} (the new axis) or more"))?;
    args.shape(1, &[2])?;
    let mut shape = indices.shape.clone();
    shape.insert(axis, depth);
    Ok(TensorType::new(args.get(1)?.element, shape))
}

/// Checks the input; the number of positions depends on the data.
pub(super) fn non_zero(args: &Args) -> Result<Vec<TensorType>, OpError> {
    args.arity(1, 1)?;
    args.get(0)?;
    Err(args.data_dependent())
}

/// Checks the inputs; the number of slices depends on the data.
pub(super) fn compress(args: &Args, axis: Option<usize>) -> Result<Vec<TensorType>, OpError> {
    args.arity(2, 2)?;
    let x = args.get(0)?;
    let condition = args.kind(1, Kind::Bool)?;
    let extent = match axis {
        Some(axis) => args.axis(0, axis)?.shape[axis],
        None => x.len(),
    };
    let fits = condition.shape.len() == 1 && condition.shape[0] <= extent;
    args.require(1, fits, || format!("of rank 1 with at most {extent} elements"))?;
    Err(args.data_dependent())
}
