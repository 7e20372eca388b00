//! `talweg dataset`: measure programs of many operators, train the cost model on them, judge it.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use talweg_cost::{Checkpoint, CostError, MlpLoss, Params, TrainParams};
use talweg_dataset::train::HELD_OUT;
use talweg_dataset::{
    CollectOptions, DatasetError, Programs, Progress, Quality, Row, collect, evaluate, machine, operators,
    plot, train,
};
use talweg_db::Database;
use talweg_target::Target;
use talweg_tuner::{TuneOptions, Workers};

use super::tune::parse_duration;
use super::{Failure, check_threads, interrupt, print, process_age, write_file};

/// Where programs are stored, unless told otherwise.
const DEFAULT_DATASET: &str = "dataset.db";
/// Operators and programs that can be asked for.
const MOST: usize = 100_000;
/// Pixels of a picture for each unit of its drawing.
const PIXELS: f32 = 1.5;

/// Arguments of `talweg dataset`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  talweg dataset collect --operators 20 --programs 24 --budget 60s
  talweg dataset train --db dataset.db --output network.mlp --epochs 60
  talweg dataset evaluate --db dataset.db --checkpoint network.mlp --plot quality.svg")]
pub struct Arguments {
    #[command(subcommand)]
    verb: Verb,
    /// Print one JSON object.
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Subcommand)]
enum Verb {
    /// Measure programs of operators drawn from a seed, and store them; a second call goes on where the first ended.
    Collect(CollectArguments),
    /// Train the network on stored programs, and write it as a checkpoint.
    Train(TrainArguments),
    /// Judge a checkpoint on the operators that training did not see.
    Evaluate(EvaluateArguments),
}

#[derive(Args)]
#[command(
    after_help = "Example:\n  talweg dataset collect --operators 20 --programs 24 --budget 60s --threads 1"
)]
struct CollectArguments {
    /// The database: what it has is not measured again.
    #[arg(long, default_value = DEFAULT_DATASET, value_name = "FILE")]
    db: PathBuf,
    /// Names the operators and their programs.
    #[arg(long, default_value_t = 0, value_name = "N")]
    seed: u64,
    /// How many operators.
    #[arg(long, default_value_t = 200, value_name = "N")]
    operators: usize,
    /// How many programs of each.
    #[arg(long, default_value_t = 32, value_name = "N")]
    programs: usize,
    /// Let the shipped network choose three in sixteen of them.
    #[arg(long)]
    guided: bool,
    /// Threads of their parallel loops.
    #[arg(long, default_value_t = 1, value_name = "N")]
    threads: usize,
    /// What they are compiled for: host, or an instruction set it has (avx512, avx2, neon).
    #[arg(long, default_value = "host", value_name = "NAME")]
    target: String,
    /// Time for the samples of one program.
    #[arg(long, default_value = "5ms", value_name = "TIME")]
    sampling: String,
    /// Stop after this time, counted from the start of the process: 90s, 5m, 1h.
    #[arg(long, value_name = "TIME")]
    budget: Option<String>,
    /// Only list the operators.
    #[arg(long)]
    list: bool,
}

#[derive(Args)]
#[command(after_help = "Example:\n  talweg dataset train --db dataset.db --output network.mlp --epochs 60")]
struct TrainArguments {
    /// The programs.
    #[arg(long, default_value = DEFAULT_DATASET, value_name = "FILE")]
    db: PathBuf,
    /// Further programs, or programs of --db that are to count once more, as those of a calmer machine should; several times if
    /// given several times.
    #[arg(long, value_name = "FILE")]
    again: Vec<PathBuf>,
    /// The checkpoint to write.
    #[arg(long, value_name = "FILE")]
    output: PathBuf,
    /// Names the start and the order of training.
    #[arg(long, default_value_t = 0, value_name = "N")]
    seed: u64,
    /// How often all programs are seen.
    #[arg(long, default_value_t = 60, value_name = "N")]
    epochs: usize,
    /// Numbers between layers, a multiple of 32.
    #[arg(long, default_value_t = 128, value_name = "N")]
    hidden: usize,
    /// The full rate of the steps.
    #[arg(long, default_value_t = 2e-3, value_name = "X")]
    rate: f32,
    /// How strongly weights are pulled to zero.
    #[arg(long, default_value_t = 1e-3, value_name = "X")]
    decay: f32,
    /// What to train for: log-speed, rank or both.
    #[arg(long, default_value = "both", value_name = "NAME")]
    loss: String,
    /// Keep one operator in so many for judging; 0 to use all.
    #[arg(long, default_value_t = 6, value_name = "N")]
    hold_out: u64,
}

