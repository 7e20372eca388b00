//! The finals of a network's tasks, as plain data: which artefacts to compare, and what to take of each.
//!
//! A [`Proposal`] is a way to build a network: an algorithm for every fork, a schedule for every task. What a search found is
//! one; its variations have other candidates for all tasks at once, or the second-best algorithms. [`Measured`] knows what
//! every task took in place by each schedule that some artefact had, and composes the best.

use std::collections::{BTreeMap, BTreeSet};

use talweg_artifact::Choice;
use talweg_db::{NewBest, RecordId};
use talweg_graph::{Fork, Task};
use talweg_schedule::Trace;
use talweg_target::Target;
use talweg_tuner::{Contender, TaskReport};

use crate::algorithms;
use crate::in_place::InPlace;
use crate::network::{Network, Winners};

/// One thread is kept for a task when it is faster in place than all of them by this share.
const ONE_THREAD_WINS: f64 = 0.03;
/// What was found for a task is replaced when another is faster in place by this share.
const WORTH_CHANGING: f64 = 0.003;
/// Candidates and algorithms that were behind by more than this share in the search are not compared.
const NEAR: f64 = 0.1;

/// What is known of the tasks of a network and of its other algorithms, by their texts.
pub type Reports<'a> = BTreeMap<String, &'a TaskReport>;

/// The schedule of a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Pick {
    /// The analytic default.
    #[default]
    Default,
    /// One of the [`candidates`].
    Found(usize),
    /// What earlier runs have stored, for a task that this run has not begun.
    Stored,
}

/// A schedule that a search found.
pub(crate) struct Found<'a> {
    /// Its record, where it is of this run.
    pub record: Option<RecordId>,
    pub trace: &'a str,
    /// Its seconds in the search.
    pub seconds: f64,
}

/// The schedules worth comparing: the winner of the search, unless that is the default, what earlier runs have stored, the
/// fastest of those whose threads share something else, what was the best earlier (chosen among fewer moments, so less by
/// chance), and then the others.
pub(crate) fn candidates(report: &TaskReport) -> Vec<Found<'_>> {
    let of = |trace: &str| report.contenders.iter().find(|c| c.trace == trace).map(|c| c.record);
    let mut out = Vec::new();
    if !report.default_won {
        let trace = report.trace.as_str();
        out.push(Found { record: of(trace), trace, seconds: report.best_seconds });
    }
    let others = || report.contenders.iter().filter(|c| c.trace != report.trace);
    let winner = report.contenders.iter().find(|c| c.trace == report.trace).map(|c| c.shares.as_str());
    let proven = report.proven.iter();
    let mut known: BTreeSet<&str> =
        winner.into_iter().chain(proven.clone().map(|c| c.shares.as_str())).collect();
    let (first, rest): (Vec<&Contender>, Vec<&Contender>) =
        others().partition(|c| known.insert(c.shares.as_str()));
    let first = proven.chain(first).chain(&report.earlier);
    for other in first.chain(rest) {
        if out.iter().any(|known| known.trace == other.trace) {
            continue;
        }
        out.push(Found { record: Some(other.record), trace: &other.trace, seconds: other.seconds });
    }
    out
}

/// A way to build a network.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Proposal {
    /// The way that each fork takes, by the fork's step.
    pub ways: BTreeMap<usize, usize>,
    /// The schedules of tasks by their texts; of others the default.
    pub picks: BTreeMap<String, Pick>,
}

impl Proposal {
    /// The ways that a network takes.
    pub fn ways_of(network: &Network) -> BTreeMap<usize, usize> {
        network.program.forks.iter().map(|fork| (fork.step, fork.taken)).collect()
    }

    /// What the search found: the fastest schedules, and the algorithms that are fastest with them. Tasks that it has not begun
    /// keep what earlier runs have stored, and steps whose algorithm has such a task keep their algorithm.
    pub fn found(
        network: &Network,
        reports: &Reports<'_>,
        winners: &Winners,
        target: &Target,
        max_error: f64,
    ) -> Proposal {
        let program = &network.program;
        let own = |task: &Task| reports.get(&task.text).map(|report| report.best_seconds);
        let seconds = |task: &Task| own(task).or_else(|| winners.seconds(task));
        let way = |fork: &Fork| {
            let is_begun = tasks_of(fork, fork.taken).into_iter().all(|task| own(task).is_some());
            let way = if is_begun { algorithms::pick(fork, target, max_error, &seconds) } else { fork.taken };
            (fork.step, way)
        };
        let others = program.alternatives();
        let stored = program.tasks.iter().chain(&others);
        let stored = stored.filter(|task| own(task).is_none() && winners.seconds(task).is_some());
        let stored = stored.map(|task| (task.text.clone(), Pick::Stored));
        let found = reports.iter().filter(|(_, report)| !report.default_won);
        let found = found.map(|(text, _)| (text.clone(), Pick::Found(0)));
        Proposal { ways: program.forks.iter().map(way).collect(), picks: found.chain(stored).collect() }
    }

