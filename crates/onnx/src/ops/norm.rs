//! Normalisations: batch, layer, instance, group, root mean square, mean-variance, local response, p-norm.

use talweg_graph::ValueId;
use talweg_tensor::op::{Binary, ReduceKind, Unary};
use talweg_tensor::{Op, Tensor};

use super::windows::spatial;
use super::{Entry, entry};
use crate::call::{Call, Outputs, axes, size};
use crate::error::Failure;

pub(super) const ENTRIES: &[Entry] = &[
    entry("BatchNormalization", 7, batch),
    entry("GroupNormalization", 18, group),
    entry("InstanceNormalization", 6, instance),
    entry("LRN", 1, local_response),
    entry("LayerNormalization", 17, layer),
    entry("LpNormalization", 1, lp),
    entry("MeanVarianceNormalization", 9, mean_variance),
    entry("RMSNormalization", 23, rms),
];

/// A vector of one entry for each channel, broadcast over `[batch, channels, spatial...]` of the given rank.
fn per_channel(call: &mut Call, value: ValueId, rank: usize) -> Result<ValueId, Failure> {
    let len = call.builder.ty(value).len();
    let mut shape = vec![1; rank.saturating_sub(1)];
    if let Some(first) = shape.first_mut() {
        *first = len;
    }
    call.builder.reshape(value, shape)
}

/// In inference two operations with folded constants; in training mode from the batch itself.
fn batch(call: &mut Call) -> Outputs {
    let x = call.input(0)?;
    let (scale, bias, mean, variance) = (call.input(1)?, call.input(2)?, call.input(3)?, call.input(4)?);
    let rank = call.rank(x);
    if call.opset < 9 && call.int_or("spatial", 1)? == 0 {
        return Err(Failure::unsupported(
            "statistics for every position (`spatial = 0`) are not supported",
            "convert the model to operator set 9 or newer",
        ));
    }
    let epsilon = f64::from(call.float_or("epsilon", 1e-5)?);
    if call.opset >= 14 && call.flag("training_mode", false)? {
        let axes: Vec<usize> = (0..rank).filter(|&axis| axis != 1).collect();
        let momentum = f64::from(call.float_or("momentum", 0.9)?);
        let now = call.builder.reduce(ReduceKind::Mean, x, axes.clone(), true)?;
        let centred = call.builder.sub(x, now)?;
        let squares = call.builder.mul(centred, centred)?;
        let spread = call.builder.reduce(ReduceKind::Mean, squares, axes, true)?;
        let len = call.builder.ty(mean).len();
        let now = call.builder.reshape(now, vec![len])?;
        let spread = call.builder.reshape(spread, vec![len])?;
        let y = scale_and_shift(call, x, [scale, bias, now, spread], epsilon)?;
        let mut outputs = vec![y];
        for (old, new) in [(mean, now), (variance, spread)] {
            let old = call.builder.scaled(old, momentum)?;
            let new = call.builder.scaled(new, 1.0 - momentum)?;
            outputs.push(call.builder.add(old, new)?);
        }
        return Ok(outputs);
    }
    let y = scale_and_shift(call, x, [scale, bias, mean, variance], epsilon)?;
    Ok(vec![y, mean, variance])
}

/// `x * a + b` with `a = scale / sqrt(variance + epsilon)` and `b = bias - mean * a`.
fn scale_and_shift(
    call: &mut Call,
    x: ValueId,
    [scale, bias, mean, variance]: [ValueId; 4],
    epsilon: f64,
) -> Result<ValueId, Failure> {
    let element = call.element(x);
    let rank = call.rank(x);
    let epsilon = call.builder.scalar_like(variance, epsilon);
    let deviation = call.builder.add(variance, epsilon)?;
    let deviation = call.builder.unary(Unary::Sqrt, deviation)?;
    let wide = call.element(variance);
    let scale = call.builder.cast(scale, wide)?;
    let bias = call.builder.cast(bias, wide)?;
    let factor = call.builder.div(scale, deviation)?;
    let shift = call.builder.mul(mean, factor)?;
    let shift = call.builder.sub(bias, shift)?;
    let factor = call.builder.cast(factor, element)?;
    let shift = call.builder.cast(shift, element)?;
    let factor = per_channel(call, factor, rank)?;
    let shift = per_channel(call, shift, rank)?;
    let y = call.builder.mul(x, factor)?;
    call.builder.add(y, shift)
}

fn layer(call: &mut Call) -> Outputs {
    let (x, scale) = (call.input(0)?, call.input(1)?);
    let axis = call.axis(-1, call.rank(x))?;
    let op = Op::LayerNorm { axis, epsilon: call.float_or("epsilon", 1e-5)? };
    let outputs = (0..3).rev().find(|&i| call.wants(i)).map_or(1, |last| last + 1);
    call.builder.emit(op, &[Some(x), Some(scale), call.optional(2)], outputs)
}

