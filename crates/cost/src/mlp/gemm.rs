//! Matrix products in register tiles, for matrices whose sizes are padded to the tile.
//!
//! Every element of a product is one chain of multiply-adds in the order of the inner index, so results depend on
//! neither the vector width nor the number of threads.

use std::sync::OnceLock;

use super::vector::Vector;

/// Rows of a register tile; matrices on the left have a multiple of so many rows.
pub const ROWS: usize = 8;
/// Columns of a register tile; matrices on the right have a multiple of so many columns.
pub const COLS: usize = 32;

/// The next multiple of [`ROWS`].
pub fn pad_rows(rows: usize) -> usize {
    rows.next_multiple_of(ROWS)
}

/// A matrix that is multiplied with from the right, stored as panels of [`COLS`] columns.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Panels {
    rows: usize,
    cols: usize,
    data: Vec<f32>,
}

impl Panels {
    /// Packs a row-major matrix; `cols` is a multiple of [`COLS`].
    pub fn new(matrix: &[f32], rows: usize, cols: usize) -> Panels {
        let mut panels = Panels { rows, cols, data: vec![0.0; rows * cols] };
        panels.fill(matrix);
        panels
    }

    /// Packs the transpose of a row-major `rows x cols` matrix; `rows` is a multiple of [`COLS`].
    pub fn transposed(matrix: &[f32], rows: usize, cols: usize) -> Panels {
        let mut panels = Panels { rows: cols, cols: rows, data: vec![0.0; rows * cols] };
        panels.fill_transposed(matrix);
        panels
    }

    /// Packs other numbers of the same shape.
    pub fn fill(&mut self, matrix: &[f32]) {
        let (rows, cols) = (self.rows, self.cols);
        assert!(matrix.len() == rows * cols && cols.is_multiple_of(COLS), "a matrix of {rows} x {cols}");
        for (panel, out) in self.data.chunks_exact_mut((rows * COLS).max(1)).enumerate() {
            for (row, out) in out.chunks_exact_mut(COLS).enumerate() {
                out.copy_from_slice(&matrix[row * cols + panel * COLS..][..COLS]);
            }
        }
    }

    /// Packs the transpose of other numbers; the matrix has as many rows as the panels have columns.
    pub fn fill_transposed(&mut self, matrix: &[f32]) {
        let (rows, cols) = (self.rows, self.cols);
        assert!(matrix.len() == rows * cols && cols.is_multiple_of(COLS), "a matrix of {cols} x {rows}");
        for (panel, out) in self.data.chunks_exact_mut((rows * COLS).max(1)).enumerate() {
            for lane in 0..COLS {
                let source = &matrix[(panel * COLS + lane) * rows..][..rows];
                out[lane..].iter_mut().step_by(COLS).zip(source).for_each(|(out, x)| *out = *x);
            }
        }
    }
}

/// Instructions to multiply with.
#[derive(Clone, Copy)]
enum Level {
    #[cfg(target_arch = "x86_64")]
    Avx512,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    Plain,
}

fn level() -> Level {
    static LEVEL: OnceLock<Level> = OnceLock::new();
    *LEVEL.get_or_init(|| {
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("fma") {
                return Level::Avx512;
            }
            if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                return Level::Avx2;
            }
        }
        Level::Plain
    })
}

/// The operands of `out (+)= left * right`, with `left[i, p] = left[i * left_row + p * left_step]` and `right` either
/// panels (`right_step` is [`COLS`]) or row-major.
struct Product<'a> {
    rows: usize,
    inner: usize,
    cols: usize,
    left: &'a [f32],
    left_row: usize,
    left_step: usize,
    right: &'a [f32],
    right_panel: usize,
    right_step: usize,
    out: &'a mut [f32],
    adds: bool,
}

