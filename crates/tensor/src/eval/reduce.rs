//! Reductions over axes.

use super::Call;
use super::movement::permuted;
use crate::dispatch::dispatch;
use crate::element::{Element, ElementType};
use crate::error::OpError;
use crate::number::{Cast, Number};
use crate::op::{Reduce, ReduceKind};
use crate::tensor::Tensor;

pub(super) fn reduce(call: &Call, reduce: &Reduce) -> Result<Tensor, OpError> {
    let (x, out) = (call.get(0)?, call.output());
    let rank = x.shape().len();
    let kept = (0..rank).filter(|axis| !reduce.axes.contains(axis));
    let order: Vec<usize> = kept.chain(reduce.axes.iter().copied()).collect();
    let rows = permuted(x, &order);
    let length = reduce.axes.iter().map(|&axis| x.shape()[axis]).product();
    Ok(dispatch!(x.element(), T => {
        let mut values = rows_reduced::<T>(reduce.kind, &rows.values::<T>(), length, out.len());
        if x.element() == ElementType::Bool && length == 0 {
            values.iter_mut().for_each(|value| *value = Number::minimum(*value, T::ONE));
        }
        Tensor::with_element(out.element, out.shape.clone(), values)
    }))
}

/// One value for each of `count` rows of `length` elements.
fn rows_reduced<T: Number + Cast>(kind: ReduceKind, x: &[T], length: usize, count: usize) -> Vec<T> {
    let rows = (0..count).map(|i| &x[i * length..][..length]);
    match kind {
        ReduceKind::Sum => rows.map(|row| T::narrow(sum(row, |v| v))).collect(),
        ReduceKind::Mean => rows.map(mean).collect(),
        ReduceKind::Prod => {
            rows.map(|row| T::narrow(row.iter().fold(T::Sum::ONE, |all, v| all.mul(v.widen())))).collect()
        }
        ReduceKind::Max => rows.map(|row| row.iter().fold(T::LOWEST, |best, &v| best.maximum(v))).collect(),
        ReduceKind::Min => rows.map(|row| row.iter().fold(T::HIGHEST, |best, &v| best.minimum(v))).collect(),
        ReduceKind::L1 => rows.map(|row| T::narrow(sum(row, absolute))).collect(),
        ReduceKind::SumSquare => rows.map(|row| T::narrow(sum(row, |v| v.mul(v)))).collect(),
        ReduceKind::L2 => rows
            .map(|row| T::from_f64(row.iter().map(|v| v.to_f64() * v.to_f64()).sum::<f64>().sqrt()))
            .collect(),
        ReduceKind::LogSum => {
            rows.map(|row| T::from_f64(row.iter().map(|v| v.to_f64()).sum::<f64>().ln())).collect()
        }
        ReduceKind::LogSumExp => rows.map(|row| T::from_f64(log_sum_exp(row))).collect(),
    }
}

fn sum<T: Number>(row: &[T], f: impl Fn(T::Sum) -> T::Sum) -> T::Sum {
    row.iter().fold(T::Sum::ZERO, |sum, v| sum.add(f(v.widen())))
}

fn absolute<N: Number>(v: N) -> N {
    if v < N::ZERO { N::ZERO.sub(v) } else { v }
}

/// The mean; of integers truncated, and zero of none.
fn mean<T: Number + Cast>(row: &[T]) -> T {
    if T::ELEMENT.is_float() {
        return T::from_f64(sum(row, |v| v).to_f64() / row.len() as f64);
    }
    let unsigned = T::ELEMENT == ElementType::U64;
    let exact = |v: &T| if unsigned { i128::from(v.u64()) } else { i128::from(v.i64()) };
    let total: i128 = row.iter().map(exact).sum();
    let mean = total.checked_div(row.len() as i128).unwrap_or(0);
    if unsigned { from_u64(mean as u64) } else { from_i64(mean as i64) }
}

/// An integer that fits the type.
fn from_i64<T: Number>(value: i64) -> T {
    bytemuck::pod_read_unaligned(&value.to_le_bytes()[..size_of::<T>()])
}

/// An integer that fits the type.
fn from_u64<T: Number>(value: u64) -> T {
    bytemuck::pod_read_unaligned(&value.to_le_bytes()[..size_of::<T>()])
}

/// `ln(sum(e^x))`, without overflow.
fn log_sum_exp<T: Number>(row: &[T]) -> f64 {
    let largest = row.iter().map(|v| v.to_f64()).fold(f64::NEG_INFINITY, f64::max);
    if largest.is_infinite() {
        return if row.iter().any(|v| v.is_nan()) { f64::NAN } else { largest };
    }
    largest + row.iter().map(|v| (v.to_f64() - largest).exp()).sum::<f64>().ln()
}
