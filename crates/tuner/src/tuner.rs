//! The loop over tasks and batches.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use talweg_db::{
    Best, Database, Failure, NewBest, NewRecord, Replace, Run, RunId, RunInfo, RunTask, TargetKey,
};
use talweg_schedule::Trace;
use talweg_search::Sample;
use talweg_search::forecast::Forecast;
use talweg_search::objective::{Network, Objective};
use talweg_search::scheduler::{Next, Reason, Scheduler, TaskState};

use crate::distances::{Places, Yardstick};
use crate::error::TuneError;
use crate::event::Event;
use crate::finals::{CLOSED_FIELD, Finalist, OPEN_ROUNDS, compare};
use crate::options::{TaskSpec, TuneOptions};
use crate::prepare::Preparation;
use crate::records::{DEFAULT, environment, sample_of, surroundings_of, task_key};
use crate::report::{Failures, Phases, StopReason, TaskReport, TuneReport};
use crate::runner::{Attempt, Effort, Runner, Workers};
use crate::seed::seeds;
use crate::strategy::Learner;
use crate::task::{Contender, DefaultSchedule, Proven, TaskRun, default_program, lower};

/// Seconds after which the peak is measured: the first results need not wait for it.
const PEAK_AFTER: f64 = 4.0;

/// The share of the peak that counts as its most: a peak that was measured may be below that of a calmer moment.
const PEAK_AT_MOST: f64 = 1.03;

/// A task has no finals when other ways to do its steps are faster by this share.
const FAR_BEHIND: f64 = 0.1;

/// Where events go.
pub type Listener<'a> = &'a mut dyn FnMut(Event);

/// The default schedule of a task as timed, and the same kernel as its first yardstick.
type DefaultAndYardstick<K> = (DefaultSchedule<K>, Yardstick<K>);

/// Tunes tasks.
pub struct Tuner<R: Runner = Workers> {
    pub(crate) options: TuneOptions,
    pub(crate) specs: Vec<TaskSpec>,
    pub(crate) runner: R,
    pub(crate) db: Database,
    pub(crate) target: TargetKey,
    /// Candidates measured in this run.
    pub(crate) trials: usize,
    /// The default schedules of all tasks together.
    default_seconds: f64,
    /// Operations per second that no candidate can exceed; known once the run is a few seconds old.
    pub(crate) peak: Option<f64>,
    /// Seconds spent on comparing candidates with defaults before the end.
    pub(crate) proving: f64,
    /// Kernels that are still to be compared with each other, for tasks whose fastest candidate has not been.
    pub(crate) unproven: usize,
    /// Runs that timed their candidates as this one does.
    comparable: Vec<RunId>,
    /// How far apart threads were.
    pub(crate) places: Places,
    pub(crate) phases: Phases,
}

impl Tuner<Workers> {
    /// A tuner that measures on this machine.
    pub fn new(options: TuneOptions, tasks: Vec<TaskSpec>) -> Result<Tuner, TuneError> {
        let workers = Workers::new(&options)?;
        Tuner::with_runner(options, tasks, workers)
    }
}

impl<R: Runner> Tuner<R> {
    /// A tuner on any runner.
    pub fn with_runner(options: TuneOptions, specs: Vec<TaskSpec>, runner: R) -> Result<Tuner<R>, TuneError> {
        if specs.is_empty() {
            return Err(TuneError::NoTasks);
        }
        if let Some(model) = options.model.filter(|model| !options.strategy.can_use(*model)) {
            return Err(TuneError::NoSlope { model: model.name().into() });
        }
        let db = match &options.db {
            Some(path) => Database::open(path)?,
            None => Database::open_in_memory()?,
        };
        let target = TargetKey::new(options.target.fingerprint());
        Ok(Tuner {
            options,
            specs,
            runner,
            db,
            target,
            trials: 0,
            default_seconds: 0.0,
            peak: None,
            proving: 0.0,
            unproven: 0,
            comparable: Vec::new(),
            places: Places::default(),
            phases: Phases::default(),
        })
    }

    /// The database.
    pub fn database(&self) -> &Database {
        &self.db
    }

