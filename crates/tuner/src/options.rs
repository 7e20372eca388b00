//! What to tune, how, and for how long.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use talweg_ir::Dag;
use talweg_search::FelixParams;
use talweg_search::objective::{Fork, Network, Objective};
use talweg_target::Target;

use crate::extension::Extended;
use crate::report::StopReason;
use crate::runner::Effort;
use crate::strategy::{ModelKind, StrategyKind};

/// The share of a task's time so far that one candidate may take.
const EARLY_SHARE: f64 = 0.03;

/// One task: a DAG, and how much it counts.
#[derive(Clone, Debug)]
pub struct TaskSpec {
    /// For messages and reports; the part before a colon groups similar tasks.
    pub name: String,
    /// What is computed. Its text is the task's key in the database.
    pub dag: Dag,
    /// How often it runs in what is tuned for.
    pub weight: f64,
    /// Useful operations of one run.
    pub flops: f64,
}

/// What a kernel finds in the caches when it is timed; by default whatever its last run left there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Surroundings {
    /// Inputs and outputs lie with the threads in equal parts, as the steps of a network leave them.
    pub hand_over: bool,
    /// Constants lie in no cache, as in a network whose weights do not fit them.
    pub cold_constants: bool,
}

/// How to tune.
#[derive(Clone, Debug)]
pub struct TuneOptions {
    /// The machine candidates are compiled for.
    pub target: Target,
    /// Which search.
    pub strategy: StrategyKind,
    /// Which cost model guides it; the strategy's own if not given.
    pub model: Option<ModelKind>,
    /// Parts of the search that are not talweg's own.
    pub extension: Option<Extended>,
    /// Settings of descent, for [`StrategyKind::Felix`]; a round has the size of a batch whatever they say.
    pub felix: FelixParams,
    /// Whether only candidates are searched whose tiles divide their loops.
    pub perfect_tiles: bool,
    /// Time to use, counted from [`TuneOptions::started`].
    pub budget: Option<Duration>,
    /// Candidates to measure in this run, over all tasks.
    pub trials: Option<usize>,
    /// Threads of the candidates' parallel loops.
    pub threads: usize,
    /// Names the random streams.
    pub seed: u64,
    /// The database file; in memory if not given.
    pub db: Option<PathBuf>,
    /// Whether the records of earlier runs are used.
    pub resume: bool,
    /// Candidates of a batch: what a killed run may lose.
    pub batch: usize,
    /// What several tasks are tuned for.
    pub objective: Objective,
    /// The steps of what is tuned, with the tasks that can do each, what is done without tuning first; without any, every task is a step of its own, as often as
    /// its weight says.
    pub steps: Vec<Fork>,
    /// Seconds of all tasks together that are good enough, for [`Objective::Requirement`].
    pub good_enough: Option<f64>,
    /// Time for the samples of one candidate.
    pub sampling_budget: Duration,
    /// A candidate this many times slower than the best is sampled just enough to be sure of that.
    pub slow_factor: f64,
    /// Rounds of the final comparison.
    pub alternations: usize,
    /// Candidates in the final comparison.
    pub finalists: usize,
    /// Tasks, by their positions, that have no finals: their fastest candidates are compared by the caller, in the network they
    /// belong to. The reports have them.
    pub without_finals: BTreeSet<usize>,
    /// When so many first candidates of a task fail, all of them, tuning stops.
    pub failures: usize,
    /// A task gets no more batches when so many have improved it by less than half a percent.
    pub patience: usize,
    /// How many candidates near the default schedule the first batch begins with; random and grid search do without.
    pub seeds: usize,
    /// Whether a search must find everything by itself: without candidates near the default schedule, and without
    /// counting that as found. For comparisons of searches.
    pub from_nothing: bool,
    /// The run ends when all tasks together are expected to gain less than this share of their time: see
    /// [`Forecast`](talweg_search::forecast::Forecast). Zero: it never ends for that.
    pub least_gain: f64,
    /// Whether a run may end before its budget: at the roofline, or when nothing more is predicted, gained or expected.
    pub ends_early: bool,
    /// Time to leave of the budget for what the caller does afterwards.
    pub reserve: Duration,
    /// What candidates find in the caches when they are timed.
    pub surroundings: Surroundings,
    /// When the process started: zero of the curve and of the budget.
    pub started: Instant,
    /// Ends the run with the best so far once it is set.
    pub stop: Arc<AtomicBool>,
    /// The command line, for the database.
    pub command: String,
}

