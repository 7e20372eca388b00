//! The same elements in another shape or order: `Reshape`, `Transpose`, `Concat`, `Expand`, `Tile` and the like.

use talweg_tensor::Op;

use super::{Entry, entry};
use crate::call::{Call, Outputs, axes, axis, size};
use crate::error::Failure;

pub(super) const ENTRIES: &[Entry] = &[
    entry("Concat", 4, concat),
    entry("Expand", 8, expand),
    entry("Flatten", 1, flatten),
    entry("Reshape", 5, reshape),
    entry("Squeeze", 1, squeeze),
    entry("Tile", 6, tile),
    entry("Transpose", 1, transpose),
    entry("Trilu", 14, trilu),
    entry("Unsqueeze", 1, unsqueeze),
];

fn concat(call: &mut Call) -> Outputs {
    let parts = (0..call.inputs.len()).map(|i| call.input(i)).collect::<Result<Vec<_>, Failure>>()?;
    let rank = call.rank(call.input(0)?);
    let axis = axis(call.int("axis")?.ok_or_else(|| Failure::invalid("`axis` is missing"))?, rank)?;
    Ok(vec![call.builder.concat(&parts, axis)?])
}

/// Broadcasts both ways: an extent of one in the given shape keeps the input's.
fn expand(call: &mut Call) -> Outputs {
    let x = call.input(0)?;
    let given = call.known_ints(1, "the shape")?.ok_or_else(|| Failure::invalid("the shape is missing"))?;
    let given = given.into_iter().map(|e| size(e, "an extent")).collect::<Result<Vec<usize>, Failure>>()?;
    let own = call.shape(x);
    let rank = given.len().max(own.len());
    let at = |shape: &[usize], i: usize| (i + shape.len()).checked_sub(rank).map_or(1, |i| shape[i]);
    let shape: Vec<usize> = (0..rank)
        .map(|i| match (at(&own, i), at(&given, i)) {
            (1, extent) => extent,
            (extent, 1) => extent,
            (_, extent) => extent,
        })
        .collect();
    Ok(vec![call.builder.expand(x, shape)?])
}

fn flatten(call: &mut Call) -> Outputs {
    let x = call.input(0)?;
    let shape = call.shape(x);
    let given = call.int_or("axis", 1)?;
    let split = if given == shape.len() as i64 { shape.len() } else { axis(given, shape.len())? };
    let (outer, inner) = shape.split_at(split);
    Ok(vec![call.builder.reshape(x, vec![outer.iter().product(), inner.iter().product()])?])
}

fn reshape(call: &mut Call) -> Outputs {
    let x = call.input(0)?;
    let given = call.known_ints(1, "the shape")?.ok_or_else(|| Failure::invalid("the shape is missing"))?;
    let own = call.shape(x);
    let keep_zero = call.flag("allowzero", false)?;
    let mut shape = Vec::with_capacity(given.len());
    let mut open = None;
    for (i, &extent) in given.iter().enumerate() {
        match extent {
            0 if !keep_zero => {
                shape
                    .push(*own.get(i).ok_or_else(|| Failure::invalid(format!("{given:?} copies axis {i}")))?);
            }
            -1 if open.is_none() => {
                open = Some(i);
                shape.push(1);
            }
            _ => shape.push(size(extent, "an extent of the shape")?),
        }
    }
    if let Some(open) = open {
        let len: usize = own.iter().product();
        let rest = shape.iter().try_fold(1usize, |len, &e| len.checked_mul(e));
        let rest = rest.filter(|&rest| rest > 0 && len.is_multiple_of(rest)).ok_or_else(|| {
            Failure::invalid(format!("the shape {given:?} does not divide {len} elements, those of {own:?}"))
        })?;
        shape[open] = len / rest;
    }
    Ok(vec![call.builder.reshape(x, shape)?])
}

fn squeeze(call: &mut Call) -> Outputs {
    let x = call.input(0)?;
    let mut shape = call.shape(x);
    match call.ints_since(13, 1, "axes")? {
        None => shape.retain(|&extent| extent != 1),
        Some(given) => {
            for &axis in axes(&given, shape.len())?.iter().rev() {
                if shape[axis] != 1 {
                    return Err(Failure::invalid(format!(
                        "axis {axis} has the extent {}, not 1",
                        shape[axis]
                    )));
                }
                shape.remove(axis);
            }
        }
    }
    Ok(vec![call.builder.reshape(x, shape)?])
}

fn unsqueeze(call: &mut Call) -> Outputs {
    let x = call.input(0)?;
    let mut shape = call.shape(x);
    let given = call.ints_since(13, 1, "axes")?.ok_or_else(|| Failure::invalid("`axes` is missing"))?;
    for axis in axes(&given, shape.len() + given.len())? {
        if axis > shape.len() {
            return Err(Failure::invalid(format!("the axes {given:?} leave a gap")));
        }
        shape.insert(axis, 1);
    }
    Ok(vec![call.builder.reshape(x, shape)?])
}

fn tile(call: &mut Call) -> Outputs {
    let x = call.input(0)?;
    let given =
        call.known_ints(1, "the repeats")?.ok_or_else(|| Failure::invalid("the repeats are missing"))?;
    let repeats = given.into_iter().map(|r| size(r, "a repeat")).collect::<Result<Vec<usize>, Failure>>()?;
    if repeats.iter().all(|&r| r == 1) && repeats.len() == call.rank(x) {
        return Ok(vec![x]);
    }
    Ok(vec![call.builder.one(Op::Tile { repeats }, &[x])?])
}

fn transpose(call: &mut Call) -> Outputs {
    let x = call.input(0)?;
    let rank = call.rank(x);
    let perm = match call.ints("perm")? {
        None => (0..rank).rev().collect(),
        Some(perm) => perm.iter().map(|&p| axis(p, rank)).collect::<Result<Vec<usize>, Failure>>()?,
    };
    Ok(vec![call.builder.transpose(x, perm)?])
}

fn trilu(call: &mut Call) -> Outputs {
    let x = call.input(0)?;
    let k = call.known_int(1, "the diagonal")?.unwrap_or(0);
    let upper = call.flag("upper", true)?;
    Ok(vec![call.builder.one(Op::Trilu { upper, k }, &[x])?])
}
