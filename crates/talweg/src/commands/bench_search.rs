//! `talweg bench search`: how fast strategies find fast programs.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::Args;
use serde_json::json;
use talweg::contest::operators::{is_network, name_of, operators};
use talweg::contest::{
    ContestError, Contestant, Folder, Playoff, Run, Settings, Table, curves, markdown::markdown, results,
};
use talweg::lock::Lock;
use talweg_measure::WorkerCommand;
use talweg_ops::Spec;
use talweg_target::Target;
use talweg_tuner::{ModelKind, StrategyKind};

use super::settings::without_settings;
use super::tune::parse_duration;
use super::{Failure, check_memory, check_threads, print};

/// Pixels of the picture for each unit of the drawing.
const PIXELS: f32 = 1.5;
/// Trials of a run on the simulated device, unless told otherwise.
const SIMULATED_TRIALS: usize = 200;

/// Arguments of `talweg bench search`.
#[derive(Args)]
#[command(
    after_help = "Every run is a process of its own with an empty database, and its time counts from its start. Finished \
                  runs are kept in the output folder: called again, the command goes on where it was.\n\n\
                  Examples:\n  talweg bench search --budget 20s --seeds 1 --ops matmul:m=512,n=512,k=512 softmax:rows=1536,n=128\n  \
                  talweg bench search --simulated --strategies ansor,random\n  \
                  talweg bench search --from-default --budget 10m --seeds 1 --ops resnet50.onnx bert.onnx\n  \
                  talweg bench search --report --json"
)]
pub struct Arguments {
    /// The searches, with commas between them; ansor is what the others are compared with, or the first without it.
    #[arg(long, default_value = "ansor,felix", value_delimiter = ',', value_name = "NAMES")]
    strategies: Vec<String>,
    /// Cost models to combine every search with (trees, rank, mlp, mlp-bootstrap, random; own for the search's own).
    #[arg(long, default_value = "own", value_delimiter = ',', value_name = "NAMES")]
    models: Vec<String>,
    /// Compare felix with felix with single parts switched, in place of strategies.
    #[arg(long, conflicts_with_all = ["strategies", "models"])]
    ablation: bool,
    /// The operators, or networks as .onnx files; without it those of the quality bar of tuning, a fused convolution and the
    /// scores of attention.
    #[arg(long, num_args = 1.., value_name = "SPEC")]
    ops: Vec<String>,
    /// Time of each run: 20s, 5m.
    #[arg(long, default_value = "5m", value_name = "TIME")]
    budget: String,
    /// Runs of each search on each operator.
    #[arg(long, default_value_t = 3, value_name = "N")]
    seeds: u64,
    /// Threads of the operators' parallel loops.
    #[arg(long, default_value_t = 2, value_name = "N")]
    threads: usize,
    /// Search on a simulated device and count trials in place of time: exact, and the same everywhere.
    #[arg(long, conflicts_with = "budget")]
    simulated: bool,
    /// Trials of each run on the simulated device; 200 if not given.
    #[arg(long, requires = "simulated", value_name = "N")]
    trials: Option<usize>,
    /// Let searches begin near the default schedule, as `talweg tune` does; otherwise they must find everything themselves.
    #[arg(long)]
    from_default: bool,
    /// Let runs end before their budget when nothing more is expected, as `talweg tune` does.
    #[arg(long)]
    ends_early: bool,
    /// Give all searches but the one they are compared with a part of the time that it took, such as a third for 3; several
    /// with commas between them for a run with each.
    #[arg(long, default_value = "1", value_delimiter = ',', value_name = "N", conflicts_with = "simulated",
        value_parser = clap::value_parser!(u32).range(1..=1000))]
    share: Vec<u32>,
    /// Rounds in which all programs on the curves of an operator, or what was in hand of a network at some moments, are timed
    /// alternately at the end; 0 for none.
    #[arg(long, default_value_t = 5, value_name = "N")]
    playoff: usize,
    /// Where runs, table and figure are kept.
    #[arg(long, default_value = "search-bench", value_name = "FOLDER")]
    output: PathBuf,
    /// Run nothing: table and figure of what the folder has.
    #[arg(long)]
    report: bool,
    /// Print the table as JSON.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let bench = Bench::new(arguments)?;
    let failed = if arguments.report { Vec::new() } else { bench.run_all()? };
    let (runs, playoffs) = bench.finished()?;
    if runs.is_empty() && failed.is_empty() {
        let path = arguments.output.display();
        return Err(Failure::input(format!("{path} has no runs of these searches and operators")));
    }
    let table = Table::new(&bench.reference, &runs);
    let results = results(&bench.reference, &runs);
    let text = markdown(&table, &results, &bench.settings);
    let object =
        json!({ "settings": bench.settings, "table": table, "results": results, "playoffs": playoffs });
    let svg = curves::figure(&runs, &bench.settings).svg();
    let png = talweg_plot::png(&svg, PIXELS).map_err(Failure::work)?;
    let pretty = format!("{object:#}\n");
    let files: [(&str, &[u8]); 4] = [
        ("search.md", text.as_bytes()),
        ("search.json", pretty.as_bytes()),
        ("search.svg", svg.as_bytes()),
        ("search.png", &png),
    ];
    for (name, content) in files {
        bench.folder.write(name, content).map_err(classify)?;
    }
    print(if arguments.json { &pretty } else { &text })?;
    match failed.first() {
        None => Ok(()),
        Some(first) => Err(Failure::work(format!(
            "{} runs failed and are not in the table; call again to repeat them. The first: {first}",
            failed.len()
        ))),
    }
}