impl TuneOptions {
    /// The usual settings: Felix, one thread, a minute.
    pub fn new(target: Target) -> TuneOptions {
        TuneOptions {
            target,
            strategy: StrategyKind::Felix,
            model: None,
            extension: None,
            felix: FelixParams::default(),
            perfect_tiles: false,
            budget: Some(Duration::from_secs(60)),
            trials: None,
            threads: 1,
            seed: 0,
            db: None,
            resume: true,
            batch: 32,
            objective: Objective::Sum,
            steps: Vec::new(),
            good_enough: None,
            sampling_budget: Duration::from_millis(30),
            slow_factor: 1.3,
            alternations: 13,
            finalists: 8,
            without_finals: BTreeSet::new(),
            failures: 32,
            patience: 20,
            seeds: 3,
            from_nothing: false,
            least_gain: 0.0,
            ends_early: true,
            reserve: Duration::ZERO,
            surroundings: Surroundings::default(),
            started: Instant::now(),
            stop: Arc::default(),
            command: String::new(),
        }
    }

    /// The name of the search, for records and reports.
    pub fn search_name(&self) -> &str {
        self.extension.as_ref().map_or(self.strategy.name(), |extended| extended.0.name())
    }

    /// Time for the samples of one turn in the final comparison: many short turns see through disturbances that few long
    /// ones fall for.
    pub(crate) fn turn(&self) -> Duration {
        self.sampling_budget / 3
    }

    /// Whether the first batch of a task begins with candidates near the default schedule.
    pub(crate) fn takes_seeds(&self) -> bool {
        let takes =
            self.extension.as_ref().map_or(self.strategy.takes_seeds(), |extended| extended.0.takes_seeds());
        takes && !self.from_nothing
    }

    /// How to time one candidate of so many tasks against the best so far. Early in a run its share of the time is small: what
    /// comes first is known sooner, and measured again if it stays among the best.
    pub(crate) fn effort(&self, tasks: usize, best: f64) -> Effort {
        let longest = self.sampling_budget;
        let share = Duration::from_secs_f64(EARLY_SHARE * self.elapsed() / tasks.max(1) as f64);
        let budget = share.clamp(longest / 4, longest);
        // Times on disturbed cores are corrected; waiting is for those that come and go within a sample.
        let patience = longest / 16;
        Effort { budget, patience, slower_than: Some(best * self.slow_factor), rival: Some(best) }
    }

    /// Whether everything can be done without a task: it has no weight, and all steps that could use it have a way before.
    pub(crate) fn is_spare(&self, task: usize, weight: f64) -> bool {
        let is_first = |step: &Fork| step.ways.first().is_none_or(|way| way.contains(&task));
        weight == 0.0 && !self.steps.is_empty() && !self.steps.iter().any(is_first)
    }

    /// Tasks of these weights together, numbered in their order; `places` has their positions among all that were given.
    pub(crate) fn network(&self, weights: &[f64], places: &[usize]) -> Network {
        if self.steps.is_empty() {
            return Network::new(weights.iter().copied().enumerate().collect());
        }
        // Some may have been left out, and a run that was interrupted has not begun all of them.
        let number = |task: &usize| places.iter().position(|place| place == task);
        let begun = |way: &Vec<usize>| way.iter().map(number).collect::<Option<Vec<usize>>>();
        let step = |step: &Fork| Fork { ways: step.ways.iter().filter_map(begun).collect(), ..*step };
        Network::of_steps(self.steps.iter().map(step).filter(|step| !step.ways.is_empty()))
    }

    /// Seconds since the start.
    pub fn elapsed(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }

    /// Whether a run must end after so many trials, keeping some time back, and why.
    pub(crate) fn is_over(&self, trials: usize, reserve: Duration) -> Option<StopReason> {
        if self.stop.load(Ordering::Relaxed) {
            return Some(StopReason::Interrupted);
        }
        if self.trials.is_some_and(|n| trials >= n) {
            return Some(StopReason::Trials);
        }
        let deadline = self.budget.map(|budget| budget.saturating_sub(reserve));
        deadline.is_some_and(|d| self.started.elapsed() >= d).then_some(StopReason::Budget)
    }
}
