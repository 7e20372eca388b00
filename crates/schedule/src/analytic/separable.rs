//! A window reduction and the contraction that reads it place by place (depthwise and pointwise convolution): a block of
//! rows at a time, whose middle values never leave the core.
//!
//! ```text
//! parallel block of rows {
//!   for lanes of channels { copy of what the windows read; the windows, in register tiles }
//!   for panel { the products of the block, in register tiles } }
//! ```

use super::contraction::{self, Tile};
use super::elementwise::PARALLEL_FROM;
use super::plan::{Kind, Plan};
use super::window;
use crate::step::Step;

/// Blocks for each thread that share well even where one is slower than the others.
const ENOUGH_BLOCKS: i64 = 8;
/// Most rows of a block.
const MOST_ROWS: i64 = 8;

/// The stages of the pair by their part in it.
pub(super) struct Chain {
    /// Reduces the windows.
    window: String,
    /// What the product reads: the windows' results, or what follows them.
    middle: String,
    product: String,
}

/// What a schedule of the pair leaves open.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sizes {
    /// Rows of the result in a block.
    rows: i64,
    /// The register tile of the product.
    product: Tile,
}

/// The stages, when the DAG has such a pair.
pub(super) fn find(plan: &Plan) -> Option<Chain> {
    let names = plan.schedule.stage_names();
    names.into_iter().filter(|stage| plan.kind(stage) == Kind::Contraction).find_map(|product| {
        let middle = plan.producers(&product).into_iter().find(|p| in_place(plan, &product, p))?;
        let is_window = |stage: &String| plan.kind(stage) == Kind::Window;
        let window = match is_window(&middle) {
            true => middle.clone(),
            false => {
                let ends = |p: &String| is_window(p) && plan.epilogue(p).as_ref() == Some(&middle);
                plan.producers(&middle).into_iter().find(ends)?
            }
        };
        let is_output = plan.schedule.dag.tensor(plan.id(&middle)).output;
        let alone = plan.readers(&middle) == [product.clone()] && !is_output;
        (alone && plan.axes(&product).len() >= 2).then_some(Chain { window, middle, product })
    })
}

/// Whether a stage reads another at its own place, all of the last axis.
fn in_place(plan: &Plan, stage: &str, read: &str) -> bool {
    let (id, compute) = (plan.id(read), plan.compute(stage));
    let single = |axis: &&talweg_ir::Axis| axis.extent.as_int() == Some(1);
    let still: Vec<_> = compute.reduce_axes().iter().filter(single).map(|a| a.symbol.clone()).collect();
    let zero = |s: &talweg_expr::Symbol| still.contains(s).then(|| talweg_expr::Expr::int(0));
    let own = &compute.axes[..compute.axes.len().saturating_sub(1)];
    compute.body.reads().iter().filter(|(t, _)| *t == id).all(|(_, index)| {
        let [places @ .., last] = index.as_slice() else { return false };
        let reduced = compute.reduce_axes().iter().any(|a| *last == a.var());
        let same =
            places.len() == own.len() && places.iter().zip(own).all(|(e, a)| e.subst(&zero) == a.var());
        same && reduced
    })
}

/// The default sizes, and others worth measuring behind them.
pub(super) fn sizes(plan: &Plan, chain: &Chain) -> Vec<Sizes> {
    let axes = plan.axes(&chain.product);
    let [.., (_, height), (_, width), (_, filters)] = axes.as_slice() else { return Vec::new() };
    let lanes = plan.lanes(&chain.product);
    let depth = plan.reduce_axes(&chain.product).iter().map(|(_, e)| e).product();
    let best_rows = rows_of(plan, chain);
    let mut out = Vec::new();
    let mut rows: Vec<i64> = vec![best_rows];
    rows.extend([1, 2, 4, MOST_ROWS].into_iter().filter(|r| *r != best_rows && r <= height));
    for rows in rows {
        let best = contraction::best_tile(plan, (rows, *width, *filters), lanes, depth, i64::MAX);
        let most = (filters + lanes - 1) / lanes;
        let of = |vectors: i64| {
            let most = ((plan.machine.registers - 1 - vectors) / vectors).max(1);
            let row = window::best_row_tile(*width, most);
            Tile { upper: (most / row).clamp(1, rows), row, vectors }
        };
        let others = (1..=most.min(4)).map(of).filter(|t| *t != best);
        for product in std::iter::once(best).chain(others) {
            out.push(Sizes { rows, product });
        }
    }
    out
}

/// Rows of a block: as many as leave room in the second cache level and enough blocks for the threads.
fn rows_of(plan: &Plan, chain: &Chain) -> i64 {
    let axes = plan.axes(&chain.middle);
    let [batches @ .., (_, height), (_, width), (_, channels)] = axes.as_slice() else { return 1 };
    let images: i64 = batches.iter().map(|(_, e)| e).product();
    let cores = plan.machine.cores;
    let fits = |rows: &i64| {
        let blocks = images * ((height + rows - 1) / rows);
        let shared = blocks % cores == 0 || blocks >= ENOUGH_BLOCKS * cores;
        shared && rows * width * channels * 4 <= plan.machine.l2 / 4
    };
    (1..=MOST_ROWS.min(*height)).rev().find(fits).unwrap_or(1)
}

/// Schedules all stages of the pair.
pub(super) fn schedule(plan: &mut Plan, chain: &Chain, sizes: Sizes) {
    let constant = contraction::streamed_operand(plan, &chain.product).constant;
    let (local, root) = contraction::tile_root(plan, &chain.product);
    let (axes, own_axes) = (plan.axes(&root), plan.axes(&local));
    let [batches @ .., (high, height), (wide, width), (last, filters)] = axes.as_slice() else { return };
    let Sizes { rows, product: tile } = sizes;
    let lanes = plan.lanes(&local);

    // The loops of the product: blocks of rows, panels, tiles.
    let factors = if rows > tile.upper { vec![rows / tile.upper, tile.upper] } else { vec![tile.upper] };
    let mut down = plan.split(&root, high, *height, &factors);
    let mut along = plan.split(&root, wide, *width, &[tile.row]);
    let mut panels = plan.split(&root, last, *filters, &[tile.vectors * lanes]);
    let (Some(upper), Some(row), Some(vector)) = (down.pop(), along.pop(), panels.pop()) else { return };
    let outside = (!down.is_empty()).then(|| down.remove(0));
    let blocks: Vec<String> = batches.iter().map(|(name, _)| name.clone()).chain(outside).collect();
    let inside = [upper, row, vector];
    let order: Vec<String> = [&blocks[..], &panels, &down, &along, &inside].concat();
    plan.reorder(&root, &order);
    let Some(block) = plan.fuse(&root, &blocks) else { return };
    let innermost = along.last().or(down.last()).or(panels.last()).unwrap_or(&block).clone();
    plan.compute_at(&local, &root, &innermost);
    contraction::plan_tile(plan, &local, &own_axes, tile);
    if let [rows @ .., vector] = &inside[..] {
        plan.vectorize(&root, vector);
        if !plan.is_expensive(&root) {
            rows.iter().for_each(|r| plan.unroll(&root, r));
        }
    }
    if let Some(weights) = constant {
        plan.step(Step::Pack { tensor: weights, reader: local.clone() });
    }
    plan.mark(&local);
    plan.mark(&root);
    window::schedule_inside(plan, &chain.window, &root, &block, rows);
    if plan.iterations(&local) >= PARALLEL_FROM {
        plan.parallel(&root, &block);
    }
}
