//! Convolutions and pooling.

use super::args::{Args, Kind};
use crate::element::ElementType;
use crate::error::OpError;
use crate::op::{Conv, ConvTranspose, Layout, Pool, PoolKind};
use crate::tensor::TensorType;

/// The extents of an image apart.
struct Image<'a> {
    batch: usize,
    channels: usize,
    spatial: &'a [usize],
}

/// Takes apart input 0, which has a batch, channels and `rank` spatial axes.
fn image<'a>(args: &Args<'a>, layout: Layout, rank: usize) -> Result<Image<'a>, OpError> {
    let x = args.get(0)?;
    args.ensure(rank > 0, || "there are no spatial axes")?;
    args.require(0, x.shape.len() == rank + 2, || format!("of rank {}, a batch of images", rank + 2))?;
    Ok(match layout {
        Layout::ChannelsFirst => Image { batch: x.shape[0], channels: x.shape[1], spatial: &x.shape[2..] },
        Layout::ChannelsLast => {
            Image { batch: x.shape[0], channels: x.shape[rank + 1], spatial: &x.shape[1..=rank] }
        }
    })
}

/// The shape of an image put together.
fn shape(layout: Layout, batch: usize, channels: usize, spatial: &[usize]) -> Vec<usize> {
    match layout {
        Layout::ChannelsFirst => [&[batch, channels], spatial].concat(),
        Layout::ChannelsLast => [&[batch], spatial, &[channels]].concat(),
    }
}

/// Checks that a list has an entry for each spatial axis.
fn each(args: &Args, name: &str, length: usize, rank: usize) -> Result<(), OpError> {
    args.ensure(length == rank, || format!("{length} {name} for {rank} spatial axes"))
}

/// Checks that steps are positive.
fn positive(args: &Args, name: &str, steps: &[usize], rank: usize) -> Result<(), OpError> {
    each(args, name, steps.len(), rank)?;
    args.ensure(!steps.contains(&0), || format!("{name} {steps:?} must be positive"))
}

/// How far a dilated window reaches.
fn reach(window: usize, dilation: usize) -> u128 {
    (window as u128).saturating_sub(1) * dilation as u128 + 1
}

pub(super) fn conv(args: &Args, conv: &Conv) -> Result<TensorType, OpError> {
    args.arity(2, 3)?;
    let x = args.kind(0, Kind::Number)?;
    args.element(1, x.element)?;
    args.element(2, x.element)?;
    let shape = conv_shape(args, conv)?;
    args.shape(2, &args.get(1)?.shape[..1])?;
    Ok(TensorType::new(x.element, shape))
}

pub(super) fn conv_integer(args: &Args, conv: &Conv) -> Result<TensorType, OpError> {
    args.arity(2, 4)?;
    for input in 0..4 {
        if let Some(ty) = args.maybe(input) {
            args.require(
                input,
                matches!(ty.element, ElementType::I8 | ElementType::U8),
                || "of type i8 or u8",
            )?;
        }
    }
    let shape = conv_shape(args, conv)?;
    args.element(2, args.get(0)?.element)?;
    args.element(3, args.get(1)?.element)?;
    if let Some(zero) = args.maybe(2) {
        args.require(2, zero.len() == 1, || "a scalar")?;
    }
    if let Some(zero) = args.maybe(3) {
        let filters = &args.get(1)?.shape[..1];
        args.require(
            3,
            zero.len() == 1 || zero.shape == filters,
            || "a scalar or one value for each filter",
        )?;
    }
    Ok(TensorType::new(ElementType::I32, shape))
}

fn conv_shape(args: &Args, conv: &Conv) -> Result<Vec<usize>, OpError> {
    let rank = conv.strides.len();
    positive(args, "strides", &conv.strides, rank)?;
    positive(args, "dilations", &conv.dilations, rank)?;
    each(args, "pads before", conv.begin.len(), rank)?;
    each(args, "pads after", conv.end.len(), rank)?;
    let x = image(args, conv.layout, rank)?;
    let w = args.get(1)?;
    args.require(1, w.shape.len() == rank + 2, || format!("of rank {}, filters", rank + 2))?;
    let groups = conv.groups;
    args.ensure(groups > 0 && w.shape[0] % groups == 0, || format!("{groups} groups of filters {w}"))?;
    args.require(1, w.shape[1].checked_mul(groups) == Some(x.channels), || {
        format!("filters of {} channels, in {groups} groups", x.channels)
    })?;
    let mut spatial = Vec::with_capacity(rank);
    for i in 0..rank {
        let window = w.shape[i + 2];
        args.require(1, window > 0, || "of a window that is not empty")?;
        let padded = x.spatial[i] as u128 + conv.begin[i] as u128 + conv.end[i] as u128;
        let free = padded.checked_sub(reach(window, conv.dilations[i])).ok_or_else(|| {
            args.attribute(format!("the window does not fit into spatial axis {i}, {padded} with padding"))
        })?;
        spatial.push(count(args, free / conv.strides[i] as u128 + 1)?);
    }
    Ok(shape(conv.layout, x.batch, w.shape[0], &spatial))
}