fn rms(call: &mut Call) -> Outputs {
    let (x, scale) = (call.input(0)?, call.input(1)?);
    let axis = call.axis(-1, call.rank(x))?;
    let op = Op::RmsNorm { axis, epsilon: call.float_or("epsilon", 1e-5)? };
    Ok(vec![call.builder.one(op, &[x, scale])?])
}

/// A layer normalisation of every row of `x` seen as `[batch, groups, rest]`.
fn normalise_groups(call: &mut Call, x: ValueId, groups: usize) -> Result<ValueId, Failure> {
    let shape = call.shape(x);
    let &[batch, channels, ..] = shape.as_slice() else {
        return Err(Failure::invalid(format!("the input has the shape {shape:?}, which has no channels")));
    };
    if groups == 0 || !channels.is_multiple_of(groups) {
        return Err(Failure::invalid(format!("{channels} channels do not divide into {groups} groups")));
    }
    let rest: usize = channels / groups * shape[2..].iter().product::<usize>();
    let rows = call.builder.reshape(x, vec![batch, groups, rest])?;
    let one = Tensor::from_f64(call.element(x), [], [1.0]);
    let ones = call.builder.filled(one, vec![rest])?;
    let op = Op::LayerNorm { axis: 2, epsilon: call.float_or("epsilon", 1e-5)? };
    let y = call.builder.one(op, &[rows, ones])?;
    call.builder.reshape(y, shape)
}

fn instance(call: &mut Call) -> Outputs {
    let (x, scale, bias) = (call.input(0)?, call.input(1)?, call.input(2)?);
    let shape = call.shape(x);
    spatial(&shape)?;
    let y = normalise_groups(call, x, shape[1])?;
    let scale = per_channel(call, scale, shape.len())?;
    let bias = per_channel(call, bias, shape.len())?;
    let y = call.builder.mul(y, scale)?;
    Ok(vec![call.builder.add(y, bias)?])
}

/// Scale and bias belong to groups in operator sets 18 to 20, and to channels from 21 on.
fn group(call: &mut Call) -> Outputs {
    let (x, mut scale, mut bias) = (call.input(0)?, call.input(1)?, call.input(2)?);
    let groups = call.int("num_groups")?.ok_or_else(|| Failure::invalid("`num_groups` is missing"))?;
    let groups = size(groups, "`num_groups`")?;
    let shape = call.shape(x);
    let y = normalise_groups(call, x, groups)?;
    if call.opset < 21 {
        let channels = shape[1];
        for value in [&mut scale, &mut bias] {
            let column = call.builder.reshape(*value, vec![groups, 1])?;
            let wide = call.builder.expand(column, vec![groups, channels / groups])?;
            *value = call.builder.reshape(wide, vec![channels])?;
        }
    }
    let scale = per_channel(call, scale, shape.len())?;
    let bias = per_channel(call, bias, shape.len())?;
    let y = call.builder.mul(y, scale)?;
    Ok(vec![call.builder.add(y, bias)?])
}

fn mean_variance(call: &mut Call) -> Outputs {
    let x = call.input(0)?;
    let given = call.ints("axes")?.unwrap_or_else(|| vec![0, 2, 3]);
    let axes = axes(&given, call.rank(x))?;
    let mean = call.builder.reduce(ReduceKind::Mean, x, axes.clone(), true)?;
    let centred = call.builder.sub(x, mean)?;
    let squares = call.builder.mul(centred, centred)?;
    let variance = call.builder.reduce(ReduceKind::Mean, squares, axes, true)?;
    let deviation = call.builder.unary(Unary::Sqrt, variance)?;
    let epsilon = call.builder.scalar_like(x, 1e-9);
    let deviation = call.builder.add(deviation, epsilon)?;
    Ok(vec![call.builder.div(centred, deviation)?])
}

/// Zero where the norm is zero.
fn lp(call: &mut Call) -> Outputs {
    let x = call.input(0)?;
    let axis = call.axis(-1, call.rank(x))?;
    let kind = match call.int_or("p", 2)? {
        1 => ReduceKind::L1,
        2 => ReduceKind::L2,
        p => return Err(Failure::invalid(format!("`p` is {p}, not 1 or 2"))),
    };
    let norm = call.builder.reduce(kind, x, vec![axis], true)?;
    let zero = call.builder.scalar_like(x, 0.0);
    let one = call.builder.scalar_like(x, 1.0);
    let vanishes = call.builder.binary(Binary::Equal, norm, zero)?;
    let divisor = call.builder.select(vanishes, one, norm)?;
    Ok(vec![call.builder.div(x, divisor)?])
}

fn local_response(call: &mut Call) -> Outputs {
    let x = call.input(0)?;
    let given = call.int("size")?.ok_or_else(|| Failure::invalid("`size` is missing"))?;
    let op = Op::Lrn {
        size: size(given, "`size`")?,
        alpha: call.float_or("alpha", 1e-4)?,
        beta: call.float_or("beta", 0.75)?,
        bias: call.float_or("bias", 1.0)?,
    };
    Ok(vec![call.builder.one(op, &[x])?])
}