    /// Tunes until something ends it. Whatever ends it, the best so far is compared with the default and stored.
    pub fn run(&mut self, listener: Listener<'_>) -> Result<TuneReport, TuneError> {
        self.trials = 0;
        (self.peak, self.proving, self.unproven) = (None, 0.0, 0);
        (self.phases, self.places) = (Phases::default(), Places::default());
        let begin = Instant::now();
        let is_comparable = |run: &Run| surroundings_of(&run.info.environment) == self.options.surroundings;
        self.comparable = self.db.runs()?.into_iter().filter(is_comparable).map(|run| run.id).collect();
        let run = self.db.begin_run(&RunInfo {
            strategy: self.options.search_name().into(),
            seed: self.options.seed,
            command: self.options.command.clone(),
            tool_version: env!("CARGO_PKG_VERSION").into(),
            environment: environment(&self.options, None),
        })?;
        let named = |spec: &TaskSpec| RunTask {
            task: task_key(&spec.dag),
            name: spec.name.clone(),
            weight: spec.weight,
            flops: spec.flops,
        };
        self.db.add_run_tasks(run, &self.specs.iter().map(named).collect::<Vec<_>>())?;
        let shared = Learner::of(&self.options);
        let (mut tasks, mut places, mut left_out) = (Vec::new(), Vec::new(), Vec::new());
        for at in 0..self.specs.len() {
            if self.options.stop.load(Ordering::Relaxed) {
                break;
            }
            match self.start(at, run, &shared, listener) {
                Ok(task) => {
                    tasks.push(task);
                    places.push(at);
                }
                Err(error) if error.is_of_task() && self.options.is_spare(at, self.specs[at].weight) => {
                    listener(Event::GivenUp { task: at, text: error.to_string() });
                    left_out.push(at);
                }
                Err(error) => return Err(error),
            }
        }
        self.phases.prepare = begin.elapsed().as_secs_f64();
        let scheduler = Scheduler {
            objective: self.options.objective,
            patience: if self.options.ends_early { self.options.patience } else { usize::MAX },
            gain: 0.005,
            seed: self.options.seed,
            ..Scheduler::default()
        };
        self.default_seconds = tasks.iter().map(|t| t.default.contender.seconds).sum();
        let networks = self.networks(&tasks, &places);
        let (searching, mut rounds, mut is_peak_known) = (Instant::now(), 0u32, false);
        if self.options.steps.iter().any(|step| step.ways.len() > 1) {
            // Which algorithms can win depends on it.
            self.measure_peak(run, &mut tasks)?;
            is_peak_known = true;
        }
        let reason = loop {
            if let Some(reason) = self.is_over() {
                break reason;
            }
            let states: Vec<TaskState> = tasks.iter().map(|t| t.state.clone()).collect();
            let at = match scheduler.next(&networks, &states) {
                Next::Task(at) => at,
                Next::Done(Reason::RequirementsMet) => break StopReason::GoodEnough,
                Next::Done(_) => break why_nothing(&tasks),
            };
            self.round(places[at], &mut tasks[at], run, listener)?;
            if !is_peak_known && self.options.elapsed() > PEAK_AFTER {
                self.measure_peak(run, &mut tasks)?;
                is_peak_known = true;
            }
            if let Some(hopeless) = tasks[at].hopeless(self.options.failures) {
                if !self.options.is_spare(places[at], self.specs[places[at]].weight) {
                    return Err(hopeless);
                }
                listener(Event::GivenUp { task: places[at], text: hopeless.to_string() });
                tasks[at].close(StopReason::NothingToGain);
            }
            rounds += 1;
            let each = searching.elapsed().as_secs_f64() / f64::from(rounds);
            if self.gains_too_little(&scheduler, &networks, &tasks, each, listener) {
                // The peak of a calmer moment may be higher, and leave more to gain.
                let before = self.peak;
                self.measure_peak(run, &mut tasks)?;
                is_peak_known = true;
                let rises = before.zip(self.peak).is_some_and(|(was, is)| is > was * PEAK_AT_MOST);
                if !rises || self.gains_too_little(&scheduler, &networks, &tasks, each, listener) {
                    break StopReason::Forecast;
                }
            }
        };
        let begin = Instant::now();
        if !is_peak_known && reason != StopReason::Interrupted {
            self.measure_peak(run, &mut tasks)?;
        }
        let seconds: Vec<f64> = tasks.iter().map(TaskRun::best_seconds).collect();
        let is_beaten = |at: usize| networks.iter().all(|n| n.is_beaten(&seconds, at, FAR_BEHIND));
        let mut reports = Vec::new();
        for (at, task) in tasks.iter_mut().enumerate() {
            let is_stopped = self.options.stop.load(Ordering::Relaxed);
            let is_late = self.deadline().is_some_and(|deadline| Instant::now() >= deadline);
            let place = places[at];
            let report = match self.options.without_finals.contains(&place) {
                true if !is_stopped => task.as_searched(),
                false if !is_stopped && !is_late && !is_beaten(at) => self.finish(place, task, listener)?,
                _ => self.finish_at_once(place, task, listener)?,
            };
            reports.push(report);
        }
        self.phases.finals = begin.elapsed().as_secs_f64();
        listener(Event::Finished { reason, trials: self.trials });
        let weights: Vec<f64> = reports.iter().map(|report| report.weight).collect();
        Ok(TuneReport {
            network: self.options.network(&weights, &places),
            tasks: reports,
            left_out,
            trials: self.trials,
            seconds: self.options.elapsed(),
            reason,
            strategy: self.options.search_name().into(),
            phases: self.phases,
        })
    }