fn count(args: &Args, extent: u128) -> Result<usize, OpError> {
    usize::try_from(extent).map_err(|_| args.attribute("the result is too large"))
}

pub(super) fn conv_transpose(args: &Args, conv: &ConvTranspose) -> Result<TensorType, OpError> {
    args.arity(2, 3)?;
    let element = args.kind(0, Kind::Number)?.element;
    args.element(1, element)?;
    args.element(2, element)?;
    let rank = conv.strides.len();
    positive(args, "strides", &conv.strides, rank)?;
    positive(args, "dilations", &conv.dilations, rank)?;
    each(args, "cuts before", conv.begin.len(), rank)?;
    each(args, "cuts after", conv.end.len(), rank)?;
    let x = image(args, conv.layout, rank)?;
    let w = args.get(1)?;
    args.require(1, w.shape.len() == rank + 2, || format!("of rank {}, filters", rank + 2))?;
    args.require(1, w.shape[0] == x.channels, || {
        format!("of extent {} on axis 0, the channels", x.channels)
    })?;
    let groups = conv.groups;
    args.ensure(groups > 0 && x.channels % groups == 0, || {
        format!("{groups} groups of {} channels", x.channels)
    })?;
    let filters = count(args, w.shape[1] as u128 * groups as u128)?;
    args.shape(2, &[filters])?;
    let mut spatial = Vec::with_capacity(rank);
    for i in 0..rank {
        let window = w.shape[i + 2];
        args.require(1, window > 0, || "of a window that is not empty")?;
        args.require(0, x.spatial[i] > 0, || "of spatial extents that are not zero")?;
        let full = ((x.spatial[i] - 1) as u128)
            .checked_mul(conv.strides[i] as u128)
            .and_then(|full| full.checked_add(reach(window, conv.dilations[i])))
            .and_then(|full| i128::try_from(full).ok())
            .ok_or_else(|| args.attribute("the result is too large"))?;
        let cut = full.saturating_sub(i128::from(conv.begin[i])).saturating_sub(i128::from(conv.end[i]));
        args.ensure(cut >= 0, || format!("more than the {full} elements of spatial axis {i} are cut"))?;
        spatial.push(count(args, cut as u128)?);
    }
    Ok(TensorType::new(element, shape(conv.layout, x.batch, filters, &spatial)))
}

pub(super) fn pool(args: &Args, pool: &Pool) -> Result<Vec<TensorType>, OpError> {
    args.arity(1, 1)?;
    let kind = if pool.kind == PoolKind::Max { Kind::Number } else { Kind::Float };
    let element = args.kind(0, kind)?.element;
    let rank = pool.window.len();
    positive(args, "windows", &pool.window, rank)?;
    positive(args, "strides", &pool.strides, rank)?;
    positive(args, "dilations", &pool.dilations, rank)?;
    each(args, "pads before", pool.begin.len(), rank)?;
    each(args, "pads after", pool.end.len(), rank)?;
    args.ensure(pool.kind != PoolKind::Lp { p: 0 }, || "the exponent of the norm is zero")?;
    let x = image(args, pool.layout, rank)?;
    let mut spatial = Vec::with_capacity(rank);
    for i in 0..rank {
        let padded = x.spatial[i] as u128 + pool.begin[i] as u128 + pool.end[i] as u128;
        let reach = reach(pool.window[i], pool.dilations[i]);
        let stride = pool.strides[i] as u128;
        let slack = if pool.ceil { stride - 1 } else { 0 };
        let free = (padded + slack).checked_sub(reach).ok_or_else(|| {
            args.attribute(format!("the window does not fit into spatial axis {i}, {padded} with padding"))
        })?;
        let windows = free / stride + 1;
        let starts_outside = pool.ceil
            && windows > 1
            && (windows - 1) * stride >= x.spatial[i] as u128 + pool.begin[i] as u128;
        spatial.push(count(args, windows - u128::from(starts_outside))?);
    }
    let shape = shape(pool.layout, x.batch, x.channels, &spatial);
    let mut outputs = vec![TensorType::new(element, shape.clone())];
    if pool.kind == PoolKind::Max {
        outputs.push(TensorType::new(ElementType::I64, shape));
    }
    Ok(outputs)
}