    /// Others to compare with what was found, at most so many: one with the second-best algorithms where they are near, then
    /// some with the next candidates of every task. What earlier runs have stored comes before all of them, however it was
    /// timed alone. `known` are tasks whose default is compared anyway.
    pub fn variations(
        &self,
        network: &Network,
        reports: &Reports<'_>,
        known: &BTreeSet<String>,
        max_error: f64,
        most: usize,
    ) -> Vec<Proposal> {
        let mut out = Vec::new();
        let seconds = |task: &Task| reports.get(&task.text).map_or(f64::INFINITY, |r| r.best_seconds);
        let mut ways = self.ways.clone();
        for fork in &network.program.forks {
            let taken = self.ways.get(&fork.step).copied().unwrap_or(0);
            let time = |at: usize| tasks_of(fork, at).into_iter().map(seconds).sum::<f64>();
            let accepted = |at: &usize| fork.ways[*at].algorithm.expected_error() <= max_error;
            let others = (0..fork.ways.len()).filter(|at| *at != taken).filter(accepted);
            let near = others.map(|at| (time(at), at)).filter(|(t, _)| *t <= time(taken) * (1.0 + NEAR));
            if let Some((_, at)) = near.min_by(|a, b| a.0.total_cmp(&b.0)) {
                ways.insert(fork.step, at);
            }
        }
        // What each task has to offer beyond what was found.
        let mut more: BTreeMap<&String, Vec<Pick>> = BTreeMap::new();
        for (text, report) in reports {
            let all = candidates(report);
            let is_proven = |at: usize| report.proven.as_ref().is_some_and(|c| c.trace == all[at].trace);
            let is_near = |at: usize| all[at].seconds <= report.best_seconds * (1.0 + NEAR);
            let near = |at: &usize| is_proven(*at) || is_near(*at);
            let from = usize::from(!report.default_won);
            let mut picks: Vec<Pick> = (from..all.len()).filter(near).map(Pick::Found).collect();
            if !report.default_won && !known.contains(text) {
                picks.insert(picks.len().min(1), Pick::Default);
            }
            more.insert(text, picks);
        }
        for at in 0..most {
            let mut variation = self.clone();
            for (text, picks) in &more {
                if let Some(pick) = picks.get(at) {
                    variation.picks.insert((*text).clone(), *pick);
                }
            }
            if variation != *self {
                out.push(variation);
            }
        }
        if ways != self.ways {
            let is_first = reports.values().all(|report| report.proven.is_none());
            out.insert(usize::from(!is_first).min(out.len()), Proposal { ways, ..self.clone() });
        }
        out.truncate(most);
        out
    }

    /// Lets a network take the ways of the proposal; the choices for its tasks.
    pub fn apply(&self, network: &mut Network, reports: &Reports<'_>, winners: &Winners) -> Vec<Choice> {
        network.program.choose(&|fork| self.ways.get(&fork.step).copied().unwrap_or(0));
        let choice = |task: &Task| {
            let at = match self.picks.get(&task.text).copied().unwrap_or_default() {
                Pick::Default => return Choice::Default,
                Pick::Stored => return winners.choice(task),
                Pick::Found(at) => at,
            };
            let found = reports.get(&task.text).and_then(|report| {
                let trace = candidates(report).get(at)?.trace.to_string();
                Trace::parse(&trace).ok()
            });
            found.map_or(Choice::Default, Choice::Tuned)
        };
        network.program.tasks.iter().map(choice).collect()
    }
}

/// The tasks of one way of a fork, with what another way does as well.
fn tasks_of(fork: &Fork, way: usize) -> Vec<&Task> {
    let before = fork.before.iter().filter(|_| way == 0).map(|before| &before.task);
    before.chain([&fork.ways[way].task]).collect()
}

