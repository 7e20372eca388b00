//! What happens while tuning, as it happens.

use talweg_db::RecordId;

use crate::report::StopReason;

/// One thing that happened. Tasks are named by their position in the list given to the tuner.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// A task is ready: its space, its reference, what earlier runs know, and its default's time.
    TaskStarted {
        /// The task.
        task: usize,
        /// Its name.
        name: String,
        /// Sketches of its space.
        sketches: usize,
        /// Candidates of its space, roughly.
        size: f64,
        /// Records of earlier runs the strategy was told.
        resumed: usize,
        /// Seconds of the default schedule.
        default_seconds: f64,
        /// Seconds of the fastest known: the default, or one of an earlier run.
        best_seconds: f64,
    },
    /// A task that no step needs fails, so it is left out, or gets no more batches if only its candidates do.
    GivenUp {
        /// The task.
        task: usize,
        /// Why; it names the task.
        text: String,
    },
    /// The strategy has proposed a batch; learning from the last one is part of it.
    Asked {
        /// The task.
        task: usize,
        /// How many candidates.
        count: usize,
        /// What the cost model expects of the best of them, where it expects anything: speed over that of the fastest
        /// measured one for a model of speeds, any unit for a model of ranks.
        predicted: Option<f64>,
        /// How long it took.
        seconds: f64,
    },
    /// The cost model cannot learn or predict; the search goes on at random.
    ModelFailed {
        /// The task.
        task: usize,
        /// Why.
        text: String,
    },
    /// A batch was compiled, checked and timed.
    BatchMeasured {
        /// The task.
        task: usize,
        /// Candidates with times.
        succeeded: usize,
        /// Candidates without.
        failed: usize,
        /// Seconds in which nothing was timed, for nothing was compiled.
        building: f64,
        /// Seconds of checking and timing; compiling goes on meanwhile where there are cores for it.
        timing: f64,
    },
    /// A candidate was measured.
    SampleMeasured {
        /// The task.
        task: usize,
        /// The candidate.
        candidate: String,
        /// Seconds, `None` if it failed.
        seconds: Option<f64>,
        /// The cause of its failure.
        cause: Option<String>,
        /// What the cost model expected, as in [`Event::Asked`].
        predicted: Option<f64>,
        /// Its steps.
        trace: String,
        /// Since the start of the process.
        at: f64,
    },
    /// The fastest so far.
    NewBest {
        /// The task.
        task: usize,
        /// The candidate.
        candidate: String,
        /// Its seconds.
        seconds: f64,
        /// Since the start of the process.
        at: f64,
    },
    /// A cause of failure was met for the first time.
    ErrorGrouped {
        /// The task.
        task: usize,
        /// The cause.
        cause: String,
        /// The full text of this first one.
        text: String,
    },
    /// A batch is in the database.
    Saved {
        /// The task.
        task: usize,
        /// Records of this batch.
        records: usize,
        /// Candidates measured in this run so far, over all tasks.
        trials: usize,
    },
    /// The fastest so far is faster than the default in alternating runs too, and was stored as best.
    BestStored {
        /// The task.
        task: usize,
        /// Its record.
        record: RecordId,
        /// Its seconds in these runs.
        seconds: f64,
        /// The default's.
        default_seconds: f64,
    },
    /// What the rest of the run is expected to gain, after every round once all tasks have had one.
    Forecast {
        /// Seconds of all tasks together, each as often as it runs.
        latency: f64,
        /// Seconds expected to be gained.
        gain: f64,
        /// Rounds expected to be left.
        rounds: f64,
        /// Whether that is too little to go on.
        ends: bool,
    },
    /// The finals of a task are over.
    Verified {
        /// The task.
        task: usize,
        /// The record stored as best.
        record: RecordId,
        /// Its seconds in the finals.
        seconds: f64,
        /// The default's seconds in the finals.
        default_seconds: f64,
    },
    /// The run is over.
    Finished {
        /// Why.
        reason: StopReason,
        /// Candidates measured in this run.
        trials: usize,
    },
}
