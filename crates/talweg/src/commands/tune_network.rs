//! The part of `talweg tune` that is about whole networks: their tasks before the search, their artefacts after it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use talweg::in_place_finals::Reports;
use talweg::lock::{Lock, Provenance};
use talweg::network::{Network, Winners};
use talweg::network_tuning::{Baseline, Settled, Settling, settle};
use talweg_artifact::check_writable;
use talweg_db::{Database, NewBest, Replace};
use talweg_graph::Task;
use talweg_target::Target;
use talweg_tuner::{Fork, StopReason, TaskSpec, TuneOptions, TuneReport};

use super::model::jobs;
use super::{Failure, check_memory, check_output};

/// The share of the budget for comparing a network's artefacts, and its bounds.
const COMPARING: f64 = 0.06;
const COMPARING_LEAST: Duration = Duration::from_secs(1);
const COMPARING_MOST: Duration = Duration::from_secs(15);
/// Runs that a comparison needs, however slow the network: two of each artefact, of three in place and four end to end.
const RUNS_LEAST: u32 = 14;
/// Artefacts that are compiled after the search: what is found, what is best in place, and variations as time permits. A
/// share of the budget is kept for them, and time for the first two at least.
const COMPILATIONS: f64 = 6.0;
const COMPILATIONS_LEAST: f64 = 2.4;
const COMPILING: f64 = 0.12;
/// The share of the budget by which the last round may come too late.
const LAST_ROUND: f64 = 0.02;
/// Bytes of an artefact that are written to a file in a second; weights of other algorithms may be larger by this factor.
const WRITING: f64 = 350e6;
const GROWTH: f64 = 1.5;

/// A network on its way through tuning.
pub struct Tuning {
    network: Network,
    /// What earlier runs have stored of its tasks.
    winners: Winners,
    /// The positions, among all tasks, of the network's own and of those of other algorithms, by their texts.
    positions: BTreeMap<String, usize>,
    /// The texts of tasks of other algorithms that do not fit into memory.
    skipped: BTreeSet<String>,
    /// Its steps, with the tasks that can do each.
    steps: Vec<Fork>,
    /// Where the artefact goes.
    output: PathBuf,
    baseline: Option<Baseline>,
}

/// When a run must end.
pub struct End {
    budget: Option<Duration>,
    started: Instant,
    stop: Arc<AtomicBool>,
}

impl End {
    /// As the options of its search say.
    pub fn of(options: &TuneOptions) -> End {
        End { budget: options.budget, started: options.started, stop: options.stop.clone() }
    }
}

/// A network after tuning.
pub struct Tuned {
    model: String,
    output: PathBuf,
    lock: PathBuf,
    settled: Settled,
}

impl Tuning {
    /// Adds a network's tasks, and those of other algorithms that may be faster, whose weight is zero because no step uses
    /// them yet; those that several networks share count for all of them.
    pub fn add(
        network: Network,
        winners: Winners,
        tasks: &mut Vec<TaskSpec>,
        target: &Target,
    ) -> Result<Tuning, Failure> {
        let (mut positions, mut skipped) = (BTreeMap::new(), BTreeSet::new());
        let own = network.program.tasks.iter().enumerate();
        let own = own.map(|(at, task)| (task.clone(), network.nodes_of(at), task.uses as f64));
        let others = network.contenders(target).into_iter().map(|(task, nodes)| (task, nodes, 0.0));
        for (task, nodes, weight) in own.chain(others) {
            if let Some(known) = tasks.iter().position(|known| known.dag == task.dag) {
                positions.insert(task.text, known);
                tasks[known].weight += weight;
                continue;
            }
            match check_memory(&task.dag) {
                Err(why) if weight == 0.0 => {
                    eprintln!("warning: a way that the network does not need is not tuned: {why}");
                    skipped.insert(task.text);
                    continue;
                }
                fits => fits.map_err(Failure::input)?,
            }
            positions.insert(task.text, tasks.len());
            let name = format!("{}:{}", task.dag.name, nodes.first().map_or("", String::as_str));
            let flops = task.dag.arithmetic();
            tasks.push(TaskSpec { name, dag: task.dag, weight, flops });
        }
        let steps = steps(&network, &positions);
        let output = PathBuf::from(format!("{}.talweg", network.program.graph.name));
        Ok(Tuning { network, winners, positions, skipped, steps, output, baseline: None })
    }
}

