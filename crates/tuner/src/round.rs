//! One batch of a task: ask, build, measure, store, tell.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use talweg_db::{Failure, NewRecord, Replace, RunId, TargetKey, TaskKey};
use talweg_search::{Candidate, Outcome, Sample};
use talweg_space::Space;

use crate::distances::{Places, Yardstick};
use crate::error::TuneError;
use crate::event::Event;
use crate::finals::{Finalist, compare};
use crate::options::TuneOptions;
use crate::records::trace_text;
use crate::report::{Failures, StopReason};
use crate::runner::{Effort, LOST, Observer, Runner, Timing};
use crate::strategy::Learner;
use crate::task::{Contender, Measured, TaskRun, Unproven, count_failure};
use crate::tuner::{Listener, Tuner};

/// Rounds of the comparison with the default before a new best is stored; the finals have more.
const PROVING_ROUNDS: usize = 2;
/// The share of a run's time that these comparisons may take: what is found while it is used up is compared later.
const PROVING_SHARE: f64 = 0.05;
/// A new best is proven and stored when it is faster than the last one stored by this share.
const WORTH_PROVING: f64 = 0.01;
/// The share of the peak that counts as all of it: measured peaks vary by as much. What is faster than the whole peak shows
/// that the peak was measured beside a busy neighbour.
const ROOFLINE: std::ops::RangeInclusive<f64> = 0.98..=1.02;
/// A batch promises something when the model expects a candidate of this share of the best speed or more.
const PROMISING: f64 = 0.9;
/// An improvement below this share is noise.
const NOISE: f64 = 0.005;

impl<R: Runner> Tuner<R> {
    /// One batch of a task.
    pub(crate) fn round(
        &mut self,
        at: usize,
        task: &mut TaskRun<R>,
        run: RunId,
        listener: Listener<'_>,
    ) -> Result<(), TuneError> {
        let left = self.options.trials.map_or(usize::MAX, |n| n.saturating_sub(self.trials));
        let begin = Instant::now();
        // Seeds come on top of the strategy's batch, so that its rounds and the batches stay in step.
        let mut batch = std::mem::take(&mut task.seeds);
        batch.truncate(left);
        let is_first = task.trials == 0 && task.resumed == 0;
        let seeds = batch.clone();
        let asked = task.search.strategy.ask(self.options.batch.max(1).min(left - batch.len()));
        // A seed that is asked for as well is measured once.
        batch.retain(|seed| !asked.contains(seed));
        batch.extend(asked);
        let scores = task.search.strategy.predict(&batch).filter(|s| s.len() == batch.len());
        let predicted = scores.iter().flatten().copied().map(f64::from).reduce(f64::max);
        let seconds = begin.elapsed().as_secs_f64();
        self.phases.search += seconds;
        listener(Event::Asked { task: at, count: batch.len(), predicted, seconds });
        if let Some(error) = task.search.model.as_ref().and_then(Learner::error) {
            listener(Event::ModelFailed { task: at, text: error.to_string() });
        }
        if batch.is_empty() {
            task.close(StopReason::Exhausted);
            return Ok(());
        }
        self.time_yardstick(task);
        let before = task.best_seconds();
        let (measured, champion) = self.measure(at, task, &batch, scores.as_deref(), run, listener);
        if is_first {
            let own = measured.iter().filter(|m| !seeds.contains(&m.candidate));
            task.first_batch = own.filter_map(|m| m.seconds).reduce(f64::min);
        }
        task.fastest_measured =
            measured.iter().filter_map(|m| m.measured).fold(task.fastest_measured, f64::min);
        self.store(at, task, &measured, champion, listener)?;
        let sample =
            |m: Measured| Sample::new(m.candidate, m.seconds.map_or(Outcome::Failed, Outcome::Seconds));
        let begin = Instant::now();
        task.search.strategy.tell(&measured.into_iter().map(sample).collect::<Vec<_>>());
        self.phases.search += begin.elapsed().as_secs_f64();
        task.state.finish_round(Some(task.best_seconds()));
        self.judge(task, before, predicted);
        Ok(())
    }

