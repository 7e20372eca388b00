//! Reshaping, transposing, cutting, joining, repeating and padding.

use super::args::{Args, broadcasts_to};
use crate::error::OpError;
use crate::op::{PadMode, SliceAxis};
use crate::tensor::TensorType;

pub(super) fn reshape(args: &Args, shape: &[usize]) -> Result<TensorType, OpError> {
    args.arity(1, 1)?;
    let x = args.get(0)?;
    let count = shape.iter().try_fold(1usize, |count, &extent| count.checked_mul(extent));
    args.require(0, count == Some(x.len()), || format!("of as many elements as the new shape {shape:?}"))?;
    Ok(TensorType::new(x.element, shape))
}

pub(super) fn transpose(args: &Args, perm: &[usize]) -> Result<TensorType, OpError> {
    args.arity(1, 1)?;
    let x = args.get(0)?;
    let mut sorted = perm.to_vec();
    sorted.sort_unstable();
    let valid = sorted.len() == x.shape.len() && sorted.iter().enumerate().all(|(i, &axis)| i == axis);
    args.ensure(valid, || format!("the order {perm:?} does not name every axis of {x} once"))?;
    Ok(TensorType::new(x.element, perm.iter().map(|&axis| x.shape[axis]).collect::<Vec<_>>()))
}

pub(super) fn concat(args: &Args, axis: usize) -> Result<TensorType, OpError> {
    args.arity(args.count().max(1), usize::MAX)?;
    let first = args.axis(0, axis)?;
    let mut out = first.clone();
    for i in 1..args.count() {
        let ty = args.get(i)?;
        args.element(i, first.element)?;
        let fits = ty.shape.len() == out.shape.len()
            && ty.shape.iter().zip(&first.shape).enumerate().all(|(k, (a, b))| k == axis || a == b);
        args.require(i, fits, || format!("as input 0, {first}, on every axis but {axis}"))?;
        out.shape[axis] = out.shape[axis]
            .checked_add(ty.shape[axis])
            .ok_or_else(|| args.too_large("the result".into(), &out.shape))?;
    }
    Ok(out)
}

pub(super) fn slice(args: &Args, axes: &[SliceAxis]) -> Result<TensorType, OpError> {
    args.arity(1, 1)?;
    let x = args.get(0)?;
    args.require(0, axes.len() == x.shape.len(), || format!("of rank {}, one part each", axes.len()))?;
    for (axis, (part, &extent)) in axes.iter().zip(&x.shape).enumerate() {
        args.ensure(part.step != 0, || format!("the step of axis {axis} is zero"))?;
        let last = part.count.checked_sub(1).map(|steps| {
            let distance = i64::try_from(steps).ok()?.checked_mul(part.step)?;
            let last = i64::try_from(part.begin).ok()?.checked_add(distance)?;
            usize::try_from(last).ok()
        });
        let inside = match last {
            None => true,
            Some(last) => part.begin < extent && last.is_some_and(|last| last < extent),
        };
        args.ensure(inside, || format!("{part:?} reaches outside of axis {axis} of {x}"))?;
    }
    Ok(TensorType::new(x.element, axes.iter().map(|part| part.count).collect::<Vec<_>>()))
}

pub(super) fn expand(args: &Args, shape: &[usize]) -> Result<TensorType, OpError> {
    args.arity(1, 1)?;
    let x = args.get(0)?;
    args.require(0, broadcasts_to(&x.shape, shape), || format!("of a shape that broadcasts to {shape:?}"))?;
    Ok(TensorType::new(x.element, shape))
}

pub(super) fn tile(args: &Args, repeats: &[usize]) -> Result<TensorType, OpError> {
    args.arity(1, 1)?;
    let x = args.get(0)?;
    args.require(0, repeats.len() == x.shape.len(), || format!("of rank {}, one count each", repeats.len()))?;
    let shape: Option<Vec<usize>> = x.shape.iter().zip(repeats).map(|(a, b)| a.checked_mul(*b)).collect();
    match shape {
        Some(shape) => Ok(TensorType::new(x.element, shape)),
        None => Err(args.attribute(format!("{x} repeated {repeats:?} times is too large"))),
    }
}

pub(super) fn pad(args: &Args, begin: &[i64], end: &[i64], mode: PadMode) -> Result<TensorType, OpError> {
    args.arity(1, 2)?;
    let x = args.get(0)?;
    args.element(1, x.element)?;
    if let Some(value) = args.maybe(1) {
        args.require(1, value.len() == 1, || "one element")?;
    }
    let rank = x.shape.len();
    args.ensure(begin.len() == rank && end.len() == rank, || {
        format!("{} pads before and {} after for {x}", begin.len(), end.len())
    })?;
    let mut shape = Vec::with_capacity(rank);
    for axis in 0..rank {
        let extent = x.shape[axis] as i128;
        let kept = extent + i128::from(begin[axis].min(0)) + i128::from(end[axis].min(0));
        let added = i128::from(begin[axis].max(0)) + i128::from(end[axis].max(0));
        args.ensure(kept >= 0, || format!("axis {axis} of {x} is shorter than what pads take away"))?;
        args.ensure(mode == PadMode::Constant || kept > 0 || added == 0, || {
            format!("axis {axis} of {x} has no elements to pad with")
        })?;
        let padded = usize::try_from(kept + added).map_err(|_| args.attribute("pads are too large"))?;
        shape.push(padded);
    }
    Ok(TensorType::new(x.element, shape))
}

pub(super) fn trilu(args: &Args) -> Result<TensorType, OpError> {
    args.arity(1, 1)?;
    let x = args.get(0)?;
    args.require(0, x.shape.len() >= 2, || "of rank 2 or more")?;
    Ok(x.clone())
}
