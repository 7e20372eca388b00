//! Values of every element type, and the operators of a network: their attributes, shapes and reference meaning.
//!
//! This is what a network is made of before anything is compiled. The importer, constant folding, the runtime's
//! plain kernels and the tests of networks all use the same definitions.
//!
//! | module | holds |
//! |---|---|
//! | [`element`] | the element types a network may have |
//! | [`tensor`] | a shaped value, owned or borrowed from a mapped file |
//! | [`op`] | the operators and their attributes |
//! | [`infer`](mod@infer) | the types of an operator's results |
//! | [`eval`] | the reference meaning of every operator |
//! | [`error`] | what is wrong with an operator's inputs |
//! | [`npy`] | numpy's files |

mod dispatch;
mod einsum;
pub mod element;
pub mod error;
pub mod eval;
pub mod infer;
pub mod npy;
mod number;
pub mod op;
pub mod tensor;
mod walk;

pub use element::ElementType;
pub use error::OpError;
pub use eval::evaluate;
pub use infer::infer;
pub use op::Op;
pub use tensor::{Tensor, TensorError, TensorType};
