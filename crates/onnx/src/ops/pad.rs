//! Elements added or removed around: `Pad`, `CenterCropPad`.

use talweg_tensor::Op;
use talweg_tensor::op::PadMode;

use super::{Entry, entry};
use crate::call::{Call, Outputs, axis, size};
use crate::error::Failure;

pub(super) const ENTRIES: &[Entry] = &[entry("CenterCropPad", 18, center), entry("Pad", 2, pad)];

fn pad(call: &mut Call) -> Outputs {
    let x = call.input(0)?;
    let rank = call.rank(x);
    let pads = call.ints_since(11, 1, "pads")?.ok_or_else(|| Failure::invalid("`pads` is missing"))?;
    let axes: Vec<usize> = match if call.opset < 18 { None } else { call.known_ints(3, "the axes")? } {
        None => (0..rank).collect(),
        Some(axes) => axes.into_iter().map(|a| axis(a, rank)).collect::<Result<Vec<usize>, Failure>>()?,
    };
    if pads.len() != 2 * axes.len() || pads.iter().any(|&p| !(-(1 << 40)..=1 << 40).contains(&p)) {
        return Err(Failure::invalid(format!("the pads {pads:?} do not fit the axes {axes:?}")));
    }
    let (mut begin, mut end) = (vec![0; rank], vec![0; rank]);
    for (i, &axis) in axes.iter().enumerate() {
        begin[axis] = pads[i];
        end[axis] = pads[axes.len() + i];
    }
    let mode = match call.text_or("mode", "constant")?.as_str() {
        "constant" => PadMode::Constant,
        "edge" => PadMode::Edge,
        "reflect" => PadMode::Reflect,
        "wrap" => PadMode::Wrap,
        other => return Err(Failure::invalid(format!("`mode` is `{other}`"))),
    };
    if begin.iter().chain(&end).all(|&p| p == 0) {
        return Ok(vec![x]);
    }
    let value = match (mode, call.opset < 11) {
        (PadMode::Constant, true) => {
            let value = call.float_or("value", 0.0)?;
            (value != 0.0).then(|| call.builder.scalar_like(x, f64::from(value)))
        }
        (PadMode::Constant, false) => match call.optional(2) {
            Some(value) => Some(call.builder.reshape(value, vec![])?),
            None => None,
        },
        _ => None,
    };
    let mut inputs = vec![Some(x)];
    if value.is_some() {
        inputs.push(value);
    }
    Ok(vec![call.builder.one_of(Op::Pad { begin, end, mode }, &inputs)?])
}

fn center(call: &mut Call) -> Outputs {
    let x = call.input(0)?;
    let shape = call.shape(x);
    let rank = shape.len();
    let targets = call.known_ints(1, "the shape")?.ok_or_else(|| Failure::invalid("the shape is missing"))?;
    let axes = call.ints("axes")?.unwrap_or_else(|| (0..rank as i64).collect());
    if axes.len() != targets.len() {
        return Err(Failure::invalid(format!("the shape {targets:?} does not fit the axes {axes:?}")));
    }
    let (mut begin, mut end) = (vec![0i64; rank], vec![0i64; rank]);
    for (&given, &target) in axes.iter().zip(&targets) {
        let axis = axis(given, rank)?;
        let target = size(target, "an extent")? as i64;
        let extent = shape[axis] as i64;
        let missing = target.checked_sub(extent).filter(|m| m.abs() <= 1 << 40);
        let missing = missing.ok_or_else(|| Failure::invalid(format!("an extent is {target}")))?;
        let before = if missing >= 0 { missing / 2 } else { -(-missing / 2) };
        begin[axis] = before;
        end[axis] = missing - before;
    }
    if begin.iter().chain(&end).all(|&p| p == 0) {
        return Ok(vec![x]);
    }
    Ok(vec![call.builder.one(Op::Pad { begin, end, mode: PadMode::Constant }, &[x])?])
}
