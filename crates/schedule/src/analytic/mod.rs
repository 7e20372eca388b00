//! The default schedule: what an untuned build uses, from the tensor expression and the target's description alone.
//!
//! | stage | how it is scheduled | file |
//! |---|---|---|
//! | contraction (matmul, convolution) | register tile, packed weights, blocks for the cache | [`contraction`] |
//! | reduction of a window along other axes than the last (depthwise, pooling) | vector over the last axis | [`window`] |
//! | reduction along the last axis (softmax, norms) | row by row, lanes combined | [`rows`] |
//! | elementwise | inlined, vectorised | [`elementwise`] |
//! | Winograd's algorithm: a contraction between transforms | tiles in registers, a contraction between | [`winograd`] |

mod contraction;
mod elementwise;
mod fold;
mod plan;
mod rows;
mod window;
mod winograd;

use talweg_ir::Dag;
use talweg_target::Target;

use crate::step::Trace;
use plan::{Kind, Plan};

/// A decent schedule for any DAG.
pub fn default_trace(dag: &Dag, target: &Target) -> Trace {
    let mut plan = Plan::new(dag.clone(), target);
    match winograd::find(&plan) {
        Some(chain) => winograd::schedule(&mut plan, &chain),
        None => fold::inline_stages(&mut plan),
    }
    // Readers first, so that producers can be computed inside their loops.
    for stage in plan.stages_from_outputs() {
        if plan.is_scheduled(&stage) {
            continue;
        }
        if let Some(reduction) = plan.finishes(&stage) {
            schedule_one(&mut plan, &reduction);
        }
        if !plan.is_scheduled(&stage) {
            schedule_one(&mut plan, &stage);
        }
    }
    plan.finish()
}

fn schedule_one(plan: &mut Plan, stage: &str) {
    match plan.kind(stage) {
        Kind::Contraction => contraction::schedule(plan, stage),
        Kind::Window => window::schedule(plan, stage),
        Kind::Rows => rows::schedule(plan, stage),
        Kind::Elementwise => elementwise::schedule(plan, stage),
    }
}
