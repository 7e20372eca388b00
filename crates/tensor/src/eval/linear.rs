//! Matrix products with numpy's rules for vectors and batches.

use super::Call;
use super::gemm::gemm;
use crate::dispatch::dispatch;
use crate::error::OpError;
use crate::number::Number;
use crate::tensor::Tensor;
use crate::walk::{Loops, broadcast_strides};

pub(super) fn matmul(call: &Call) -> Result<Tensor, OpError> {
    let (a, b) = (call.get(0)?, call.get(1)?);
    let shape = &call.output().shape;
    Ok(dispatch!(a.element(), T => Tensor::with_element(
        a.element(),
        shape.clone(),
        product((&a.values::<T>(), a.shape()), (&b.values::<T>(), b.shape()), shape),
    )))
}

/// The product of two row-major operands; `out` is the shape of the result.
fn product<T: Number>(
    (a, a_shape): (&[T], &[usize]),
    (b, b_shape): (&[T], &[usize]),
    out: &[usize],
) -> Vec<T> {
    let k = a_shape[a_shape.len() - 1];
    let m = if a_shape.len() > 1 { a_shape[a_shape.len() - 2] } else { 1 };
    let n = if b_shape.len() > 1 { b_shape[b_shape.len() - 1] } else { 1 };
    let batch_rank = out.len() - usize::from(a_shape.len() > 1) - usize::from(b_shape.len() > 1);
    let batch = &out[..batch_rank];
    let steps = |shape: &[usize], size: usize| -> Vec<isize> {
        let own = broadcast_strides(&shape[..shape.len().saturating_sub(2)], batch);
        own.iter().map(|stride| stride * size as isize).collect()
    };
    let (a_steps, b_steps) = (steps(a_shape, m * k), steps(b_shape, k * n));
    let mut values = vec![T::ZERO; out.iter().product()];
    let mut targets = values.chunks_exact_mut((m * n).max(1));
    let loops = Loops::new(batch, [&a_steps, &b_steps]);
    let (count, [a_step, b_step]) = loops.row();
    loops.for_each_row(|[i, j]| {
        for (step, target) in (0..count as isize).zip(&mut targets) {
            let (a, b) = (&a[(i + step * a_step) as usize..], &b[(j + step * b_step) as usize..]);
            gemm((m, k, n), &a[..m * k], &b[..k * n], target, |_| T::Sum::ZERO);
        }
    });
    values
}

pub(super) fn matmul_integer(call: &Call) -> Result<Tensor, OpError> {
    let (a, b) = (call.get(0)?, call.get(1)?);
    let depth = a.shape()[a.shape().len() - 1];
    let columns = if b.shape().len() > 1 { b.shape()[b.shape().len() - 1] } else { 1 };
    let per_batch = columns * if b.shape().len() > 1 { b.shape()[b.shape().len() - 2] } else { b.len() };
    let left = shifted(a, call.maybe(2), |i, _| i / depth);
    let right = shifted(b, call.maybe(3), |i, zeros| {
        let column = i % columns;
        if zeros == columns { column } else { i / per_batch * columns + column }
    });
    let shape = call.output().shape.clone();
    let values = product((&left, a.shape()), (&right, b.shape()), &shape);
    Ok(Tensor::new(shape, values))
}

/// The elements less the zero point, of which `which` is the one for an element, given how many there are.
pub(super) fn shifted(x: &Tensor, zero: Option<&Tensor>, which: impl Fn(usize, usize) -> usize) -> Vec<i32> {
    let values = x.to_i64().into_iter();
    let zeros = zero.map_or(vec![0], Tensor::to_i64);
    match zeros.as_slice() {
        [zero] => values.map(|v| (v - zero) as i32).collect(),
        zeros => values.enumerate().map(|(i, v)| (v - zeros[which(i, zeros.len())]) as i32).collect(),
    }
}
