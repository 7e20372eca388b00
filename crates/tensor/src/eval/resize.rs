//! Interpolation to another size, one axis after the other.

use super::Call;
use super::pad::copy;
use crate::dispatch::dispatch_raw;
use crate::error::OpError;
use crate::op::{Coordinates, NearestRule, Resize, ResizeMode};
use crate::tensor::Tensor;
use crate::walk::strides;

/// How one position of the result along an axis comes about: elements and their weights, none outside of the region.
type Taps = Option<Vec<(usize, f64)>>;

pub(super) fn evaluate(call: &Call, resize: &Resize) -> Result<Tensor, OpError> {
    let x = call.get(0)?;
    match resize.mode {
        ResizeMode::Nearest(rule) => Ok(nearest(x, resize, rule)),
        ResizeMode::Linear | ResizeMode::Cubic { .. } => Ok(interpolated(x, resize)),
    }
}

/// The scale of an axis: the exact quotient of the extents where the model's scale is that quotient rounded.
fn scale(x: &Tensor, resize: &Resize, axis: usize) -> f64 {
    let quotient = resize.shape[axis] as f64 / x.shape()[axis] as f64;
    let given = resize.scales[axis];
    if quotient as f32 == given { quotient } else { f64::from(given) }
}

/// Where a position of the result lies in the input; none if it is outside of what may be extrapolated.
fn coordinate(x: &Tensor, resize: &Resize, axis: usize, position: usize) -> Option<f64> {
    let (extent, position) = (x.shape()[axis] as f64, position as f64);
    let scale = scale(x, resize, axis);
    let length = scale * extent;
    let half_pixel = (position + 0.5) / scale - 0.5;
    match resize.coordinates {
        Coordinates::HalfPixel => Some(half_pixel),
        Coordinates::HalfPixelSymmetric => {
            let adjustment = resize.shape[axis] as f64 / length;
            Some(extent / 2.0 * (1.0 - adjustment) + half_pixel)
        }
        Coordinates::PytorchHalfPixel => Some(if length == 1.0 { -0.5 } else { half_pixel }),
        Coordinates::AlignCorners if length == 1.0 => Some(0.0),
        Coordinates::AlignCorners => Some(position * (extent - 1.0) / (length - 1.0)),
        Coordinates::Asymmetric => Some(position / scale),
        Coordinates::CropAndResize => {
            let rank = resize.shape.len();
            let (begin, end) = (f64::from(resize.roi[axis]), f64::from(resize.roi[rank + axis]));
            let within = if length == 1.0 {
                (end - begin) * (extent - 1.0) / 2.0
            } else {
                position * (end - begin) * (extent - 1.0) / (length - 1.0)
            };
            let at = within + begin * (extent - 1.0);
            (0.0..=extent - 1.0).contains(&at).then_some(at)
        }
    }
}

/// True if the axis is left as it is.
fn unchanged(x: &Tensor, resize: &Resize, axis: usize) -> bool {
    let whole = resize.coordinates != Coordinates::CropAndResize
        || (resize.roi[axis] == 0.0 && resize.roi[resize.shape.len() + axis] == 1.0);
    whole && resize.shape[axis] == x.shape()[axis] && resize.scales[axis] == 1.0
}

fn clamp(at: f64, extent: usize) -> usize {
    at.clamp(0.0, (extent - 1) as f64) as usize
}

fn nearest(x: &Tensor, resize: &Resize, rule: NearestRule) -> Tensor {
    let strides = strides(x.shape());
    let mut sources: Vec<Vec<Option<usize>>> = Vec::with_capacity(strides.len());
    for (axis, &stride) in strides.iter().enumerate() {
        let extent = x.shape()[axis];
        let source = |position: usize| {
            if unchanged(x, resize, axis) {
                return Some(position * stride as usize);
            }
            let at = coordinate(x, resize, axis, position)?;
            let near = match rule {
                NearestRule::RoundPreferFloor => (at - 0.5).ceil(),
                NearestRule::RoundPreferCeil => (at + 0.5).floor(),
                NearestRule::Floor => at.floor(),
                NearestRule::Ceil => at.ceil(),
            };
            Some(clamp(near, extent) * stride as usize)
        };
        sources.push((0..resize.shape[axis]).map(source).collect());
    }
    let fill = Tensor::from_f64(x.element(), [], [f64::from(resize.extrapolation)]);
    dispatch_raw!(x.element(), T => {
        let mut values = Vec::with_capacity(resize.shape.iter().product());
        copy(&x.raw::<T>(), &sources, Some(0), fill.raw::<T>()[0], &mut values);
        Tensor::with_element(x.element(), resize.shape.clone(), values)
    })
}

