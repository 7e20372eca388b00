//! The network beside trees: what many other tasks taught, and what the samples of this search teach.
//!
//! Trees fitted on a few hundred samples rank a task's rest better than a network that stays near its checkpoint, the
//! network better while samples are few. Scores are a weighted mean of both; slopes are the network's alone.

use std::collections::BTreeSet;

use talweg_cost::{Batch, CostError, Matrix, MlpModel, Params, Samples, Trees};
use talweg_target::Target;

use crate::felix::scorer::{DifferentiableScorer, SharedScorer};
use crate::learned::{SPEEDS, shallow};
use crate::network::shipped_network;

/// Samples of a task at which trees weigh as much as the network
/// (`cargo run --release -p talweg-dataset --example online`).
const EVEN: f32 = 48.0;
/// Samples below which there are no trees.
const LEAST: usize = 8;
/// The lowest speed, relative to the best of the task, whose logarithm is told apart.
const SLOWEST: f32 = 0.02;

/// A network with a checkpoint, and trees of the samples of a search.
struct Blend {
    network: MlpModel,
    trees: Option<Trees>,
    /// The share of the trees in a score.
    share: f32,
    params: Params,
}

/// The share of trees that have learnt from so many samples of each task.
fn share(samples: usize, tasks: usize) -> f32 {
    let each = samples as f32 / tasks.max(1) as f32;
    each / (each + EVEN)
}

impl DifferentiableScorer for Blend {
    fn fit(&mut self, samples: &Samples<'_>) -> Result<(), CostError> {
        DifferentiableScorer::fit(&mut self.network, samples)?;
        let (count, tasks) = (samples.labels.len(), samples.tasks.iter().collect::<BTreeSet<_>>().len());
        if count >= LEAST {
            self.trees = Some(SPEEDS.fit(samples, &self.params, None)?);
            self.share = share(count, tasks);
        }
        Ok(())
    }

    fn is_trained(&self) -> bool {
        self.network.is_trained()
    }

    fn predict(&self, programs: &Batch<'_>) -> Result<Vec<f32>, CostError> {
        let mut scores = DifferentiableScorer::predict(&self.network, programs)?;
        if let Some(trees) = &self.trees {
            let speeds = trees.predict_programs(programs.features, programs.offsets, None)?;
            let blend = |score: f32, speed: f32| score + self.share * (speed.max(SLOWEST).ln() - score);
            scores.iter_mut().zip(speeds).for_each(|(score, speed)| *score = blend(*score, speed));
        }
        Ok(scores)
    }

    fn gradient(&self, programs: &Batch<'_>) -> Result<(Vec<f32>, Matrix), CostError> {
        DifferentiableScorer::gradient(&self.network, programs)
    }
}

impl SharedScorer {
    /// The shipped network beside trees, where there is a checkpoint for the target; otherwise a network from nothing.
    pub fn blend(target: &Target, threads: usize, seed: u64) -> SharedScorer {
        let Some(network) = shipped_network(target, threads) else {
            return SharedScorer::network_from_nothing(seed);
        };
        let network = MlpModel::from_checkpoint(network, seed);
        let params = shallow(seed);
        SharedScorer::new(Box::new(Blend { network, trees: None, share: 0.0, params }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use talweg_cost::one_row_each;
    use talweg_target::Isa;

    #[test]
    fn trees_count_by_the_samples_of_a_task() {
        assert_eq!(share(0, 0), 0.0);
        assert_eq!(share(48, 1), 0.5);
        assert_eq!(share(480, 10), 0.5);
        assert!(share(1000, 1) > 0.9);
    }

    #[test]
    fn what_the_network_cannot_know_is_learnt_from_samples() {
        let network = shipped_network(&Target::generic(Isa::Avx512), 1).expect("a checkpoint");
        let width = network.width();
        // The speed depends on one column, against what anybody would expect of it.
        let row = |at: usize| (0..width).map(move |c| if c == 3 { (at % 16) as f32 } else { 1.0 });
        let features = Matrix::new(96, width, (0..96).flat_map(row).collect()).expect("as many");
        let labels: Vec<f32> = (0..96).map(|at| if at % 16 == 7 { 1.0 } else { 0.2 }).collect();
        let offsets = one_row_each(96);
        let programs = Batch { features: &features, offsets: &offsets };
        let params = shallow(1);
        let mut blend =
            Blend { network: MlpModel::from_checkpoint(network, 1), trees: None, share: 0.0, params };
        let (before, slopes) = blend.gradient(&programs).expect("rows of its width");
        assert_eq!(blend.predict(&programs).expect("the same"), before);
        assert_eq!((slopes.rows(), slopes.cols()), (96, width));
        DifferentiableScorer::fit(&mut blend, &Samples { programs, labels: &labels, tasks: &[0; 96] })
            .expect("samples");
        let programs = Batch { features: &features, offsets: &offsets };
        let after = blend.predict(&programs).expect("the same");
        let best = (0..96).max_by(|a, b| after[*a].total_cmp(&after[*b])).expect("some");
        assert_eq!(best % 16, 7);
    }
}
