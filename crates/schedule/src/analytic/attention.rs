//! Attention: a block of queries at a time, whose scores never leave the core.
//!
//! ```text
//! parallel head {
//!   keys transposed, values side by side
//!   for block of queries {
//!     scores of the block, in register tiles; rows of exponentials and their sums; weighted sums, in register tiles } }
//! ```
//!
//! With too few heads for the threads the blocks are shared among them as well, and keys and values are laid out before.

use super::contraction::{self, Tile};
use super::elementwise::{self, PARALLEL_FROM};
use super::plan::{Kind, Plan};
use super::rows::vectorize_row;

/// Rows whose largest element is looked for together, so that the latencies of combining lanes hide behind each other.
const ROWS_TOGETHER: i64 = 4;

/// The stages of an attention by their part in it.
pub(super) struct Chain {
    /// The product of queries and keys.
    scores: String,
    /// Scores as the softmax reads them; the product itself when nothing is done to it.
    scaled: String,
    max: String,
    exp: String,
    sum: String,
    /// What is computed from the sums alone.
    inverse: Option<String>,
    /// The product of weights and values.
    weighted: String,
    /// What finishes it.
    root: String,
}

/// The stages, when the DAG is an attention: a product, a softmax of its rows, and a product with the result; and when it
/// has loops to compute them in.
pub(super) fn find(plan: &Plan) -> Option<Chain> {
    let contraction = |stage: &String| plan.kind(stage) == Kind::Contraction;
    let reduces = |stage: &String| plan.compute(stage).reduction.is_some();
    plan.schedule.stage_names().into_iter().filter(contraction).find_map(|weighted| {
        let exp = plan.producers(&weighted).into_iter().find(|p| plan.is_expensive(p) && !reduces(p))?;
        let max = plan.producers(&exp).into_iter().find(|p| reduces(p) && !contraction(p))?;
        let [scaled] = plan.producers(&max).try_into().ok()?;
        let scores = match contraction(&scaled) {
            true => scaled.clone(),
            false => plan.producers(&scaled).into_iter().find(contraction)?,
        };
        let sum = plan.readers(&exp).into_iter().find(|r| *r != weighted && reduces(r))?;
        let root = plan.epilogue(&weighted)?;
        let [reader] = plan.readers(&sum).try_into().ok()?;
        let inverse = (reader != root).then_some(reader);
        let own = scores == scaled || plan.epilogue(&scores).as_ref() == Some(&scaled);
        let chain = Chain { scores, scaled, max, exp, sum, inverse, weighted, root };
        (own && !sizes(plan, &chain).is_empty()).then_some(chain)
    })
}

/// What a schedule of an attention leaves open.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sizes {
    /// Queries whose scores are computed together.
    block: i64,
    /// The register tile of the scores.
    scores: Tile,
    /// The register tile of the weighted sums.
    weighted: Tile,
}

/// The axes of the result by their part in it.
struct Shape {
    row: (String, i64),
    column: (String, i64),
    batches: Vec<String>,
    heads: i64,
    keys: i64,
    depth: i64,
}

impl Shape {
    fn of(plan: &Plan, chain: &Chain) -> Option<Shape> {
        let mut axes = plan.axes(&chain.root);
        let column = axes.pop()?;
        let streamed = contraction::streamed_operand(plan, &chain.weighted);
        let row = axes.remove((0..axes.len()).rev().find(|at| !streamed.axes.contains(at))?);
        let product = |axes: &[(String, i64)]| axes.iter().map(|(_, extent)| *extent).product::<i64>();
        let heads = product(&axes);
        let (keys, depth) =
            (product(&plan.reduce_axes(&chain.weighted)), product(&plan.reduce_axes(&chain.scores)));
        let batches = axes.into_iter().map(|(name, _)| name).collect();
        Some(Shape { row, column, batches, heads, keys, depth })
    }
}

