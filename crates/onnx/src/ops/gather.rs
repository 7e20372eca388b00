//! Elements chosen by indices: `Gather`, `GatherElements`, `GatherND`, `OneHot`, `Compress`.

use talweg_tensor::Op;

use super::{Entry, entry};
use crate::call::{Call, Outputs, axis, size};
use crate::error::Failure;

pub(super) const ENTRIES: &[Entry] = &[
    entry("Compress", 9, compress),
    entry("Gather", 1, gather),
    entry("GatherElements", 11, gather_elements),
    entry("GatherND", 11, gather_nd),
    entry("OneHot", 9, one_hot),
];

fn gather(call: &mut Call) -> Outputs {
    let (x, indices) = (call.input(0)?, call.input(1)?);
    let axis = call.axis(0, call.rank(x))?;
    Ok(vec![call.builder.one(Op::Gather { axis }, &[x, indices])?])
}

fn gather_elements(call: &mut Call) -> Outputs {
    let (x, indices) = (call.input(0)?, call.input(1)?);
    let axis = call.axis(0, call.rank(x))?;
    Ok(vec![call.builder.one(Op::GatherElements { axis }, &[x, indices])?])
}

fn gather_nd(call: &mut Call) -> Outputs {
    let (x, indices) = (call.input(0)?, call.input(1)?);
    let batch_dims = size(call.int_or("batch_dims", 0)?, "`batch_dims`")?;
    Ok(vec![call.builder.one(Op::GatherNd { batch_dims }, &[x, indices])?])
}

fn one_hot(call: &mut Call) -> Outputs {
    let (indices, values) = (call.input(0)?, call.input(2)?);
    let depth = call.known_int(1, "the depth")?.ok_or_else(|| Failure::invalid("the depth is missing"))?;
    let depth = size(depth, "the depth")?;
    let axis = axis(call.int_or("axis", -1)?, call.rank(indices) + 1)?;
    Ok(vec![call.builder.one(Op::OneHot { axis, depth }, &[indices, values])?])
}

/// With a constant condition a `Gather`; otherwise the extents depend on the data.
fn compress(call: &mut Call) -> Outputs {
    let (mut x, condition) = (call.input(0)?, call.input(1)?);
    let given = call.int("axis")?;
    let Some(tensor) = call.builder.known(condition) else {
        return Err(Failure::data_dependent("the number of elements that are kept"));
    };
    let kept: Vec<i64> =
        tensor.to_f64().iter().enumerate().filter(|&(_, &v)| v != 0.0).map(|(i, _)| i as i64).collect();
    let axis = match given {
        Some(given) => axis(given, call.rank(x))?,
        None => {
            let len = call.builder.ty(x).len();
            x = call.builder.reshape(x, vec![len])?;
            0
        }
    };
    let indices = call.builder.ints(kept);
    Ok(vec![call.builder.one(Op::Gather { axis }, &[x, indices])?])
}
