//! The state of one task: its space, its search, what is known of its candidates.

use std::collections::BTreeSet;
use std::sync::Arc;

use talweg_db::{Failure, NewRecord, RecordId, TaskKey};
use talweg_ir::{Dag, Nest, verify_nest};
use talweg_schedule::concrete::concretize;
use talweg_schedule::{Schedule, Trace, analytic};
use talweg_search::Candidate;
use talweg_search::scheduler::TaskState;
use talweg_space::Space;
use talweg_target::Target;

use crate::distances::Yardstick;
use crate::error::TuneError;
use crate::options::TaskSpec;
use crate::report::{FailureGroup, Failures, StopReason, TaskReport};
use crate::runner::Runner;
use crate::sharing::shared_axes;
use crate::strategy::Search;

/// Ways to share work among threads, of which the fastest candidate is kept.
const MOST_SHARES: usize = 4;

/// A stored record that may win.
#[derive(Clone, Debug, PartialEq)]
pub struct Contender {
    /// The record.
    pub record: RecordId,
    /// Its seconds when it was measured.
    pub seconds: f64,
    /// Its trace text.
    pub trace: String,
    /// Its largest relative error against the reference.
    pub error: f64,
    /// What its threads share, see [`shared_axes`].
    pub shares: String,
}

impl Contender {
    /// A record of a task.
    pub fn new(record: RecordId, seconds: f64, trace: String, error: f64, dag: &Dag) -> Contender {
        let shares = Trace::parse(&trace).map_or(String::new(), |trace| shared_axes(&trace, dag));
        Contender { record, seconds, trace, error, shares }
    }
}

/// The default schedule, built.
pub struct DefaultSchedule<K> {
    /// The kernel.
    pub kernel: K,
    /// Its record of this run.
    pub contender: Contender,
    /// Its time as measured, before any correction.
    pub measured: f64,
}

/// A measured candidate that may become the best.
pub struct Unproven<K> {
    /// Its record.
    pub record: RecordId,
    /// Its seconds when it was measured.
    pub seconds: f64,
    /// Its kernel.
    pub kernel: K,
}

/// The best that earlier runs have stored, where that is not the default schedule.
pub struct Proven<K> {
    /// Its record.
    pub contender: Contender,
    /// Its program.
    pub nest: Nest,
    /// Its kernel, once something was compared with it.
    pub kernel: Option<K>,
}

/// The state of a task.
pub struct TaskRun<R: Runner> {
    /// What is tuned.
    pub spec: TaskSpec,
    /// Its key in the database.
    pub key: TaskKey,
    /// Its space.
    pub space: Arc<Space>,
    /// Its search.
    pub search: Search,
    /// What candidates run on.
    pub data: R::Data,
    /// The default schedule.
    pub default: DefaultSchedule<R::Kernel>,
    /// The kernel whose times at several distances the others' are translated by: the default's, then the fastest.
    pub yardstick: Yardstick<R::Kernel>,
    /// The fastest candidates, fastest first.
    pub contenders: Vec<Contender>,
    /// Those that were the fastest for a while, in their order.
    pub leaders: Vec<Contender>,
    /// What the scheduler sees.
    pub state: TaskState,
    /// Candidates measured in this run.
    pub trials: usize,
    /// Successes of this run and earlier ones.
    pub successes: usize,
    /// Records of earlier runs.
    pub resumed: usize,
    /// Failures of this run.
    pub failures: Failures,
    /// Seconds since the start, and the best so far.
    pub curve: Vec<(f64, f64)>,
    /// Candidates measured at each point of the curve.
    pub curve_trials: Vec<usize>,
    /// The steps of what was best at each point of the curve.
    pub curve_traces: Vec<String>,
    /// The fastest of the first batch, once it is known.
    pub first_batch: Option<f64>,
    /// The fastest time as measured, before any correction.
    pub fastest_measured: f64,
    /// Whether the default schedule counts as found.
    pub default_counts: bool,
    /// Candidates near the default schedule, to be measured first.
    pub seeds: Vec<Candidate>,
    /// Batches in a row without improvement, measured or predicted.
    pub settled: usize,
    /// The seconds of the best that is stored.
    pub stored: f64,
    /// What a candidate must be faster than, beside the default schedule, to be stored in its place.
    pub proven: Option<Proven<R::Kernel>>,
    /// A faster candidate that is still to be compared with the default.
    pub unproven: Option<Unproven<R::Kernel>>,
    /// Why it gets no more batches.
    pub closed: Option<StopReason>,
}

impl<R: Runner> TaskRun<R> {
    /// The fastest time so far, the default's included where it counts.
    pub fn best_seconds(&self) -> f64 {
        let fastest = self.contenders.first().map_or(f64::INFINITY, |c| c.seconds);
        if self.default_counts { fastest.min(self.default.contender.seconds) } else { fastest }
    }

