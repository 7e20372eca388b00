//! Pairwise ranking within a task.

use super::Objective;
use crate::error::CostError;
use crate::histogram::Gradient;
use crate::random::Stream;

/// AutoTVM's loss: for every two programs of a task with different labels, `log(1 + exp(-(f_i - f_j)))` where
/// `i` is the one with the larger label. Only the order of labels matters, never their distance, so tasks of
/// any scale can be mixed.
///
/// In a task of many programs every program meets a bounded number of random others, drawn anew each round.
#[derive(Debug, Clone)]
pub struct PairwiseRank {
    /// The task of each program; empty means one task for all.
    pub tasks: Vec<u32>,
    /// Partners each program draws where all pairs would be more.
    pub partners: usize,
    /// Names the random stream of pairs.
    pub seed: u64,
}

impl PairwiseRank {
    /// Ranks within the given tasks, one id per program; an empty list is one task for all.
    pub fn new(tasks: Vec<u32>) -> PairwiseRank {
        PairwiseRank { tasks, partners: 32, seed: 0 }
    }

    /// Active programs by task, tasks and programs ascending.
    fn groups(&self, active: &[u32]) -> Vec<Vec<u32>> {
        if self.tasks.is_empty() {
            return vec![active.to_vec()];
        }
        let mut sorted = active.to_vec();
        sorted.sort_by_key(|&program| (self.tasks[program as usize], program));
        sorted
            .chunk_by(|&a, &b| self.tasks[a as usize] == self.tasks[b as usize])
            .map(<[u32]>::to_vec)
            .collect()
    }

    /// Visits the pairs of a round, the larger label first.
    fn for_pairs(&self, labels: &[f32], active: &[u32], round: u64, mut visit: impl FnMut(usize, usize)) {
        let mut pair = |a: u32, b: u32| {
            let (a, b) = (a as usize, b as usize);
            if labels[a] > labels[b] {
                visit(a, b);
            } else if labels[b] > labels[a] {
                visit(b, a);
            }
        };
        let mut stream = Stream::new(self.seed, round);
        for group in self.groups(active) {
            if group.len() <= 2 * self.partners + 1 {
                for (i, &a) in group.iter().enumerate() {
                    group[..i].iter().for_each(|&b| pair(a, b));
                }
            } else {
                for &a in &group {
                    for _ in 0..self.partners {
                        pair(a, group[stream.below(group.len())]);
                    }
                }
            }
        }
    }
}

impl Objective for PairwiseRank {
    fn name(&self) -> &'static str {
        "pairwise rank"
    }

    fn check(&self, labels: &[f32]) -> Result<(), CostError> {
        if !self.tasks.is_empty() && self.tasks.len() != labels.len() {
            return Err(CostError::Shape {
                what: "task ids",
                expected: labels.len(),
                found: self.tasks.len(),
            });
        }
        if self.partners == 0 {
            return Err(CostError::Param { name: "partners", value: 0.0, range: "at least 1" });
        }
        Ok(())
    }

    fn gradients(&self, labels: &[f32], scores: &[f32], active: &[u32], round: u64, out: &mut [Gradient]) {
        self.for_pairs(labels, active, round, |better, worse| {
            let wrong = 1.0 / (1.0 + (scores[better] - scores[worse]).exp());
            let curvature = (wrong * (1.0 - wrong)).max(1e-8);
            out[better][0] -= wrong;
            out[worse][0] += wrong;
            out[better][1] += curvature;
            out[worse][1] += curvature;
        });
    }

    fn loss(&self, labels: &[f32], scores: &[f32], active: &[u32]) -> f64 {
        let (mut sum, mut pairs) = (0.0, 0u64);
        self.for_pairs(labels, active, u64::MAX, |better, worse| {
            let lead = f64::from(scores[better] - scores[worse]);
            sum += (-lead.abs()).exp().ln_1p() + (-lead).max(0.0);
            pairs += 1;
        });
        sum / pairs.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn derivatives_are_those_of_the_loss() {
        let rank = PairwiseRank::new(vec![1, 0, 1, 0, 1]);
        let labels = [0.9, 0.2, 0.1, 0.8, 0.5];
        let scores = [0.3f32, -0.2, 0.4, 0.1, -0.6];
        let active = [0, 1, 2, 3, 4];
        let pairs = 4.0;
        let mut out = [[0.0; 2]; 5];
        rank.gradients(&labels, &scores, &active, 0, &mut out);
        for i in 0..5 {
            let at = |step: f32| {
                let mut scores = scores;
                scores[i] += step;
                rank.loss(&labels, &scores, &active) * pairs
            };
            let slope = (at(1e-2) - at(-1e-2)) / 2e-2;
            assert!((slope - f64::from(out[i][0])).abs() < 1e-3, "{i}: {slope} {}", out[i][0]);
            let bend = (at(0.1) - 2.0 * at(0.0) + at(-0.1)) / 1e-2;
            assert!((bend - f64::from(out[i][1])).abs() < 1e-2, "{i}: {bend} {}", out[i][1]);
        }
    }

    #[test]
    fn tasks_do_not_meet() {
        let rank = PairwiseRank::new(vec![0, 1]);
        let mut out = [[0.0; 2]; 2];
        rank.gradients(&[0.1, 0.9], &[0.0, 0.0], &[0, 1], 0, &mut out);
        assert_eq!(out, [[0.0; 2]; 2]);
        assert!(rank.check(&[0.0; 3]).is_err());
    }

    #[test]
    fn large_tasks_draw_a_bounded_number_of_pairs() {
        let mut rank = PairwiseRank::new(Vec::new());
        rank.partners = 5;
        let labels: Vec<f32> = (0..1000).map(|i| i as f32).collect();
        let active: Vec<u32> = (0..1000).collect();
        let draw = |round| {
            let mut pairs = Vec::new();
            rank.for_pairs(&labels, &active, round, |a, b| pairs.push((a, b)));
            pairs
        };
        let pairs = draw(0);
        assert!(pairs.len() > 4900 && pairs.len() <= 5000, "{}", pairs.len());
        assert!(pairs.iter().all(|&(better, worse)| labels[better] > labels[worse]));
        assert_eq!(pairs, draw(0));
        assert_ne!(pairs, draw(1));
    }
}
