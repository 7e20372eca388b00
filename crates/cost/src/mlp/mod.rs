//! A differentiable cost model: a network that sums over the stores of a program.
//!
//! | module | holds |
//! |---|---|
//! | [`network`] | the network: scores, and their derivatives by the features |
//! | [`train`] | training on groups of programs |
//! | [`model`] | the network as a [`crate::CostModel`], fine-tuned as samples arrive |
//! | [`checkpoint`] | a trained network as a file |
//! | [`loss`] | what it is trained for |
//! | [`adam`] | the steps of training |
//! | [`inputs`] | which columns it sees, centred and scaled |
//! | [`shape`] | its sizes, and where its weights are |
//! | [`gemm`] | matrix products |
//! | `vector` | vectors of the instruction sets |
//! | `pass` | forward and backward through the layers |

pub mod adam;
pub mod checkpoint;
pub mod gemm;
pub mod inputs;
pub mod loss;
pub mod model;
pub mod network;
mod pass;
pub mod shape;
pub mod train;
mod vector;

pub use checkpoint::Checkpoint;
pub use inputs::Inputs;
pub use loss::MlpLoss;
pub use model::MlpModel;
pub use network::Mlp;
pub use train::{TrainParams, Trained};
