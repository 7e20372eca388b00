//! talweg: finds the fastest program for a tensor operator on this machine.
//!
//! This crate is the facade: it puts the parts together for programs that use talweg as a library, and holds the
//! command-line tool.
//!
//! | module | holds |
//! |---|---|
//! | [`operator`] | an operator with its schedule, lowered and verified |
//! | [`network`] | a model imported, cut into tasks, compiled |
//! | [`algorithms`] | which algorithm each convolution of a network uses |
//! | [`bench`] | building, checking and timing an operator in worker processes |

pub mod algorithms;
pub mod bench;
pub mod network;
pub mod operator;

pub use bench::{BenchError, BenchOptions, Report, run as bench_operator};
pub use operator::{Operator, OperatorError, ScheduleSource};