fn classify(error: ContestError) -> Failure {
    match error {
        ContestError::Report { .. } => Failure::work(error),
        _ => Failure::input(error),
    }
}

/// A comparison that is about to begin.
struct Bench {
    contestants: Vec<Contestant>,
    reference: String,
    specs: Vec<String>,
    seeds: u64,
    settings: Settings,
    playoff: usize,
    folder: Folder,
}

impl Bench {
    fn new(arguments: &Arguments) -> Result<Bench, Failure> {
        check_threads(arguments.threads)?;
        if !(1..=1000).contains(&arguments.seeds) {
            return Err(Failure::input(format!("--seeds {}: give a number from 1 to 1000", arguments.seeds)));
        }
        if arguments.trials == Some(0) {
            return Err(Failure::input("--trials must be at least 1"));
        }
        let budget = parse_duration(&arguments.budget).ok_or_else(|| {
            Failure::input(format!("--budget {}: give a time such as 20s, 5m or 1h", arguments.budget))
        })?;
        let settings = Settings {
            budget: (!arguments.simulated).then_some(budget.as_secs_f64()),
            trials: arguments.simulated.then_some(arguments.trials.unwrap_or(SIMULATED_TRIALS)),
            threads: arguments.threads,
            simulated: arguments.simulated,
            from_default: arguments.from_default,
            to_the_end: !arguments.ends_early,
        };
        let distinct: BTreeSet<&u32> = arguments.share.iter().collect();
        if distinct.len() < arguments.share.len() {
            return Err(Failure::input("--share: give every number once"));
        }
        let contestants = match arguments.ablation {
            true => Contestant::ablation(),
            false => contestants(&arguments.strategies, &arguments.models)?,
        };
        let ansor = contestants.iter().find(|c| c.name == "ansor");
        let reference = ansor.or(contestants.first()).map(|c| c.name.clone()).unwrap_or_default();
        // The others may have parts of its time.
        let (first, others): (Vec<_>, Vec<_>) = contestants.into_iter().partition(|c| c.name == reference);
        let with_shares =
            |c: &Contestant| arguments.share.iter().map(|n| c.with_share(*n)).collect::<Vec<_>>();
        let contestants = first.into_iter().chain(others.iter().flat_map(with_shares)).collect();
        let specs = specs(&arguments.ops)?;
        if let Some(network) = specs.iter().find(|spec| arguments.simulated && is_network(spec)) {
            return Err(Failure::input(format!("--ops {network}: --simulated takes operators only")));
        }
        let folder = Folder::open(&arguments.output).map_err(classify)?;
        let playoff = if arguments.simulated { 0 } else { arguments.playoff };
        Ok(Bench { contestants, reference, specs, seeds: arguments.seeds, settings, playoff, folder })
    }

    /// All operators with all seeds.
    fn pairs(&self) -> impl Iterator<Item = (&str, u64)> {
        self.specs.iter().flat_map(move |spec| (0..self.seeds).map(move |seed| (spec.as_str(), seed)))
    }

    /// A run that has been made.
    fn known(&self, spec: &str, seed: u64, contestant: &Contestant) -> Result<Option<Run>, Failure> {
        self.folder.run(spec, &contestant.name, seed, &self.settings).map_err(classify)
    }

