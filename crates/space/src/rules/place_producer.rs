//! PlaceProducer: where a stage that a tiled reduction reads (padding, conversions) is computed.
//!
//! ```text
//! P (all);  parallel S0 { ... reads P ... }             root: computed once, in a nest of its own
//! parallel S0 { local P (a block);  ... reads P ... }   block: computed again where blocks overlap, stays in the cache
//! parallel S0 { ... reads f(A) ... }                    inlined: computed for every read
//! ```
//!
//! Condition: an elementwise stage that a tiled stage reads. Inlined only when cheap and without guard: a branch in
//! the register tile is ruinous.

use talweg_schedule::Step;

use super::{Decision, SketchRule, tile_elementwise};
use crate::domain;
use crate::knob::KnobRole;
use crate::state::{Applied, SketchState};

/// Vectors per iteration of a block's loop.
const VECTORS: i64 = 8;

/// See the module.
pub struct PlaceProducer;

impl SketchRule for PlaceProducer {
    fn name(&self) -> &'static str {
        "PlaceProducer"
    }

    fn condition(&self, state: &SketchState, stage: &str) -> Decision {
        let waits = state.places.iter().any(|(producer, ..)| producer == stage);
        if waits && !state.stages().is_reduction(stage) { Decision::ApplyAndSkipRest } else { Decision::Skip }
    }

    fn apply(&self, state: &SketchState, stage: &str) -> Vec<SketchState> {
        let mut out: Vec<SketchState> = Vec::new();
        out.extend(tile_elementwise::tile(state, stage).map(|mut s| {
            s.choose(format!("{stage} at root"));
            s
        }));
        out.extend(at_block(state, stage));
        if !state.stages().is_guarded(stage) && !state.stages().is_costly(stage) {
            out.extend(inlined(state, stage));
        }
        out
    }
}

fn at_block(state: &SketchState, stage: &str) -> Applied<SketchState> {
    let mut s = state.clone();
    let place = s.places.iter().find(|(producer, ..)| producer == stage).cloned();
    let Some((_, target, at)) = place else { return Ok(s) };
    s.compute_at(stage, &target, &at)?;
    if let Some((last, extent)) = s.stages().axes(stage).last().cloned() {
        let lanes = s.lanes(stage);
        let role = KnobRole::Tile {
            stage: stage.to_string(),
            axis: last.clone(),
            extent,
            level: 1,
            vector: true,
            reduce: false,
        };
        let size = s.open(&format!("{stage}.{last}.v"), domain::stream_sizes(extent, lanes, VECTORS), role);
        let parts = s.split(stage, &last, &[size])?;
        s.vectorize(stage, &parts[1])?;
    }
    s.decide(stage);
    s.choose(format!("{stage} by block"));
    Ok(s)
}

fn inlined(state: &SketchState, stage: &str) -> Applied<SketchState> {
    let mut s = state.clone();
    s.step(Step::Inline { stage: stage.to_string() })?;
    s.choose(format!("{stage} inlined"));
    Ok(s)
}