#[derive(Args)]
#[command(
    after_help = "Example:\n  talweg dataset evaluate --db dataset.db --checkpoint network.mlp --plot quality.svg"
)]
struct EvaluateArguments {
    /// The programs.
    #[arg(long, default_value = DEFAULT_DATASET, value_name = "FILE")]
    db: PathBuf,
    /// The checkpoint; the shipped one if not given.
    #[arg(long, value_name = "FILE")]
    checkpoint: Option<PathBuf>,
    /// Also draw it, as SVG and as PNG: two files of this name, with .svg and .png at their ends.
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let json = arguments.json;
    match &arguments.verb {
        Verb::Collect(arguments) => run_collect(arguments, json),
        Verb::Train(arguments) => run_train(arguments, json),
        Verb::Evaluate(arguments) => run_evaluate(arguments, json),
    }
}

/// A database that cannot be used is bad input; everything else failed in the work.
fn classify(error: DatasetError) -> Failure {
    match error {
        DatasetError::Db(_) | DatasetError::Empty { .. } | DatasetError::OtherFeatures { .. } => {
            Failure::input(error)
        }
        DatasetError::Cost(CostError::Param { .. }) => Failure::input(error),
        DatasetError::Cost(_) => Failure::work(error),
    }
}

fn time(name: &str, text: &str) -> Result<Duration, Failure> {
    let wrong = || Failure::input(format!("--{name} {text}: give a time such as 5ms, 90s, 5m or 1h"));
    parse_duration(text).ok_or_else(wrong)
}

fn count(name: &str, number: usize) -> Result<(), Failure> {
    match (1..=MOST).contains(&number) {
        true => Ok(()),
        false => Err(Failure::input(format!("--{name} {number}: give a number from 1 to {MOST}"))),
    }
}

fn run_collect(arguments: &CollectArguments, json: bool) -> Result<(), Failure> {
    let started = Instant::now().checked_sub(process_age()).unwrap_or_else(Instant::now);
    check_threads(arguments.threads)?;
    count("operators", arguments.operators)?;
    count("programs", arguments.programs)?;
    let sampling = time("sampling", &arguments.sampling)?;
    let budget = arguments.budget.as_deref().map(|text| time("budget", text)).transpose()?;
    let target = machine::restricted(&arguments.target)
        .map_err(|e| Failure::input(format!("--target {}: {e}", arguments.target)))?;
    let specs = operators(arguments.seed, arguments.operators);
    if arguments.list && json {
        let names: Vec<String> = specs.iter().map(ToString::to_string).collect();
        return print(&format!("{}\n", json!({ "operators": names })));
    }
    if arguments.list {
        return print(&specs.iter().map(|s| format!("{s}\n")).collect::<String>());
    }
    let stop: Arc<AtomicBool> = Arc::default();
    interrupt::watch(stop.clone()).map_err(Failure::work)?;
    let options = CollectOptions {
        target: target.clone(),
        threads: arguments.threads,
        seed: arguments.seed,
        programs: arguments.programs,
        guided: arguments.guided,
        sampling,
        deadline: budget.and_then(|b| started.checked_add(b)),
        stop,
        command: command_line(),
    };
    let mut db = Database::open(&arguments.db).map_err(Failure::input)?;
    let tuning = TuneOptions { threads: arguments.threads, ..TuneOptions::new(target) };
    let mut workers = Workers::new(&tuning).map_err(Failure::work)?;
    let collected = collect(&specs, &options, &mut db, &mut workers, &mut |spec, progress| match progress {
        Progress::Known | Progress::Measured { good: 0, failed: 0, .. } => {}
        Progress::Skipped(why) => eprintln!("{spec}: skipped: {why}"),
        Progress::Measured { good, failed, failure, best_seconds } => {
            let age = started.elapsed().as_secs_f64();
            let failure = failure.map(|text| format!(", {failed} failed, first: {text}")).unwrap_or_default();
            eprintln!("{age:7.1} s  {spec}: {good} programs, best {:.1} us{failure}", best_seconds * 1e6);
        }
    })
    .map_err(classify)?;
    if json {
        let object = json!({
            "measured": collected.good, "failed": collected.failed, "operators_done": collected.operators,
            "operators": specs.len(), "complete": collected.is_complete,
        });
        return print(&format!("{object}\n"));
    }
    print(&format!(
        "{} programs measured, {} failed; {} of {} operators done{}\n",
        collected.good,
        collected.failed,
        collected.operators,
        specs.len(),
        if collected.is_complete { "" } else { "; call again to go on" }
    ))
}

