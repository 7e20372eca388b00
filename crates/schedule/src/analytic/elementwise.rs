//! Elementwise stages: a few vectors at a time along the last axis, the rest in parallel.

use super::plan::Plan;

/// Below this many elements a parallel loop costs more than it gains.
pub(super) const PARALLEL_FROM: i64 = 16 * 1024;
/// Vectors per iteration of the inner loop.
const VECTORS: i64 = 4;

/// Schedules a stage at the root.
pub(super) fn schedule(plan: &mut Plan, stage: &str) {
    plan.mark(stage);
    let axes = plan.axes(stage);
    let Some(((last, extent), outer)) = axes.split_last() else { return };
    let lanes = plan.lanes(stage);
    let vectors = if plan.is_expensive(stage) { 2 } else { VECTORS };
    let parts = plan.split(stage, last, *extent, &[lanes * vectors]);
    let mut loops = outer.to_vec();
    if parts.len() == 2 {
        loops.push((parts[0].clone(), extent / (lanes * vectors)));
    }
    if let Some(v) = parts.last() {
        plan.vectorize(stage, v);
    }
    let elements: i64 = axes.iter().map(|(_, e)| *e).product();
    if elements >= PARALLEL_FROM
        && let Some(fused) = plan.fuse_for_threads(stage, &loops)
    {
        plan.parallel(stage, &fused);
    }
}
