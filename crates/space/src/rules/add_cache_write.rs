//! AddCacheWrite: a tiled reduction without an elementwise reader accumulates in a buffer of its own.
//!
//! ```text
//! C[i, j] = sum[k] ...   ->   C.local[i, j] = sum[k] ...;  C[i, j] = C.local[i, j]
//! ```
//!
//! Condition: the stage needs tiling and no untouched elementwise reader takes its elements in place. The copy is then
//! the reader that tiling with fusion looks for.

use talweg_schedule::Step;

use super::{Decision, SketchRule};
use crate::state::SketchState;

/// See the module.
pub struct AddCacheWrite;

impl SketchRule for AddCacheWrite {
    fn name(&self) -> &'static str {
        "AddCacheWrite"
    }

    fn condition(&self, state: &SketchState, stage: &str) -> Decision {
        if state.stages().needs_tiling(stage) && state.fusible_reader(stage).is_none() {
            Decision::Apply
        } else {
            Decision::Skip
        }
    }

    fn apply(&self, state: &SketchState, stage: &str) -> Vec<SketchState> {
        let mut next = state.clone();
        if next.step(Step::CacheWrite { stage: stage.to_string() }).is_err() {
            return Vec::new();
        }
        next.decide(stage);
        vec![next]
    }
}
