//! The data of a page. These types are what the page's scripts read: nothing internal is serialised.
//!
//! Times are in microseconds, moments in seconds since the start of a run, and numbers have few digits.

use serde::{Deserialize, Serialize};

/// Everything a page shows.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Report {
    /// What was tuned, in a line.
    pub title: String,
    /// Unix seconds of when the report was made.
    pub made: u64,
    /// The version of talweg that made it.
    pub tool: String,
    /// The machine.
    pub machine: Machine,
    /// Threads of the parallel loops.
    pub threads: u32,
    /// What the machine can do at most, if that is known.
    pub roofs: Option<Roofs>,
    /// The runs, oldest first.
    pub runs: Vec<Run>,
    /// The tasks, in the order in which they were first tuned.
    pub tasks: Vec<Task>,
    /// Measured candidates, in the order of their measurement; not all of them if there are too many.
    pub samples: Vec<Sample>,
    /// How many good candidates were measured in all.
    pub measured: usize,
    /// Failures by cause, the most frequent first.
    pub errors: Vec<ErrorGroup>,
    /// Other runtimes.
    pub peers: Vec<Peer>,
    /// How the cost model ranks, over all tasks.
    pub accuracy: Option<Accuracy>,
    /// How far a run is that goes on while the page is looked at.
    pub live: Option<Live>,
}

/// The machine that was tuned for.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Machine {
    /// The processor.
    pub cpu: String,
    /// Processor family and vector instructions.
    pub isa: String,
    /// Cores and caches, as far as they are known: names and values.
    pub facts: Vec<(String, String)>,
    /// The key of the target in the database.
    pub fingerprint: String,
}

/// The most that a machine can do.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Roofs {
    /// Billions of operations a second.
    pub peak_gflops: f64,
    /// Memory levels and the billions of bytes a second that can be read from each, the nearest first.
    pub levels: Vec<(String, f64)>,
    /// Where the numbers come from.
    pub source: String,
}

/// A tuning run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Run {
    /// Its number in the database; zero for a run that is not stored.
    pub id: i64,
    /// Its name in legends: the strategy, with the run's number where two have the same.
    pub label: String,
    /// Its strategy.
    pub strategy: String,
    /// Its seed.
    pub seed: u64,
    /// The command line.
    pub command: String,
    /// The version of talweg that ran it.
    pub version: String,
    /// Unix seconds of its start.
    pub started: u64,
    /// Seconds from its start to its last sample.
    pub seconds: f64,
    /// Candidates measured, failures included.
    pub trials: usize,
    /// Candidates that failed.
    pub failed: usize,
    /// Its tasks, as positions in [`Report::tasks`].
    pub tasks: Vec<usize>,
    /// What else is known: names and values.
    pub environment: Vec<(String, String)>,
}

/// A task.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Task {
    /// Its name.
    pub name: String,
    /// The tensors that go in and out.
    pub shapes: String,
    /// How often it runs in what is tuned for.
    pub weight: f64,
    /// Operations of one run.
    pub flops: f64,
    /// Bytes that one run must move at least.
    pub bytes: f64,
    /// The default schedule.
    pub default_us: Option<f64>,
    /// The fastest: the verified winner, or the fastest sample while there is none.
    pub best_us: Option<f64>,
    /// Whether that was compared with the default in alternating runs.
    pub proven: bool,
    /// The largest relative error of the winner.
    pub error: Option<f64>,
    /// Who found the winner.
    pub strategy: String,
    /// The schedule of the winner.
    pub trace: String,
    /// Candidates measured, failures included.
    pub trials: usize,
    /// Candidates that failed.
    pub failed: usize,
    /// The best so far, a curve for each run.
    pub curves: Vec<Curve>,
    /// What the knobs explain.
    pub importance: Importance,
    /// How the cost model ranks candidates of this task.
    pub accuracy: Option<Accuracy>,
    /// For runs whose scores have no unit: run, and the line `ln us = a + b score` through its samples.
    pub scales: Vec<(usize, f64, f64)>,
}

/// The best so far of a task in a run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Curve {
    /// The run, as position in [`Report::runs`].
    pub run: usize,
    /// Seconds and microseconds at the start and at every improvement.
    pub points: Vec<(f64, f64)>,
}

/// A measured candidate: task, run, seconds, microseconds, what the model expected (microseconds, or a score where the
/// task has a scale for the run), the candidate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sample(pub usize, pub usize, pub f64, pub f64, pub Option<f64>, pub String);

/// What the knobs explain of the measured time.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Importance {
    /// Knobs, the most important first.
    pub knobs: Vec<KnobShare>,
    /// The share of the variance of log time that the model explains on samples it was not fitted to.
    pub explained: f64,
    /// Samples that it was fitted to and judged by.
    pub samples: usize,
    /// Why there is nothing to show.
    pub missing: Option<String>,
}

/// One knob.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KnobShare {
    /// Its name.
    pub name: String,
    /// Its part of the explained share: how much of that is lost when its values are shuffled, among all knobs.
    pub share: f64,
    /// Its value in the fastest sample.
    pub best: Option<f64>,
}

/// How well scores rank candidates.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Accuracy {
    /// Samples with a score.
    pub samples: usize,
    /// The rank correlation of scores and times: 1 is perfect, 0 is chance.
    pub rank: f64,
    /// The share of pairs of candidates that are in the right order: 0.5 is chance.
    pub pairs: f64,
}

/// Failures of one cause.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ErrorGroup {
    /// The cause.
    pub cause: String,
    /// How many.
    pub count: usize,
    /// The full text of the first.
    pub text: String,
    /// How many in which tasks, as positions in [`Report::tasks`].
    pub tasks: Vec<(usize, usize)>,
}

/// Another runtime.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Peer {
    /// Its name.
    pub name: String,
    /// What it takes.
    pub us: f64,
    /// The task, as position in [`Report::tasks`]; for all tasks together if there is none.
    pub task: Option<usize>,
}

/// How far a run is.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Live {
    /// Seconds since its start.
    pub elapsed: f64,
    /// Seconds it may use.
    pub budget: Option<f64>,
    /// Candidates it may measure.
    pub wanted: Option<usize>,
    /// The task that is being tuned, as position in [`Report::tasks`].
    pub current: Option<usize>,
    /// The share of the time that is still expected to be gained.
    pub to_gain: Option<f64>,
    /// Why it has ended.
    pub ended: Option<String>,
}

/// What has changed since the last update: all but the samples, and the new samples.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Update {
    /// The report with the samples that the reader does not have yet.
    pub report: Report,
    /// Whether these are all samples, and not those to be added.
    pub whole: bool,
}
