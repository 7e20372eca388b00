//! Squared losses, plain and weighted by the label.

use super::Objective;
use crate::error::CostError;
use crate::histogram::Gradient;

/// Half the squared difference of score and label.
#[derive(Debug, Clone, Copy, Default)]
pub struct Squares;

/// Ansor's loss: squared difference of the summed score and the label, weighted by the label. With label =
/// best time / time, fast programs, the only ones a search cares about, weigh most.
#[derive(Debug, Clone, Copy, Default)]
pub struct SummedSquares {
    /// The least weight. Ansor has 0: programs of label 0 teach nothing.
    pub floor: f32,
}

/// Adds the derivatives of `weight(label) * (score - label)^2 / 2`.
fn derive(labels: &[f32], scores: &[f32], active: &[u32], out: &mut [Gradient], weight: impl Fn(f32) -> f32) {
    for &program in active {
        let program = program as usize;
        let weight = weight(labels[program]);
        out[program] = [weight * (scores[program] - labels[program]), weight];
    }
}

/// The mean of `weight(label) * (score - label)^2 / 2`.
fn mean(labels: &[f32], scores: &[f32], active: &[u32], weight: impl Fn(f32) -> f32) -> f64 {
    let one = |&program: &u32| {
        let (label, score) = (labels[program as usize], scores[program as usize]);
        f64::from(weight(label)) * f64::from(score - label).powi(2) / 2.0
    };
    active.iter().map(one).sum::<f64>() / active.len().max(1) as f64
}

impl Objective for Squares {
    fn name(&self) -> &'static str {
        "squares"
    }

    fn check(&self, _: &[f32]) -> Result<(), CostError> {
        Ok(())
    }

    fn gradients(&self, labels: &[f32], scores: &[f32], active: &[u32], _: u64, out: &mut [Gradient]) {
        derive(labels, scores, active, out, |_| 1.0);
    }

    fn loss(&self, labels: &[f32], scores: &[f32], active: &[u32]) -> f64 {
        mean(labels, scores, active, |_| 1.0)
    }
}

impl Objective for SummedSquares {
    fn name(&self) -> &'static str {
        "summed squares"
    }

    fn check(&self, labels: &[f32]) -> Result<(), CostError> {
        match labels.iter().position(|&label| label < 0.0) {
            Some(index) => Err(CostError::Value {
                what: "labels",
                index,
                value: labels[index],
                objective: self.name(),
                remedy: "labels are weights here: use best time / time, and 0 for a failure",
            }),
            None => Ok(()),
        }
    }

    fn gradients(&self, labels: &[f32], scores: &[f32], active: &[u32], _: u64, out: &mut [Gradient]) {
        derive(labels, scores, active, out, |label| label.max(self.floor));
    }

    fn loss(&self, labels: &[f32], scores: &[f32], active: &[u32]) -> f64 {
        mean(labels, scores, active, |label| label.max(self.floor))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn derivatives_follow_the_weights() {
        let (labels, scores) = ([1.0, 0.5, 0.0], [0.0, 1.0, 1.0]);
        let mut out = [[0.0; 2]; 3];
        Squares.gradients(&labels, &scores, &[0, 1, 2], 0, &mut out);
        assert_eq!(out, [[-1.0, 1.0], [0.5, 1.0], [1.0, 1.0]]);
        let mut out = [[0.0; 2]; 3];
        SummedSquares::default().gradients(&labels, &scores, &[1, 2], 0, &mut out);
        assert_eq!(out, [[0.0, 0.0], [0.25, 0.5], [0.0, 0.0]]);
        SummedSquares { floor: 0.1 }.gradients(&labels, &scores, &[2], 0, &mut out);
        assert_eq!(out[2], [0.1, 0.1]);
        assert_eq!(Squares.loss(&labels, &scores, &[0, 1]), 0.3125);
    }

    #[test]
    fn a_negative_weight_is_refused() {
        let found = SummedSquares::default().check(&[0.5, -0.1]);
        assert!(matches!(found, Err(CostError::Value { index: 1, .. })), "{found:?}");
        assert!(Squares.check(&[-0.1]).is_ok());
    }
}
