//! Reductions of a window along other axes than the last (depthwise convolution, pooling, sums over leading axes):
//! vectors along the last axis, a few neighbours of the axis before it in registers, the window unrolled when small.
//!
//! An input that is padded first is copied block by block, so that the copy is read from the first cache level; the
//! windows of neighbouring blocks overlap, so blocks are as large as fits there:
//!
//! ```text
//! parallel block of rows, columns and lanes { copy of what it reads; for row { for tile { tile } } }
//! ```

use super::contraction::{place_prologue_in, tile_root};
use super::plan::Plan;

/// Accumulators held in registers, in vectors: as many as seven pixels of two vectors need, and fewer with few registers.
const ACCUMULATORS: i64 = 14;
/// At most this many multiply-adds are unrolled.
const MAX_BODY: i64 = 128;
/// What a block costs beside its copy, in copied vectors.
const BLOCK_COST: i64 = 24;

/// Schedules a window reduction and its epilogue.
pub(super) fn schedule(plan: &mut Plan, stage: &str) {
    let (local, outer) = tile_root(plan, stage);
    let axes = plan.axes(&outer);
    let lanes = plan.lanes(&local);
    let Some(((vec_name, vec_extent), rest)) = axes.split_last() else { return };
    let vectors = ((vec_extent + lanes - 1) / lanes).min(2);
    let row = rest.last().filter(|(_, e)| *e > 1).cloned();
    let accumulators = ACCUMULATORS.min(plan.machine.registers - 4);
    let tile = row.as_ref().map_or(1, |(_, e)| best_row_tile(*e, accumulators / vectors));
    let block = block(plan, &local, rest, tile, vectors);

    let vec_parts = plan.split(&outer, vec_name, *vec_extent, &[vectors * lanes]);
    let (mut outside, mut middle, mut inside) = (Vec::new(), Vec::new(), Vec::new());
    for (at, (name, extent)) in rest.iter().enumerate() {
        let is_row = row.is_some() && at + 1 == rest.len();
        let is_upper = at + 2 == rest.len();
        let parts = match &block {
            Some(b) if is_row && b.columns > 1 => plan.split(&outer, name, *extent, &[b.columns, tile]),
            Some(b) if is_upper && b.rows > 1 => plan.split(&outer, name, *extent, &[b.rows]),
            _ if is_row => plan.split(&outer, name, *extent, &[tile]),
            _ => vec![name.clone()],
        };
        match parts.as_slice() {
            [one] if is_row => inside.push(one.clone()),
            [one] if is_upper && block.as_ref().is_some_and(|b| b.rows > 1) => middle.push(one.clone()),
            [one] => outside.push(one.clone()),
            [o, i] if is_row => {
                outside.push(o.clone());
                inside.push(i.clone());
            }
            [o, i] => {
                outside.push(o.clone());
                middle.push(i.clone());
            }
            [o, m, i] => {
                outside.push(o.clone());
                middle.push(m.clone());
                inside.push(i.clone());
            }
            _ => {}
        }
    }
    // Without blocks, threads share rows, and the lanes of a row stay together.
    let mut together = outside.clone();
    if block.is_none() && row.is_some() && inside.len() < rest.len() && outside.len() == rest.len() {
        together.pop();
    }
    match vec_parts.as_slice() {
        [one] => inside.push(one.clone()),
        [o, i] => {
            outside.push(o.clone());
            if block.is_some() {
                together.push(o.clone());
            }
            inside.push(i.clone());
        }
        _ => {}
    }
    let order: Vec<String> = outside.iter().chain(&middle).chain(&inside).cloned().collect();
    plan.reorder(&outer, &order);
    let parallel = plan.fuse(&outer, &together);
    if let Some(at) = middle.last().or(outside.last()) {
        let at = match &parallel {
            Some(p) if together.contains(at) => p.clone(),
            _ => at.clone(),
        };
        plan.compute_at(&local, &outer, &at);
    }
    finish_tile(plan, &local, &outer, &inside, tile * vectors);
    let width = if block.is_some() { vectors * lanes } else { 4 * lanes };
    place_prologue_in(plan, &local, &outer, parallel.as_deref(), width);
    if let Some(p) = parallel {
        plan.parallel(&outer, &p);
    }
}

