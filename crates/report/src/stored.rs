//! Runs of a database as a report.

use talweg_db::{Database, Record, Run, RunId, RunStats, TargetKey};

use crate::collector::{Collector, Measured, RunFacts, TaskFacts};
use crate::error::ReportError;
use crate::report::Roofs;

/// What records of the default schedule give as their strategy.
const DEFAULT: &str = "default";
/// What the environment of a run calls the measured peak of the machine.
const PEAK: &str = "peak GFLOP/s";

/// Runs that can be shown together: of one machine, with one number of threads.
#[derive(Debug, Clone)]
pub struct Selection {
    /// The machine.
    pub target: TargetKey,
    /// Threads of the parallel loops.
    pub threads: u32,
    /// The runs, oldest first.
    pub runs: Vec<Run>,
}

fn shown(stats: &RunStats) -> String {
    format!("{}, {} threads", stats.target.text, stats.threads)
}

impl Selection {
    /// The runs with these numbers; with none given, all that are of the machine and the threads of the latest one.
    pub fn of(db: &Database, numbers: &[i64]) -> Result<Selection, ReportError> {
        let path = || db.path().to_path_buf();
        let stats = db.run_stats()?;
        let mut chosen: Vec<&RunStats> = Vec::new();
        for number in numbers {
            let run = db.run(RunId::from_number(*number))?;
            let found = stats.iter().find(|s| s.run == run.id);
            chosen.push(found.ok_or_else(|| ReportError::EmptyRun { path: path(), run: *number })?);
        }
        if numbers.is_empty() {
            let latest = stats.iter().max_by_key(|s| (s.last, s.run));
            let latest = latest.ok_or_else(|| ReportError::NoRecords { path: path() })?;
            let alike = |s: &&RunStats| s.target == latest.target && s.threads == latest.threads;
            chosen = stats.iter().filter(alike).collect();
        }
        chosen.sort_by_key(|s| s.run);
        chosen.dedup_by_key(|s| s.run);
        let first = chosen.first().copied().ok_or_else(|| ReportError::NoRecords { path: path() })?;
        let other = chosen.iter().find(|s| s.target != first.target || s.threads != first.threads);
        if let Some(other) = other {
            let (wanted, found) = (shown(first), shown(other));
            return Err(ReportError::Mixed { first: first.run.get(), wanted, run: other.run.get(), found });
        }
        let runs = chosen.iter().map(|s| db.run(s.run)).collect::<Result<_, _>>()?;
        Ok(Selection { target: first.target.clone(), threads: first.threads, runs })
    }

    /// The peak that the latest of the runs measured, as roofs without memory: for machines other than this one.
    pub fn stored_roofs(&self) -> Option<Roofs> {
        let lines = self.runs.iter().rev().flat_map(|run| run.info.environment.lines());
        let peak = lines.filter_map(|line| line.strip_prefix(PEAK)?.strip_prefix(':')?.trim().parse().ok());
        let peak = peak.into_iter().find(|peak: &f64| *peak > 0.0)?;
        let source = "measured when the run began; bandwidths are not known".into();
        Some(Roofs { peak_gflops: peak, levels: Vec::new(), source })
    }

    /// Everything that the runs have measured; `made` are Unix seconds.
    pub fn collect(&self, db: &Database, made: u64) -> Result<Collector, ReportError> {
        let mut collector = Collector::new(&self.target, self.threads, made);
        for run in &self.runs {
            let at = collector.add_run(RunFacts {
                id: run.id.get(),
                strategy: run.info.strategy.clone(),
                seed: run.info.seed,
                command: run.info.command.clone(),
                version: run.info.tool_version.clone(),
                started: run.started,
                environment: run.info.environment.clone(),
            });
            for task in db.run_tasks(run.id)? {
                let (name, flops) = (Some(task.name), Some(task.flops));
                collector.add_task(at, TaskFacts { key: task.task, name, weight: task.weight, flops });
            }
            for record in db.run_records(run.id)? {
                if record.target == self.target && record.threads == self.threads {
                    add(&mut collector, at, run, &record);
                }
            }
        }
        for best in db.bests(&self.target)? {
            let record = &best.record;
            if record.threads == self.threads
                && let Some(task) = collector.task_of(&record.task)
            {
                collector.proven(task, best.default_seconds / best.ab_ratio, best.default_seconds);
                collector.winner(task, &record.strategy, best.error, &record.trace);
            }
        }
        Ok(collector)
    }
}

fn add(collector: &mut Collector, run: usize, of: &Run, record: &Record) {
    let known = collector.task_of(&record.task);
    let task = known.unwrap_or_else(|| {
        let facts = TaskFacts { key: record.task.clone(), name: None, weight: 1.0, flops: None };
        collector.add_task(run, facts)
    });
    collector.belongs(run, task);
    let at = record.elapsed.unwrap_or_else(|| record.when.saturating_sub(of.started) as f64);
    match (&record.outcome, record.typical_seconds()) {
        (Ok(_), Some(seconds)) if record.strategy == DEFAULT => {
            collector.default_measured(run, task, at, seconds, &record.trace);
        }
        (Ok(_), Some(seconds)) => {
            let (predicted, trace) = (record.predicted, record.trace.as_str());
            collector.measured(&Measured { run, task, at, outcome: Ok(seconds), predicted, trace });
        }
        (Err(failure), _) => {
            let outcome = Err((failure.cause.as_str(), Some(failure.text.as_str())));
            let trace = record.trace.as_str();
            collector.measured(&Measured { run, task, at, outcome, predicted: None, trace });
        }
        (Ok(_), None) => {}
    }
}
