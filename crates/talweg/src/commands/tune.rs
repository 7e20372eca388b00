//! `talweg tune`: search for the fastest schedules of operators and of whole networks.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::{Value, json};
use talweg::lock::Provenance;
use talweg_ops::Spec;
use talweg_tuner::{
    Fork, Simulated, SimulatedDevice, StrategyKind, TaskReport, TaskSpec, TuneError, TuneOptions, TuneReport,
    Tuner, switches,
};

use super::dashboard::Watching;
use super::model::{Bindings, database, winners};
use super::progress::Progress;
use super::tune_network::{self, End, Tuned, Tuning};
use super::tune_request::TuneRequest;
use super::{DEFAULT_DB, Failure, check_memory, check_threads, interrupt, operator_help, print, process_age};

const EXAMPLES: &str = "\
Examples:
  talweg tune matmul:m=512,n=512,k=512 --budget 60s
  talweg tune conv2d:n=1,h=56,w=56,c=64,f=64,k=3,p=1 --strategy felix --trials 256 --threads 2 --json
  talweg tune resnet50.onnx --budget 5m -o resnet50.talweg
  talweg tune resnet50.onnx mobilenet_v2.onnx --budget 10m -o artefacts
";

/// Arguments of `talweg tune`.
#[derive(Args)]
#[command(after_help = operator_help::short(EXAMPLES), after_long_help = operator_help::long(EXAMPLES))]
pub struct Arguments {
    /// Operators, for example `matmul:m=1024,n=1024,k=1024`, or models (`model.onnx`); several are tuned together.
    #[arg(required = true, value_name = "SPEC|MODEL")]
    specs: Vec<String>,
    #[command(flatten)]
    bindings: Bindings,
    /// Where the artefact of a model goes, with its lock beside it (FILE.lock): once for each model, or a folder.
    /// Without it, MODEL.talweg in the current folder.
    #[arg(short, long, value_name = "FILE")]
    output: Vec<PathBuf>,
    /// End early when a model's tasks are expected to gain less than so many percent in the rest of the budget; 0 never.
    #[arg(long, default_value_t = 0.5, value_name = "PERCENT")]
    least_gain: f64,
    /// Use the whole budget, whatever is left to gain: do not end at the roofline or when nothing more is expected.
    #[arg(long)]
    to_the_end: bool,
    /// Time the tasks of a model with everything in the caches where the last run left it, not as a network finds it.
    #[arg(long)]
    alone: bool,
    /// The search: ansor, autotvm, felix, evolutionary, annealing, genetic, random or grid.
    #[arg(long, default_value = "felix", value_name = "NAME")]
    strategy: String,
    /// The cost model instead of the strategy's own: trees, rank, mlp, mlp-bootstrap (without the shipped checkpoint) or
    /// random. Felix takes the networks only.
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// Switch parts of felix: fixed-width, rewrites, no-repair, no-neat, no-polish, no-local,
    /// no-opening, no-growth, early-descent, no-descent; several with commas.
    #[arg(long, value_name = "NAMES")]
    felix: Option<String>,
    /// Where a search starts: at the default schedule, or at nothing, which compares searches themselves.
    #[arg(long, default_value = "default", value_name = "default|nothing")]
    start: String,
    /// Which tiles are searched: any, or perfect for those that divide their loops.
    #[arg(long, default_value = "any", value_name = "any|perfect")]
    tiles: String,
    /// Measure on a simulated device in place of this machine: exact and the same everywhere. Nothing is stored.
    #[arg(long, conflicts_with_all = ["db", "output"])]
    simulated: bool,
    /// Time to use, from the start of the process: 90s, 5m, 1h. Without it and `--trials`, a minute.
    #[arg(long, value_name = "TIME")]
    budget: Option<String>,
    /// Candidates to measure, over all operators.
    #[arg(long, value_name = "N")]
    trials: Option<usize>,
    /// What several operators are tuned for: sum (of their times), speedup (its geometric mean over the defaults),
    /// early-stop (the sum, leaving out operators that no longer improve).
    #[arg(long, default_value = "sum", value_name = "NAME")]
    objective: String,
    /// Stop when all operators together take no longer than so many microseconds.
    #[arg(long, value_name = "US")]
    good_enough: Option<f64>,
    /// Threads of the parallel loops. Without it, one for operators and all cores for models.
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Names the random choices.
    #[arg(long, default_value_t = 0, value_name = "N")]
    seed: u64,
    /// The database: what was measured is read from it and added to it.
    #[arg(long, default_value = DEFAULT_DB, value_name = "FILE")]
    db: PathBuf,
    /// Ignore what earlier runs have measured.
    #[arg(long)]
    fresh: bool,
    /// Candidates that are measured and stored together.
    #[arg(long, default_value_t = 32, value_name = "N")]
    batch: usize,
    /// Show the run in a browser while it goes on; the address is printed. On this machine only, unless another address is
    /// given: `--dashboard=0.0.0.0:8080`.
    #[arg(long, value_name = "ADDR:PORT", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    dashboard: Option<String>,
    /// End with one JSON object on standard output; progress goes to standard error.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut options = options(arguments)?;
    let threads = options.threads;
    let mut tasks: Vec<TaskSpec> = Vec::new();
    let mut networks = Vec::new();
    for text in &arguments.specs {
        if is_model(text) {
            let mut network = arguments.bindings.clone().of(PathBuf::from(text)).network()?;
            let db = if options.resume { database(&arguments.db, false)? } else { None };
            let winners = winners(db.as_ref(), &mut network, &options.target, threads)?;
            networks.push(Tuning::add(network, winners, &mut tasks, &options.target)?);
            continue;
        }
        let spec = Spec::parse(text).map_err(Failure::input)?;
        let dag = spec.build().map_err(Failure::input)?;
        check_memory(&dag).map_err(Failure::input)?;
        let (name, flops) = (spec.to_string(), spec.flops());
        if tasks.iter().any(|t: &TaskSpec| t.name == name) {
            return Err(Failure::input(format!("`{name}` is given twice; give every operator once")));
        }
        tasks.push(TaskSpec { name, dag, weight: 1.0, flops });
    }
    if arguments.simulated && !networks.is_empty() {
        return Err(Failure::input("--simulated is for operators; give a model without it"));
    }
    if networks.is_empty() && !arguments.output.is_empty() {
        return Err(Failure::input("--output is for models; give an .onnx file with it"));
    }
    let models = arguments.specs.iter().filter(|text| is_model(text)).map(PathBuf::from);
    let read: Vec<PathBuf> = models.chain([arguments.db.clone()]).collect();
    tune_network::name_outputs(&mut networks, &arguments.output, &read)?;
    tune_network::prepare(&mut networks, &tasks, &mut options)?;
    let mut progress = Progress::new(&options, tasks.len(), std::io::stderr().is_terminal());
    let from = Provenance {
        target: options.target.clone(),
        threads,
        seed: options.seed,
        strategy: options.strategy.name().into(),
    };
    let end = End::of(&options);
    let dashboard = match &arguments.dashboard {
        Some(place) => Some(Watching::start(place, &options, &tasks, !arguments.simulated)?),
        None => None,
    };
    let mut listen = |event| {
        progress.show(&event);
        if let Some(dashboard) = &dashboard {
            dashboard.show(event);
        }
    };
    // The tuner goes with its workers, which hold the tasks' arrays and compete for the cores.
    let report = if arguments.simulated {
        let device = SimulatedDevice::new(options.target.clone()).with_threads(threads);
        Tuner::with_runner(options, tasks, Simulated { device }).and_then(|mut tuner| tuner.run(&mut listen))
    } else {
        Tuner::new(options, tasks).and_then(|mut tuner| tuner.run(&mut listen))
    };
    let finishing = Instant::now();
    progress.clear();
    let mut report = report.map_err(classify)?;
    let (tuned, failure) = tune_network::finish(networks, &report, &from, &end, &arguments.db);
    report.seconds += finishing.elapsed().as_secs_f64();
    if arguments.json {
        let mut object = object(&report, arguments, threads);
        if !tuned.is_empty() {
            object["networks"] = tuned.iter().map(Tuned::object).collect();
        }
        print(&format!("{object}\n"))?;
    } else {
        let networks: String = tuned.iter().map(Tuned::readable).collect();
        print(&(readable(&report, arguments) + &networks))?;
    }
    failure.map_or(Ok(()), Err)
}

