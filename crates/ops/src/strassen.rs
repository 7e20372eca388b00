//! Matrix products by Strassen's scheme, in Winograd's form: both operands and the result in quarters, seven products of
//! quarters instead of eight, and sums before and behind them.
//!
//! The left operand's rows are taken in pairs and its columns in halves, so that neighbouring rows of the result are
//! computed together. What the right operand contributes is known when it is a constant: [`combine_weights`].

use talweg_expr::Expr;
use talweg_ir::{Dag, Reducer, Scalar, TensorId};

use crate::error::OpError;
use crate::typing::{expect_extent, fresh, shape_with_rank};
use crate::view::View;

/// The stages of the scheme by name; schedules know them by their form.
pub mod stages {
    /// The left operand's sums, one for each product.
    pub const INPUT: &str = "strassen.input";
    /// The products of quarters.
    pub const PRODUCT: &str = "strassen.product";
    /// The result.
    pub const OUTPUT: &str = "matmul";
}

/// How many products of quarters there are.
pub const PRODUCTS: usize = 7;

/// The left operand's sums as factors of its quarters: the first row of a pair in both halves, then the second.
const LEFT: [[i8; 4]; PRODUCTS] =
    [[1, 0, 0, 0], [0, 1, 0, 0], [1, 1, -1, -1], [0, 0, 0, 1], [0, 0, 1, 1], [-1, 0, 1, 1], [1, 0, -1, 0]];

/// The right operand's sums as factors of its quarters: the upper half of its rows in both halves of the columns, then the
/// lower.
const RIGHT: [[i8; 4]; PRODUCTS] =
    [[1, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1], [1, -1, -1, 1], [-1, 1, 0, 0], [1, -1, 0, 1], [0, -1, 0, 1]];

/// The largest error of a product relative to the scale of its result that is to be expected, in single precision: random
/// products of up to 3,000 terms stay below it.
pub const EXPECTED_ERROR: f64 = 4e-6;

/// Whether the scheme applies to a product of these extents: halves of everything are whole.
pub fn applies(rows: i64, columns: i64, depth: i64) -> bool {
    [rows, columns, depth].iter().all(|extent| *extent > 0 && extent % 2 == 0)
}

/// A product of `a`: `[m, k]` and weights `u` of [`combine_weights`]: `[7, k / 2, n / 2]`.
///
/// ```text
/// strassen.input[q, i, k]   = sum[p, l] LEFT[q, p, l] * A[i * 2 + p, l * K / 2 + k]
/// strassen.product[q, i, j] = sum[k] strassen.input[q, i, k] * U[q, k, j]
/// matmul[i, p, h, j]        = sum of some of strassen.product[q, i, j]
/// ```
///
/// The result is seen as `[m, n]`: `i * 2 + p` and `h * N / 2 + j`. Sums are written out, one formula for each value of
/// `q`, `p` and `h`, chosen by selects that vanish where the loop is unrolled.
pub fn strassen(dag: &mut Dag, a: TensorId, u: TensorId) -> Result<View, OpError> {
    let operator = "strassen";
    let left = shape_with_rank(dag, a, 2, operator)?;
    let right = shape_with_rank(dag, u, 3, operator)?;
    if !applies(left[0], 2, left[1]) {
        let what = "the remainder of rows and reduction by two".to_string();
        return Err(OpError::Range { operator, what, found: 1, min: 0, max: 0 });
    }
    let (rows, depth, columns) = (left[0] / 2, left[1] / 2, right[2]);
    let products = PRODUCTS as i64;
    expect_extent(dag, u, operator, "the number of products", products, right[0])?;
    expect_extent(dag, u, operator, "half of the reduction", depth, right[1])?;

    let name = fresh(dag, stages::INPUT);
    let input = dag.compute(&name, &[("q", products), ("i", rows), ("k", depth)], |at| {
        let quarter = |which: usize| {
            let row = at[1].clone() * 2 + (which / 2) as i64;
            Scalar::Read(a, vec![row, at[2].clone() + depth * (which % 2) as i64])
        };
        let value = |factors: &[i8; 4]| sum(factors.iter().enumerate().map(|(w, f)| (*f, quarter(w))));
        choose(&at[0], LEFT.iter().map(value).collect())
    });
    let name = fresh(dag, stages::PRODUCT);
    let axes = [("q", products), ("i", rows), ("j", columns)];
    let product = dag.reduce(&name, &axes, Reducer::Sum, &[("k", depth)], |at, over| {
        let (q, i, j, k) = (at[0].clone(), at[1].clone(), at[2].clone(), over[0].clone());
        Scalar::Read(input, vec![q.clone(), i, k.clone()]) * Scalar::Read(u, vec![q, k, j])
    });
    let name = fresh(dag, stages::OUTPUT);
    let axes = [("i", rows), ("p", 2), ("h", 2), ("j", columns)];
    let output = dag.compute(&name, &axes, |at| {
        let part = |q: i64| Scalar::Read(product, vec![Expr::int(q), at[0].clone(), at[3].clone()]);
        let both = || part(0) + part(5);
        let third = || both() + part(6);
        let first_row = choose(&at[2], vec![part(0) + part(1), both() + part(4) + part(2)]);
        let second_row = choose(&at[2], vec![third() - part(3), third() + part(4)]);
        choose(&at[1], vec![first_row, second_row])
    });
    View::merged(dag, output, vec![2, 2])
}

