//! TileElementwise: an elementwise stage with a nest of its own runs by vectors, in parallel blocks.
//!
//! ```text
//! for i { for j { Y } }
//! ->
//! parallel i.0_j.0 { for i.1 { for j.1 { vectorize j.2 { Y } } } }
//! ```
//!
//! Condition: no reduction, and no earlier rule took the stage. Knobs: rows and steps per parallel iteration, vectors
//! per step.

use super::{Decision, PARALLEL_FROM, SketchRule};
use crate::domain;
use crate::knob::KnobRole;
use crate::state::{Applied, SketchState};

/// Vectors per step, at most; fewer where the body calls long functions.
const VECTORS: i64 = 16;
const EXPENSIVE_VECTORS: i64 = 4;
/// Rows of a block, at most.
const ROWS: i64 = 64;

/// See the module.
pub struct TileElementwise;

impl SketchRule for TileElementwise {
    fn name(&self) -> &'static str {
        "TileElementwise"
    }

    fn condition(&self, state: &SketchState, stage: &str) -> Decision {
        if state.stages().is_reduction(stage) { Decision::Skip } else { Decision::ApplyAndSkipRest }
    }

    fn apply(&self, state: &SketchState, stage: &str) -> Vec<SketchState> {
        tile(state, stage).into_iter().collect()
    }
}

/// The stage in a nest of its own.
pub(super) fn tile(state: &SketchState, stage: &str) -> Applied<SketchState> {
    let mut s = state.clone();
    s.decide(stage);
    let axes = s.stages().axes(stage);
    let Some(((last, extent), outer)) = axes.split_last() else { return Ok(s) };
    let lanes = s.lanes(stage);
    let most = if s.stages().is_expensive(stage) { EXPENSIVE_VECTORS } else { VECTORS };
    let tile = |axis: &str, extent: i64, level, vector| KnobRole::Tile {
        stage: stage.to_string(),
        axis: axis.to_string(),
        extent,
        level,
        vector,
        reduce: false,
    };
    let vector = s.open(
        &format!("{stage}.{last}.v"),
        domain::stream_sizes(*extent, lanes, most),
        tile(last, *extent, 2, true),
    );
    let steps = domain::tile_sizes((extent + lanes - 1) / lanes);
    let steps = s.open(&format!("{stage}.{last}.1"), steps, tile(last, *extent, 1, false));
    s.limit(format!("tile of {stage}.{last}"), steps.clone() * &vector, vector.clone() + (extent - 1));
    let parts = s.split(stage, last, &[steps, vector])?;
    let (mut blocks, mut inside): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    for (at, (name, extent)) in outer.iter().enumerate() {
        if at + 1 == outer.len() && *extent > 1 {
            let mut sizes = domain::tile_sizes(*extent);
            sizes.retain(|v| *v <= ROWS);
            let rows = s.open(&format!("{stage}.{name}.1"), sizes, tile(name, *extent, 1, false));
            let split = s.split(stage, name, &[rows])?;
            blocks.push(split[0].clone());
            inside.push(split[1].clone());
        } else {
            blocks.push(name.clone());
        }
    }
    blocks.push(parts[0].clone());
    inside.push(parts[1].clone());
    let order: Vec<String> = blocks.iter().chain(&inside).chain(&parts[2..]).cloned().collect();
    s.reorder(stage, &order)?;
    s.vectorize(stage, &parts[2])?;
    if let Some(fused) = s.fuse(stage, &blocks)?
        && s.stages().elements(stage) >= PARALLEL_FROM
    {
        s.parallel(stage, &fused)?;
    }
    Ok(s)
}
