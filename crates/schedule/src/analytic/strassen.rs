//! Products by Strassen's scheme: sums of the left operand, seven products of quarters, sums of those.
//!
//! ```text
//! parallel block of rows, chunk of columns {
//!   the left operand's sums for the block
//!   for panel of columns {
//!     for product { for tile of columns { for row tile { for k { tile } } } }
//!     for row { for tile of columns { the result's four quarters and what follows } } } }
//! ```
//!
//! By default a panel is one tile wide; a search may take wider ones, which read the left operand's sums less often. Products are sums of a whole reduction, in register tiles as those of any contraction, and a panel of them stays in the
//! second cache level until the result is made of it. Every chunk makes the left operand's sums for itself: that is a few
//! per cent of the products of a chunk, and what another core has written would be slower to read.

use talweg_expr::Expr;

use super::contraction::{self, MAX_BODY, Tile};
use super::plan::{Kind, Plan};
use super::winograd::{last_reader, transformed};
use crate::step::Step;

/// The stages of the scheme by their part in it.
pub(super) struct Chain {
    /// Sums of the left operand, one for each product: `[products, rows, depth]`.
    input: String,
    /// `[products, rows, columns]`.
    product: String,
    /// The result: `[rows, 2, 2, columns]`.
    output: String,
}

/// What a schedule of the scheme leaves open.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sizes {
    /// The register tile of the products.
    tile: Tile,
    /// Rows of a quarter in a block.
    rows: i64,
}

/// The sizes of the loops of Strassen's scheme: numbers, or knobs of a search.
#[derive(Clone, Debug, PartialEq)]
pub struct SchemeSizes {
    /// Rows of a quarter in a block.
    pub block: Expr,
    /// Panels in a chunk of columns.
    pub chunk: Expr,
    /// Register tiles side by side in a panel; a panel is one of them without it.
    pub beside: Option<Expr>,
    /// Rows of a register tile.
    pub row: Expr,
    /// Columns of a register tile, in whole vectors.
    pub width: Expr,
    /// Steps of the reduction that are unrolled; all in a loop without it.
    pub unrolled: Option<Expr>,
}

/// What a search has to know of a DAG that is Strassen's scheme.
#[derive(Clone, Debug, PartialEq)]
pub struct Scheme {
    /// The stage whose loops hold all others.
    pub root: String,
    /// Its loops over rows and columns of a quarter, with their extents.
    pub row: (String, i64),
    /// See `row`.
    pub column: (String, i64),
    /// The loop over the reduction, with its extent.
    pub depth: (String, i64),
    /// How many products there are.
    pub products: i64,
    /// Elements of a vector.
    pub lanes: i64,
    /// Bytes of the left operand's sums that may stay cached while panels pass over them.
    pub sums: i64,
}

/// The scheme in a DAG, as far as a search is concerned.
pub(super) fn describe(plan: &mut Plan, chain: &Chain) -> Option<Scheme> {
    let lanes = plan.lanes(&chain.product);
    let [(_, products), ..] = *plan.axes(&chain.product).as_slice() else { return None };
    let [depth] = plan.reduce_axes(&chain.product).try_into().ok()?;
    let root = last_reader(plan, &chain.output);
    let [row, _, _, column] = plan.axes(&root).try_into().ok()?;
    Some(Scheme { root, row, column, depth, products, lanes, sums: plan.machine.rows_fit() })
}

/// The scheme's stages, when the DAG is one: products with a constant, of sums of what one tensor holds at several places,
/// that one stage reads product by product.
pub(super) fn find(plan: &Plan) -> Option<Chain> {
    let names = plan.schedule.stage_names();
    names.into_iter().filter(|stage| plan.kind(stage) == Kind::Contraction).find_map(|product| {
        let input = plan.producers(&product).into_iter().find(|p| transformed(plan, p).is_some())?;
        let [output] = plan.readers(&product).try_into().ok()?;
        let summed = transformed(plan, &output).is_some_and(|read| read == product);
        let id = plan.id(&product);
        let apart = plan.compute(&output).body.reads().iter().all(|(_, at)| at[0].as_int().is_some());
        let ranks = (plan.axes(&input).len(), plan.axes(&product).len(), plan.axes(&output).len());
        let alone = plan.readers(&input) == [product.clone()] && !plan.schedule.dag.tensor(id).output;
        let constant = contraction::streamed_operand(plan, &product).constant.is_some();
        let is_scheme = summed && apart && ranks == (3, 3, 4) && alone && constant;
        is_scheme.then_some(Chain { input, product, output })
    })
}

