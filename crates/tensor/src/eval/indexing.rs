//! Gathering and scattering by indices.

use super::Call;
use crate::dispatch::{dispatch, dispatch_raw};
use crate::element::{Element, ElementType};
use crate::error::OpError;
use crate::number::Number;
use crate::op::ScatterReduction;
use crate::tensor::Tensor;
use crate::walk::{Loops, strides};

pub(super) fn gather(call: &Call, axis: usize) -> Result<Tensor, OpError> {
    let (x, out) = (call.get(0)?, call.output());
    let extent = x.shape()[axis];
    let indices = call.indices(1, extent)?;
    let outer: usize = x.shape()[..axis].iter().product();
    let inner: usize = x.shape()[axis + 1..].iter().product();
    dispatch_raw!(x.element(), T => {
        let x = x.raw::<T>();
        let mut values: Vec<T> = Vec::with_capacity(out.len());
        for row in 0..outer {
            for &index in &indices {
                values.extend_from_slice(&x[(row * extent + index) * inner..][..inner]);
            }
        }
        Ok(Tensor::with_element(out.element, out.shape.clone(), values))
    })
}

/// For every element of the indices' shape, in order, the offset into a tensor of shape `x` that the index leads to.
fn element_offsets(call: &Call, x: &[usize], axis: usize) -> Result<Vec<usize>, OpError> {
    let indices = call.get(1)?;
    let extent = x[axis];
    let own = strides(x);
    let stride = own[axis] as usize;
    let mut outer = own;
    outer[axis] = 0;
    let positions = call.indices(1, extent)?;
    let mut offsets = Vec::with_capacity(positions.len());
    let loops = Loops::new(indices.shape(), [&outer]);
    let (n, [step]) = loops.row();
    let mut positions = positions.iter();
    loops.for_each_row(|[at]| {
        let row = positions.by_ref().take(n).enumerate();
        offsets.extend(row.map(|(k, index)| at as usize + k * step as usize + index * stride));
    });
    Ok(offsets)
}

pub(super) fn gather_elements(call: &Call, axis: usize) -> Result<Tensor, OpError> {
    let (x, out) = (call.get(0)?, call.output());
    let offsets = element_offsets(call, x.shape(), axis)?;
    dispatch_raw!(x.element(), T => {
        let x = x.raw::<T>();
        let values: Vec<T> = offsets.iter().map(|&at| x[at]).collect();
        Ok(Tensor::with_element(out.element, out.shape.clone(), values))
    })
}

/// For every tuple, the offset of the slice it leads to, and the length of a slice.
fn tuple_offsets(call: &Call, x: &[usize], batch_dims: usize) -> Result<(Vec<usize>, usize), OpError> {
    let indices = call.get(1)?;
    let length = indices.shape()[indices.shape().len() - 1];
    let slice: usize = x[batch_dims + length..].iter().product();
    let tuples: usize = indices.shape()[..indices.shape().len() - 1].iter().product();
    let batches: usize = x[..batch_dims].iter().product();
    let own = strides(x);
    let values = indices.to_i64();
    let batch_size: usize = x[batch_dims..].iter().product();
    let per_batch = tuples.checked_div(batches).unwrap_or(0);
    let mut offsets = Vec::with_capacity(tuples);
    for tuple in 0..tuples {
        let mut at = tuple.checked_div(per_batch).unwrap_or(0) * batch_size;
        for (k, &index) in values[tuple * length..][..length].iter().enumerate() {
            let axis = batch_dims + k;
            at += call.index(1, index, x[axis])? * own[axis] as usize;
        }
        offsets.push(at);
    }
    Ok((offsets, slice))
}

pub(super) fn gather_nd(call: &Call, batch_dims: usize) -> Result<Tensor, OpError> {
    let (x, out) = (call.get(0)?, call.output());
    let (offsets, slice) = tuple_offsets(call, x.shape(), batch_dims)?;
    dispatch_raw!(x.element(), T => {
        let x = x.raw::<T>();
        let mut values: Vec<T> = Vec::with_capacity(out.len());
        for at in offsets {
            values.extend_from_slice(&x[at..at + slice]);
        }
        Ok(Tensor::with_element(out.element, out.shape.clone(), values))
    })
}

pub(super) fn scatter_nd(call: &Call, reduction: ScatterReduction) -> Result<Tensor, OpError> {
    let x = call.get(0)?;
    let (offsets, slice) = tuple_offsets(call, x.shape(), 0)?;
    dispatch!(x.element(), T => scatter::<T>(call, &offsets, slice, reduction))
}

