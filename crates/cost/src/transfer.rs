//! Transfer from other workloads: a global model's scores as the base margin of a local one.

use crate::error::CostError;
use crate::metrics::clear_pair_accuracy;
use crate::model::{Batch, CostModel, Loss, Samples};
use crate::params::Params;
use crate::trees::Trees;

/// Records of other workloads below which a global model is not worth fitting.
pub const MIN_HISTORY: usize = 500;

/// Weight below which the global model is dropped.
const NEGLIGIBLE: f32 = 0.05;

/// How much a global model counts after `samples` local ones: halved every 64, nothing once below 0.05.
pub fn transfer_weight(samples: usize) -> f32 {
    let weight = (-(samples as f32) / 64.0).exp2();
    if weight < NEGLIGIBLE { 0.0 } else { weight }
}

/// The share of pairs in the right order from which on a global model counts in full; with half of them, which is chance, it
/// does not count at all.
const TRUSTED: f64 = 0.7;

/// Speeds that differ by less than this ratio say nothing for or against a model.
const CLEAR: f32 = 1.1;

/// Samples that speak for a global model before there are any.
const PRIOR: f64 = 16.0;

/// How much a global model's order of so many local samples says for it, between 0 and 1: what does not carry over to a
/// workload is found out by its first samples.
fn trust(accuracy: Option<f64>, samples: usize) -> f32 {
    let Some(accuracy) = accuracy else { return 1.0 };
    let earned = ((accuracy - 0.5) / (TRUSTED - 0.5)).clamp(0.0, 1.0);
    let samples = samples as f64;
    ((PRIOR + samples * earned) / (PRIOR + samples)) as f32
}

/// A local model on top of a global one. Before any local sample it is the global model; as samples arrive it
/// becomes the local model alone.
#[derive(Debug, Clone)]
pub struct Transfer {
    global: Option<Trees>,
    loss: Loss,
    params: Params,
    local: Option<Trees>,
    weight: f32,
}

impl Transfer {
    /// A model that starts from `global`; without one it is the local model from the start.
    pub fn new(global: Option<Trees>, loss: Loss, params: Params) -> Transfer {
        Transfer { global, loss, params, local: None, weight: transfer_weight(0) }
    }

    /// Fits the global model on records of other workloads, or does without if there are fewer than
    /// [`MIN_HISTORY`].
    pub fn from_history(history: &Samples<'_>, loss: Loss, params: Params) -> Result<Transfer, CostError> {
        let enough = history.labels.len() >= MIN_HISTORY;
        let global = enough.then(|| loss.fit(history, &params, None)).transpose()?;
        Ok(Transfer::new(global, loss, params))
    }

    /// The global model, while it counts.
    pub fn global(&self) -> Option<&Trees> {
        self.global.as_ref().filter(|_| self.weight > 0.0)
    }

    /// The local model, once fitted.
    pub fn local(&self) -> Option<&Trees> {
        self.local.as_ref()
    }

    /// The weighted scores of the global model, while it counts.
    fn margin(&self, batch: &Batch<'_>, weight: f32) -> Result<Option<Vec<f32>>, CostError> {
        let Some(global) = self.global.as_ref().filter(|_| weight > 0.0) else { return Ok(None) };
        let mut scores = global.predict_programs(batch.features, batch.offsets, None)?;
        scores.iter_mut().for_each(|score| *score *= weight);
        Ok(Some(scores))
    }
}

impl CostModel for Transfer {
    fn fit(&mut self, samples: &Samples<'_>) -> Result<(), CostError> {
        let count = samples.labels.len();
        let mut weight = transfer_weight(count);
        let mut margin = self.margin(&samples.programs, weight)?;
        if let Some(scores) = &mut margin {
            let accuracy = clear_pair_accuracy(samples.labels, scores, samples.tasks, CLEAR)?;
            let trust = trust(accuracy, count);
            scores.iter_mut().for_each(|score| *score *= trust);
            weight *= trust;
        }
        self.local = match samples.labels.is_empty() {
            true => None,
            false => Some(self.loss.fit(samples, &self.params, margin.as_deref())?),
        };
        self.weight = weight;
        Ok(())
    }

