//! `Attention` and `RotaryEmbedding` as compositions.

use talweg_graph::ValueId;
use talweg_tensor::op::{Binary, PadMode, ReduceKind, SliceAxis, Unary};
use talweg_tensor::{ElementType, Op, Tensor};

use super::constants::limited;
use super::{Entry, entry};
use crate::call::{Call, Outputs, element_type, size};
use crate::error::Failure;

pub(super) const ENTRIES: &[Entry] =
    &[entry("Attention", 23, attention), entry("RotaryEmbedding", 23, rotary)];

/// `[batch, time, heads * depth]` as `[batch, heads, time, depth]`.
pub(super) fn heads_apart(call: &mut Call, x: ValueId, heads: usize) -> Result<ValueId, Failure> {
    let shape = call.shape(x);
    match shape.as_slice() {
        &[batch, time, width] if heads > 0 && width % heads == 0 => {
            let x = call.builder.reshape(x, vec![batch, time, heads, width / heads])?;
            call.builder.transpose(x, vec![0, 2, 1, 3])
        }
        _ => Err(Failure::invalid(format!("the shape {shape:?} does not divide into {heads} heads"))),
    }
}

/// The inverse of [`heads_apart`].
pub(super) fn heads_together(call: &mut Call, x: ValueId) -> Result<ValueId, Failure> {
    let shape = call.shape(x);
    let x = call.builder.transpose(x, vec![0, 2, 1, 3])?;
    call.builder.reshape(x, vec![shape[0], shape[2], shape[1] * shape[3]])
}

/// Every head repeated until there are `heads`.
pub(super) fn repeat_heads(call: &mut Call, x: ValueId, heads: usize) -> Result<ValueId, Failure> {
    let shape = call.shape(x);
    let &[batch, own, rows, columns] = shape.as_slice() else {
        return Err(Failure::invalid(format!("the shape {shape:?} does not have four axes")));
    };
    if own == heads {
        return Ok(x);
    }
    if own == 0 || !heads.is_multiple_of(own) {
        return Err(Failure::invalid(format!("{heads} heads of queries for {own} of keys")));
    }
    let x = call.builder.reshape(x, vec![batch, own, 1, rows, columns])?;
    let x = call.builder.expand(x, vec![batch, own, heads / own, rows, columns])?;
    call.builder.reshape(x, vec![batch, heads, rows, columns])
}

fn attention(call: &mut Call) -> Outputs {
    let (mut q, mut k, mut v) = (call.input(0)?, call.input(1)?, call.input(2)?);
    let element = call.element(q);
    let flat = call.rank(q) == 3;
    if flat {
        let heads = |name: &str| {
            let heads = call.int(name)?.ok_or_else(|| Failure::invalid(format!("`{name}` is missing")))?;
            size(heads, name)
        };
        let (q_heads, kv_heads) = (heads("q_num_heads")?, heads("kv_num_heads")?);
        q = heads_apart(call, q, q_heads)?;
        k = heads_apart(call, k, kv_heads)?;
        v = heads_apart(call, v, kv_heads)?;
    }
    if [q, k, v].iter().any(|&x| call.rank(x) != 4) {
        return Err(Failure::invalid("query, key and value must have three or four axes"));
    }
    let past = call.optional(4).map_or(0, |past| call.shape(past).get(2).copied().unwrap_or(0));
    if let (Some(past_key), Some(past_value)) = (call.optional(4), call.optional(5)) {
        k = call.builder.concat(&[past_key, k], 2)?;
        v = call.builder.concat(&[past_value, v], 2)?;
    }
    let (present_key, present_value) = (k, v);
    let q_shape = call.shape(q);
    let (heads, depth) = (q_shape[1], q_shape[3]);
    let k = repeat_heads(call, k, heads)?;
    let v = repeat_heads(call, v, heads)?;
    let scale = call.float("scale")?.map_or(1.0 / (depth as f64).sqrt(), f64::from);
    // The standard scales both by the root, which matters where products are rounded to half floats.
    let (q, k) = if element == ElementType::F32 || scale < 0.0 {
        (call.builder.scaled(q, scale)?, k)
    } else {
        (call.builder.scaled(q, scale.sqrt())?, call.builder.scaled(k, scale.sqrt())?)
    };
    let k = call.builder.transpose(k, vec![0, 1, 3, 2])?;
    let raw = call.builder.matmul(q, k)?;
    let softcap = f64::from(call.float_or("softcap", 0.0)?);
    let capped = if softcap > 0.0 {
        let x = call.builder.scaled(raw, 1.0 / softcap)?;
        let x = call.builder.unary(Unary::Tanh, x)?;
        call.builder.scaled(x, softcap)?
    } else {
        raw
    };
    let keys = call.shape(present_key)[2];
    let bias = bias(call, element, [q_shape[0], q_shape[2], keys], past)?;
    let biased = match bias {
        Some(bias) => call.builder.add(capped, bias)?,
        None => capped,
    };
    let precision = match call.int("softmax_precision")? {
        Some(code) => element_type(code)?,
        None => element,
    };
    let wide = call.builder.cast(biased, precision)?;
    let mut weights = call.builder.one(Op::Softmax { axis: 3, log: false }, &[wide])?;
    if let Some(bias) = bias
        && may_mask_rows(call, bias)
    {
        let low = call.builder.scalar(precision, f64::NEG_INFINITY);
        let zero = call.builder.scalar(precision, 0.0);
        let top = call.builder.reduce(ReduceKind::Max, wide, vec![3], true)?;
        let empty = call.builder.binary(Binary::Equal, top, low)?;
        weights = call.builder.select(empty, zero, weights)?;
    }
    let weights = call.builder.cast(weights, element)?;
    let mut y = call.builder.matmul(weights, v)?;
    if flat {
        y = heads_together(call, y)?;
    }
    let shown = match call.int_or("qk_matmul_output_mode", 0)? {
        0 => raw,
        1 => capped,
        2 => biased,
        3 => weights,
        mode => return Err(Failure::invalid(format!("`qk_matmul_output_mode` is {mode}"))),
    };
    Ok(vec![y, present_key, present_value, shown])
}

