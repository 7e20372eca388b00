//! What came of a run.

use std::collections::BTreeMap;
use std::fmt;

use talweg_db::RecordId;
use talweg_search::objective::Network;

use crate::task::Contender;

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// The time is used up.
    Budget,
    /// So many candidates as wanted were measured.
    Trials,
    /// No task improves any more, or the tasks have ended for different reasons of those below.
    NothingToGain,
    /// All candidates there are were measured.
    Exhausted,
    /// The best does as many operations per second as the machine can.
    Roofline,
    /// For many batches neither the measurements nor the predictions were better than what is known.
    NothingPredicted,
    /// All tasks together are expected to gain next to nothing in the rest of the budget.
    Forecast,
    /// The latency that is good enough was reached.
    GoodEnough,
    /// Somebody asked for the end.
    Interrupted,
}

impl StopReason {
    /// One word for reports.
    pub fn name(self) -> &'static str {
        match self {
            StopReason::Budget => "budget",
            StopReason::Trials => "trials",
            StopReason::NothingToGain => "nothing-to-gain",
            StopReason::Exhausted => "exhausted",
            StopReason::Roofline => "roofline",
            StopReason::NothingPredicted => "nothing-predicted",
            StopReason::Forecast => "forecast",
            StopReason::GoodEnough => "good-enough",
            StopReason::Interrupted => "interrupted",
        }
    }
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Failures with one cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailureGroup {
    /// How many.
    pub count: usize,
    /// The full text of the first.
    pub text: String,
}

/// Failures by cause.
pub type Failures = BTreeMap<String, FailureGroup>;

/// What is known about a task after the run.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskReport {
    /// Its name.
    pub name: String,
    /// How much it counts.
    pub weight: f64,
    /// Seconds of the winner in the finals.
    pub best_seconds: f64,
    /// Seconds of the default in the same alternating runs.
    pub default_seconds: f64,
    /// Operations per second of the winner, in billions.
    pub gflops: f64,
    /// The winner's largest relative error against the reference interpreter.
    pub error: f64,
    /// The winner's steps.
    pub trace: String,
    /// Whether the default schedule itself won.
    pub default_won: bool,
    /// Candidates measured in this run, failures included.
    pub trials: usize,
    /// Records of earlier runs that were used.
    pub resumed: usize,
    /// Failures of this run.
    pub failures: Failures,
    /// Seconds since the start of the process, and the best so far in seconds, at every improvement.
    pub curve: Vec<(f64, f64)>,
    /// For each point of the curve, the candidates of this task measured until then.
    pub curve_trials: Vec<usize>,
    /// For each point of the curve, the steps of what was best.
    pub curve_traces: Vec<String>,
    /// The fastest of the strategy's first batch, in seconds, before anything of this task was measured; candidates near
    /// the default schedule, which are measured with it, aside.
    pub first_batch: Option<f64>,
    /// The fastest candidates by the times of the search, fastest first.
    pub contenders: Vec<Contender>,
    /// One that was the fastest earlier: it was chosen among fewer moments, so less by chance.
    pub earlier: Option<Contender>,
    /// The best that earlier runs have stored, unless that is the default schedule: it was faster than others in comparisons,
    /// in place for tasks of networks.
    pub proven: Option<Contender>,
    /// The record of the default schedule.
    pub default: RecordId,
}

/// Where the time of a run went, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Phases {
    /// Spaces, references and default schedules.
    pub prepare: f64,
    /// Strategies and their models.
    pub search: f64,
    /// Compiling candidates while nothing was timed.
    pub build: f64,
    /// Checking and timing candidates.
    pub measure: f64,
    /// The database, and comparing a new best with the default before it is stored.
    pub store: f64,
    /// The finals.
    pub finals: f64,
}

/// What came of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct TuneReport {
    /// One entry a task, in their order; an interrupt while tasks are prepared leaves the last ones out.
    pub tasks: Vec<TaskReport>,
    /// The positions of tasks without an entry because they fail, and nothing needs them.
    pub left_out: Vec<usize>,
    /// All tasks together.
    pub network: Network,
    /// Candidates measured in this run.
    pub trials: usize,
    /// Seconds since the start of the process.
    pub seconds: f64,
    /// Why the run ended.
    pub reason: StopReason,
    /// The strategy.
    pub strategy: String,
    /// Where the time went.
    pub phases: Phases,
}

impl TuneReport {
    /// What is known about the task that was given at a position.
    pub fn of(&self, task: usize) -> Option<&TaskReport> {
        let before = self.left_out.iter().filter(|at| **at < task).count();
        self.tasks.get(task - before).filter(|_| !self.left_out.contains(&task))
    }

    /// How often each task runs when every step is done in the way that is fastest.
    pub fn counts(&self) -> Vec<f64> {
        self.network.counts(&self.times(|task| task.best_seconds))
    }

    /// Seconds of all tasks together, every step in the way that is fastest.
    pub fn best_seconds(&self) -> f64 {
        self.network.latency(&self.times(|task| task.best_seconds))
    }

    /// Seconds by the default schedules, every step in the way that is fastest by them.
    pub fn default_seconds(&self) -> f64 {
        self.network.latency(&self.times(|task| task.default_seconds))
    }

    fn times(&self, of: fn(&TaskReport) -> f64) -> Vec<f64> {
        self.tasks.iter().map(of).collect()
    }
}
