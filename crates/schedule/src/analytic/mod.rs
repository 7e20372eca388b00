//! The default schedule: what an untuned build uses, from the tensor expression and the target's description alone.
//!
//! | stage | how it is scheduled | file |
//! |---|---|---|
//! | contraction (matmul, convolution) | register tile, packed weights, blocks for the cache | [`contraction`] |
//! | product with a constant too large for the cache | the same in blocks of the reduction | [`streaming`] |
//! | reduction of a window along other axes than the last (depthwise, pooling) | vector over the last axis | [`window`] |
//! | reduction along the last axis (softmax, norms) | row by row, lanes combined | [`rows`] |
//! | elementwise | inlined, vectorised | [`elementwise`] |
//! | Winograd's algorithm: a contraction between transforms | tiles in registers, a contraction between | [`winograd`] |

mod contraction;
mod elementwise;
mod fold;
mod plan;
mod rows;
mod streaming;
mod window;
mod winograd;

use talweg_ir::Dag;
use talweg_target::Target;

use crate::step::{Step, Trace};
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

/// The steps of transforms around a contraction, which no search needs to vary, and the stages they decide.
#[derive(Clone, Debug, PartialEq)]
pub struct Transforms {
    /// What to apply first.
    pub steps: Vec<Step>,
    /// The stages whose loops are decided by them.
    pub stages: Vec<String>,
}

/// How the default schedule treats the transforms of Winograd's algorithm; `None` for a DAG that is no such algorithm.
pub fn transforms(dag: &Dag, target: &Target) -> Option<Transforms> {
    let mut plan = Plan::new(dag.clone(), target);
    let chain = winograd::find(&plan)?;
    let stages = winograd::schedule_transforms(&mut plan, &chain);
    Some(Transforms { steps: plan.finish().steps, stages })
}

fn schedule_one(plan: &mut Plan, stage: &str) {
    match plan.kind(stage) {
        Kind::Contraction => contraction::schedule(plan, stage),
        Kind::Window => window::schedule(plan, stage),
        Kind::Rows => rows::schedule(plan, stage),
        Kind::Elementwise => elementwise::schedule(plan, stage),
    }
}
