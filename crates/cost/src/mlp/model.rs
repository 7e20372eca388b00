//! The network as a cost model: from a checkpoint or from nothing, fine-tuned as samples arrive.

use std::ops::RangeInclusive;

use super::network::Mlp;
use super::train::TrainParams;
use crate::error::CostError;
use crate::model::{Batch, CostModel, RandomModel, Samples};

/// Samples below which a network without a checkpoint is not trained.
const LEAST: usize = 24;
/// Programs that pass a network without a checkpoint in one fit, about, and its steps: bounds the time of a fit to a
/// fraction of a second.
const ANEW: (usize, RangeInclusive<usize>) = (12_288, 24..=200);
/// The same for a network that starts from a checkpoint and stays near it. Four times as many programs, at a third of the
/// rate, rank what was not seen no better (`cargo run --release -p talweg-dataset --example online`).
const REFINED: (usize, RangeInclusive<usize>) = (3_072, 12..=50);

/// How strongly a network is pulled towards its checkpoint: a parameter that its samples push steadily one way ends up
/// about one over this away from where it began. On a machine that the checkpoint knows a stronger pull ranks the rest of a
/// task a little better, on one it has never seen a weaker one does by more
/// (`cargo run --release -p talweg-dataset --example online`).
const PULL: f32 = 100.0;

/// A network that learns while a search goes on. With a checkpoint it knows something from the start, and is pulled
/// towards it, so that a few samples of one task do not undo what many of others taught; without, it is trained anew
/// from all samples.
#[derive(Clone, Debug)]
pub struct MlpModel {
    checkpoint: Option<Mlp>,
    current: Option<Mlp>,
    params: TrainParams,
    random: RandomModel,
}

impl MlpModel {
    /// A model that starts from a trained network, in the context of the search.
    pub fn from_checkpoint(mlp: Mlp, seed: u64) -> MlpModel {
        let params = TrainParams { seed, rate: 1.5e-3, decay: PULL, group: 64, ..TrainParams::default() };
        MlpModel { current: Some(mlp.clone()), checkpoint: Some(mlp), params, random: RandomModel::new(seed) }
    }

    /// A model that knows nothing yet.
    pub fn bootstrap(seed: u64) -> MlpModel {
        let params = TrainParams { seed, hidden: 64, group: 64, ..TrainParams::default() };
        MlpModel { checkpoint: None, current: None, params, random: RandomModel::new(seed) }
    }

    /// The same with other settings of training.
    pub fn with_params(self, params: TrainParams) -> MlpModel {
        MlpModel { params, ..self }
    }

    /// Whether it started from a checkpoint.
    pub fn is_borrowed(&self) -> bool {
        self.checkpoint.is_some()
    }

    fn params(&self, programs: usize) -> TrainParams {
        let batch = self.params.group * self.params.groups;
        let (passes, limits) = if self.checkpoint.is_some() { REFINED } else { ANEW };
        let steps = (passes / programs.clamp(1, batch)).clamp(*limits.start(), *limits.end());
        let epochs = steps.div_ceil(programs.div_ceil(batch).max(1));
        TrainParams { epochs, max_steps: steps, ..self.params.clone() }
    }
}

impl CostModel for MlpModel {
    fn fit(&mut self, samples: &Samples<'_>) -> Result<(), CostError> {
        self.random.fit(samples)?;
        let params = self.params(samples.labels.len());
        match &self.checkpoint {
            Some(checkpoint) if samples.labels.len() >= 2 => {
                let mut mlp = checkpoint.clone();
                mlp.learn(samples, &params, Some(checkpoint))?;
                self.current = Some(mlp);
            }
            None if samples.labels.len() >= LEAST => {
                self.current = Some(Mlp::train(samples, &params)?.0);
            }
            _ => {}
        }
        Ok(())
    }

    fn network(&self) -> Option<&Mlp> {
        self.current.as_ref()
    }

    fn predict(&self, batch: &Batch<'_>) -> Result<Vec<f32>, CostError> {
        match &self.current {
            Some(mlp) => mlp.predict(batch),
            None => self.random.predict(batch),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::{Matrix, one_row_each};
    use crate::metrics::pair_accuracy;
    use crate::random::Stream;

    /// Programs whose speed depends on two columns, and on a third by as much as `odd` says.
    fn task(rows: usize, seed: u64, odd: f32) -> (Matrix, Vec<f32>) {
        let mut stream = Stream::new(seed, 0);
        let data: Vec<f32> = (0..rows * 3).map(|_| stream.unit()).collect();
        let features = Matrix::new(rows, 3, data).unwrap();
        let label = |row: &[f32]| (row[0] * row[0] - 0.8 * row[1] + odd * row[2] - 1.0).exp();
        let mut labels: Vec<f32> = (0..rows).map(|row| label(features.row(row))).collect();
        let best = labels.iter().copied().fold(0.0, f32::max);
        labels.iter_mut().for_each(|l| *l /= best);
        (features, labels)
    }

    fn accuracy(model: &MlpModel, (features, labels): &(Matrix, Vec<f32>)) -> f64 {
        let offsets = one_row_each(labels.len());
        let scores = model.predict(&Batch { features, offsets: &offsets }).unwrap();
        pair_accuracy(labels, &scores, &[]).unwrap().unwrap()
    }

    fn fit(model: &mut MlpModel, (features, labels): &(Matrix, Vec<f32>)) {
        let offsets = one_row_each(labels.len());
        model.fit(&Samples { programs: Batch { features, offsets: &offsets }, labels, tasks: &[] }).unwrap();
    }

    #[test]
    fn it_bootstraps_when_there_are_samples() {
        let mut model = MlpModel::bootstrap(1);
        fit(&mut model, &task(LEAST - 1, 1, 0.0));
        assert!(model.network().is_none() && !model.is_borrowed());
        fit(&mut model, &task(64, 1, 0.0));
        let after = accuracy(&model, &task(200, 2, 0.0));
        assert!(after > 0.9, "{after}");
    }

    #[test]
    fn a_checkpoint_helps_from_the_start_and_is_refined() {
        let (features, labels) = task(200, 3, 0.0);
        let offsets = one_row_each(200);
        let programs = Batch { features: &features, offsets: &offsets };
        let samples = Samples { programs, labels: &labels, tasks: &[] };
        let params = TrainParams { hidden: 32, epochs: 100, ..TrainParams::default() };
        let mut model = MlpModel::from_checkpoint(Mlp::train(&samples, &params).unwrap().0, 1);
        let (old, other) = (task(200, 4, 0.0), task(200, 5, 0.8));
        let before = (accuracy(&model, &old), accuracy(&model, &other));
        assert!(before.0 > 0.95, "{before:?}");
        fit(&mut model, &task(32, 6, 0.8));
        let after = (accuracy(&model, &old), accuracy(&model, &other));
        assert!(after.1 > before.1 && after.0 > 0.75, "{before:?} {after:?}");
        let first = model.network().cloned();
        fit(&mut model, &task(32, 6, 0.8));
        assert_eq!(model.network(), first.as_ref(), "the same samples give the same network");
    }
}