fn interpolated(x: &Tensor, resize: &Resize) -> Tensor {
    let mut values = x.to_f64();
    let mut shape = x.shape().to_vec();
    let mut outside: Vec<(usize, Vec<usize>)> = Vec::new();
    for axis in 0..shape.len() {
        if unchanged(x, resize, axis) {
            continue;
        }
        let taps: Vec<Taps> =
            (0..resize.shape[axis]).map(|position| taps(x, resize, axis, position)).collect();
        outside.push((axis, (0..taps.len()).filter(|&i| taps[i].is_none()).collect()));
        values = along(&values, &shape, axis, &taps);
        shape[axis] = taps.len();
    }
    for (axis, positions) in outside {
        let inner: usize = shape[axis + 1..].iter().product();
        let outer: usize = shape[..axis].iter().product();
        for row in 0..outer {
            for position in &positions {
                values[(row * shape[axis] + position) * inner..][..inner]
                    .fill(f64::from(resize.extrapolation));
            }
        }
    }
    Tensor::from_f64(x.element(), shape, values)
}

/// Weighted sums along an axis; positions outside of the region are left zero.
fn along(x: &[f64], shape: &[usize], axis: usize, positions: &[Taps]) -> Vec<f64> {
    let inner: usize = shape[axis + 1..].iter().product();
    let outer: usize = shape[..axis].iter().product();
    let mut out = vec![0.0; outer * positions.len() * inner];
    for (i, target) in out.chunks_exact_mut(inner).enumerate() {
        let (row, position) = (i / positions.len(), i % positions.len());
        for &(source, weight) in positions[position].iter().flatten() {
            let source = &x[(row * shape[axis] + source) * inner..][..inner];
            target.iter_mut().zip(source).for_each(|(target, v)| *target += weight * v);
        }
    }
    out
}

/// The elements and weights of one position: the filter around its coordinate, elements beyond the border being
/// those at the border, or left out.
fn taps(x: &Tensor, resize: &Resize, axis: usize, position: usize) -> Taps {
    let extent = x.shape()[axis];
    let at = coordinate(x, resize, axis, position)?;
    let base = at.ceil() - 1.0;
    let ratio = at - base;
    let shrink = if resize.antialias { scale(x, resize, axis).min(1.0) } else { 1.0 };
    let radius = if matches!(resize.mode, ResizeMode::Cubic { .. }) { 2.0 } else { 1.0 };
    let first = (-radius / shrink).floor() as i64 + 1;
    let last = 1 - first;
    let mut out: Vec<(usize, f64)> = Vec::with_capacity((last - first + 1) as usize);
    for i in first..=last {
        let index = base + i as f64;
        if resize.exclude_outside && !(0.0..extent as f64).contains(&index) {
            continue;
        }
        let distance = ((i as f64 - ratio) * shrink).abs();
        let weight = match resize.mode {
            ResizeMode::Cubic { a } => cubic(distance, f64::from(a)),
            _ => (1.0 - distance).max(0.0),
        };
        out.push((clamp(index, extent), weight));
    }
    let sum: f64 = out.iter().map(|(_, weight)| weight).sum();
    if (resize.antialias || resize.exclude_outside) && sum != 0.0 {
        out.iter_mut().for_each(|(_, weight)| *weight /= sum);
    }
    Some(out)
}

/// The cubic convolution kernel.
fn cubic(distance: f64, a: f64) -> f64 {
    let d = distance;
    if d <= 1.0 {
        ((a + 2.0) * d - (a + 3.0)) * d * d + 1.0
    } else if d < 2.0 {
        ((a * d - 5.0 * a) * d + 8.0 * a) * d - 4.0 * a
    } else {
        0.0
    }
}
