//! Reductions, and operators along one axis.

use super::args::{Args, Kind};
use crate::element::ElementType;
use crate::error::OpError;
use crate::op::{ArgReduce, Reduce, ReduceKind};
use crate::tensor::TensorType;

pub(super) fn reduce(args: &Args, reduce: &Reduce) -> Result<TensorType, OpError> {
    args.arity(1, 1)?;
    let x = match reduce.kind {
        ReduceKind::Max | ReduceKind::Min => args.get(0)?,
        _ => args.kind(0, Kind::Number)?,
    };
    let axes = &reduce.axes;
    let ascending = axes.windows(2).all(|pair| pair[0] < pair[1]);
    args.ensure(ascending && axes.last().is_none_or(|&last| last < x.shape.len()), || {
        format!("the axes {axes:?} must be ascending axes of {x}")
    })?;
    Ok(TensorType::new(x.element, without(&x.shape, axes, reduce.keep)))
}

/// A shape with axes removed, or left with extent one.
fn without(shape: &[usize], axes: &[usize], keep: bool) -> Vec<usize> {
    let extents = shape.iter().enumerate();
    extents
        .filter_map(|(i, &extent)| match (axes.contains(&i), keep) {
            (false, _) => Some(extent),
            (true, true) => Some(1),
            (true, false) => None,
        })
        .collect()
}

pub(super) fn arg_reduce(args: &Args, reduce: &ArgReduce) -> Result<TensorType, OpError> {
    args.arity(1, 1)?;
    args.kind(0, Kind::Number)?;
    let x = args.axis(0, reduce.axis)?;
    args.require(0, x.shape[reduce.axis] > 0, || format!("of an extent above zero on axis {}", reduce.axis))?;
    Ok(TensorType::new(ElementType::I64, without(&x.shape, &[reduce.axis], reduce.keep)))
}

pub(super) fn top_k(args: &Args, axis: usize, k: usize) -> Result<Vec<TensorType>, OpError> {
    args.arity(1, 1)?;
    args.kind(0, Kind::Number)?;
    let x = args.axis(0, axis)?;
    args.require(0, k <= x.shape[axis], || format!("of {k} elements or more on axis {axis}"))?;
    let mut shape = x.shape.clone();
    shape[axis] = k;
    Ok(vec![TensorType::new(x.element, shape.clone()), TensorType::new(ElementType::I64, shape)])
}

/// An operator along an axis whose result has the type of its input.
pub(super) fn along(args: &Args, axis: usize, kind: Kind) -> Result<TensorType, OpError> {
    args.arity(1, 1)?;
    args.kind(0, kind)?;
    Ok(args.axis(0, axis)?.clone())
}