/// Removes ways whose tasks fail or do not fit, lest an estimate chooses them; what is chosen and the direct ways stay.
fn remove_ways(network: &mut Network, fails: &dyn Fn(&str) -> bool) {
    for fork in &mut network.program.forks {
        let taken = fork.chosen().task.text.clone();
        let mut is_direct = true;
        fork.ways
            .retain(|way| std::mem::take(&mut is_direct) || way.task.text == taken || !fails(&way.task.text));
        fork.taken = fork.ways.iter().position(|way| way.task.text == taken).unwrap_or(0);
    }
}

/// The steps of a network by the positions of the tasks that can do them, each as often as it appears. Ways whose tasks are not
/// tuned are left out.
fn steps(network: &Network, positions: &BTreeMap<String, usize>) -> Vec<Fork> {
    let mut counts: BTreeMap<Vec<Vec<usize>>, f64> = BTreeMap::new();
    for ways in network.program.ways_of_steps() {
        let place = |way: Vec<&Task>| way.iter().map(|task| positions.get(&task.text).copied()).collect();
        let known: Vec<Vec<usize>> = ways.into_iter().filter_map(place).collect();
        *counts.entry(known).or_default() += 1.0;
    }
    counts.into_iter().map(|(ways, count)| Fork { ways, count }).collect()
}

/// Names the artefacts: one file a network, or a folder for all of them; without either, files in the current folder. None
/// may be a file that is read.
pub fn name_outputs(networks: &mut [Tuning], given: &[PathBuf], read: &[PathBuf]) -> Result<(), Failure> {
    match given {
        [] => {}
        [folder] if folder.is_dir() => {
            networks.iter_mut().for_each(|network| network.output = folder.join(&network.output));
        }
        files if files.len() == networks.len() => {
            networks.iter_mut().zip(files).for_each(|(network, file)| network.output.clone_from(file));
        }
        files => {
            return Err(Failure::input(format!(
                "--output was given {} times for {} models; give it once for each .onnx file, or give a folder",
                files.len(),
                networks.len()
            )));
        }
    }
    for (at, network) in networks.iter().enumerate() {
        check_output(&network.output, read)?;
        let path = network.output.display();
        if networks[..at].iter().any(|other| other.output == network.output) {
            return Err(Failure::input(format!(
                "two models would be written to `{path}`; give --output for each"
            )));
        }
        let folder = network.output.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        if !folder.is_dir() || network.output.is_dir() {
            return Err(Failure::input(format!(
                "cannot write `{path}`: there is no such folder; make it first"
            )));
        }
        for file in [&network.output, &Lock::beside(&network.output)] {
            let refused = |e| Failure::input(format!("cannot write `{}`: {e}", file.display()));
            check_writable(file).map_err(refused)?;
        }
    }
    Ok(())
}

/// Time for comparing the artefacts of one network.
fn comparing(budget: Option<Duration>) -> Duration {
    budget.map_or(COMPARING_LEAST, |b| b.mul_f64(COMPARING).clamp(COMPARING_LEAST, COMPARING_MOST))
}

/// Compiles the networks by the default schedules, which shows how long compiling takes, and keeps time for the rest. Unless
/// tasks are to be timed alone, they find their weights where the network would: in memory if they do not fit the caches.
pub fn prepare(
    networks: &mut [Tuning],
    tasks: &[TaskSpec],
    options: &mut TuneOptions,
) -> Result<(), Failure> {
    let mut reserve = 0.0;
    options.steps = networks.iter().flat_map(|tuning| tuning.steps.clone()).collect();
    // Operators that are tuned beside networks.
    let is_alone = |at: &usize| !options.steps.iter().any(|step| step.ways.iter().flatten().any(|t| t == at));
    let (alone, together): (Vec<usize>, Vec<usize>) = (0..tasks.len()).partition(is_alone);
    options.without_finals = together.into_iter().collect();
    options.steps.extend(alone.into_iter().map(|at| Fork { ways: vec![vec![at]], count: tasks[at].weight }));
    let count = networks.len() as f64;
    for tuning in networks.iter_mut() {
        let baseline = Baseline::build(&tuning.network, &options.target, jobs()).map_err(Failure::work)?;
        let share = options.budget.map_or(f64::INFINITY, |b| b.as_secs_f64() * COMPILING / count);
        let compilations =
            (baseline.seconds * COMPILATIONS).min(share).max(baseline.seconds * COMPILATIONS_LEAST);
        let writing = baseline.artefact.weights_bytes() as f64 * GROWTH / WRITING;
        // What cannot be run is not compared.
        let run = baseline.one_run(options.threads).unwrap_or_default();
        let comparing = comparing(options.budget).max(run * RUNS_LEAST);
        reserve += compilations + comparing.as_secs_f64() + writing;
        reserve += options.budget.map_or(0.0, |b| (b.as_secs_f64() * LAST_ROUND).clamp(0.2, 2.0));
        let caches = options.target.l3.max(options.target.l2 * options.target.cores as u64);
        options.surroundings.cold_constants |=
            options.surroundings.hand_over && baseline.artefact.weights_bytes() > caches;
        tuning.baseline = Some(baseline);
    }
    let most = options.budget.map_or(f64::INFINITY, |b| b.as_secs_f64() / 2.0);
    options.reserve = Duration::from_secs_f64(reserve.min(most).min(1e6));
    Ok(())
}

