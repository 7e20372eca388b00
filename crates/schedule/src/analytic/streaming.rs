//! Products with a large constant (layers of transformers): the constant is read once, in order, and the rows stay in
//! the second cache level meanwhile.
//!
//! Without blocks of the reduction every panel passes over all rows at full depth. When these do not fit the second
//! level beside two panels, the one in use and the one being fetched, they come from the third level again for every
//! panel. So the reduction is cut into blocks, and a block of the rows stays while the panels of a chunk of columns pass:
//!
//! ```text
//! parallel chunk { for k.0 { for panel { for row tile { for k.1 { tile } } } } epilogue of the chunk }
//! ```
//!
//! Sums rest in memory between blocks; the epilogue reads them when the chunk is complete.

use super::contraction::{MAX_BODY, Streamed, Tile, best_tile, rows_side_by_side};
use super::plan::Plan;
use crate::step::Step;

/// Blocks of the reduction are at most this deep.
const DEEPEST: i64 = 1024;
/// Where blocks that fit are less deep than this, loading and storing the sums costs more than they gain, and fetching the
/// rows again for every panel is cheaper.
const SHALLOWEST: i64 = 384;
/// How many times as wide as high a result must be: in others a panel passes over so many rows that it is cheap to fetch,
/// and the sums are too many to be loaded and stored again and again.
const WIDER: i64 = 2;

/// The sizes of a product that is scheduled this way.
pub(super) struct Shape {
    rows: (String, i64),
    columns: (String, i64),
    depth: (String, i64),
    constant: String,
    tile: Tile,
    block: i64,
}

/// The sizes, when a contraction is a product with a constant whose rows are better kept block by block.
pub(super) fn applies(plan: &Plan, stage: &str, streamed: &Streamed) -> Option<Shape> {
    let constant = streamed.constant.clone()?;
    let [rows, columns] = plan.axes(stage).try_into().ok()?;
    let [depth] = plan.reduce_axes(stage).try_into().ok()?;
    if !streamed.axes.is_empty() || !plan.producers(stage).is_empty() || columns.1 < WIDER * rows.1 {
        return None;
    }
    let lanes = plan.lanes(stage);
    let bytes = plan.machine.vector_bytes / lanes;
    let side_by_side = rows_side_by_side(plan, stage, 0);
    let tile = best_tile(plan, (1, rows.1, columns.1), lanes, depth.1, side_by_side);
    let panel = depth.1 * tile.vectors * plan.machine.vector_bytes;
    let whole = rows.1 * depth.1 * bytes + 2 * panel;
    if rows.1 <= tile.row || whole <= plan.machine.l2 / 2 {
        return None;
    }
    let fits = (plan.machine.l2 / 8 / (rows.1 * bytes)).min(DEEPEST);
    if fits < SHALLOWEST {
        return None;
    }
    let block = block_depth(depth.1, fits);
    (block < depth.1).then_some(Shape { rows, columns, depth, constant, tile, block })
}

/// The deepest block that fits and divides the depth, unless all of those are less than half as deep.
fn block_depth(depth: i64, fits: i64) -> i64 {
    let divides = |b: &i64| depth % b == 0;
    (fits.min(depth) / 2..=fits.min(depth)).rev().find(divides).unwrap_or(fits.min(depth) / 16 * 16)
}

