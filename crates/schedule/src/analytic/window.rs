//! Reductions of a window along other axes than the last (depthwise convolution, pooling, sums over leading axes):
//! vectors along the last axis, a few neighbours of the axis before it in registers, the window unrolled when small.

use super::contraction::{place_prologue, tile_root};
use super::plan::Plan;

/// Accumulators held in registers, in vectors.
const ACCUMULATORS: i64 = 12;
/// At most this many multiply-adds are unrolled.
const MAX_BODY: i64 = 112;

/// Schedules a window reduction and its epilogue.
pub(super) fn schedule(plan: &mut Plan, stage: &str) {
    let (local, outer) = tile_root(plan, stage);
    let axes = plan.axes(&outer);
    let lanes = plan.lanes(&local);
    let Some(((vec_name, vec_extent), rest)) = axes.split_last() else { return };
    let vectors = ((vec_extent + lanes - 1) / lanes).min(2);
    let row = rest.last().filter(|(_, e)| *e > 1).cloned();
    let tile = row.as_ref().map_or(1, |(_, e)| best_row_tile(*e, ACCUMULATORS / vectors));

    let vec_parts = plan.split(&outer, vec_name, *vec_extent, &[vectors * lanes]);
    let row_parts = match &row {
        Some((name, extent)) => plan.split(&outer, name, *extent, &[tile]),
        None => Vec::new(),
    };
    let mut outside: Vec<String> = rest.iter().map(|(n, _)| n.clone()).collect();
    let mut inside = Vec::new();
    if let Some((name, _)) = &row {
        outside.retain(|n| n != name);
        match row_parts.as_slice() {
            [one] => inside.push(one.clone()),
            parts => {
                outside.push(parts[0].clone());
                inside.push(parts[1].clone());
            }
        }
    }
    let parallel_loops = outside.len();
    match vec_parts.as_slice() {
        [one] => inside.push(one.clone()),
        parts => {
            outside.push(parts[0].clone());
            inside.push(parts[1].clone());
        }
    }
    let order: Vec<String> = outside.iter().chain(&inside).cloned().collect();
    plan.reorder(&outer, &order);
    // Rows of the result run in parallel; the tile's own loop stays inside so that a padded row can be shared by it.
    let rows = outside[..parallel_loops.saturating_sub(usize::from(row_parts.len() == 2))].to_vec();
    let parallel = plan.fuse(&outer, &rows);
    if let Some(at) = outside.last() {
        let at = match &parallel {
            Some(p) if rows.contains(at) => p.clone(),
            _ => at.clone(),
        };
        plan.compute_at(&local, &outer, &at);
    }
    finish_tile(plan, &local, &outer, &inside, tile * vectors);
    place_prologue(plan, &local, &outer, parallel.as_deref());
    if let Some(p) = parallel {
        plan.parallel(&outer, &p);
    }
}

/// A tile of the row axis that leaves a small tail.
fn best_row_tile(extent: i64, most: i64) -> i64 {
    let cost = |t: i64| {
        let tiles = (extent + t - 1) / t;
        (tiles * t - extent) * 2 + tiles * 3
    };
    (1..=most.min(extent).max(1)).min_by_key(|t| (cost(*t), -t)).unwrap_or(1)
}

fn finish_tile(plan: &mut Plan, local: &str, outer: &str, inside: &[String], accumulators: i64) {
    let axes = plan.axes(local);
    let reduce = plan.reduce_axes(local);
    let space: Vec<String> = axes.iter().map(|(n, _)| n.clone()).collect();
    let order: Vec<String> = reduce.iter().map(|(n, _)| n.clone()).chain(space.iter().cloned()).collect();
    plan.reorder(local, &order);
    if let Some(v) = space.last() {
        plan.vectorize(local, v);
    }
    for s in &space[..space.len().saturating_sub(1)] {
        plan.unroll(local, s);
    }
    let mut body = accumulators;
    for (name, extent) in reduce.iter().rev() {
        body *= extent;
        if body > MAX_BODY {
            break;
        }
        plan.unroll(local, name);
    }
    if let Some((v, rows)) = inside.split_last() {
        plan.vectorize(outer, v);
        if !plan.is_expensive(outer) {
            rows.iter().for_each(|r| plan.unroll(outer, r));
        }
    }
    plan.mark(local);
    plan.mark(outer);
}
