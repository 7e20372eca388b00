//! Elements in other places: transposing, joining, cutting, repeating.

use super::Call;
use crate::dispatch::dispatch_raw;
use crate::error::OpError;
use crate::op::SliceAxis;
use crate::tensor::Tensor;
use crate::walk::{broadcast_strides, copy_strided, strides};

/// The elements of `x` read with other strides.
fn strided(x: &Tensor, begin: isize, shape: &[usize], strides: &[isize], result: &[usize]) -> Tensor {
    dispatch_raw!(x.element(), T => {
        Tensor::with_element(x.element(), result, copy_strided(&x.raw::<T>(), begin, shape, strides))
    })
}

pub(super) fn transpose(call: &Call, perm: &[usize]) -> Result<Tensor, OpError> {
    Ok(permuted(call.get(0)?, perm))
}

/// `x` with its axes in another order.
pub(super) fn permuted(x: &Tensor, perm: &[usize]) -> Tensor {
    let own = strides(x.shape());
    let order: Vec<isize> = perm.iter().map(|&axis| own[axis]).collect();
    let shape: Vec<usize> = perm.iter().map(|&axis| x.shape()[axis]).collect();
    strided(x, 0, &shape, &order, &shape)
}

pub(super) fn expand(call: &Call) -> Result<Tensor, OpError> {
    let (x, shape) = (call.get(0)?, &call.output().shape);
    Ok(strided(x, 0, shape, &broadcast_strides(x.shape(), shape), shape))
}

pub(super) fn slice(call: &Call, axes: &[SliceAxis]) -> Result<Tensor, OpError> {
    let (x, shape) = (call.get(0)?, &call.output().shape);
    if call.output().is_empty() {
        return Ok(strided(x, 0, shape, &vec![0; shape.len()], shape));
    }
    let own = strides(x.shape());
    let begin = axes.iter().zip(&own).map(|(part, stride)| part.begin as isize * stride).sum();
    let steps: Vec<isize> = axes
        .iter()
        .zip(&own)
        .map(|(part, stride)| if part.count == 1 { 0 } else { part.step as isize * stride })
        .collect();
    Ok(strided(x, begin, shape, &steps, shape))
}

pub(super) fn tile(call: &Call, repeats: &[usize]) -> Result<Tensor, OpError> {
    let x = call.get(0)?;
    let own = strides(x.shape());
    let mut shape = Vec::with_capacity(2 * repeats.len());
    let mut steps = Vec::with_capacity(2 * repeats.len());
    for (axis, &count) in repeats.iter().enumerate() {
        shape.extend([count, x.shape()[axis]]);
        steps.extend([0, own[axis]]);
    }
    Ok(strided(x, 0, &shape, &steps, &call.output().shape))
}

pub(super) fn concat(call: &Call, axis: usize) -> Result<Tensor, OpError> {
    let out = call.output();
    let parts: Vec<&Tensor> = call.inputs.iter().flatten().copied().collect();
    if let [one] = parts.as_slice() {
        return Ok((*one).clone());
    }
    let outer: usize = out.shape[..axis].iter().product();
    dispatch_raw!(out.element, T => {
        let parts: Vec<_> = parts.iter().map(|part| part.raw::<T>()).collect();
        let mut values = Vec::with_capacity(out.len());
        for row in 0..outer {
            for part in &parts {
                let length = part.len() / outer;
                values.extend_from_slice(&part[row * length..][..length]);
            }
        }
        Ok(Tensor::with_element(out.element, out.shape.clone(), values))
    })
}

pub(super) fn trilu(call: &Call, upper: bool, k: i64) -> Result<Tensor, OpError> {
    let x = call.get(0)?;
    let (rows, columns) = (x.shape()[x.shape().len() - 2], x.shape()[x.shape().len() - 1]);
    dispatch_raw!(x.element(), T => {
        let mut values = x.raw::<T>().into_owned();
        if !values.is_empty() {
            for (i, row) in values.chunks_exact_mut(columns).enumerate() {
                let diagonal = ((i % rows) as i64).saturating_add(k);
                if upper {
                    row[..diagonal.clamp(0, columns as i64) as usize].fill(0);
                } else {
                    row[diagonal.saturating_add(1).clamp(0, columns as i64) as usize..].fill(0);
                }
            }
        }
        Ok(Tensor::with_element(x.element(), x.shape(), values))
    })
}