/// Whether an argument names a model's file and not an operator.
pub fn is_model(text: &str) -> bool {
    text.ends_with(".onnx") || (!text.contains(':') && std::path::Path::new(text).is_file())
}

/// A database or a model that cannot be used is bad input; everything else failed in the work.
fn classify(error: TuneError) -> Failure {
    let is_input = matches!(error, TuneError::Db(_) | TuneError::NoSlope { .. });
    if is_input { Failure::input(error) } else { Failure::work(error) }
}

fn options(arguments: &Arguments) -> Result<TuneOptions, Failure> {
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
    let has_model = arguments.specs.iter().any(|text| is_model(text));
    let usual = if has_model { cores } else { 1 };
    let threads = arguments.threads.unwrap_or(usual);
    check_threads(threads)?;
    let mut options = TuneRequest {
        spell: |name| format!("--{}", name.replace('_', "-")),
        budget: arguments.budget.as_deref(),
        trials: arguments.trials,
        batch: arguments.batch,
        strategy: &arguments.strategy,
        model: arguments.model.as_deref(),
        objective: &arguments.objective,
        good_enough: arguments.good_enough,
        least_gain: arguments.least_gain,
        alone: arguments.alone,
        threads,
        seed: arguments.seed,
        db: arguments.db.clone(),
        fresh: arguments.fresh,
        simulated: arguments.simulated,
        has_model,
    }
    .options()?;
    let age = process_age();
    options.started = options.started.checked_sub(age).unwrap_or(options.started);
    if let Some(names) = &arguments.felix {
        if options.strategy != StrategyKind::Felix {
            return Err(Failure::input("--felix switches parts of felix; add `--strategy felix`"));
        }
        switches::apply(&mut options.felix, names).map_err(|e| Failure::input(format!("--felix: {e}")))?;
    }
    options.from_nothing = match arguments.start.as_str() {
        "default" => false,
        "nothing" => true,
        other => return Err(Failure::input(format!("--start {other}: give default or nothing"))),
    };
    options.ends_early = !arguments.to_the_end;
    options.perfect_tiles = match arguments.tiles.as_str() {
        "any" => false,
        "perfect" => true,
        other => return Err(Failure::input(format!("--tiles {other}: give any or perfect"))),
    };
    options.command = std::env::args().skip(1).collect::<Vec<_>>().join(" ");
    let stop: Arc<AtomicBool> = options.stop.clone();
    interrupt::watch(stop).map_err(Failure::work)?;
    Ok(options)
}

