//! `vectorize`, `unroll`, `parallel`, `bind`: how a loop runs.
//!
//! ```text
//! for i in 0..n { S }  ->  vectorize i in 0..n { S }   (or unroll, parallel, bind(thread.x))
//! ```
//!
//! Legal when the loop has no annotation yet; `parallel` and `bind` take loops over space only; a stage has at most one
//! vectorised loop, and no stage is computed at a vectorised loop or inside it. A parallel loop belongs to a stage with
//! its own nest, is the only one of it, has no vectorised or unrolled loop around it, and no stage is computed at a
//! loop around it, because such a stage's buffer belongs to one thread. Loops with a tail are specialised when
//! the nest is made concrete, so vectorised and unrolled bodies have constant extents.

use talweg_ir::LoopKind;

use crate::error::Refusal;
use crate::state::{Attach, IterKind, Schedule};

impl Schedule {
    pub(super) fn annotate(&mut self, stage: &str, axis: &str, kind: LoopKind) -> Result<(), Refusal> {
        let id = self.find_stage(stage)?;
        let leaf = self.find_leaf(id, axis)?;
        let s = self.stage_mut(id);
        if s.iter(leaf).annotation != LoopKind::Serial {
            return Err(format!("`{axis}` has an annotation already; a loop runs in one way only"));
        }
        if matches!(kind, LoopKind::Parallel | LoopKind::Bind(_)) && s.iter(leaf).kind == IterKind::Reduce {
            return Err(format!(
                "`{axis}` runs over a reduction, whose iterations write the same element; `rfactor` it first"
            ));
        }
        if kind == LoopKind::Vectorize {
            if let Some(other) = s.leaves.iter().find(|l| s.iter(**l).annotation == LoopKind::Vectorize) {
                return Err(format!(
                    "`{}` is vectorised already; a stage has one vector loop, so `unroll` this one or drop the other",
                    s.iter(*other).name
                ));
            }
            self.check_nothing_inside(id, leaf)?;
        }
        self.stage_mut(id).iters[leaf.0].annotation = kind;
        Ok(())
    }

    /// Refuses when a stage's parallel loop stands where it must not; checked after every step.
    pub(crate) fn check_parallel_loops(&self) -> Result<(), Refusal> {
        for s in self.stages.iter().flatten() {
            let kind = |at: &usize| s.iter(s.leaves[*at]).annotation;
            let Some(at) = (0..s.leaves.len()).find(|at| kind(at) == LoopKind::Parallel) else { continue };
            let (stage, name) = (&self.dag.tensor(s.tensor).name, &s.iter(s.leaves[at]).name);
            let place = format!("loop `{name}` of `{stage}` is parallel");
            if s.attach != Attach::Root {
                return Err(format!(
                    "{place}, so `{stage}` cannot be computed inside a loop of another stage; \
                     make a loop of that stage parallel instead"
                ));
            }
            if (at + 1..s.leaves.len()).any(|other| kind(&other) == LoopKind::Parallel) {
                return Err(format!("{place} already; `fuse` the loops to run both in parallel"));
            }
            if (0..at).any(|outer| matches!(kind(&outer), LoopKind::Vectorize | LoopKind::Unroll)) {
                return Err(format!(
                    "{place}, so the loops around it cannot be vectorised or unrolled; `reorder` it outwards"
                ));
            }
            for child in self.attached_to(s.tensor) {
                let Attach::At(_, leaf) = self.stage(child).attach else { continue };
                if s.leaves.iter().position(|l| *l == leaf) < Some(at) {
                    let child = &self.dag.tensor(child).name;
                    return Err(format!("{place}, so `{child}` must be computed at it or inside it"));
                }
            }
        }
        Ok(())
    }
}
