//! What follows the search when a network is tuned: its fastest candidates compared in place, as whole artefacts, with each
//! other and with the default; the best of them, and its lock.
//!
//! Kernels are timed alone in a search, each in a moment of its own. In a network they find other caches, and the fastest
//! of thousands of moments need not be the fastest kernel. So the finals of a network's tasks are runs of the network:
//! several artefacts, each with another candidate for every task or other algorithms, run in turns, and the kernel that
//! is fastest in its place is taken, task by task ([`in_place_finals`](crate::in_place_finals)). What that comes to is raced
//! against what the search found and the default, since what is faster kernel by kernel need not be so as a whole.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use talweg_artifact::{Artefact, BuildError};
use talweg_db::NewBest;
use talweg_graph::Task;
use talweg_runtime::model::{Model, ModelError, RunError, Session, SessionOptions};
use talweg_target::{Target, available_memory};

use crate::allowance::{Allowance, LEAST_RUNS};
use crate::in_place::{InPlace, Latency, profile, race};
use crate::in_place_finals::{Measured, Pick, Proposal, Reports, candidates};
use crate::inputs;
use crate::lock::{Lock, Provenance};
use crate::network::{Network, Winners};

/// Sums of task times and end-to-end times that differ by more than this share are explained.
const WORTH_EXPLAINING: f64 = 0.1;
/// Artefacts with other candidates or algorithms, beside what the search found, at most.
const VARIATIONS: usize = 4;
/// Sessions that are compared end to end, at most: the default, what was found, what is best in place, and that with kernels on
/// one thread.
const RACERS: usize = 4;
/// Their share of the memory that is free.
const MEMORY: f64 = 0.4;

