//! Pooling, over windows and over everything; `MaxUnpool`.

use talweg_tensor::op::{Layout, Pool, PoolKind, ReduceKind, ScatterReduction, Unary};
use talweg_tensor::{Op, Tensor};

use super::windows::{spatial, windows};
use super::{Entry, entry};
use crate::call::{Call, Outputs, size};
use crate::error::Failure;

pub(super) const ENTRIES: &[Entry] = &[
    entry("AveragePool", 7, average),
    entry("GlobalAveragePool", 1, |call| global(call, ReduceKind::Mean)),
    entry("GlobalLpPool", 2, global_lp),
    entry("GlobalMaxPool", 1, |call| global(call, ReduceKind::Max)),
    entry("LpPool", 2, lp),
    entry("MaxPool", 1, max),
    entry("MaxUnpool", 9, unpool),
];

fn pool(call: &mut Call, kind: PoolKind) -> Outputs {
    let x = call.input(0)?;
    let extents = spatial(&call.shape(x))?;
    let windows = windows(call, &extents, None)?;
    let same = call.text_or("auto_pad", "NOTSET")?.starts_with("SAME");
    let op = Pool {
        kind,
        window: windows.window,
        strides: windows.strides,
        dilations: windows.dilations,
        begin: windows.begin,
        end: windows.end,
        ceil: call.flag("ceil_mode", false)? && !same,
        column_major: call.flag("storage_order", false)?,
        layout: Layout::ChannelsFirst,
    };
    let outputs = if call.wants(1) { 2 } else { 1 };
    call.builder.emit(Op::Pool(op), &[Some(x)], outputs)
}

fn average(call: &mut Call) -> Outputs {
    let count_pad = call.flag("count_include_pad", false)?;
    pool(call, PoolKind::Average { count_pad })
}

fn max(call: &mut Call) -> Outputs {
    pool(call, PoolKind::Max)
}

fn lp(call: &mut Call) -> Outputs {
    pool(call, PoolKind::Lp { p: exponent(call)? })
}

fn exponent(call: &Call) -> Result<u32, Failure> {
    let p = call.int_or("p", 2)?;
    u32::try_from(p).ok().filter(|&p| p > 0).ok_or_else(|| Failure::invalid(format!("`p` is {p}")))
}

fn global(call: &mut Call, kind: ReduceKind) -> Outputs {
    let x = call.input(0)?;
    let rank = spatial(&call.shape(x))?.len() + 2;
    Ok(vec![call.builder.reduce(kind, x, (2..rank).collect(), true)?])
}

fn global_lp(call: &mut Call) -> Outputs {
    match exponent(call)? {
        1 => global(call, ReduceKind::L1),
        2 => global(call, ReduceKind::L2),
        p => {
            let x = call.input(0)?;
            let rank = spatial(&call.shape(x))?.len() + 2;
            let x = call.builder.unary(Unary::Abs, x)?;
            let p = call.builder.scalar_like(x, f64::from(p));
            let powers = call.builder.binary(talweg_tensor::op::Binary::Pow, x, p)?;
            let sum = call.builder.reduce(ReduceKind::Sum, powers, (2..rank).collect(), true)?;
            let inverse = call.builder.unary(Unary::Reciprocal, p)?;
            Ok(vec![call.builder.binary(talweg_tensor::op::Binary::Pow, sum, inverse)?])
        }
    }
}

/// Zeros, with the elements at the positions that a `MaxPool` found. Positions count in the shape that the pooling
/// had without `output_shape`, which only adds zeros behind.
fn unpool(call: &mut Call) -> Outputs {
    let (x, positions) = (call.input(0)?, call.input(1)?);
    let shape = call.shape(x);
    let extents = spatial(&shape)?;
    let windows = windows(call, &extents, None)?;
    let mut natural = shape[..2].to_vec();
    for (i, extent) in extents.iter().enumerate() {
        let full = extent.saturating_sub(1).saturating_mul(windows.strides[i]) + windows.window[i];
        natural.push(full.saturating_sub(windows.begin[i] + windows.end[i]));
    }
    let given = match call.known_ints(2, "the output shape")? {
        None => natural.clone(),
        Some(given) => {
            given.into_iter().map(|e| size(e, "an extent")).collect::<Result<Vec<usize>, Failure>>()?
        }
    };
    if given.len() != natural.len() {
        return Err(Failure::invalid(format!("the output shape is {given:?}")));
    }
    let len = natural.iter().try_fold(1usize, |len, &e| len.checked_mul(e));
    let len = len.ok_or_else(|| Failure::invalid("the result is too large"))?;
    let zero = Tensor::from_f64(call.element(x), [], [0.0]);
    let zeros = call.builder.filled(zero, vec![len])?;
    let count: usize = shape.iter().product();
    let positions = call.builder.reshape(positions, vec![count])?;
    let values = call.builder.reshape(x, vec![count])?;
    let scatter = Op::ScatterElements { axis: 0, reduction: ScatterReduction::Replace };
    let flat = call.builder.one(scatter, &[zeros, positions, values])?;
    let y = call.builder.reshape(flat, natural.clone())?;
    let end: Vec<i64> = given.iter().zip(&natural).map(|(&g, &n)| g as i64 - n as i64).collect();
    if end.iter().all(|&e| e == 0) {
        return Ok(vec![y]);
    }
    let begin = vec![0; end.len()];
    let pad = Op::Pad { begin, end, mode: talweg_tensor::op::PadMode::Constant };
    Ok(vec![call.builder.one(pad, &[y])?])
}
