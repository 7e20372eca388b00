//! Windows slid over the spatial axes.

use super::Call;
use super::window::{Axis, Image};
use crate::dispatch::{dispatch, dispatch_float};
use crate::element::Element;
use crate::error::OpError;
use crate::number::Number;
use crate::op::{Pool, PoolKind};
use crate::tensor::Tensor;

/// A position of an image that a window meets: its offset within a channel, and its number there.
#[derive(Clone, Copy)]
struct Tap {
    offset: usize,
    number: usize,
}

/// Windows along one axis: for every output the taps inside, and how many taps count when the padding does.
struct Windows {
    taps: Vec<Vec<Tap>>,
    counted: Vec<usize>,
}

pub(super) fn evaluate(call: &Call, pool: &Pool) -> Result<Vec<Tensor>, OpError> {
    let x = call.get(0)?;
    let (image, out) = (Image::new(x.shape(), pool.layout), Image::new(&call.output().shape, pool.layout));
    let windows = windows(pool, &image, &out);
    match pool.kind {
        PoolKind::Max => Ok(dispatch!(x.element(), T => maximum::<T>(call, x, &image, &out, &windows))),
        PoolKind::Average { count_pad } => floats(call, x, &image, &out, &windows, |taps, counted| {
            let (sum, inside) = taps.fold((0.0, 0), |(sum, n), v| (sum + v, n + 1));
            let count = if count_pad { counted } else { inside };
            if count == 0 { 0.0 } else { sum / count as f64 }
        }),
        PoolKind::Lp { p } => floats(call, x, &image, &out, &windows, |taps, _| {
            let p = f64::from(p);
            taps.map(|v| v.abs().powf(p)).sum::<f64>().powf(1.0 / p)
        }),
    }
}

fn windows(pool: &Pool, image: &Image, out: &Image) -> Vec<Windows> {
    let rank = image.spatial.len();
    (0..rank)
        .map(|i| {
            let axis = Axis {
                extent: image.spatial[i],
                window: pool.window[i],
                stride: pool.strides[i],
                dilation: pool.dilations[i],
                begin: pool.begin[i] as i128,
            };
            let others = if pool.column_major { &image.spatial[..i] } else { &image.spatial[i + 1..] };
            let step: usize = others.iter().product();
            let tap = |at: usize| Tap { offset: at * image.spatial_strides[i], number: at * step };
            let outputs = 0..out.spatial[i];
            Windows {
                taps: outputs.clone().map(|output| axis.inside(output).map(tap).collect()).collect(),
                counted: outputs
                    .map(|output| axis.taps_before(output, axis.extent.saturating_add(pool.end[i])))
                    .collect(),
            }
        })
        .collect()
}

/// Calls `body` with every tap of one window.
fn visit(axes: &[&[Tap]], at: Tap, body: &mut impl FnMut(Tap)) {
    let join = |tap: &Tap| Tap { offset: at.offset + tap.offset, number: at.number + tap.number };
    match axes {
        [] => body(at),
        [last] => last.iter().for_each(|tap| body(join(tap))),
        [first, rest @ ..] => first.iter().for_each(|tap| visit(rest, join(tap), body)),
    }
}

/// Calls `body` for every position of a channel of the result: its offset, its window's taps and how many count.
fn for_each_window(out: &Image, windows: &[Windows], mut body: impl FnMut(usize, &[&[Tap]], usize)) {
    let mut taps: Vec<&[Tap]> = vec![&[]; windows.len()];
    for (position, offset) in out.offsets(0, out.positions()).into_iter().enumerate() {
        let mut rest = position;
        let mut counted = 1;
        for (i, axis) in windows.iter().enumerate().rev() {
            let at = rest % out.spatial[i];
            rest /= out.spatial[i];
            taps[i] = &axis.taps[at];
            counted *= axis.counted[at];
        }
        body(offset, &taps, counted);
    }
}

const ORIGIN: Tap = Tap { offset: 0, number: 0 };

/// The largest elements and their numbers in a channels-first image.
fn maximum<T: Number>(
    call: &Call,
    x: &Tensor,
    image: &Image,
    out: &Image,
    windows: &[Windows],
) -> Vec<Tensor> {
    let ty = call.output();
    let x = x.values::<T>();
    let mut values = vec![T::LOWEST; ty.len()];
    let mut numbers = vec![0i64; ty.len()];
    let plane = image.positions();
    for_each_window(out, windows, |offset, taps, _| {
        for batch in 0..image.batch {
            for channel in 0..image.channels {
                let base = batch * image.batch_stride + channel * image.channel_stride;
                let mut best: Option<(T, usize)> = None;
                visit(taps, ORIGIN, &mut |tap| {
                    let value = x[base + tap.offset];
                    if best.is_none_or(|(old, _)| value > old || (value.is_nan() && !old.is_nan())) {
                        best = Some((value, tap.number));
                    }
                });
                let (value, number) = best.unwrap_or((T::LOWEST, 0));
                let target = batch * out.batch_stride + channel * out.channel_stride + offset;
                values[target] = value;
                numbers[target] = ((batch * image.channels + channel) * plane + number) as i64;
            }
        }
    });
    vec![Tensor::with_element(ty.element, ty.shape.clone(), values), Tensor::new(ty.shape.clone(), numbers)]
}

/// A number for each window, from the elements in it and how many count.
fn floats(
    call: &Call,
    x: &Tensor,
    image: &Image,
    out: &Image,
    windows: &[Windows],
    f: impl Fn(&mut dyn Iterator<Item = f64>, usize) -> f64,
) -> Result<Vec<Tensor>, OpError> {
    let ty = call.output();
    dispatch_float!(x.element(), T => {
        let x = x.values::<T>();
        let mut values = vec![<T as Number>::ZERO; ty.len()];
        let mut offsets = Vec::new();
        for_each_window(out, windows, |offset, taps, counted| {
            offsets.clear();
            visit(taps, ORIGIN, &mut |tap| offsets.push(tap.offset));
            for batch in 0..image.batch {
                for channel in 0..image.channels {
                    let base = batch * image.batch_stride + channel * image.channel_stride;
                    let mut elements = offsets.iter().map(|offset| Element::to_f64(x[base + offset]));
                    let target = batch * out.batch_stride + channel * out.channel_stride + offset;
                    values[target] = <T as Element>::from_f64(f(&mut elements, counted));
                }
            }
        });
        Ok(vec![Tensor::with_element(ty.element, ty.shape.clone(), values)])
    }, else Err(OpError::DataDependent { op: call.op.name() }))
}
