//! Why a task is scheduled as it is: the steps of its schedule with what each changes, the roofline, what the cost model
//! thinks of it, and the measured candidates that came close.
//!
//! | module | holds |
//! |---|---|
//! | [`find`] | the task that a user means by a node's name, a number or a task's name |
//! | [`steps`] | the loops before and after each step |
//! | [`stores`] | what the features say about the program's stores |
//! | [`prediction`] | the time that cost models expect |
//! | [`losers`] | records near the winner, and the knobs they differ in |

pub mod find;
pub mod losers;
pub mod prediction;
pub mod steps;
pub mod stores;

use serde::Serialize;
use talweg_db::{Database, DbError, Record, TargetKey};
use talweg_ir::Dag;
use talweg_schedule::{Schedule, ScheduleError, Trace, analytic};
use talweg_space::Space;
use talweg_target::Target;
use talweg_tuner::records::{candidate_of, task_key};

use crate::roofline::{Machine, Roofline};
pub use losers::{Difference, Loser, Losers};
pub use prediction::Prediction;
pub use steps::{Change, StepChanges};
pub use stores::StoreSummary;

/// Why a task cannot be explained.
#[derive(Debug, thiserror::Error)]
pub enum ExplainError {
    /// The database cannot be read.
    #[error("{0}")]
    Db(#[from] DbError),
    /// The stored schedule does not fit the task: a defect of the database or of talweg.
    #[error("the schedule does not fit the task: {0}; tune the task again")]
    Schedule(#[from] ScheduleError),
}

/// Where the explained schedule comes from.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "from", rename_all = "lowercase")]
pub enum Origin {
    /// The stored winner of tuning.
    Winner {
        /// Its record.
        record: i64,
        /// The strategy that proposed it.
        strategy: String,
        /// Seconds of the default when both ran in turns.
        default_seconds: f64,
        /// Default time by winner time in these turns.
        gain: f64,
        /// The largest relative error against the reference.
        error: f64,
    },
    /// The analytic default, for there is no winner of this task, machine and number of threads.
    Default,
}

/// Everything there is to say about a task's schedule.
#[derive(Clone, Debug, Serialize)]
pub struct Explanation {
    /// Where the schedule comes from.
    pub origin: Origin,
    /// Its steps, and what each changes.
    pub steps: Vec<StepChanges>,
    /// How fast the task could be.
    pub roofline: Roofline,
    /// The stores of the program in the words of the features.
    pub stores: Vec<StoreSummary>,
    /// Measured seconds of the schedule, if it was measured.
    pub measured: Option<f64>,
    /// What cost models expect, if a network ships for this machine.
    pub prediction: Option<Prediction>,
    /// Records that came close.
    pub losers: Losers,
}

/// What is asked: a task, where it runs, and where its records are.
pub struct Question<'a> {
    /// The task.
    pub dag: &'a Dag,
    /// The machine.
    pub target: &'a Target,
    /// Threads of its parallel loops.
    pub threads: usize,
    /// The records, if there are any.
    pub db: Option<&'a Database>,
    /// What the machine was measured to do.
    pub machine: &'a Machine,
    /// How many losers to name by each measure of nearness.
    pub losers: usize,
}

impl Question<'_> {
    /// Answers it.
    pub fn answer(&self) -> Result<Explanation, ExplainError> {
        let (key, target) = (task_key(self.dag), TargetKey::new(self.target.fingerprint()));
        let threads = self.threads as u32;
        let (best, records) = match self.db {
            Some(db) => (db.best(&key, &target, threads)?, db.records(&key, &target, threads)?),
            None => (None, Vec::new()),
        };
        let (trace, text, origin) = match &best {
            Some(best) => {
                let origin = Origin::Winner {
                    record: best.record.id.get(),
                    strategy: best.record.strategy.clone(),
                    default_seconds: best.default_seconds,
                    gain: best.ab_ratio,
                    error: best.error,
                };
                (Trace::parse(&best.record.trace)?, best.record.trace.clone(), origin)
            }
            None => {
                let trace = analytic::default_trace(self.dag, self.target);
                let text = trace.to_string();
                (trace, text, Origin::Default)
            }
        };
        let fastest = |records: &[Record]| {
            let own = records.iter().filter(|r| r.trace == text).filter_map(Record::typical_seconds);
            own.min_by(f64::total_cmp)
        };
        let measured = best.as_ref().and_then(|b| b.record.typical_seconds()).or_else(|| fastest(&records));
        let nest = Schedule::replay(self.dag.clone(), &trace)?.lower()?;
        let space = Space::of(self.dag, self.target);
        let samples = losers::samples(&space, &records);
        let candidate = candidate_of(&space, &text);
        let subject = prediction::Subject { nest: &nest, candidate: candidate.as_ref(), measured };
        Ok(Explanation {
            origin,
            steps: steps::changes(self.dag, &trace)?,
            roofline: Roofline::of(self.dag, self.machine),
            stores: stores::summaries(&nest, self.target),
            measured,
            prediction: prediction::predict(&space, &subject, self.target, self.threads, &samples),
            losers: losers::nearest(&space, &text, measured, &records, self.losers),
        })
    }
}