/// True unless the bias is known to leave every row something to attend to.
fn may_mask_rows(call: &Call, bias: ValueId) -> bool {
    let Some(tensor) = call.builder.known(bias) else { return true };
    let columns = tensor.shape().last().copied().unwrap_or(1).max(1);
    tensor.to_f64().chunks(columns).any(|row| row.iter().all(|&v| v == f64::NEG_INFINITY))
}

/// What is added to the scores: the mask, the causal frontier, the window, and the lengths of the keys.
fn bias(
    call: &mut Call,
    element: ElementType,
    [batch, queries, keys]: [usize; 3],
    past: usize,
) -> Result<Option<ValueId>, Failure> {
    let low = call.builder.scalar(element, f64::NEG_INFINITY);
    let zero = call.builder.scalar(element, 0.0);
    let mut bias = None;
    if let Some(mut mask) = call.optional(3) {
        let shape = call.shape(mask);
        let own = shape.last().copied().unwrap_or(keys);
        if own < keys && own != 1 || own == 1 && keys > 1 && call.opset >= 24 {
            let mut end = vec![0; shape.len()];
            end[shape.len() - 1] = (keys - own) as i64;
            let pad = Op::Pad { begin: vec![0; shape.len()], end, mode: PadMode::Constant };
            let fill = if call.element(mask) == ElementType::Bool {
                call.builder.constant(Tensor::from_bools([], [false]))
            } else {
                low
            };
            mask = call.builder.one(pad, &[mask, fill])?;
        }
        bias = Some(if call.element(mask) == ElementType::Bool {
            call.builder.select(mask, zero, low)?
        } else {
            call.builder.cast(mask, element)?
        });
    }
    let lengths = match call.optional(6) {
        Some(lengths) => {
            let lengths = call.builder.cast(lengths, ElementType::I64)?;
            Some(call.builder.reshape(lengths, vec![batch, 1, 1, 1])?)
        }
        None => None,
    };
    let causal = call.flag("is_causal", false)?;
    let (left, right) = (call.int_or("left_window_size", -1)?, call.int_or("right_window_size", -1)?);
    if causal || left >= 0 || right >= 0 {
        limited(queries.checked_mul(keys))?;
        let ahead: Vec<i64> =
            (0..queries).flat_map(|i| (0..keys).map(move |j| j as i64 - i as i64)).collect();
        let ahead = call.builder.constant(Tensor::new([queries, keys], ahead));
        let offset = match lengths {
            Some(lengths) => {
                let queries = call.builder.scalar(ElementType::I64, queries as f64);
                call.builder.sub(lengths, queries)?
            }
            None => call.builder.scalar(ElementType::I64, past as f64),
        };
        let ahead = call.builder.sub(ahead, offset)?;
        let limits = [
            (causal.then_some(0), Binary::LessOrEqual),
            ((right >= 0).then_some(right), Binary::LessOrEqual),
            ((left >= 0).then_some(left.saturating_neg()), Binary::GreaterOrEqual),
        ];
        for (limit, comparison) in limits {
            let Some(limit) = limit else { continue };
            let limit = call.builder.scalar(ElementType::I64, limit as f64);
            let allowed = call.builder.binary(comparison, ahead, limit)?;
            let more = call.builder.select(allowed, zero, low)?;
            bias = Some(sum(call, bias, more)?);
        }
    }
    if let Some(lengths) = lengths {
        let positions = call.builder.ints((0..keys as i64).collect());
        let inside = call.builder.binary(Binary::Less, positions, lengths)?;
        let more = call.builder.select(inside, zero, low)?;
        bias = Some(sum(call, bias, more)?);
    }
    Ok(bias)
}

