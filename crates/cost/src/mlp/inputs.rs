//! From feature rows to what a network sees: columns that vary, centred and scaled.

use std::ops::Range;

use crate::error::CostError;
use crate::matrix::Matrix;

/// Values whose spread is below this are taken for constant.
const LEAST_SPREAD: f64 = 1e-4;

/// How rows are read. Numbers that are not finite count as the mean.
#[derive(Clone, Debug, PartialEq)]
pub struct Inputs {
    /// Columns of a full row.
    pub(super) width: usize,
    /// The columns that are used.
    pub(super) used: Vec<u32>,
    /// The mean of each used column.
    pub(super) mean: Vec<f32>,
    /// One over the spread of each used column.
    pub(super) scale: Vec<f32>,
    /// What follows shorter rows, so that they are full.
    pub(super) context: Vec<f32>,
}

impl Inputs {
    /// Reads rows as it suits these.
    pub fn of(features: &Matrix) -> Result<Inputs, CostError> {
        let width = features.cols();
        if width == 0 || features.rows() == 0 {
            let what = if width == 0 { "feature columns" } else { "feature rows" };
            return Err(CostError::Empty { what });
        }
        let (mut count, mut sum, mut squares) = (vec![0u64; width], vec![0.0f64; width], vec![0.0; width]);
        for row in features.data().chunks_exact(width) {
            for (at, x) in row.iter().map(|x| f64::from(*x)).enumerate().filter(|(_, x)| x.is_finite()) {
                count[at] += 1;
                sum[at] += x;
                squares[at] += x * x;
            }
        }
        let mut inputs =
            Inputs { width, used: Vec::new(), mean: Vec::new(), scale: Vec::new(), context: Vec::new() };
        for at in 0..width {
            let n = count[at].max(1) as f64;
            let mean = sum[at] / n;
            let spread = (squares[at] / n - mean * mean).max(0.0).sqrt();
            if spread > LEAST_SPREAD {
                inputs.used.push(at as u32);
                inputs.mean.push(mean as f32);
                inputs.scale.push((1.0 / spread) as f32);
            }
        }
        Ok(inputs)
    }

    /// Checks that rows of so many columns can be read.
    pub fn check(&self, cols: usize) -> Result<(), CostError> {
        match cols == self.width || cols + self.context.len() == self.width {
            true => Ok(()),
            false => Err(CostError::Columns { model: self.width - self.context.len(), data: cols }),
        }
    }

    /// Writes some rows as the network sees them, `padded` numbers each.
    pub(super) fn read(&self, features: &Matrix, rows: Range<usize>, padded: usize, out: &mut [f32]) {
        for (row, out) in rows.zip(out.chunks_exact_mut(padded)) {
            let row = features.row(row);
            for (((out, at), mean), scale) in out.iter_mut().zip(&self.used).zip(&self.mean).zip(&self.scale)
            {
                let at = *at as usize;
                let x = row.get(at).or_else(|| self.context.get(at - row.len())).copied().unwrap_or(*mean);
                let x = (x - mean) * scale;
                *out = if x.is_finite() { x } else { 0.0 };
            }
            out[self.used.len()..].fill(0.0);
        }
    }

    /// Turns derivatives by what the network sees into derivatives by the columns of a row.
    pub(super) fn write_gradient(&self, seen: &[f32], out: &mut [f32]) {
        out.fill(0.0);
        for ((at, x), scale) in self.used.iter().zip(seen).zip(&self.scale) {
            if let Some(out) = out.get_mut(*at as usize) {
                *out = x * scale;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constant_columns_are_left_out() {
        let features = Matrix::new(2, 3, vec![1.0, 5.0, f32::NAN, 3.0, 5.0, f32::INFINITY]).unwrap();
        let inputs = Inputs::of(&features).unwrap();
        assert_eq!(
            (&inputs.used[..], &inputs.mean[..], &inputs.scale[..]),
            (&[0][..], &[2.0][..], &[1.0][..])
        );
        let mut seen = [f32::NAN; 4];
        inputs.read(&features, 0..2, 2, &mut seen);
        assert_eq!(seen, [-1.0, 0.0, 1.0, 0.0]);
        assert!(Inputs::of(&Matrix::with_cols(3)).is_err());
        assert!(Inputs::of(&Matrix::with_cols(0)).is_err());
    }

    #[test]
    fn context_completes_short_rows() {
        let features = Matrix::new(2, 2, vec![0.0, 0.0, 2.0, 2.0]).unwrap();
        let mut inputs = Inputs::of(&features).unwrap();
        assert!(inputs.check(2).is_ok() && inputs.check(1).is_err());
        inputs.context = vec![2.0];
        assert!(inputs.check(2).is_ok() && inputs.check(1).is_ok());
        let mut seen = [f32::NAN; 2];
        inputs.read(&Matrix::new(1, 1, vec![0.0]).unwrap(), 0..1, 2, &mut seen);
        assert_eq!(seen, [-1.0, 1.0]);
        let mut gradient = [f32::NAN];
        inputs.write_gradient(&[3.0, 4.0], &mut gradient);
        assert_eq!(gradient, [3.0]);
    }
}