/// Reads `90s`, `1.5m`, `1h`, `200ms` or plain seconds; `None` for anything else and for times that are not positive.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let units = [("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];
    let split = units.iter().find_map(|(unit, scale)| Some((text.strip_suffix(unit)?, *scale)));
    let (number, scale) = split.unwrap_or((text, 1.0));
    let seconds = number.trim().parse::<f64>().ok()? * scale;
    (seconds > 0.0 && seconds < 1e9).then(|| Duration::from_secs_f64(seconds))
}

fn task_object(task: &TaskReport) -> Value {
    let failures: serde_json::Map<String, Value> = task
        .failures
        .iter()
        .map(|(cause, group)| (cause.clone(), json!({ "count": group.count, "text": group.text })))
        .collect();
    json!({
        "spec": task.name,
        "best_us": task.best_seconds * 1e6,
        "default_us": task.default_seconds * 1e6,
        "gflops": task.gflops,
        "max_rel_error": task.error,
        "trials": task.trials,
        "resumed": task.resumed,
        "schedule": task.trace,
        "default_won": task.default_won,
        "failures": failures,
        "curve": task.curve.iter().map(|(at, best)| [*at, best * 1e6]).collect::<Vec<_>>(),
        "curve_trials": task.curve_trials,
        "curve_schedules": task.curve_traces,
        "first_batch_us": task.first_batch.map(|seconds| seconds * 1e6),
    })
}

fn weighted_object((task, count): (&TaskReport, &f64)) -> Value {
    let mut object = task_object(task);
    object["weight"] = json!(count);
    object
}

