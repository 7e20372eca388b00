//! Where elements are: `ArgMax`, `ArgMin`, `TopK`, `NonZero`, `NonMaxSuppression`.

use talweg_tensor::Op;
use talweg_tensor::op::ArgReduce;

use super::{Entry, entry};
use crate::call::{Call, Outputs, size};
use crate::error::Failure;

pub(super) const ENTRIES: &[Entry] = &[
    entry("ArgMax", 1, |call| arg_reduce(call, true)),
    entry("ArgMin", 1, |call| arg_reduce(call, false)),
    entry("NonMaxSuppression", 10, non_max_suppression),
    entry("NonZero", 9, non_zero),
    entry("TopK", 1, top_k),
];

fn arg_reduce(call: &mut Call, largest: bool) -> Outputs {
    let x = call.input(0)?;
    let op = ArgReduce {
        largest,
        axis: call.axis(0, call.rank(x))?,
        keep: call.flag("keepdims", true)?,
        last: call.flag("select_last_index", false)?,
    };
    Ok(vec![call.builder.one(Op::ArgReduce(op), &[x])?])
}

fn top_k(call: &mut Call) -> Outputs {
    let x = call.input(0)?;
    let axis = call.axis(-1, call.rank(x))?;
    let k = if call.opset < 10 { call.int("k")? } else { call.known_int(1, "`k`")? };
    let k = size(k.ok_or_else(|| Failure::invalid("`k` is missing"))?, "`k`")?;
    let largest = call.flag("largest", true)?;
    call.builder.emit(Op::TopK { axis, k, largest }, &[Some(x)], 2)
}

fn non_zero(call: &mut Call) -> Outputs {
    let x = call.input(0)?;
    Ok(vec![call.builder.one(Op::NonZero, &[x])?])
}

fn non_max_suppression(call: &mut Call) -> Outputs {
    let (boxes, scores) = (call.input(0)?, call.input(1)?);
    let max = call.known_int(2, "the number of boxes")?.unwrap_or(0).max(0);
    let number = |index: usize, what: &str| -> Result<Option<f32>, Failure> {
        Ok(call.known(index, what)?.and_then(|t| t.to_f64().first().map(|&v| v as f32)))
    };
    let op = Op::NonMaxSuppression {
        center_point: call.int_or("center_point_box", 0)? != 0,
        max_per_class: size(max, "the number of boxes")?,
        iou_threshold: number(3, "the overlap threshold")?.unwrap_or(0.0),
        score_threshold: number(4, "the score threshold")?,
    };
    Ok(vec![call.builder.one(op, &[boxes, scores])?])
}
