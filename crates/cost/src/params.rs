//! Parameters of boosting, with the presets of the two systems.

use serde::{Deserialize, Serialize};

use crate::error::CostError;

/// The deepest tree: a node names its children within a tree by 16 bits.
pub const MAX_DEPTH: usize = 15;

/// How trees are grown and added up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Params {
    /// Trees to add.
    pub rounds: usize,
    /// Levels of splits per tree, 1 to [`MAX_DEPTH`].
    pub max_depth: usize,
    /// Shrinkage of every leaf, above 0 and at most 1.
    pub eta: f32,
    /// A split must reduce the regularised loss by more than this.
    pub gamma: f32,
    /// Quadratic penalty on leaf values.
    pub lambda: f32,
    /// Both sides of a split must hold at least this much hessian.
    pub min_child_weight: f32,
    /// Bins per feature, 2 to 256.
    pub max_bins: usize,
    /// Fraction of programs each tree sees. A program's rows go together.
    pub subsample: f32,
    /// Fraction of features each tree sees.
    pub colsample: f32,
    /// Names the random stream of sampling.
    pub seed: u64,
    /// Stop after this many rounds without a better loss, and drop the trees after the best; 0 never stops.
    pub early_stopping: usize,
    /// Fraction of programs kept out of training to judge early stopping; with 0 the training loss judges.
    pub holdout: f32,
    /// Threads that share the features of one node. The result does not depend on it.
    pub threads: usize,
}

impl Default for Params {
    fn default() -> Params {
        Params {
            rounds: 100,
            max_depth: 6,
            eta: 0.3,
            gamma: 0.0,
            lambda: 1.0,
            min_child_weight: 1.0,
            max_bins: 256,
            subsample: 1.0,
            colsample: 1.0,
            seed: 0,
            early_stopping: 0,
            holdout: 0.0,
            threads: 1,
        }
    }
}

impl Params {
    /// Ansor's model: deep trees, retrained each round. No minimum child weight, because weights are
    /// labels and a few fast programs must be able to form a leaf.
    pub fn ansor() -> Params {
        Params { max_depth: 10, eta: 0.2, gamma: 0.001, min_child_weight: 0.0, ..Params::default() }
    }

    /// AutoTVM's model: shallow trees, refitted every 64 samples.
    pub fn autotvm() -> Params {
        Params { max_depth: 3, eta: 0.3, ..Params::default() }
    }

    /// Says which parameter is out of range, if one is.
    pub fn check(&self) -> Result<(), CostError> {
        let fraction = |x: f32| x > 0.0 && x <= 1.0;
        let penalty = |x: f32| x >= 0.0 && x.is_finite();
        let rules: [(&'static str, f64, bool, &'static str); 9] = [
            ("max_depth", self.max_depth as f64, (1..=MAX_DEPTH).contains(&self.max_depth), "1 to 15"),
            ("eta", self.eta.into(), fraction(self.eta), "above 0, at most 1"),
            ("gamma", self.gamma.into(), penalty(self.gamma), "a finite number >= 0"),
            ("lambda", self.lambda.into(), penalty(self.lambda), "a finite number >= 0"),
            (
                "min_child_weight",
                self.min_child_weight.into(),
                penalty(self.min_child_weight),
                "a finite number >= 0",
            ),
            ("max_bins", self.max_bins as f64, (2..=256).contains(&self.max_bins), "2 to 256"),
            ("subsample", self.subsample.into(), fraction(self.subsample), "above 0, at most 1"),
            ("colsample", self.colsample.into(), fraction(self.colsample), "above 0, at most 1"),
            ("holdout", self.holdout.into(), (0.0..1.0).contains(&self.holdout), "at least 0, below 1"),
        ];
        match rules.into_iter().find(|rule| !rule.2) {
            Some((name, value, _, range)) => Err(CostError::Param { name, value, range }),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_are_the_published_ones() {
        let ansor = Params::ansor();
        assert_eq!((ansor.max_depth, ansor.eta, ansor.gamma), (10, 0.2, 0.001));
        let autotvm = Params::autotvm();
        assert_eq!((autotvm.max_depth, autotvm.eta), (3, 0.3));
        assert!(ansor.check().is_ok() && autotvm.check().is_ok());
    }

    #[test]
    fn bad_parameters_are_named() {
        let name = |params: Params| match params.check() {
            Err(CostError::Param { name, .. }) => name,
            other => panic!("accepted: {other:?}"),
        };
        let base = Params::default;
        assert_eq!(name(Params { max_depth: 0, ..base() }), "max_depth");
        assert_eq!(name(Params { max_depth: 16, ..base() }), "max_depth");
        assert_eq!(name(Params { eta: 0.0, ..base() }), "eta");
        assert_eq!(name(Params { lambda: f32::NAN, ..base() }), "lambda");
        assert_eq!(name(Params { max_bins: 257, ..base() }), "max_bins");
        assert_eq!(name(Params { subsample: 1.5, ..base() }), "subsample");
        assert_eq!(name(Params { holdout: 1.0, ..base() }), "holdout");
    }
}
