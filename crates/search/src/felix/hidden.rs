//! A small differentiable model: one layer of random hidden units over each store, summed, with an output that is fitted
//! by least squares in one go. It needs no training of its own before the first samples, and few of them.
//!
//! `score = c + sum over stores of (linear . x + output . s(x W + b))`, with `s(z) = z / sqrt(1 + z^2)` and `x` the features
//! that vary, centred and scaled. Weights `W` and `b` are random and stay so.

use talweg_cost::{Batch, CostError, Matrix, Samples};

use crate::Rng;
use crate::felix::scorer::DifferentiableScorer;

/// Labels below this are all as slow: how slow a bad candidate is does not matter.
const SLOWEST: f32 = 0.02;
/// Samples a fit looks at, at most: the latest ones.
const MOST: usize = 768;
/// Spreads below this count as constant.
const LEAST_SPREAD: f64 = 1e-4;

/// The model and how it is fitted.
#[derive(Clone, Debug)]
pub struct HiddenUnits {
    units: usize,
    needed: usize,
    ridge: f64,
    seed: u64,
    fitted: Option<Fitted>,
}

#[derive(Clone, Debug)]
struct Fitted {
    used: Vec<usize>,
    mean: Vec<f32>,
    scale: Vec<f32>,
    /// `used x units`, and its transpose.
    weights: Vec<f32>,
    transposed: Vec<f32>,
    bias: Vec<f32>,
    linear: Vec<f32>,
    output: Vec<f32>,
    constant: f32,
}

impl HiddenUnits {
    /// A model that scores once it has seen `needed` samples.
    pub fn new(units: usize, needed: usize, seed: u64) -> HiddenUnits {
        HiddenUnits { units, needed, ridge: 3e-3, seed, fitted: None }
    }
}

impl Fitted {
    /// Random units over the columns that vary.
    fn new(features: &Matrix, units: usize, seed: u64) -> Fitted {
        let n = features.rows().max(1) as f64;
        let (mut used, mut mean, mut scale) = (Vec::new(), Vec::new(), Vec::new());
        for at in 0..features.cols() {
            let column = || (0..features.rows()).map(|r| f64::from(features.row(r)[at]));
            let average = column().sum::<f64>() / n;
            let spread = (column().map(|x| (x - average).powi(2)).sum::<f64>() / n).sqrt();
            if spread > LEAST_SPREAD && spread.is_finite() {
                used.push(at);
                mean.push(average as f32);
                scale.push((1.0 / spread) as f32);
            }
        }
        let mut rng = Rng::new(seed);
        let size = 1.5 * 3f64.sqrt() / (used.len().max(1) as f64).sqrt();
        let mut draw = |size: f64| ((2.0 * rng.unit() - 1.0) * size) as f32;
        let weights: Vec<f32> = (0..used.len() * units).map(|_| draw(size)).collect();
        let bias = (0..units).map(|_| draw(2.0)).collect();
        let count = used.len();
        let transposed = (0..units * count).map(|at| weights[(at % count) * units + at / count]).collect();
        let (linear, output) = (vec![0.0; count], vec![0.0; units]);
        Fitted { used, mean, scale, weights, transposed, bias, linear, output, constant: 0.0 }
    }

    fn read(&self, row: &[f32], out: &mut [f32]) {
        for (((out, at), mean), scale) in out.iter_mut().zip(&self.used).zip(&self.mean).zip(&self.scale) {
            // Far from all samples there is nothing to be learnt from a feature but its direction.
            *out = ((row[*at] - mean) * scale).clamp(-8.0, 8.0);
        }
    }

