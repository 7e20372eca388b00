//! The matrices of F(m, 3): `y = A^T [(G g) . (B^T d)]` gives `m` outputs of a filter with three taps from `m + 2` inputs
//! by `m + 2` products.
//!
//! They follow from the values of polynomials at `m + 1` points and at infinity (Toom and Cook). The points decide how
//! much rounding errors grow; those here lie close to one and come in pairs `p, -p`, so that sums are shared.

/// Output tiles there are matrices for, along one axis.
pub const TILES: [i64; 3] = [2, 4, 6];

/// The matrices of one tile size.
#[derive(Clone, Debug, PartialEq)]
pub struct Matrices {
    /// `A^T`: a row for each output, a column for each product.
    pub output: Vec<Vec<f64>>,
    /// `G`: a row for each product, a column for each tap.
    pub kernel: Vec<Vec<f64>>,
    /// `B^T`: a row for each product, a column for each input.
    pub input: Vec<Vec<f64>>,
}

/// The finite points of a tile size: zero, then pairs.
fn points(tile: i64) -> Option<&'static [f64]> {
    match tile {
        2 => Some(&[0.0, 1.0, -1.0]),
        4 => Some(&[0.0, 0.75, -0.75, 1.5, -1.5]),
        6 => Some(&[0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5]),
        _ => None,
    }
}

/// The largest error of a convolution relative to the scale of its result that is to be expected of a tile size, in
/// single precision; measured over random data.
pub fn expected_error(tile: i64) -> f64 {
    match tile {
        2 => 2e-6,
        4 => 1e-5,
        _ => 6e-5,
    }
}

impl Matrices {
    /// The matrices of an output tile; `None` when there are none for this size.
    pub fn of(tile: i64) -> Option<Matrices> {
        let points = points(tile)?;
        let (outputs, products) = (tile as usize, tile as usize + 2);
        let mut output = vec![vec![0.0; products]; outputs];
        let mut kernel = vec![vec![0.0; 3]; products];
        let mut input = vec![vec![0.0; products]; products];
        for (at, p) in points.iter().enumerate() {
            let others: Vec<f64> = points.iter().copied().filter(|q| q != p).collect();
            let scale: f64 = others.iter().map(|q| p - q).product();
            for (power, row) in output.iter_mut().enumerate() {
                row[at] = p.powi(power as i32);
            }
            for (power, g) in kernel[at].iter_mut().enumerate() {
                *g = p.powi(power as i32) / scale;
            }
            let coefficients = polynomial(&others);
            input[at][..coefficients.len()].copy_from_slice(&coefficients);
        }
        output[outputs - 1][products - 1] = 1.0;
        kernel[products - 1][2] = 1.0;
        input[products - 1] = polynomial(points);
        Some(Matrices { output, kernel, input })
    }
}

/// The coefficients of the product of `x - root` over all roots, constant first.
fn polynomial(roots: &[f64]) -> Vec<f64> {
    let mut out = vec![1.0];
    for root in roots {
        let mut next = vec![0.0; out.len() + 1];
        for (power, c) in out.iter().enumerate() {
            next[power + 1] += c;
            next[power] -= c * root;
        }
        out = next;
    }
    out
}

/// Weights `[depth, 3, 3, c, f]` as the products take them: `[m + 2, m + 2, depth, c, f]`, computed in double precision.
/// `None` when there are no matrices for the tile or the number of weights does not fit.
pub fn transform_weights(weights: &[f32], depth: usize, filters: usize, tile: i64) -> Option<Vec<f32>> {
    let g = Matrices::of(tile)?.kernel;
    let (products, inner) = (g.len(), filters);
    if depth == 0 || inner == 0 || !weights.len().is_multiple_of(9 * depth * inner) {
        return None;
    }
    let plane = weights.len() / (9 * depth);
    let mut out = vec![0.0; products * products * depth * plane];
    let mut rows = vec![0.0f64; products * 3 * plane];
    for d in 0..depth {
        let taps = &weights[d * 9 * plane..(d + 1) * 9 * plane];
        for (a, row) in g.iter().enumerate() {
            for kw in 0..3 {
                let to = &mut rows[(a * 3 + kw) * plane..(a * 3 + kw + 1) * plane];
                to.fill(0.0);
                for (kh, factor) in row.iter().enumerate().filter(|(_, f)| **f != 0.0) {
                    let from = &taps[(kh * 3 + kw) * plane..(kh * 3 + kw + 1) * plane];
                    to.iter_mut().zip(from).for_each(|(t, w)| *t += factor * f64::from(*w));
                }
            }
        }
        for a in 0..products {
            for (b, row) in g.iter().enumerate() {
                let start = ((a * products + b) * depth + d) * plane;
                let from = |kw: usize| &rows[(a * 3 + kw) * plane..(a * 3 + kw + 1) * plane];
                let (x, y, z) = (from(0), from(1), from(2));
                for (at, to) in out[start..start + plane].iter_mut().enumerate() {
                    *to = (row[0] * x[at] + row[1] * y[at] + row[2] * z[at]) as f32;
                }
            }
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_matrices_filter() {
        for tile in TILES {
            let m = Matrices::of(tile).expect("listed");
            let products = tile as usize + 2;
            let data: Vec<f64> = (0..products).map(|i| (i * i) as f64 - 3.5 * i as f64 + 1.0).collect();
            let taps = [0.5, -2.0, 1.25];
            let dot = |row: &[f64], v: &[f64]| row.iter().zip(v).map(|(a, b)| a * b).sum::<f64>();
            let transformed: Vec<f64> =
                (0..products).map(|p| dot(&m.kernel[p], &taps) * dot(&m.input[p], &data)).collect();
            for (at, row) in m.output.iter().enumerate() {
                let expected = dot(&taps, &data[at..at + 3]);
                let found = dot(row, &transformed);
                assert!((expected - found).abs() < 1e-9, "F({tile}, 3) at {at}: {found} for {expected}");
            }
        }
    }

    #[test]
    fn there_are_no_matrices_for_other_tiles() {
        assert!([-2, 0, 1, 3, 5, 8].into_iter().all(|tile| Matrices::of(tile).is_none()));
        assert_eq!(transform_weights(&[0.0; 9], 1, 1, 3), None);
        assert_eq!(transform_weights(&[0.0; 10], 1, 1, 2), None);
    }
}