/// Why a tuned network has no artefact.
#[derive(Debug, thiserror::Error)]
pub enum SettleError {
    /// Compiling fails.
    #[error("{0}")]
    Build(#[from] BuildError),
    /// What was compiled cannot be loaded.
    #[error("{0}")]
    Load(#[from] ModelError),
    /// What was compiled cannot be run.
    #[error("{0}")]
    Run(#[from] RunError),
    /// The artefact does not fit into memory.
    #[error("the artefact of `{model}`: {source}")]
    Memory {
        /// The model.
        model: String,
        /// What the system said.
        source: std::io::Error,
    },
}

/// A network compiled by the default schedules: what tuning is compared with, and how long compiling takes.
pub struct Baseline {
    /// The artefact, which is the result if nothing is better.
    pub artefact: Artefact,
    /// The same, loaded.
    pub model: Arc<Model>,
    /// How long compiling and loading took.
    pub seconds: f64,
}

impl Baseline {
    /// Compiles a network by the default schedules.
    pub fn build(network: &Network, target: &Target, jobs: usize) -> Result<Baseline, SettleError> {
        let begin = Instant::now();
        let artefact = network.compile_as(target, &[], None, jobs)?;
        let model = load(&artefact)?;
        Ok(Baseline { artefact, model, seconds: begin.elapsed().as_secs_f64() })
    }

    /// How long a run takes, the first of a session.
    pub fn one_run(&self, threads: usize) -> Result<Duration, RunError> {
        one_run(&mut session(&self.model, threads)?)
    }
}

/// Loads an artefact that is not a file yet.
pub(crate) fn load(artefact: &Artefact) -> Result<Arc<Model>, SettleError> {
    let model = artefact.manifest.model.clone();
    let bytes = artefact.to_bytes().map_err(|source| SettleError::Memory { model, source })?;
    Ok(Arc::new(Model::from_bytes(&bytes)?))
}

/// How to settle on an artefact.
#[derive(Clone, Debug)]
pub struct Settling {
    /// Who found the schedules, and for what.
    pub from: Provenance,
    /// What earlier runs have stored: the schedules of tasks that this run did not come to.
    pub winners: Winners,
    /// Threads that compile.
    pub jobs: usize,
    /// Time for the comparisons in place and end to end; `None` leaves them out, because somebody waits.
    pub compare: Option<Duration>,
    /// When all of it must be done; as many artefacts are compared as can be compiled by then.
    pub until: Option<Instant>,
    /// The error of a single operator that an algorithm may have.
    pub max_error: f64,
    /// Ends the comparisons, without a result of theirs, once it is set.
    pub stop: Arc<AtomicBool>,
}

impl Settling {
    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Time for one of the comparisons, after which something else takes so long.
    fn allow(&self, time: Duration, then: Duration) -> Allowance<'_> {
        let until = self.until.map(|until| until.checked_sub(then).unwrap_or(until));
        Allowance { time, until, stop: Some(&self.stop) }
    }
}

/// The comparison of two artefacts, end to end and in place.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// The default artefact, end to end.
    pub default: Latency,
    /// The artefact that was settled on, in turns with it.
    pub tuned: Latency,
    /// The tasks alone, as they were measured in the search, each as often as it runs.
    pub alone: f64,
    /// The same tasks in place.
    pub in_place: InPlace,
    /// Why the sum of the tasks differs from the end-to-end time, if it does by much.
    pub explanation: Option<String>,
}

/// A task's schedule to be stored as the best.
#[derive(Clone, Debug, PartialEq)]
pub struct Best {
    /// The task's text.
    pub task: String,
    /// Whether it ran in place; otherwise it says how fast an algorithm would be that lost.
    pub is_measured: bool,
    /// Its record and times.
    pub best: NewBest,
}

/// What was settled on.
pub struct Settled {
    /// The artefact.
    pub artefact: Artefact,
    /// Its lock.
    pub lock: Lock,
    /// Tasks whose default schedule is faster in place than what the search found.
    pub kept_default: Vec<String>,
    /// How many kernels run on one thread although there are more.
    pub on_one_thread: usize,
    /// Whether the default artefact as a whole was kept.
    pub default_won: bool,
    /// The comparison, unless it was left out.
    pub comparison: Option<Comparison>,
    /// Why there is none, if it was tried.
    pub not_compared: Option<String>,
    /// The schedules to be stored.
    pub bests: Vec<Best>,
    /// How many artefacts were compared, the default among them.
    pub compared: usize,
}

/// An artefact that takes part.
struct Entrant {
    proposal: Proposal,
    /// The tasks of its kernels, with how often each runs.
    tasks: Vec<(String, f64)>,
    artefact: Artefact,
    model: Arc<Model>,
    /// Threads of each kernel by the usual rule.
    rule: Vec<Option<usize>>,
}

impl Entrant {
    /// Compiles a network as proposed.
    fn build(
        network: &mut Network,
        proposal: Proposal,
        reports: &Reports<'_>,
        settling: &Settling,
    ) -> Result<Entrant, SettleError> {
        let choices = proposal.apply(network, reports, &settling.winners);
        let artefact = network.compile_as(&settling.from.target, &choices, None, settling.jobs)?;
        let tasks = network.program.tasks.iter().map(|t| (t.text.clone(), t.uses as f64)).collect();
        let rule = artefact.manifest.kernels.iter().map(|k| k.threads).collect();
        let model = load(&artefact)?;
        Ok(Entrant { proposal, tasks, artefact, model, rule })
    }

    /// Bytes of the artefact, and of the same loaded with its memory.
    fn bytes(&self) -> f64 {
        2.0 * self.artefact.weights_bytes() as f64 + self.model.manifest().arena_bytes as f64
    }