    /// Times the yardstick of a task where the threads are at a distance that it has not been timed at.
    fn time_yardstick(&mut self, task: &mut TaskRun<R>) {
        if !task.yardstick.is_missing(&self.places) {
            return;
        }
        let begin = Instant::now();
        let effort = Effort { slower_than: None, rival: None, ..self.options.effort(self.specs.len(), 0.0) };
        if let Ok(timing) = self.runner.run(&task.data, &task.yardstick.kernel, &effort)
            && let Some(seconds) = task.yardstick.add(&timing, &mut self.places)
        {
            let trace = task.yardstick.trace.clone();
            task.correct(&trace, seconds);
        }
        self.phases.measure += begin.elapsed().as_secs_f64();
    }

    /// Closes a task that has nothing left to gain.
    fn judge(&mut self, task: &mut TaskRun<R>, before: f64, predicted: Option<f64>) {
        if !self.options.ends_early {
            return;
        }
        let now = task.best_seconds();
        // By the time as measured: a corrected one may be too short.
        let speed = task.spec.flops / task.fastest_measured;
        let share = |peak: Option<f64>| peak.map_or(0.0, |peak| speed / peak);
        if share(self.peak) >= *ROOFLINE.start() {
            // The peak of a calmer moment may be higher.
            self.peak = self.peak.into_iter().chain(self.runner.peak()).reduce(f64::max);
            if ROOFLINE.contains(&share(self.peak)) {
                return task.close(StopReason::Roofline);
            }
        }
        let predicted = predicted.filter(|_| task.search.predicts_speed);
        let hopeless = predicted.is_some_and(|p| p < PROMISING) && now > before * (1.0 - NOISE);
        task.settled = if hopeless { task.settled + 1 } else { 0 };
        // Without a model's word for it, patience is twice as long.
        if task.settled >= (self.options.patience / 2).max(1) {
            task.close(StopReason::NothingPredicted);
        }
    }

    /// Measures a batch. Candidates lost to somebody else's kill are not among the results. The position and the kernel
    /// of a new best come along.
    fn measure(
        &mut self,
        at: usize,
        task: &mut TaskRun<R>,
        batch: &[Candidate],
        scores: Option<&[f32]>,
        run: RunId,
        listener: Listener<'_>,
    ) -> (Vec<Measured>, Option<(usize, R::Kernel)>) {
        let best = task.best_seconds();
        let (reserve, tasks) = (self.reserve(), self.specs.len());
        let TaskRun {
            space,
            key,
            data,
            failures,
            curve,
            curve_trials,
            curve_traces,
            trials,
            successes,
            yardstick,
            ..
        } = task;
        let space: &Space = space;
        let mut bench = Bench {
            at,
            tasks,
            space,
            key,
            failures,
            curve,
            curve_trials,
            curve_traces,
            task_trials: trials,
            successes,
            batch,
            scores,
            run,
            options: &self.options,
            target: &self.target,
            places: &mut self.places,
            yardstick,
            trials: &mut self.trials,
            reserve,
            best,
            measured: Vec::with_capacity(batch.len()),
            champion: None,
            listener,
        };
        let make = |at: usize| {
            let candidate = &batch[at];
            space.instantiate(candidate).map_err(|error| format!("candidate {candidate}: {error}"))
        };
        let phases = self.runner.measure(data, batch.len(), &make, &mut bench);
        let Bench { measured, champion, listener, .. } = bench;
        self.phases.build += phases.building;
        self.phases.measure += phases.timing;
        let succeeded = measured.iter().filter(|m| m.seconds.is_some()).count();
        let failed = measured.len() - succeeded;
        let (building, timing) = (phases.building, phases.timing);
        listener(Event::BatchMeasured { task: at, succeeded, failed, building, timing });
        (measured, champion)
    }

