//! Reductions over axes, running sums and products.

use talweg_tensor::Op;
use talweg_tensor::op::ReduceKind;

use super::{Entry, entry};
use crate::call::{Call, Outputs, axes, axis};
use crate::error::Failure;

pub(super) const ENTRIES: &[Entry] = &[
    entry("CumProd", 26, cum_prod),
    entry("CumSum", 11, cum_sum),
    entry("ReduceL1", 1, |call| reduce(call, ReduceKind::L1, 18)),
    entry("ReduceL2", 1, |call| reduce(call, ReduceKind::L2, 18)),
    entry("ReduceLogSum", 1, |call| reduce(call, ReduceKind::LogSum, 18)),
    entry("ReduceLogSumExp", 1, |call| reduce(call, ReduceKind::LogSumExp, 18)),
    entry("ReduceMax", 1, |call| reduce(call, ReduceKind::Max, 18)),
    entry("ReduceMean", 1, |call| reduce(call, ReduceKind::Mean, 18)),
    entry("ReduceMin", 1, |call| reduce(call, ReduceKind::Min, 18)),
    entry("ReduceProd", 1, |call| reduce(call, ReduceKind::Prod, 18)),
    entry("ReduceSum", 1, |call| reduce(call, ReduceKind::Sum, 13)),
    entry("ReduceSumSquare", 1, |call| reduce(call, ReduceKind::SumSquare, 18)),
];

/// The axes are an attribute before operator set `since`, then an input. None at all means all of them, unless the
/// model says that it means none.
fn reduce(call: &mut Call, kind: ReduceKind, since: i64) -> Outputs {
    let x = call.input(0)?;
    let rank = call.rank(x);
    let given = call.ints_since(since, 1, "axes")?.unwrap_or_default();
    let keep = call.flag("keepdims", true)?;
    let axes = match given.as_slice() {
        [] if call.flag("noop_with_empty_axes", false)? => Vec::new(),
        [] => (0..rank).collect(),
        given => axes(given, rank)?,
    };
    Ok(vec![call.builder.reduce(kind, x, axes, keep)?])
}

fn running(call: &Call) -> Result<(usize, bool, bool), Failure> {
    let x = call.input(0)?;
    let given = call.known_int(1, "the axis")?.ok_or_else(|| Failure::invalid("the axis is missing"))?;
    Ok((axis(given, call.rank(x))?, call.flag("exclusive", false)?, call.flag("reverse", false)?))
}

fn cum_sum(call: &mut Call) -> Outputs {
    let x = call.input(0)?;
    let (axis, exclusive, reverse) = running(call)?;
    Ok(vec![call.builder.one(Op::CumSum { axis, exclusive, reverse }, &[x])?])
}

/// Slice after slice along the axis.
fn cum_prod(call: &mut Call) -> Outputs {
    let x = call.input(0)?;
    let (axis, exclusive, reverse) = running(call)?;
    let extent = call.shape(x)[axis];
    if extent > 1024 {
        return Err(Failure::unsupported(
            format!("a running product over {extent} elements is too long to unroll"),
            "replace it by a product of logarithms",
        ));
    }
    if extent == 0 {
        return Ok(vec![x]);
    }
    let order: Vec<usize> = if reverse { (0..extent).rev().collect() } else { (0..extent).collect() };
    let mut parts = vec![x; extent];
    let mut product = None;
    for &at in &order {
        let part = call.builder.part(x, axis, at, 1)?;
        let next = match product {
            None => part,
            Some(product) => call.builder.mul(product, part)?,
        };
        parts[at] = if !exclusive {
            next
        } else if let Some(before) = product {
            before
        } else {
            let (element, shape) = (call.element(x), call.shape(part));
            call.builder.filled(talweg_tensor::Tensor::from_f64(element, [], [1.0]), shape)?
        };
        product = Some(next);
    }
    Ok(vec![call.builder.concat(&parts, axis)?])
}
