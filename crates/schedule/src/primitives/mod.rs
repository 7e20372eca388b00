//! The schedule primitives, one a file. Each is documented as a rewrite, before -> after, with what makes it legal.

mod annotate;
mod cache_read;
mod cache_write;
mod compute_at;
mod fuse;
mod inline;
mod pack;
mod reorder;
mod rfactor;
mod split;

use talweg_ir::LoopKind;

use crate::error::Refusal;
use crate::state::Schedule;
use crate::step::Step;

impl Schedule {
    pub(crate) fn dispatch(&mut self, step: &Step) -> Result<(), Refusal> {
        match step {
            Step::Split { stage, axis, factors } => self.split(stage, axis, factors),
            Step::Fuse { stage, loops } => self.fuse(stage, loops),
            Step::Reorder { stage, loops } => self.reorder(stage, loops),
            Step::ComputeAt { stage, target, at } => self.compute_at(stage, target, at),
            Step::Inline { stage } => self.inline(stage),
            Step::CacheWrite { stage } => self.cache_write(stage),
            Step::CacheRead { tensor, reader } => self.cache_read(tensor, reader),
            Step::Rfactor { stage, axis } => self.rfactor(stage, axis),
            Step::Vectorize { stage, axis } => self.annotate(stage, axis, LoopKind::Vectorize),
            Step::Unroll { stage, axis } => self.annotate(stage, axis, LoopKind::Unroll),
            Step::Parallel { stage, axis } => self.annotate(stage, axis, LoopKind::Parallel),
            Step::Bind { stage, axis, to } => self.annotate(stage, axis, LoopKind::Bind(*to)),
            Step::Pack { tensor, reader } => self.pack(tensor, reader),
        }
    }
}
