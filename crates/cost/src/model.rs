//! What a strategy sees of a cost model, so that models can be exchanged.

use crate::error::CostError;
use crate::matrix::{Matrix, count_programs};
use crate::mlp::Mlp;
use crate::objective::{Objective, PairwiseRank, Squares, SummedSquares};
use crate::params::Params;
use crate::random::Stream;
use crate::trees::Trees;

/// Programs to score.
#[derive(Debug, Clone, Copy)]
pub struct Batch<'a> {
    /// One row per stored buffer.
    pub features: &'a Matrix,
    /// Program `p` is rows `offsets[p]..offsets[p + 1]`.
    pub offsets: &'a [usize],
}

/// Measured programs to learn from.
#[derive(Debug, Clone, Copy)]
pub struct Samples<'a> {
    /// The programs.
    pub programs: Batch<'a>,
    /// Best time of the task / time of the program; 0 for a failure.
    pub labels: &'a [f32],
    /// The task of each program; empty if all are of one.
    pub tasks: &'a [u32],
}

/// Anything that learns to score programs; larger is faster. `fit` gets all samples every time and forgets
/// those of before.
pub trait CostModel: Send + Sync {
    /// Learns from all samples so far.
    fn fit(&mut self, samples: &Samples<'_>) -> Result<(), CostError>;

    /// A score per program. The same model, seed and batch give the same scores.
    fn predict(&self, batch: &Batch<'_>) -> Result<Vec<f32>, CostError>;

    /// The network behind the scores, for those who want derivatives; none of other models, or before it has learnt.
    fn network(&self) -> Option<&Mlp> {
        None
    }
}

/// The loss of a model of trees.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Loss {
    /// Squared error, all programs alike.
    Squares,
    /// Squared error weighted by the label, with the least weight a program has (Ansor: 0).
    SummedSquares {
        /// The least weight.
        floor: f32,
    },
    /// Pairwise ranking within tasks (AutoTVM).
    PairwiseRank,
}

impl Loss {
    /// The objective for programs of the given tasks.
    pub fn objective(self, tasks: &[u32], seed: u64) -> Box<dyn Objective> {
        match self {
            Loss::Squares => Box::new(Squares),
            Loss::SummedSquares { floor } => Box::new(SummedSquares { floor }),
            Loss::PairwiseRank => Box::new(PairwiseRank { seed, ..PairwiseRank::new(tasks.to_vec()) }),
        }
    }

    /// Fits trees to samples under this loss.
    pub fn fit(
        self,
        samples: &Samples<'_>,
        params: &Params,
        base_margin: Option<&[f32]>,
    ) -> Result<Trees, CostError> {
        let objective = self.objective(samples.tasks, params.seed);
        let Samples { programs: Batch { features, offsets }, labels, .. } = *samples;
        Trees::fit(features, offsets, labels, &*objective, params, base_margin, None)
    }
}

/// Boosted trees that score at random until there are enough samples.
#[derive(Debug, Clone)]
pub struct BoostedModel {
    loss: Loss,
    params: Params,
    needed: usize,
    trees: Option<Trees>,
    random: RandomModel,
}

impl BoostedModel {
    /// A model that starts learning at `needed` samples.
    pub fn new(loss: Loss, params: Params, needed: usize) -> BoostedModel {
        let random = RandomModel::new(params.seed);
        BoostedModel { loss, params, needed, trees: None, random }
    }

    /// Ansor's: weighted squares over summed stores, from 100 samples on.
    pub fn ansor(seed: u64) -> BoostedModel {
        BoostedModel::new(Loss::SummedSquares { floor: 0.0 }, Params { seed, ..Params::ansor() }, 100)
    }

    /// AutoTVM's: pairwise rank, from the first batch of 64 on.
    pub fn autotvm(seed: u64) -> BoostedModel {
        BoostedModel::new(Loss::PairwiseRank, Params { seed, ..Params::autotvm() }, 64)
    }

