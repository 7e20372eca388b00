//! `talweg bench`: how long a model takes, and how long searches take.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use talweg_runtime::model::Session;

use super::against::{self, AgainstArguments};
use super::distances::{Apart, Watch};
use super::model::{Bindings, CompileArguments, LockArguments, inputs, tuned_of};
use super::{Failure, bench_search, print, turns};

/// Arguments of `talweg bench`.
#[derive(Args)]
#[command(
    after_help = "\
Examples:
  talweg bench resnet50.talweg --threads 2 --budget 5
  talweg bench resnet50.onnx --lock resnet50.talweg.lock --against onnxruntime,openvino --python python3 --json
  talweg bench search --budget 20s --seeds 1",
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true
)]
pub struct Arguments {
    #[command(subcommand)]
    verb: Option<Verb>,
    /// The model: an ONNX file or a compiled artefact.
    model: Option<PathBuf>,
    #[command(flatten)]
    bindings: Bindings,
    #[command(flatten)]
    compile: CompileArguments,
    #[command(flatten)]
    lock: LockArguments,
    #[command(flatten)]
    against: AgainstArguments,
    /// Pin each thread to a core of its own; not with --against, where other runtimes would inherit the core.
    #[arg(long, conflicts_with = "against")]
    pin: bool,
    /// Time for taking samples; with --against of each runtime.
    #[arg(long, default_value_t = 3.0, value_name = "SECONDS")]
    budget: f64,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    /// Stay after the report: for every line read, a number of seconds, run for so long and print the median in
    /// microseconds. Lets another program alternate with the model.
    #[arg(long, conflicts_with = "against")]
    turns: bool,
}

#[derive(Subcommand)]
enum Verb {
    /// Compare searches: how long each takes to find programs as fast as another's.
    Search(bench_search::Arguments),
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let given = match (&arguments.verb, &arguments.model) {
        (Some(Verb::Search(search)), _) => return bench_search::run(search),
        (None, Some(model)) => &arguments.bindings.clone().of(model.clone()),
        (None, None) => return Err(Failure::input("give a model to time, or `search` to compare searches")),
    };
    if !(0.001..=3600.0).contains(&arguments.budget) {
        return Err(Failure::input(format!(
            "--budget {} is not possible; give a number of seconds from 0.001 to 3600",
            arguments.budget
        )));
    }
    let threads = arguments.compile.threads()?;
    against::check(&arguments.against, given)?;
    let start = Instant::now();
    let model = given.load_locked(&arguments.compile, &arguments.lock)?;
    let load = start.elapsed();
    let options = talweg_runtime::model::SessionOptions { threads, pin: arguments.pin };
    let mut session = Session::new(model, &options).map_err(Failure::work)?;
    if arguments.pin {
        pin_caller()?;
    }
    if !arguments.against.against.is_empty() {
        let (rivals, budget) = (&arguments.against, arguments.budget);
        return against::run(rivals, given, &mut session, threads, budget, arguments.json);
    }
    for (at, input) in inputs(&session, &[])?.iter().enumerate() {
        session.input_mut(at).copy_from_slice(input.bytes());
    }
    let mut watch = Watch::default();
    let mut times = turns::times(Duration::from_secs_f64(arguments.budget), || {
        watch.before_run(|| session.distance());
        turns::seconds(&mut session)
    })?;
    let apart = watch.apart(&times);
    times.sort_by(f64::total_cmp);
    let at = |q: f64| quantile(&times, q) * 1e3;
    let (median, low, high) = (at(0.5), at(0.1), at(0.9));
    let (tuned, tasks) = tuned_of(session.model());
    if arguments.json {
        let report = serde_json::json!({
            "model": session.model().manifest().model, "threads": threads, "median_ms": median, "p10_ms": low,
            "p90_ms": high, "min_ms": at(0.0), "runs": times.len(), "load_ms": load.as_secs_f64() * 1e3,
            "memory_bytes": session.memory_bytes(), "weights_bytes": session.model().weights().len(),
            "tuned": tuned, "tasks": tasks, "apart": apart.iter().map(Apart::object).collect::<Vec<_>>(),
        });
        print(&format!("{report}\n"))?;
    } else {
        print(&format!(
            "{}: median {median:.3} ms (10 % to 90 %: {low:.3} to {high:.3}), {:.1} runs/s, {} runs, {threads} threads, {tuned} of {tasks} tasks tuned\n",
            session.model().manifest().model,
            1e3 / median,
            times.len()
        ))?;
        print(&apart.iter().map(Apart::line).collect::<String>())?;
    }
    match arguments.turns {
        true => turns::serve(|length| Ok(turns::median(&samples(&mut session, length)?).unwrap_or_default())),
        false => Ok(()),
    }
}

/// The value below which that share of the ascending times is.
fn quantile(times: &[f64], share: f64) -> f64 {
    times[((times.len() - 1) as f64 * share).round() as usize]
}

/// Pins this thread, which is one of the session's, to the first core; the session has pinned the others.
fn pin_caller() -> Result<(), Failure> {
    let cores = talweg_runtime::affinity::allowed_cores();
    let Some(core) = cores.first() else { return Ok(()) };
    let failed = |e| Failure::work(format!("cannot pin to core {core}: {e}; leave --pin out"));
    talweg_runtime::affinity::pin_current_thread(*core).map_err(failed)
}

/// Seconds of single runs, ascending, after some that do not count.
fn samples(session: &mut Session, budget: Duration) -> Result<Vec<f64>, Failure> {
    let mut times = turns::times(budget, || turns::seconds(session))?;
    times.sort_by(f64::total_cmp);
    Ok(times)
}
