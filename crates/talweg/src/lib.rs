//! talweg: finds the fastest program for a tensor operator on this machine.
//!
//! This crate is the facade: it puts the parts together for programs that use talweg as a library, and holds the
//! command-line tool.
//!
//! | module | holds |
//! |---|---|
//! | [`operator`] | an operator with its schedule, lowered and verified |
//! | [`network`] | a model imported, cut into tasks, compiled |
//! | [`inputs`] | what networks are run on where the user gives nothing |
//! | [`algorithms`] | which algorithm each convolution of a network uses |
//! | [`network_tuning`] | from tuned tasks to a network's artefact: compared in place and end to end |
//! | [`in_place_finals`] | which artefacts to compare for that, and what to take of each |
//! | [`allowance`] | how long sessions may take turns |
//! | [`in_place`] | networks timed as they run, whole and kernel by kernel |
//! | `turns` | sessions in turns, and how far apart their threads were |
//! | [`lock`] | everything an artefact's bits depend on, as text |
//! | [`peers`] | other runtimes in the user's Python, timed on the same model |
//! | [`contest`] | searches compared: runs, their table and their curves |
//! | [`cli`], [`commands`] | the command line; one file a verb |
//! | [`roofline`] | how fast a task could be on this machine |
//! | [`explain`] | why a task is scheduled as it is |
//! | [`bench`] | building, checking and timing an operator in worker processes |

// The verbs name the facade as any other program does.
extern crate self as talweg;

pub mod algorithms;
pub mod allowance;
pub mod bench;
pub mod cli;
pub mod commands;
pub mod contest;
pub mod explain;
pub mod in_place;
pub mod in_place_finals;
pub mod inputs;
pub mod lock;
pub mod network;
pub mod network_tuning;
pub mod operator;
pub mod peers;
pub mod roofline;
mod turns;

pub use bench::{Bench, BenchError, BenchOptions, Report};
pub use network::{Network, NetworkError, Winners};
pub use operator::{Operator, OperatorError, ScheduleSource};
pub use talweg_onnx::ImportOptions;
pub use talweg_runtime::model::{Model, ModelError, RunError, Session, SessionOptions};
pub use talweg_target::Target;
pub use talweg_tensor::Tensor;

/// The Rust blocks of the book, so that the tests of the documentation run them.
#[cfg(doctest)]
mod book {
    #[doc = include_str!("../../../docs/src/guide/rust.md")]
    struct Guide;
    #[doc = include_str!("../../../docs/src/how/space.md")]
    struct Space;
    #[doc = include_str!("../../../docs/src/how/features.md")]
    struct Features;
    #[doc = include_str!("../../../docs/src/extend/operator.md")]
    struct AddOperator;
    #[doc = include_str!("../../../docs/src/extend/sketch-rule.md")]
    struct AddRule;
    #[doc = include_str!("../../../docs/src/extend/strategy.md")]
    struct AddStrategy;
}
