//! SkipStage: an elementwise stage that finishes a tiled reduction is left to the rule that tiles the reduction.
//!
//! ```text
//! Y[i, j] = f(C[i, j])   ->   the same; tiled when the rules come to C
//! ```
//!
//! Condition: the stage takes every element of an undecided tiled reduction in place.

use super::{Decision, SketchRule};
use crate::state::SketchState;

/// See the module.
pub struct SkipStage;

impl SketchRule for SkipStage {
    fn name(&self) -> &'static str {
        "SkipStage"
    }

    fn condition(&self, state: &SketchState, stage: &str) -> Decision {
        let finished = state.stages().finishes(stage);
        if finished.iter().any(|p| !state.is_decided(p)) {
            Decision::ApplyAndSkipRest
        } else {
            Decision::Skip
        }
    }

    fn apply(&self, state: &SketchState, stage: &str) -> Vec<SketchState> {
        let mut next = state.clone();
        next.decide(stage);
        vec![next]
    }
}
