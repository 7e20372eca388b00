//! VectorReduction: a contraction whose operands both run along the reduction takes its vectors from there.
//!
//! ```text
//! C[i, j] = sum[k] A[i, k] * B[j, k];  Y[i, j] = f(C[i, j])
//! ->
//! parallel S0 { S1 { S2 { local C[S3];  k.0 { unroll i j { vectorize k.1 { C += A * B } } }  S3: Y = f(C) } } }
//! ```
//!
//! Condition: the operand read along the result's last axis is no constant that packing could turn around, and a
//! reduction axis is its contiguous one; or it is a constant, but the result's last axis fills less than half a vector
//! (images of three channels), and a reduction axis that does is the other operand's contiguous one. Lanes are combined
//! once, after the reduction. Rows are along the last axis that the streamed operand does not depend on.

use talweg_expr::Expr;
use talweg_ir::{Axis, Source};

use super::{Decision, PARALLEL_FROM, SketchRule};
use crate::analysis::StageKind;
use crate::domain;
use crate::knob::KnobRole;
use crate::state::{Applied, SketchState};

/// Elements along the last axis in registers, and vectors of the reduction per step.
const COLUMNS: i64 = 8;
const VECTORS: i64 = 4;

/// See the module.
pub struct VectorReduction;

impl SketchRule for VectorReduction {
    fn name(&self) -> &'static str {
        "VectorReduction"
    }

    fn condition(&self, state: &SketchState, stage: &str) -> Decision {
        let is_contraction = state.stages().kind(stage) == StageKind::Contraction;
        if is_contraction && state.fusible_reader(stage).is_some() && contiguous_axis(state, stage).is_some()
        {
            Decision::Apply
        } else {
            Decision::Skip
        }
    }

    fn apply(&self, state: &SketchState, stage: &str) -> Vec<SketchState> {
        let found = state.fusible_reader(stage).zip(contiguous_axis(state, stage));
        found.and_then(|(outer, axis)| tile(state, stage, &outer, &axis).ok()).into_iter().collect()
    }
}

/// Where the vectors come from.
struct Along {
    /// The reduction axis, and its extent.
    axis: (String, i64),
    /// The position of the result's axis that has the rows; none where the streamed operand depends on all of them.
    row: Option<usize>,
}

/// The reduction axis along which the operands lie in memory, or can be packed, when vectors are best taken from there.
fn contiguous_axis(state: &SketchState, stage: &str) -> Option<Along> {
    let compute = state.stages().compute(stage)?.clone();
    let (last, others) = compute.axes.split_last()?;
    let vector = &last.symbol;
    let is_narrow = last.extent.as_int()? * 2 < state.lanes(stage);
    let dag = state.schedule.dag();
    let reads = compute.body.reads();
    let (streamed, broadcast): (Vec<_>, Vec<_>) =
        reads.iter().partition(|(_, indices)| indices.iter().any(|e| e.mentions(vector)));
    let reduced = |indices: &[Expr]| {
        let last = indices.last()?;
        let axis = compute.reduce_axes().iter().find(|a| last.mentions(&a.symbol))?;
        Some((axis.symbol.name().to_string(), axis.extent.as_int()?))
    };
    for (tensor, indices) in streamed {
        let axis = match dag.tensor(*tensor).source {
            Source::Const if is_narrow => {
                let found = broadcast.iter().find_map(|(_, indices)| reduced(indices));
                found.filter(|(_, extent)| *extent >= state.lanes(stage))
            }
            Source::Const => None,
            _ if indices.last()?.mentions(vector) => None,
            _ => reduced(indices),
        };
        if let Some(axis) = axis {
            let is_row = |axis: &&Axis| !indices.iter().any(|e| e.mentions(&axis.symbol));
            let row = others.iter().rev().find(is_row).map(|row| &row.symbol);
            return Some(Along { axis, row: others.iter().position(|a| Some(&a.symbol) == row) });
        }
    }
    None
}

fn tile(state: &SketchState, local: &str, outer: &str, along: &Along) -> Applied<SketchState> {
    let Along { axis: (reduced, depth), row } = along;
    let mut s = state.clone();
    s.decide(local);
    s.decide(outer);
    let (lanes, registers) = (s.lanes(local), s.machine.registers);
    let axes = s.stages().axes(outer);
    let (mut blocks, mut levels) = (Vec::new(), [Vec::new(), Vec::new(), Vec::new()]);
    let mut tile = Expr::int(1);
    let mut rows = Expr::int(1);
    for (at, (name, extent)) in axes.iter().enumerate() {
        if at + 1 < axes.len() && Some(at) != *row {
            blocks.push(name.clone());
            continue;
        }
        let most = if at + 1 == axes.len() { COLUMNS } else { registers / 2 };
        let mut factors = Vec::new();
        for level in 1..=3 {
            let sizes = match level {
                3 => domain::register_rows(*extent, most),
                _ => domain::tile_sizes(*extent),
            };
            let role = KnobRole::Tile {
                stage: outer.to_string(),
                axis: name.clone(),
                extent: *extent,
                level,
                vector: false,
                reduce: false,
            };
            factors.push(s.open(&format!("{outer}.{name}.{level}"), sizes, role));
        }
        let product = factors.iter().fold(Expr::int(1), |p, f| p * f);
        s.limit(format!("tiles of {outer}.{name}"), product, factors[2].clone() + (extent - 1));
        tile = tile * &factors[2];
        if at + 1 < axes.len() {
            rows = factors[2].clone();
        }
        let parts = s.split(outer, name, &factors)?;
        blocks.push(parts[0].clone());
        levels.iter_mut().zip(&parts[1..]).for_each(|(l, p)| l.push(p.clone()));
    }
    let order: Vec<String> = blocks.iter().chain(levels.iter().flatten()).cloned().collect();
    s.reorder(outer, &order)?;
    let parallel = s.fuse(outer, &blocks)?;
    let [_, second, third] = &levels;
    if let Some(at) = second.last() {
        s.compute_at(local, outer, at)?;
    }

    let role = KnobRole::Tile {
        stage: outer.to_string(),
        axis: reduced.clone(),
        extent: *depth,
        level: 3,
        vector: true,
        reduce: true,
    };
    let vector = s.open(&format!("{outer}.{reduced}.v"), domain::vector_sizes(*depth, lanes, VECTORS), role);
    // In elements: accumulators, the vectors of a row and of a column.
    s.limit(format!("registers of {outer}"), (tile + rows + 1) * &vector, registers * lanes);
    let parts = s.split(local, reduced, &[vector])?;
    let own: Vec<String> = s.stages().axes(local).into_iter().map(|(n, _)| n).collect();
    let reduce = s.stages().reduce_axes(local).into_iter().map(|(n, _)| n).filter(|n| n != reduced);
    let order: Vec<String> =
        reduce.chain([parts[0].clone()]).chain(own.iter().cloned()).chain([parts[1].clone()]).collect();
    s.reorder(local, &order)?;
    s.unroll(local, &own)?;
    s.vectorize(local, &parts[1])?;
    s.pack_constants(local);
    if let Some((column, rows)) = third.split_last() {
        s.vectorize(outer, column)?;
        if !s.stages().is_expensive(outer) {
            s.unroll(outer, rows)?;
        }
    }
    if let Some(p) = parallel
        && s.stages().iterations(local) >= PARALLEL_FROM
    {
        s.parallel(outer, &p)?;
    }
    s.choose(format!("{outer} by vectors of {reduced}"));
    Ok(s)
}
