//! Reductions along the last axis and what is computed from them (softmax, norms): one row at a time, all stages of a
//! row inside one loop so that the row stays in registers or the first cache level.

use super::elementwise::PARALLEL_FROM;
use super::plan::{Kind, Plan};

/// Rows up to this many vectors are held in registers, all lanes unrolled.
const REGISTER_VECTORS: i64 = 16;
/// Rows whose stages are computed together, so that the latency of combining one row's lanes hides behind the others.
const ROWS_TOGETHER: i64 = 4;
/// Vectors per iteration over longer rows.
const VECTORS: i64 = 8;

/// Schedules a stage and the producers that can be computed inside its rows.
pub(super) fn schedule(plan: &mut Plan, stage: &str) {
    plan.mark(stage);
    let is_reduction = plan.compute(stage).reduction.is_some();
    let axes = plan.axes(stage);
    // A reduction's own axes are all rows; an elementwise stage has the row along its last axis.
    let rows: Vec<String> = match axes.split_last() {
        Some((_, rows)) if !is_reduction => rows.iter().map(|(n, _)| n.clone()).collect(),
        _ => axes.iter().map(|(n, _)| n.clone()).collect(),
    };
    let row = match (rows.as_slice(), axes.first()) {
        ([one], Some((_, extent))) if !is_reduction && *extent >= 4 * ROWS_TOGETHER => {
            plan.split(stage, one, *extent, &[ROWS_TOGETHER]).into_iter().next()
        }
        _ => plan.fuse(stage, &rows),
    };
    vectorize_row(plan, stage);
    let Some(row) = row else { return };
    let row_rank = rows.len();
    // Producers, readers before producers; what cannot be computed inside the row gets a nest of its own.
    for producer in plan.stages_from_outputs() {
        let kind = plan.kind(&producer);
        if !plan.is_scheduled(&producer)
            && matches!(kind, Kind::Rows | Kind::Elementwise)
            && plan.compute_at(&producer, stage, &row)
        {
            plan.mark(&producer);
            // A stage with only the rows' axes has one value a row.
            if plan.compute(&producer).reduction.is_some() || plan.axes(&producer).len() > row_rank {
                vectorize_row(plan, &producer);
            }
        }
    }
    if plan.iterations(stage) * 4 >= PARALLEL_FROM {
        plan.parallel(stage, &row);
    }
}

/// Vectorises the last axis, or the last reduction axis, of a stage.
pub(super) fn vectorize_row(plan: &mut Plan, stage: &str) {
    let lanes = plan.lanes(stage);
    let reduce = plan.reduce_axes(stage);
    let axes = plan.axes(stage);
    let Some((name, extent)) = reduce.last().or(axes.last()).cloned() else { return };
    let whole = extent <= lanes * REGISTER_VECTORS;
    let parts = if whole { vec![name] } else { plan.split(stage, &name, extent, &[lanes * VECTORS]) };
    if let Some(v) = parts.last() {
        plan.vectorize(stage, v);
    }
}