/// The default sizes, and others worth measuring behind them.
pub(super) fn sizes(plan: &Plan, chain: &Chain) -> Vec<Sizes> {
    let shape = Shape::of(plan, chain).zip(plan.axes(&chain.scores).len().checked_sub(2));
    let Some((shape, local)) = shape else { return Vec::new() };
    let lanes = plan.lanes(&chain.weighted);
    let (rows, width) = (shape.row.1, shape.column.1);
    let side_by_side = contraction::rows_side_by_side(plan, &chain.scores, local);
    let best = contraction::best_tile(plan, (1, rows, width), lanes, shape.keys, i64::MAX);
    let block = block_of(plan, &shape, best.row);
    let extents = (1, block.min(rows), shape.keys);
    let best_scores = contraction::best_tile(plan, extents, lanes, shape.depth, side_by_side);
    let best_scores = dividing(best_scores, block.min(rows));
    let tiles = |best: Tile, columns: i64, most_rows: i64| -> Vec<Tile> {
        let most = (columns + lanes - 1) / lanes;
        let of = |vectors: i64| {
            let most = (plan.machine.registers - 1 - vectors) / vectors;
            Tile { upper: 1, row: most.min(rows).min(most_rows).max(1), vectors }
        };
        std::iter::once(best).chain((1..=most.min(4)).map(of).filter(|t| *t != best)).collect()
    };
    let mut out = Vec::new();
    for weighted in tiles(best, width, i64::MAX) {
        for scores in tiles(best_scores, shape.keys, side_by_side) {
            for times in [1, 2, 4] {
                let block = (block * times).min(rows + weighted.row - 1) / weighted.row * weighted.row;
                let found = Sizes { block: block.max(weighted.row), scores, weighted };
                // Without a loop around the stages there is nowhere to compute them.
                let has_loop = !shape.batches.is_empty() || found.block < rows;
                if has_loop && !out.contains(&found) {
                    out.push(found);
                }
            }
        }
    }
    out
}

/// A tile of nearly as many rows that fills a block without a tail, when there is one.
fn dividing(tile: Tile, block: i64) -> Tile {
    let fewest = (tile.row * 3 / 4).max(1);
    let row = (fewest..=tile.row).rev().find(|row| block % row == 0);
    Tile { row: row.unwrap_or(tile.row), ..tile }
}

/// Schedules all stages.
pub(super) fn schedule(plan: &mut Plan, chain: &Chain, sizes: Sizes) {
    let Chain { weighted, root, .. } = chain;
    let Some(shape) = Shape::of(plan, chain) else { return };
    let Shape { row: (row_name, rows), column: (column, width), batches, heads, .. } = &shape;
    let (rows, width, heads) = (*rows, *width, *heads);
    let lanes = plan.lanes(weighted);
    let (block, tile) = (sizes.block, sizes.weighted);
    let by_head = heads >= 4 * plan.machine.cores || heads % plan.machine.cores == 0;

    // The loops of the weighted sums: heads, blocks of queries, panels, tiles.
    let blocked = block < rows && block > tile.row;
    let factors = if blocked { vec![block / tile.row, tile.row] } else { vec![tile.row] };
    let mut parts = plan.split(root, row_name, rows, &factors);
    let Some(row_tile) = parts.pop() else { return };
    let outside = (block < rows && !parts.is_empty()).then(|| parts.remove(0));
    let mut columns = plan.split(root, column, width, &[tile.vectors * lanes]);
    let Some(vector) = columns.pop() else { return };
    let mut order: Vec<String> = batches.iter().chain(&outside).cloned().collect();
    order.extend(columns.iter().chain(&parts).cloned());
    order.extend([row_tile.clone(), vector.clone()]);
    plan.reorder(root, &order);
    let together: Vec<String> = match by_head {
        true => batches.clone(),
        false => batches.iter().chain(&outside).cloned().collect(),
    };
    let shared = plan.fuse(root, &together);
    let Some(at) = outside.filter(|_| by_head).or(shared.clone()) else { return };
    let innermost = parts.last().or(columns.last()).unwrap_or(&at).clone();
    let own_axes = plan.axes(weighted);
    plan.compute_at(weighted, root, &innermost);
    contraction::plan_tile(plan, weighted, &own_axes, tile);
    plan.vectorize(root, &vector);
    plan.unroll(root, &row_tile);
    plan.mark(weighted);
    plan.mark(root);

    softmax(plan, chain, &at);
    scores(plan, chain, &at, sizes.scores);
    let head = shared.as_deref().filter(|_| by_head);
    for product in [weighted, &chain.scores] {
        for operand in plan.producers(product) {
            lay_out(plan, root, &operand, product, head, &at);
        }
    }
    if let Some(shared) = shared
        && plan.iterations(weighted) >= PARALLEL_FROM
    {
        plan.parallel(root, &shared);
    }
}

/// Queries whose scores stay in the first cache level, in whole tiles and blocks of about the same size.
fn block_of(plan: &Plan, shape: &Shape, tile: i64) -> i64 {
    let most = (plan.machine.l1 / 2 / (4 * shape.keys)).max(tile);
    let for_threads = if shape.heads == 1 { 2 * plan.machine.cores } else { 1 };
    let blocks = ((shape.row.1 + most - 1) / most).max(for_threads);
    let even = (shape.row.1 + blocks - 1) / blocks;
    (even + tile - 1) / tile * tile
}