    /// The fitted trees, once there are enough samples.
    pub fn trees(&self) -> Option<&Trees> {
        self.trees.as_ref()
    }
}

impl CostModel for BoostedModel {
    fn fit(&mut self, samples: &Samples<'_>) -> Result<(), CostError> {
        self.random.fit(samples)?;
        self.trees = match samples.labels.len() < self.needed {
            true => None,
            false => Some(self.loss.fit(samples, &self.params, None)?),
        };
        Ok(())
    }

    fn predict(&self, batch: &Batch<'_>) -> Result<Vec<f32>, CostError> {
        match &self.trees {
            Some(trees) => trees.predict_programs(batch.features, batch.offsets, None),
            None => self.random.predict(batch),
        }
    }
}

/// Scores in [0, 1) drawn from the program's features: a candidate keeps its score wherever it stands in a
/// batch, and all scores change with every fit.
#[derive(Debug, Clone)]
pub struct RandomModel {
    seed: u64,
    fits: u64,
}

impl RandomModel {
    /// Scores named by a seed.
    pub fn new(seed: u64) -> RandomModel {
        RandomModel { seed, fits: 0 }
    }
}

impl CostModel for RandomModel {
    fn fit(&mut self, _: &Samples<'_>) -> Result<(), CostError> {
        self.fits += 1;
        Ok(())
    }

    fn predict(&self, batch: &Batch<'_>) -> Result<Vec<f32>, CostError> {
        let (features, offsets) = (batch.features, batch.offsets);
        count_programs(offsets, features.rows())?;
        let score = |range: &[usize]| {
            let values = &features.data()[range[0] * features.cols()..range[1] * features.cols()];
            let key = values.iter().fold(self.fits, |key, x| {
                (key ^ u64::from(x.to_bits())).wrapping_mul(0x2545_f491_4f6c_dd1d).rotate_left(29)
            });
            Stream::new(self.seed, key).unit()
        };
        Ok(offsets.windows(2).map(score).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::one_row_each;

    fn matrix(rows: usize) -> Matrix {
        Matrix::new(rows, 2, (0..rows * 2).map(|i| (i as f32 * 0.37).sin()).collect()).unwrap()
    }

    #[test]
    fn random_scores_belong_to_the_candidate() {
        let mut model = RandomModel::new(7);
        let features = matrix(50);
        let scores = model.predict(&Batch { features: &features, offsets: &one_row_each(50) }).unwrap();
        let tail = Matrix::new(1, 2, features.row(49).to_vec()).unwrap();
        let tail = Batch { features: &tail, offsets: &[0, 1] };
        assert_eq!(model.predict(&tail).unwrap(), [scores[49]]);
        assert!(scores.windows(2).all(|w| w[0] != w[1]));
        let other = RandomModel::new(8).predict(&tail).unwrap();
        assert_ne!(other, [scores[49]]);
        let samples = Samples { programs: tail, labels: &[1.0], tasks: &[] };
        model.fit(&samples).unwrap();
        assert_ne!(model.predict(&tail).unwrap(), [scores[49]]);
    }

    #[test]
    fn trees_take_over_when_there_are_enough_samples() {
        let features = matrix(200);
        let offsets = one_row_each(200);
        let labels: Vec<f32> = (0..200).map(|row| features.row(row)[0] * 0.5 + 0.5).collect();
        let programs = Batch { features: &features, offsets: &offsets };
        let mut model: Box<dyn CostModel> = Box::new(BoostedModel::ansor(1));
        let few = Matrix::new(99, 2, features.data()[..198].to_vec()).unwrap();
        let few = Batch { features: &few, offsets: &offsets[..100] };
        model.fit(&Samples { programs: few, labels: &labels[..99], tasks: &[] }).unwrap();
        let accuracy = |model: &dyn CostModel| {
            crate::metrics::pair_accuracy(&labels, &model.predict(&programs).unwrap(), &[]).unwrap().unwrap()
        };
        let before = accuracy(&*model);
        assert!((0.4..0.6).contains(&before), "{before}");
        model.fit(&Samples { programs, labels: &labels, tasks: &[] }).unwrap();
        let after = accuracy(&*model);
        assert!(after > 0.95, "{after}");
    }
}
