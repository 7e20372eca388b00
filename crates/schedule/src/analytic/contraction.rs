//! Contractions (matmul, convolutions): a register tile of rows by vectors accumulates over the whole reduction; one
//! operand is streamed by vectors from packed memory, the other broadcast; blocks of rows stay in the second cache
//! level while the streamed operand's panels pass by.

use talweg_expr::{Expr, Symbol};
use talweg_ir::{Source, TensorId};

use super::elementwise::{self, PARALLEL_FROM};
use super::plan::Plan;
use super::streaming;
use super::tile::best_tile_in_blocks;
pub(super) use super::tile::{Tile, best_tile};
use crate::step::Step;

/// Multiply-adds per basic block up to which the reduction is unrolled.
pub(super) const MAX_BODY: i64 = 56;

/// Panels that share well among the threads of one machine.
const ENOUGH_PANELS: i64 = 8;

/// Rows are shared among threads unless one has more than so many percent of the average.
const UNEVEN: i64 = 105;

/// Schedules a contraction, its epilogue and its prologue.
pub(super) fn schedule(plan: &mut Plan, stage: &str) {
    let streamed = streamed_operand(plan, stage);
    let streaming = streaming::applies(plan, stage, &streamed);
    let (local, outer) = tile_root(plan, stage);
    if let Some(shape) = streaming {
        return streaming::schedule(plan, &local, &outer, &shape);
    }
    let lanes = plan.lanes(&local);
    let axes = plan.axes(&outer);
    let local_axes = plan.axes(&local);
    let depth: i64 = plan.reduce_axes(&local).iter().map(|(_, e)| *e).product();
    let Some(((vec_name, vec_extent), others)) = axes.split_last() else { return };

    // Rows are the axes the streamed operand does not depend on; the others are batches, unless they count its columns.
    let is_row: Vec<bool> = others.iter().enumerate().map(|(at, _)| !streamed.axes.contains(&at)).collect();
    let mut rows: Vec<usize> = (0..others.len()).filter(|a| is_row[*a] && others[*a].1 > 1).collect();
    let row = rows.pop();
    let upper = rows.pop();
    let extent_of = |a: Option<usize>| a.map_or(1, |a| others[a].1);
    let strides = broadcast_strides(plan, &local, &[upper, row]);
    let side_by_side =
        |u: i64, r: i64| strides.iter().all(|of| plan.machine.tile_side_by_side((u, r), (of[0], of[1])));
    let columns = vec_extent * extent_of(streamed.panel);
    let shape = (extent_of(upper), extent_of(row), columns);
    let block = streamed.panel.map(|_| *vec_extent);
    let tile = best_tile_in_blocks(plan, shape, block, lanes, depth, &side_by_side);
    let width = tile.vectors * lanes;

    // Panels of the streamed operand are outermost and pass over all rows, so that each is fetched into the second
    // cache level once; rows are split into blocks when they would not stay in the last level meanwhile, when there
    // are too few panels to share among threads, or when rows are what is worth keeping in a thread's caches.
    let whole = extent_of(upper.or(row));
    let row_bytes = broadcast_bytes(plan, &local) / whole.max(1);
    let step = if upper.is_some() { tile.upper } else { tile.row };
    let batches: i64 = others
        .iter()
        .enumerate()
        .filter(|(at, _)| ![row, upper, streamed.panel].contains(&Some(*at)))
        .map(|(_, (_, e))| e)
        .product();
    let panels = batches * ((columns + width - 1) / width);
    let enough = (ENOUGH_PANELS + panels - 1) / panels;
    let for_cache = whole * row_bytes / plan.machine.rows_fit() + 1;
    // Threads that have rows of their own find them in their caches, but all fetch the whole streamed operand. Batches
    // are outside of rows, and as good.
    let (cores, steps) = (plan.machine.cores.max(1), (whole + step - 1) / step);
    let moved = broadcast_bytes(plan, &local) + stage_bytes(plan, &outer);
    let is_even = (steps + cores - 1) / cores * step * cores * 100 <= whole * UNEVEN;
    let is_shared = batches % cores != 0 && is_even && streamed_bytes(plan, &local) <= moved;
    let wanted = enough.max(for_cache).max(if is_shared { cores } else { 1 });
    // All threads have equally many blocks.
    let even = if is_shared { (wanted + cores - 1) / cores * cores } else { wanted };
    let blocks = even.min(steps);
    let block = ((whole + blocks - 1) / blocks + step - 1) / step * step;

    let (mut batch, mut panel, mut columns_inside) = (Vec::new(), Vec::new(), Vec::new());
    let (mut outside, mut middle, mut inside) = (Vec::new(), Vec::new(), Vec::new());
    for (at, (name, extent)) in others.iter().enumerate() {
        let (first, size) = match at {
            a if Some(a) == row => (upper.is_none(), tile.row),
            a if Some(a) == upper => (true, tile.upper),
            a if Some(a) == streamed.panel => {
                let mut parts = plan.split(&outer, name, *extent, &[(width / vec_extent).max(1)]);
                columns_inside.extend(parts.pop());
                panel.extend(parts);
                continue;
            }
            _ => {
                batch.push(name.clone());
                continue;
            }
        };
        let blocked = first && block < *extent && block > size;
        let factors = if blocked { vec![block / size, size] } else { vec![size] };
        let parts = plan.split(&outer, name, *extent, &factors);
        match parts.as_slice() {
            [one] => inside.push(one.clone()),
            [o, i] => {
                if first && block <= size {
                    outside.push(o.clone())
                } else {
                    middle.push(o.clone())
                }
                inside.push(i.clone());
            }
            [b, o, i] => {
                outside.push(b.clone());
                middle.push(o.clone());
                inside.push(i.clone());
            }
            _ => {}
        }
    }
    let mut vec_parts = plan.split(&outer, vec_name, *vec_extent, &[width]);
    columns_inside.extend(vec_parts.pop());
    panel.extend(vec_parts);
    inside.extend(columns_inside);
    let blocks_outside: Vec<String> = batch.iter().chain(&outside).cloned().collect();
    let order: Vec<String> =
        blocks_outside.iter().chain(&panel).chain(&middle).chain(&inside).cloned().collect();
    plan.reorder(&outer, &order);

    // A prologue (padding) that does not fit the cache is computed block by block; then panels stay inside the
    // parallel loop, otherwise they share it.
    let by_block = !blocks_outside.is_empty()
        && plan.producers(&local).iter().any(|p| stage_bytes(plan, p) > plan.machine.l2 / 2);
    let mut together = blocks_outside.clone();
    if !by_block {
        together.extend(panel.iter().cloned());
    }
    if together.is_empty() {
        together.extend(middle.first().cloned());
    }
    let parallel = plan.fuse(&outer, &together);
    let innermost = middle.last().or(panel.last()).or(blocks_outside.last());
    if let Some(at) = innermost {
        let at = match &parallel {
            Some(p) if together.contains(at) => p.clone(),
            _ => at.clone(),
        };
        plan.compute_at(&local, &outer, &at);
    }
    // Vectors of neighbouring blocks of columns share the rows' broadcast values, so they are innermost.
    let mut tile_axes = local_axes;
    if let Some(at) = streamed.panel {
        let last = tile_axes.len() - 1;
        tile_axes[at..last].rotate_left(1);
    }
    plan_tile(plan, &local, &tile_axes, tile);
    if let Some((v, rows)) = inside.split_last() {
        plan.vectorize(&outer, v);
        if !plan.is_expensive(&outer) {
            rows.iter().for_each(|r| plan.unroll(&outer, r));
        }
    }
    if let Some(w) = streamed.constant {
        plan.step(Step::Pack { tensor: w, reader: local.clone() });
    }
    plan.mark(&local);
    plan.mark(&outer);
    place_prologue(plan, &local, &outer, parallel.as_deref().filter(|_| by_block));
    if let Some(p) = parallel
        && plan.iterations(&local) >= PARALLEL_FROM
    {
        plan.parallel(&outer, &p);
    }
}

