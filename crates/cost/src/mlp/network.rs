//! The network: scores of programs, and their derivatives by the features.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use super::inputs::Inputs;
use super::pass::{Packed, Pass};
use super::shape::Shape;
use crate::error::CostError;
use crate::matrix::{Matrix, count_programs};
use crate::model::Batch;

/// Rows that pass the layers together: few enough for the numbers between layers to stay in the second cache level.
const BLOCK: usize = 256;
/// Rows below which another thread is not worth its start.
const ROWS_PER_THREAD: usize = 512;

/// A network that scores programs: `score = head(sum over stores of encoder(features of the store))`. Larger is faster,
/// and within one task a difference of scores is the logarithm of a ratio of speeds.
///
/// The encoder has two rectified layers, the head two residual ones. It is differentiable (almost) everywhere.
#[derive(Clone, Debug, PartialEq)]
pub struct Mlp {
    pub(super) inputs: Inputs,
    pub(super) shape: Shape,
    pub(super) parameters: Vec<f32>,
    pub(super) packed: Packed,
}

/// A thread's share of a batch: its programs, and where their results go.
struct Share<'a> {
    programs: Range<usize>,
    scores: &'a mut [f32],
    rows: &'a mut [f32],
}

/// What is done to the programs of one share: their scores, and a row of numbers for each store.
type Work<'a> = dyn Fn(&mut Pass, Range<usize>, &mut [f32], &mut [f32]) + Sync + 'a;

impl Mlp {
    /// A network with random weights; `hidden` is a multiple of 32.
    pub fn new(inputs: Inputs, hidden: usize, seed: u64) -> Result<Mlp, CostError> {
        let shape = Shape::new(inputs.used.len(), hidden)?;
        let parameters = shape.initial(inputs.used.len(), seed);
        Mlp::with_parameters(inputs, shape, parameters)
    }

    /// A network with the given weights.
    pub(super) fn with_parameters(
        inputs: Inputs,
        shape: Shape,
        parameters: Vec<f32>,
    ) -> Result<Mlp, CostError> {
        if parameters.len() != shape.len {
            let (expected, found) = (shape.len, parameters.len());
            return Err(CostError::Shape { what: "network parameters", expected, found });
        }
        let packed = Packed::new(&shape, &parameters);
        Ok(Mlp { inputs, shape, parameters, packed })
    }

    /// The network for one context: the last columns it was trained on are fixed to these values, and rows no longer
    /// have them. What is fixed (threads, vector width) is the caller's business.
    pub fn in_context(&self, context: &[f32]) -> Result<Mlp, CostError> {
        if context.len() >= self.inputs.width {
            let (expected, found) = (self.inputs.width - 1, context.len());
            return Err(CostError::Shape { what: "context, at most", expected, found });
        }
        let mut mlp = self.clone();
        mlp.inputs.context = context.to_vec();
        Ok(mlp)
    }

    /// Columns of a row, without what the context gives.
    pub fn width(&self) -> usize {
        self.inputs.width - self.inputs.context.len()
    }

    /// Numbers between layers.
    pub fn hidden(&self) -> usize {
        self.shape.hidden
    }

    /// How many parameters were learnt.
    pub fn parameters(&self) -> &[f32] {
        &self.parameters
    }

    /// A score for each program.
    pub fn predict(&self, batch: &Batch<'_>) -> Result<Vec<f32>, CostError> {
        let mut scores = vec![0.0; self.check(batch)?];
        self.in_shares(batch, &mut scores, &mut [], &|pass, programs, scores, _| {
            pass.forward(self, batch, programs, scores);
        });
        Ok(scores)
    }

    /// A score for each program, and the derivative of a program's score by every feature of its rows: a matrix of the
    /// shape of the batch's features.
    pub fn gradient(&self, batch: &Batch<'_>) -> Result<(Vec<f32>, Matrix), CostError> {
        let mut scores = vec![0.0; self.check(batch)?];
        let (rows, cols) = (batch.features.rows(), batch.features.cols());
        let mut derivatives = vec![0.0; rows * cols];
        let ones = vec![1.0; scores.len()];
        self.in_shares(batch, &mut scores, &mut derivatives, &|pass, programs, scores, out| {
            pass.forward(self, batch, programs.clone(), scores);
            pass.by_features(self, batch, &ones[programs], out);
        });
        Ok((scores, Matrix::new(rows, cols, derivatives)?))
    }

    /// Checks a batch and counts its programs.
    pub(super) fn check(&self, batch: &Batch<'_>) -> Result<usize, CostError> {
        let programs = count_programs(batch.offsets, batch.features.rows())?;
        if batch.features.rows() > 0 {
            self.inputs.check(batch.features.cols())?;
        }
        Ok(programs)
    }

    /// Splits a batch into blocks of whole programs and works on them with several threads.
    fn in_shares(&self, batch: &Batch<'_>, scores: &mut [f32], rows: &mut [f32], work: &Work<'_>) {
        let width = if rows.is_empty() { 0 } else { batch.features.cols() };
        let (mut shares, mut scores, mut rows) = (Vec::new(), scores, rows);
        for programs in blocks(batch.offsets) {
            let count = batch.offsets[programs.end] - batch.offsets[programs.start];
            let (scores_here, scores_left) = scores.split_at_mut(programs.len());
            let (rows_here, rows_left) = rows.split_at_mut(count * width);
            shares.push(Share { programs, scores: scores_here, rows: rows_here });
            (scores, rows) = (scores_left, rows_left);
        }
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
        let threads = cores.min(batch.features.rows() / ROWS_PER_THREAD).clamp(1, shares.len().max(1));
        let shares = Mutex::new(shares.into_iter());
        let take = || shares.lock().unwrap_or_else(PoisonError::into_inner).next();
        let run = || {
            let mut pass = Pass::default();
            while let Some(share) = take() {
                work(&mut pass, share.programs, share.scores, share.rows);
            }
        };
        std::thread::scope(|scope| {
            (1..threads).for_each(|_| {
                scope.spawn(run);
            });
            run();
        });
    }
}

