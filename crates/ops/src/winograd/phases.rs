//! Transposed convolutions with stride two by Winograd's algorithm.
//!
//! Each phase of the output is a convolution with two by two taps (sub-pixel decomposition). Over three neighbouring inputs
//! the even phase has its taps on the first two and the odd one on the last two, so all phases share one transformed
//! input; and of the products of three taps the even phase needs all but the one at infinity, the odd one all but the one at
//! zero, which vanish.

use talweg_expr::Expr;
use talweg_ir::{Dag, Reducer, Scalar, TensorId};

use super::matrices::{Matrices, transform_weights};
use super::{OPERATOR, by_pairs, choose, matrices_of, range, stages, transform_input};
use crate::error::OpError;
use crate::pad::pad_spatial;
use crate::transpose::output_extents;
use crate::typing::{expect_extent, fresh, shape_with_rank};
use crate::window::Window;

/// Phases along one axis.
const PHASES: i64 = 2;
/// Taps along one axis, as the phased form has its weights.
const TAPS: usize = 4;

/// For each phase, which taps it uses: where they lie among three inputs, and where among the weights.
const TAPS_OF: [[(usize, usize); 2]; PHASES as usize] = [[(0, 3), (1, 1)], [(1, 2), (2, 0)]];

/// Whether the algorithm applies: two spatial axes, three or four taps with stride two, one element of padding before.
pub fn applies(windows: &[Window]) -> bool {
    let fits = |w: &Window| w.stride == 2 && w.dilation == 1 && w.before == 1 && matches!(w.kernel, 3 | 4);
    windows.len() == 2 && windows.iter().all(fits)
}

/// A transposed convolution by tiles of `tile` by `tile` outputs of each phase, with `t = tile + 2` and weights `u` of
/// [`transform_phases`]: `[2, 2, t - 1, t - 1, c, f]`.
///
/// ```text
/// wino.columns, wino.input as of a convolution with three by three taps
/// wino.product[py, px, a, b, n, y, x, f] = sum[c] wino.input[a + py, b + px, n, y, x, c] * U[py, px, a, b, c, f]
/// wino.rows[n, y, x, py, px, a, q, f]    = sum[b] AT[q, b + px] * wino.product[py, px, a, b, n, y, x, f]
/// conv[n, oh, ow, f] = sum[a] AT[r, a + py] * wino.rows[n, y, x, py, px, a, q, f]
///                      where oh = (y * tile + r) * 2 + py and ow = (x * tile + q) * 2 + px
/// ```
pub fn winograd_transpose(
    dag: &mut Dag,
    x: TensorId,
    u: TensorId,
    windows: &[Window],
    output_padding: &[i64],
    tile: i64,
) -> Result<TensorId, OpError> {
    let operator = OPERATOR;
    if !applies(windows) {
        let found = windows.first().map_or(0, |w| w.stride);
        return Err(range(
            "the stride of two spatial axes with three or four taps and padding of one",
            found,
            2,
            2,
        ));
    }
    let m = matrices_of(tile)?;
    let products = tile + 1;
    let (input, outputs) = output_extents(dag, x, operator, windows, output_padding)?;
    let weights = shape_with_rank(dag, u, 6, operator)?;
    let (channels, filters) = (input[3], weights[5]);
    expect_extent(dag, u, operator, "the number of input channels", channels, weights[4])?;
    for (extent, expected) in weights.iter().zip([PHASES, PHASES, products, products]) {
        expect_extent(dag, u, operator, "the number of phases or products", expected, *extent)?;
    }
    // Tiles of outputs, all phases of them.
    let whole = tile * PHASES;
    let tiles: Vec<i64> = outputs.iter().map(|o| (o + whole - 1) / whole).collect();
    let sides = tiles.iter().zip(&input[1..]).map(|(t, extent)| (1, (t * tile + 1 - extent).max(0)));
    let sides: Vec<(i64, i64)> = sides.collect();
    let padded = pad_spatial(dag, x, &sides, Scalar::constant(0.0, dag.tensor(x).dtype))?;
    let spots = [("n", input[0]), ("y", tiles[0]), ("x", tiles[1])];
    let transformed = transform_input(dag, padded, &m, &spots, channels);

    let name = fresh(dag, stages::PRODUCT);
    let phases = [("py", PHASES), ("px", PHASES)];
    let own = [&phases[..], &[("a", products), ("b", products)], &spots, &[("f", filters)]].concat();
    let product = dag.reduce(&name, &own, Reducer::Sum, &[("c", channels)], |at, red| {
        let mut index = vec![at[2].clone() + at[0].clone(), at[3].clone() + at[1].clone()];
        index.extend(at[4..7].iter().chain(red).cloned());
        let taps = at[..4].iter().chain(red).chain(&at[7..]).cloned().collect();
        Scalar::Read(transformed, index) * Scalar::Read(u, taps)
    });
    let formula = |phase: usize, at: usize, read: &dyn Fn(usize) -> Scalar| {
        by_pairs(&row_of(&m, phase, at), &|product| read(product - phase))
    };
    let name = fresh(dag, stages::OUTPUT_COLUMNS);
    let inside = [("a", products), ("q", tile), ("f", filters)];
    let rows = dag.compute(&name, &[&spots[..], &phases, &inside].concat(), |at| {
        let read = |b: usize| {
            let mut index = vec![at[3].clone(), at[4].clone(), at[5].clone(), Expr::int(b as i64)];
            index.extend(at[..3].iter().chain(&at[7..]).cloned());
            Scalar::Read(product, index)
        };
        let of_phase =
            |phase: usize| choose(&at[6], (0..tile as usize).map(|q| formula(phase, q, &read)).collect());
        choose(&at[4], (0..PHASES as usize).map(of_phase).collect())
    });
    let name = fresh(dag, stages::OUTPUT);
    let own = [("n", input[0]), ("oh", outputs[0]), ("ow", outputs[1]), ("f", filters)];
    Ok(dag.compute(&name, &own, |at| {
        let (down, across) = (at[1].rem(whole), at[2].rem(whole));
        let one = |place: usize| {
            let (r, phase) = (place / PHASES as usize, place % PHASES as usize);
            let read = |a: usize| {
                let mut index = vec![at[0].clone(), at[1].floor_div(whole), at[2].floor_div(whole)];
                index.extend([Expr::int(phase as i64), across.rem(PHASES), Expr::int(a as i64)]);
                index.extend([across.floor_div(PHASES), at[3].clone()]);
                Scalar::Read(rows, index)
            };
            formula(phase, r, &read)
        };
        choose(&down, (0..whole as usize).map(one).collect())
    }))
}