fn command_line() -> String {
    let arguments = std::env::args().skip(1).collect::<Vec<_>>().join(" ");
    format!("talweg {arguments}")
}

fn load(path: &Path) -> Result<Programs, Failure> {
    let db = Database::open_existing(path).map_err(Failure::input)?;
    Programs::load(&db).map_err(classify)
}

fn run_train(arguments: &TrainArguments, json: bool) -> Result<(), Failure> {
    count("epochs", arguments.epochs)?;
    let loss = match arguments.loss.as_str() {
        "log-speed" => MlpLoss::LogSpeed,
        "rank" => MlpLoss::Rank,
        "both" => MlpLoss::Both,
        other => return Err(Failure::input(format!("--loss {other}: give log-speed, rank or both"))),
    };
    let params = TrainParams {
        loss,
        hidden: arguments.hidden,
        epochs: arguments.epochs,
        rate: arguments.rate,
        decay: arguments.decay,
        seed: arguments.seed,
        ..TrainParams::default()
    };
    params.check().map_err(Failure::input)?;
    let mut programs = load(&arguments.db)?;
    let mut read: BTreeMap<&PathBuf, Programs> = BTreeMap::new();
    for path in &arguments.again {
        let again = match read.entry(path) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) => place.insert(load(path)?),
        };
        programs.append(again).map_err(Failure::work)?;
    }
    drop(read);
    let started = Instant::now();
    let checkpoint =
        train::train(&programs, &params, arguments.hold_out, &command_line()).map_err(classify)?;
    let bytes = checkpoint.to_bytes().map_err(Failure::work)?;
    write_file(&arguments.output, &bytes)?;
    if json {
        let object = json!({
            "file": arguments.output, "bytes": bytes.len(), "seconds": started.elapsed().as_secs_f64(),
            "programs": programs.len(), "skipped": programs.skipped, "about": checkpoint.about,
        });
        return print(&format!("{object}\n"));
    }
    let mut out = format!(
        "{}: {} bytes, trained in {:.1} s on {} programs, {} records skipped\n",
        arguments.output.display(),
        bytes.len(),
        started.elapsed().as_secs_f64(),
        programs.len(),
        programs.skipped
    );
    checkpoint.about.iter().for_each(|(name, text)| out += &format!("  {name}: {text}\n"));
    print(&out)
}

fn run_evaluate(arguments: &EvaluateArguments, json: bool) -> Result<(), Failure> {
    let read = match &arguments.checkpoint {
        Some(path) => {
            let wrong = |e: &dyn std::fmt::Display| Failure::input(format!("{}: {e}", path.display()));
            let bytes = std::fs::read(path).map_err(|e| wrong(&e))?;
            Some(Checkpoint::from_bytes(&bytes).map_err(|e| wrong(&e))?)
        }
        None => None,
    };
    let shipped = || talweg_dataset::shipped(&Target::host());
    let missing = || Failure::input("no checkpoint ships for this machine; give --checkpoint FILE");
    let checkpoint = read.as_ref().or_else(shipped).ok_or_else(missing)?;
    let each = checkpoint.about.get(HELD_OUT).and_then(|n| n.parse().ok()).unwrap_or(0);
    let programs = load(&arguments.db)?;
    let trees = Params::autotvm();
    let rows = evaluate::evaluate(&programs, &checkpoint.mlp, each, &trees).map_err(classify)?;
    if let Some(path) = &arguments.plot {
        let predictions = evaluate::predictions(&programs, &checkpoint.mlp, each).map_err(classify)?;
        let svg = plot::figure(&rows, &predictions).svg();
        let png = talweg_plot::png(&svg, PIXELS).map_err(Failure::work)?;
        write_file(&path.with_extension("svg"), svg.as_bytes())?;
        write_file(&path.with_extension("png"), &png)?;
    }
    if json {
        let quality = |q: &Quality| json!({ "pairs": q.pairs, "clear_pairs": q.clear_pairs, "top_1": q.top_1, "top_5": q.top_5 });
        let row = |row: &Row| {
            json!({
                "family": row.name, "tasks": row.tasks, "programs": row.programs,
                "network": quality(&row.network), "trees": quality(&row.trees), "random": quality(&row.random),
            })
        };
        let families: Vec<Value> = rows.iter().map(row).collect();
        return print(&format!("{}\n", json!({ "command": checkpoint.command, "families": families })));
    }
    print(&format!("made by `{}`\n\n{}", checkpoint.command, evaluate::table(&rows)))
}