/// The default sizes, and others worth measuring behind them.
pub(super) fn sizes(plan: &Plan, chain: &Chain) -> Vec<Sizes> {
    let axes = plan.axes(&chain.product);
    let [(_, products), (_, rows), (_, columns)] = axes.as_slice() else { return Vec::new() };
    let depth: i64 = plan.reduce_axes(&chain.product).iter().map(|(_, e)| *e).product();
    let lanes = plan.lanes(&chain.product);
    let side_by_side = contraction::rows_side_by_side(plan, &chain.product, 1);
    let best = contraction::best_tile(plan, (1, *rows, *columns), lanes, depth, side_by_side);
    let mut tiles = vec![best];
    for vectors in 2..=4 {
        let most = ((plan.machine.registers - 1 - vectors) / vectors).max(1);
        // The highest tile, and the highest that divides the rows.
        let even = (1..=most).rev().find(|r| rows % r == 0).unwrap_or(most);
        for row in [most.min(*rows), even, (most + 1) / 2] {
            let tile = Tile { upper: 1, row, vectors };
            if row * vectors * 2 >= plan.machine.registers / 2 && !tiles.contains(&tile) {
                tiles.push(tile);
            }
        }
    }
    // A block's sums stay in a share of the last cache level, and a panel of its products in the second.
    let sized = |tile: Tile| {
        let (sums, panel) = (products * depth * 4, products * tile.vectors * plan.machine.vector_bytes);
        let fits = (plan.machine.rows_fit() / sums).min(plan.machine.l2 / 4 / panel).max(tile.row);
        let blocks = (rows + fits - 1) / fits;
        let even = (rows + blocks - 1) / blocks;
        Sizes { tile, rows: (even + tile.row - 1) / tile.row * tile.row }
    };
    tiles.into_iter().map(sized).collect()
}

/// Schedules all stages of the scheme and what follows in sizes of the default; what else the DAG holds is left to the others.
pub(super) fn schedule(plan: &mut Plan, chain: &Chain, sizes: Sizes) {
    let Sizes { tile, rows: block } = sizes;
    let (axes, over) = (plan.axes(&chain.product), plan.reduce_axes(&chain.product));
    let ([_, (_, rows), (_, columns)], [(_, depth)]) = (axes.as_slice(), over.as_slice()) else { return };
    let width = tile.vectors * plan.lanes(&chain.product);
    let (panels, blocks) = ((columns + width - 1) / width, (rows + block - 1) / block);
    let chunks = (plan.machine.cores + blocks - 1) / blocks;
    let unrolls = tile.row * tile.vectors * 2 <= MAX_BODY && depth % 2 == 0 && *depth > 2;
    let sizes = SchemeSizes {
        block: Expr::int(block),
        chunk: Expr::int(((panels + chunks - 1) / chunks).max(1)),
        beside: None,
        row: Expr::int(tile.row),
        width: Expr::int(width),
        unrolled: unrolls.then(|| Expr::int(2)),
    };
    schedule_by(plan, chain, &sizes);
}

/// The same in any sizes.
pub(super) fn schedule_by(plan: &mut Plan, chain: &Chain, sizes: &SchemeSizes) {
    let constant = contraction::streamed_operand(plan, &chain.product).constant;
    let root = last_reader(plan, &chain.output);
    let axes = plan.axes(&root);
    let [(row, rows), (pair, _), (half, _), (column, columns)] = axes.as_slice() else { return };
    let mut levels = vec![sizes.chunk.clone()];
    levels.extend(sizes.beside.clone());
    levels.push(sizes.width.clone());

    let mut across = plan.split_by(&root, column, *columns, &levels);
    let mut down = plan.split_by(&root, row, *rows, std::slice::from_ref(&sizes.block));
    let Some(vector) = across.pop() else { return };
    let beside = sizes.beside.is_some().then(|| across.pop()).flatten();
    let (Some(panel), Some(inner)) = (across.pop(), down.pop()) else { return };
    let outside: Vec<String> = down.into_iter().chain(across).collect();
    let mut order = outside.clone();
    order.extend([&panel, &inner].into_iter().chain(&beside).chain([pair, half, &vector]).cloned());
    plan.reorder(&root, &order);
    let Some(shared) = plan.fuse(&root, &outside) else { return };

    if root != chain.output && plan.compute_at(&chain.output, &root, beside.as_ref().unwrap_or(&inner)) {
        let own: Vec<String> = plan.axes(&chain.output).into_iter().map(|(name, _)| name).collect();
        if let [_, own @ ..] = own.as_slice()
            && let Ok(own) = own.try_into()
        {
            quarters(plan, &chain.output, own);
        }
    }
    match root == chain.output || !plan.is_expensive(&root) {
        true => quarters(plan, &root, &[pair.clone(), half.clone(), vector]),
        false => plan.vectorize(&root, &vector),
    }
    plan.compute_at(&chain.product, &root, &panel);
    products(plan, &chain.product, sizes);
    if let Some(weights) = constant {
        plan.step(Step::Pack { tensor: weights, reader: chain.product.clone() });
    }
    plan.compute_at(&chain.input, &root, &shared);
    sums(plan, &chain.input);
    for stage in [&root, &chain.output, &chain.product, &chain.input] {
        plan.mark(stage);
    }
    plan.parallel(&root, &shared);
}

