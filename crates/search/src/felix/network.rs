//! The network as a model that descent follows.

use talweg_cost::{Batch, CostError, CostModel, Matrix, MlpModel, Samples};
use talweg_target::Target;

use crate::felix::scorer::{DifferentiableScorer, SharedScorer};
use crate::network::shipped_network;

impl DifferentiableScorer for MlpModel {
    fn fit(&mut self, samples: &Samples<'_>) -> Result<(), CostError> {
        CostModel::fit(self, samples)
    }

    fn is_trained(&self) -> bool {
        self.network().is_some()
    }

    fn predict(&self, programs: &Batch<'_>) -> Result<Vec<f32>, CostError> {
        CostModel::predict(self, programs)
    }

    /// Derivatives are zero while there is no network.
    fn gradient(&self, programs: &Batch<'_>) -> Result<(Vec<f32>, Matrix), CostError> {
        if let Some(network) = self.network() {
            return network.gradient(programs);
        }
        let (rows, cols) = (programs.features.rows(), programs.features.cols());
        let count = programs.offsets.len().saturating_sub(1);
        Ok((vec![0.0; count], Matrix::new(rows, cols, vec![0.0; rows * cols])?))
    }
}

impl SharedScorer {
    /// The network: from the shipped checkpoint where there is one for the target, otherwise from nothing.
    pub fn network(target: &Target, threads: usize, seed: u64) -> SharedScorer {
        let model = match shipped_network(target, threads) {
            Some(network) => MlpModel::from_checkpoint(network, seed),
            None => MlpModel::bootstrap(seed),
        };
        SharedScorer::new(Box::new(model))
    }

    /// The network, trained on the samples of this search alone.
    pub fn network_from_nothing(seed: u64) -> SharedScorer {
        SharedScorer::new(Box::new(MlpModel::bootstrap(seed)))
    }
}
