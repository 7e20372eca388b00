//! Tuning from Python: the search runs on a thread of its own while Python's thread passes events on and hears Ctrl-C.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use serde_json::{Value, json};
use talweg::commands::model::{self, winners};
use talweg::commands::progress::Progress;
use talweg::commands::tune::is_model;
use talweg::commands::tune_network::{End, Tuned, Tuning, finish, name_outputs, prepare};
use talweg::commands::tune_request::TuneRequest;
use talweg::commands::{Failure, check_memory};
use talweg::lock::Provenance;
use talweg_ops::Spec;
use talweg_tuner::{
    Event, Extended, Simulated, SimulatedDevice, TaskReport, TaskSpec, TuneError, TuneOptions, TuneReport,
    Tuner,
};

use crate::error::{input, raised};
use crate::event;
use crate::extension::PythonParts;
use crate::network::{Bindings, threads_of};
use crate::operator::Operator;

/// How often Python's thread looks whether somebody pressed Ctrl-C.
const HEARING: Duration = Duration::from_millis(50);

/// What `talweg.tune` was called with.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Settings {
    budget: Option<String>,
    trials: Option<usize>,
    strategy: String,
    model: Option<String>,
    threads: Option<usize>,
    seed: u64,
    db: Option<PathBuf>,
    fresh: bool,
    batch: usize,
    least_gain: f64,
    good_enough: Option<f64>,
    objective: String,
    simulated: bool,
    alone: bool,
    outputs: Vec<PathBuf>,
    progress: bool,
}

/// What is tuned.
enum Subject {
    Model(PathBuf),
    Task(Box<TaskSpec>),
}

/// Where records go when nobody says otherwise and nothing is to be kept.
fn database(settings: &Settings) -> PathBuf {
    settings.db.clone().unwrap_or_else(|| PathBuf::from(talweg::commands::DEFAULT_DB))
}

fn subject(given: &Bound<'_, PyAny>) -> PyResult<Subject> {
    if let Ok(operator) = given.cast::<Operator>() {
        return Ok(Subject::Task(Box::new(operator.get().task())));
    }
    let text: String = given.str()?.extract()?;
    if is_model(&text) {
        return Ok(Subject::Model(PathBuf::from(text)));
    }
    let spec = Spec::parse(&text).map_err(input)?;
    let dag = spec.build().map_err(input)?;
    let (name, flops) = (spec.to_string(), spec.flops());
    Ok(Subject::Task(Box::new(TaskSpec { name, dag, weight: 1.0, flops })))
}

fn options(settings: &Settings, has_model: bool) -> Result<TuneOptions, Failure> {
    let mut options = TuneRequest {
        spell: str::to_string,
        budget: settings.budget.as_deref(),
        trials: settings.trials,
        batch: settings.batch,
        strategy: &settings.strategy,
        model: settings.model.as_deref(),
        objective: &settings.objective,
        good_enough: settings.good_enough,
        least_gain: settings.least_gain,
        alone: settings.alone,
        threads: threads_of(settings.threads.or((!has_model).then_some(1)))?,
        seed: settings.seed,
        db: database(settings),
        fresh: settings.fresh,
        simulated: settings.simulated,
        has_model,
    }
    .options()?;
    options.command = "talweg.tune from Python".into();
    Ok(options)
}

/// Tunes operators and models together and gives a JSON object about what came of it.
///
/// `listener` is called with every event; `parts` are a strategy, a model or rules that are written in Python.
#[pyfunction]
#[pyo3(signature = (subjects, settings, bindings, listener, parts))]
pub fn tune(
    py: Python<'_>,
    subjects: &Bound<'_, PyList>,
    settings: &Bound<'_, PyDict>,
    bindings: &Bound<'_, PyDict>,
    listener: Option<Py<PyAny>>,
    parts: Option<&Bound<'_, PyDict>>,
) -> PyResult<(String, Option<PyErr>)> {
    let settings: Settings = settings.extract()?;
    let bindings: Bindings = bindings.extract()?;
    let subjects = subjects.iter().map(|one| subject(&one)).collect::<PyResult<Vec<_>>>()?;
    let has_model = subjects.iter().any(|one| matches!(one, Subject::Model(_)));
    let mut options = options(&settings, has_model).map_err(raised)?;
    let stop = options.stop.clone();
    let parts = parts.map(|parts| PythonParts::new(parts, stop.clone())).transpose()?.map(Arc::new);
    options.extension = parts.clone().map(|parts| Extended(parts));
    let (sender, events) = mpsc::channel::<Event>();
    let (result, interrupted) = py.detach(move || {
        std::thread::scope(|scope| {
            let (settings, bindings) = (&settings, &bindings);
            let worker = scope.spawn(move || search(subjects, settings, bindings, options, sender));
            let interrupted = attend(&events, listener.as_ref(), &stop);
            let died = |_| Err(Failure::work("the search died; what it said is on standard error"));
            (worker.join().unwrap_or_else(died), interrupted)
        })
    });
    if let Some(error) = parts.and_then(|parts| parts.error()) {
        return Err(error);
    }
    match (result, interrupted) {
        (Ok((report, failure)), error) => Ok((report.to_string(), error.or(failure.map(raised)))),
        (Err(_), Some(error)) => Err(error),
        (Err(failure), None) => Err(raised(failure)),
    }
}