    /// Threads of each kernel, where some run on one.
    fn limits(&self, serial: &BTreeSet<String>) -> Vec<Option<usize>> {
        let limit = |(at, (text, _)): (usize, &(String, f64))| match serial.contains(text) {
            true => Some(1),
            false => self.rule.get(at).copied().flatten(),
        };
        self.tasks.iter().enumerate().map(limit).collect()
    }
}

/// Compares what a search found for a network in place and as a whole, and keeps the fastest end to end, the default among
/// them. `reports` has what is known of the network's tasks, those of other algorithms included, by their texts. What the
/// search found is the result when nobody has time for comparisons, or one of them fails.
pub fn settle(
    mut network: Network,
    baseline: Baseline,
    reports: &Reports<'_>,
    settling: &Settling,
) -> Result<Settled, SettleError> {
    let default = Proposal { ways: Proposal::ways_of(&network), ..Proposal::default() };
    let default_tasks: Vec<(String, f64)> =
        network.program.tasks.iter().map(|t| (t.text.clone(), t.uses as f64)).collect();
    let winners = &settling.winners;
    let found = Proposal::found(&network, reports, winners, &settling.from.target, settling.max_error);
    let begin = Instant::now();
    let mut entrants = vec![Entrant::build(&mut network, found, reports, settling)?];
    let each = begin.elapsed();
    let mut not_compared = None;
    if let Some(budget) = settling.compare {
        let default = (default, default_tasks);
        let time = (budget, each);
        match compare(&mut network, baseline, default, &mut entrants, reports, settling, time) {
            Ok(Some(settled)) => return Ok(settled),
            Ok(None) => {}
            Err(error) => not_compared = Some(error.to_string()),
        }
    }
    Ok(Settled { not_compared, ..as_found(network, entrants.swap_remove(0), reports, settling) })
}

/// What the search found, without comparisons.
fn as_found(mut network: Network, found: Entrant, reports: &Reports<'_>, settling: &Settling) -> Settled {
    let choices = found.proposal.apply(&mut network, reports, &settling.winners);
    Settled {
        lock: Lock::new(&network, &choices, &found.rule, &settling.from),
        on_one_thread: count_limited(&found.rule, settling.from.threads),
        artefact: found.artefact,
        kept_default: Vec::new(),
        default_won: false,
        comparison: None,
        not_compared: None,
        bests: Vec::new(),
        compared: 1,
    }
}

/// Compares what was found, which is the only entrant so far and stays the first, with variations of it and with the default. `each`
/// is what compiling one takes. `None` when somebody waits for the end.
fn compare(
    network: &mut Network,
    baseline: Baseline,
    (default, default_tasks): (Proposal, Vec<(String, f64)>),
    entrants: &mut Vec<Entrant>,
    reports: &Reports<'_>,
    settling: &Settling,
    (budget, each): (Duration, Duration),
) -> Result<Option<Settled>, SettleError> {
    let threads = settling.from.threads;
    let found = entrants[0].proposal.clone();
    let known: BTreeSet<String> = default_tasks.iter().map(|(text, _)| text.clone()).collect();
    let variations = found.variations(network, reports, &known, settling.max_error, VARIATIONS);
    let mut default_session = session(&baseline.model, threads)?;
    let run = one_run(&mut default_session)?;
    let room = Room { each, budget, run, settling, bytes: entrants[0].bytes() };
    for variation in variations {
        if !room.has_one_more(entrants.len()) {
            break;
        }
        entrants.push(Entrant::build(network, variation, reports, settling)?);
    }
    let compared = entrants.len() + 1;
    let half = budget / 2;
    let in_place = settling.allow(half, each + half);
    let measured = measure(&mut default_session, (&default, &default_tasks), entrants, threads, in_place)?;
    if settling.is_stopped() {
        return Ok(None);
    }
    let best = measured.best(&found, network);
    let serial = measured.serial(&best);
    let composed = match entrants.iter().position(|entrant| entrant.proposal == best) {
        Some(at) => at,
        None => {
            // The others have done their part, and their memory may be needed.
            entrants.truncate(1);
            entrants.push(Entrant::build(network, best, reports, settling)?);
            1
        }
    };
    // What was found, what is best in place, and the same with kernels on one thread.
    let mut racers: Vec<(usize, Vec<Option<usize>>)> = Vec::new();
    for (at, serial) in [(0, &BTreeSet::new()), (composed, &BTreeSet::new()), (composed, &serial)] {
        let racer = (at, entrants[at].limits(serial));
        if !racers.contains(&racer) {
            racers.push(racer);
        }
    }
    let mut sessions = vec![default_session];
    for (at, limits) in &racers {
        sessions.push(limited(&entrants[*at].model, limits, threads)?);
    }
    let raced = race(&mut sessions.iter_mut().collect::<Vec<_>>(), settling.allow(half, Duration::ZERO))?;
    drop(sessions);
    if settling.is_stopped() {
        return Ok(None);
    }
    let winner =
        (1..=racers.len()).fold(0, |best, at| if raced.ahead[at] > raced.ahead[best] { at } else { best });
    let (mut artefact, proposal, limits) = match winner.checked_sub(1) {
        Some(at) => {
            let (entrant, limits) = racers.swap_remove(at);
            let Entrant { artefact, proposal, .. } = entrants.swap_remove(entrant);
            (artefact, proposal, limits)
        }
        None => {
            let limits = baseline.artefact.manifest.kernels.iter().map(|k| k.threads).collect();
            (baseline.artefact, default, limits)
        }
    };
    for (kernel, limit) in artefact.manifest.kernels.iter_mut().zip(&limits) {
        kernel.threads = *limit;
    }
    let choices = proposal.apply(network, reports, &settling.winners);
    let tasks = &network.program.tasks;
    let pick = |task: &Task| proposal.picks.get(&task.text).copied().unwrap_or_default();
    let (default, tuned, default_won) = (raced.latencies[0], raced.latencies[winner], winner == 0);
    let in_place = measured.of(tasks, &pick, &limits);
    let alone: f64 = tasks.iter().filter_map(|task| alone(reports, task, pick(task))).sum();
    let explanation = explain(tasks, reports, &pick, &in_place, alone, tuned.quartile);
    let is_put_back =
        |task: &&Task| !default_won && pick(task) == Pick::Default && found.picks.contains_key(&task.text);
    let name = |task: &Task| reports.get(&task.text).map(|report| report.name.clone());
    let slower = if alone > 0.0 { (in_place.typical.iter().sum::<f64>() / alone).max(1.0) } else { 1.0 };
    let others = network.program.alternatives();
    // What the other algorithms have in hand: the default network knows nothing of theirs.
    let other_pick = |task: &Task| match default_won {
        true => found.picks.get(&task.text).copied().unwrap_or_default(),
        false => pick(task),
    };
    let own = tasks.iter().map(|task| (task, pick(task)));
    let all = own.chain(others.iter().map(|task| (task, other_pick(task))));
    let store = |(task, pick): (&Task, Pick)| {
        let best = measured.to_store(task, pick, reports, slower)?;
        Some(Best { task: task.text.clone(), is_measured: measured.has(&task.text, pick), best })
    };
    Ok(Some(Settled {
        lock: Lock::new(network, &choices, &limits, &settling.from),
        artefact,
        kept_default: tasks.iter().filter(is_put_back).filter_map(name).collect(),
        on_one_thread: count_limited(&limits, threads),
        default_won,
        comparison: Some(Comparison { default, tuned, alone, in_place, explanation }),
        not_compared: None,
        bests: all.filter_map(store).collect(),
        compared,
    }))
}

/// What there is for artefacts that are compared.
struct Room<'a> {
    /// What one takes to compile.
    each: Duration,
    /// Time for the comparison.
    budget: Duration,
    /// What a run takes.
    run: Duration,
    /// When all must be done, and whether somebody waits.
    settling: &'a Settling,
    /// What one takes in memory.
    bytes: f64,
}