/// Settles on an artefact for every network, writes it with its lock, and stores the schedules it has as the best. All of it
/// is to be done when the budget is used up, and is done soon when somebody stops it. A network that fails takes none of the
/// others with it: the last failure is returned beside them, others are said.
pub fn finish(
    networks: Vec<Tuning>,
    report: &TuneReport,
    from: &Provenance,
    end: &End,
    db: &Path,
) -> (Vec<Tuned>, Option<Failure>) {
    let compare = (report.reason != StopReason::Interrupted).then(|| comparing(end.budget));
    let (mut out, mut failures) = (Vec::new(), Vec::new());
    let mut in_place = BTreeSet::new();
    let count = networks.len() as u32;
    for (at, mut tuning) in networks.into_iter().enumerate() {
        let name = tuning.network.program.graph.name.clone();
        let winners = std::mem::take(&mut tuning.winners);
        let Some(baseline) = &tuning.baseline else { continue };
        let writing = Duration::from_secs_f64(baseline.artefact.weights_bytes() as f64 * GROWTH / WRITING);
        // Those that follow have as much time each.
        let until = end.budget.map(|budget| {
            let left = budget.saturating_sub(end.started.elapsed());
            Instant::now() + (left / (count - at as u32)).saturating_sub(writing)
        });
        let max_error = tuning.network.max_error;
        let (from, stop) = (from.clone(), end.stop.clone());
        let settling = Settling { from, winners, jobs: jobs(), compare, until, max_error, stop };
        match finish_one(tuning, report, &settling, db, &mut in_place) {
            Ok(tuned) => out.extend(tuned),
            Err(failure) => failures.push(failure.of(&name)),
        }
    }
    let last = failures.pop();
    failures.iter().for_each(|failure| eprintln!("error: {failure}"));
    (out, last)
}

/// Settles on an artefact for one network, and keeps it. `in_place` are the tasks that have run in this network or an earlier
/// one, which says more than what another is guessed to take.
fn finish_one(
    tuning: Tuning,
    report: &TuneReport,
    settling: &Settling,
    db: &Path,
    in_place: &mut BTreeSet<String>,
) -> Result<Option<Tuned>, Failure> {
    let Tuning { mut network, positions, skipped, output, baseline, .. } = tuning;
    let Some(baseline) = baseline else { return Ok(None) };
    let known = |(text, at): (&String, &usize)| Some((text.clone(), report.of(*at)?));
    let reports: Reports<'_> = positions.iter().filter_map(known).collect();
    let is_left_out = |text: &str| positions.get(text).is_some_and(|at| report.left_out.contains(at));
    let fails = |text: &str| skipped.contains(text) || is_left_out(text);
    remove_ways(&mut network, &fails);
    let model = network.program.graph.name.clone();
    let settled = settle(network, baseline, &reports, settling).map_err(Failure::work)?;
    if let Some(why) = &settled.not_compared {
        eprintln!(
            "warning: {model}: what the search found was not compared with the default, for that fails: {why}"
        );
    }
    // One that fails does not keep the other from being tried.
    let bests = settled.bests.iter().filter(|one| one.is_measured || !in_place.contains(&one.task));
    let stored = store(&bests.map(|one| one.best).collect::<Vec<_>>(), db);
    in_place.extend(settled.bests.iter().filter(|one| one.is_measured).map(|one| one.task.clone()));
    settled.artefact.write(&output).map_err(Failure::input)?;
    let lock = Lock::beside(&output);
    settled.lock.write(&lock).map_err(Failure::input)?;
    stored.map(|()| Some(Tuned { model, output, lock, settled }))
}

