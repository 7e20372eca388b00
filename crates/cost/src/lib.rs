//! Cost models: train and predict on matrices, without knowing any IR.
//!
//! The model is gradient boosting on histograms, written here because no crate fits: those on the registry
//! download or build a foreign library at build time, need a nightly compiler, or lack custom losses, base
//! margins and warm starts. It is deterministic: a seed names one model, whatever the number of threads.
//!
//! | module | holds |
//! |---|---|
//! | [`matrix`] | feature rows, and how consecutive rows form programs |
//! | [`params`] | parameters of boosting, with the presets of Ansor and AutoTVM |
//! | [`objective`] | losses: squares, label-weighted squares over summed rows, pairwise rank |
//! | [`trees`] | fitting, predicting, storing a sum of trees |
//! | [`tree`] | one tree |
//! | [`model`] | what a strategy sees: the [`CostModel`] trait, boosted and random models |
//! | [`mod@transfer`] | a global model's scores as the base margin of a local one |
//! | [`mlp`] | a network with derivatives by the features, its training and its file |
//! | [`metrics`] | pair accuracy, top-k regret, root mean squared error |
//! | [`random`] | the seeded random stream |
//! | [`error`] | what can be wrong |
//! | `bins` | features quantised to at most 256 bins |
//! | `histogram` | sums of gradients per bin |
//! | `split` | the best split of a node |
//! | `grow` | growing one tree |
//! | `predict` | fast prediction |
//!
//! Features may be infinite or NaN. Infinities sort where they belong; NaN goes left at every split, in training
//! as in prediction, as if it were minus infinity. Labels and margins must be finite.

mod bins;
pub mod error;
mod grow;
mod histogram;
pub mod matrix;
pub mod metrics;
pub mod mlp;
pub mod model;
pub mod objective;
pub mod params;
mod predict;
pub mod random;
mod split;
pub mod transfer;
pub mod tree;
pub mod trees;

pub use error::CostError;
pub use histogram::Gradient;
pub use matrix::{Matrix, count_programs, one_row_each};
pub use mlp::{Checkpoint, Inputs, Mlp, MlpLoss, MlpModel, TrainParams, Trained};
pub use model::{Batch, BoostedModel, CostModel, Loss, RandomModel, Samples};
pub use objective::{Objective, PairwiseRank, Squares, SummedSquares};
pub use params::Params;
pub use transfer::{Transfer, transfer_weight};
pub use tree::Tree;
pub use trees::Trees;