impl Room<'_> {
    /// How long comparing so many takes: in place, where the default and what was found on one thread take part as well, and end
    /// to end. The runs of slow networks may need more than the time that is given.
    fn comparing(&self, entrants: usize) -> Duration {
        let of = |sessions: usize| (self.run * (LEAST_RUNS * sessions) as u32).max(self.budget / 2);
        of(entrants + 2) + of(RACERS)
    }

    /// Whether one more may be compiled beside so many. Another one follows, of what comes out.
    fn has_one_more(&self, entrants: usize) -> bool {
        let needed = self.each * 2 + self.comparing(entrants + 1);
        let in_time = self.settling.until.is_none_or(|until| Instant::now() + needed <= until);
        let bytes = self.bytes * (entrants + 2) as f64;
        !self.settling.is_stopped() && in_time && available_memory().is_none_or(|free| bytes <= MEMORY * free)
    }
}

/// How long a run of a session takes.
fn one_run(session: &mut Session) -> Result<Duration, RunError> {
    let begin = Instant::now();
    session.execute()?;
    Ok(begin.elapsed())
}

/// What runs in place, with the threads of its kernels: every entrant as it would be shipped, then what was found with every
/// kernel on one thread, where that is something else.
fn who_runs(entrants: &[Entrant], threads: usize) -> Vec<(&Entrant, Vec<Option<usize>>)> {
    let serial = |found: &Entrant| vec![Some(1); found.tasks.len()];
    let alone = entrants.first().filter(|found| threads > 1 && found.rule != serial(found));
    let all = entrants.iter().map(|entrant| (entrant, entrant.rule.clone()));
    all.chain(alone.map(|found| (found, serial(found)))).collect()
}

/// Runs the default and the entrants in turns, and what was found, which is the first, also with every kernel on one thread.
fn measure(
    default: &mut Session,
    (proposal, tasks): (&Proposal, &[(String, f64)]),
    entrants: &[Entrant],
    threads: usize,
    budget: Allowance<'_>,
) -> Result<Measured, SettleError> {
    let mut sessions = Vec::new();
    for (entrant, limits) in who_runs(entrants, threads) {
        sessions.push(limited(&entrant.model, &limits, threads)?);
    }
    let all = std::iter::once(default).chain(&mut sessions);
    let mut times = profile(&mut all.collect::<Vec<_>>(), budget)?.into_iter();
    let mut measured = Measured::default();
    if let Some(own) = times.next() {
        measured.add(proposal, tasks, &own);
    }
    for (entrant, own) in entrants.iter().zip(&mut times) {
        measured.add(&entrant.proposal, &entrant.tasks, &own);
    }
    if let (Some(found), Some(own)) = (entrants.first(), times.next()) {
        measured.add_serial(&found.proposal, &found.tasks, &own);
    }
    Ok(measured)
}

