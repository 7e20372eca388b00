//! `vectorize`, `unroll`, `parallel`, `bind`: how a loop runs.
//!
//! ```text
//! for i in 0..n { S }  ->  vectorize i in 0..n { S }   (or unroll, parallel, bind(thread.x))
//! ```
//!
//! Legal when the loop has no annotation yet; `parallel` and `bind` take loops over space only; a stage has at most one
//! vectorised loop, and no stage is computed at a vectorised loop or inside it. Loops with a tail are specialised when
//! the nest is made concrete, so vectorised and unrolled bodies have constant extents.

use talweg_ir::LoopKind;

use crate::error::Refusal;
use crate::state::{IterKind, Schedule};

impl Schedule {
    pub(super) fn annotate(&mut self, stage: &str, axis: &str, kind: LoopKind) -> Result<(), Refusal> {
        let id = self.find_stage(stage)?;
        let leaf = self.find_leaf(id, axis)?;
        let s = self.stage_mut(id);
        if s.iter(leaf).annotation != LoopKind::Serial {
            return Err(format!("`{axis}` has an annotation already"));
        }
        if matches!(kind, LoopKind::Parallel | LoopKind::Bind(_)) && s.iter(leaf).kind == IterKind::Reduce {
            return Err(format!(
                "`{axis}` runs over a reduction, whose iterations write the same element; `rfactor` it first"
            ));
        }
        if kind == LoopKind::Vectorize {
            if let Some(other) = s.leaves.iter().find(|l| s.iter(**l).annotation == LoopKind::Vectorize) {
                return Err(format!(
                    "`{}` is vectorised already; a stage has one vector loop",
                    s.iter(*other).name
                ));
            }
            self.check_nothing_inside(id, leaf)?;
        }
        self.stage_mut(id).iters[leaf.0].annotation = kind;
        Ok(())
    }
}
