//! A blocked matrix product, which products, convolutions and sums of products come down to.

use crate::number::Number;

/// Columns that are accumulated together.
const COLUMNS: usize = 128;
/// Rows that share a pass over the right-hand side.
const ROWS: usize = 4;

/// `out[m, n] = init(row) + a[m, k] @ b[k, n]`, accumulated in the wider type.
pub(super) fn gemm<T: Number>(
    (m, k, n): (usize, usize, usize),
    a: &[T],
    b: &[T],
    out: &mut [T],
    init: impl Fn(usize) -> T::Sum,
) {
    for left in (0..n).step_by(COLUMNS) {
        let width = COLUMNS.min(n - left);
        for top in (0..m).step_by(ROWS) {
            let height = ROWS.min(m - top);
            let mut sums = [[T::Sum::ZERO; COLUMNS]; ROWS];
            for (i, row) in sums[..height].iter_mut().enumerate() {
                row[..width].fill(init(top + i));
            }
            for depth in 0..k {
                let right = &b[depth * n + left..][..width];
                for (i, row) in sums[..height].iter_mut().enumerate() {
                    let factor = a[(top + i) * k + depth].widen();
                    for (sum, value) in row[..width].iter_mut().zip(right) {
                        *sum = sum.add(factor.mul(value.widen()));
                    }
                }
            }
            for (i, row) in sums[..height].iter().enumerate() {
                let target = &mut out[(top + i) * n + left..][..width];
                target.iter_mut().zip(row).for_each(|(target, &sum)| *target = T::narrow(sum));
            }
        }
    }
}
