//! The scorer on features and a cost model, which tasks may share.

use std::sync::{Arc, Mutex, MutexGuard};

use talweg_cost::{BoostedModel, CostError, CostModel, Loss, Mlp, Params, Transfer, Trees};
use talweg_features::{FeatureError, Machine};
use talweg_space::Space;

use crate::featurize::{Features, Predict, SpaceFeatures};
use crate::training::TrainingSet;
use crate::{Candidate, Rng, Sample, Scorer};

/// What Ansor's trees learn: speeds over the best of the task, fast programs weighted more.
pub(crate) const SPEEDS: Loss = Loss::SummedSquares { floor: 0.0 };

/// Trees shallower than Ansor's: of the few hundred samples a short search has, deeper ones learn by heart.
pub(crate) fn shallow(seed: u64) -> Params {
    Params { seed, max_depth: 6, ..Params::ansor() }
}

/// A cost model with all its samples; clones share both, so that tasks learn from one another.
#[derive(Clone)]
pub struct SharedModel(Arc<Mutex<Inner>>);

struct Inner {
    model: Box<dyn CostModel>,
    samples: TrainingSet,
    /// Samples below which scores mean nothing.
    needed: usize,
    /// Whether it started from a model of other tasks.
    is_transferred: bool,
    /// Whether the last fit succeeded, or a global model knows something already.
    is_trained: bool,
    error: Option<CostError>,
}

impl SharedModel {
    /// Any model, which is asked once it has been fitted on `needed` samples with a success among them.
    pub fn new(model: Box<dyn CostModel>, needed: usize) -> SharedModel {
        let samples = TrainingSet::new();
        SharedModel(Arc::new(Mutex::new(Inner {
            model,
            samples,
            needed,
            is_transferred: false,
            is_trained: false,
            error: None,
        })))
    }

    /// Ansor's: trees with weighted squared loss on sums of stores. Scores are random for the first round.
    pub fn ansor(seed: u64) -> SharedModel {
        SharedModel::new(Box::new(BoostedModel::new(SPEEDS, shallow(seed), 1)), 64)
    }

    /// AutoTVM's: trees with pairwise rank loss, on top of a global model if there is one.
    pub fn autotvm(global: Option<Trees>, seed: u64) -> SharedModel {
        let params = Params { seed, ..Params::autotvm() };
        let has_global = global.is_some();
        let transfer = Transfer::new(global, Loss::PairwiseRank, params);
        let shared = SharedModel::new(Box::new(transfer), if has_global { 1 } else { 64 });
        let mut inner = shared.lock();
        (inner.is_transferred, inner.is_trained) = (has_global, has_global);
        drop(inner);
        shared
    }

    /// Any model that already knows something, and learns from the first samples on.
    pub fn informed(model: Box<dyn CostModel>) -> SharedModel {
        let shared = SharedModel::new(model, 2);
        shared.lock().is_trained = true;
        shared
    }

    /// The network as it is now, for those who want derivatives of its scores; none if the model is none, or has not
    /// learnt yet.
    pub fn network(&self) -> Option<Mlp> {
        self.lock().model.network().cloned()
    }

    /// Everything learnt so far, for example as the history of another search.
    pub fn samples(&self) -> TrainingSet {
        self.lock().samples.clone()
    }

    /// What went wrong in the last fit or prediction; scores are random while there is an error.
    pub fn error(&self) -> Option<CostError> {
        self.lock().error.clone()
    }

    /// A panic elsewhere does not make the samples wrong.
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Inner {
    fn learn(&mut self, features: &SpaceFeatures, task: u32, new: &[Sample]) -> Result<(), CostError> {
        self.samples.add(features, task, new)?;
        if self.samples.len() >= self.needed && self.samples.has_success() {
            self.samples.with_samples(|samples| self.model.fit(samples))?;
            self.is_trained = true;
        }
        Ok(())
    }
}

/// Scores the candidates of one space by a model.
pub struct ModelScorer {
    features: SpaceFeatures,
    model: SharedModel,
    task: u32,
    rng: Rng,
}

impl ModelScorer {
    /// The scorer of a space. Tasks that share a model have numbers of their own.
    pub fn new<'a>(
        space: &Space,
        machine: impl Into<Machine<'a>>,
        kind: Features,
        model: SharedModel,
        task: u32,
    ) -> Result<ModelScorer, FeatureError> {
        let features = SpaceFeatures::new(space, machine, kind)?;
        Ok(ModelScorer { features, model, task, rng: Rng::new(u64::from(task)) })
    }

    /// The model.
    pub fn model(&self) -> &SharedModel {
        &self.model
    }

    /// Runs a prediction; random numbers and a note of the error when the model cannot give one.
    fn predict<T>(
        &mut self,
        run: impl FnOnce(&SpaceFeatures, &Predict<'_>) -> Result<T, CostError>,
    ) -> Option<T> {
        let mut inner = self.model.lock();
        if !inner.is_trained {
            return None;
        }
        match run(&self.features, &|batch| inner.model.predict(batch)) {
            Ok(scores) => Some(scores),
            Err(error) => {
                inner.error = Some(error);
                inner.is_trained = false;
                None
            }
        }
    }
}

impl Scorer for ModelScorer {
    fn score(&mut self, candidates: &[Candidate]) -> Vec<f32> {
        let scores = self.predict(|features, predict| features.score(candidates, predict));
        scores.unwrap_or_else(|| candidates.iter().map(|_| self.rng.unit() as f32).collect())
    }

    fn score_nodes(&mut self, candidates: &[Candidate]) -> Vec<Vec<f32>> {
        let scores = self.predict(|features, predict| features.score_nodes(candidates, predict));
        scores.unwrap_or_else(|| vec![Vec::new(); candidates.len()])
    }

    fn learn(&mut self, samples: &[Sample]) {
        let mut inner = self.model.lock();
        inner.error = inner.learn(&self.features, self.task, samples).err();
        if inner.error.is_some() {
            inner.is_trained = false;
        }
    }

    fn is_trained(&self) -> bool {
        self.model.lock().is_trained
    }

    fn is_transferred(&self) -> bool {
        self.model.lock().is_transferred
    }

    fn is_borrowed(&self) -> bool {
        let inner = self.model.lock();
        inner.is_trained && inner.samples.is_empty()
    }
}