    /// Stores a batch in one transaction, and its best as the best of all once it has proven faster than the default: at
    /// once if there is time for that, otherwise after a later batch or at the end.
    fn store(
        &mut self,
        at: usize,
        task: &mut TaskRun<R>,
        measured: &[Measured],
        champion: Option<(usize, R::Kernel)>,
        listener: Listener<'_>,
    ) -> Result<(), TuneError> {
        let begin = Instant::now();
        let records: Vec<NewRecord> = measured.iter().map(|m| m.record.clone()).collect();
        if records.is_empty() {
            return Ok(());
        }
        let ids = self.db.insert_batch(&records)?.ids;
        for (one, id) in measured.iter().zip(&ids) {
            if let (Some(seconds), Some(error)) = (one.seconds, one.record.verification) {
                let trace = one.record.trace.clone();
                let contender = Contender::new(*id, seconds, trace, error, &task.spec.dag);
                task.offer(contender, self.options.finalists);
            }
        }
        listener(Event::Saved { task: at, records: records.len(), trials: self.trials });
        if let Some((position, kernel)) = champion
            && let (Some(record), Some(seconds)) = (ids.get(position), measured[position].seconds)
            && seconds < task.stored * (1.0 - WORTH_PROVING)
        {
            self.unproven += if task.unproven.is_none() { task.kernels_of_proof() } else { 0 };
            task.unproven = Some(Unproven { record: *record, seconds, kernel });
        }
        let comes_to = self.proving + self.proof(task.kernels_of_proof()).as_secs_f64();
        if comes_to < PROVING_SHARE * self.options.elapsed() && self.is_over().is_none() {
            self.prove(at, task, listener)?;
        }
        self.phases.store += begin.elapsed().as_secs_f64();
        Ok(())
    }

    /// What comparing so many kernels with each other is expected to take.
    pub(crate) fn proof(&self, kernels: usize) -> Duration {
        (kernels * PROVING_ROUNDS) as u32 * (self.options.sampling_budget + Duration::from_millis(5))
    }

    /// Compares the fastest candidate with the default schedule and the best of earlier runs if that has not been done, and
    /// stores it if it is faster than both: that one may be the fastest in place, and have been slower alone.
    pub(crate) fn prove(
        &mut self,
        at: usize,
        task: &mut TaskRun<R>,
        listener: Listener<'_>,
    ) -> Result<(), TuneError> {
        let Some(Unproven { record, seconds, kernel }) = task.unproven.take() else { return Ok(()) };
        let begin = Instant::now();
        self.unproven = self.unproven.saturating_sub(task.kernels_of_proof());
        if let Some(proven) = task.proven.as_mut().filter(|proven| proven.kernel.is_none()) {
            let built = self.runner.build(std::slice::from_ref(&proven.nest)).pop();
            proven.kernel = built.and_then(Result::ok).map(|(kernel, _)| kernel);
        }
        let default = &task.default;
        let first = Finalist { record: default.contender.record, kernel: &default.kernel };
        let proven = task.proven.iter().filter_map(|proven| {
            Some(Finalist { record: proven.contender.record, kernel: proven.kernel.as_ref()? })
        });
        let finalists: Vec<_> =
            [first, Finalist { record, kernel: &kernel }].into_iter().chain(proven).collect();
        let budget = self.options.sampling_budget;
        let verdict = compare(&mut self.runner, &task.data, &finalists, PROVING_ROUNDS, budget, None);
        if let Some(verdict) = verdict.filter(|v| v.winner == 1) {
            self.db.store_best(&verdict.best(record), Replace::IfFaster)?;
            task.stored = seconds;
            let (seconds, default_seconds) = (verdict.seconds, verdict.default_seconds);
            listener(Event::BestStored { task: at, record, seconds, default_seconds });
        }
        self.proving += begin.elapsed().as_secs_f64();
        Ok(())
    }
}