/// Stores what is best from now on.
fn store(bests: &[NewBest], db: &Path) -> Result<(), Failure> {
    if bests.is_empty() {
        return Ok(());
    }
    let mut db = Database::open_existing(db).map_err(Failure::input)?;
    bests.iter().try_for_each(|best| db.store_best(best, Replace::Always).map(drop)).map_err(Failure::work)
}

impl Tuned {
    /// For `--json`.
    pub fn object(&self) -> Value {
        let Settled { kept_default, on_one_thread, default_won, comparison, .. } = &self.settled;
        let mut object = json!({
            "model": self.model, "output": self.output, "lock": self.lock, "kept_default": kept_default,
            "on_one_thread": on_one_thread, "default_won": default_won, "compared": self.settled.compared,
        });
        if let Some(why) = &self.settled.not_compared {
            object["not_compared"] = json!(why);
        }
        if let Some(c) = comparison {
            object["default_ms"] = json!(c.default.median * 1e3);
            object["default_min_ms"] = json!(c.default.min * 1e3);
            object["tuned_ms"] = json!(c.tuned.median * 1e3);
            object["tuned_min_ms"] = json!(c.tuned.min * 1e3);
            object["tasks_alone_ms"] = json!(c.alone * 1e3);
            object["tasks_in_place_ms"] = json!(c.in_place.total() * 1e3);
            object["explanation"] = json!(c.explanation);
        }
        object
    }

    /// For people.
    pub fn readable(&self) -> String {
        let Settled { kept_default, on_one_thread, default_won, comparison, .. } = &self.settled;
        let mut out = format!("{}\n", self.model);
        if let Some(c) = comparison {
            let ms = |seconds: f64| seconds * 1e3;
            out += &format!(
                "  network  {:.3} ms (fastest {:.3}); by the default schedules {:.3} ms (fastest {:.3}): {:.2}x, in turns; {} \
                 artefacts were compared\n",
                ms(c.tuned.median),
                ms(c.tuned.min),
                ms(c.default.median),
                ms(c.default.min),
                c.default.median / c.tuned.median,
                self.settled.compared
            );
            if *default_won {
                out += "           the default artefact is the faster one and was kept\n";
            }
            match &c.explanation {
                Some(text) => out += &format!("  tasks    {text}\n"),
                None => out += &format!("  tasks    {:.3} ms alone, in sum\n", ms(c.alone)),
            }
        }
        if !kept_default.is_empty() {
            out += &format!("  default  kept where it is faster in place: {}\n", kept_default.join(", "));
        }
        if *on_one_thread > 0 {
            out +=
                &format!("  threads  {on_one_thread} kernels run on one thread, which is faster in place\n");
        }
        out += &format!("  written  {}, {}\n", self.output.display(), self.lock.display());
        out
    }
}

#[cfg(test)]
mod tests {
    use talweg_graph::testing::Builder;
    use talweg_graph::{PartitionOptions, partition};
    use talweg_tensor::Op;

    use super::*;

    #[test]
    fn ways_that_fail_are_removed_unless_they_are_direct_or_chosen() {
        let mut b = Builder::new("product");
        let x = b.input(&[128, 64]);
        let w = b.weights(&[64, 96], 1);
        let y = b.op(Op::MatMul, &[x, w]);
        let graph = b.finish(&[y]);
        let program = partition(graph.clone(), &PartitionOptions::default()).expect("legal");
        let network = Network { imported: graph, program, max_error: 1e-4 };
        let left = |taken: usize, fails: usize| {
            let mut network = network.clone();
            network.program.choose(&|_| taken);
            let text = network.program.forks[0].ways[fails].task.text.clone();
            remove_ways(&mut network, &|task| task == text);
            let fork = &network.program.forks[0];
            (fork.ways.len(), fork.taken)
        };
        assert_eq!([left(0, 1), left(1, 1), left(1, 0)], [(1, 0), (2, 1), (2, 1)]);
    }
}