/// Seconds of one use of a task in place.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Seconds {
    /// As it is most of the time.
    typical: f64,
    /// When little disturbs it.
    calm: f64,
}

/// What tasks took in place.
#[derive(Debug, Default)]
pub(crate) struct Measured {
    /// By task and schedule; the fastest of several artefacts that had it.
    times: BTreeMap<(String, Pick), Seconds>,
    /// What the search found, on one thread, by task.
    serial: BTreeMap<String, (Pick, Seconds)>,
    /// Steps without a kernel.
    plain: f64,
}

impl Measured {
    /// Adds what the kernels of an artefact took.
    pub fn add(&mut self, proposal: &Proposal, tasks: &[(String, f64)], own: &InPlace) {
        self.plain = own.plain;
        for (text, seconds) in by_task(tasks, own) {
            let pick = proposal.picks.get(text).copied().unwrap_or_default();
            let known = self.times.entry((text.clone(), pick)).or_insert(seconds);
            if seconds.typical < known.typical {
                *known = seconds;
            }
        }
    }

    /// Adds what was found, with every kernel on one thread.
    pub fn add_serial(&mut self, proposal: &Proposal, tasks: &[(String, f64)], own: &InPlace) {
        let pick = |text: &String| proposal.picks.get(text).copied().unwrap_or_default();
        self.serial.extend(by_task(tasks, own).map(|(text, seconds)| (text.clone(), (pick(text), seconds))));
    }

    /// Whether a task ran in place by this schedule.
    pub fn has(&self, text: &str, pick: Pick) -> bool {
        self.typical(text, pick).is_some()
    }

    fn typical(&self, text: &str, pick: Pick) -> Option<f64> {
        self.times.get(&(text.to_string(), pick)).map(|seconds| seconds.typical)
    }

    /// The schedule that is fastest in place; what was found unless another is clearly faster.
    fn fastest(&self, text: &str, found: Pick) -> Option<(Pick, f64)> {
        let own = self.times.iter().filter(|((t, _), _)| t == text);
        let first = self.typical(text, found).map(|seconds| (found, seconds));
        own.map(|((_, pick), seconds)| (*pick, seconds.typical)).fold(first, |best, next| match best {
            Some((_, seconds)) if next.1 >= seconds * (1.0 - WORTH_CHANGING) => best,
            _ => Some(next),
        })
    }

    /// The fastest schedule of every task in place, and the algorithms that are fastest with them. What was not measured in
    /// place stays as it was found.
    pub fn best(&self, found: &Proposal, network: &Network) -> Proposal {
        let mut best = found.clone();
        let texts: BTreeSet<&String> = self.times.keys().map(|(text, _)| text).collect();
        for text in texts {
            let own = found.picks.get(text).copied().unwrap_or_default();
            match self.fastest(text, own) {
                Some((Pick::Default, _)) => drop(best.picks.remove(text)),
                Some((pick, _)) => drop(best.picks.insert(text.clone(), pick)),
                None => {}
            }
        }
        for fork in &network.program.forks {
            let seconds = |way: usize| -> Option<f64> {
                let of = |task: &Task| {
                    let own = found.picks.get(&task.text).copied().unwrap_or_default();
                    self.fastest(&task.text, own).map(|(_, seconds)| seconds)
                };
                tasks_of(fork, way).into_iter().map(of).sum()
            };
            let taken = found.ways.get(&fork.step).copied().unwrap_or(0);
            let Some(own) = seconds(taken) else { continue };
            let others = (0..fork.ways.len()).filter(|at| *at != taken);
            let faster = others.filter_map(|at| Some((seconds(at)?, at)));
            let faster = faster.filter(|(t, _)| *t < own * (1.0 - WORTH_CHANGING));
            if let Some((_, at)) = faster.min_by(|a, b| a.0.total_cmp(&b.0)) {
                best.ways.insert(fork.step, at);
            }
        }
        best
    }

    /// The tasks that are faster on one thread; known for what was found only.
    pub fn serial(&self, best: &Proposal) -> BTreeSet<String> {
        let is_faster = |(text, (_, one)): (&String, &(Pick, Seconds))| {
            let pick = best.picks.get(text).copied().unwrap_or_default();
            let all = self.typical(text, pick)?;
            (one.typical < all * (1.0 - ONE_THREAD_WINS)).then(|| text.clone())
        };
        self.serial.iter().filter_map(is_faster).collect()
    }

