//! Convolutions with three by three taps and stride one by Winograd's algorithm: fewer multiplications, at the price of
//! transforming tiles of the input and of the result.
//!
//! | module | holds |
//! |---|---|
//! | [`matrices`] | the matrices of a tile size, weights transformed by them |
//! | here | the algorithm as stages of a DAG |
//! | [`phases`] | the same for transposed convolutions with stride two, whose phases are such convolutions |

pub mod matrices;
pub mod phases;

use talweg_expr::Expr;
use talweg_ir::{Dag, Reducer, Scalar, TensorId};

use crate::conv::check_kernel;
use crate::error::OpError;
use crate::pad::pad_spatial;
use crate::typing::{axes, expect_extent, fresh, shape_with_rank};
use crate::window::Window;
use matrices::Matrices;

pub use matrices::{TILES, expected_error, transform_weights};
pub use phases::{transform_phases, winograd_transpose};

/// The stages of the algorithm by name; schedules know them by it.
pub mod stages {
    /// The input's tiles transformed along the columns.
    pub const INPUT_COLUMNS: &str = "wino.columns";
    /// The input's tiles transformed.
    pub const INPUT: &str = "wino.input";
    /// The products, summed over channels and depth.
    pub const PRODUCT: &str = "wino.product";
    /// The result's tiles transformed along the columns.
    pub const OUTPUT_COLUMNS: &str = "wino.rows";
    /// The result.
    pub const OUTPUT: &str = "conv";
}

/// Whether the algorithm applies: two or three spatial axes, three taps with stride and dilation one along the last two,
/// stride and dilation one along the depth.
pub fn applies(windows: &[Window]) -> bool {
    let plain = |w: &Window| w.stride == 1 && w.dilation == 1;
    let depth = windows.len().saturating_sub(2);
    (2..=3).contains(&windows.len())
        && windows.iter().all(plain)
        && windows[depth..].iter().all(|w| w.kernel == 3)
}

