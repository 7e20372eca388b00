//! Searches compared: which runs there are, what is kept of each, and what they come to.
//!
//! A [`Contestant`] is a strategy with its settings. Every contestant runs on every operator with every seed, in a process
//! of its own; a [`Run`] is what is kept of one. [`table`] turns runs into the figures that compare contestants with the
//! first of them, the reference.
//!
//! | module | holds |
//! |---|---|
//! | [`contestant`] | strategies with their settings, and the parts of felix to be switched |
//! | [`operators`] | the operators searches are compared on |
//! | [`run`] | one finished run, and the folder of all of them |
//! | [`playoff`] | everything that was found, timed again in turns |
//! | `artefacts` | the same for networks: artefacts of what was in hand at some moments |
//! | [`table`] | times to reach a level, speed-ups, final ratios, first batches |
//! | [`results`] | the least time a search needs for a result as good as the reference's |
//! | [`markdown`] | the table for people |
//! | [`curves`] | best so far over time, as a figure |

mod artefacts;
pub mod contestant;
pub mod curves;
pub mod markdown;
pub mod operators;
pub mod playoff;
pub mod results;
pub mod run;
pub mod table;

pub use contestant::Contestant;
pub use playoff::Playoff;
pub use results::{Results, results};
pub use run::{ContestError, Folder, Run, Settings};
pub use table::{LEVELS, Table};
