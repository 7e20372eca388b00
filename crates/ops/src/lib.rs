//! The operator library: every operator as a tensor expression.
//!
//! Activations are channels-last (NWC, NHWC, NDHWC) unless an operator says otherwise; weights are constants, spatial axes first, then input channels,
//! then output channels. Operators append to a [`talweg_ir::Dag`] and return the tensor they compute, so they compose;
//! [`Spec`] names a whole operator in one line of text.
//!
//! | module | holds |
//! |---|---|
//! | [`matmul`] | matrix products, plain and batched |
//! | [`strassen`] | matrix products with fewer multiplications |
//! | [`window`] | kernel, stride, dilation and padding along one axis |
//! | [`pad`] | padding as a stage of its own |
//! | [`conv`] | convolutions in one to three dimensions, grouped and depthwise |
//! | [`blocked`] | convolutions of activations whose channels lie in blocks |
//! | [`winograd`] | three by three convolutions with fewer multiplications |
//! | [`transpose`] | transposed convolutions: guarded, and by phases without guards |
//! | [`pool`] | max, average and global average pooling |
//! | [`reduce`] | sums, means, maxima, minima and products over any axes |
//! | [`softmax`] | softmax along the last axis |
//! | [`norm`] | layer norm and RMS norm along the last axis |
//! | [`elementwise`] | functions of one and two tensors, with broadcasting |
//! | [`activation`] | activation functions and other functions of one value |
//! | [`chain`] | fused epilogues: bias, scale, residual, activations in a row |
//! | [`view`] | a computed tensor and the shape the caller sees |
//! | [`spec`] | one line of text that names an operator |
//! | [`quality`] | the operators that the quality of tuning is judged on |
//! | [`testing`] | random small operators for property tests |
//! | [`error`] | what can be wrong with shapes and types |

pub mod activation;
pub mod blocked;
pub mod chain;
pub mod conv;
pub mod elementwise;
pub mod error;
pub mod matmul;
pub mod norm;
pub mod pad;
pub mod pool;
pub mod quality;
pub mod reduce;
pub mod softmax;
pub mod spec;
pub mod strassen;
pub mod testing;
pub mod transpose;
mod typing;
pub mod view;
pub mod window;
pub mod winograd;

pub use activation::Activation;
pub use chain::{ChainOp, Step};
pub use error::OpError;
pub use spec::{OperatorInfo, ParamInfo, Spec, SpecError, operators};
pub use typing::default_axis_names;
pub use view::View;
pub use window::Window;
