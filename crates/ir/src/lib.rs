//! Tensor expressions (what to compute) and loop nests (how), with their text, rules and reference meaning.
//!
//! | module | holds |
//! |---|---|
//! | [`dtype`] | element types |
//! | [`scalar`] | the value of one element: reads, arithmetic, math functions |
//! | [`te`] | tensor expressions: a DAG of computes |
//! | [`nest`] | loop nests with symbolic extents |
//! | [`text`] | printing and parsing both |
//! | [`verify`] | what a legal dag and a legal nest is |

pub mod dtype;
pub mod nest;
pub mod scalar;
pub mod te;
pub mod text;
pub mod verify;

pub use dtype::DType;
pub use nest::{Buffer, Loop, LoopKind, Nest, Pack, Role, Stmt, ThreadAxis};
pub use scalar::{ArithOp, MathOp, Reducer, Scalar, TensorId};
pub use te::{Axis, Compute, Dag, Reduction, Source, Tensor};
pub use text::ParseError;
pub use verify::{Rule, Violation, verify_dag, verify_nest};