    /// The times of a network's kernels by these schedules and threads, as far as they do not depend on each other.
    pub fn of(&self, tasks: &[Task], pick: &dyn Fn(&Task) -> Pick, limits: &[Option<usize>]) -> InPlace {
        let seconds = |at: usize| {
            let task = &tasks[at];
            let serial = self.serial.get(&task.text).filter(|(found, _)| *found == pick(task));
            let serial = serial.filter(|_| limits.get(at) == Some(&Some(1))).map(|(_, seconds)| seconds);
            let known = serial.or_else(|| self.times.get(&(task.text.clone(), pick(task))));
            let uses = task.uses as f64;
            known.map_or((0.0, 0.0), |seconds| (uses * seconds.calm, uses * seconds.typical))
        };
        let (kernels, typical) = (0..tasks.len()).map(seconds).unzip();
        InPlace { kernels, typical, plain: self.plain }
    }

    /// What the database is to know of a task: its schedule, compared with the default in place where that was there, and by
    /// the search otherwise. What did not run in place, because another algorithm is faster, is taken to be so many times slower
    /// there than alone, as the network is: algorithms are chosen by these times again. A guess of that kind does not replace
    /// what earlier runs have proven.
    pub fn to_store(&self, task: &Task, pick: Pick, reports: &Reports<'_>, slower: f64) -> Option<NewBest> {
        let report = reports.get(&task.text)?;
        let (record, alone) = match pick {
            Pick::Default => (report.default, report.default_seconds),
            Pick::Found(at) => {
                let all = candidates(report);
                let found = all.get(at)?;
                (found.record?, found.seconds)
            }
            Pick::Stored => return None,
        };
        let measured = self.typical(&task.text, pick);
        let earlier = report.proven.as_ref().filter(|_| measured.is_none());
        let (record, alone) = earlier.map_or((record, alone), |proven| (proven.record, proven.seconds));
        let own = measured.unwrap_or(alone * slower);
        let default = self.typical(&task.text, Pick::Default).unwrap_or(own * report.default_seconds / alone);
        Some(NewBest { record, default_seconds: default, ab_ratio: default / own })
    }
}