    /// A playoff that has been made, of all contestants.
    fn known_playoff(&self, spec: &str, seed: u64) -> Result<Option<Playoff>, Failure> {
        let names: Vec<&str> = self.contestants.iter().map(|c| c.name.as_str()).collect();
        self.folder.playoff(spec, seed, &names).map_err(classify)
    }

    /// Everything the folder has of this comparison, by the times of the playoffs where there were some.
    fn finished(&self) -> Result<(Vec<Run>, Vec<Playoff>), Failure> {
        let (mut runs, mut playoffs) = (Vec::new(), Vec::new());
        for (spec, seed) in self.pairs() {
            for contestant in &self.contestants {
                runs.extend(self.known(spec, seed, contestant)?);
            }
            playoffs.extend(self.known_playoff(spec, seed)?);
        }
        Ok((runs.iter().map(|run| run.retimed(&playoffs)).collect(), playoffs))
    }

    /// Makes the runs and playoffs that are missing; what failed. The searches of one operator and seed run one after another,
    /// so that what disturbs the machine for a while disturbs all of them.
    fn run_all(&self) -> Result<Vec<String>, Failure> {
        let (mut at, mut total) = (0, 0);
        for (spec, seed) in self.pairs() {
            for contestant in &self.contestants {
                total += 1;
                at += usize::from(self.known(spec, seed, contestant)?.is_some());
            }
        }
        if at > 0 {
            eprintln!("{at} of {total} runs are in {} already", self.folder.path().display());
        }
        let mut failed = Vec::new();
        for (spec, seed) in self.pairs() {
            let mut is_new = false;
            for contestant in &self.contestants {
                if self.known(spec, seed, contestant)?.is_some() {
                    continue;
                }
                (at, is_new) = (at + 1, true);
                let name = format!("{}, {}, seed {seed}", name_of(spec), contestant.name);
                match self.tune(spec, seed, contestant) {
                    Ok(run) => {
                        self.folder.keep(&run).map_err(classify)?;
                        eprintln!(
                            "[{at}/{total}] {name}: {:.1} us (default {:.1}), {} trials in {:.1} s, ended by {}",
                            run.best_us, run.default_us, run.trials, run.seconds, run.stopped_by
                        );
                    }
                    Err(text) => {
                        eprintln!("[{at}/{total}] {name}: failed: {text}");
                        failed.push(format!("{name}: {text}"));
                    }
                }
            }
            if self.playoff > 0 && (is_new || self.known_playoff(spec, seed)?.is_none()) {
                self.play_off(spec, seed)?;
            }
        }
        Ok(failed)
    }

    /// One run, in a process of its own with an empty database.
    fn tune(&self, spec: &str, seed: u64, contestant: &Contestant) -> Result<Run, String> {
        let dir = tempfile::tempdir().map_err(|e| format!("cannot make a folder: {e}"))?;
        let mut command = this_program()?;
        command.args(["tune", spec, "--json", "--seed", &seed.to_string()]);
        command.args(["--threads", &self.settings.threads.to_string()]).args(&contestant.arguments);
        command.args(["--start", if self.settings.from_default { "default" } else { "nothing" }]);
        if self.settings.to_the_end {
            command.arg("--to-the-end");
        }
        let artefact = dir.path().join("network.talweg");
        let mut db = dir.path().join("run.db");
        if is_network(spec) {
            command.arg("--output").arg(&artefact);
            // Its playoff needs to know what was measured when.
            db = self.folder.database(spec, &contestant.name, seed);
            forget(&db)?;
        }
        match self.settings.budget {
            Some(seconds) => {
                let seconds = match contestant.share {
                    1 => seconds,
                    share => {
                        let known = self.folder.run(spec, &self.reference, seed, &self.settings);
                        let taken = known.map_err(|e| e.to_string())?.map(|run| run.seconds.min(seconds));
                        taken.ok_or_else(|| format!("{} has no time to share", self.reference))?
                            / f64::from(share)
                    }
                };
                command.args(["--budget", &format!("{seconds}s")]).arg("--db").arg(&db);
            }
            None => {
                command.args(["--simulated", "--trials", &self.settings.trials.unwrap_or(1).to_string()]);
            }
        }
        let out = output(command)?;
        let run =
            Run::from_report(spec, contestant, seed, &self.settings, &out).map_err(|e| e.to_string())?;
        if run.stopped_by == "interrupted" {
            return Err("it was interrupted".into());
        }
        if is_network(spec) {
            let (from, to) = (Lock::beside(&artefact), self.folder.lock(spec, &contestant.name, seed));
            std::fs::copy(&from, &to).map_err(|e| format!("{}: {e}", to.display()))?;
        }
        Ok(run)
    }

