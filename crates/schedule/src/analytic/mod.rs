//! The default schedule: what an untuned build uses, from the tensor expression and the target's description alone.
//!
//! | stage | how it is scheduled | file |
//! |---|---|---|
//! | contraction (matmul, convolution) | register tile, packed weights, blocks for the cache | [`contraction`], [`tile`] |
//! | product with a constant too large for the cache | the same in blocks of the reduction | [`streaming`] |
//! | reduction of a window along other axes than the last (depthwise, pooling) | vector over the last axis | [`window`] |
//! | reduction along the last axis (softmax, norms) | row by row, lanes combined | [`rows`] |
//! | elementwise | inlined, vectorised | [`elementwise`] |
//! | attention: products around a softmax | a block of queries at a time, everything about it in the caches | [`attention`] |
//! | windows whose results a contraction reads place by place (depthwise and pointwise) | a block of rows at a time | [`separable`] |
//! | Strassen's scheme: products of quarters between sums | a panel of products at a time, kept in the cache | [`strassen`] |
//! | Winograd's algorithm: a contraction between transforms | tiles in registers, a contraction between | [`winograd`] |

mod attention;
mod contraction;
mod elementwise;
mod fold;
mod plan;
mod rows;
mod separable;
mod strassen;
mod streaming;
mod tile;
mod window;
mod winograd;

use talweg_ir::Dag;
use talweg_target::Target;

use crate::step::{Step, Trace};
use plan::{Kind, Plan};
pub use strassen::{Scheme, SchemeSizes};

/// A decent schedule for any DAG.
pub fn default_trace(dag: &Dag, target: &Target) -> Trace {
    let mut plan = Plan::new(dag.clone(), target);
    if let Some(chain) = winograd::find(&plan) {
        winograd::schedule(&mut plan, &chain);
    } else if let Some(chain) = strassen::find(&plan) {
        if let Some(sizes) = strassen::sizes(&plan, &chain).first() {
            strassen::schedule(&mut plan, &chain, *sizes);
        }
    } else if let Some(chain) = attention::find(&plan) {
        let sizes = attention::sizes(&plan, &chain)[0];
        attention::schedule(&mut plan, &chain, sizes);
    } else {
        fold::inline_stages(&mut plan);
        if let Some(chain) = separable::find(&plan)
            && let Some(sizes) = separable::sizes(&plan, &chain).first()
        {
            separable::schedule(&mut plan, &chain, *sizes);
        }
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

/// Steps that decide some stages before a search begins: transforms around a contraction, or all of an attention,
/// of a product by Strassen's scheme or of a pair of convolutions.
#[derive(Clone, Debug, PartialEq)]
pub struct Decided {
    /// What to apply first.
    pub steps: Vec<Step>,
    /// The stages whose loops are decided by them.
    pub stages: Vec<String>,
}

impl Decided {
    fn by(plan: Plan) -> Decided {
        let stages =
            plan.stages_from_outputs().into_iter().filter(|stage| plan.is_scheduled(stage)).collect();
        Decided { steps: plan.finish().steps, stages }
    }
}

/// Where a search of a DAG begins: how the default schedule treats the transforms of Winograd's algorithm, or the stages
/// of a product by Strassen's scheme, of an attention or of a depthwise and a pointwise convolution in several sizes, the
/// default's first. None for any other DAG.
pub fn beginnings(dag: &Dag, target: &Target) -> Vec<Decided> {
    let mut plan = Plan::new(dag.clone(), target);
    if let Some(chain) = winograd::find(&plan) {
        winograd::schedule_transforms(&mut plan, &chain);
        return vec![Decided::by(plan)];
    }
    if let Some(chain) = strassen::find(&plan) {
        let sized = |sizes| {
            let mut plan = Plan::new(dag.clone(), target);
            strassen::schedule(&mut plan, &chain, sizes);
            Decided::by(plan)
        };
        return strassen::sizes(&plan, &chain).into_iter().map(sized).collect();
    }
    if let Some(chain) = attention::find(&plan) {
        let sized = |sizes| {
            let mut plan = Plan::new(dag.clone(), target);
            attention::schedule(&mut plan, &chain, sizes);
            Decided::by(plan)
        };
        return attention::sizes(&plan, &chain).into_iter().map(sized).collect();
    }
    fold::inline_stages(&mut plan);
    let Some(chain) = separable::find(&plan) else { return Vec::new() };
    let sized = |sizes| {
        let mut plan = Plan::new(dag.clone(), target);
        fold::inline_stages(&mut plan);
        separable::schedule(&mut plan, &chain, sizes);
        Decided::by(plan)
    };
    separable::sizes(&plan, &chain).into_iter().map(sized).collect()
}

/// What a search has to know of a DAG that is Strassen's scheme; `None` of any other.
pub fn scheme(dag: &Dag, target: &Target) -> Option<Scheme> {
    let mut plan = Plan::new(dag.clone(), target);
    if winograd::find(&plan).is_some() {
        return None;
    }
    let chain = strassen::find(&plan)?;
    strassen::describe(&mut plan, &chain)
}

/// The schedule of such a DAG by sizes that may be open.
pub fn scheme_by(dag: &Dag, target: &Target, sizes: &SchemeSizes) -> Option<Decided> {
    let mut plan = Plan::new(dag.clone(), target);
    let chain = strassen::find(&plan)?;
    strassen::schedule_by(&mut plan, &chain, sizes);
    Some(Decided::by(plan))
}

fn schedule_one(plan: &mut Plan, stage: &str) {
    match plan.kind(stage) {
        Kind::Contraction => contraction::schedule(plan, stage),
        Kind::Window => window::schedule(plan, stage),
        Kind::Rows => rows::schedule(plan, stage),
        Kind::Elementwise => elementwise::schedule(plan, stage),
    }
}