/// A batch under measurement.
struct Bench<'a, 'l, K> {
    at: usize,
    /// Tasks of the run.
    tasks: usize,
    space: &'a Space,
    key: &'a TaskKey,
    failures: &'a mut Failures,
    curve: &'a mut Vec<(f64, f64)>,
    curve_trials: &'a mut Vec<usize>,
    curve_traces: &'a mut Vec<String>,
    task_trials: &'a mut usize,
    successes: &'a mut usize,
    batch: &'a [Candidate],
    scores: Option<&'a [f32]>,
    run: RunId,
    options: &'a TuneOptions,
    target: &'a TargetKey,
    places: &'a mut Places,
    yardstick: &'a mut Yardstick<K>,
    trials: &'a mut usize,
    reserve: Duration,
    best: f64,
    measured: Vec<Measured>,
    /// The position in `measured` and the kernel of a new best.
    champion: Option<(usize, K)>,
    listener: Listener<'l>,
}

impl<K: Clone> Bench<'_, '_, K> {
    /// The record of a candidate's outcome.
    fn record(&self, at: usize, compile_seconds: f64, outcome: Result<&Timing, &Failure>) -> NewRecord {
        let candidate = &self.batch[at];
        let trace = trace_text(self.space, candidate).unwrap_or_else(|_| candidate.to_string());
        let samples = outcome.map(|t| t.samples.clone()).map_err(Failure::clone);
        let threads = self.options.threads as u32;
        let mut record = NewRecord::new(self.run, self.key, self.target, threads, trace, samples);
        record.verification = outcome.ok().and_then(|t| t.error);
        record.strategy = self.options.search_name().into();
        record.seed = self.options.seed;
        record.compile_seconds = compile_seconds;
        record.predicted = self.scores.map(|s| f64::from(s[at])).filter(|p| p.is_finite());
        record.elapsed = Some(self.options.elapsed());
        record
    }
}

impl<K: Clone> Observer<K> for Bench<'_, '_, K> {
    fn effort(&mut self) -> Option<Effort> {
        if self.options.is_over(*self.trials, self.reserve).is_some() {
            return None;
        }
        Some(self.options.effort(self.tasks, self.places.present(self.best, self.yardstick)))
    }

    fn finished(&mut self, at: usize, compile_seconds: f64, outcome: Result<(K, Timing), Failure>) {
        let is_lost = outcome.as_ref().is_err_and(|f| f.cause == LOST);
        if is_lost && self.options.stop.load(Ordering::Relaxed) {
            return;
        }
        let raw = outcome.as_ref().ok().map(|(_, timing)| timing.clone());
        let outcome = outcome.map(|(kernel, timing)| (kernel, self.places.usual(timing, self.yardstick)));
        let task = self.at;
        *self.task_trials += 1;
        *self.trials += 1;
        let candidate = self.batch[at].clone();
        let name = candidate.to_string();
        let seconds = outcome.as_ref().ok().map(|(_, t)| t.seconds);
        let measured = outcome.as_ref().ok().map(|(_, t)| t.measured);
        let cause = outcome.as_ref().err().map(|f| f.cause.clone());
        let record = self.record(at, compile_seconds, outcome.as_ref().map(|(_, t)| t));
        (self.listener)(Event::SampleMeasured {
            task,
            candidate: name.clone(),
            seconds,
            cause,
            predicted: record.predicted,
            trace: record.trace.clone(),
            at: self.options.elapsed(),
        });
        if let Err(failure) = &outcome
            && count_failure(self.failures, failure)
        {
            let (cause, text) = (failure.cause.clone(), failure.text.clone());
            (self.listener)(Event::ErrorGrouped { task, cause, text });
        }
        if is_lost {
            return;
        }
        if let Ok((kernel, timing)) = outcome {
            *self.successes += 1;
            if timing.seconds < self.best {
                self.best = timing.seconds;
                if let Some(raw) = raw {
                    let trace = record.trace.clone();
                    *self.yardstick = Yardstick::new(kernel.clone(), trace, &raw, self.places);
                }
                self.champion = Some((self.measured.len(), kernel));
                let now = self.options.elapsed();
                self.curve.push((now, self.best));
                self.curve_trials.push(*self.task_trials);
                self.curve_traces.push(record.trace.clone());
                (self.listener)(Event::NewBest { task, candidate: name, seconds: self.best, at: now });
            }
        }
        self.measured.push(Measured { candidate, record, seconds, measured });
    }
}
