//! AlwaysInline: an elementwise stage that costs less to compute again than to store vanishes into its readers.
//!
//! ```text
//! T[i] = A[i] + b;  Y[i] = max(T[i], 0)   ->   Y[i] = max(A[i] + b, 0)
//! ```
//!
//! Condition: no output, no reduction; its elements are read once, or it is cheap and every reader is elementwise.

use talweg_schedule::Step;

use super::{Decision, SketchRule};
use crate::state::SketchState;

/// See the module.
pub struct AlwaysInline;

impl SketchRule for AlwaysInline {
    fn name(&self) -> &'static str {
        "AlwaysInline"
    }

    fn is_early(&self) -> bool {
        true
    }

    fn condition(&self, state: &SketchState, stage: &str) -> Decision {
        let stages = state.stages();
        let readers = stages.readers(stage);
        if stages.is_output(stage) || stages.is_reduction(stage) || readers.is_empty() {
            return Decision::Skip;
        }
        let into_reduction = readers.iter().any(|r| stages.is_reduction(r));
        if stages.is_reused(stage) && (stages.is_costly(stage) || into_reduction) {
            return Decision::Skip;
        }
        Decision::ApplyAndSkipRest
    }

    fn apply(&self, state: &SketchState, stage: &str) -> Vec<SketchState> {
        let mut next = state.clone();
        match next.step(Step::Inline { stage: stage.to_string() }) {
            Ok(()) => vec![next],
            Err(_) => Vec::new(),
        }
    }
}
