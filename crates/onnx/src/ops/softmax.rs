//! `Softmax`, `LogSoftmax`, `Hardmax`, with the older meaning over all axes from one on.

use talweg_tensor::Op;

use super::{Entry, entry};
use crate::call::{Call, Outputs, axis};

pub(super) const ENTRIES: &[Entry] = &[
    entry("Hardmax", 1, |call| along_axis(call, |axis| Op::Hardmax { axis })),
    entry("LogSoftmax", 1, |call| along_axis(call, |axis| Op::Softmax { axis, log: true })),
    entry("Softmax", 1, |call| along_axis(call, |axis| Op::Softmax { axis, log: false })),
];

fn along_axis(call: &mut Call, op: fn(usize) -> Op) -> Outputs {
    let x = call.input(0)?;
    let shape = call.shape(x);
    let rank = shape.len();
    if call.opset >= 13 {
        let axis = call.axis(-1, rank)?;
        return Ok(vec![call.builder.one(op(axis), &[x])?]);
    }
    let given = call.int_or("axis", 1)?;
    let split = if given == rank as i64 { rank } else { axis(given, rank)? };
    if split + 1 == rank {
        return Ok(vec![call.builder.one(op(split), &[x])?]);
    }
    let (outer, inner) = shape.split_at(split);
    let flat = call.builder.reshape(x, vec![outer.iter().product(), inner.iter().product()])?;
    let y = call.builder.one(op(1), &[flat])?;
    Ok(vec![call.builder.reshape(y, shape)?])
}