/// Unrolls the quarters of the result and vectorises its columns.
fn quarters(plan: &mut Plan, stage: &str, [pair, half, vector]: &[String; 3]) {
    plan.unroll(stage, pair);
    plan.unroll(stage, half);
    plan.vectorize(stage, vector);
}

/// The products of a panel: one after the other, in register tiles.
fn products(plan: &mut Plan, stage: &str, sizes: &SchemeSizes) {
    let (axes, over) = (plan.axes(stage), plan.reduce_axes(stage));
    let ([(product, _), (row, rows), (column, columns)], [(over, depth)]) =
        (axes.as_slice(), over.as_slice())
    else {
        return;
    };
    let mut across = match &sizes.beside {
        Some(_) => plan.split_by(stage, column, *columns, std::slice::from_ref(&sizes.width)),
        None => vec![column.clone()],
    };
    let mut down = plan.split_by(stage, row, *rows, std::slice::from_ref(&sizes.row));
    let mut along = match &sizes.unrolled {
        Some(unrolled) => plan.split_by(stage, over, *depth, std::slice::from_ref(unrolled)),
        None => vec![over.clone()],
    };
    let (Some(inner), Some(vector)) = (down.pop(), across.pop()) else { return };
    let outer = std::iter::once(product).chain(&across).chain(&down);
    let order: Vec<String> = outer.chain(&along).chain([&inner, &vector]).cloned().collect();
    plan.reorder(stage, &order);
    if sizes.unrolled.is_some()
        && let Some(last) = along.pop()
    {
        plan.unroll(stage, &last);
    }
    plan.unroll(stage, &inner);
    plan.vectorize(stage, &vector);
}

/// The left operand's sums: all of one place together.
fn sums(plan: &mut Plan, stage: &str) {
    let axes = plan.axes(stage);
    let [(product, _), (row, _), (over, depth)] = axes.as_slice() else { return };
    let mut parts = plan.split(stage, over, *depth, &[plan.lanes(stage)]);
    let Some(vector) = parts.pop() else { return };
    let order: Vec<String> = std::iter::once(row).chain(&parts).chain([product, &vector]).cloned().collect();
    plan.reorder(stage, &order);
    plan.unroll(stage, product);
    plan.vectorize(stage, &vector);
}

#[cfg(test)]
mod tests {
    use talweg_ir::{DType, Dag, verify_nest};
    use talweg_ops::strassen::strassen;
    use talweg_target::Target;

    use crate::Schedule;
    use crate::analytic::{beginnings, default_trace};
    use crate::concrete::concretize;
    use crate::step::Trace;

    fn product(rows: i64, columns: i64, depth: i64) -> Dag {
        let mut dag = Dag::new("matmul_strassen");
        let a = dag.input("A", DType::F32, &[rows, depth]);
        let u = dag.constant("U", DType::F32, &[7, depth / 2, columns / 2]);
        let out = strassen(&mut dag, a, u).expect("even");
        dag.mark_output(out.tensor);
        dag
    }

    #[track_caller]
    fn assert_legal(dag: &Dag, trace: &Trace) {
        let lowered = Schedule::replay(dag.clone(), trace).expect("legal").lower().expect("lowers");
        let nest = concretize(&lowered, &|_| None).expect("no knobs");
        verify_nest(&nest).unwrap_or_else(|e| panic!("{e:?}\n{trace}"));
    }

    #[test]
    fn products_stay_in_the_cache() {
        let mut target = Target::named("avx512").expect("known");
        (target.l1d, target.l2, target.l3, target.cores) = (48 << 10, 1 << 20, 32 << 20, 2);
        let dag = product(128, 3072, 768);
        let trace = default_trace(&dag, &target);
        assert_legal(&dag, &trace);
        let text = trace.to_string();
        assert!(text.contains("compute_at strassen.product matmul j.1"), "{text}");
        assert!(text.contains("compute_at strassen.input matmul j.0"), "{text}");
        assert!(text.contains("parallel matmul j.0"), "{text}");
        // So many rows are shared among the threads.
        let dag = product(4096, 512, 512);
        let text = default_trace(&dag, &target).to_string();
        assert!(text.contains("parallel matmul i.0_j.0"), "{text}");
    }

    #[test]
    fn every_beginning_is_legal() {
        for (rows, columns, depth) in [(128, 768, 768), (50, 200, 66), (2, 96, 130), (1000, 36, 14)] {
            for name in ["avx512", "avx2", "neon"] {
                let target = Target::named(name).expect("known");
                let dag = product(rows, columns, depth);
                let all = beginnings(&dag, &target);
                assert!(all.len() > 1, "{rows}x{columns}x{depth} on {name}");
                for decided in all {
                    assert_eq!(decided.stages.len(), 3);
                    assert_legal(&dag, &Trace { steps: decided.steps });
                }
            }
        }
    }
}
