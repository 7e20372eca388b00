//! Lays constants out anew, as a nest's packs ask: at build time on real weights, so rows are copied, not elements.

use crate::data::Array;
use crate::interp::InterpError;
use crate::nest::{Nest, Pack};
use crate::scalar::TensorId;

/// Fills the packed buffer of a pack from its source; indices outside the source give zero.
pub fn run_pack(nest: &Nest, pack: &Pack, source: &Array) -> Result<Array, InterpError> {
    let plan = Plan::new(nest, pack, source)?;
    let name = || nest.buffers[pack.packed.index()].name.clone();
    let mut out = Array::try_zeros(source.dtype(), &plan.extents)
        .map_err(|e| InterpError::Storage { name: name(), source: e })?;
    plan.run(source, out.bytes_mut());
    Ok(out)
}

/// [`run_pack`] into memory of the caller's, which must be zero: what is outside the source is left as it is. Refuses
/// memory of another size than the packed buffer's.
pub fn run_pack_into(nest: &Nest, pack: &Pack, source: &Array, to: &mut [u8]) -> Result<(), InterpError> {
    let plan = Plan::new(nest, pack, source)?;
    let bytes = plan.extents.iter().try_fold(source.dtype().bytes(), |n, e| n.checked_mul(*e));
    if bytes != Some(to.len()) {
        return Err(InterpError::BadAccess {
            place: format!("pack of `{}`", nest.buffers[pack.packed.index()].name),
            what: format!("its memory has {} bytes, which is not its shape", to.len()),
        });
    }
    plan.run(source, to);
    Ok(())
}

/// A source index `constant + sum(coefficient * axis)`.
struct Dimension {
    extent: i64,
    constant: i64,
    coefficients: Vec<i64>,
    stride: i64,
}

struct Plan {
    extents: Vec<usize>,
    dims: Vec<Dimension>,
}

impl Plan {
    fn new(nest: &Nest, pack: &Pack, source: &Array) -> Result<Plan, InterpError> {
        let buffer = |id: TensorId| {
            nest.buffers.get(id.index()).ok_or_else(|| InterpError::BadAccess {
                place: format!("packs of `{}`", nest.name),
                what: format!("there is no buffer {}", id.0),
            })
        };
        let (packed, declared) = (buffer(pack.packed)?, buffer(pack.source)?);
        let place = format!("pack of `{}`", packed.name);
        let shape = crate::interp::te::constant_extents(&place, &packed.shape)?;
        let source_shape = crate::interp::te::constant_extents(&place, &declared.shape)?;
        let expected: Vec<usize> = source_shape.iter().map(|e| *e as usize).collect();
        crate::interp::te::check_argument(&declared.name, declared.dtype, &expected, source)?;
        let bad = |what: String| InterpError::BadAccess { place: place.clone(), what };
        if packed.dtype != declared.dtype {
            return Err(bad(format!("{} cannot be filled from {}", packed.dtype, declared.dtype)));
        }
        if pack.axes.len() != shape.len() || pack.indices.len() != source_shape.len() {
            return Err(bad(
                "there must be one axis for each dimension and one index for each of the source".into(),
            ));
        }
        let mut stride = 1;
        let mut dims = Vec::new();
        for (index, extent) in pack.indices.iter().zip(&source_shape).rev() {
            let numbers = index.affine(&pack.axes).and_then(|a| {
                let coefficients: Option<Vec<i64>> = a.coefficients.iter().map(|c| c.as_int()).collect();
                a.rest.as_int().zip(coefficients)
            });
            let (constant, coefficients) =
                numbers.ok_or_else(|| bad(format!("index `{index}` is not affine in the axes")))?;
            dims.push(Dimension { extent: *extent, constant, coefficients, stride });
            stride *= extent;
        }
        Ok(Plan { extents: shape.iter().map(|e| *e as usize).collect(), dims })
    }

    /// Copies all that lies inside the source.
    fn run(&self, source: &Array, to: &mut [u8]) {
        let from = source.bytes();
        match source.dtype().bytes() {
            1 => self.copy::<1>(from, to),
            2 => self.copy::<2>(from, to),
            4 => self.copy::<4>(from, to),
            _ => self.copy::<8>(from, to),
        }
    }

    /// Copies elements of `N` bytes row by row along the last axis.
    fn copy<const N: usize>(&self, from: &[u8], to: &mut [u8]) {
        let (from, _) = from.as_chunks::<N>();
        let (to, _) = to.as_chunks_mut::<N>();
        if to.is_empty() {
            return;
        }
        let rank = self.extents.len();
        let row = self.extents.last().copied().unwrap_or(1);
        let inner = |d: &Dimension| d.coefficients.last().copied().unwrap_or(0);
        let step: i64 = self.dims.iter().map(|d| inner(d) * d.stride).sum();
        let mut outer = vec![0usize; rank.saturating_sub(1)];
        let mut starts: Vec<i64> = self.dims.iter().map(|d| d.constant).collect();
        for target in to.chunks_exact_mut(row) {
            let (mut first, mut last, mut offset) = (0, row as i64, 0);
            for (d, start) in self.dims.iter().zip(&starts) {
                let (lo, hi) = inside(*start, inner(d), d.extent);
                (first, last) = (first.max(lo), last.min(hi));
                offset += start * d.stride;
            }
            if first < last {
                let target = &mut target[first as usize..last as usize];
                copy_row(from, offset + first * step, step, target);
            }
            for axis in (0..outer.len()).rev() {
                outer[axis] += 1;
                let wraps = outer[axis] == self.extents[axis];
                let moved = if wraps { 1 - self.extents[axis] as i64 } else { 1 };
                for (d, start) in self.dims.iter().zip(&mut starts) {
                    *start += d.coefficients[axis] * moved;
                }
                if !wraps {
                    break;
                }
                outer[axis] = 0;
            }
        }
    }
}

/// Copies elements at `offset + step * position`, all inside the source.
fn copy_row<const N: usize>(from: &[[u8; N]], offset: i64, step: i64, to: &mut [[u8; N]]) {
    if step == 1 {
        let start = offset as usize;
        to.copy_from_slice(&from[start..start + to.len()]);
        return;
    }
    let mut at = offset;
    for out in to {
        *out = from[at as usize];
        at += step;
    }
}

/// The range of positions `x` with `0 <= start + step * x < extent`.
fn inside(start: i64, step: i64, extent: i64) -> (i64, i64) {
    match step {
        0 if (0..extent).contains(&start) => (0, i64::MAX),
        0 => (0, 0),
        1 => (-start, extent - start),
        s if s > 0 => (ceil_div(-start, s), ceil_div(extent - start, s)),
        s => (ceil_div(start - extent + 1, -s), start.div_euclid(-s) + 1),
    }
}

fn ceil_div(a: i64, b: i64) -> i64 {
    -(-a).div_euclid(b)
}