    /// Keeps a candidate if it is among the fastest `capacity`, or the fastest whose threads share what its threads share.
    pub fn offer(&mut self, contender: Contender, capacity: usize) {
        if self.contenders.iter().any(|c| c.trace == contender.trace) {
            return;
        }
        let at = self.contenders.partition_point(|c| c.seconds <= contender.seconds);
        if at == 0 {
            self.leaders.push(contender.clone());
        }
        self.contenders.insert(at, contender);
        let mut known = BTreeSet::new();
        let mut place = 0;
        self.contenders.retain(|c| {
            place += 1;
            let is_first = known.insert(c.shares.clone()) && known.len() <= MOST_SHARES;
            place <= capacity || is_first
        });
    }

    /// The kernel of this trace was timed at the usual distance, which says more than a translated time.
    pub fn correct(&mut self, trace: &str, seconds: f64) {
        let all = self.contenders.iter_mut().chain([&mut self.default.contender]);
        all.filter(|contender| contender.trace == trace).for_each(|contender| contender.seconds = seconds);
        self.contenders.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    }

    /// What is known of the task when this contender has won.
    pub fn report(
        &self,
        winner: &Contender,
        best_seconds: f64,
        default_seconds: f64,
        default_won: bool,
    ) -> TaskReport {
        TaskReport {
            name: self.spec.name.clone(),
            weight: self.spec.weight,
            best_seconds,
            default_seconds,
            gflops: self.spec.flops / best_seconds / 1e9,
            error: winner.error,
            trace: winner.trace.clone(),
            default_won,
            trials: self.trials,
            resumed: self.resumed,
            failures: self.failures.clone(),
            curve: self.curve.clone(),
            curve_trials: self.curve_trials.clone(),
            curve_traces: self.curve_traces.clone(),
            first_batch: self.first_batch,
            contenders: self.contenders.clone(),
            // The middle of those before the last.
            earlier: self.leaders.get((self.leaders.len().max(1) - 1) / 2).cloned(),
            proven: self.proven.as_ref().map(|proven| proven.contender.clone()),
            default: self.default.contender.record,
        }
    }

    /// What is known of the task by the times of the search alone.
    pub fn as_searched(&self) -> TaskReport {
        let default = &self.default.contender;
        match self.contenders.first().filter(|fastest| fastest.seconds < default.seconds) {
            Some(fastest) => self.report(fastest, fastest.seconds, default.seconds, false),
            None => self.report(default, default.seconds, default.seconds, true),
        }
    }

    /// How many kernels take part when a candidate is compared: it, the default schedule, and the best of earlier runs.
    pub fn kernels_of_proof(&self) -> usize {
        2 + usize::from(self.proven.is_some())
    }

    /// Gives the task no more batches.
    pub fn close(&mut self, reason: StopReason) {
        self.state.is_exhausted = true;
        self.closed = Some(reason);
    }

    /// The diagnosis when the first candidates have all failed.
    pub fn hopeless(&self, limit: usize) -> Option<TuneError> {
        if self.successes > 0 || self.trials < limit {
            return None;
        }
        let (cause, group) = self.failures.iter().max_by_key(|(_, group)| group.count)?;
        Some(TuneError::AllFail {
            task: self.spec.name.clone(),
            count: self.trials,
            cause: cause.clone(),
            text: group.text.clone(),
        })
    }
}

/// Counts a failure; true for the first of its cause.
pub fn count_failure(failures: &mut Failures, failure: &Failure) -> bool {
    let fresh = || FailureGroup { count: 0, text: failure.text.clone() };
    let group = failures.entry(failure.cause.clone()).or_insert_with(fresh);
    group.count += 1;
    group.count == 1
}

/// A measured candidate on its way to database and strategy.
pub struct Measured {
    /// The candidate.
    pub candidate: Candidate,
    /// Its record.
    pub record: NewRecord,
    /// Its seconds, `None` if it failed.
    pub seconds: Option<f64>,
    /// The same as measured, before any correction.
    pub measured: Option<f64>,
}

/// The concrete program of a trace.
pub fn lower(spec: &TaskSpec, trace: &Trace) -> Result<Nest, TuneError> {
    let wrong = |source| TuneError::DefaultSchedule { task: spec.name.clone(), source };
    let schedule = Schedule::replay(spec.dag.clone(), trace).map_err(wrong)?;
    let nest = schedule.lower().and_then(|nest| concretize(&nest, &|_| None)).map_err(wrong)?;
    verify_nest(&nest)
        .map_err(|violations| TuneError::IllegalDefault { task: spec.name.clone(), violations })?;
    Ok(nest)
}

/// The default schedule of a task, and its program.
pub fn default_program(spec: &TaskSpec, target: &Target) -> Result<(Trace, Nest), TuneError> {
    let trace = analytic::default_trace(&spec.dag, target);
    let nest = lower(spec, &trace)?;
    Ok((trace, nest))
}