    /// What the fitted part sees of a program: sums of inputs and of hidden units.
    fn describe(&self, batch: &Batch<'_>, program: usize, out: &mut [f32]) {
        let (inputs, units) = (self.used.len(), self.bias.len());
        out.fill(0.0);
        let (mut x, mut z) = (vec![0.0; inputs], vec![0.0; units]);
        for row in batch.offsets[program]..batch.offsets[program + 1] {
            self.read(batch.features.row(row), &mut x);
            z.copy_from_slice(&self.bias);
            multiply(&x, &self.weights, &mut z);
            out[..inputs].iter_mut().zip(&x).for_each(|(o, x)| *o += x);
            out[inputs..].iter_mut().zip(&z).for_each(|(o, z)| *o += z / (1.0 + z * z).sqrt());
        }
    }

    /// The score of a store without the constant; with `slopes`, its derivatives by all features.
    fn score(&self, row: &[f32], work: &mut Work, slopes: Option<&mut [f32]>) -> f32 {
        let Work { x, z, d } = work;
        self.read(row, x);
        z.copy_from_slice(&self.bias);
        multiply(x, &self.weights, z);
        let mut score: f32 = x.iter().zip(&self.linear).map(|(x, w)| x * w).sum();
        for ((z, d), w) in z.iter().zip(d.iter_mut()).zip(&self.output) {
            let inverse = 1.0 / (1.0 + z * z).sqrt();
            score += w * z * inverse;
            *d = w * inverse * inverse * inverse;
        }
        if let Some(slopes) = slopes {
            x.copy_from_slice(&self.linear);
            multiply(d, &self.transposed, x);
            slopes.fill(0.0);
            for ((at, x), scale) in self.used.iter().zip(x.iter()).zip(&self.scale) {
                slopes[*at] = x * scale;
            }
        }
        score
    }
}

/// Numbers on the way from a row to its score.
struct Work {
    x: Vec<f32>,
    z: Vec<f32>,
    d: Vec<f32>,
}

