//! Sketch rules and their derivation: which structures a DAG may be given.
//!
//! Rules visit stages from the last to the first; each says for a stage whether it skips it, applies, or applies and
//! ends the visit. Every application gives successor states, so structural choices multiply into sketches while numeric
//! ones stay knobs. A rule of your own is a value in the list:
//!
//! | rule | stage | effect |
//! |---|---|---|
//! | [`always_inline`] | cheap elementwise, not reused | inlined |
//! | [`add_rfactor`] | long reduction, little space | partial results in parallel |
//! | [`add_cache_write`] | tiled reduction without elementwise reader | accumulates in a local buffer |
//! | [`vector_reduction`] | contraction of operands that both run along the reduction | vectors along the reduction |
//! | [`tiling_with_fusion`] | tiled reduction with elementwise reader | tiled inside the reader's loops |
//! | [`multi_level_tiling`] | tiled reduction without elementwise reader | tiled, accumulates in its result |
//! | [`fuse_rows`] | reductions along rows and their readers | all stages of a row in one loop |
//! | [`place_producer`] | what a tiled stage reads | root, at the block loop, or inlined |
//! | [`skip_stage`] | reader that a tiled reduction will be fused into | left to that rule |
//! | [`tile_elementwise`] | everything else without reduction | vectors, parallel blocks |

pub mod add_cache_write;
pub mod add_rfactor;
pub mod always_inline;
pub mod fuse_rows;
pub mod multi_level_tiling;
pub mod place_producer;
pub(crate) mod register_tile;
pub mod skip_stage;
pub mod tile_elementwise;
pub mod tiling_with_fusion;
pub mod vector_reduction;

use talweg_ir::Dag;
use talweg_target::Target;

use crate::sketch::Sketch;
use crate::state::SketchState;

/// Iterations below which a parallel loop costs more than it gains.
pub(crate) const PARALLEL_FROM: i64 = 16 * 1024;
/// Sketches of one space, at most.
const MAX_SKETCHES: usize = 64;

/// What a rule does with a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Not for this rule.
    Skip,
    /// Apply, and let later rules apply to the state before it too.
    Apply,
    /// Apply, and ask no later rule.
    ApplyAndSkipRest,
}

/// One way to rewrite a stage.
pub trait SketchRule: Send + Sync {
    /// Its name, for reports.
    fn name(&self) -> &'static str;

    /// Whether it runs in a first sweep over all stages, before loops of any stage are decided.
    fn is_early(&self) -> bool {
        false
    }

    /// What it does with a stage.
    fn condition(&self, state: &SketchState, stage: &str) -> Decision;

    /// The states after it: one for each structural choice, none when it turns out not to be legal. Each must decide
    /// the stage ([`SketchState::decide`]) or change the schedule.
    fn apply(&self, state: &SketchState, stage: &str) -> Vec<SketchState>;
}

/// The rules for processors, in order.
pub fn cpu_rules() -> Vec<Box<dyn SketchRule>> {
    vec![
        Box::new(always_inline::AlwaysInline),
        Box::new(add_rfactor::AddRfactor),
        Box::new(add_cache_write::AddCacheWrite),
        Box::new(vector_reduction::VectorReduction),
        Box::new(tiling_with_fusion::MultiLevelTilingWithFusion),
        Box::new(multi_level_tiling::MultiLevelTiling),
        Box::new(fuse_rows::FuseRows),
        Box::new(place_producer::PlaceProducer),
        Box::new(skip_stage::SkipStage),
        Box::new(tile_elementwise::TileElementwise),
    ]
}

/// All sketches the rules derive, in a fixed order, each once.
pub(crate) fn derive(dag: &Dag, target: &Target, rules: &[Box<dyn SketchRule>]) -> Vec<Sketch> {
    let starts = SketchState::starts(dag, target);
    let mut open: Vec<SketchState> = starts.into_iter().flat_map(|state| first_sweep(state, rules)).collect();
    let mut out: Vec<Sketch> = Vec::new();
    open.reverse();
    while let Some(mut state) = open.pop() {
        let Some(stage) = state.next_stage() else {
            if let Some(sketch) = state.finish()
                && !out.iter().any(|s| s.trace == sketch.trace)
            {
                out.push(sketch);
            }
            if out.len() == MAX_SKETCHES {
                break;
            }
            continue;
        };
        let next = successors(&state, &stage, rules, false);
        if next.is_empty() {
            state.decide(&stage);
            open.push(state);
        } else {
            open.extend(next.into_iter().rev());
        }
    }
    out
}

/// Early rules, over all stages from the last to the first; stages none applies to stay open.
fn first_sweep(state: SketchState, rules: &[Box<dyn SketchRule>]) -> Vec<SketchState> {
    let mut states = vec![state.clone()];
    let open = state.schedule.stage_names().into_iter().rev().filter(|stage| !state.is_decided(stage));
    for stage in open {
        states = states
            .into_iter()
            .flat_map(|s| {
                let next = successors(&s, &stage, rules, true);
                if next.is_empty() { vec![s] } else { next }
            })
            .take(MAX_SKETCHES)
            .collect();
    }
    states
}

fn successors(
    state: &SketchState,
    stage: &str,
    rules: &[Box<dyn SketchRule>],
    early: bool,
) -> Vec<SketchState> {
    let mut out = Vec::new();
    for rule in rules.iter().filter(|r| r.is_early() == early) {
        let decision = rule.condition(state, stage);
        if decision == Decision::Skip {
            continue;
        }
        let before = state.progress();
        let found: Vec<SketchState> =
            rule.apply(state, stage).into_iter().filter(|s| s.progress() > before).collect();
        let applied = !found.is_empty();
        out.extend(found);
        if decision == Decision::ApplyAndSkipRest && applied {
            break;
        }
    }
    out
}