/// Schedules a window reduction and its epilogue inside a loop of their reader that needs so many rows at a time: columns
/// and lanes are taken in blocks whose copied input stays in the first cache level.
pub(super) fn schedule_inside(plan: &mut Plan, stage: &str, target: &str, at: &str, rows: i64) {
    let (local, outer) = tile_root(plan, stage);
    let axes = plan.axes(&outer);
    let lanes = plan.lanes(&local);
    let [rest @ .., (row, width), (last, channels)] = axes.as_slice() else { return };
    let vectors = ((channels + lanes - 1) / lanes).min(2);
    let accumulators = ACCUMULATORS.min(plan.machine.registers - 4);
    let tile = best_row_tile(*width, accumulators / vectors);
    let most = (width + tile - 1) / tile;
    let columns = input(plan, &local, rest.len() + 2).map_or(most, |input| {
        let fits = |columns: &i64| {
            input.reads(rows, columns * tile) * vectors <= plan.machine.l1 / 2 / plan.machine.vector_bytes
        };
        (1..=most).rev().find(fits).unwrap_or(1)
    });
    let factors = if columns < most { vec![columns, tile] } else { vec![tile] };
    let mut along = plan.split(&outer, row, *width, &factors);
    let mut parts = plan.split(&outer, last, *channels, &[vectors * lanes]);
    let (Some(row), Some(vector)) = (along.pop(), parts.pop()) else { return };
    let block = if along.len() == 2 { Some(along.remove(0)) } else { None };
    let mut order = parts;
    order.extend(block);
    let copied_at = order.last().cloned();
    order.extend(rest.iter().map(|(name, _)| name.clone()).chain(along));
    let innermost = order.last().cloned();
    let inside = [row, vector];
    order.extend(inside.iter().cloned());
    plan.reorder(&outer, &order);
    plan.compute_at(&outer, target, at);
    if let Some(innermost) = innermost {
        plan.compute_at(&local, &outer, &innermost);
    }
    finish_tile(plan, &local, &outer, &inside, tile * vectors);
    place_prologue_in(plan, &local, &outer, copied_at.as_deref(), vectors * lanes);
}

/// How many rows, and how many register tiles of each, are computed from one copy of the input.
struct Block {
    rows: i64,
    columns: i64,
}

/// Places of a padded input that are read by windows side by side.
struct Input {
    /// What the first window reads.
    window: (i64, i64),
    /// What each further one adds.
    step: (i64, i64),
}

impl Input {
    /// Places that so many rows and columns of windows read.
    fn reads(&self, rows: i64, columns: i64) -> i64 {
        ((rows - 1) * self.step.0 + self.window.0) * ((columns - 1) * self.step.1 + self.window.1)
    }
}

/// The padded input that a window reduction over so many axes reads; `None` where nothing is copied.
fn input(plan: &Plan, local: &str, rank: usize) -> Option<Input> {
    let copied = plan.producers(local).into_iter().find(|p| {
        !plan.is_scheduled(p) && plan.compute(p).reduction.is_none() && plan.axes(p).len() == rank
    })?;
    let (inputs, outputs) = (plan.axes(&copied), plan.axes(local));
    let windows: Vec<i64> = plan.reduce_axes(local).iter().map(|(_, e)| *e).collect();
    let [.., high, wide] = windows[..] else { return None };
    let ([.., (_, in_upper), (_, in_row), _], [.., (_, upper), (_, row), _]) = (&inputs[..], &outputs[..])
    else {
        return None;
    };
    let step = |input: i64, window: i64, output: i64| ((input - window) / (output - 1).max(1)).max(1);
    Some(Input { window: (high, wide), step: (step(*in_upper, high, *upper), step(*in_row, wide, *row)) })
}

/// The blocks that copy least of a padded input and fit a quarter of the first cache level; `None` where nothing is copied.
fn block(plan: &Plan, local: &str, rest: &[(String, i64)], tile: i64, vectors: i64) -> Option<Block> {
    let [.., (_, upper), (_, row)] = rest else { return None };
    let input = input(plan, local, rest.len() + 1)?;
    let mut best: Option<(i64, Block)> = None;
    for rows in 1..=*upper {
        for columns in 1..=(row + tile - 1) / tile {
            let reads = input.reads(rows, columns * tile);
            if reads * vectors * plan.machine.vector_bytes > plan.machine.l1 / 4 && rows * columns > 1 {
                break;
            }
            let blocks = ((upper + rows - 1) / rows) * ((row + columns * tile - 1) / (columns * tile));
            let cost = blocks * (reads * vectors + BLOCK_COST);
            if best.as_ref().is_none_or(|(least, _)| cost < *least) {
                best = Some((cost, Block { rows, columns }));
            }
        }
    }
    best.map(|(_, block)| block)
}

/// A tile of the row axis that leaves a small tail.
pub(super) fn best_row_tile(extent: i64, most: i64) -> i64 {
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

#[cfg(test)]
mod tests {
    use talweg_ops::Spec;
    use talweg_target::Target;

    use crate::analytic::default_trace;

    fn default_of(spec: &str) -> String {
        let dag = Spec::parse(spec).expect("a spec").build().expect("legal");
        let mut target = Target::named("avx512").expect("known");
        target.l1d = 48 << 10;
        default_trace(&dag, &target).to_string()
    }

    #[test]
    fn padded_inputs_are_copied_in_blocks_of_the_first_cache_level() {
        let small = default_of("depthwise:h=7,w=7,c=960,k=3,p=1");
        assert!(small.contains("fuse conv n ow.0 c.0") || small.contains("fuse conv n c.0"), "{small}");
        let large = default_of("depthwise:h=112,w=112,c=96,k=3,s=2,p=1");
        assert!(large.contains("compute_at X.pad conv n_oh.0_ow.0_c.0"), "{large}");
        assert!(large.contains("split conv ow [7]"), "{large}");
    }

    #[test]
    fn inputs_that_are_read_as_they_are_need_no_blocks() {
        let pool = default_of("maxpool:h=56,w=56,c=64,k=2,s=2");
        assert!(!pool.contains("split pool oh") && pool.contains("n_oh"), "{pool}");
    }
}