/// The row of an output in a phase, without the product that vanishes there.
fn row_of(m: &Matrices, phase: usize, output: usize) -> Vec<f64> {
    let mut row = m.output[output].clone();
    let vanishing = if phase == 0 { row.len() - 1 } else { 0 };
    row[vanishing] = 0.0;
    row
}

/// Weights `[4, 4, c, f]` of the phased form as the products take them: `[2, 2, tile + 1, tile + 1, c, f]`. `None` when there
/// are no matrices for the tile or the number of weights does not fit.
pub fn transform_phases(weights: &[f32], filters: usize, tile: i64) -> Option<Vec<f32>> {
    if !weights.len().is_multiple_of(TAPS * TAPS) {
        return None;
    }
    let (plane, products) = (weights.len() / (TAPS * TAPS), usize::try_from(tile).ok()? + 2);
    let mut out = Vec::with_capacity(4 * (products - 1) * (products - 1) * plane);
    for (py, rows) in TAPS_OF.iter().enumerate() {
        for (px, columns) in TAPS_OF.iter().enumerate() {
            let mut three = vec![0.0; 9 * plane];
            for (i, kh) in rows {
                for (j, kw) in columns {
                    let from = &weights[(kh * TAPS + kw) * plane..][..plane];
                    three[(i * 3 + j) * plane..][..plane].copy_from_slice(from);
                }
            }
            let all = transform_weights(&three, 1, filters, tile)?;
            for a in py..py + products - 1 {
                out.extend_from_slice(&all[(a * products + px) * plane..][..(products - 1) * plane]);
            }
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_applies_to_stride_two_with_one_element_of_padding() {
        let of = |kernel: i64, stride: i64, before: i64| {
            Window::new(kernel).stride(stride).padding(before, before)
        };
        assert!(applies(&[of(4, 2, 1); 2]) && applies(&[of(3, 2, 1); 2]));
        assert!(!applies(&[of(4, 2, 1); 1]) && !applies(&[of(4, 2, 1); 3]));
        for other in
            [of(5, 2, 1), of(2, 2, 1), of(4, 1, 1), of(4, 2, 0), of(4, 2, 2), of(4, 2, 1).dilation(2)]
        {
            assert!(!applies(&[of(4, 2, 1), other]), "{other:?}");
        }
    }

    #[test]
    fn weights_that_do_not_fit_are_refused() {
        assert_eq!(transform_phases(&[1.0; 16], 1, 2).map(|all| all.len()), Some(36));
        assert_eq!(transform_phases(&[1.0; 15], 1, 2), None);
        assert_eq!(transform_phases(&[1.0; 16], 1, 3), None);
        assert_eq!(transform_phases(&[1.0; 16], 1, -2), None);
    }
}