pub(super) fn scatter_elements(
    call: &Call,
    axis: usize,
    reduction: ScatterReduction,
) -> Result<Tensor, OpError> {
    let x = call.get(0)?;
    let offsets = element_offsets(call, x.shape(), axis)?;
    dispatch!(x.element(), T => scatter::<T>(call, &offsets, 1, reduction))
}

/// Lets slices of the updates meet the elements at the offsets, one after the other.
fn scatter<T: Number>(
    call: &Call,
    offsets: &[usize],
    slice: usize,
    reduction: ScatterReduction,
) -> Result<Tensor, OpError> {
    let (x, updates) = (call.get(0)?, call.get(2)?);
    let mut values = x.values::<T>().into_owned();
    let updates = updates.values::<T>();
    let truth = x.element() == ElementType::Bool;
    let meet: fn(T, T) -> T = match reduction {
        ScatterReduction::Replace => |_, new| new,
        ScatterReduction::Add if truth => T::maximum,
        ScatterReduction::Add => T::add,
        ScatterReduction::Mul => T::mul,
        ScatterReduction::Max => T::maximum,
        ScatterReduction::Min => T::minimum,
    };
    for (i, &at) in offsets.iter().enumerate() {
        let new = &updates[i * slice..][..slice];
        let old = &mut values[at..at + slice];
        if reduction == ScatterReduction::Replace {
            old.copy_from_slice(new);
        } else {
            old.iter_mut().zip(new).for_each(|(old, &new)| *old = meet(*old, new));
        }
    }
    Ok(Tensor::with_element(x.element(), x.shape(), values))
}

pub(super) fn one_hot(call: &Call, axis: usize, depth: usize) -> Result<Tensor, OpError> {
    let (indices, values, out) = (call.get(0)?, call.get(1)?, call.output());
    let inner: usize = indices.shape()[axis..].iter().product();
    let positions = indices.to_i64();
    dispatch_raw!(out.element, T => {
        let choice = values.raw::<T>();
        let mut hot = vec![choice[0]; out.len()];
        for (i, &position) in positions.iter().enumerate() {
            let position = if position < 0 { position.wrapping_add(depth as i64) } else { position };
            if (0..depth as i64).contains(&position) {
                let (row, column) = (i / inner, i % inner);
                hot[(row * depth + position as usize) * inner + column] = choice[1];
            }
        }
        Ok(Tensor::with_element(out.element, out.shape.clone(), hot))
    })
}

/// Slices along an axis, or single elements, where the second input is true.
pub(super) fn compress(call: &Call, axis: Option<usize>) -> Result<Tensor, OpError> {
    let (x, condition) = (call.get(0)?, call.get(1)?);
    let flat = x.reshaped([x.len()]);
    let (x, axis) = axis.map_or((&flat, 0), |axis| (x, axis));
    let extent = x.shape()[axis];
    let outer: usize = x.shape()[..axis].iter().product();
    let inner: usize = x.shape()[axis + 1..].iter().product();
    let truths = condition.values::<u8>();
    let kept: Vec<usize> = (0..extent.min(truths.len())).filter(|&i| truths[i] != 0).collect();
    let mut shape = x.shape().to_vec();
    shape[axis] = kept.len();
    dispatch_raw!(x.element(), T => {
        let source = x.raw::<T>();
        let mut values: Vec<T> = Vec::with_capacity(outer * kept.len() * inner);
        for row in 0..outer {
            for &index in &kept {
                values.extend_from_slice(&source[(row * extent + index) * inner..][..inner]);
            }
        }
        Ok(Tensor::with_element(x.element(), shape, values))
    })
}

/// The positions of the elements that are not zero, one column each.
pub(super) fn non_zero(call: &Call) -> Result<Tensor, OpError> {
    let x = call.get(0)?;
    let found: Vec<usize> = dispatch!(x.element(), T => {
        let values = x.values::<T>();
        (0..values.len()).filter(|&i| Element::to_f64(values[i]) != 0.0).collect()
    });
    let mut positions = Vec::with_capacity(x.shape().len() * found.len());
    for (&stride, &extent) in strides(x.shape()).iter().zip(x.shape()) {
        positions.extend(found.iter().map(|at| (at / stride as usize % extent) as i64));
    }
    Ok(Tensor::new([x.shape().len(), found.len()], positions))
}
