//! `talweg db`: what the tuning database holds.

use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use talweg_artifact::write_whole;
use talweg_db::{Best, Database, DbError, Exported, PruneOptions, TargetKey, TaskKey, TaskStats};
use talweg_ir::Dag;
use talweg_ops::Spec;
use talweg_target::Target;
use talweg_tuner::records::task_key;

use super::{DEFAULT_DB, Failure, check_output, check_threads, print};

/// Arguments of `talweg db`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  talweg db ls
  talweg db --db other.db stats --json
  talweg db best matmul:m=512,n=512,k=512 --threads 2
  talweg db export records.jsonl
  talweg db merge other.db
  talweg db prune --keep 20 --failures --dry-run")]
pub struct Arguments {
    #[command(subcommand)]
    verb: Verb,
    /// Print one JSON object.
    #[arg(long, global = true)]
    json: bool,
    /// The database.
    #[arg(long, global = true, default_value = DEFAULT_DB, value_name = "FILE")]
    db: PathBuf,
}

#[derive(Subcommand)]
enum Verb {
    /// One line for each task, machine and number of threads.
    #[command(after_help = "Example:\n  talweg db ls --json")]
    Ls,
    /// One line for each tuning run that has measured something; `talweg report --run` takes its number.
    #[command(after_help = "Example:\n  talweg db runs --json")]
    Runs,
    /// Counts, failures by cause, and the size of the file.
    #[command(after_help = "Example:\n  talweg db stats --db other.db")]
    Stats,
    /// The stored winner of an operator on this machine: its times and its schedule.
    #[command(after_help = "Example:\n  talweg db best matmul:m=512,n=512,k=512 --threads 2")]
    Best {
        /// The operator.
        spec: String,
        /// Threads of its parallel loops.
        #[arg(long, default_value_t = 1, value_name = "N")]
        threads: usize,
    },
    /// Write everything as JSON lines.
    #[command(after_help = "Example:\n  talweg db export records.jsonl")]
    Export {
        /// Where to; standard output if not given.
        file: Option<PathBuf>,
    },
    /// Add what an export wrote.
    #[command(after_help = "Example:\n  talweg db import records.jsonl")]
    Import {
        /// The export.
        file: PathBuf,
    },
    /// Add everything another database has.
    #[command(after_help = "Example:\n  talweg db merge other.db")]
    Merge {
        /// The other database.
        other: PathBuf,
    },
    /// Delete records that are no longer needed; winners stay.
    #[command(after_help = "Example:\n  talweg db prune --keep 20 --older-than 30 --failures --dry-run")]
    Prune {
        /// Good records to keep for each task.
        #[arg(long, value_name = "N")]
        keep: Option<u32>,
        /// Delete only records older than so many days.
        #[arg(long, value_name = "DAYS")]
        older_than: Option<u64>,
        /// Delete failures too.
        #[arg(long)]
        failures: bool,
        /// Only count.
        #[arg(long)]
        dry_run: bool,
    },
}

/// A failure of the database: bad input where another file or number would mend it.
pub fn refused(error: DbError) -> Failure {
    match error {
        DbError::CannotOpen { .. }
        | DbError::NotADatabase { .. }
        | DbError::Newer { .. }
        | DbError::BadLine { .. }
        | DbError::NoSuchRun { .. }
        | DbError::ReadOnly { .. } => Failure::input(error),
        _ => Failure::work(error),
    }
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let existing = || Database::open_existing(&arguments.db).map_err(refused);
    let json = arguments.json;
    let created = || Database::open(&arguments.db).map_err(refused);
    match &arguments.verb {
        Verb::Ls => list(&existing()?, json),
        Verb::Runs => runs(&existing()?, json),
        Verb::Stats => stats(&existing()?, json),
        Verb::Best { spec, threads } => best(&arguments.db, spec, *threads, json),
        Verb::Export { file } => export(&existing()?, file.as_ref(), json),
        Verb::Import { file } => {
            let opened = File::open(file).map_err(|e| Failure::input(format!("{}: {e}", file.display())))?;
            let done = created()?.import(BufReader::new(opened)).map_err(refused)?;
            added(done.records, done.duplicates, done.bests, json)
        }
        Verb::Merge { other } => {
            let other = Database::open_existing(other).map_err(refused)?;
            let done = created()?.merge(&other).map_err(refused)?;
            added(done.records, done.duplicates, done.bests, json)
        }
        Verb::Prune { keep, older_than, failures, dry_run } => {
            let options = PruneOptions {
                keep_best_n: *keep,
                older_than: older_than.map(|days| now().saturating_sub(days.saturating_mul(86_400))),
                failures: *failures,
                dry_run: *dry_run,
            };
            let done = existing()?.prune(&options).map_err(refused)?;
            if json {
                return object(&json!({
                    "good": done.good, "failures": done.failures, "texts": done.texts, "dry_run": dry_run,
                }));
            }
            let verb = if *dry_run { "would delete" } else { "deleted" };
            print(&format!(
                "{verb} {} good records, {} failures, {} texts\n",
                done.good, done.failures, done.texts
            ))
        }
    }
}

