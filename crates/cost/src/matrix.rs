//! Feature rows, and how consecutive rows form programs.

use crate::error::CostError;

/// A dense row-major matrix of features; one row per stored buffer of a program.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Matrix {
    rows: usize,
    cols: usize,
    data: Vec<f32>,
}

impl Matrix {
    /// Wraps row-major `data` of `rows * cols` values.
    pub fn new(rows: usize, cols: usize, data: Vec<f32>) -> Result<Matrix, CostError> {
        let expected = rows.saturating_mul(cols);
        if data.len() != expected {
            return Err(CostError::Shape { what: "matrix data", expected, found: data.len() });
        }
        Ok(Matrix { rows, cols, data })
    }

    /// A matrix without rows, to be filled by [`Matrix::push_row`].
    pub fn with_cols(cols: usize) -> Matrix {
        Matrix { rows: 0, cols, data: Vec::new() }
    }

    /// Appends one row.
    pub fn push_row(&mut self, row: &[f32]) -> Result<(), CostError> {
        if row.len() != self.cols {
            return Err(CostError::Shape { what: "matrix row", expected: self.cols, found: row.len() });
        }
        self.data.extend_from_slice(row);
        self.rows += 1;
        Ok(())
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// All values, row after row.
    pub fn data(&self) -> &[f32] {
        &self.data
    }

    /// One row. The index must be below [`Matrix::rows`].
    pub fn row(&self, index: usize) -> &[f32] {
        &self.data[index * self.cols..(index + 1) * self.cols]
    }
}

/// Offsets for programs of one row each: the identity grouping.
pub fn one_row_each(rows: usize) -> Vec<usize> {
    (0..=rows).collect()
}

/// Checks that `offsets` cuts `rows` rows into consecutive programs (`offsets[p]..offsets[p + 1]`), and
/// returns the number of programs. A program may have no rows; its score is then its margin.
pub fn count_programs(offsets: &[usize], rows: usize) -> Result<usize, CostError> {
    let Some((&last, _)) = offsets.split_last() else {
        return Err(CostError::Empty { what: "program offsets" });
    };
    if offsets[0] != 0 {
        return Err(CostError::Offsets { index: 0, value: offsets[0], rows });
    }
    if let Some(index) = (1..offsets.len()).find(|&i| offsets[i] < offsets[i - 1] || offsets[i] > rows) {
        return Err(CostError::Offsets { index, value: offsets[index], rows });
    }
    if last != rows {
        return Err(CostError::Offsets { index: offsets.len() - 1, value: last, rows });
    }
    Ok(offsets.len() - 1)
}

/// The score of each program: its margin plus the sum of its rows' predictions.
pub(crate) fn sum_programs(rows: &[f32], offsets: &[usize], margin: Option<&[f32]>) -> Vec<f32> {
    offsets
        .windows(2)
        .enumerate()
        .map(|(program, range)| {
            let sum: f32 = rows[range[0]..range[1]].iter().sum();
            margin.map_or(sum, |margin| margin[program] + sum)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_must_fill_the_matrix() {
        assert!(Matrix::new(2, 3, vec![0.0; 6]).is_ok());
        assert_eq!(
            Matrix::new(2, 3, vec![0.0; 5]),
            Err(CostError::Shape { what: "matrix data", expected: 6, found: 5 })
        );
        let mut matrix = Matrix::with_cols(2);
        matrix.push_row(&[1.0, 2.0]).unwrap();
        assert!(matrix.push_row(&[1.0]).is_err());
        assert_eq!((matrix.rows(), matrix.row(0)), (1, &[1.0, 2.0][..]));
    }

    #[test]
    fn offsets_partition_rows() {
        assert_eq!(count_programs(&[0, 2, 2, 5], 5), Ok(3));
        assert_eq!(count_programs(&[], 5), Err(CostError::Empty { what: "program offsets" }));
        assert_eq!(count_programs(&[1, 5], 5), Err(CostError::Offsets { index: 0, value: 1, rows: 5 }));
        assert_eq!(count_programs(&[0, 3, 2, 5], 5), Err(CostError::Offsets { index: 2, value: 2, rows: 5 }));
        assert_eq!(count_programs(&[0, 9, 5], 5), Err(CostError::Offsets { index: 1, value: 9, rows: 5 }));
        assert_eq!(count_programs(&[0, 4], 5), Err(CostError::Offsets { index: 1, value: 4, rows: 5 }));
    }

    #[test]
    fn scores_are_sums_over_a_program() {
        let sums = sum_programs(&[1.0, 2.0, 4.0], &[0, 2, 2, 3], None);
        assert_eq!(sums, [3.0, 0.0, 4.0]);
        let sums = sum_programs(&[1.0, 2.0, 4.0], &[0, 2, 2, 3], Some(&[10.0, 20.0, 30.0]));
        assert_eq!(sums, [13.0, 20.0, 34.0]);
    }
}
