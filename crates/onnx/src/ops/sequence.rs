//! Along time: `ReverseSequence`, `CausalConvWithState`, `LinearAttention`.

use talweg_graph::ValueId;
use talweg_tensor::op::{Binary, Conv, Layout, Unary};
use talweg_tensor::{ElementType, Op, Tensor};

use super::attention::{heads_apart, heads_together, repeat_heads};
use super::{Entry, entry};
use crate::call::{Call, Outputs, axis, size};
use crate::error::Failure;

pub(super) const ENTRIES: &[Entry] = &[
    entry("CausalConvWithState", 27, causal_conv),
    entry("LinearAttention", 27, linear_attention),
    entry("ReverseSequence", 10, reverse_sequence),
];

/// Steps that a recurrence may be unrolled to.
const STEP_LIMIT: usize = 4096;

/// Position `t` of a sequence of length `n` comes from `n - 1 - t`, and from itself beyond the length.
fn reverse_sequence(call: &mut Call) -> Outputs {
    let (x, lengths) = (call.input(0)?, call.input(1)?);
    let shape = call.shape(x);
    let time = axis(call.int_or("time_axis", 0)?, shape.len())?;
    let batch = axis(call.int_or("batch_axis", 1)?, shape.len())?;
    let along = |axis: usize, extent: usize| {
        let mut along = vec![1; shape.len()];
        along[axis] = extent;
        along
    };
    let positions = call.builder.ints((0..shape[time] as i64).collect());
    let positions = call.builder.reshape(positions, along(time, shape[time]))?;
    let lengths = call.builder.cast(lengths, ElementType::I64)?;
    let lengths = call.builder.reshape(lengths, along(batch, shape[batch]))?;
    let one = call.builder.scalar_like(positions, 1.0);
    let last = call.builder.sub(lengths, one)?;
    let mirrored = call.builder.sub(last, positions)?;
    let inside = call.builder.binary(Binary::Less, positions, lengths)?;
    let indices = call.builder.select(inside, mirrored, positions)?;
    let indices = call.builder.expand(indices, shape)?;
    Ok(vec![call.builder.one(Op::GatherElements { axis: time }, &[x, indices])?])
}

/// A depthwise convolution over time that begins with what was seen before.
fn causal_conv(call: &mut Call) -> Outputs {
    let (x, w) = (call.input(0)?, call.input(1)?);
    let (shape, window) = (call.shape(x), call.shape(w));
    let (&[batch, channels, _], &[_, _, width]) = (shape.as_slice(), window.as_slice()) else {
        return Err(Failure::invalid(format!("the shapes {shape:?} and {window:?} do not have three axes")));
    };
    let kept = width.checked_sub(1).ok_or_else(|| Failure::invalid("the window is empty"))?;
    let past = match call.optional(3) {
        Some(past) => past,
        None => {
            let zero = Tensor::from_f64(call.element(x), [], [0.0]);
            call.builder.filled(zero, vec![batch, channels, kept])?
        }
    };
    let padded = call.builder.concat(&[past, x], 2)?;
    let conv = Conv {
        strides: vec![1],
        dilations: vec![1],
        begin: vec![0],
        end: vec![0],
        groups: channels,
        layout: Layout::ChannelsFirst,
    };
    let bias = call.optional(2);
    let mut y = call.builder.one_of(Op::Conv(conv), &[Some(padded), Some(w), bias])?;
    match call.text_or("activation", "none")?.as_str() {
        "none" => {}
        "silu" | "swish" => y = call.builder.unary(Unary::Swish { alpha: 1.0 }, y)?,
        other => return Err(Failure::invalid(format!("`activation` is `{other}`"))),
    }
    let total = call.shape(padded)[2];
    let state = call.builder.part(padded, 2, total - kept, kept)?;
    Ok(vec![y, state])
}