impl Product<'_> {
    fn run(mut self) {
        let Product { rows, inner, cols, .. } = self;
        assert!(rows.is_multiple_of(ROWS) && cols.is_multiple_of(COLS), "{rows} x {cols} is padded");
        assert!(self.out.len() >= rows * cols, "the product has {rows} x {cols} elements");
        if rows == 0 || cols == 0 {
            return;
        }
        if inner > 0 {
            let left = (rows - 1) * self.left_row + (inner - 1) * self.left_step;
            assert!(left < self.left.len(), "the left matrix has {rows} x {inner} elements");
            let right = (cols / COLS - 1) * self.right_panel + (inner - 1) * self.right_step + COLS;
            assert!(right <= self.right.len(), "the right matrix has {inner} x {cols} elements");
        }
        match level() {
            // SAFETY: the features were detected.
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => unsafe { run_avx512(&mut self) },
            // SAFETY: the features were detected.
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => unsafe { run_avx2(&mut self) },
            Level::Plain => run_tiles::<[f32; 4], 4, 2>(&mut self),
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,fma")]
fn run_avx512(product: &mut Product<'_>) {
    run_tiles::<std::arch::x86_64::__m512, ROWS, 2>(product);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn run_avx2(product: &mut Product<'_>) {
    run_tiles::<std::arch::x86_64::__m256, 4, 2>(product);
}

/// Computes tile after tile of `R` rows and `V` vectors; a panel stays in the first cache level while the left matrix
/// passes by.
#[inline(always)]
fn run_tiles<T: Vector, const R: usize, const V: usize>(product: &mut Product<'_>) {
    let Product { rows, inner, cols, left_row, left_step, right_panel, right_step, adds, .. } = *product;
    let (left, right, out) = (product.left.as_ptr(), product.right.as_ptr(), product.out.as_mut_ptr());
    for panel in 0..cols / COLS {
        for row in (0..rows).step_by(R) {
            for part in (0..COLS).step_by(V * T::LANES) {
                // SAFETY: `Product::run` has checked that the last elements of the last tile are inside the three
                // matrices, and all strides are positive, so that every other one is too.
                unsafe {
                    let sums = tile::<T, R, V>(
                        inner,
                        (left.add(row * left_row), left_row, left_step),
                        (right.add(panel * right_panel + part), right_step),
                    );
                    for (i, sums) in sums.into_iter().enumerate() {
                        for (v, sum) in sums.into_iter().enumerate() {
                            let to = out.add((row + i) * cols + panel * COLS + part + v * T::LANES);
                            let sum = if adds { T::load(to).add(sum) } else { sum };
                            sum.store(to);
                        }
                    }
                }
            }
        }
    }
}

/// One tile, its sums in registers. `left` has a stride of rows and one of the inner index, `right` one of the latter.
///
/// # Safety
/// All elements that the strides name must be readable, and the instructions of `T` must exist on this machine.
#[inline(always)]
unsafe fn tile<T: Vector, const R: usize, const V: usize>(
    inner: usize,
    (mut left, left_row, left_step): (*const f32, usize, usize),
    (mut right, right_step): (*const f32, usize),
) -> [[T; V]; R] {
    // SAFETY: the caller vouches for every address and instruction; the pointers step past the last element only after
    // it has been read.
    unsafe {
        let mut sums = [[T::splat(0.0); V]; R];
        for _ in 0..inner {
            let mut columns = [T::splat(0.0); V];
            for (v, column) in columns.iter_mut().enumerate() {
                *column = T::load(right.add(v * T::LANES));
            }
            for (i, sums) in sums.iter_mut().enumerate() {
                let x = T::splat(*left.add(i * left_row));
                for (sum, column) in sums.iter_mut().zip(columns) {
                    *sum = x.mul_add(column, *sum);
                }
            }
            left = left.wrapping_add(left_step);
            right = right.wrapping_add(right_step);
        }
        sums
    }
}

/// `out = left * right`. `left` is row-major with as many columns as `right` has rows; its number of `rows`, and that of
/// `out`, is padded to [`ROWS`].
pub fn multiply(left: &[f32], rows: usize, right: &Panels, out: &mut [f32]) {
    Product {
        rows,
        inner: right.rows,
        cols: right.cols,
        left,
        left_row: right.rows,
        left_step: 1,
        right: &right.data,
        right_panel: right.rows * COLS,
        right_step: COLS,
        out,
        adds: false,
    }
    .run();
}

/// `out += transpose(left) * right`, for the first `rows` rows of row-major matrices of `left_cols` (a multiple of
/// [`ROWS`]) and `right_cols` (a multiple of [`COLS`]) columns.
pub fn add_outer(
    left: &[f32],
    left_cols: usize,
    right: &[f32],
    right_cols: usize,
    rows: usize,
    out: &mut [f32],
) {
    Product {
        rows: left_cols,
        inner: rows,
        cols: right_cols,
        left,
        left_row: 1,
        left_step: left_cols,
        right,
        right_panel: COLS,
        right_step: right_cols,
        out,
        adds: true,
    }
    .run();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Stream;

    fn random(count: usize, key: u64) -> Vec<f32> {
        let mut stream = Stream::new(5, key);
        (0..count).map(|_| stream.unit() - 0.5).collect()
    }

    #[test]
    fn products_are_those_of_the_definition() {
        for (rows, inner, cols) in [(8, 1, 32), (16, 7, 64), (40, 96, 128), (8, 0, 32)] {
            let (left, right) = (random(rows * inner, 1), random(inner * cols, 2));
            let expected = |i: usize, j: usize| {
                (0..inner)
                    .map(|p| f64::from(left[i * inner + p]) * f64::from(right[p * cols + j]))
                    .sum::<f64>()
            };
            let mut out = vec![f32::NAN; rows * cols];
            multiply(&left, rows, &Panels::new(&right, inner, cols), &mut out);
            let columns: Vec<f32> =
                (0..cols * inner).map(|at| right[at % inner * cols + at / inner]).collect();
            let mut again = vec![f32::NAN; rows * cols];
            multiply(&left, rows, &Panels::transposed(&columns, cols, inner), &mut again);
            assert_eq!(out, again);
            let transposed: Vec<f32> =
                (0..inner * rows).map(|at| left[at % rows * inner + at / rows]).collect();
            let mut sums = vec![1.0; rows * cols];
            add_outer(&transposed, rows, &right, cols, inner, &mut sums);
            for (at, (x, sum)) in out.iter().zip(&sums).enumerate() {
                let y = expected(at / cols, at % cols);
                assert!((f64::from(*x) - y).abs() < 1e-5, "{rows} {inner} {cols} at {at}: {x} {y}");
                assert!((f64::from(*sum) - y - 1.0).abs() < 1e-5, "sum at {at}");
            }
        }
    }
}
