//! Strassen's scheme with its sizes open: all its stages are scheduled together, as the default does, and what the default
//! computes from the machine is left to the search.
//!
//! ```text
//! parallel blocks of $i.1 * $i.2 rows, chunks of $j.1 panels {
//!   sums of the block
//!   $j.1 panels { products { $j.2 tiles { $i.1 tiles { k { unroll $k.u { $i.2 rows x $j.3 columns } } } } }
//!                 rows { $j.2 tiles { quarters of the result } } } }
//! ```
//!
//! Two sketches: panels of one tile, and of several.

use talweg_expr::Expr;
use talweg_ir::Dag;
use talweg_schedule::analytic::{self, Scheme, SchemeSizes};
use talweg_target::Target;

use crate::domain;
use crate::knob::KnobRole;
use crate::rules::register_tile::limit_body;
use crate::state::SketchState;

/// Tiles side by side in a panel, at most.
const MOST_BESIDE: i64 = 8;

/// The states with all stages of the scheme decided; none for any other DAG.
pub(crate) fn states(dag: &Dag, target: &Target, empty: &SketchState) -> Vec<SketchState> {
    let Some(scheme) = analytic::scheme(dag, target) else { return Vec::new() };
    let open = |wide: bool| {
        let mut state = empty.clone();
        let sizes = sizes(&mut state, &scheme, wide);
        let decided = analytic::scheme_by(dag, target, &sizes)?;
        decided.steps.into_iter().try_for_each(|step| state.step(step)).ok()?;
        decided.stages.iter().for_each(|stage| state.decide(stage));
        state.choose(format!("products of {}", if wide { "several tiles" } else { "a tile" }));
        Some(state)
    };
    [false, true].into_iter().filter_map(open).collect()
}

/// Opens the knobs.
fn sizes(s: &mut SketchState, scheme: &Scheme, wide: bool) -> SchemeSizes {
    let Scheme { root, row, column, depth, products, lanes, sums } = scheme;
    let (products, lanes, registers) = (*products, *lanes, s.machine.registers);
    s.local_bytes = s.local_bytes.max(*sums);
    let mut open = |axis: &(String, i64), level: usize, vector: bool, domain: Vec<i64>| {
        let (stage, axis, extent) = (root.clone(), axis.0.clone(), axis.1);
        let name = format!("{root}.{axis}.{level}");
        s.open(&name, domain, KnobRole::Tile { stage, axis, extent, level, vector, reduce: false })
    };
    let vectors = (column.1 + lanes - 1) / lanes;
    let tiles = open(row, 1, false, domain::tile_sizes(row.1));
    let rows = open(row, 2, false, domain::register_rows(row.1, registers - 2));
    let chunk = open(column, 1, false, domain::tile_sizes(vectors));
    let beside = wide.then(|| open(column, 2, false, domain::tile_sizes(vectors.min(MOST_BESIDE))));
    let width = open(column, 3, true, domain::vector_sizes(column.1, lanes, registers / 2));
    let unroll = KnobRole::Unroll { stage: root.clone(), axis: depth.0.clone(), extent: depth.1 };
    let unrolled = domain::divisors(depth.1, domain::MAX_UNROLL);
    let unrolled = s.open(&format!("{root}.{}.u", depth.0), unrolled, unroll);

    let block = tiles.clone() * &rows;
    let panel = width.clone() * beside.clone().unwrap_or(Expr::int(1));
    s.limit(format!("tiles of {root}.{}", row.0), block.clone(), rows.clone() + (row.1 - 1));
    s.limit(format!("tiles of {root}.{}", column.0), chunk.clone() * &panel, width.clone() + (column.1 - 1));
    // A panel of products is read again at once.
    let bytes = block.clone() * &panel * (products * 4);
    s.limit(format!("products of {root}"), bytes, (s.machine.l2 / 2).max(products * lanes * 4));
    let tails = (Expr::int(row.1).rem(&block).min(1) + 1) * (Expr::int(column.1).rem(&width).min(1) + 1);
    limit_body(s, root, lanes, (rows.clone(), width.clone()), &unrolled, tails);
    SchemeSizes { block, chunk, beside, row: rows, width, unrolled: Some(unrolled) }
}

#[cfg(test)]
mod tests {
    use talweg_ir::{DType, verify_nest};
    use talweg_ops::strassen::strassen;

    use super::*;
    use crate::{Rng, Space};

    #[test]
    fn every_candidate_of_the_scheme_is_legal() {
        for (rows, columns, depth) in [(128, 768, 768), (50, 200, 66), (2, 96, 130)] {
            let mut target = Target::named("avx512").expect("known");
            (target.l2, target.l3, target.cores) = (1 << 20, 32 << 20, 2);
            let mut dag = Dag::new("matmul_strassen");
            let a = dag.input("A", DType::F32, &[rows, depth]);
            let u = dag.constant("U", DType::F32, &[7, depth / 2, columns / 2]);
            let out = strassen(&mut dag, a, u).expect("even");
            dag.mark_output(out.tensor);
            let space = Space::of(&dag, &target);
            let open: Vec<usize> =
                (0..space.sketches.len()).filter(|s| !space.sketches[*s].knobs.is_empty()).collect();
            assert_eq!(open.len(), 2, "{rows}x{columns}x{depth}");
            let mut rng = Rng::new(7);
            for sketch in open {
                for _ in 0..40 {
                    let candidate = space.sample_in(sketch, &mut rng);
                    let nest = space.instantiate(&candidate).expect("it lowers");
                    verify_nest(&nest).unwrap_or_else(|e| panic!("{e:?}\n{candidate}"));
                }
            }
        }
    }
}