/// Attention without softmax: a state of keys times values, read by queries; unrolled over time.
fn linear_attention(call: &mut Call) -> Outputs {
    let rule = call.text_or("update_rule", "gated_delta")?;
    let (gated, delta) = match rule.as_str() {
        "linear" => (false, false),
        "gated" => (true, false),
        "delta" => (false, true),
        "gated_delta" => (true, true),
        other => return Err(Failure::invalid(format!("`update_rule` is `{other}`"))),
    };
    let heads = |name: &str| {
        let heads = call.int(name)?.ok_or_else(|| Failure::invalid(format!("`{name}` is missing")))?;
        size(heads, name)
    };
    let (q_heads, kv_heads) = (heads("q_num_heads")?, heads("kv_num_heads")?);
    let (query, key, value) = (call.input(0)?, call.input(1)?, call.input(2)?);
    let element = call.element(query);
    let narrow = |call: &mut Call, x: ValueId, heads: usize| {
        let x = call.builder.cast(x, ElementType::F32)?;
        heads_apart(call, x, heads)
    };
    let q = narrow(call, query, q_heads)?;
    let k = narrow(call, key, kv_heads)?;
    let v = narrow(call, value, kv_heads)?;
    let (q_shape, v_shape) = (call.shape(q), call.shape(v));
    let &[batch, _, steps, depth] = q_shape.as_slice() else {
        return Err(Failure::invalid("the query must have three axes"));
    };
    if steps > STEP_LIMIT {
        return Err(Failure::unsupported(
            format!("a recurrence of {steps} steps is too long to unroll"),
            "process the sequence in parts, passing the state on",
        ));
    }
    let width = v_shape[3];
    let decay = match call.optional(4) {
        Some(decay) if gated => {
            let decay = narrow(call, decay, kv_heads)?;
            Some(call.builder.unary(Unary::Exp, decay)?)
        }
        None if !gated => None,
        _ => {
            return Err(Failure::invalid(format!(
                "`update_rule` {rule} and the decay contradict each other"
            )));
        }
    };
    let beta = match call.optional(5) {
        Some(beta) if delta => {
            let lists = call.shape(beta).last().copied().unwrap_or(1);
            Some(narrow(call, beta, lists)?)
        }
        None if !delta => None,
        _ => return Err(Failure::invalid(format!("`update_rule` {rule} and beta contradict each other"))),
    };
    let (mut state, state_element) = match call.optional(3) {
        Some(past) => (call.builder.cast(past, ElementType::F32)?, call.element(past)),
        None => {
            let zero = Tensor::new([], vec![0f32]);
            (call.builder.filled(zero, vec![batch, kv_heads, depth, width])?, element)
        }
    };
    let scale = call.float_or("scale", 0.0)?;
    let scale = if scale == 0.0 { 1.0 / (depth as f64).sqrt() } else { f64::from(scale) };
    let mut rows = Vec::with_capacity(steps);
    for step in 0..steps {
        let q = call.builder.part(q, 2, step, 1)?;
        let k = call.builder.part(k, 2, step, 1)?;
        let mut v = call.builder.part(v, 2, step, 1)?;
        let column = call.builder.transpose(k, vec![0, 1, 3, 2])?;
        if let Some(decay) = decay {
            let decay = call.builder.part(decay, 2, step, 1)?;
            let decay = call.builder.transpose(decay, vec![0, 1, 3, 2])?;
            state = call.builder.mul(state, decay)?;
        }
        if let Some(beta) = beta {
            let beta = call.builder.part(beta, 2, step, 1)?;
            let found = call.builder.matmul(k, state)?;
            let missing = call.builder.sub(v, found)?;
            v = call.builder.mul(missing, beta)?;
        }
        let update = call.builder.mul(column, v)?;
        state = call.builder.add(state, update)?;
        let read = repeat_heads(call, state, q_heads)?;
        let row = call.builder.matmul(q, read)?;
        rows.push(call.builder.scaled(row, scale)?);
    }
    let y = call.builder.concat(&rows, 2)?;
    let y = heads_together(call, y)?;
    Ok(vec![call.builder.cast(y, element)?, call.builder.cast(state, state_element)?])
}
