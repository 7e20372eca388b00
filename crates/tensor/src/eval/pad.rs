//! Elements added or removed around.

use super::Call;
use crate::dispatch::dispatch_raw;
use crate::error::OpError;
use crate::op::PadMode;
use crate::tensor::Tensor;
use crate::walk::strides;

pub(super) fn evaluate(call: &Call, begin: &[i64], end: &[i64], mode: PadMode) -> Result<Tensor, OpError> {
    let (x, out) = (call.get(0)?, call.output());
    let rank = x.shape().len();
    let own = strides(x.shape());
    let mut sources: Vec<Vec<Option<usize>>> = Vec::with_capacity(rank);
    if !out.is_empty() {
        for axis in 0..rank {
            let (extent, stride) = (x.shape()[axis], own[axis] as usize);
            let source = |i| source(i, begin[axis], end[axis], extent, mode).map(|at| at * stride);
            sources.push((0..out.shape[axis]).map(source).collect());
        }
    }
    dispatch_raw!(x.element(), T => {
        let fill: T = call.maybe(1).map_or(0, |value| value.raw::<T>()[0]);
        let mut values = Vec::with_capacity(out.len());
        if !out.is_empty() {
            copy(&x.raw::<T>(), &sources, Some(0), fill, &mut values);
        }
        Ok(Tensor::with_element(x.element(), out.shape.clone(), values))
    })
}

/// Appends the elements at all combinations of the axes' offsets, `fill` where one of them is outside.
pub(super) fn copy<T: Copy>(
    x: &[T],
    sources: &[Vec<Option<usize>>],
    offset: Option<usize>,
    fill: T,
    out: &mut Vec<T>,
) {
    match (sources, offset) {
        (_, None) => out.extend(std::iter::repeat_n(fill, sources.iter().map(Vec::len).product())),
        ([], Some(at)) => out.push(x[at]),
        ([row], Some(at)) => out.extend(row.iter().map(|source| source.map_or(fill, |step| x[at + step]))),
        ([first, rest @ ..], Some(at)) => {
            for source in first {
                copy(x, rest, source.map(|step| at + step), fill, out);
            }
        }
    }
}

/// The element that position `i` of the result takes, none outside. Negative pads take away first, and what is left
/// is padded.
fn source(i: usize, begin: i64, end: i64, extent: usize, mode: PadMode) -> Option<usize> {
    let first = begin.min(0).unsigned_abs() as i64;
    let length = extent as i64 - first + end.min(0);
    let at = i as i64 - begin.max(0);
    let within = match mode {
        _ if (0..length).contains(&at) => at,
        PadMode::Constant => return None,
        PadMode::Edge => at.clamp(0, length - 1),
        PadMode::Wrap => at.rem_euclid(length),
        PadMode::Reflect if length == 1 => 0,
        PadMode::Reflect => {
            let period = 2 * (length - 1);
            let folded = at.rem_euclid(period);
            if folded < length { folded } else { period - folded }
        }
    };
    Some((first + within) as usize)
}