/// The stage that accumulates and the stage whose loops it is tiled in: the reduction and its epilogue, or a new local
/// stage and the reduction.
pub(super) fn tile_root(plan: &mut Plan, stage: &str) -> (String, String) {
    match plan.epilogue(stage) {
        Some(reader) if !plan.is_scheduled(&reader) => (stage.to_string(), reader),
        _ => {
            plan.step(Step::CacheWrite { stage: stage.to_string() });
            (format!("{stage}.local"), stage.to_string())
        }
    }
}

/// The operand read by vectors.
pub(super) struct Streamed {
    /// Positions of the result's axes it depends on, the last one aside.
    pub axes: Vec<usize>,
    /// The one among them that counts its columns together with the last axis, and nothing else: blocks of channels.
    pub panel: Option<usize>,
    /// Its name, when it is a constant that can be packed.
    pub constant: Option<String>,
}

pub(super) fn streamed_operand(plan: &Plan, stage: &str) -> Streamed {
    let compute = plan.compute(stage);
    let vector = &compute.axes.last().expect("contractions have a last axis").symbol;
    let mut out = Streamed { axes: Vec::new(), panel: None, constant: None };
    let reads = compute.body.reads();
    let is_broadcast = |symbol: &Symbol| {
        let mut others = reads.iter().filter(|(_, indices)| !indices.iter().any(|e| e.mentions(vector)));
        others.any(|(_, indices)| indices.iter().any(|e| e.mentions(symbol)))
    };
    for (t, indices) in &reads {
        if !indices.iter().any(|e| e.mentions(vector)) {
            continue;
        }
        for (at, a) in compute.axes[..compute.axes.len() - 1].iter().enumerate() {
            if indices.iter().any(|e| e.mentions(&a.symbol)) && !out.axes.contains(&at) {
                out.axes.push(at);
            }
            let along_both = |e: &Expr| e.mentions(&a.symbol) && e.mentions(vector);
            if indices.iter().any(along_both) && !is_broadcast(&a.symbol) {
                out.panel = Some(at);
            }
        }
        let tensor = plan.schedule.dag.tensor(*t);
        if tensor.source == Source::Const {
            out.constant = Some(tensor.name.clone());
        }
    }
    out
}

