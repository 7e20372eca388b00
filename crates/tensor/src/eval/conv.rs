//! Convolutions: windows are laid out as columns, block by block, and multiplied with the filters.

use super::Call;
use super::gemm::gemm;
use super::linear::shifted;
use super::window::{Axis, Image};
use crate::dispatch::dispatch;
use crate::element::Element;
use crate::error::OpError;
use crate::number::Number;
use crate::op::Conv;
use crate::tensor::Tensor;

/// Elements of a block of columns, so that it stays in cache.
const BLOCK: usize = 1 << 16;

pub(super) fn conv(call: &Call, conv: &Conv) -> Result<Tensor, OpError> {
    let (x, w) = (call.get(0)?, call.get(1)?);
    let out = call.output();
    Ok(dispatch!(out.element, T => {
        let bias = call.maybe(2).map(|bias| bias.values::<T>());
        let values = convolve::<T>(&x.values::<T>(), x.shape(), &w.values::<T>(), w.shape(), bias.as_deref(), conv, &out.shape);
        Tensor::with_element(out.element, out.shape.clone(), values)
    }))
}

pub(super) fn conv_integer(call: &Call, conv: &Conv) -> Result<Tensor, OpError> {
    let (x, w) = (call.get(0)?, call.get(1)?);
    let shape = &call.output().shape;
    let per_filter: usize = w.shape()[1..].iter().product();
    let image = shifted(x, call.maybe(2), |_, _| 0);
    let filters = shifted(w, call.maybe(3), |i, _| i / per_filter);
    let values = convolve::<i32>(&image, x.shape(), &filters, w.shape(), None, conv, shape);
    Ok(Tensor::new(shape.clone(), values))
}

fn convolve<T: Number + Element>(
    x: &[T],
    x_shape: &[usize],
    w: &[T],
    w_shape: &[usize],
    bias: Option<&[T]>,
    conv: &Conv,
    out_shape: &[usize],
) -> Vec<T> {
    let (image, out) = (Image::new(x_shape, conv.layout), Image::new(out_shape, conv.layout));
    let filters = out.channels / conv.groups;
    let channels = w_shape[1];
    let window = if channels == 0 { 0 } else { w_shape[2..].iter().product() };
    let depth = channels * window;
    let axes: Vec<Axis> = (0..image.spatial.len())
        .map(|i| Axis {
            extent: image.spatial[i],
            window: w_shape[i + 2],
            stride: conv.strides[i],
            dilation: conv.dilations[i],
            begin: conv.begin[i] as i128,
        })
        .collect();
    let positions = out.positions();
    let block = (BLOCK / depth.max(1)).clamp(16, 1 << 12).min(positions);
    let mut values = vec![T::ZERO; out_shape.iter().product()];
    let mut columns = vec![T::ZERO; depth * block];
    let mut products = vec![T::ZERO; filters * block];
    for first in (0..positions).step_by(block) {
        let count = block.min(positions - first);
        let sources: Vec<Vec<Option<usize>>> =
            (0..window).map(|tap| tap_sources(&axes, &image, &out, tap, first, count)).collect();
        let targets = out.offsets(first, count);
        for batch in 0..image.batch {
            for group in 0..conv.groups {
                for channel in 0..channels {
                    let base =
                        batch * image.batch_stride + (group * channels + channel) * image.channel_stride;
                    for (tap, sources) in sources.iter().enumerate() {
                        let column = &mut columns[(channel * window + tap) * count..][..count];
                        for (value, source) in column.iter_mut().zip(sources) {
                            *value = source.map_or(T::ZERO, |offset| x[base + offset]);
                        }
                    }
                }
                let weights = &w[group * filters * depth..][..filters * depth];
                let start =
                    |row: usize| bias.map_or(T::Sum::ZERO, |bias| bias[group * filters + row].widen());
                gemm(
                    (filters, depth, count),
                    weights,
                    &columns[..depth * count],
                    &mut products[..filters * count],
                    start,
                );
                for (filter, row) in products[..filters * count].chunks_exact(count).enumerate() {
                    let base = batch * out.batch_stride + (group * filters + filter) * out.channel_stride;
                    row.iter().zip(&targets).for_each(|(&value, &target)| values[base + target] = value);
                }
            }
        }
    }
    values
}

/// For `count` positions of the result from `first` on, the offset within a channel that a tap reads, none outside.
fn tap_sources(
    axes: &[Axis],
    image: &Image,
    out: &Image,
    tap: usize,
    first: usize,
    count: usize,
) -> Vec<Option<usize>> {
    let mut taps = vec![0; axes.len()];
    let mut rest = tap;
    for (tap, axis) in taps.iter_mut().zip(axes).rev() {
        *tap = rest % axis.window;
        rest /= axis.window;
    }
    let source = |position: usize| {
        let mut rest = position;
        let mut offset = 0;
        for (i, axis) in axes.iter().enumerate().rev() {
            offset += axis.meet(rest % out.spatial[i], taps[i])? * image.spatial_strides[i];
            rest /= out.spatial[i];
        }
        Some(offset)
    };
    (first..first + count).map(source).collect()
}
