//! Cost models: train and predict on matrices, without knowing any IR.
pub mod bins;
pub mod error;
mod grow;
pub mod histogram;
pub mod matrix;
pub mod objective;
pub mod params;
mod predict;
pub mod random;
mod split;
pub mod tree;
pub mod trees;
pub use error::CostError;
pub use matrix::*;
pub use objective::*;
pub use params::Params;
pub use trees::Trees;
