//! Schedules: steps that change how a tensor expression is computed, never what, and the one lowering to loop nests.
//!
//! | module | holds |
//! |---|---|
//! | [`step`] | steps and traces as data, their text |
//! | [`state`] | the schedule: the rewritten DAG and the loops of each stage |
//! | [`primitives`] | one file a step: before -> after, legality |
//! | [`lower`] | schedule to loop nest, with knobs left open or substituted, by the same code |
//! | [`analytic`] | the default schedule of an untuned build |
//! | [`concrete`] | a nest without knobs made ready for code generation: simplified, tails specialised |
//! | [`testing`] | random legal schedules for property tests |

pub mod analytic;
pub mod concrete;
pub mod error;
pub mod lower;
pub mod primitives;
pub mod state;
pub mod step;
pub mod testing;

pub use error::ScheduleError;
pub use state::{IterKind, Schedule};
pub use step::{Step, Trace};