/// Schedules the product and its epilogue.
pub(super) fn schedule(plan: &mut Plan, local: &str, outer: &str, shape: &Shape) {
    let Shape { rows, columns, depth, constant, tile, block } = shape;
    let width = tile.vectors * plan.lanes(local);
    let panels = (columns.1 + width - 1) / width;
    // A chunk's sums stay in the second level as well, and all threads have equally many chunks.
    let sums = rows.1 * panels * tile.vectors * plan.machine.vector_bytes;
    let each = plan.machine.cores;
    let chunks = each * ((sums + each * plan.machine.l2 / 8 - 1) / (each * plan.machine.l2 / 8)).max(1);
    let chunk = ((panels + chunks - 1) / chunks).max(1);
    let Ok([(outer_rows, _), (outer_columns, _)]) = <[_; 2]>::try_from(plan.axes(outer)) else { return };
    let parts = plan.split(outer, &outer_columns, columns.1, &[chunk, width]);
    let [chunk, panel, vector] = parts.as_slice() else { return };
    plan.reorder(outer, &[chunk.clone(), outer_rows, panel.clone(), vector.clone()]);
    plan.compute_at(local, outer, chunk);

    let repeat = if tile.row * tile.vectors * 2 <= MAX_BODY && block % 2 == 0 { 2 } else { 1 };
    let factors = if repeat > 1 { vec![block / repeat, repeat] } else { vec![*block] };
    let over = plan.split(local, &depth.0, depth.1, &factors);
    let row = plan.split(local, &rows.0, rows.1, &[tile.row]);
    let column = plan.split(local, &columns.0, columns.1, &[width]);
    if let ([blocks, inner @ ..], [row_tiles, row], [panels, lanes]) =
        (over.as_slice(), row.as_slice(), column.as_slice())
    {
        let mut order = vec![blocks.clone(), panels.clone(), row_tiles.clone()];
        order.extend(inner.iter().cloned());
        order.extend([row.clone(), lanes.clone()]);
        plan.reorder(local, &order);
        if let [_, repeated] = inner {
            plan.unroll(local, repeated);
        }
        plan.unroll(local, row);
        plan.vectorize(local, lanes);
    }
    plan.vectorize(outer, vector);
    plan.step(Step::Pack { tensor: constant.clone(), reader: local.to_string() });
    plan.mark(local);
    plan.mark(outer);
    plan.parallel(outer, chunk);
}

#[cfg(test)]
pub(super) mod tests {
    use talweg_ir::verify_nest;
    use talweg_ops::Spec;
    use talweg_target::Target;

    use super::block_depth;
    use crate::Schedule;
    use crate::analytic::default_trace;
    use crate::concrete::concretize;

    fn default_of(spec: &str) -> String {
        default_with(spec, 48 << 10, 2 << 20)
    }

    /// The default's text for sizes of the first two cache levels, after it was seen to lower to a legal nest.
    pub fn default_with(spec: &str, l1d: u64, l2: u64) -> String {
        let dag = Spec::parse(spec).expect("a spec").build().expect("legal");
        let mut target = Target::named("avx512").expect("known");
        (target.l1d, target.l2, target.cores) = (l1d, l2, 2);
        let trace = default_trace(&dag, &target);
        let lowered = Schedule::replay(dag, &trace).expect("legal").lower().expect("lowers");
        let nest = concretize(&lowered, &|_| None).expect("no knobs");
        verify_nest(&nest).unwrap_or_else(|e| panic!("{spec}: {e:?}\n{trace}"));
        trace.to_string()
    }

    #[test]
    fn large_constants_are_read_in_blocks_of_the_reduction() {
        let blocked = default_of("matmul:m=128,n=768,k=3072,epilogue=bias+gelu");
        assert!(blocked.contains("reorder matmul k.0 j.0 i.0 k.1"), "{blocked}");
        let whole = default_of("matmul:m=128,n=3072,k=768,epilogue=bias+gelu");
        assert!(whole.contains("reorder matmul k.0 k.1 i j"), "{whole}");
    }

    #[test]
    fn a_small_second_level_leaves_the_reduction_whole() {
        let whole = default_with("matmul:m=128,n=768,k=3072,epilogue=bias+gelu", 32 << 10, 512 << 10);
        assert!(whole.contains("reorder matmul k.0 k.1 i j"), "{whole}");
        // Not even one step of so many rows fits.
        let many = default_with("matmul:m=20000,n=40000,k=64", 32 << 10, 512 << 10);
        assert!(!many.contains("reorder matmul.local k.0 j.0"), "{many}");
    }

    #[test]
    fn rows_that_share_a_set_of_the_cache_are_few() {
        let crowded = default_with("matmul:m=100,n=2048,k=2048", 32 << 10, 2 << 20);
        assert!(crowded.contains("split matmul.local i [6]"), "{crowded}");
        let apart = default_with("matmul:m=100,n=2048,k=5504", 32 << 10, 2 << 20);
        assert!(apart.contains("split matmul.local i [9]"), "{apart}");
    }

    #[test]
    fn blocks_divide_the_depth_where_they_can() {
        assert_eq!(block_depth(3072, 512), 512);
        assert_eq!(block_depth(5504, 655), 344);
        assert_eq!(block_depth(2048, 655), 512);
        assert_eq!(block_depth(1009, 500), 496, "a prime has a tail");
        assert_eq!(block_depth(100, 512), 100);
    }
}
