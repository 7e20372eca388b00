//! Constants and what is known from shapes alone: `Constant`, `ConstantOfShape`, `Shape`, `Size`, `Range`, `EyeLike`.

use talweg_tensor::{ElementType, Tensor};

use super::{Entry, entry};
use crate::call::{Call, Outputs, size, weights_failure};
use crate::error::Failure;
use crate::weights;

pub(super) const ENTRIES: &[Entry] = &[
    entry("Constant", 1, constant),
    entry("ConstantOfShape", 9, constant_of_shape),
    entry("EyeLike", 9, eye_like),
    entry("Range", 11, range),
    entry("Shape", 1, shape),
    entry("Size", 1, count),
];

/// Elements of a constant that is computed, at most.
const ELEMENT_LIMIT: usize = 1 << 24;

fn constant(call: &mut Call) -> Outputs {
    let tensor = if let Some(tensor) = call.tensor("value")? {
        tensor
    } else if let Some(value) = call.float("value_float")? {
        Tensor::new([], vec![value])
    } else if let Some(values) = call.floats("value_floats")? {
        Tensor::new([values.len()], values)
    } else if let Some(value) = call.int("value_int")? {
        Tensor::new([], vec![value])
    } else if let Some(values) = call.ints("value_ints")? {
        Tensor::new([values.len()], values)
    } else if let Some(sparse) = call.attributes.get("sparse_value").and_then(|a| a.sparse_tensor.as_ref()) {
        weights::sparse(sparse, call.files).map_err(weights_failure)?
    } else if call.has("value_string") || call.has("value_strings") {
        return Err(Failure::unsupported("strings are not supported", "remove strings from the model"));
    } else {
        return Err(Failure::invalid("it has no value"));
    };
    Ok(vec![call.builder.constant(tensor)])
}

fn constant_of_shape(call: &mut Call) -> Outputs {
    let shape = call.known_ints(0, "the shape")?.ok_or_else(|| Failure::invalid("the shape is missing"))?;
    let shape = shape.into_iter().map(|e| size(e, "an extent")).collect::<Result<Vec<usize>, Failure>>()?;
    let value = call.tensor("value")?.unwrap_or_else(|| Tensor::new([], vec![0f32]));
    if value.len() != 1 {
        return Err(Failure::invalid(format!("the value is {}, not one element", value.ty())));
    }
    Ok(vec![call.builder.filled(value, shape)?])
}

fn eye_like(call: &mut Call) -> Outputs {
    let x = call.input(0)?;
    let shape = call.shape(x);
    let &[rows, columns] = shape.as_slice() else {
        return Err(Failure::invalid(format!("the input has the shape {shape:?}, not two axes")));
    };
    let element = call.element_attribute("dtype")?.unwrap_or(call.element(x));
    let k = call.int_or("k", 0)?;
    limited(rows.checked_mul(columns))?;
    let values = (0..rows * columns).map(|i| {
        let (row, column) = ((i / columns) as i64, (i % columns) as i64);
        if column.checked_sub(row) == Some(k) { 1.0 } else { 0.0 }
    });
    let tensor = Tensor::from_f64(element, shape, values);
    Ok(vec![call.builder.constant(tensor)])
}

fn range(call: &mut Call) -> Outputs {
    let mut parts = Vec::new();
    for (i, what) in ["the start", "the limit", "the step"].into_iter().enumerate() {
        let tensor = call.known(i, what)?.ok_or_else(|| Failure::invalid(format!("{what} is missing")))?;
        if tensor.len() != 1 {
            return Err(Failure::invalid(format!("{what} has {} elements instead of one", tensor.len())));
        }
        parts.push(tensor);
    }
    let element = parts[0].element();
    let [start, limit, step] = [parts[0].to_f64()[0], parts[1].to_f64()[0], parts[2].to_f64()[0]];
    if step == 0.0 || !step.is_finite() || !start.is_finite() || !limit.is_finite() {
        return Err(Failure::invalid(format!("the range from {start} to {limit} by {step} has no length")));
    }
    let length = ((limit - start) / step).ceil().max(0.0) as usize;
    limited(Some(length))?;
    let tensor = if element == ElementType::I64 {
        let (start, step) = (parts[0].to_i64()[0], parts[2].to_i64()[0]);
        Tensor::new([length], (0..length as i64).map(|i| start.wrapping_add(i.wrapping_mul(step))).collect())
    } else {
        Tensor::from_f64(element, [length], (0..length).map(|i| start + i as f64 * step))
    };
    Ok(vec![call.builder.constant(tensor)])
}

fn shape(call: &mut Call) -> Outputs {
    let extents: Vec<i64> = call.shape(call.input(0)?).into_iter().map(|e| e as i64).collect();
    let rank = extents.len() as i64;
    let bound =
        |value: i64| (if value < 0 { value.saturating_add(rank) } else { value }).clamp(0, rank) as usize;
    let (start, end) = (bound(call.int_or("start", 0)?), bound(call.int_or("end", rank)?));
    let part = extents.get(start..end).unwrap_or(&[]).to_vec();
    Ok(vec![call.builder.ints(part)])
}

fn count(call: &mut Call) -> Outputs {
    let x = call.input(0)?;
    let len = call.builder.ty(x).len() as i64;
    Ok(vec![call.builder.constant(Tensor::new([], vec![len]))])
}

pub(super) fn limited(len: Option<usize>) -> Result<usize, Failure> {
    len.filter(|&len| len <= ELEMENT_LIMIT).ok_or_else(|| {
        Failure::unsupported(
            format!("a constant with more than {ELEMENT_LIMIT} elements would be computed"),
            "give it to the model as an input",
        )
    })
}
