//! Transposed convolutions: every element of the input adds a scaled window to the result.

use super::Call;
use super::gemm::gemm;
use super::window::{Axis, Image};
use crate::dispatch::dispatch;
use crate::error::OpError;
use crate::number::Number;
use crate::op::ConvTranspose;
use crate::tensor::Tensor;

/// Positions of the input that are multiplied together.
const BLOCK: usize = 256;

pub(super) fn evaluate(call: &Call, conv: &ConvTranspose) -> Result<Tensor, OpError> {
    dispatch!(call.output().element, T => transposed::<T>(call, conv))
}

fn transposed<T: Number>(call: &Call, conv: &ConvTranspose) -> Result<Tensor, OpError> {
    let (x_tensor, w_tensor, out_type) = (call.get(0)?, call.get(1)?, call.output());
    let (x, w) = (x_tensor.values::<T>(), w_tensor.values::<T>());
    let (image, out) = (Image::new(x_tensor.shape(), conv.layout), Image::new(&out_type.shape, conv.layout));
    let window_shape = &w_tensor.shape()[2..];
    let window: usize = window_shape.iter().product();
    let filters = w_tensor.shape()[1];
    let rows = filters * window;
    let channels = image.channels / conv.groups;
    let axes: Vec<Axis> = (0..image.spatial.len())
        .map(|i| Axis {
            extent: out.spatial[i],
            window: window_shape[i],
            stride: conv.strides[i],
            dilation: conv.dilations[i],
            begin: i128::from(conv.begin[i]),
        })
        .collect();
    let mut sums = vec![T::Sum::ZERO; out_type.len()];
    if let Some(bias) = call.maybe(2) {
        let bias = bias.values::<T>();
        let planes = out.offsets(0, out.positions());
        for (i, value) in (0..out.batch).flat_map(|_| bias.iter().enumerate()).enumerate() {
            let base = i / out.channels * out.batch_stride + value.0 * out.channel_stride;
            planes.iter().for_each(|offset| sums[base + offset] = value.1.widen());
        }
    }
    let positions = image.positions();
    for group in 0..conv.groups {
        let weights = transposed_weights(&w[group * channels * rows..][..channels * rows], channels, rows);
        for first in (0..positions).step_by(BLOCK) {
            let count = BLOCK.min(positions - first);
            let sources = image.offsets(first, count);
            let targets = targets(&axes, &image, &out, first, count, window);
            let mut columns = vec![T::Sum::ZERO; channels * count];
            let mut products = vec![T::Sum::ZERO; rows * count];
            for batch in 0..image.batch {
                for (channel, column) in columns.chunks_exact_mut(count).enumerate() {
                    let base =
                        batch * image.batch_stride + (group * channels + channel) * image.channel_stride;
                    column.iter_mut().zip(&sources).for_each(|(value, at)| *value = x[base + at].widen());
                }
                gemm((rows, channels, count), &weights, &columns, &mut products, |_| {
                    <T::Sum as Number>::Sum::ZERO
                });
                for (row, values) in products.chunks_exact(count).enumerate() {
                    let filter = group * filters + row / window;
                    let base = batch * out.batch_stride + filter * out.channel_stride;
                    for (value, target) in values.iter().zip(&targets[row % window * count..]) {
                        if let Some(target) = target {
                            sums[base + target] = sums[base + target].add(*value);
                        }
                    }
                }
            }
        }
    }
    let values: Vec<T> = sums.into_iter().map(T::narrow).collect();
    Ok(Tensor::with_element(out_type.element, out_type.shape.clone(), values))
}

/// Weights `[channels, rows]` as `[rows, channels]`, in the type that is accumulated in.
fn transposed_weights<T: Number>(w: &[T], channels: usize, rows: usize) -> Vec<T::Sum> {
    (0..rows).flat_map(|row| (0..channels).map(move |channel| w[channel * rows + row].widen())).collect()
}

/// For every tap and every position of a block, the offset within a channel of the result, none where it is cut.
fn targets(
    axes: &[Axis],
    image: &Image,
    out: &Image,
    first: usize,
    count: usize,
    window: usize,
) -> Vec<Option<usize>> {
    let target = |tap: usize, position: usize| {
        let (mut tap, mut position, mut offset) = (tap, position, 0);
        for (i, axis) in axes.iter().enumerate().rev() {
            offset += axis.meet(position % image.spatial[i], tap % axis.window)? * out.spatial_strides[i];
            position /= image.spatial[i];
            tap /= axis.window;
        }
        Some(offset)
    };
    (0..window).flat_map(|tap| (first..first + count).map(move |position| target(tap, position))).collect()
}