/// Adds `x W` to `out`; `W` has a row for each of `x`.
fn multiply(x: &[f32], weights: &[f32], out: &mut [f32]) {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") {
            // SAFETY: the feature was just found.
            return unsafe { multiply_avx512(x, weights, out) };
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the feature was just found.
            return unsafe { multiply_avx2(x, weights, out) };
        }
    }
    multiply_any(x, weights, out);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn multiply_avx512(x: &[f32], weights: &[f32], out: &mut [f32]) {
    multiply_any(x, weights, out);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn multiply_avx2(x: &[f32], weights: &[f32], out: &mut [f32]) {
    multiply_any(x, weights, out);
}

#[inline(always)]
fn multiply_any(x: &[f32], weights: &[f32], out: &mut [f32]) {
    let width = out.len().max(1);
    // Four rows at a time, so that sums are loaded and stored less often.
    let (fours, rest) = x.as_chunks::<4>();
    let mut rows = weights.chunks_exact(4 * width);
    for (x, four) in fours.iter().zip(&mut rows) {
        let (a, four) = four.split_at(width);
        let (b, four) = four.split_at(width);
        let (c, d) = four.split_at(width);
        for ((((o, a), b), c), d) in out.iter_mut().zip(a).zip(b).zip(c).zip(d) {
            *o += (x[0] * a + x[1] * b) + (x[2] * c + x[3] * d);
        }
    }
    for (x, row) in rest.iter().zip(rows.remainder().chunks_exact(width)) {
        out.iter_mut().zip(row).for_each(|(o, w)| *o += x * w);
    }
}

/// Solves `matrix x = rhs` for a positive definite matrix, in place, by Cholesky's decomposition.
fn solve(matrix: &mut [f64], rhs: &mut [f64]) {
    let n = rhs.len();
    for j in 0..n {
        for i in j..n {
            let (a, b) = (i * n, j * n);
            let dot: f64 = (0..j).map(|k| matrix[a + k] * matrix[b + k]).sum();
            let rest = matrix[a + j] - dot;
            matrix[a + j] = if i == j { rest.max(1e-12).sqrt() } else { rest / matrix[b + j] };
        }
    }
    for i in 0..n {
        let dot: f64 = (0..i).map(|k| matrix[i * n + k] * rhs[k]).sum();
        rhs[i] = (rhs[i] - dot) / matrix[i * n + i];
    }
    for i in (0..n).rev() {
        let dot: f64 = (i + 1..n).map(|k| matrix[k * n + i] * rhs[k]).sum();
        rhs[i] = (rhs[i] - dot) / matrix[i * n + i];
    }
}

impl DifferentiableScorer for HiddenUnits {
    fn fit(&mut self, samples: &Samples<'_>) -> Result<(), CostError> {
        let total = samples.labels.len();
        if total < self.needed.max(2) {
            self.fitted = None;
            return Ok(());
        }
        let mut fitted = Fitted::new(samples.programs.features, self.units, self.seed);
        let first = total.saturating_sub(MOST);
        let n = total - first;
        let width = fitted.used.len() + self.units;
        let mut rows = vec![0.0f32; n * width];
        for (p, row) in rows.chunks_exact_mut(width.max(1)).enumerate() {
            fitted.describe(&samples.programs, first + p, row);
        }
        let labels = &samples.labels[first..];
        let weight = |label: f32| f64::from(0.05 + label.clamp(0.0, 1.0));
        let goal = |label: f32| f64::from(label.max(SLOWEST).ln());
        let all: f64 = labels.iter().map(|l| weight(*l)).sum();
        let mean_goal = labels.iter().map(|l| weight(*l) * goal(*l)).sum::<f64>() / all;
        // Columns centred and scaled, so that one ridge suits all.
        let (mut centre, mut spread) = (vec![0.0f64; width], vec![0.0f64; width]);
        for (row, label) in rows.chunks_exact(width.max(1)).zip(labels) {
            centre.iter_mut().zip(row).for_each(|(c, x)| *c += weight(*label) * f64::from(*x) / all);
        }
        for row in rows.chunks_exact(width.max(1)) {
            let add = |((s, c), x): ((&mut f64, &f64), &f32)| *s += (f64::from(*x) - c).powi(2) / n as f64;
            spread.iter_mut().zip(&centre).zip(row).for_each(add);
        }
        spread.iter_mut().for_each(|s| *s = if *s > 1e-10 { 1.0 / s.sqrt() } else { 0.0 });
        for row in rows.chunks_exact_mut(width.max(1)) {
            for ((x, c), s) in row.iter_mut().zip(&centre).zip(&spread) {
                *x = ((f64::from(*x) - c) * s) as f32;
            }
        }
        // The dual problem has one unknown for each sample.
        let mut kernel = vec![0.0f64; n * n];
        for i in 0..n {
            let a = &rows[i * width..][..width];
            for j in 0..=i {
                let b = &rows[j * width..][..width];
                let dot: f32 = a.iter().zip(b).map(|(a, b)| a * b).sum();
                kernel[i * n + j] = f64::from(dot) / width.max(1) as f64;
            }
            kernel[i * n + i] += self.ridge / weight(labels[i]);
        }
        let mut alpha: Vec<f64> = labels.iter().map(|l| goal(*l) - mean_goal).collect();
        solve(&mut kernel, &mut alpha);
        let mut beta = vec![0.0f64; width];
        for (row, a) in rows.chunks_exact(width.max(1)).zip(&alpha) {
            beta.iter_mut().zip(row).for_each(|(b, x)| *b += a * f64::from(*x) / width as f64);
        }
        beta.iter_mut().zip(&spread).for_each(|(b, s)| *b *= s);
        let shift: f64 = beta.iter().zip(&centre).map(|(b, c)| b * c).sum();
        fitted.constant = (mean_goal - shift) as f32;
        let inputs = fitted.used.len();
        fitted.linear = beta[..inputs].iter().map(|b| *b as f32).collect();
        fitted.output = beta[inputs..].iter().map(|b| *b as f32).collect();
        self.fitted = Some(fitted);
        Ok(())
    }

    fn is_trained(&self) -> bool {
        self.fitted.is_some()
    }

    fn predict(&self, programs: &Batch<'_>) -> Result<Vec<f32>, CostError> {
        Ok(self.run(programs, None))
    }

    fn gradient(&self, programs: &Batch<'_>) -> Result<(Vec<f32>, Matrix), CostError> {
        let (rows, cols) = (programs.features.rows(), programs.features.cols());
        let mut slopes = vec![0.0; rows * cols];
        let scores = self.run(programs, Some(&mut slopes));
        Ok((scores, Matrix::new(rows, cols, slopes)?))
    }
}

impl HiddenUnits {
    fn run(&self, programs: &Batch<'_>, mut slopes: Option<&mut [f32]>) -> Vec<f32> {
        let count = programs.offsets.len().saturating_sub(1);
        let Some(fitted) = &self.fitted else { return vec![0.0; count] };
        let cols = programs.features.cols();
        let mut work =
            Work { x: vec![0.0; fitted.used.len()], z: vec![0.0; self.units], d: vec![0.0; self.units] };
        let mut score = |p: usize| {
            let rows = programs.offsets[p]..programs.offsets[p + 1];
            let of = |row: usize| {
                let slopes = slopes.as_deref_mut().map(|s| &mut s[row * cols..][..cols]);
                fitted.score(programs.features.row(row), &mut work, slopes)
            };
            fitted.constant + rows.map(of).sum::<f32>()
        };
        (0..count).map(&mut score).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Programs of two rows, each of which slows them down by a function of its features: what a sum over rows can learn.
    fn data(n: usize, seed: u64) -> (Matrix, Vec<usize>, Vec<f32>) {
        let mut rng = Rng::new(seed);
        let (mut data, mut labels) = (Vec::new(), Vec::new());
        for _ in 0..n {
            let rows: Vec<f32> = (0..8).map(|_| (4.0 * rng.unit()) as f32).collect();
            let cost = |row: &[f32]| 0.3 * (row[0] - 2.0).powi(2) + 0.2 * (row[1] - 1.0).abs();
            labels.push((-rows.chunks(4).map(cost).sum::<f32>()).exp());
            data.extend(rows);
        }
        (Matrix::new(2 * n, 4, data).expect("eight numbers each"), (0..=n).map(|p| 2 * p).collect(), labels)
    }

    fn fitted() -> HiddenUnits {
        let (features, offsets, labels) = data(200, 1);
        let mut model = HiddenUnits::new(64, 10, 5);
        assert!(!model.is_trained());
        let programs = Batch { features: &features, offsets: &offsets };
        model.fit(&Samples { programs, labels: &labels, tasks: &[] }).expect("a fit");
        model
    }

    #[test]
    fn it_orders_programs_it_has_not_seen() {
        let model = fitted();
        let (features, offsets, labels) = data(100, 2);
        let scores = model.predict(&Batch { features: &features, offsets: &offsets }).expect("scores");
        let (mut right, mut all) = (0, 0);
        for i in 0..100 {
            for j in 0..i {
                all += 1;
                right += usize::from((scores[i] > scores[j]) == (labels[i] > labels[j]));
            }
        }
        assert!(right * 100 > all * 85, "{right} of {all} pairs");
    }

    #[test]
    fn slopes_are_finite_differences() {
        let model = fitted();
        let (features, offsets, _) = data(5, 3);
        let (scores, slopes) =
            model.gradient(&Batch { features: &features, offsets: &offsets }).expect("slopes");
        for at in 0..features.data().len() {
            let mut moved = features.data().to_vec();
            moved[at] += 1e-2;
            let moved = Matrix::new(10, 4, moved).expect("the same shape");
            let up = model.predict(&Batch { features: &moved, offsets: &offsets }).expect("scores");
            let p = at / 8;
            let found = (up[p] - scores[p]) / 1e-2;
            assert!((found - slopes.data()[at]).abs() < 0.05, "{at}: {found} {}", slopes.data()[at]);
        }
    }
}
