//! Sums of products by subscripts: operands are reduced to the axes that others need, and multiplied two by two as
//! batched matrices.

use super::Call;
use super::gemm::gemm;
use crate::dispatch::dispatch;
use crate::einsum::{Label, Subscripts};
use crate::error::OpError;
use crate::number::Number;
use crate::tensor::{Tensor, TensorType};
use crate::walk::{broadcast_strides, copy_strided, strides};

/// Elements and what their axes are called; extents are those of the labels, or one.
struct Operand<T> {
    labels: Vec<Label>,
    shape: Vec<usize>,
    values: Vec<T>,
}

pub(super) fn evaluate(call: &Call, equation: &str) -> Result<Tensor, OpError> {
    let tensors: Vec<&Tensor> = call.inputs.iter().flatten().copied().collect();
    let shapes: Vec<&[usize]> = tensors.iter().map(|tensor| tensor.shape()).collect();
    let subscripts =
        Subscripts::new(equation, &shapes).map_err(|what| OpError::Attribute { op: call.op.name(), what })?;
    dispatch!(call.output().element, T => contract::<T>(call, &subscripts, &tensors))
}

fn contract<T: Number>(call: &Call, subscripts: &Subscripts, tensors: &[&Tensor]) -> Result<Tensor, OpError> {
    let mut rest: Vec<Operand<T>> = Vec::new();
    for (tensor, labels) in tensors.iter().zip(&subscripts.inputs) {
        let values = tensor.values::<T>().into_owned();
        rest.push(Operand { labels: labels.clone(), shape: tensor.shape().to_vec(), values });
    }
    let mut rest = rest.into_iter();
    let Some(mut left) = rest.next() else {
        return Err(OpError::Missing { op: call.op.name(), input: 0 });
    };
    while let Some(right) = rest.next() {
        let needed: Vec<Label> = rest
            .as_slice()
            .iter()
            .flat_map(|operand| &operand.labels)
            .chain(&subscripts.output)
            .copied()
            .collect();
        left = multiply(call, &left, &right, &needed)?;
    }
    let result = sum_to(&left, &subscripts.output);
    Ok(Tensor::with_element(call.output().element, call.output().shape.clone(), result.values))
}

/// The operand's elements in the order of `labels`, each as long as it is in the equation or, if the operand does not
/// have it or has it with extent one, one.
fn arrange<T: Copy>(x: &Operand<T>, labels: &[Label]) -> (Vec<usize>, Vec<T>) {
    let own = strides(&x.shape);
    let mut shape = Vec::with_capacity(labels.len());
    let mut steps = Vec::with_capacity(labels.len());
    for label in labels {
        let axes = || (0..x.labels.len()).filter(|&axis| x.labels[axis] == *label && x.shape[axis] != 1);
        shape.push(axes().next().map_or(1, |axis| x.shape[axis]));
        steps.push(axes().map(|axis| own[axis]).sum());
    }
    let values = copy_strided(&x.values, 0, &shape, &steps);
    (shape, values)
}

/// The distinct labels of an operand.
fn distinct(labels: &[Label]) -> Vec<Label> {
    let mut out: Vec<Label> = Vec::new();
    for label in labels {
        if !out.contains(label) {
            out.push(*label);
        }
    }
    out
}

/// The operand summed over every label that is not in `kept`, its axes in that order.
fn sum_to<T: Number>(x: &Operand<T>, kept: &[Label]) -> Operand<T> {
    let summed: Vec<Label> = distinct(&x.labels).into_iter().filter(|label| !kept.contains(label)).collect();
    let (mut shape, mut values) = arrange(x, &[kept, &summed].concat());
    let inner: usize = shape[kept.len()..].iter().product();
    let outer: usize = shape[..kept.len()].iter().product();
    if !summed.is_empty() {
        let row =
            |i: usize| values[i * inner..][..inner].iter().fold(T::Sum::ZERO, |sum, v| sum.add(v.widen()));
        values = (0..outer).map(|i| T::narrow(row(i))).collect();
    }
    shape.truncate(kept.len());
    Operand { labels: kept.to_vec(), shape, values }
}

/// Elements repeated where the extent is one and should be more.
fn spread<T: Copy>(values: &[T], shape: &[usize], full: &[usize]) -> Vec<T> {
    let steps = broadcast_strides(shape, full);
    copy_strided(values, 0, full, &steps)
}

/// The product of two operands, summed over the labels that are not needed any more.
fn multiply<T: Number>(
    call: &Call,
    a: &Operand<T>,
    b: &Operand<T>,
    needed: &[Label],
) -> Result<Operand<T>, OpError> {
    let keep = |x: &Operand<T>, other: &Operand<T>| -> Vec<Label> {
        let mut labels = distinct(&x.labels);
        labels.retain(|label| needed.contains(label) || other.labels.contains(label));
        labels
    };
    let (a, b) = (sum_to(a, &keep(a, b)), sum_to(b, &keep(b, a)));
    let shared = |label: &Label| b.labels.contains(label);
    let (batch, depth): (Vec<Label>, Vec<Label>) =
        a.labels.iter().filter(|label| shared(label)).partition(|label| needed.contains(label));
    let rows: Vec<Label> = a.labels.iter().filter(|label| !shared(label)).copied().collect();
    let columns: Vec<Label> = b.labels.iter().filter(|label| !a.labels.contains(label)).copied().collect();
    let labels = [&batch[..], &rows, &columns].concat();
    let extent = |labels: &[Label], x: &Operand<T>| -> Vec<usize> {
        let own = |label: &Label| x.labels.iter().position(|l| l == label).map_or(1, |axis| x.shape[axis]);
        labels.iter().map(own).collect()
    };
    let common = |labels: &[Label]| -> Vec<usize> {
        extent(labels, &a)
            .into_iter()
            .zip(extent(labels, &b))
            .map(|(x, y)| if x == 1 { y } else { x })
            .collect()
    };
    let (batch_shape, depth_shape) = (common(&batch), common(&depth));
    let (row_shape, column_shape) = (extent(&rows, &a), extent(&columns, &b));
    let shape = [&batch_shape[..], &row_shape, &column_shape].concat();
    let ty = TensorType::new(call.output().element, shape.clone());
    super::check_size(call.op, "an intermediate product", &ty)?;
    let size = |shape: &[usize]| shape.iter().product::<usize>();
    let (m, k, n) = (size(&row_shape), size(&depth_shape), size(&column_shape));
    let left = full(
        &a,
        &[&batch[..], &rows, &depth].concat(),
        &[&batch_shape[..], &row_shape, &depth_shape].concat(),
    );
    let right = full(
        &b,
        &[&batch[..], &depth, &columns].concat(),
        &[&batch_shape[..], &depth_shape, &column_shape].concat(),
    );
    let mut values = vec![T::ZERO; ty.len()];
    for (i, target) in values.chunks_exact_mut((m * n).max(1)).enumerate() {
        gemm((m, k, n), &left[i * m * k..][..m * k], &right[i * k * n..][..k * n], target, |_| T::Sum::ZERO);
    }
    Ok(Operand { labels, shape, values })
}

/// The operand in the order of `labels`, repeated to `shape`.
fn full<T: Copy>(x: &Operand<T>, labels: &[Label], shape: &[usize]) -> Vec<T> {
    let (own, values) = arrange(x, labels);
    if own == shape { values } else { spread(&values, &own, shape) }
}