/// Bytes of the operands that are broadcast.
fn broadcast_bytes(plan: &Plan, stage: &str) -> i64 {
    operand_bytes(plan, stage, false)
}

/// Bytes of the operands that are read by vectors.
fn streamed_bytes(plan: &Plan, stage: &str) -> i64 {
    operand_bytes(plan, stage, true)
}

fn operand_bytes(plan: &Plan, stage: &str, is_streamed: bool) -> i64 {
    let compute = plan.compute(stage);
    let vector = &compute.axes.last().expect("contractions have a last axis").symbol;
    let reads = compute.body.reads();
    let wanted = reads.iter().filter(|(_, idx)| idx.iter().any(|e| e.mentions(vector)) == is_streamed);
    wanted.map(|(t, _)| tensor_bytes(plan, *t)).sum()
}

fn tensor_bytes(plan: &Plan, id: TensorId) -> i64 {
    let t = plan.schedule.dag.tensor(id);
    t.shape.iter().map(|e| e.as_int().unwrap_or(1)).product::<i64>() * t.dtype.bytes() as i64
}

fn stage_bytes(plan: &Plan, stage: &str) -> i64 {
    tensor_bytes(plan, plan.id(stage))
}

/// How many rows along an axis may be broadcast side by side, by the distance between them in memory.
pub(super) fn rows_side_by_side(plan: &Plan, stage: &str, axis: usize) -> i64 {
    let strides = broadcast_strides(plan, stage, &[Some(axis)]).into_iter().map(|of| of[0]);
    strides.filter(|s| *s > 0).map(|s| plan.machine.rows_side_by_side(s)).min().unwrap_or(i64::MAX)
}

/// For every operand that is broadcast, the bytes between neighbours along these axes of a stage; zero where there is no
/// such axis. Operands whose places are not affine are left out.
fn broadcast_strides(plan: &Plan, stage: &str, axes: &[Option<usize>]) -> Vec<Vec<i64>> {
    let compute = plan.compute(stage);
    let Some(last) = compute.axes.last() else { return Vec::new() };
    let reads = compute.body.reads();
    let broadcast = reads.iter().filter(|(_, idx)| !idx.iter().any(|e| e.mentions(&last.symbol)));
    let stride = |(tensor, indices): &(TensorId, Vec<Expr>), axis: Option<usize>| -> Option<i64> {
        let Some(axis) = axis.and_then(|at| compute.axes.get(at)) else { return Some(0) };
        let tensor = plan.schedule.dag.tensor(*tensor);
        let mut bytes = tensor.dtype.bytes() as i64;
        let mut stride = 0;
        for (index, extent) in indices.iter().zip(&tensor.shape).rev() {
            let affine = index.affine(std::slice::from_ref(&axis.symbol))?;
            stride += affine.coefficients.first()?.as_int()? * bytes;
            bytes *= extent.as_int()?;
        }
        Some(stride)
    };
    broadcast.filter_map(|read| axes.iter().map(|axis| stride(read, *axis)).collect()).collect()
}

