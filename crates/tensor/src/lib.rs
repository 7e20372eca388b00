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

pub mod element;
pub mod op;
pub mod tensor;

pub use element::ElementType;
pub use op::Op;
pub use tensor::{Tensor, TensorError, TensorType};
