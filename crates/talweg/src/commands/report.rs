//! `talweg report`: one self-contained page about tuning runs.

use std::path::PathBuf;

use clap::Args;
use talweg_db::Database;
use talweg_report::{ReportError, Roofs, Selection, page, peers};
use talweg_target::Target;

use super::db::{now, refused};
use super::{DEFAULT_DB, Failure, check_output, print, write_file};
use crate::roofline::Machine;

/// Arguments of `talweg report`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  talweg report
  talweg report --run 3 --run 4 -o compared.html
  talweg report --peers peers.json --json

`talweg db runs` lists the runs.")]
pub struct Arguments {
    /// The database.
    #[arg(long, default_value = DEFAULT_DB, value_name = "FILE")]
    db: PathBuf,
    /// The number of a run; several are shown together. Without it, all runs on the machine of the latest one.
    #[arg(long, value_name = "ID")]
    run: Vec<i64>,
    /// Times of other runtimes: what `talweg bench MODEL --against ... --json` prints, or a list of objects with `name`,
    /// `us` and, for one task, `task`.
    #[arg(long, value_name = "FILE")]
    peers: Option<PathBuf>,
    /// Where the page goes.
    #[arg(short, long, default_value = "report.html", value_name = "FILE")]
    output: PathBuf,
    /// Print the data of the page as one JSON object, and write no page.
    #[arg(long)]
    json: bool,
}

fn failed(error: ReportError) -> Failure {
    match error {
        ReportError::Db(error) => refused(error),
        error => Failure::input(error),
    }
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    if !arguments.json {
        check_output(&arguments.output, arguments.peers.iter().chain([&arguments.db]))?;
    }
    let text = match &arguments.peers {
        Some(path) => {
            let read = std::fs::read_to_string(path);
            Some(read.map_err(|e| Failure::input(format!("{}: {e}", path.display())))?)
        }
        None => None,
    };
    let db = Database::open_existing(&arguments.db).map_err(refused)?;
    let selection = Selection::of(&db, &arguments.run).map_err(failed)?;
    let mut collector = selection.collect(&db, now()).map_err(failed)?;
    if let Some(text) = text {
        let peers = peers::peers(&text, &collector).map_err(failed)?;
        collector.add_peers(peers);
    }
    let is_here = Target::host().fingerprint() == *selection.target.text;
    let here = is_here.then(|| roofs(selection.threads as usize));
    collector.set_roofs(here.or_else(|| selection.stored_roofs()));
    let report = collector.report();
    if arguments.json {
        let text = serde_json::to_string(&report).map_err(Failure::work)?;
        return print(&(text + "\n"));
    }
    let page = page(&report);
    write_file(&arguments.output, page.as_bytes())?;
    print(&format!(
        "{}: {} runs, {} tasks, {} samples, {:.0} KiB\n",
        arguments.output.display(),
        report.runs.len(),
        report.tasks.len(),
        report.measured,
        page.len() as f64 / 1024.0
    ))
}

/// What this machine can do at most, measured now.
pub fn roofs(threads: usize) -> Roofs {
    let machine = Machine::measure(threads);
    Roofs {
        peak_gflops: machine.peak / 1e9,
        levels: machine.levels.into_iter().map(|l| (l.level.to_string(), l.read_gbs)).collect(),
        source: "were measured on this machine when the page was made; bandwidths are those of one thread"
            .into(),
    }
}
