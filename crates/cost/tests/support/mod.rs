//! Data the tests share.

use talweg_cost::Matrix;
use talweg_cost::random::Stream;

/// Uniform features in [0, 1).
pub fn uniform(rows: usize, cols: usize, seed: u64) -> Matrix {
    let mut stream = Stream::new(seed, 77);
    Matrix::new(rows, cols, (0..rows * cols).map(|_| stream.unit()).collect()).unwrap()
}

/// A label per row.
pub fn labels(data: &Matrix, of: impl Fn(&[f32]) -> f32) -> Vec<f32> {
    (0..data.rows()).map(|row| of(data.row(row))).collect()
}
