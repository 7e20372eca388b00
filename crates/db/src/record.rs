//! The plain data that crosses the database's boundary.

use std::fmt;
use std::sync::Arc;

/// What was tuned: the canonical text of the task and the version of that text's format, never a memory layout.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskKey {
    /// The canonical text.
    pub text: Arc<str>,
    /// The version of the canonical form; texts of different versions are different tasks.
    pub version: u32,
}

impl TaskKey {
    /// The key of the task with this canonical text.
    pub fn new(text: impl Into<Arc<str>>, version: u32) -> TaskKey {
        TaskKey { text: text.into(), version }
    }
}

/// Which machine it was tuned on: the target's fingerprint.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TargetKey {
    /// The fingerprint text.
    pub text: Arc<str>,
}

impl TargetKey {
    /// The key of the target with this fingerprint.
    pub fn new(text: impl Into<Arc<str>>) -> TargetKey {
        TargetKey { text: text.into() }
    }
}

/// Names a record in one database file; never given to another record, even after pruning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordId(pub(crate) i64);

/// Names a run in one database file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId(pub(crate) i64);

impl RecordId {
    /// The number shown to users.
    pub fn get(self) -> i64 {
        self.0
    }

    /// The id with a number that a user gave; lookups say so if there is no such record.
    pub fn from_number(number: i64) -> RecordId {
        RecordId(number)
    }
}

impl RunId {
    /// The number shown to users.
    pub fn get(self) -> i64 {
        self.0
    }

    /// The id with a number that a user gave; lookups say so if there is no such run.
    pub fn from_number(number: i64) -> RunId {
        RunId(number)
    }
}

impl fmt::Display for RecordId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A successful measurement.
#[derive(Debug, Clone, PartialEq)]
pub struct Samples {
    /// Seconds of one run of the kernel, one entry for each sample, in the order they were taken. A search stores what they
    /// would have been with the cores at full speed, as far as it can tell.
    pub seconds: Vec<f64>,
    /// How many runs each sample is the mean of.
    pub inner: u32,
    /// Samples thrown away because the machine was disturbed.
    pub rejected: u32,
    /// Whether the kept samples may come from a disturbed machine.
    pub disturbed: bool,
    /// Why the measurement ended, in the measurer's words.
    pub stop: String,
}

impl Default for Samples {
    fn default() -> Samples {
        Samples { seconds: Vec::new(), inner: 1, rejected: 0, disturbed: false, stop: String::new() }
    }
}

impl Samples {
    /// The middle sample, by which records are ranked. `None` without samples, which the database refuses to store.
    pub fn typical(&self) -> Option<f64> {
        let mut sorted = self.seconds.clone();
        sorted.sort_by(f64::total_cmp);
        sorted.get(sorted.len() / 2).copied()
    }
}

/// A measurement that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// A short name that groups failures, such as `compile` or `timeout`.
    pub cause: String,
    /// The full error text.
    pub text: String,
}

/// A measured candidate on its way into the database.
#[derive(Debug, Clone, PartialEq)]
pub struct NewRecord {
    /// What was tuned.
    pub task: TaskKey,
    /// On which machine.
    pub target: TargetKey,
    /// With how many threads.
    pub threads: u32,
    /// The schedule steps that reproduce the candidate.
    pub trace: String,
    /// What measuring gave.
    pub outcome: Result<Samples, Failure>,
    /// The largest relative error against the reference, if it was compared.
    pub verification: Option<f64>,
    /// The strategy that proposed the candidate.
    pub strategy: String,
    /// The seed the strategy worked with.
    pub seed: u64,
    /// The run it belongs to.
    pub run: RunId,
    /// Unix seconds of the measurement; the time of insertion if not given.
    pub when: Option<u64>,
    /// How long compiling took.
    pub compile_seconds: f64,
    /// The machine probe's value around the measurement.
    pub probe: Option<f64>,
    /// What the cost model had predicted.
    pub predicted: Option<f64>,
    /// Seconds from the start of the run to the end of the measurement. Not part of what makes records equal.
    pub elapsed: Option<f64>,
}

