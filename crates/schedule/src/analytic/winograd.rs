//! Convolutions by Winograd's algorithm: the input's tiles are transformed, multiplied position by position, and
//! transformed back. Each of the three is a loop nest of its own; both transforms take a few vectors of channels of one
//! tile at a time, everything about them in registers or the first cache level.

use talweg_ir::TensorId;

use super::contraction;
use super::elementwise::PARALLEL_FROM;
use super::plan::{Kind, Plan};

/// The stages of the algorithm by their part in it.
pub(super) struct Chain {
    /// Transforms tiles of the input along one axis.
    columns: String,
    /// Transforms them along the other; leads with the two axes of positions.
    input: String,
    product: String,
    /// Transforms tiles of the result along one axis.
    rows: String,
    /// Transforms them along the other.
    output: String,
}

/// Fewest reads of a stage that is taken for a transform.
const TRANSFORM_READS: usize = 4;

/// The algorithm's stages, when the DAG is one: a contraction between two pairs of transforms, each of which reads one
/// tensor at several places.
pub(super) fn find(plan: &Plan) -> Option<Chain> {
    let product = plan.schedule.stage_names().into_iter().find(|stage| {
        plan.kind(stage) == Kind::Contraction
            && plan.producers(stage).iter().any(|p| transformed(plan, p).is_some())
    })?;
    let input = plan.producers(&product).into_iter().find(|p| transformed(plan, p).is_some())?;
    let columns = transformed(plan, &input)?;
    transformed(plan, &columns)?;
    let only_reader = |stage: &str| -> Option<String> {
        let [reader] = plan.readers(stage).try_into().ok()?;
        transformed(plan, &reader).filter(|read| read == stage).map(|_| reader)
    };
    let rows = only_reader(&product)?;
    let output = only_reader(&rows)?;
    Some(Chain { columns, input, product, rows, output })
}

/// The tensor a transform reads; `None` when the stage is no transform.
pub(super) fn transformed(plan: &Plan, stage: &str) -> Option<String> {
    let id = plan.schedule.dag.find(stage)?;
    let compute = plan.schedule.dag.tensor(id).compute()?;
    let reads: Vec<TensorId> = compute.body.reads().into_iter().map(|(t, _)| t).collect();
    let first = *reads.first()?;
    let several = reads.len() >= TRANSFORM_READS && reads.iter().all(|t| *t == first);
    (compute.reduction.is_none() && several).then(|| plan.name(first))
}

/// Schedules all stages of the algorithm; what else the DAG holds is left to the others.
pub(super) fn schedule(plan: &mut Plan, chain: &Chain) {
    schedule_transforms(plan, chain);
    contraction::schedule(plan, &chain.product);
}

/// Schedules the transforms, padding and what follows included.
pub(super) fn schedule_transforms(plan: &mut Plan, chain: &Chain) {
    let input = plan.axes(&chain.input);
    let positions = input.first().map_or(4, |(_, extent)| *extent);
    // The products of a transposed convolution lead with two phases, which a tile of the result has all of.
    let phases = if plan.axes(&chain.product).len() > input.len() { 2 } else { 1 };
    output_transform(plan, chain, phases * (positions - 2));
    input_transform(plan, chain);
}

/// The last transform and what follows it: a tile of the result at a time.
fn output_transform(plan: &mut Plan, chain: &Chain, tile: i64) {
    let root = last_reader(plan, &chain.output);
    let axes = plan.axes(&root);
    let [outer @ .., (h, height), (w, width), (f, filters)] = axes.as_slice() else { return };
    let lanes = plan.lanes(&root);
    let mut outside: Vec<(String, i64)> = outer.to_vec();
    let mut inside = Vec::new();
    for (name, extent, size) in [(h, *height, tile), (w, *width, tile), (f, *filters, vectors(tile) * lanes)]
    {
        let mut parts = plan.split(&root, name, extent, &[size]);
        inside.extend(parts.pop());
        outside.extend(parts.into_iter().map(|part| (part, (extent + size - 1) / size)));
    }
    let order: Vec<String> = outside.iter().map(|(n, _)| n).chain(&inside).cloned().collect();
    plan.reorder(&root, &order);
    // The whole of a row of tiles goes to one thread; the tile's own loop stays, as the stages inside need one.
    let innermost = outside.pop();
    let parallel = plan.fuse_for_threads(&root, &outside);
    let at = innermost.map(|(name, _)| name).or(parallel.clone());
    finish(plan, &root, &inside);
    if let Some(at) = at {
        for stage in [&chain.output, &chain.rows].into_iter().filter(|s| **s != root) {
            if plan.compute_at(stage, &root, &at) {
                let own: Vec<String> = plan.axes(stage).into_iter().map(|(name, _)| name).collect();
                finish(plan, stage, &own);
            }
        }
    }
    if let Some(p) = parallel
        && plan.iterations(&root) >= PARALLEL_FROM
    {
        plan.parallel(&root, &p);
    }
}

/// Both transforms of the input: a tile at a time, padding row by row.
fn input_transform(plan: &mut Plan, chain: &Chain) {
    let stage = &chain.input;
    let axes = plan.axes(stage);
    let [(a, _), (b, positions), outer @ .., (c, channels)] = axes.as_slice() else { return };
    let size = vectors(positions - 2) * plan.lanes(stage);
    let mut parts = plan.split(stage, c, *channels, &[size]);
    let vector = parts.pop().unwrap_or_else(|| c.clone());
    let mut outside: Vec<(String, i64)> = outer.to_vec();
    outside.extend(parts.into_iter().map(|part| (part, (channels + size - 1) / size)));
    let inside = [b.clone(), a.clone(), vector];
    let order: Vec<String> = outside.iter().map(|(n, _)| n).chain(&inside).cloned().collect();
    plan.reorder(stage, &order);
    // A row of tiles goes to one thread, which pads it.
    let rows = outer.len().saturating_sub(1);
    let names: Vec<String> = outside[..rows].iter().map(|(n, _)| n.clone()).collect();
    let parallel = plan.fuse(stage, &names);
    finish(plan, stage, &inside);
    if let Some((at, _)) = outside.last()
        && plan.compute_at(&chain.columns, stage, at)
    {
        let own: Vec<String> = plan.axes(&chain.columns).into_iter().map(|(name, _)| name).collect();
        finish(plan, &chain.columns, &own);
    }
    let Some(parallel) = parallel else { return };
    contraction::place_prologue(plan, &chain.columns, stage, Some(&parallel));
    if plan.iterations(stage) >= PARALLEL_FROM {
        plan.parallel(stage, &parallel);
    }
}

/// Vectors of channels that are transformed together: small tiles leave registers for two.
fn vectors(tile: i64) -> i64 {
    if tile <= 2 { 2 } else { 1 }
}

/// Unrolls the loops of a tile and vectorises the last.
fn finish(plan: &mut Plan, stage: &str, inside: &[String]) {
    if let Some((v, tile)) = inside.split_last() {
        plan.vectorize(stage, v);
        tile.iter().for_each(|l| plan.unroll(stage, l));
    }
    plan.mark(stage);
}

/// The stage at the end of the elementwise stages that follow, each the only reader of the one before; those between are
/// inlined.
pub(super) fn last_reader(plan: &mut Plan, stage: &str) -> String {
    let mut last = stage.to_string();
    while let Some(reader) = plan.epilogue(&last) {
        if last != stage {
            plan.step(crate::step::Step::Inline { stage: last.clone() });
        }
        last = reader;
    }
    last
}
