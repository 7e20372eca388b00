//! The tuning loop: asks a strategy, measures, stores, learns; typed events.
//!
//! A [`Tuner`] takes tasks and improves the one the task scheduler names, batch by batch, until the budget is used up
//! or nothing is left to gain. Whatever is measured is stored in one transaction a batch, so a killed run loses at
//! most the batch in flight, and the next run resumes from the records. A winner is checked against the reference
//! interpreter, compared with the default schedule in alternating runs, and only then stored as best: after the batch
//! that found it, and once more at the end; tasks of networks are compared at the end by the caller, in place.
//!
//! | module | holds |
//! |---|---|
//! | [`options`] | what to tune, how, and for how long |
//! | [`event`] | what happens, as it happens |
//! | [`report`] | what came of it |
//! | [`tuner`] | the loop over tasks and batches |
//! | `prepare` | the space and the search of a task, before its first batch |
//! | `round` | one batch of a task: ask, build, measure, store, tell |
//! | [`distances`] | times as they would be at one distance between the threads |
//! | [`seed`] | the default schedule as a candidate |
//! | [`sharing`] | what the threads of a schedule share |
//! | [`task`] | the state of one task |
//! | [`finals`] | the alternating comparison of the fastest candidates with the default |
//! | [`runner`] | where candidates run: worker processes, or a simulated device |
//! | [`records`] | candidates and failures as database records, and back |
//! | [`strategy`] | strategies and models by name; transfer from other tasks |
//! | [`extension`] | parts of a search from outside |
//! | [`switches`] | settings of felix by name, for comparisons |
//! | [`reference`](mod@reference) | inputs, reference outputs and the accepted error |
//! | [`slice`] | a part of a DAG, for checking without computing all of it |
//! | [`error`] | why tuning cannot go on |

pub mod distances;
pub mod error;
pub mod event;
pub mod extension;
pub mod finals;
pub mod options;
mod prepare;
pub mod records;
pub mod reference;
pub mod report;
mod round;
pub mod runner;
pub mod seed;
pub mod sharing;
pub mod slice;
pub mod strategy;
pub mod switches;
pub mod task;
pub mod tuner;

pub use error::TuneError;
pub use event::Event;
pub use extension::{Extended, Extension};
pub use options::{Surroundings, TaskSpec, TuneOptions};
pub use report::{FailureGroup, Phases, StopReason, TaskReport, TuneReport};
pub use runner::{Runner, Simulated, Workers};
pub use strategy::{ModelKind, StrategyKind};
pub use talweg_search::objective::{Fork, Network, Objective};
pub use talweg_search::{FelixParams, SimulatedDevice};
pub use task::Contender;
pub use tuner::Tuner;