/// A convolution by output tiles of `tile` by `tile`, with `t = tile + 2` and weights `u` of
/// [`transform_weights`]: `[t, t, kd, c, f]`, without `kd` in two dimensions.
///
/// ```text
/// wino.columns[n, d, y, x, i, b, c] = sum[j] BT[b, j] * X.pad[n, d, y * tile + i, x * tile + j, c]
/// wino.input[a, b, n, d, y, x, c]   = sum[i] BT[a, i] * wino.columns[n, d, y, x, i, b, c]
/// wino.product[a, b, n, od, y, x, f] = sum[kd, c] wino.input[a, b, n, od + kd, y, x, c] * U[a, b, kd, c, f]
/// wino.rows[n, od, y, x, a, q, f]   = sum[b] AT[q, b] * wino.product[a, b, n, od, y, x, f]
/// conv[n, od, oh, ow, f]            = sum[a] AT[oh % tile, a] * wino.rows[n, od, oh / tile, ow / tile, a, ow % tile, f]
/// ```
///
/// The sums over matrices are written out, one formula for each value of `a`, `b`, `oh % tile` and `ow % tile`, chosen
/// by selects that vanish where the loop is unrolled. The input is padded up to whole tiles.
pub fn winograd(
    dag: &mut Dag,
    x: TensorId,
    u: TensorId,
    windows: &[Window],
    tile: i64,
) -> Result<TensorId, OpError> {
    let operator = OPERATOR;
    let rank = windows.len();
    if !applies(windows) {
        return Err(range("the stride, the dilation or the distance of the taps from three", 0, 1, 1));
    }
    let m = matrices_of(tile)?;
    let products = tile + 2;
    let input = shape_with_rank(dag, x, rank + 2, operator)?;
    let weights = shape_with_rank(dag, u, rank + 2, operator)?;
    let (channels, filters) = (input[rank + 1], weights[rank + 1]);
    expect_extent(dag, u, operator, "the number of input channels", channels, weights[rank])?;
    for extent in &weights[..2] {
        expect_extent(dag, u, operator, "the number of products", products, *extent)?;
    }
    let deep = rank == 3;
    if deep {
        check_kernel(dag, u, operator, &windows[..1], &weights[2..])?;
    }
    let mut outputs = Vec::new();
    let mut sides = Vec::new();
    for (d, (w, extent)) in windows.iter().zip(&input[1..]).enumerate() {
        let out = w.output(operator, d, *extent)?;
        let after =
            if deep && d == 0 { w.after } else { (out + tile - 1) / tile * tile + 2 - w.before - extent };
        outputs.push(out);
        sides.push((w.before, after));
    }
    let padded = pad_spatial(dag, x, &sides, Scalar::constant(0.0, dag.tensor(x).dtype))?;
    let depth_in = if deep { vec![input[1] + sides[0].0 + sides[0].1] } else { Vec::new() };
    let depth_out: Vec<i64> = outputs[..rank - 2].to_vec();
    let tiles: Vec<i64> = outputs[rank - 2..].iter().map(|o| (o + tile - 1) / tile).collect();
    let names = |front: &[&str], depth: &str, back: &[&str]| -> Vec<String> {
        let depth = if deep { vec![depth] } else { Vec::new() };
        let all =
            front.iter().copied().chain(["n"]).chain(depth).chain(["y", "x"]).chain(back.iter().copied());
        all.map(str::to_string).collect()
    };
    let extents = |front: &[i64], depth: &[i64], back: &[i64]| -> Vec<i64> {
        let all = front.iter().chain(&input[..1]).chain(depth).chain(&tiles).chain(back);
        all.copied().collect()
    };
    let places = rank + 1;

    let mut spots: Vec<(&str, i64)> = vec![("n", input[0])];
    spots.extend(depth_in.first().map(|extent| ("d", *extent)));
    spots.extend([("y", tiles[0]), ("x", tiles[1])]);
    let transformed = transform_input(dag, padded, &m, &spots, channels);
    let name = fresh(dag, stages::PRODUCT);
    let (own, sizes) =
        (names(&["a", "b"], "od", &["f"]), extents(&[products, products], &depth_out, &[filters]));
    let mut over = vec![("c", channels)];
    if deep {
        over.insert(0, ("kd", windows[0].kernel));
    }
    let product = dag.reduce(&name, &axes(&own, &sizes), Reducer::Sum, &over, |at, red| {
        let mut index = at[..places + 2].to_vec();
        if deep {
            index[3] = index[3].clone() + red[0].clone();
        }
        index.extend(red.last().cloned());
        let mut taps = at[..2].to_vec();
        taps.extend(red.iter().cloned());
        taps.extend(at.last().cloned());
        Scalar::Read(transformed, index) * Scalar::Read(u, taps)
    });
    let name = fresh(dag, stages::OUTPUT_COLUMNS);
    let (own, sizes) =
        (names(&[], "od", &["a", "q", "f"]), extents(&[], &depth_out, &[products, tile, filters]));
    let rows = dag.compute(&name, &axes(&own, &sizes), |at| {
        let read = |b: usize| {
            let mut index = vec![at[places].clone(), Expr::int(b as i64)];
            index.extend(at[..places].iter().cloned());
            index.push(at[places + 2].clone());
            Scalar::Read(product, index)
        };
        choose(&at[places + 1], m.output.iter().map(|row| by_pairs(row, &read)).collect())
    });
    let name = fresh(dag, stages::OUTPUT);
    let (mut own, _) = crate::conv::window_axes(rank);
    own.push("f".to_string());
    let sizes: Vec<i64> = input[..1].iter().chain(&outputs).copied().chain([filters]).collect();
    Ok(dag.compute(&name, &axes(&own, &sizes), |at| {
        let (oh, ow) = (&at[places - 2], &at[places - 1]);
        let read = |a: usize| {
            let mut index = at[..places - 2].to_vec();
            index.extend([oh.floor_div(tile), ow.floor_div(tile)]);
            index.extend([Expr::int(a as i64), ow.rem(tile), at[places].clone()]);
            Scalar::Read(rows, index)
        };
        choose(&oh.rem(tile), m.output.iter().map(|row| by_pairs(row, &read)).collect())
    }))
}

/// The operator's name in errors.
const OPERATOR: &str = "winograd";

fn range(what: &str, found: i64, min: i64, max: i64) -> OpError {
    OpError::Range { operator: OPERATOR, what: what.to_string(), found, min, max }
}

/// The matrices of a tile size.
fn matrices_of(tile: i64) -> Result<Matrices, OpError> {
    Matrices::of(tile).ok_or_else(|| range("the tile (2, 4 or 6)", tile, 2, 6))
}

