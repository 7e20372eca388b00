//! A differentiable cost model: a network that sums over the stores of a program.
//!
//! | module | holds |
//! |---|---|
//! | [`network`] | the network: scores, and their derivatives by the features |
//! | [`inputs`] | which columns it sees, centred and scaled |
//! | [`shape`] | its sizes, and where its weights are |
//! | [`gemm`] | matrix products |
//! | `vector` | vectors of the instruction sets |
//! | `pass` | forward and backward through the layers |

pub mod gemm;
pub mod inputs;
pub mod network;
mod pass;
pub mod shape;
mod vector;

pub use inputs::Inputs;
pub use network::Mlp;