/// Consecutive programs of about [`BLOCK`] rows.
fn blocks(offsets: &[usize]) -> Vec<Range<usize>> {
    let (programs, mut out, mut start) = (offsets.len() - 1, Vec::new(), 0);
    while start < programs {
        let within = |end: &usize| offsets[*end] - offsets[start] <= BLOCK && end - start <= BLOCK;
        let end = (start + 2..=programs).take_while(within).last().unwrap_or(start + 1);
        out.push(start..end);
        start = end;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Stream;

    fn network(cols: usize, hidden: usize) -> Mlp {
        let used = (0..cols as u32).collect();
        let inputs =
            Inputs { width: cols, used, mean: vec![0.1; cols], scale: vec![1.5; cols], context: Vec::new() };
        let mut mlp = Mlp::new(inputs, hidden, 3).unwrap();
        let mut stream = Stream::new(1, 1);
        for layer in mlp.shape.layers.clone() {
            mlp.parameters[layer.bias].iter_mut().for_each(|b| *b = stream.unit() - 0.4);
        }
        mlp
    }

    fn programs(counts: &[usize], cols: usize) -> (Matrix, Vec<usize>) {
        let mut offsets = vec![0];
        counts.iter().for_each(|c| offsets.push(offsets.last().unwrap() + c));
        let mut stream = Stream::new(2, 0);
        let rows = *offsets.last().unwrap();
        let data = (0..rows * cols).map(|_| stream.unit() * 2.0 - 1.0).collect();
        (Matrix::new(rows, cols, data).unwrap(), offsets)
    }

    #[test]
    fn gradients_are_finite_differences() {
        let mlp = network(9, 32);
        let (features, offsets) = programs(&[1, 3, 0, 2, 7], 9);
        let (scores, gradient) = mlp.gradient(&Batch { features: &features, offsets: &offsets }).unwrap();
        let score = |data: Vec<f32>, program: usize| {
            let features = Matrix::new(features.rows(), 9, data).unwrap();
            f64::from(mlp.predict(&Batch { features: &features, offsets: &offsets }).unwrap()[program])
        };
        let step = 1e-3;
        for program in 0..5 {
            for at in offsets[program] * 9..offsets[program + 1] * 9 {
                let moved = |by: f32| {
                    let mut data = features.data().to_vec();
                    data[at] += by;
                    score(data, program)
                };
                let expected = (moved(step) - moved(-step)) / (2.0 * f64::from(step));
                let found = f64::from(gradient.data()[at]);
                assert!((expected - found).abs() < 2e-2 * (1.0 + found.abs()), "{at}: {expected} {found}");
            }
        }
        assert_eq!(scores, mlp.predict(&Batch { features: &features, offsets: &offsets }).unwrap());
    }

    #[test]
    fn a_program_has_its_score_wherever_it_stands() {
        let mlp = network(5, 32);
        let (features, offsets) = programs(&[3; 700], 5);
        let all = mlp.predict(&Batch { features: &features, offsets: &offsets }).unwrap();
        let (scores, gradient) = mlp.gradient(&Batch { features: &features, offsets: &offsets }).unwrap();
        assert_eq!(all, scores);
        for program in [0, 84, 85, 400, 699] {
            let one = Matrix::new(3, 5, features.data()[program * 15..][..15].to_vec()).unwrap();
            let one = Batch { features: &one, offsets: &[0, 3] };
            assert_eq!(mlp.predict(&one).unwrap(), [all[program]]);
            assert_eq!(mlp.gradient(&one).unwrap().1.data(), &gradient.data()[program * 15..][..15]);
        }
    }

    #[test]
    fn rows_of_the_wrong_width_are_refused() {
        let mlp = network(5, 32);
        let (features, offsets) = programs(&[1, 1], 4);
        let batch = Batch { features: &features, offsets: &offsets };
        assert_eq!(mlp.predict(&batch), Err(CostError::Columns { model: 5, data: 4 }));
        let short = mlp.in_context(&[0.5]).unwrap();
        assert_eq!(short.width(), 4);
        assert!(short.predict(&batch).unwrap()[0].is_finite());
        assert_eq!(short.gradient(&batch).unwrap().1.cols(), 4);
        assert!(mlp.in_context(&[0.0; 5]).is_err());
        let none = Batch { features: &Matrix::with_cols(5), offsets: &[0] };
        assert_eq!(mlp.predict(&none), Ok(vec![]));
        let bad = Batch { features: &features, offsets: &[0, 3] };
        assert!(mlp.gradient(&bad).is_err());
    }

    #[test]
    fn blocks_hold_whole_programs() {
        assert_eq!(blocks(&[0]), []);
        assert_eq!(blocks(&[0, 300, 301, 556, 557]), [0..1, 1..3, 3..4]);
    }
}