/// Loop order and annotations of the accumulating stage: reduction outside, rows unrolled, vectors inside.
pub(super) fn plan_tile(plan: &mut Plan, local: &str, axes: &[(String, i64)], tile: Tile) {
    let reduce = plan.reduce_axes(local);
    let space: Vec<String> = axes.iter().map(|(n, _)| n.clone()).collect();
    let body = tile.upper * tile.row * tile.vectors;
    let mut over: Vec<String> = reduce.iter().map(|(n, _)| n.clone()).collect();
    let mut unrolled = None;
    if let Some((last, extent)) = reduce.last() {
        let fits = |f: &i64| body * f <= MAX_BODY && extent % f == 0 && *extent > *f;
        let factor = [4, 2].into_iter().find(fits);
        if let Some(f) = factor {
            let parts = plan.split(local, last, *extent, &[f]);
            over.pop();
            over.extend(parts.iter().cloned());
            unrolled = parts.last().cloned();
        }
    }
    let order: Vec<String> = over.iter().chain(&space).cloned().collect();
    plan.reorder(local, &order);
    if let Some(u) = unrolled {
        plan.unroll(local, &u);
    }
    if let Some((v, rows)) = space.split_last() {
        rows.iter().for_each(|r| plan.unroll(local, r));
        plan.vectorize(local, v);
    }
}

/// Schedules what the accumulating stage reads and was not inlined: inside the block loop, or on its own.
pub(super) fn place_prologue(plan: &mut Plan, local: &str, outer: &str, block: Option<&str>) {
    place_prologue_in(plan, local, outer, block, 4 * plan.lanes(local));
}

/// The same with vectors of so many lanes.
pub(super) fn place_prologue_in(plan: &mut Plan, local: &str, outer: &str, block: Option<&str>, width: i64) {
    for producer in plan.producers(local) {
        if plan.is_scheduled(&producer) || plan.compute(&producer).reduction.is_some() {
            continue;
        }
        match block {
            Some(at) if plan.compute_at(&producer, outer, at) => {
                plan.mark(&producer);
                let axes = plan.axes(&producer);
                if let Some((last, extent)) = axes.last() {
                    let parts = plan.split(&producer, last, *extent, &[width]);
                    if let Some(v) = parts.last() {
                        plan.vectorize(&producer, v);
                    }
                }
            }
            _ => elementwise::schedule(plan, &producer),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::analytic::streaming::tests::default_with;

    /// The default's text for a machine with a mebibyte of second-level cache.
    fn default_of(spec: &str) -> String {
        default_with(spec, 48 << 10, 1 << 20)
    }

    #[test]
    fn blocks_of_channels_are_panels_of_the_same_register_tile() {
        let conv = "conv2d:h=14,w=14,c=256,f=256,k=3,p=1,epilogue=bias+relu";
        let narrow = default_of(&format!("{conv},block=16"));
        assert!(narrow.contains("split Y fo [2]"), "{narrow}");
        assert!(narrow.contains("n oh ow fo fi\n"), "columns are innermost: {narrow}");
        assert!(narrow.contains("pack W conv"), "{narrow}");
        let wide = default_of(&format!("{conv},block=64"));
        assert!(wide.contains("split Y fi [32]"), "{wide}");
        let changed = default_of(&format!("{conv},block=16,fblock=0"));
        assert!(changed.contains("split Y f [32]"), "{changed}");
    }

    #[test]
    fn rows_that_share_a_set_are_few_along_both_axes() {
        // Pixels lie 4 KiB apart, rows of pixels 56: all fall into one set of eight lines, of which six are for them.
        let spec = "conv2d:h=14,w=14,c=1024,f=256,k=1";
        let small = default_with(spec, 32 << 10, 1 << 20);
        assert!(small.contains("split conv oh [") && !small.contains("split conv ow [1]"), "{small}");
        let factor = |text: &str, axis: &str| -> i64 {
            let line =
                text.lines().find(|l| l.starts_with(&format!("split conv {axis} ["))).unwrap_or_default();
            let inner = line.trim_end_matches(']').rsplit([',', '[']).next().unwrap_or_default();
            inner.trim().parse().unwrap_or(1)
        };
        let rows = factor(&small, "oh") * factor(&small, "ow");
        assert!((2..=6).contains(&rows), "{rows} rows: {small}");
        // Pixels of 1000 channels are spread over the sets.
        let spread = default_with("conv2d:h=14,w=14,c=1000,f=256,k=1", 32 << 10, 1 << 20);
        assert_ne!(spread, small);
    }

    #[test]
    fn groups_and_phases_are_no_panels() {
        let grouped = default_of("conv2d:h=14,w=14,c=64,f=64,k=3,p=1,g=2");
        assert!(grouped.contains("reorder conv n g ") || grouped.contains("fuse conv n g"), "{grouped}");
        default_of("conv2d_transpose:h=4,w=4,c=64,f=64,k=4,s=2,p=1");
    }
}