/// Passes events on until the search ends. The first error of the listener, or Ctrl-C, ends the search with its best so
/// far and is returned.
fn attend(events: &mpsc::Receiver<Event>, listener: Option<&Py<PyAny>>, stop: &AtomicBool) -> Option<PyErr> {
    let mut first = None;
    loop {
        let event = match events.recv_timeout(HEARING) {
            Ok(event) => Some(event),
            Err(mpsc::RecvTimeoutError::Timeout) => None,
            Err(mpsc::RecvTimeoutError::Disconnected) => return first,
        };
        if event.is_some() && listener.is_none() && first.is_some() {
            continue;
        }
        let heard = Python::attach(|py| -> PyResult<()> {
            py.check_signals()?;
            if let (Some(event), Some(listener)) = (&event, listener)
                && let Some(dictionary) = event::dictionary(py, event)?
            {
                listener.call1(py, (dictionary,))?;
            }
            Ok(())
        });
        if let Err(error) = heard {
            stop.store(true, Ordering::Relaxed);
            first.get_or_insert(error);
        }
    }
}

/// All that `talweg tune` does, without printing its result, and the failure of one of the networks.
fn search(
    subjects: Vec<Subject>,
    settings: &Settings,
    bindings: &Bindings,
    mut options: TuneOptions,
    events: mpsc::Sender<Event>,
) -> Result<(Value, Option<Failure>), Failure> {
    let db = database(settings);
    let (mut tasks, mut networks): (Vec<TaskSpec>, Vec<Tuning>) = (Vec::new(), Vec::new());
    let mut read = vec![db.clone()];
    for subject in subjects {
        match subject {
            Subject::Model(path) => {
                let mut network = bindings.open(&path)?;
                let known = if options.resume { model::database(&db, false)? } else { None };
                let winners = winners(known.as_ref(), &mut network, &options.target, options.threads)?;
                networks.push(Tuning::add(network, winners, &mut tasks, &options.target)?);
                read.push(path);
            }
            Subject::Task(task) => {
                check_memory(&task.dag).map_err(Failure::input)?;
                tasks.push(*task);
            }
        }
    }
    if settings.simulated && !networks.is_empty() {
        return Err(Failure::input("simulated is for operators; give a model without it"));
    }
    name_outputs(&mut networks, &settings.outputs, &read)?;
    prepare(&mut networks, &tasks, &mut options)?;
    let terminal = std::io::stderr().is_terminal();
    let mut progress = settings.progress.then(|| Progress::new(&options, tasks.len(), terminal));
    let from = Provenance {
        target: options.target.clone(),
        threads: options.threads,
        seed: options.seed,
        strategy: options.search_name().to_string(),
    };
    let (end, started, threads) = (End::of(&options), options.started, options.threads);
    let mut listen = |event: Event| {
        if let Some(progress) = &mut progress {
            progress.show(&event);
        }
        // Nobody listens any more only when nobody waits for the result either.
        let _ = events.send(event);
    };
    // The tuner goes with its workers, which hold the tasks' arrays and compete for the cores.
    let report = if settings.simulated {
        let device = SimulatedDevice::new(options.target.clone()).with_threads(threads);
        Tuner::with_runner(options, tasks, Simulated { device }).and_then(|mut t| t.run(&mut listen))
    } else {
        Tuner::new(options, tasks).and_then(|mut t| t.run(&mut listen))
    };
    if let Some(progress) = &mut progress {
        progress.clear();
    }
    let mut report = report.map_err(classify)?;
    let (tuned, failure) = finish(networks, &report, &from, &end, &db);
    report.seconds = started.elapsed().as_secs_f64();
    Ok((object(&report, &tuned, threads, &db), failure))
}

/// A database or a model that cannot be used is bad input; everything else failed in the work.
fn classify(error: TuneError) -> Failure {
    let is_input = matches!(error, TuneError::Db(_) | TuneError::NoSlope { .. });
    if is_input { Failure::input(error) } else { Failure::work(error) }
}

fn task_object((task, count): (&TaskReport, f64)) -> Value {
    let failures = task.failures.iter().map(|(cause, group)| (cause.clone(), json!(group.count)));
    json!({
        "name": task.name, "weight": count, "best_seconds": task.best_seconds,
        "default_seconds": task.default_seconds, "gflops": task.gflops, "max_rel_error": task.error,
        "schedule": task.trace, "default_won": task.default_won, "trials": task.trials,
        "resumed": task.resumed, "curve": task.curve, "curve_trials": task.curve_trials,
        "failures": failures.collect::<serde_json::Map<_, _>>(),
    })
}

fn object(report: &TuneReport, tuned: &[Tuned], threads: usize, db: &Path) -> Value {
    json!({
        "tasks": report.tasks.iter().zip(report.counts()).map(task_object).collect::<Vec<_>>(),
        "networks": tuned.iter().map(Tuned::object).collect::<Vec<_>>(),
        "trials": report.trials, "seconds": report.seconds, "stopped_by": report.reason.name(),
        "strategy": report.strategy, "threads": threads, "db": db,
    })
}