    /// Measures the peak, for the end at the roofline, for what a task can gain at most, and for reports.
    fn measure_peak(&mut self, run: RunId, tasks: &mut [TaskRun<R>]) -> Result<(), TuneError> {
        let begin = Instant::now();
        self.peak = self.peak.into_iter().chain(self.runner.peak()).reduce(f64::max);
        if let Some(peak) = self.peak {
            for task in tasks {
                task.state.least = 2.0 * task.spec.dag.multiply_adds() / (peak * PEAK_AT_MOST);
            }
        }
        self.db.set_environment(run, &environment(&self.options, self.peak))?;
        self.phases.prepare += begin.elapsed().as_secs_f64();
        Ok(())
    }

    /// What the objective is a function of: for speed-ups every task by itself against its default, otherwise all tasks
    /// together, against the latency that is good enough. `places` has their positions among all that were given.
    fn networks(&self, tasks: &[TaskRun<R>], places: &[usize]) -> Vec<Network> {
        if self.options.objective == Objective::Speedup {
            let default = |at: usize| tasks[at].default.contender.seconds;
            let network = |at: usize| Network { reference: default(at), ..Network::new(vec![(at, 1.0)]) };
            return (0..tasks.len()).map(network).collect();
        }
        let weights: Vec<f64> = tasks.iter().map(|t| t.spec.weight).collect();
        let all = self.options.network(&weights, places);
        vec![Network { reference: self.options.good_enough.unwrap_or(0.0), ..all }]
    }

    /// Whether the rest of the run is expected to gain too little, at so many seconds a round.
    fn gains_too_little(
        &self,
        scheduler: &Scheduler,
        networks: &[Network],
        tasks: &[TaskRun<R>],
        seconds_each: f64,
        listener: Listener<'_>,
    ) -> bool {
        let options = &self.options;
        let by_trials =
            options.trials.map(|n| n.saturating_sub(self.trials) as f64 / options.batch.max(1) as f64);
        let by_time = options.budget.map(|budget| {
            let left = budget.saturating_sub(self.reserve()).as_secs_f64() - options.elapsed();
            left.max(0.0) / seconds_each.max(1e-6)
        });
        let rounds = by_trials.unwrap_or(f64::INFINITY).min(by_time.unwrap_or(f64::INFINITY));
        let states: Vec<TaskState> = tasks.iter().map(|t| t.state.clone()).collect();
        let Some(forecast) = Forecast::of(scheduler, networks, &states, rounds) else { return false };
        // With few rounds left there is little to gain, and little to save.
        let is_early = rounds > Forecast::HORIZON as f64;
        let may_end = options.ends_early && options.least_gain > 0.0 && is_early;
        let ends = may_end && forecast.share() < options.least_gain;
        let Forecast { gain, latency } = forecast;
        listener(Event::Forecast { latency, gain, rounds, ends });
        ends
    }

    /// Whether the run must end, and why.
    pub(crate) fn is_over(&self) -> Option<StopReason> {
        self.options.is_over(self.trials, self.reserve())
    }

