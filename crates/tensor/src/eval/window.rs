//! Images and where windows meet them.

use crate::op::Layout;
use crate::walk::strides;

/// How the elements of an image lie in memory.
pub(super) struct Image {
    pub(super) batch: usize,
    pub(super) channels: usize,
    pub(super) spatial: Vec<usize>,
    pub(super) batch_stride: usize,
    pub(super) channel_stride: usize,
    pub(super) spatial_strides: Vec<usize>,
}

impl Image {
    /// An image of a shape in a layout.
    pub(super) fn new(shape: &[usize], layout: Layout) -> Image {
        let own: Vec<usize> = strides(shape).into_iter().map(|stride| stride as usize).collect();
        let last = shape.len() - 1;
        let (channel, spatial) = match layout {
            Layout::ChannelsFirst => (1, 2..last + 1),
            Layout::ChannelsLast => (last, 1..last),
        };
        Image {
            batch: shape[0],
            channels: shape[channel],
            spatial: shape[spatial.clone()].to_vec(),
            batch_stride: own[0],
            channel_stride: own[channel],
            spatial_strides: own[spatial].to_vec(),
        }
    }

    /// Positions in a channel.
    pub(super) fn positions(&self) -> usize {
        self.spatial.iter().product()
    }

    /// The offset within a channel of every position from `first` on, `count` of them.
    pub(super) fn offsets(&self, first: usize, count: usize) -> Vec<usize> {
        let axes = self.spatial.iter().zip(&self.spatial_strides);
        (first..first + count)
            .map(|position| {
                let mut rest = position;
                axes.clone().rev().fold(0, |offset, (&extent, &stride)| {
                    let at = rest % extent;
                    rest /= extent;
                    offset + at * stride
                })
            })
            .collect()
    }
}

/// Where a window meets one axis: position `output * stride + tap * dilation - begin` of `extent`.
#[derive(Clone, Copy)]
pub(super) struct Axis {
    pub(super) extent: usize,
    pub(super) window: usize,
    pub(super) stride: usize,
    pub(super) dilation: usize,
    pub(super) begin: i128,
}

impl Axis {
    /// The position that a tap of an output's window meets, if it is inside.
    pub(super) fn meet(&self, output: usize, tap: usize) -> Option<usize> {
        let at = output as i128 * self.stride as i128 + tap as i128 * self.dilation as i128 - self.begin;
        usize::try_from(at).ok().filter(|&at| at < self.extent)
    }

    /// How many taps of an output's window lie before `limit`, the first position outside of the padding.
    pub(super) fn taps_before(&self, output: usize, limit: usize) -> usize {
        let start = output as i128 * self.stride as i128 - self.begin;
        let room = (limit as i128 - start).max(0) as u128;
        room.div_ceil(self.dilation as u128).min(self.window as u128) as usize
    }

    /// The positions inside that an output's window meets.
    pub(super) fn inside(&self, output: usize) -> impl Iterator<Item = usize> + use<> {
        let start = output as i128 * self.stride as i128 - self.begin;
        let dilation = self.dilation as i128;
        let first = if start >= 0 { 0 } else { (-start + dilation - 1) / dilation };
        let room = (self.extent as i128 - start).max(0);
        let last = ((room + dilation - 1) / dilation).min(self.window as i128);
        (first..last.max(first)).map(move |tap| (start + tap * dilation) as usize)
    }
}
