//! Scoring of candidates that have not been measured.

use crate::{Candidate, Rng, Sample};

/// Predicts which candidates are fast, and learns from samples: features and a cost model behind one interface.
pub trait Scorer {
    /// One number a candidate, larger for faster ones.
    fn score(&mut self, candidates: &[Candidate]) -> Vec<f32>;

    /// For each candidate one number a node, which add up to about its score; empty lists when the scorer does
    /// not know nodes apart.
    fn score_nodes(&mut self, candidates: &[Candidate]) -> Vec<Vec<f32>> {
        vec![Vec::new(); candidates.len()]
    }

    /// Learns from new samples of its task.
    fn learn(&mut self, samples: &[Sample]);

    /// Whether scores mean anything yet.
    fn is_trained(&self) -> bool;

    /// Whether some of what it knows comes from other tasks.
    fn is_transferred(&self) -> bool {
        false
    }

    /// Whether all it knows comes from other tasks: good enough to choose among random candidates, not to be followed
    /// to where none of them are.
    fn is_borrowed(&self) -> bool {
        false
    }
}

/// Scores at random, and never learns: what model-guided strategies are compared with.
#[derive(Clone, Debug)]
pub struct RandomScorer(Rng);

impl RandomScorer {
    /// A stream of scores.
    pub fn new(seed: u64) -> RandomScorer {
        RandomScorer(Rng::new(seed))
    }
}

impl Scorer for RandomScorer {
    fn score(&mut self, candidates: &[Candidate]) -> Vec<f32> {
        candidates.iter().map(|_| self.0.unit() as f32).collect()
    }

    fn learn(&mut self, _: &[Sample]) {}

    fn is_trained(&self) -> bool {
        false
    }
}
