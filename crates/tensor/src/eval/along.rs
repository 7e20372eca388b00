//! Operators along one axis.

use std::cmp::Ordering;

use super::Call;
use crate::dispatch::{dispatch, dispatch_float};
use crate::element::Element;
use crate::error::OpError;
use crate::number::Number;
use crate::op::ArgReduce;
use crate::tensor::Tensor;

/// The lines of a row-major tensor along an axis: where they begin, how long they are and their stride.
struct Lines {
    outer: usize,
    extent: usize,
    inner: usize,
}

impl Lines {
    fn new(shape: &[usize], axis: usize) -> Lines {
        Lines {
            outer: shape[..axis].iter().product(),
            extent: shape[axis],
            inner: shape[axis + 1..].iter().product(),
        }
    }

    /// Calls `body` with the number of each line and its elements.
    fn for_each<T: Element>(&self, x: &[T], mut body: impl FnMut(usize, &[T])) {
        let mut line = Vec::with_capacity(self.extent);
        for outer in 0..self.outer {
            for inner in 0..self.inner {
                let begin = outer * self.extent * self.inner + inner;
                line.clear();
                line.extend((0..self.extent).map(|i| x[begin + i * self.inner]));
                body(outer * self.inner + inner, &line);
            }
        }
    }

    /// The offset of element `i` of a line in a tensor whose axis has another extent.
    fn offset(&self, line: usize, i: usize, extent: usize) -> usize {
        let (outer, inner) = (line / self.inner, line % self.inner);
        (outer * extent + i) * self.inner + inner
    }
}

/// Order with what is not a number above all numbers.
fn order<T: Number>(a: T, b: T) -> Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

/// The position of the extreme element: the first, or the last.
fn extreme<T: Number>(line: &[T], largest: bool, last: bool) -> usize {
    let mut best = 0;
    for (i, &value) in line.iter().enumerate().skip(1) {
        let order = order(value, line[best]);
        let order = if largest { order } else { order.reverse() };
        if order == Ordering::Greater || (last && order == Ordering::Equal) {
            best = i;
        }
    }
    best
}

pub(super) fn arg_reduce(call: &Call, reduce: &ArgReduce) -> Result<Tensor, OpError> {
    let x = call.get(0)?;
    let lines = Lines::new(x.shape(), reduce.axis);
    let mut positions = Vec::with_capacity(call.output().len());
    dispatch!(x.element(), T => lines.for_each(&x.values::<T>(), |_, line| {
        positions.push(extreme(line, reduce.largest, reduce.last) as i64);
    }));
    Ok(Tensor::new(call.output().shape.clone(), positions))
}

pub(super) fn hardmax(call: &Call, axis: usize) -> Result<Tensor, OpError> {
    let x = call.get(0)?;
    let lines = Lines::new(x.shape(), axis);
    dispatch!(x.element(), T => {
        let mut values = vec![<T as Number>::ZERO; x.len()];
        lines.for_each(&x.values::<T>(), |number, line| {
            values[lines.offset(number, extreme(line, true, false), lines.extent)] = <T as Number>::ONE;
        });
        Ok(Tensor::with_element(x.element(), x.shape(), values))
    })
}

pub(super) fn top_k(call: &Call, axis: usize, k: usize, largest: bool) -> Result<Vec<Tensor>, OpError> {
    let (x, out) = (call.get(0)?, call.output());
    let lines = Lines::new(x.shape(), axis);
    let mut positions = vec![0i64; out.len()];
    let mut chosen: Vec<usize> = Vec::with_capacity(lines.extent);
    dispatch!(x.element(), T => {
        let mut values = vec![<T as Number>::ZERO; out.len()];
        lines.for_each(&x.values::<T>(), |number, line| {
            let before = |a: &usize, b: &usize| {
                let order = order(line[*a], line[*b]);
                (if largest { order.reverse() } else { order }).then(a.cmp(b))
            };
            chosen.clear();
            chosen.extend(0..line.len());
            if k > 0 && k < line.len() {
                chosen.select_nth_unstable_by(k - 1, before);
            }
            chosen.truncate(k);
            chosen.sort_unstable_by(before);
            for (i, &at) in chosen.iter().enumerate() {
                let target = lines.offset(number, i, k);
                values[target] = line[at];
                positions[target] = at as i64;
            }
        });
        let shape = &out.shape;
        Ok(vec![Tensor::with_element(x.element(), shape.clone(), values), Tensor::new(shape.clone(), positions)])
    })
}

pub(super) fn cum_sum(call: &Call, axis: usize, exclusive: bool, reverse: bool) -> Result<Tensor, OpError> {
    let x = call.get(0)?;
    let lines = Lines::new(x.shape(), axis);
    dispatch!(x.element(), T => {
        let mut values = vec![<T as Number>::ZERO; x.len()];
        lines.for_each(&x.values::<T>(), |number, line| {
            let mut sum = <<T as Number>::Sum as Number>::ZERO;
            for step in 0..line.len() {
                let i = if reverse { line.len() - 1 - step } else { step };
                let next = sum.add(Number::widen(line[i]));
                values[lines.offset(number, i, lines.extent)] =
                    <T as Number>::narrow(if exclusive { sum } else { next });
                sum = next;
            }
        });
        Ok(Tensor::with_element(x.element(), x.shape(), values))
    })
}

/// The standard defines softmax by other operators; half floats are rounded after each of them.
pub(super) fn softmax(call: &Call, axis: usize, log: bool) -> Result<Tensor, OpError> {
    let x = call.get(0)?;
    let lines = Lines::new(x.shape(), axis);
    let stepwise = x.element().bytes() == 2 && !log;
    dispatch_float!(x.element(), T => {
        let mut values = vec![<T as Number>::ZERO; x.len()];
        let mut powers: Vec<f64> = Vec::with_capacity(lines.extent);
        lines.for_each(&x.values::<T>(), |number, line| {
            let largest = line.iter().map(|v| Element::to_f64(*v)).fold(f64::NEG_INFINITY, f64::max);
            powers.clear();
            let rounded = |v: f64| if stepwise { Element::to_f64(<T as Element>::from_f64(v)) } else { v };
            powers.extend(line.iter().map(|v| rounded(rounded(Element::to_f64(*v) - largest).exp())));
            let sum = rounded(powers.iter().sum());
            for (i, power) in powers.iter().enumerate() {
                let value = if log { Element::to_f64(line[i]) - largest - sum.ln() } else { power / sum };
                values[lines.offset(number, i, lines.extent)] = <T as Element>::from_f64(value);
            }
        });
        Ok(Tensor::with_element(x.element(), x.shape(), values))
    }, else Err(OpError::DataDependent { op: call.op.name() }))
}