    /// Time to keep for the finals: what they are expected to take, yet never much of a short budget.
    pub(crate) fn reserve(&self) -> Duration {
        let options = &self.options;
        let Some(budget) = options.budget else { return Duration::ZERO };
        let open = options.alternations.min(OPEN_ROUNDS) * (options.finalists + 1);
        let closed = options.alternations.saturating_sub(OPEN_ROUNDS) * (CLOSED_FIELD + 1);
        let with_finals = self.specs.len() - options.without_finals.len();
        let runs = ((open + closed) * with_finals) as f64;
        let each = options.turn().as_secs_f64() + 0.005;
        // A run also checks and warms up, which for slow kernels is what takes the time.
        let share = with_finals as f64 / self.specs.len().max(1) as f64;
        let slow = 2.0 * self.default_seconds * (open + closed) as f64 * share;
        let proofs = self.proof(self.unproven);
        (Duration::from_secs_f64(runs * each + slow) + proofs).min(budget / 5) + options.reserve
    }

    /// Prepares a task: its space, its default schedule measured, its search told what earlier runs know.
    fn start(
        &mut self,
        at: usize,
        run: RunId,
        shared: &Learner,
        listener: Listener<'_>,
    ) -> Result<TaskRun<R>, TuneError> {
        let spec = self.specs[at].clone();
        let target = self.options.target.clone();
        let key = task_key(&spec.dag);
        let (trace, nest) = default_program(&spec, &target)?;
        // The default schedule is built, and workers start, while the search is put together; it is timed when both are done.
        let Tuner { runner, options, specs, db, target: machine, .. } = self;
        let preparation = Preparation { options, specs, db, target: machine, shared };
        let (search, built) = std::thread::scope(|scope| {
            let building = scope.spawn(|| {
                let data = runner.data_by(&spec.dag, &nest);
                data.map(|data| (data, runner.build(std::slice::from_ref(&nest)).pop()))
            });
            let search = preparation.search(at, &key);
            (search, building.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        });
        let (space, search) = search?;
        let reference = |source| TuneError::Reference { task: spec.name.clone(), source };
        let (data, built) = built.map_err(reference)?;
        let (default, yardstick) = self.measure_default(&spec, &data, (&trace, built), run)?;
        let known_at = self.options.elapsed();
        let group = spec.name.split(':').next().unwrap_or_default();
        let group = group.bytes().fold(7u64, |hash, byte| hash.wrapping_mul(31).wrapping_add(byte.into()));
        let start = (!self.options.from_nothing).then_some(default.contender.seconds);
        let state = TaskState { flops: spec.flops, group, start, ..TaskState::default() };
        let mut task = TaskRun {
            key,
            search,
            data,
            contenders: Vec::new(),
            leaders: Vec::new(),
            state,
            trials: 0,
            successes: 0,
            resumed: 0,
            failures: Failures::new(),
            curve: Vec::new(),
            curve_trials: Vec::new(),
            curve_traces: Vec::new(),
            first_batch: None,
            fastest_measured: if self.options.from_nothing { f64::INFINITY } else { default.measured },
            default_counts: !self.options.from_nothing,
            seeds: Vec::new(),
            settled: 0,
            closed: None,
            stored: f64::INFINITY,
            proven: None,
            unproven: None,
            yardstick,
            default,
            space,
            spec,
        };
        let mut known = Vec::new();
        if self.options.resume {
            known = self.resume(&mut task)?;
        }
        if self.options.takes_seeds() {
            task.seeds = seeds(&task.space, &trace, self.options.seeds);
            task.seeds.retain(|seed| known.iter().all(|sample| sample.candidate != *seed));
        }
        self.store_default(&mut task)?;
        if task.default_counts {
            task.curve.push((known_at, task.default.contender.seconds));
            task.curve_traces.push(task.default.contender.trace.clone());
        }
        if let Some(first) = task.contenders.first().filter(|c| c.seconds <= task.best_seconds()) {
            task.curve.push((self.options.elapsed(), first.seconds));
            task.curve_traces.push(first.trace.clone());
        }
        task.curve_trials = vec![0; task.curve.len()];
        listener(Event::TaskStarted {
            task: at,
            name: task.spec.name.clone(),
            sketches: task.space.sketches.len(),
            size: task.space.rough_size(),
            resumed: task.resumed,
            default_seconds: task.default.contender.seconds,
            best_seconds: task.best_seconds(),
        });
        Ok(task)
    }

    /// Stores the default schedule as the best when there is none, so that a killed run leaves one. What is stored otherwise is
    /// what candidates are compared with.
    fn store_default(&mut self, task: &mut TaskRun<R>) -> Result<(), TuneError> {
        let stored = self.db.best(&task.key, &self.target, self.options.threads as u32)?;
        task.stored = task.default.contender.seconds;
        match stored {
            Some(best) => {
                let seconds = best.record.typical_seconds().unwrap_or(f64::INFINITY);
                task.stored = task.stored.min(seconds);
                task.proven = self.proven(task, best);
            }
            None => {
                let default_seconds = task.default.contender.seconds;
                let best = NewBest { record: task.default.contender.record, default_seconds, ab_ratio: 1.0 };
                self.db.store_best(&best, Replace::IfFaster)?;
            }
        }
        Ok(())
    }

    /// The best of earlier runs as a finalist, where it is to be used and is another than the default schedule.
    fn proven(&self, task: &TaskRun<R>, best: Best) -> Option<Proven<R::Kernel>> {
        let is_wanted = self.options.resume && best.record.trace != task.default.contender.trace;
        let trace = Trace::parse(&best.record.trace).ok().filter(|_| is_wanted)?;
        let nest = lower(&task.spec, &trace).ok()?;
        let seconds = best.record.typical_seconds()?;
        let (record, trace) = (best.record.id, best.record.trace);
        let contender = Contender::new(record, seconds, trace, best.error, &task.spec.dag);
        Some(Proven { contender, nest, kernel: None })
    }

    /// Tells the search what earlier runs measured.
    fn resume(&mut self, task: &mut TaskRun<R>) -> Result<Vec<Sample>, TuneError> {
        let records = self.db.records(&task.key, &self.target, self.options.threads as u32)?;
        let mut samples = Vec::new();
        for record in records.iter().filter(|record| self.comparable.contains(&record.run)) {
            let Some(sample) = sample_of(&task.space, record) else { continue };
            if let (Some(seconds), Some(error)) = (sample.outcome.seconds(), record.verification) {
                task.successes += 1;
                let trace = record.trace.clone();
                let contender = Contender::new(record.id, seconds, trace, error, &task.spec.dag);
                task.offer(contender, self.options.finalists);
            }
            samples.push(sample);
        }
        task.resumed = samples.len();
        if !samples.is_empty() {
            task.search.strategy.tell(&samples);
        }
        Ok(samples)
    }

    /// Measures the default schedule, which has been built, and stores it.
    fn measure_default(
        &mut self,
        spec: &TaskSpec,
        data: &R::Data,
        (trace, built): (&Trace, Option<Attempt<R::Kernel>>),
        run: RunId,
    ) -> Result<DefaultAndYardstick<R::Kernel>, TuneError> {
        let fails = |failure: Failure| TuneError::DefaultFails {
            task: spec.name.clone(),
            cause: failure.cause,
            text: failure.text,
        };
        let lost = || Failure { cause: "build".into(), text: "nothing was built".into() };
        let (kernel, compile_seconds) = built.unwrap_or_else(|| Err(lost())).map_err(fails)?;
        // The finals measure it again, for longer.
        let effort = Effort { slower_than: None, ..self.options.effort(self.specs.len(), f64::INFINITY) };
        let timing = self.runner.run(data, &kernel, &effort).map_err(fails)?;
        let key = task_key(&spec.dag);
        let threads = self.options.threads as u32;
        let text = trace.to_string();
        let yardstick = Yardstick::new(kernel.clone(), text.clone(), &timing, &mut self.places);
        let timing = self.places.usual(timing, &yardstick);
        let mut record =
            NewRecord::new(run, &key, &self.target, threads, text.clone(), Ok(timing.samples.clone()));
        record.verification = timing.error;
        record.strategy = DEFAULT.into();
        record.seed = self.options.seed;
        record.compile_seconds = compile_seconds;
        record.elapsed = Some(self.options.elapsed());
        let ids = self.db.insert_batch(&[record])?.ids;
        let error = timing.error.unwrap_or(0.0);
        let contender = Contender::new(ids[0], timing.seconds, text, error, &spec.dag);
        Ok((DefaultSchedule { kernel, contender, measured: timing.measured }, yardstick))
    }

    /// When the time for the finals is used up.
    fn deadline(&self) -> Option<Instant> {
        let budget = self.options.budget?.saturating_sub(self.options.reserve);
        self.options.started.checked_add(budget)
    }

    /// Reports what is stored, without finals: the time is used up, somebody waits for the end, or the default failed in
    /// them. What is stored was checked, and has proven faster than the default.
    fn finish_at_once(
        &mut self,
        at: usize,
        task: &mut TaskRun<R>,
        listener: Listener<'_>,
    ) -> Result<TaskReport, TuneError> {
        self.prove(at, task, listener)?;
        let default = &task.default.contender;
        let stored = self.db.best(&task.key, &self.target, self.options.threads as u32)?;
        let stored = stored.and_then(|best| {
            let seconds = best.record.typical_seconds()?;
            let (record, trace) = (best.record.id, best.record.trace);
            Some(Contender::new(record, seconds, trace, best.error, &task.spec.dag))
        });
        let winner = stored.unwrap_or_else(|| default.clone());
        let default_won = winner.trace == default.trace;
        let best_seconds = if default_won { default.seconds } else { winner.seconds };
        Ok(task.report(&winner, best_seconds, default.seconds, default_won))
    }

    /// The finals of a task: the fastest candidates, and what another process may have stored meanwhile, against the
    /// default schedule. Stores and reports the winner; when the default fails, what is stored stays.
    fn finish(
        &mut self,
        at: usize,
        task: &mut TaskRun<R>,
        listener: Listener<'_>,
    ) -> Result<TaskReport, TuneError> {
        let stored = self.db.best(&task.key, &self.target, self.options.threads as u32)?;
        task.contenders.truncate(self.options.finalists);
        if let Some(best) = stored.filter(|_| self.options.resume) {
            let known = task.contenders.iter().any(|c| c.trace == best.record.trace);
            if !known && best.record.trace != task.default.contender.trace {
                let seconds = best.record.typical_seconds().unwrap_or(f64::INFINITY);
                let (record, trace, error) = (best.record.id, best.record.trace, best.error);
                task.contenders.push(Contender::new(record, seconds, trace, error, &task.spec.dag));
            }
        }
        let parsed = task.contenders.iter().filter_map(|c| {
            let trace = Trace::parse(&c.trace).ok()?;
            Some((c, lower(&task.spec, &trace).ok()?))
        });
        let (contenders, nests): (Vec<&Contender>, Vec<_>) = parsed.unzip();
        let built = self.runner.build(&nests);
        let built: Vec<_> =
            contenders.into_iter().zip(built).filter_map(|(c, k)| Some((c, k.ok()?.0))).collect();
        let default = &task.default;
        let first = Finalist { record: default.contender.record, kernel: &default.kernel };
        let others = built.iter().map(|(c, kernel)| Finalist { record: c.record, kernel });
        let finalists: Vec<_> = std::iter::once(first).chain(others).collect();
        let (rounds, turn) = (self.options.alternations, self.options.turn());
        let deadline = self.deadline();
        let verdict = compare(&mut self.runner, &task.data, &finalists, rounds, turn, deadline);
        let Some(verdict) = verdict else {
            // Nothing was learnt about any of them.
            return self.finish_at_once(at, task, listener);
        };
        let record = finalists[verdict.winner].record;
        self.db.store_best(&verdict.best(record), Replace::Always)?;
        listener(Event::Verified {
            task: at,
            record,
            seconds: verdict.seconds,
            default_seconds: verdict.default_seconds,
        });
        let winner = match verdict.winner.checked_sub(1) {
            Some(at) => built[at].0,
            None => &default.contender,
        };
        let mut report = task.report(winner, verdict.seconds, verdict.default_seconds, verdict.winner == 0);
        report.error = report.error.max(verdict.error);
        Ok(report)
    }
}

/// Why no task gets another batch: the reason they share, if there is one.
fn why_nothing<R: Runner>(tasks: &[TaskRun<R>]) -> StopReason {
    let mut reasons = tasks.iter().map(|t| t.closed.unwrap_or(StopReason::NothingToGain));
    let first = reasons.next().unwrap_or(StopReason::NothingToGain);
    if reasons.all(|r| r == first) { first } else { StopReason::NothingToGain }
}