    fn predict(&self, batch: &Batch<'_>) -> Result<Vec<f32>, CostError> {
        let margin = self.margin(batch, self.weight)?;
        match (&self.local, margin) {
            (Some(local), margin) => local.predict_programs(batch.features, batch.offsets, margin.as_deref()),
            (None, Some(margin)) => Ok(margin),
            (None, None) => Ok(vec![0.0; batch.offsets.len().saturating_sub(1)]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::{Matrix, one_row_each};
    use crate::metrics::pair_accuracy;
    use crate::random::Stream;

    /// Programs of a workload whose speed depends on features as in others, up to a shift.
    fn workload(rows: usize, seed: u64, shift: f32) -> (Matrix, Vec<f32>) {
        let mut stream = Stream::new(seed, 0);
        let data: Vec<f32> = (0..rows * 4).map(|_| stream.unit()).collect();
        let data = Matrix::new(rows, 4, data).unwrap();
        let label = |row: &[f32]| (row[0] * row[1] + 0.5 * (row[2] - 0.4).abs() + shift * row[3]).min(1.0);
        let labels = (0..rows).map(|row| label(data.row(row))).collect();
        (data, labels)
    }

    fn samples<'a>(data: &'a Matrix, offsets: &'a [usize], labels: &'a [f32]) -> Samples<'a> {
        let offsets = &offsets[..=labels.len()];
        Samples { programs: Batch { features: data, offsets }, labels, tasks: &[] }
    }

    #[test]
    fn the_weight_halves_and_vanishes() {
        assert_eq!(transfer_weight(0), 1.0);
        assert_eq!(transfer_weight(64), 0.5);
        assert!(transfer_weight(276) >= 0.05);
        assert_eq!(transfer_weight(277), 0.0);
    }

    #[test]
    fn what_orders_samples_wrongly_counts_less() {
        assert_eq!((trust(None, 0), trust(Some(0.9), 40), trust(Some(0.7), 1)), (1.0, 1.0, 1.0));
        assert_eq!((trust(Some(0.3), 16), trust(Some(0.5), 48)), (0.5, 0.25));
        assert!(trust(Some(0.6), 64) < trust(Some(0.65), 64));
        let (history, history_labels) = workload(1000, 1, 0.0);
        let (data, labels) = workload(32, 2, 0.1);
        let upside_down: Vec<f32> = labels.iter().map(|label| 1.0 - label).collect();
        let offsets = one_row_each(1000);
        let history = samples(&history, &offsets, &history_labels);
        let global = Transfer::from_history(&history, Loss::PairwiseRank, Params::autotvm()).unwrap();
        let weight = |labels: &[f32]| {
            let mut model = global.clone();
            model.fit(&samples(&data, &offsets, labels)).unwrap();
            model.weight
        };
        assert_eq!(weight(&labels), transfer_weight(32));
        assert!(weight(&upside_down) < 0.4 * transfer_weight(32));
    }

    #[test]
    fn history_helps_when_samples_are_few() {
        let (history, history_labels) = workload(1000, 1, 0.0);
        let (few, few_labels) = workload(16, 2, 0.1);
        let (test, test_labels) = workload(300, 3, 0.1);
        let offsets = one_row_each(1000);
        for loss in [Loss::Squares, Loss::PairwiseRank] {
            let history = samples(&history, &offsets, &history_labels);
            let mut transfer = Transfer::from_history(&history, loss, Params::autotvm()).unwrap();
            let mut local = Transfer::new(None, loss, Params::autotvm());
            let accuracy = |model: &Transfer| {
                let scores = model.predict(&Batch { features: &test, offsets: &offsets[..=300] }).unwrap();
                pair_accuracy(&test_labels, &scores, &[]).unwrap().unwrap()
            };
            assert!(accuracy(&transfer) > 0.8, "{loss:?}: global only {}", accuracy(&transfer));
            let few = samples(&few, &offsets, &few_labels);
            transfer.fit(&few).unwrap();
            local.fit(&few).unwrap();
            let (with, without) = (accuracy(&transfer), accuracy(&local));
            assert!(with > without + 0.05, "{loss:?}: {with} against {without}");
        }
    }

    #[test]
    fn many_samples_make_the_local_model_alone() {
        let (history, history_labels) = workload(600, 1, 0.0);
        let (data, labels) = workload(400, 2, 0.1);
        let offsets = one_row_each(600);
        let history = samples(&history, &offsets, &history_labels);
        let mut transfer = Transfer::from_history(&history, Loss::Squares, Params::autotvm()).unwrap();
        assert!(transfer.global().is_some());
        transfer.fit(&samples(&data, &offsets, &labels)).unwrap();
        assert!(transfer.global().is_none());
        let mut local = Transfer::new(None, Loss::Squares, Params::autotvm());
        local.fit(&samples(&data, &offsets, &labels)).unwrap();
        assert_eq!(transfer.local(), local.local());
    }

    #[test]
    fn short_history_is_not_used() {
        let (data, labels) = workload(499, 1, 0.0);
        let offsets = one_row_each(499);
        let history = samples(&data, &offsets, &labels);
        let transfer = Transfer::from_history(&history, Loss::Squares, Params::autotvm()).unwrap();
        assert!(transfer.global().is_none());
        assert_eq!(transfer.predict(&history.programs).unwrap(), vec![0.0; 499]);
    }
}
