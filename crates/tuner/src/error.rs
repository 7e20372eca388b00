//! Why tuning cannot go on.

use talweg_db::DbError;
use talweg_features::FeatureError;
use talweg_ir::Violation;
use talweg_measure::MeasureError;
use talweg_schedule::ScheduleError;

use crate::reference::ReferenceError;

/// A failure of the tuning itself, as opposed to one of a candidate.
#[derive(Debug, thiserror::Error)]
pub enum TuneError {
    /// There is nothing to tune.
    #[error("there is no task to tune; give at least one")]
    NoTasks,
    /// The strategy descends, and the model has no slope.
    #[error(
        "felix follows the slope of its model, and `{model}` has none; give mlp or mlp-bootstrap, or another strategy"
    )]
    NoSlope {
        /// The model.
        model: String,
    },
    /// The reference outputs cannot be computed.
    #[error("{task}: {source}")]
    Reference {
        /// The task.
        task: String,
        /// What went wrong.
        source: ReferenceError,
    },
    /// The default schedule is illegal.
    #[error(
        "{task}: the default schedule does not lower, which is a defect of talweg; please report it: {source}"
    )]
    DefaultSchedule {
        /// The task.
        task: String,
        /// Why.
        source: ScheduleError,
    },
    /// The default schedule lowers to an illegal program.
    #[error("{task}: the default schedule lowers to an illegal program, which is a defect of talweg; please report it: {}", .violations.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    IllegalDefault {
        /// The task.
        task: String,
        /// What is wrong.
        violations: Vec<Violation>,
    },
    /// The default schedule cannot be built, run or verified here.
    #[error("{task}: the default schedule fails ({cause}), so there is nothing to compare with: {text}")]
    DefaultFails {
        /// The task.
        task: String,
        /// A short name.
        cause: String,
        /// The full text.
        text: String,
    },
    /// The first candidates have all failed.
    #[error(
        "{task}: the first {count} candidates all failed, so tuning was stopped; the most frequent cause is `{cause}`: {text}"
    )]
    AllFail {
        /// The task.
        task: String,
        /// How many.
        count: usize,
        /// The most frequent cause.
        cause: String,
        /// One full text of that cause.
        text: String,
    },
    /// The features of the task cannot be compiled.
    #[error(
        "{task}: no features for the cost model: {source}; strategies without a model (random, genetic) work"
    )]
    Features {
        /// The task.
        task: String,
        /// Why.
        source: FeatureError,
    },
    /// The database refuses.
    #[error("{0}")]
    Db(#[from] DbError),
    /// No workers can be had.
    #[error("{0}")]
    Workers(#[from] MeasureError),
    /// This program cannot be started again as a worker.
    #[error("cannot find this program to start workers: {0}")]
    Program(#[from] std::io::Error),
}

impl TuneError {
    /// Whether it is about one task, and others could go on.
    pub(crate) fn is_of_task(&self) -> bool {
        use TuneError::{AllFail, DefaultFails, DefaultSchedule, Features, IllegalDefault, Reference};
        matches!(
            self,
            Reference { .. }
                | DefaultSchedule { .. }
                | IllegalDefault { .. }
                | DefaultFails { .. }
                | AllFail { .. }
                | Features { .. }
        )
    }
}