fn object(value: &Value) -> Result<(), Failure> {
    print(&format!("{value}\n"))
}

fn added(records: u64, duplicates: u64, bests: u64, json: bool) -> Result<(), Failure> {
    if json {
        return object(&json!({ "records": records, "duplicates": duplicates, "winners": bests }));
    }
    print(&format!("{records} records added, {duplicates} were there already, {bests} winners\n"))
}

/// A task with its counts, as JSON.
fn task_object(task: &TaskStats) -> Value {
    let best = task.best.as_ref().map(|best| {
        json!({
            "record": best.record.id.get(), "us": best.default_seconds / best.ab_ratio * 1e6,
            "default_us": best.default_seconds * 1e6, "gain": best.ab_ratio, "max_rel_error": best.error,
        })
    });
    json!({
        "task": title(&task.entry.task), "threads": task.entry.threads, "target": &*task.entry.target.text,
        "records": task.entry.records, "failed": task.failed(),
        "failures": task.failures.iter().map(|(cause, count)| json!({ "cause": cause, "count": count })).collect::<Vec<_>>(),
        "fastest_us": task.fastest_seconds.map(|s| s * 1e6), "best": best,
    })
}

/// A task in one line: its name and the shapes of what goes in and out.
fn title(task: &TaskKey) -> String {
    let Ok(dag) = Dag::parse(&task.text) else {
        return task.text.lines().next().unwrap_or_default().to_string();
    };
    let outside = dag.tensors.iter().filter(|t| t.output || t.compute().is_none());
    let shapes = outside.map(|t| {
        let shape = t.const_shape().unwrap_or_default();
        format!("{}[{}]", t.name, shape.iter().map(i64::to_string).collect::<Vec<_>>().join(","))
    });
    format!("{} {}", dag.name, shapes.collect::<Vec<_>>().join(" "))
}

fn list(db: &Database, json: bool) -> Result<(), Failure> {
    let mut out = String::new();
    let tasks = db.stats().map_err(refused)?.tasks;
    if json {
        return object(&json!({ "tasks": tasks.iter().map(task_object).collect::<Vec<_>>() }));
    }
    for task in tasks {
        let entry = &task.entry;
        let best = match &task.best {
            Some(best) => {
                format!("best {:.2} us ({:.2}x)", best.default_seconds / best.ab_ratio * 1e6, best.ab_ratio)
            }
            None => "no winner yet".into(),
        };
        out += &format!(
            "{}  threads {}  {} records, {} failed  {best}  [{}]\n",
            title(&entry.task),
            entry.threads,
            entry.records,
            task.failed(),
            entry.target.text
        );
    }
    print(&out)
}

fn runs(db: &Database, json: bool) -> Result<(), Failure> {
    let (mut out, mut objects) = (String::new(), Vec::new());
    for stats in db.run_stats().map_err(refused)? {
        let run = db.run(stats.run).map_err(refused)?;
        objects.push(json!({
            "id": run.id.get(), "uid": run.uid, "strategy": run.info.strategy, "seed": run.info.seed,
            "command": run.info.command, "started": run.started, "seconds": stats.last.saturating_sub(run.started),
            "tasks": stats.tasks, "records": stats.records, "failed": stats.failed, "threads": stats.threads,
            "target": stats.target.text.to_string(),
        }));
        out += &format!(
            "{:>4}  {} s ago  {}  {} tasks, {} records, {} failed in {} s  threads {}  {}\n",
            run.id.get(),
            now().saturating_sub(run.started),
            run.info.strategy,
            stats.tasks,
            stats.records,
            stats.failed,
            stats.last.saturating_sub(run.started),
            stats.threads,
            run.info.command
        );
    }
    if json {
        return object(&json!({ "file": db.path(), "runs": objects }));
    }
    print(&out)
}