/// The formula number `which`.
fn choose(which: &Expr, formulas: Vec<Scalar>) -> Scalar {
    let mut rest = formulas.into_iter().enumerate().rev();
    let last = rest.next().map_or(Scalar::f32(0.0), |(_, f)| f);
    rest.fold(last, |otherwise, (at, formula)| {
        Scalar::select(Scalar::predicate(which.eq_expr(&Expr::int(at as i64))), formula, otherwise)
    })
}

/// The sum of values with a factor of one less those with a factor of minus one.
fn sum(terms: impl Iterator<Item = (i8, Scalar)>) -> Scalar {
    let mut terms: Vec<(i8, Scalar)> = terms.filter(|(factor, _)| *factor != 0).collect();
    terms.sort_by_key(|(factor, _)| -factor);
    let mut terms = terms.into_iter().map(|(factor, value)| (factor > 0, value));
    let first = terms.next().map_or(Scalar::f32(0.0), |(_, value)| value);
    terms.fold(first, |sum, (plus, value)| if plus { sum + value } else { sum - value })
}

/// Weights `[k, n]` as the products take them: `[7, k / 2, n / 2]`. `None` when there are no halves.
pub fn combine_weights(weights: &[f32], columns: usize) -> Option<Vec<f32>> {
    let depth = weights.len().checked_div(columns)?;
    if weights.len() != depth * columns || !applies(2, columns as i64, depth as i64) {
        return None;
    }
    let half = columns / 2;
    let mut out = Vec::with_capacity(PRODUCTS * (depth / 2) * half);
    for factors in &RIGHT {
        for k in 0..depth / 2 {
            let row = |which: usize| {
                let start = (k + which / 2 * (depth / 2)) * columns + which % 2 * half;
                &weights[start..start + half]
            };
            let terms: Vec<(f64, &[f32])> = factors
                .iter()
                .enumerate()
                .filter(|(_, f)| **f != 0)
                .map(|(which, f)| (f64::from(*f), row(which)))
                .collect();
            out.extend(
                (0..half).map(|j| terms.iter().map(|(f, row)| f * f64::from(row[j])).sum::<f64>() as f32),
            );
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use talweg_ir::interp::eval_dag;
    use talweg_ir::{Array, DType};

    use super::*;

    /// The largest difference to the product by definition, relative to the largest result.
    fn error(rows: usize, columns: usize, depth: usize, seed: u64) -> f64 {
        let a = Array::random(DType::F32, &[rows, depth], seed);
        let b = Array::random(DType::F32, &[depth, columns], seed + 1);
        let weights: Vec<f32> = (0..b.len()).map(|at| b.get_f64(at) as f32).collect();
        let combined = combine_weights(&weights, columns).expect("even");
        let shape = [PRODUCTS, depth / 2, columns / 2];
        let combined = Array::from_f32(DType::F32, &shape, &combined).expect("as many");
        let mut dag = Dag::new("strassen");
        let left = dag.input("A", DType::F32, &[rows as i64, depth as i64]);
        let right = dag.constant("U", DType::F32, &shape.map(|e| e as i64));
        let out = strassen(&mut dag, left, right).expect("even");
        assert_eq!(out.shape, [rows as i64, columns as i64]);
        dag.mark_output(out.tensor);
        let found = eval_dag(&dag, &[(left, a.clone()), (right, combined)]).expect("legal").remove(0).1;
        let (mut scale, mut largest) = (0.0f64, 0.0f64);
        for at in 0..found.len() {
            let (i, j) = (at / columns, at % columns);
            let products = (0..depth).map(|k| a.get_f64(i * depth + k) * b.get_f64(k * columns + j));
            let expected: f64 = products.sum();
            scale = scale.max(expected.abs());
            largest = largest.max((expected - found.get_f64(at)).abs());
        }
        largest / scale
    }

    #[test]
    fn it_is_the_product_within_the_error_it_claims() {
        let extents = [(2, 2, 2), (4, 6, 2), (6, 10, 34), (50, 12, 200), (16, 16, 3000)];
        for (case, (rows, columns, depth)) in extents.into_iter().enumerate() {
            let found = error(rows, columns, depth, case as u64);
            assert!(found <= EXPECTED_ERROR, "{rows}x{columns}x{depth}: error {found}");
        }
    }

    #[test]
    fn odd_extents_are_refused() {
        assert!(!applies(3, 2, 2) && !applies(2, 3, 2) && !applies(2, 2, 3) && !applies(0, 2, 2));
        assert_eq!(combine_weights(&[0.0; 6], 3), None);
        assert_eq!(combine_weights(&[0.0; 6], 2), None);
        assert_eq!(combine_weights(&[0.0; 6], 0), None);
        let mut dag = Dag::new("odd");
        let a = dag.input("A", DType::F32, &[3, 4]);
        let u = dag.constant("U", DType::F32, &[7, 2, 4]);
        assert!(matches!(strassen(&mut dag, a, u), Err(OpError::Range { .. })));
    }
}
