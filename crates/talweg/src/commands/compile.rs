//! `talweg compile`: a model to an artefact.

use std::path::PathBuf;
use std::time::Instant;

use clap::{Args, ValueEnum};
use talweg::network::{Network, Winners};
use talweg_artifact::{Artefact, LibraryError};
use talweg_db::{Database, RunId};
use talweg_target::Target;

use super::model::{self, CompileArguments, LockArguments, ModelArguments, jobs};
use super::tune::parse_duration;
use super::{Failure, check_output, interrupt, print};

/// Arguments of `talweg compile`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  talweg compile resnet50.onnx -o resnet50.talweg --threads 2
  talweg compile resnet50.onnx --lock resnet50.talweg.lock -o resnet50.talweg
  talweg compile resnet50.onnx --as-of 30s --db talweg.db -o early.talweg
  talweg compile resnet50.onnx --emit so -o libresnet50.so")]
pub struct Arguments {
    #[command(flatten)]
    model: ModelArguments,
    #[command(flatten)]
    compile: CompileArguments,
    /// The artefact to write.
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    #[command(flatten)]
    lock: LockArguments,
    /// Compile what a tuning run had found so long after its start, compared with the default or not: `30s`, `2m`. The fastest
    /// candidates of each task by then, and the algorithms they are fastest with, make the network.
    #[arg(long, value_name = "TIME", conflicts_with = "lock")]
    as_of: Option<String>,
    /// The run that --as-of is about, as `talweg db runs` numbers them; the last one unless given.
    #[arg(long, value_name = "ID", requires = "as_of")]
    run: Option<i64>,
    /// The machine to compile for: host, avx512, avx2, neon, or lock for the one that --lock was written on.
    #[arg(long, default_value = "host", value_name = "NAME")]
    target: String,
    /// What to write: an artefact for talweg's runtime, or a shared library with a C header and an example.
    #[arg(long, value_enum, default_value_t = Emit::Artefact)]
    emit: Emit,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// What to write.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Emit {
    /// One file for talweg's runtime.
    Artefact,
    /// A shared library, a header and an example, beside each other.
    So,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let start = Instant::now();
    let threads = arguments.compile.threads()?;
    let read = arguments.model.files().chain([&arguments.compile.db]).chain(&arguments.lock.lock);
    check_output(&arguments.output, read)?;
    let lock = arguments.lock.read()?;
    let target = match (&lock, arguments.target.as_str()) {
        (Some(lock), "lock") => lock.target.clone(),
        (None, "lock") => return Err(Failure::input("--target lock needs a lock; give --lock FILE")),
        (_, name) => Target::named(name).map_err(|e| Failure::input(format!("--target: {e}")))?,
    };
    if let Some(lock) = &lock {
        lock.check_target(&target).map_err(Failure::input)?;
    }
    let mut network = arguments.model.network()?;
    let (artefact, tuned) = match &lock {
        Some(lock) => {
            let tuned = lock.tasks.iter().filter(|task| task.tuned).count();
            (arguments.model.compile_locked(lock, &mut network)?, tuned)
        }
        None => {
            let winners = match &arguments.as_of {
                Some(time) => as_of(arguments, time, &mut network, &target, threads)?,
                None => arguments.compile.winners(&mut network, &target)?,
            };
            let artefact = network.compile(&target, &winners, jobs()).map_err(Failure::work)?;
            (artefact, winners.count(&network.program))
        }
    };
    interrupt::after(|| write(arguments, &artefact)).map_err(Failure::work)??;
    let manifest = &artefact.manifest;
    let tasks = manifest.kernels.len();
    let seconds = start.elapsed().as_secs_f64();
    if arguments.json {
        let report = serde_json::json!({
            "model": manifest.model, "output": arguments.output, "seconds": seconds, "tasks": tasks, "tuned": tuned,
            "default": tasks - tuned, "steps": manifest.steps.len(), "weights_bytes": artefact.weights_bytes(),
            "arena_bytes": manifest.arena_bytes, "arena_bound_bytes": artefact.arena_bound,
        });
        return print(&format!("{report}\n"));
    }
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let mut text = format!(
        "{} written in {seconds:.1} s: {} steps, {tasks} kernels ({tuned} tuned, {} by the analytic default)\n\
         weights {:.1} MiB, arena {:.2} MiB (at least {:.2} needed), for {} with {threads} threads\n",
        arguments.output.display(),
        manifest.steps.len(),
        tasks - tuned,
        mib(artefact.weights_bytes()),
        mib(manifest.arena_bytes),
        mib(artefact.arena_bound),
        target.isa.name(),
    );
    if let Some(line) = model::algorithms(&network) {
        text += &line;
    }
    if tuned < tasks && lock.is_none() {
        text += &format!("to tune the rest: talweg tune {} --budget 5m\n", arguments.model.model.display());
    }
    print(&text)
}

fn write(arguments: &Arguments, artefact: &Artefact) -> Result<(), Failure> {
    if arguments.emit == Emit::Artefact {
        return artefact.write(&arguments.output).map_err(Failure::input);
    }
    let library = artefact.write_library(&arguments.output).map_err(|e| match e {
        LibraryError::Write { .. } => Failure::input(e),
        e => Failure::work(e),
    })?;
    eprintln!("header {}, example {}", library.header.display(), library.example.display());
    Ok(())
}

/// What a run had found by then; the algorithms are chosen by it.
fn as_of(
    arguments: &Arguments,
    time: &str,
    network: &mut Network,
    target: &Target,
    threads: usize,
) -> Result<Winners, Failure> {
    let time = parse_duration(time)
        .ok_or_else(|| Failure::input(format!("--as-of {time}: give a time such as 30s, 2m or 1h")))?;
    let path = &arguments.compile.db;
    let db = Database::open_existing(path).map_err(Failure::input)?;
    let run = match arguments.run {
        Some(number) => db.run(RunId::from_number(number)).map_err(Failure::input)?,
        None => db.runs().map_err(Failure::input)?.pop().ok_or_else(|| {
            Failure::input(format!("{} has no runs; name another database with --db", path.display()))
        })?,
    };
    let moment = (run.id, time.as_secs_f64());
    let winners = Winners::as_of(&db, &network.program, target, threads, moment).map_err(Failure::input)?;
    if winners.is_empty() {
        return Err(Failure::input(format!(
            "run {} of {} had measured nothing of this model for {} threads on this machine after {:?}; give a later \
             --as-of, or the --threads and --run that are meant",
            run.id.get(),
            path.display(),
            threads,
            time
        )));
    }
    network.choose(target, &winners);
    Ok(winners)
}
