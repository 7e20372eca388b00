//! FuseRows: reductions along the last axis and what is computed from them run row by row, all stages of a row inside
//! one loop, so that the row stays in registers or the first cache level.
//!
//! ```text
//! m[i] = max[j] X[i, j];  e[i, j] = exp(X[i, j] - m[i]);  ...  Y[i, j] = ...
//! -> by row:
//! parallel i.0 { for i.1 { m by vectors of j;  e by vectors of j;  ...  Y by vectors of j } }
//! -> by block:
//! parallel i.0 { m for i.1 rows;  e for i.1 rows;  ...  Y for i.1 rows }
//! ```
//!
//! Condition: the stage reduces along the last axis of what it reads, or reads such a stage. Knobs: rows per parallel
//! iteration, vectors per step of each stage.

use super::{Decision, PARALLEL_FROM, SketchRule};
use crate::analysis::StageKind;
use crate::domain;
use crate::knob::KnobRole;
use crate::state::{Applied, SketchState};

/// Vectors per step, at most; fewer where the body calls long functions.
const VECTORS: i64 = 16;
const EXPENSIVE_VECTORS: i64 = 8;
/// Rows per parallel iteration, and rows whose stages run together.
const ROWS: i64 = 64;
const BLOCK_ROWS: i64 = 16;

/// See the module.
pub struct FuseRows;

impl SketchRule for FuseRows {
    fn name(&self) -> &'static str {
        "FuseRows"
    }

    fn condition(&self, state: &SketchState, stage: &str) -> Decision {
        if state.stages().kind(stage) == StageKind::Rows {
            Decision::ApplyAndSkipRest
        } else {
            Decision::Skip
        }
    }

    fn apply(&self, state: &SketchState, stage: &str) -> Vec<SketchState> {
        let mut out: Vec<SketchState> = by_row(state, stage).into_iter().collect();
        let attached = out.first().is_some_and(|s| s.schedule.trace().to_string().contains("compute_at"));
        if attached && row_axes(state, stage).last().is_some_and(|(_, e)| *e > 1) {
            out.extend(by_block(state, stage));
        }
        out
    }
}

/// A reduction's own axes are all rows; an elementwise stage has the row along its last axis.
fn row_axes(state: &SketchState, stage: &str) -> Vec<(String, i64)> {
    let mut axes = state.stages().axes(stage);
    if !state.stages().is_reduction(stage) {
        axes.pop();
    }
    axes
}

fn rows_role(stage: &str, axis: &str, extent: i64) -> KnobRole {
    KnobRole::Tile {
        stage: stage.to_string(),
        axis: axis.to_string(),
        extent,
        level: 1,
        vector: false,
        reduce: false,
    }
}

fn by_row(state: &SketchState, stage: &str) -> Applied<SketchState> {
    let mut s = state.clone();
    s.decide(stage);
    let rows = row_axes(&s, stage);
    let names: Vec<String> = rows.iter().map(|(n, _)| n.clone()).collect();
    let count: i64 = rows.iter().map(|(_, e)| *e).product();
    let row = s.fuse(stage, &names)?;
    vectorize_row(&mut s, stage)?;
    let Some(row) = row else { return Ok(s) };
    let mut sizes = domain::tile_sizes(count);
    sizes.retain(|v| *v <= ROWS);
    let together = s.open(&format!("{stage}.rows"), sizes, rows_role(stage, &row, count));
    let parts = s.split(stage, &row, &[together])?;
    attach_producers(&mut s, stage, &parts[1], rows.len())?;
    if s.stages().iterations(stage) * 4 >= PARALLEL_FROM {
        s.parallel(stage, &parts[0])?;
    }
    s.choose(format!("{stage} by row"));
    Ok(s)
}

fn by_block(state: &SketchState, stage: &str) -> Applied<SketchState> {
    let mut s = state.clone();
    s.decide(stage);
    let rows = row_axes(&s, stage);
    let Some(((last, extent), outer)) = rows.split_last() else { return Ok(s) };
    let mut sizes = domain::tile_sizes(*extent);
    sizes.retain(|v| *v <= BLOCK_ROWS);
    let together = s.open(&format!("{stage}.rows"), sizes, rows_role(stage, last, *extent));
    let parts = s.split(stage, last, &[together])?;
    let blocks: Vec<String> = outer.iter().map(|(n, _)| n).chain(&parts[..1]).cloned().collect();
    let block = s.fuse(stage, &blocks)?;
    vectorize_row(&mut s, stage)?;
    let Some(block) = block else { return Ok(s) };
    attach_producers(&mut s, stage, &block, rows.len())?;
    if s.stages().iterations(stage) * 4 >= PARALLEL_FROM {
        s.parallel(stage, &block)?;
    }
    s.choose(format!("{stage} by block of rows"));
    Ok(s)
}

/// Computes every stage that can be inside the loop there, readers before producers.
fn attach_producers(s: &mut SketchState, stage: &str, at: &str, row_rank: usize) -> Applied<()> {
    for producer in s.schedule.stage_names().into_iter().rev() {
        let kind = s.stages().kind(&producer);
        if s.is_decided(&producer) || !matches!(kind, StageKind::Rows | StageKind::Elementwise) {
            continue;
        }
        if s.compute_at(&producer, stage, at).is_err() {
            continue;
        }
        s.decide(&producer);
        // A stage with only the rows' axes has one value a row.
        if s.stages().is_reduction(&producer) || s.stages().axes(&producer).len() > row_rank {
            vectorize_row(s, &producer)?;
        }
    }
    Ok(())
}

/// Vectorises the last axis, or the last reduction axis, of a stage.
fn vectorize_row(s: &mut SketchState, stage: &str) -> Applied<()> {
    let lanes = s.lanes(stage);
    let reduce = s.stages().reduce_axes(stage);
    let axes = s.stages().axes(stage);
    let Some((name, extent)) = reduce.last().or(axes.last()).cloned() else { return Ok(()) };
    let most = if s.stages().is_expensive(stage) { EXPENSIVE_VECTORS } else { VECTORS };
    let role = KnobRole::Tile {
        stage: stage.to_string(),
        axis: name.clone(),
        extent,
        level: 2,
        vector: true,
        reduce: !reduce.is_empty(),
    };
    let size = s.open(&format!("{stage}.{name}.v"), domain::stream_sizes(extent, lanes, most), role);
    let parts = s.split(stage, &name, &[size])?;
    s.vectorize(stage, &parts[1])
}