    /// Times what all searches found for an operator or a network alternately, unless a run is missing.
    fn play_off(&self, spec: &str, seed: u64) -> Result<(), Failure> {
        let mut runs = Vec::new();
        for contestant in &self.contestants {
            match self.known(spec, seed, contestant)? {
                Some(run) => runs.push(run),
                None => return Ok(()),
            }
        }
        let target = Target::host();
        let playoff = match is_network(spec) {
            true => Playoff::of_network(&runs, &self.reference, &self.folder, &target, self.playoff),
            false => Playoff::of(&runs, &target, self.playoff),
        };
        match playoff {
            Ok(playoff) => self.folder.keep_playoff(&playoff).map_err(classify),
            Err(text) => {
                eprintln!("{}, seed {seed}: what was found was not compared: {text}", name_of(spec));
                Ok(())
            }
        }
    }
}

/// Removes a database that an interrupted run left.
fn forget(db: &Path) -> Result<(), String> {
    for ending in ["", "-wal", "-shm"] {
        let mut name = db.as_os_str().to_os_string();
        name.push(ending);
        match std::fs::remove_file(&name) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                return Err(format!("{}: {e}", Path::new(&name).display()));
            }
            _ => {}
        }
    }
    Ok(())
}

fn this_program() -> Result<Command, String> {
    let again = WorkerCommand::again().map_err(|e| format!("cannot find this program: {e}"))?;
    let mut command = Command::new(again.program);
    command.args(again.args).stdin(Stdio::null());
    // Every run has the settings of the comparison, whatever the user prefers elsewhere.
    without_settings(&mut command);
    Ok(command)
}

/// What a program prints; what it complained about if it failed.
fn output(mut command: Command) -> Result<String, String> {
    let output = command.output().map_err(|e| format!("it cannot be started: {e}"))?;
    if output.status.success() {
        return String::from_utf8(output.stdout).map_err(|e| e.to_string());
    }
    let complaint = String::from_utf8_lossy(&output.stderr);
    let last = complaint.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
    Err(format!("{}: {last}", output.status))
}

/// Every strategy with every model.
fn contestants(strategies: &[String], models: &[String]) -> Result<Vec<Contestant>, Failure> {
    let mut out: Vec<Contestant> = Vec::new();
    for name in strategies {
        let strategy: StrategyKind =
            name.parse().map_err(|e| Failure::input(format!("--strategies: {e}")))?;
        for model in models {
            let model = match model.as_str() {
                "own" => None,
                name => Some(
                    name.parse::<ModelKind>().map_err(|e| Failure::input(format!("--models: {e}, own")))?,
                ),
            };
            if let Some(model) = model.filter(|model| !strategy.can_use(*model)) {
                return Err(Failure::input(format!(
                    "--models {}: {strategy} follows the slope of its model, and this one has none",
                    model.name()
                )));
            }
            out.push(Contestant::of(strategy, model));
        }
    }
    let names: BTreeSet<&str> = out.iter().map(|c| c.name.as_str()).collect();
    if names.len() < out.len() {
        return Err(Failure::input("--strategies and --models: give every name once"));
    }
    Ok(out)
}

/// The operators and networks, checked.
fn specs(given: &[String]) -> Result<Vec<String>, Failure> {
    let known = operators().map(|(_, spec)| spec.to_string());
    let texts: Vec<String> = if given.is_empty() { known.collect() } else { given.to_vec() };
    let mut out = Vec::new();
    for text in texts {
        if out.contains(&text) {
            return Err(Failure::input(format!("--ops: `{text}` is given twice; give every operator once")));
        }
        check_spec(&text)?;
        out.push(text);
    }
    Ok(out)
}

fn check_spec(text: &str) -> Result<(), Failure> {
    if is_network(text) {
        return match Path::new(text).is_file() {
            true => Ok(()),
            false => Err(Failure::input(format!("--ops {text}: there is no such file"))),
        };
    }
    let spec = Spec::parse(text).map_err(Failure::input)?;
    let dag = spec.build().map_err(Failure::input)?;
    check_memory(&dag).map_err(Failure::input)
}