/// The tiles of a padded input transformed, `[a, b, ..spots, c]`: `spots` are the axes of tiles with their extents, those
/// along the columns and along the rows last.
fn transform_input(
    dag: &mut Dag,
    padded: TensorId,
    m: &Matrices,
    spots: &[(&str, i64)],
    channels: i64,
) -> TensorId {
    let (places, products, tile) = (spots.len(), m.input.len() as i64, m.output.len() as i64);
    let name = fresh(dag, stages::INPUT_COLUMNS);
    let inside = [("i", products), ("b", products), ("c", channels)];
    let columns = dag.compute(&name, &[spots, &inside].concat(), |at| {
        let read = |j: usize| {
            let mut index = at[..places - 2].to_vec();
            index.push(at[places - 2].clone() * tile + at[places].clone());
            index.push(at[places - 1].clone() * tile + j as i64);
            index.push(at[places + 2].clone());
            Scalar::Read(padded, index)
        };
        choose(&at[places + 1], m.input.iter().map(|row| by_parity(row, &read)).collect())
    });
    let name = fresh(dag, stages::INPUT);
    let own = [&[("a", products), ("b", products)][..], spots, &[("c", channels)]].concat();
    dag.compute(&name, &own, |at| {
        let read = |i: usize| {
            let mut index = at[2..places + 2].to_vec();
            index.extend([Expr::int(i as i64), at[1].clone(), at[places + 2].clone()]);
            Scalar::Read(columns, index)
        };
        choose(&at[0], m.input.iter().map(|row| by_parity(row, &read)).collect())
    })
}

/// The formula number `which`.
fn choose(which: &Expr, formulas: Vec<Scalar>) -> Scalar {
    let mut rest = formulas.into_iter().enumerate().rev();
    let last = rest.next().map_or(Scalar::f32(0.0), |(_, f)| f);
    rest.fold(last, |otherwise, (at, formula)| {
        Scalar::select(Scalar::predicate(which.eq_expr(&Expr::int(at as i64))), formula, otherwise)
    })
}

/// `sum[i] row[i] * read(i)`: the even places and the odd ones apart, with the sign in front of the odd ones, so that
/// the rows of points `p` and `-p` share both sums.
fn by_parity(row: &[f64], read: &dyn Fn(usize) -> Scalar) -> Scalar {
    let part = |odd: usize| -> Vec<(f64, usize)> {
        (odd..row.len()).step_by(2).filter(|i| row[*i] != 0.0).map(|i| (row[i], i)).collect()
    };
    let (even, odd) = (part(0), part(1));
    let negative = odd.last().is_some_and(|(c, _)| *c < 0.0);
    let sign = if negative { -1.0 } else { 1.0 };
    let odd: Vec<(f64, usize)> = odd.into_iter().map(|(c, i)| (c * sign, i)).collect();
    let value = |terms: Vec<(f64, usize)>| weighted(terms.into_iter().map(|(c, i)| (c, read(i))).collect());
    match (even.is_empty(), odd.is_empty()) {
        (false, true) => value(even),
        (true, false) if negative => Scalar::f32(0.0) - value(odd),
        (true, _) => value(odd),
        (false, false) if negative => value(even) - value(odd),
        (false, false) => value(even) + value(odd),
    }
}

/// `sum[i] row[i] * read(i)`: neighbours with equal or opposite factors, which belong to points `p` and `-p`, are added
/// or subtracted first, so that the rows share these sums.
fn by_pairs(row: &[f64], read: &dyn Fn(usize) -> Scalar) -> Scalar {
    let mut terms = Vec::new();
    let mut at = 0;
    while at < row.len() {
        let factor = row[at];
        let pair = at % 2 == 1 && at + 1 < row.len() && factor != 0.0 && row[at + 1].abs() == factor.abs();
        if pair {
            let (p, q) = (read(at), read(at + 1));
            terms.push((factor, if row[at + 1] == factor { p + q } else { p - q }));
            at += 1;
        } else if factor != 0.0 {
            terms.push((factor, read(at)));
        }
        at += 1;
    }
    weighted(terms)
}

/// `sum of factor * value`, begun by a value with factor one where there is one.
fn weighted(mut terms: Vec<(f64, Scalar)>) -> Scalar {
    let first = terms.iter().position(|(c, _)| *c == 1.0).unwrap_or(0);
    if terms.is_empty() {
        return Scalar::f32(0.0);
    }
    let (factor, value) = terms.remove(first);
    let start = if factor == 1.0 { value } else { value * Scalar::f32(factor) };
    terms.into_iter().fold(start, |sum, (c, v)| if c == 1.0 { v + sum } else { v * Scalar::f32(c) + sum })
}