impl NewRecord {
    /// A record with the given measurement and nothing else known about it.
    pub fn new(
        run: RunId,
        task: &TaskKey,
        target: &TargetKey,
        threads: u32,
        trace: impl Into<String>,
        outcome: Result<Samples, Failure>,
    ) -> NewRecord {
        NewRecord {
            task: task.clone(),
            target: target.clone(),
            threads,
            trace: trace.into(),
            outcome,
            verification: None,
            strategy: String::new(),
            seed: 0,
            run,
            when: None,
            compile_seconds: 0.0,
            probe: None,
            predicted: None,
            elapsed: None,
        }
    }
}

/// A stored sample with its full context.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// Its name in this database file.
    pub id: RecordId,
    /// What was tuned.
    pub task: TaskKey,
    /// On which machine.
    pub target: TargetKey,
    /// With how many threads.
    pub threads: u32,
    /// The schedule steps that reproduce the candidate.
    pub trace: String,
    /// What measuring gave.
    pub outcome: Result<Samples, Failure>,
    /// The largest relative error against the reference, if it was compared.
    pub verification: Option<f64>,
    /// The strategy that proposed the candidate.
    pub strategy: String,
    /// The seed the strategy worked with.
    pub seed: u64,
    /// The run it belongs to.
    pub run: RunId,
    /// Unix seconds of the measurement.
    pub when: u64,
    /// How long compiling took.
    pub compile_seconds: f64,
    /// The machine probe's value around the measurement.
    pub probe: Option<f64>,
    /// What the cost model had predicted.
    pub predicted: Option<f64>,
    /// Seconds from the start of the run to the end of the measurement. Not part of what makes records equal.
    pub elapsed: Option<f64>,
}

impl Record {
    /// The time records are ranked by; `None` for a failure.
    pub fn typical_seconds(&self) -> Option<f64> {
        self.outcome.as_ref().ok().and_then(Samples::typical)
    }

    pub(crate) fn into_new(self, run: RunId) -> NewRecord {
        NewRecord {
            task: self.task,
            target: self.target,
            threads: self.threads,
            trace: self.trace,
            outcome: self.outcome,
            verification: self.verification,
            strategy: self.strategy,
            seed: self.seed,
            run,
            when: Some(self.when),
            compile_seconds: self.compile_seconds,
            probe: self.probe,
            predicted: self.predicted,
            elapsed: self.elapsed,
        }
    }
}

/// A winner on its way into the database, after verification and the comparison with the default schedule.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NewBest {
    /// The winning record; it must be good and verified.
    pub record: RecordId,
    /// Seconds of the default schedule in the alternating comparison.
    pub default_seconds: f64,
    /// Default time divided by the winner's time in that comparison: above one is a gain.
    pub ab_ratio: f64,
}

/// The stored winner of a task on a target with a number of threads.
#[derive(Debug, Clone, PartialEq)]
pub struct Best {
    /// The winning record.
    pub record: Record,
    /// Seconds of the default schedule in the alternating comparison.
    pub default_seconds: f64,
    /// The winner's largest relative error against the reference.
    pub error: f64,
    /// Default time divided by the winner's time in that comparison: above one is a gain.
    pub ab_ratio: f64,
    /// Unix seconds of when it became the winner.
    pub stored: u64,
}

/// What is known about a tuning run when it begins.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunInfo {
    /// The strategy of the run.
    pub strategy: String,
    /// Its seed.
    pub seed: u64,
    /// The command line, or what stands for it.
    pub command: String,
    /// The version of the tool.
    pub tool_version: String,
    /// What else may explain a result: machine, governor, variables.
    pub environment: String,
}

/// A task of a run: what it is called there, and how much it counts.
#[derive(Debug, Clone, PartialEq)]
pub struct RunTask {
    /// The task.
    pub task: TaskKey,
    /// Its name for people: the operator, or the first node of a network it stands for.
    pub name: String,
    /// How often it runs in what is tuned for.
    pub weight: f64,
    /// Useful operations of one run of it.
    pub flops: f64,
}

/// A stored tuning run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// Its name in this database file.
    pub id: RunId,
    /// Its name everywhere: the same run has the same one in every database it was merged into.
    pub uid: String,
    /// What was known when it began.
    pub info: RunInfo,
    /// Unix seconds of when it began.
    pub started: u64,
}
