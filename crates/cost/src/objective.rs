//! What boosting minimises: losses over program scores, given by their derivatives.
//!
//! A program's score is its margin plus the sum of its rows' predictions, so an objective sees one score and
//! one label per program and never a row.

mod rank;
mod squares;

pub use rank::PairwiseRank;
pub use squares::{Squares, SummedSquares};

use crate::error::CostError;
use crate::histogram::Gradient;

/// A differentiable loss over the programs of a fit.
pub trait Objective: Sync {
    /// The name used in error texts.
    fn name(&self) -> &'static str;

    /// Refuses labels the loss is not defined for. All labels are finite already.
    fn check(&self, labels: &[f32]) -> Result<(), CostError>;

    /// Writes first and second derivative of the loss by each active program's score. `out` is all zeros,
    /// one entry per program; `active` are the ascending indices of the programs to train on; `round` is the
    /// number of trees so far, for objectives that sample.
    fn gradients(&self, labels: &[f32], scores: &[f32], active: &[u32], round: u64, out: &mut [Gradient]);

    /// The mean loss of the active programs, for early stopping.
    fn loss(&self, labels: &[f32], scores: &[f32], active: &[u32]) -> f64;
}