fn object(report: &TuneReport, arguments: &Arguments, threads: usize) -> Value {
    let mut object = match report.tasks.as_slice() {
        [task] => task_object(task),
        tasks => {
            let (counts, best) = (report.counts(), report.best_seconds());
            let work = tasks.iter().zip(&counts).map(|(t, count)| count * t.gflops * t.best_seconds);
            let step = |step: Fork| json!({ "count": step.count, "ways": step.ways });
            json!({
                "tasks": tasks.iter().zip(&counts).map(weighted_object).collect::<Vec<_>>(),
                "steps": report.network.steps().into_iter().map(step).collect::<Vec<_>>(),
                "best_us": best * 1e6,
                "default_us": report.default_seconds() * 1e6,
                "gflops": work.sum::<f64>() / best,
            })
        }
    };
    object["trials"] = json!(report.trials);
    object["seconds"] = json!(report.seconds);
    object["strategy"] = json!(report.strategy);
    object["threads"] = json!(threads);
    object["seed"] = json!(arguments.seed);
    let p = &report.phases;
    object["phases"] = json!({
        "prepare": p.prepare, "search": p.search, "build": p.build,
        "measure": p.measure, "store": p.store, "finals": p.finals,
    });
    object["stopped_by"] = json!(report.reason.name());
    object
}

/// More tasks than this are shown as a table, without their details.
const MANY: usize = 4;

/// One line a task, those that take the longest first. Tasks of algorithms that lost to others have no uses.
fn table(report: &TuneReport) -> String {
    let (counts, best, default) = (report.counts(), report.best_seconds(), report.default_seconds());
    let mut rows: Vec<(&TaskReport, f64)> = report.tasks.iter().zip(counts).collect();
    rows.sort_by(|a, b| (b.1 * b.0.best_seconds).total_cmp(&(a.1 * a.0.best_seconds)));
    let heads = ["best us", "gain", "GFLOP/s", "uses", "share", "trials", "failed"];
    let mut out = heads.iter().map(|head| format!("{head:>10}")).collect::<String>() + "  task\n";
    for (task, count) in rows {
        out += &format!(
            "{:>10.2}{:>9.2}x{:>10.1}{:>10}{:>9.1}%{:>10}{:>10}  {}\n",
            task.best_seconds * 1e6,
            task.default_seconds / task.best_seconds,
            task.gflops,
            count,
            100.0 * count * task.best_seconds / best,
            task.trials,
            task.failures.values().map(|group| group.count).sum::<usize>(),
            task.name,
        );
    }
    out + &format!(
        "all tasks together {:.3} ms, by the defaults {:.3} ms ({:.2}x)\n",
        best * 1e3,
        default * 1e3,
        default / best
    )
}

fn readable(report: &TuneReport, arguments: &Arguments) -> String {
    let mut out = String::new();
    if report.tasks.len() > MANY {
        out += &table(report);
    }
    for task in report.tasks.iter().filter(|_| report.tasks.len() <= MANY) {
        out += &format!("{}\n", task.name);
        out += &format!(
            "  best     {:.2} us, {:.1} GFLOP/s; the default takes {:.2} us ({:.2}x)\n",
            task.best_seconds * 1e6,
            task.gflops,
            task.default_seconds * 1e6,
            task.default_seconds / task.best_seconds
        );
        if task.default_won {
            out += "           no candidate is faster than the default schedule, which is stored\n";
        }
        out += &format!(
            "  check    largest relative error {:.1e} against the reference interpreter\n",
            task.error
        );
        out += &format!("  trials   {} measured, {} known from earlier runs\n", task.trials, task.resumed);
        for (cause, group) in &task.failures {
            out += &format!("  failed   {} x {cause}: {}\n", group.count, group.text);
        }
    }
    let p = &report.phases;
    out += &format!(
        "time     {:.1} s preparing, {:.1} searching, {:.1} compiling, {:.1} measuring, {:.1} storing, {:.1} in the finals\n",
        p.prepare, p.search, p.build, p.measure, p.store, p.finals
    );
    out += &format!(
        "{}: {} trials in {:.1} s ({:.1} a second), ended by {}{}\n",
        report.strategy,
        report.trials,
        report.seconds,
        report.trials as f64 / report.seconds.max(1e-9),
        report.reason,
        if arguments.simulated { String::new() } else { format!("; stored in {}", arguments.db.display()) }
    );
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read() {
        for (text, seconds) in [("90s", 90.0), ("5m", 300.0), ("1h", 3600.0), ("250ms", 0.25), ("7", 7.0)] {
            assert_eq!(parse_duration(text), Some(Duration::from_secs_f64(seconds)), "{text}");
        }
        for bad in ["", "s", "0s", "-1s", "1d", "nan", "inf", "1e400s"] {
            assert_eq!(parse_duration(bad), None, "{bad}");
        }
    }
}
