//! Models that descent can follow: scores and their derivatives by the features.

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use talweg_cost::{Batch, CostError, Matrix, Samples};

use crate::featurize::SpaceFeatures;
use crate::training::TrainingSet;
use crate::{Candidate, Sample};

/// Learns to score programs, larger for faster ones, and says how a score changes with every feature. Within one task a
/// difference of scores is about the logarithm of a ratio of speeds.
pub trait DifferentiableScorer: Send + Sync {
    /// Learns from all samples so far.
    fn fit(&mut self, samples: &Samples<'_>) -> Result<(), CostError>;

    /// Whether scores mean anything yet.
    fn is_trained(&self) -> bool;

    /// A score for each program.
    fn predict(&self, programs: &Batch<'_>) -> Result<Vec<f32>, CostError>;

    /// A score for each program, and its derivative by every feature of the program's rows: a matrix of the shape of the
    /// batch's features.
    fn gradient(&self, programs: &Batch<'_>) -> Result<(Vec<f32>, Matrix), CostError>;
}

/// A model with all its samples; clones share both, so that tasks learn from one another.
#[derive(Clone)]
pub struct SharedScorer(Arc<RwLock<Inner>>);

struct Inner {
    scorer: Box<dyn DifferentiableScorer>,
    samples: TrainingSet,
    /// What went wrong in the last fit or prediction.
    error: Option<CostError>,
}

impl SharedScorer {
    /// Shares a model.
    pub fn new(scorer: Box<dyn DifferentiableScorer>) -> SharedScorer {
        SharedScorer(Arc::new(RwLock::new(Inner { scorer, samples: TrainingSet::new(), error: None })))
    }

    /// What went wrong in the last fit or prediction; the search is random while there is an error.
    pub fn error(&self) -> Option<CostError> {
        self.read().error.clone()
    }

    /// Whether the model can be followed.
    pub fn is_trained(&self) -> bool {
        let inner = self.read();
        inner.error.is_none() && inner.scorer.is_trained()
    }

    /// Learns new samples of a task.
    pub fn learn(&self, features: &SpaceFeatures, task: u32, new: &[Sample]) {
        let mut inner = self.write();
        let Inner { scorer, samples, error } = &mut *inner;
        let fit = samples.add(features, task, new).and_then(|()| match samples.has_success() {
            true => samples.with_samples(|samples| scorer.fit(samples)),
            false => Ok(()),
        });
        *error = fit.err();
    }

    /// Exact scores: features of the candidates as they are, not smoothed.
    pub fn score(&self, features: &SpaceFeatures, candidates: &[Candidate]) -> Vec<f32> {
        let scores = {
            let inner = self.read();
            features.score(candidates, &|batch| inner.scorer.predict(batch))
        };
        scores.unwrap_or_else(|error| {
            self.write().error = Some(error);
            vec![f32::NEG_INFINITY; candidates.len()]
        })
    }

    /// Lets a function use the model, for reading.
    pub fn with<T>(&self, run: impl FnOnce(&dyn DifferentiableScorer) -> T) -> T {
        run(&*self.read().scorer)
    }

    /// A panic elsewhere does not make the samples wrong.
    fn read(&self) -> RwLockReadGuard<'_, Inner> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Inner> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}
