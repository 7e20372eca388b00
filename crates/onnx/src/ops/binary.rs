//! Functions of two and more elements with broadcasting: arithmetic, comparison, logic, selection.

use talweg_tensor::op::Binary;

use super::{Entry, entry};
use crate::call::{Call, Outputs};
use crate::error::Failure;

pub(super) const ENTRIES: &[Entry] = &[
    entry("Add", 7, |call| apply(call, Binary::Add)),
    entry("And", 7, |call| apply(call, Binary::And)),
    entry("BitwiseAnd", 18, |call| apply(call, Binary::BitAnd)),
    entry("BitwiseOr", 18, |call| apply(call, Binary::BitOr)),
    entry("BitwiseXor", 18, |call| apply(call, Binary::BitXor)),
    entry("Div", 7, |call| apply(call, Binary::Div)),
    entry("Equal", 7, |call| apply(call, Binary::Equal)),
    entry("Greater", 7, |call| apply(call, Binary::Greater)),
    entry("GreaterOrEqual", 12, |call| apply(call, Binary::GreaterOrEqual)),
    entry("Less", 7, |call| apply(call, Binary::Less)),
    entry("LessOrEqual", 12, |call| apply(call, Binary::LessOrEqual)),
    entry("Mul", 7, |call| apply(call, Binary::Mul)),
    entry("Or", 7, |call| apply(call, Binary::Or)),
    entry("Pow", 7, |call| apply(call, Binary::Pow)),
    entry("PRelu", 7, |call| apply(call, Binary::PRelu)),
    entry("Sub", 7, |call| apply(call, Binary::Sub)),
    entry("Xor", 7, |call| apply(call, Binary::Xor)),
    entry("BitShift", 11, shift),
    entry("Mod", 10, modulo),
    entry("Max", 6, |call| chain(call, Binary::Max)),
    entry("Min", 6, |call| chain(call, Binary::Min)),
    entry("Sum", 6, |call| chain(call, Binary::Add)),
    entry("Mean", 6, mean),
    entry("Where", 9, select),
];

fn apply(call: &mut Call, f: Binary) -> Outputs {
    let (a, b) = (call.input(0)?, call.input(1)?);
    Ok(vec![call.builder.binary(f, a, b)?])
}

fn shift(call: &mut Call) -> Outputs {
    match call.text_or("direction", "")?.as_str() {
        "LEFT" => apply(call, Binary::ShiftLeft),
        "RIGHT" => apply(call, Binary::ShiftRight),
        other => Err(Failure::invalid(format!("`direction` is `{other}`"))),
    }
}

fn modulo(call: &mut Call) -> Outputs {
    let truncated = call.flag("fmod", false)?;
    apply(call, Binary::Mod { truncated })
}

/// One operation after the other.
fn chain(call: &mut Call, f: Binary) -> Outputs {
    let mut result = call.input(0)?;
    for i in 1..call.inputs.len() {
        let next = call.input(i)?;
        result = call.builder.binary(f, result, next)?;
    }
    Ok(vec![result])
}

fn mean(call: &mut Call) -> Outputs {
    let count = call.inputs.len();
    let sum = chain(call, Binary::Add)?[0];
    if count == 1 {
        return Ok(vec![sum]);
    }
    let count = call.builder.scalar_like(sum, count as f64);
    Ok(vec![call.builder.div(sum, count)?])
}

fn select(call: &mut Call) -> Outputs {
    let (condition, a, b) = (call.input(0)?, call.input(1)?, call.input(2)?);
    Ok(vec![call.builder.select(condition, a, b)?])
}