/// Every task with the seconds of one use.
fn by_task<'a>(
    tasks: &'a [(String, f64)],
    own: &'a InPlace,
) -> impl Iterator<Item = (&'a String, Seconds)> + 'a {
    let both = own.typical.iter().zip(&own.kernels);
    tasks.iter().zip(both).map(|((text, uses), (typical, calm))| {
        let uses = uses.max(1.0);
        (text, Seconds { typical: typical / uses, calm: calm / uses })
    })
}

#[cfg(test)]
mod tests {
    use talweg_db::RecordId;
    use talweg_graph::testing::Builder;
    use talweg_graph::{PartitionOptions, partition};
    use talweg_tensor::Op;

    use super::*;

    /// A product with constant weights: by its definition or by Strassen's scheme.
    fn network() -> Network {
        let mut b = Builder::new("product");
        let x = b.input(&[128, 64]);
        let w = b.weights(&[64, 96], 1);
        let y = b.op(Op::MatMul, &[x, w]);
        let graph = b.finish(&[y]);
        let program = partition(graph.clone(), &PartitionOptions::default()).expect("legal");
        Network { imported: graph, program, max_error: 1e-4 }
    }

    fn contender(at: usize, seconds: f64, shares: &str) -> Contender {
        let (record, trace) = (RecordId::from_number(at as i64), format!("unroll C i{at}"));
        Contender { record, seconds, trace, error: 0.0, shares: shares.into() }
    }

    /// The report of a task whose search found these, by the default's seconds.
    fn report(default: f64, contenders: Vec<Contender>) -> TaskReport {
        let fastest = contenders.first().filter(|c| c.seconds < default);
        TaskReport {
            name: "task".into(),
            weight: 1.0,
            best_seconds: fastest.map_or(default, |c| c.seconds),
            default_seconds: default,
            gflops: 1.0,
            error: 0.0,
            trace: fastest.map_or(String::new(), |c| c.trace.clone()),
            default_won: fastest.is_none(),
            trials: 9,
            resumed: 0,
            failures: BTreeMap::new(),
            curve: Vec::new(),
            curve_trials: Vec::new(),
            curve_traces: Vec::new(),
            first_batch: None,
            contenders,
            earlier: None,
            proven: None,
            default: RecordId::from_number(99),
        }
    }

    fn texts(network: &Network) -> [String; 2] {
        let ways = &network.program.forks[0].ways;
        [0, 1].map(|way: usize| ways[way].task.text.clone())
    }

    fn in_place(us: f64) -> InPlace {
        InPlace { kernels: vec![us * 0.9], typical: vec![us], plain: 0.0 }
    }

    #[test]
    fn those_that_share_something_else_come_before_more_of_the_same() {
        let found = [(1.0, "i"), (1.1, "i"), (1.2, "i"), (1.3, "j")];
        let all = found.iter().enumerate().map(|(at, (s, shares))| contender(at, *s, shares));
        let won = report(2.0, all.clone().collect());
        let seconds: Vec<f64> = candidates(&won).iter().map(|c| c.seconds).collect();
        assert_eq!(seconds, [1.0, 1.3, 1.1, 1.2]);
        let earlier = Some(contender(7, 1.25, "i"));
        let seconds = |report: &TaskReport| candidates(report).iter().map(|c| c.seconds).collect::<Vec<_>>();
        assert_eq!(seconds(&TaskReport { earlier, ..won.clone() }), [1.0, 1.3, 1.25, 1.1, 1.2]);
        let earlier = Some(all.clone().next().expect("some"));
        assert_eq!(seconds(&TaskReport { earlier, ..won.clone() }), [1.0, 1.3, 1.1, 1.2]);
        // What earlier runs have stored is compared for certain, so others that share the same are not preferred.
        let proven = Some(contender(8, 1.4, "j"));
        assert_eq!(seconds(&TaskReport { proven, ..won.clone() }), [1.0, 1.4, 1.1, 1.2, 1.3]);
        // Where the default won, all of them are others.
        let lost = report(0.5, all.collect());
        assert_eq!(candidates(&lost).len(), 4);
    }

    #[test]
    fn other_candidates_and_near_algorithms_are_compared() {
        let network = network();
        let [direct, scheme] = texts(&network);
        let target = Target::named("avx512").expect("known");
        let slow = contender(2, 5.0, "j");
        let first = report(1.2, vec![contender(0, 1.0, "i"), contender(1, 1.05, "j"), slow]);
        let second = report(1.04, Vec::new());
        let reports: Reports<'_> = [(direct.clone(), &first), (scheme.clone(), &second)].into();
        let found = Proposal::found(&network, &reports, &Winners::default(), &target, 1e-4);
        assert_eq!((found.ways.values().sum::<usize>(), found.picks.len()), (0, 1));
        let known = BTreeSet::new();
        let variations = found.variations(&network, &reports, &known, 1e-4, 4);
        // The other algorithm; then the next candidate, and the default. The slow one is left out.
        assert_eq!(variations.len(), 3, "{variations:?}");
        assert_eq!(variations[0].ways.values().sum::<usize>(), 1);
        assert_eq!(variations[1].picks[&direct], Pick::Found(1));
        assert_eq!(variations[2].picks[&direct], Pick::Default);
        assert_eq!(
            found.variations(&network, &reports, &known, 0.0, 4).len(),
            2,
            "it is not accurate enough"
        );
        let known = BTreeSet::from([direct]);
        assert_eq!(found.variations(&network, &reports, &known, 0.0, 4).len(), 1, "the default is compared");
    }

    #[test]
    fn tasks_that_were_not_begun_keep_what_earlier_runs_have_stored() {
        let mut network = network();
        let [direct, scheme] = texts(&network);
        let target = Target::named("avx512").expect("known");
        let stored = |text: &String, seconds: f64| {
            let trace = Trace::parse(&format!("unroll C i{seconds}")).expect("a trace");
            (text.clone(), trace, Some(seconds))
        };
        let both = vec![stored(&direct, 2.0), stored(&scheme, 1.0)];
        let winners = Winners::of(both.clone());
        network.choose(&target, &winners);
        assert_eq!(network.program.forks[0].taken, 1);
        let kept = |network: &mut Network, reports: &Reports<'_>| {
            let found = Proposal::found(network, reports, &winners, &target, 1e-4);
            let choices = found.apply(network, reports, &winners);
            assert_eq!(choices.len(), 1);
            match &choices[0] {
                Choice::Tuned(trace) => (network.program.forks[0].taken, trace.to_string()),
                Choice::Default => panic!("the default was taken"),
            }
        };
        let second = (1, both[1].1.to_string());
        assert_eq!(kept(&mut network, &Reports::new()), second);
        // How fast the other way was alone says nothing about the one that was not begun.
        let first = report(0.7, vec![contender(0, 0.5, "i")]);
        assert_eq!(kept(&mut network, &[(direct.clone(), &first)].into()), second);
        // What was begun is compared with the time that is stored.
        let own = report(4.0, vec![contender(0, 3.0, "i")]);
        assert_eq!(kept(&mut network, &[(scheme.clone(), &own)].into()), (0, both[0].1.to_string()));
    }

    #[test]
    fn what_earlier_runs_have_stored_is_compared_first() {
        let network = network();
        let [direct, scheme] = texts(&network);
        let target = Target::named("avx512").expect("known");
        let proven = Some(contender(7, 3.0, "j"));
        let first = TaskReport { proven, ..report(4.0, vec![contender(0, 1.0, "i")]) };
        let second = report(1.04, Vec::new());
        let reports: Reports<'_> = [(direct.clone(), &first), (scheme, &second)].into();
        let found = Proposal::found(&network, &reports, &Winners::default(), &target, 1e-4);
        let variations = found.variations(&network, &reports, &BTreeSet::new(), 1e-4, 4);
        assert_eq!(found.picks[&direct], Pick::Found(0));
        assert_eq!(variations[0].picks[&direct], Pick::Found(1), "however slow it was alone: {variations:?}");
        assert_eq!(candidates(&first)[1].record, Some(RecordId::from_number(7)));
        assert_eq!(variations[1].ways.values().sum::<usize>(), 1, "then the other algorithm");
    }

    #[test]
    fn the_fastest_in_place_is_taken_task_by_task_and_way_by_way() {
        let network = network();
        let [direct, scheme] = texts(&network);
        let step = network.program.forks[0].step;
        let way = |way: usize, text: &String, pick: Pick| Proposal {
            ways: [(step, way)].into(),
            picks: [(text.clone(), pick)].into(),
        };
        let found = way(0, &direct, Pick::Found(0));
        let mut measured = Measured::default();
        let tasks = |text: &String| vec![(text.clone(), 2.0)];
        measured.add(&found, &tasks(&direct), &in_place(10.0));
        assert_eq!(measured.best(&found, &network), found);
        // Hardly faster is not worth a change.
        measured.add(&way(0, &direct, Pick::Found(2)), &tasks(&direct), &in_place(9.99));
        assert_eq!(measured.best(&found, &network), found);
        measured.add(&way(0, &direct, Pick::Found(1)), &tasks(&direct), &in_place(9.0));
        assert_eq!(measured.best(&found, &network), way(0, &direct, Pick::Found(1)));
        measured.add(&Proposal::default(), &tasks(&direct), &in_place(8.0));
        assert!(measured.best(&found, &network).picks.is_empty(), "the default is fastest");
        measured.add(&way(1, &scheme, Pick::Default), &tasks(&scheme), &in_place(7.0));
        assert_eq!(measured.best(&found, &network).ways, [(step, 1)].into());
        // One thread, where it is clearly faster than what was chosen.
        measured.add_serial(&found, &tasks(&direct), &in_place(9.9));
        assert!(measured.serial(&found).is_empty());
        measured.add_serial(&found, &tasks(&direct), &in_place(5.0));
        assert_eq!(measured.serial(&found), BTreeSet::from([direct.clone()]));
        // What is stored is the comparison in place, one use each.
        let (first, task) = (report(12.0, vec![contender(0, 6.0, "i")]), network.program.tasks[0].clone());
        let reports: Reports<'_> = [(direct, &first)].into();
        let best = measured.to_store(&task, Pick::Found(0), &reports, 9.0).expect("it is known");
        assert_eq!((best.record, best.default_seconds, best.ab_ratio), (RecordId::from_number(0), 4.0, 0.8));
        // What has not run in place is a guess, which does not replace what was proven.
        let store = |proven| {
            let report = TaskReport { proven, ..first.clone() };
            let best = Measured::default().to_store(
                &task,
                Pick::Found(0),
                &[(task.text.clone(), &report)].into(),
                1.5,
            );
            best.map(|best| (best.record, best.default_seconds / best.ab_ratio))
        };
        assert_eq!(store(None), Some((RecordId::from_number(0), 9.0)));
        assert_eq!(store(Some(contender(7, 8.0, "j"))), Some((RecordId::from_number(7), 12.0)));
    }
}