fn count_limited(limits: &[Option<usize>], threads: usize) -> usize {
    limits.iter().filter(|limit| threads > 1 && **limit == Some(1)).count()
}

/// A session whose inputs hold small random numbers.
pub(crate) fn session(model: &Arc<Model>, threads: usize) -> Result<Session, RunError> {
    let mut session = Session::new(model.clone(), &SessionOptions { threads, pin: false })?;
    for (at, input) in inputs::of_manifest(model.manifest()).iter().enumerate() {
        session.input_mut(at).copy_from_slice(input.bytes());
    }
    Ok(session)
}

/// A session whose kernels use so many threads; all of them where there is no limit.
fn limited(model: &Arc<Model>, limits: &[Option<usize>], threads: usize) -> Result<Session, RunError> {
    let mut session = session(model, threads)?;
    session.limit_threads(&limits.iter().map(|limit| limit.unwrap_or(threads)).collect::<Vec<_>>());
    Ok(session)
}

/// Seconds of all uses of a task alone.
fn alone(reports: &Reports<'_>, task: &Task, pick: Pick) -> Option<f64> {
    let report = reports.get(&task.text)?;
    let seconds = match pick {
        Pick::Default => report.default_seconds,
        Pick::Found(at) => candidates(report).get(at).map_or(report.best_seconds, |c| c.seconds),
        Pick::Stored => return None,
    };
    Some(task.uses as f64 * seconds)
}

/// Why a network takes another time than its tasks alone: one line, `None` when they agree. All times are those with
/// little disturbance.
fn explain(
    tasks: &[Task],
    reports: &Reports<'_>,
    pick: &dyn Fn(&Task) -> Pick,
    in_place: &InPlace,
    sum: f64,
    end: f64,
) -> Option<String> {
    if (end - sum).abs() <= WORTH_EXPLAINING * sum {
        return None;
    }
    let mut farther: Vec<(f64, &str)> = Vec::new();
    for (task, own) in tasks.iter().zip(&in_place.kernels) {
        let report = reports.get(&task.text)?;
        farther.push((own - alone(reports, task, pick(task))?, report.name.as_str()));
    }
    farther.sort_by(|a, b| b.0.abs().total_cmp(&a.0.abs()));
    let kernels: f64 = farther.iter().map(|(seconds, _)| seconds).sum();
    let ms = |seconds: f64| format!("{:+.3} ms", seconds * 1e3);
    let mut text = format!(
        "the network takes {:.3} ms, its tasks alone {:.3} ms: {} in kernels, which find weights cold and inputs in \
         another core's cache",
        end * 1e3,
        sum * 1e3,
        ms(kernels)
    );
    let most: Vec<String> =
        farther.iter().take(3).map(|(seconds, name)| format!("{name} {}", ms(*seconds))).collect();
    let _ = write!(text, " (most: {})", most.join(", "));
    if in_place.plain > 0.0 {
        let _ = write!(text, ", {} in steps without a kernel", ms(in_place.plain));
    }
    let _ = write!(text, ", {} in handing over between steps and by chance", ms(end - in_place.total()));
    Some(text)
}

#[cfg(test)]
mod tests {
    use talweg_graph::testing::Builder;
    use talweg_graph::{Graph, PartitionOptions, partition};
    use talweg_tensor::op::Binary;
    use talweg_tensor::{ElementType, Op, Tensor, TensorType};

    use super::*;

    /// A product with constant weights.
    fn product() -> Graph {
        let mut b = Builder::new("product");
        let x = b.input(&[8, 16]);
        let w = b.weights(&[16, 24], 1);
        let y = b.op(Op::MatMul, &[x, w]);
        b.finish(&[y])
    }

