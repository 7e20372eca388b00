//! `talweg dataset`: measure programs of many operators, train the cost model on them, judge it.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use talweg_dataset::{CollectOptions, DatasetError, Progress, collect, machine, operators};
use talweg_db::Database;
use talweg_tuner::{TuneOptions, Workers};

use super::tune::parse_duration;
use super::{Failure, check_threads, interrupt, print, process_age};

/// Where programs are stored, unless told otherwise.
const DEFAULT_DATASET: &str = "dataset.db";
/// Operators and programs that can be asked for.
const MOST: usize = 100_000;

/// Arguments of `talweg dataset`.
#[derive(Args)]
pub struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Measure programs of operators drawn from a seed, and store them; a second call goes on where the first ended.
    Collect(CollectArguments),
}

#[derive(Args)]
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

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    match &arguments.verb {
        Verb::Collect(arguments) => run_collect(arguments),
    }
}

/// A database that cannot be used is bad input; everything else failed in the work.
fn classify(error: DatasetError) -> Failure {
    match error {
        DatasetError::Db(_) | DatasetError::Empty { .. } | DatasetError::OtherFeatures { .. } => {
            Failure::input(error)
        }
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

fn run_collect(arguments: &CollectArguments) -> Result<(), Failure> {
    let started = Instant::now().checked_sub(process_age()).unwrap_or_else(Instant::now);
    check_threads(arguments.threads)?;
    count("operators", arguments.operators)?;
    count("programs", arguments.programs)?;
    let sampling = time("sampling", &arguments.sampling)?;
    let budget = arguments.budget.as_deref().map(|text| time("budget", text)).transpose()?;
    let target = machine::restricted(&arguments.target)
        .map_err(|e| Failure::input(format!("--target {}: {e}", arguments.target)))?;
    let specs = operators(arguments.seed, arguments.operators);
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
        sampling,
        deadline: budget.and_then(|b| started.checked_add(b)),
        stop,
        command: std::env::args().skip(1).collect::<Vec<_>>().join(" "),
    };
    let mut db = Database::open(&arguments.db).map_err(Failure::input)?;
    let tuning = TuneOptions { threads: arguments.threads, ..TuneOptions::new(target) };
    let mut workers = Workers::new(&tuning).map_err(Failure::work)?;
    let collected = collect(&specs, &options, &mut db, &mut workers, &mut |spec, progress| match progress {
        Progress::Known => {}
        Progress::Skipped(why) => eprintln!("{spec}: skipped: {why}"),
        Progress::Measured { good, failed, failure, best_seconds } => {
            let age = started.elapsed().as_secs_f64();
            let failure = failure.map(|text| format!(", {failed} failed, first: {text}")).unwrap_or_default();
            eprintln!("{age:7.1} s  {spec}: {good} programs, best {:.1} us{failure}", best_seconds * 1e6);
        }
    })
    .map_err(classify)?;
    print(&format!(
        "{} programs measured, {} failed; {} of {} operators done{}\n",
        collected.good,
        collected.failed,
        collected.operators,
        specs.len(),
        if collected.is_complete { "" } else { "; call again to go on" }
    ))
}
