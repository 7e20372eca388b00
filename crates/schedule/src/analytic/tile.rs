//! The register tile of a contraction: as many rows and vectors as take the least time by a count of cycles.

use super::contraction::MAX_BODY;
use super::plan::Plan;

/// A register tile: rows along up to two axes, vectors along the last.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Tile {
    pub upper: i64,
    pub row: i64,
    pub vectors: i64,
}

/// The tile with the least estimated time over the whole result (rows along two axes, columns), tails included.
pub(super) fn best_tile(
    plan: &Plan,
    shape: (i64, i64, i64),
    lanes: i64,
    depth: i64,
    side_by_side: i64,
) -> Tile {
    best_tile_in_blocks(plan, shape, None, lanes, depth, &|_, rows| rows <= side_by_side)
}

/// The same for columns that lie in blocks of so many, with which the tile's width goes evenly, and rows along both axes that
/// can be read side by side.
pub(super) fn best_tile_in_blocks(
    plan: &Plan,
    (upper, row, columns): (i64, i64, i64),
    block: Option<i64>,
    lanes: i64,
    depth: i64,
    side_by_side: &dyn Fn(i64, i64) -> bool,
) -> Tile {
    let registers = plan.machine.registers;
    let mut best = (f64::INFINITY, Tile { upper: 1, row: 1, vectors: 1 });
    let is_even = |width: i64| block.is_none_or(|block| block % width == 0 || width % block == 0);
    for vectors in (1..=4).filter(|v| *v == 1 || is_even(v * lanes)) {
        // Accumulators, one vector of each column, one broadcast value.
        let most = ((registers - 1 - vectors) / vectors).max(1);
        for r in 1..=most.min(row) {
            for u in (1..=(most / r).min(upper)).filter(|u| (*u, r) == (1, 1) || side_by_side(*u, r)) {
                let mut time = 0.0;
                for (du, nu) in pieces(upper, u) {
                    for (dr, nr) in pieces(row, r) {
                        for (dc, nc) in pieces(columns, vectors * lanes) {
                            let v = (dc + lanes - 1) / lanes;
                            time += (nu * nr * nc) as f64 * tile_time(du * dr, v, depth);
                        }
                    }
                }
                // Equal times go to the larger tile.
                let two_axes = if u > 1 { TWO_AXES } else { 1.0 };
                let penalty = two_axes - 1e-7 * (u * r * vectors) as f64;
                if time * penalty < best.0 {
                    best = (time * penalty, Tile { upper: u, row: r, vectors });
                }
            }
        }
    }
    best.1
}

/// Sizes of the pieces an extent falls into, with their number.
fn pieces(extent: i64, size: i64) -> Vec<(i64, i64)> {
    let mut out = Vec::new();
    if extent / size > 0 {
        out.push((size, extent / size));
    }
    if extent % size > 0 {
        out.push((extent % size, 1));
    }
    out
}

/// What a load costs beside the multiply-adds it hides behind, in cycles: threads of the same core want the ports as well.
const LOAD: f64 = 0.75;
/// What streaming a vector from the second cache level costs beside its load, in cycles.
const STREAM: f64 = 2.0;
/// How much longer a tile takes whose rows lie along two axes.
const TWO_AXES: f64 = 1.04;
/// What an iteration of the reduction's loop costs beside its body, in cycles.
const ITERATION: f64 = 1.0;

/// Cycles of one register tile: two multiply-adds or two loads a cycle, four cycles of latency, vectors streamed from
/// the second cache level, and the write-back.
fn tile_time(rows: i64, vectors: i64, depth: i64) -> f64 {
    let (m, v) = (rows as f64, vectors as f64);
    let bound = (m * v / 2.0).max((m + v) / 2.0).max(4.0);
    let unrolled = if rows * vectors * 2 <= MAX_BODY { 2.0 } else { 1.0 };
    let step = bound + LOAD * (m + v) + STREAM * v + ITERATION / unrolled;
    step * depth as f64 + 3.0 * m * v + 20.0
}