    /// A short product and a long one.
    fn unlike() -> Graph {
        let mut b = Builder::new("unlike");
        let (x, wide) = (b.input(&[8, 16]), b.input(&[512, 256]));
        let (w, v) = (b.weights(&[16, 24], 1), b.weights(&[256, 512], 2));
        let (y, z) = (b.op(Op::MatMul, &[x, w]), b.op(Op::MatMul, &[wide, v]));
        b.finish(&[y, z])
    }

    fn network(graph: Graph) -> Network {
        let program = partition(graph.clone(), &PartitionOptions::default()).expect("legal");
        Network { imported: graph, program, max_error: 0.0 }
    }

    fn settling() -> Settling {
        let target = Target::host();
        Settling {
            winners: Winners::default(),
            from: Provenance { target, threads: 1, seed: 0, strategy: "random".into() },
            jobs: 1,
            compare: Some(Duration::ZERO),
            until: None,
            max_error: 0.0,
            stop: Arc::default(),
        }
    }

    /// What is settled on when a search found nothing for a graph.
    fn settled(graph: Graph, settling: &Settling) -> Settled {
        let network = network(graph);
        let baseline = Baseline::build(&network, &settling.from.target, 1).expect("an artefact");
        settle(network, baseline, &Reports::new(), settling).expect("an artefact")
    }

    #[test]
    fn whoever_waits_gets_what_was_found_without_comparisons() {
        let settling = settling();
        let compared = settled(product(), &settling);
        assert!(compared.comparison.is_some() && compared.compared == 2);
        settling.stop.store(true, Ordering::Relaxed);
        let found = settled(product(), &settling);
        assert!(found.comparison.is_none() && found.compared == 1);
        assert_eq!(found.artefact.manifest.kernels.len(), 1);
    }

    /// Rows of a table with one row, by integers that something is added to.
    fn rows(add: i64) -> Graph {
        let mut b = Builder::new("rows");
        let ids = b.graph.add_input("ids", TensorType::new(ElementType::I64, [64]));
        let add = b.graph.add_constant("add", Tensor::new([], vec![add]));
        let ids = b.op(Op::Binary(Binary::Add), &[ids, add]);
        let (table, w) = (b.weights(&[1, 16], 1), b.weights(&[16, 24], 2));
        let row = b.op(Op::Gather { axis: 0 }, &[table, ids]);
        let y = b.op(Op::MatMul, &[row, w]);
        b.finish(&[y])
    }

    #[test]
    fn a_comparison_that_fails_leaves_what_was_found() {
        let compared = settled(rows(0), &settling());
        assert!(compared.comparison.is_some() && compared.not_compared.is_none());
        let found = settled(rows(1), &settling());
        assert!(found.comparison.is_none() && found.artefact.manifest.kernels.len() == 2);
        assert!(found.not_compared.is_some_and(|why| why.contains("n1")));
    }

    #[test]
    fn kernels_run_in_place_on_the_threads_they_ship_with() {
        let limits = |graph: Graph, threads: usize| {
            let (mut network, settling) = (network(graph), settling());
            let entrant = Entrant::build(&mut network, Proposal::default(), &Reports::new(), &settling);
            let entrants = [entrant.expect("an artefact")];
            who_runs(&entrants, threads).into_iter().map(|(_, limits)| limits).collect::<Vec<_>>()
        };
        // One is short, the other is not.
        let (few, all, serial) = (Some(1), None, [Some(1); 2].to_vec());
        assert_eq!(limits(unlike(), 2), [vec![few, all], serial]);
        assert_eq!(limits(unlike(), 1), [vec![few, all]]);
        assert_eq!(limits(product(), 2), [vec![few]], "it runs on one thread anyway");
    }

    #[test]
    fn runs_of_slow_networks_count() {
        let second = Duration::from_secs(1);
        let has_one_more = |run: Duration, left: Duration| {
            let until = Instant::now().checked_add(left);
            let settling = Settling { until, ..settling() };
            Room { each: second, budget: second * 4, run, settling: &settling, bytes: 0.0 }.has_one_more(1)
        };
        assert!(has_one_more(second / 1000, second * 60));
        assert!(!has_one_more(second, second * 40), "four in place and four end to end, six runs each");
        assert!(has_one_more(second, second * 60));
        assert!(!has_one_more(second / 1000, second * 5), "compiling two, and the time for comparing");
    }

    #[test]
    fn limits_count_only_where_there_are_threads() {
        assert_eq!(count_limited(&[Some(1), None, Some(2)], 2), 1);
        assert_eq!(count_limited(&[Some(1), None], 1), 0);
    }
}
