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
//! | [`data`] | arrays of elements, and how two of them differ |
//! | [`interp`] | the reference meaning of tensor expressions and loop nests |
//! | [`pack`] | constants laid out anew at build time |

pub mod data;
pub mod dtype;
pub mod interp;
pub mod nest;
pub mod pack;
pub mod scalar;
pub mod te;
pub mod text;
pub mod verify;

pub use data::{Array, DataError, Difference, Element, compare};
pub use dtype::DType;
pub use interp::{
    EvalOptions, InterpError, Race, RunOptions, eval_dag, eval_dag_all, eval_dag_with, run_nest,
    run_nest_with,
};
pub use nest::{Buffer, Loop, LoopKind, Nest, Pack, Role, Stmt, ThreadAxis};
pub use pack::{run_pack, run_pack_into};
pub use scalar::{ArithOp, MathOp, Reducer, Scalar, TensorId};
pub use te::{Axis, Compute, Dag, Reduction, Source, Tensor};
pub use text::ParseError;
pub use verify::{Rule, Violation, verify_dag, verify_nest};