/// Exponentials and their sums, a row after the other.
fn softmax(plan: &mut Plan, chain: &Chain, at: &str) {
    for stage in chain.inverse.iter().chain([&chain.sum]) {
        plan.compute_at(stage, &chain.root, at);
        vectorize_row(plan, stage);
        plan.mark(stage);
    }
    plan.compute_at(&chain.exp, &chain.root, at);
    if let [.., (row, extent), _] = plan.axes(&chain.exp).as_slice() {
        let rows = plan.split(&chain.exp, row, *extent, &[ROWS_TOGETHER]);
        if let Some(outer) = rows.first() {
            plan.compute_at(&chain.max, &chain.exp, outer);
            vectorize_row(plan, &chain.max);
            plan.mark(&chain.max);
        }
    }
    vectorize_row(plan, &chain.exp);
    plan.mark(&chain.exp);
}

/// The scores of a block, in register tiles.
fn scores(plan: &mut Plan, chain: &Chain, at: &str, tile: Tile) {
    let (local, outer) = match chain.scores == chain.scaled {
        true => contraction::tile_root(plan, &chain.scores),
        false => (chain.scores.clone(), chain.scaled.clone()),
    };
    let lanes = plan.lanes(&local);
    let own_axes = plan.axes(&local);
    let axes = plan.axes(&outer);
    let [batches @ .., (row, all_rows), (column, columns)] = axes.as_slice() else { return };
    let row_parts = plan.split(&outer, row, *all_rows, &[tile.row]);
    let column_parts = plan.split(&outer, column, *columns, &[tile.vectors * lanes]);
    let (Some(row_tile), Some(vector)) = (row_parts.last(), column_parts.last()) else { return };
    let mut order: Vec<String> = batches.iter().map(|(name, _)| name.clone()).collect();
    order.extend(column_parts[..column_parts.len() - 1].iter().cloned());
    order.extend(row_parts[..row_parts.len() - 1].iter().cloned());
    let inner = order.last().cloned();
    order.extend([row_tile.clone(), vector.clone()]);
    plan.reorder(&outer, &order);
    plan.compute_at(&outer, &chain.root, at);
    if let Some(inner) = inner {
        plan.compute_at(&local, &outer, &inner);
    }
    contraction::plan_tile(plan, &local, &own_axes, tile);
    plan.vectorize(&outer, vector);
    if !plan.is_expensive(&outer) {
        plan.unroll(&outer, row_tile);
    }
    plan.mark(&local);
    plan.mark(&outer);
}

/// Stores an operand of a product in the order the product reads it in: once for each head where the head is one
/// thread's, what belongs to a block of queries once for each block, before everything otherwise.
fn lay_out(plan: &mut Plan, root: &str, stage: &str, product: &str, head: Option<&str>, block: &str) {
    if plan.is_scheduled(stage) || plan.compute(stage).reduction.is_some() {
        return;
    }
    let vector_of = |plan: &Plan| plan.compute(product).axes.last().map(|a| a.symbol.clone());
    let streamed = {
        let id = plan.id(stage);
        let vector = vector_of(plan);
        let reads = plan.compute(product).body.reads();
        let along = |index: &[talweg_expr::Expr]| {
            vector.as_ref().is_some_and(|v| index.iter().any(|e| e.mentions(v)))
        };
        reads.iter().any(|(t, index)| *t == id && along(index))
    };
    let at = if streamed { head } else { Some(block) };
    match at {
        Some(at) if plan.compute_at(stage, root, at) => {
            copy(plan, stage);
            for source in plan.producers(stage) {
                if !plan.is_scheduled(&source) && plan.compute_at(&source, root, at) {
                    copy(plan, &source);
                }
            }
        }
        _ => elementwise::schedule(plan, stage),
    }
}

/// The loops of a stage that only lays something out.
fn copy(plan: &mut Plan, stage: &str) {
    plan.mark(stage);
    let axes = plan.axes(stage);
    let lanes = plan.lanes(stage);
    let [batches @ .., (outer, _), (last, extent)] = axes.as_slice() else { return };
    let symbol = plan.compute(stage).axes.last().map(|a| a.symbol.clone());
    let along = |index: &[talweg_expr::Expr]| {
        symbol.as_ref().is_some_and(|s| index.last().is_some_and(|e| e.mentions(s)))
    };
    let transposes = !plan.compute(stage).body.reads().iter().any(|(_, index)| along(index));
    let parts = plan.split(stage, last, *extent, &[lanes]);
    if let ([blocks, vector], true) = (parts.as_slice(), transposes) {
        // Neighbours along the other axis lie in the same cache lines.
        let mut order: Vec<String> = batches.iter().map(|(name, _)| name.clone()).collect();
        order.extend([blocks.clone(), outer.clone(), vector.clone()]);
        plan.reorder(stage, &order);
    }
    if let Some(vector) = parts.last() {
        plan.vectorize(stage, vector);
    }
}