/// Unix seconds.
pub fn now() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |d| d.as_secs())
}

fn stats(db: &Database, json: bool) -> Result<(), Failure> {
    let stats = db.stats().map_err(refused)?;
    if json {
        return object(&json!({
            "file": db.path(), "records": stats.records, "runs": stats.runs, "bytes": stats.bytes,
            "tasks": stats.tasks.iter().map(task_object).collect::<Vec<_>>(),
        }));
    }
    let mut out = format!(
        "{}: {} records of {} tasks in {} runs, {:.1} MiB\n",
        db.path().display(),
        stats.records,
        stats.tasks.len(),
        stats.runs,
        stats.bytes as f64 / f64::from(1 << 20)
    );
    for task in &stats.tasks {
        out += &format!("{}  threads {}\n", title(&task.entry.task), task.entry.threads);
        out += &format!("  records  {}, {} failed\n", task.entry.records, task.failed());
        for (cause, count) in &task.failures {
            out += &format!("  failed   {count} x {cause}\n");
        }
        if let Some(seconds) = task.fastest_seconds {
            out += &format!("  fastest  {:.2} us\n", seconds * 1e6);
        }
    }
    print(&out)
}

/// The stored winner of an operator on this machine.
pub fn stored_winner(path: &Path, spec: &Spec, threads: usize) -> Result<Best, Failure> {
    let db = Database::open_existing(path).map_err(refused)?;
    let key = task_key(&spec.build().map_err(Failure::input)?);
    let target = TargetKey::new(Target::host().fingerprint());
    let found = db.best(&key, &target, threads as u32).map_err(refused)?;
    found.ok_or_else(|| {
        Failure::input(format!(
            "{}: no winner of `{spec}` with --threads {threads} on this machine; run `talweg tune {spec}` first",
            path.display()
        ))
    })
}

fn best(path: &Path, spec: &str, threads: usize, json: bool) -> Result<(), Failure> {
    check_threads(threads)?;
    let spec = Spec::parse(spec).map_err(Failure::input)?;
    let best = stored_winner(path, &spec, threads)?;
    let seconds = best.default_seconds / best.ab_ratio;
    if json {
        return object(&json!({
            "spec": spec.to_string(), "threads": threads, "us": seconds * 1e6,
            "default_us": best.default_seconds * 1e6, "gain": best.ab_ratio, "max_rel_error": best.error,
            "strategy": best.record.strategy, "record": best.record.id.get(), "schedule": best.record.trace,
        }));
    }
    print(&format!(
        "# {spec}\n# {:.2} us, the default {:.2} us ({:.2}x), largest relative error {:.1e}, by {}, record {}\n{}",
        seconds * 1e6,
        best.default_seconds * 1e6,
        best.ab_ratio,
        best.error,
        best.record.strategy,
        best.record.id,
        best.record.trace
    ))
}

fn export(db: &Database, file: Option<&PathBuf>, json: bool) -> Result<(), Failure> {
    let Some(path) = file else {
        return db.export(std::io::stdout().lock()).map(|_| ()).map_err(refused);
    };
    check_output(path, [&db.path().to_path_buf()])?;
    let failed = |e: std::io::Error| Failure::input(format!("{}: {e}", path.display()));
    let mut outcome = Ok(Exported::default());
    let written = write_whole(path, |file| {
        let mut writer = BufWriter::new(file);
        outcome = db.export(&mut writer);
        outcome.as_ref().map_err(|e| std::io::Error::other(e.to_string())).and_then(|_| writer.flush())
    });
    let done = outcome.map_err(refused)?;
    written.map_err(failed)?;
    if json {
        return object(&json!({ "records": done.records, "winners": done.bests, "file": path }));
    }
    print(&format!("{} records, {} winners written to {}\n", done.records, done.bests, path.display()))
}