fn sum(call: &mut Call, a: Option<ValueId>, b: ValueId) -> Result<ValueId, Failure> {
    match a {
        Some(a) => call.builder.add(a, b),
        None => Ok(b),
    }
}

/// Pairs of elements turned by angles that depend on the position.
fn rotary(call: &mut Call) -> Outputs {
    let given = call.input(0)?;
    let (mut cos, mut sin) = (call.input(1)?, call.input(2)?);
    let flat = call.rank(given) == 3;
    let x = if flat {
        let heads = size(call.int_or("num_heads", 0)?, "`num_heads`")?;
        heads_apart(call, given, heads)?
    } else {
        given
    };
    let shape = call.shape(x);
    let &[batch, heads, time, depth] = shape.as_slice() else {
        return Err(Failure::invalid(format!("the input has the shape {shape:?}, not three or four axes")));
    };
    let turned = match size(call.int_or("rotary_embedding_dim", 0)?, "`rotary_embedding_dim`")? {
        0 => depth,
        turned => turned,
    };
    if turned > depth || turned % 2 != 0 {
        return Err(Failure::invalid(format!("{turned} of {depth} elements cannot be turned in pairs")));
    }
    if let Some(positions) = call.optional(3) {
        cos = call.builder.one(Op::Gather { axis: 0 }, &[cos, positions])?;
        sin = call.builder.one(Op::Gather { axis: 0 }, &[sin, positions])?;
    }
    let half = turned / 2;
    let table = |call: &mut Call, value: ValueId| {
        let own = call.shape(value);
        let rows = own.first().copied().unwrap_or(1);
        call.builder.reshape(value, vec![rows, 1, time, half])
    };
    let (cos, sin) = (table(call, cos)?, table(call, sin)?);
    let part = call.builder.part(x, 3, 0, turned)?;
    let interleaved = call.flag("interleaved", false)?;
    let (a, b) = if interleaved {
        let whole = |&extent: &usize| SliceAxis { begin: 0, step: 1, count: extent };
        let mut axes: Vec<SliceAxis> = shape.iter().map(whole).collect();
        axes[3] = SliceAxis { begin: 0, step: 2, count: half };
        let a = call.builder.one(Op::Slice { axes: axes.clone() }, &[part])?;
        axes[3].begin = 1;
        (a, call.builder.one(Op::Slice { axes }, &[part])?)
    } else {
        (call.builder.part(part, 3, 0, half)?, call.builder.part(part, 3, half, half)?)
    };
    let (ca, sb) = (call.builder.mul(cos, a)?, call.builder.mul(sin, b)?);
    let (sa, cb) = (call.builder.mul(sin, a)?, call.builder.mul(cos, b)?);
    let mut real = call.builder.sub(ca, sb)?;
    let mut imaginary = call.builder.add(sa, cb)?;
    let mut y = if interleaved {
        real = call.builder.reshape(real, vec![batch, heads, time, half, 1])?;
        imaginary = call.builder.reshape(imaginary, vec![batch, heads, time, half, 1])?;
        let pairs = call.builder.concat(&[real, imaginary], 4)?;
        call.builder.reshape(pairs, vec![batch, heads, time, turned])?
    } else {
        call.builder.concat(&[real, imaginary], 3)?
    };
    if turned < depth {
        let rest = call.builder.part(x, 3, turned, depth - turned)?;
        y = call.builder.concat(&[y, rest], 3)?;
    }
    Ok(vec![if flat { heads_together(call, y)? } else { y }])
}
