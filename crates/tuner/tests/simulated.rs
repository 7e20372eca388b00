//! The loop on a simulated device: exact, so that runs can be compared.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use talweg_db::{Database, Failure, NewBest, Replace, TargetKey};
use talweg_ir::{Dag, Nest};
use talweg_ops::Spec;
use talweg_schedule::Trace;
use talweg_search::SimulatedDevice;
use talweg_space::Space;
use talweg_target::{Isa, Target};
use talweg_tuner::records::task_key;
use talweg_tuner::reference::ReferenceError;
use talweg_tuner::runner::{Effort, Timing};
use talweg_tuner::strategy::{MODELS, global_model};
use talweg_tuner::task::lower;
use talweg_tuner::{
    Event, Fork, Objective, Runner, Simulated, StopReason, StrategyKind, Surroundings, TaskSpec, TuneError,
    TuneOptions, Tuner,
};

fn task(text: &str) -> TaskSpec {
    let spec = Spec::parse(text).expect("an operator");
    let dag = spec.build().expect("a program");
    TaskSpec { name: text.into(), dag, weight: 1.0, flops: spec.flops() }
}

fn options(strategy: StrategyKind, trials: usize) -> TuneOptions {
    let mut options = TuneOptions::new(Target::generic(Isa::Avx2));
    options.strategy = strategy;
    options.budget = None;
    options.trials = Some(trials);
    options.batch = 16;
    options
}

fn simulated() -> Simulated {
    Simulated { device: SimulatedDevice::new(Target::generic(Isa::Avx2)) }
}

/// Every candidate in the order it was measured, with its time.
fn measured(options: TuneOptions, tasks: &[&str]) -> Vec<(usize, String, Option<f64>)> {
    let tasks = tasks.iter().map(|t| task(t)).collect();
    let mut tuner = Tuner::with_runner(options, tasks, simulated()).expect("a tuner");
    let mut seen = Vec::new();
    let mut listen = |event| {
        if let Event::SampleMeasured { task, candidate, seconds, .. } = event {
            seen.push((task, candidate, seconds));
        }
    };
    tuner.run(&mut listen).expect("the run ends well");
    seen
}

const SMALL: &str = "matmul:m=64,n=64,k=64";
const TWO: [&str; 2] = [SMALL, "softmax:rows=64,n=32"];

#[test]
fn the_same_seed_asks_the_same_candidates() {
    for strategy in [StrategyKind::Ansor, StrategyKind::AutoTvm, StrategyKind::Random, StrategyKind::Genetic]
    {
        let first = measured(options(strategy, 96), &TWO);
        assert_eq!(first.len(), 96, "{strategy}");
        assert_eq!(first, measured(options(strategy, 96), &TWO), "{strategy}");
        let other = measured(TuneOptions { seed: 1, ..options(strategy, 96) }, &TWO);
        assert_ne!(first, other, "{strategy}");
    }
}

/// Strategies and models are parts that can be recombined; descent takes models with a slope only.
#[test]
fn every_strategy_takes_every_model_it_can_use() {
    let searches =
        [StrategyKind::Ansor, StrategyKind::AutoTvm, StrategyKind::Evolutionary, StrategyKind::Annealing];
    for strategy in searches.into_iter().chain([StrategyKind::Felix]) {
        for model in MODELS {
            let options = TuneOptions { model: Some(model), ..options(strategy, 48) };
            let label = format!("{strategy} with {}", model.name());
            if !strategy.can_use(model) {
                let refused = Tuner::with_runner(options, vec![task(SMALL)], simulated()).err();
                assert!(matches!(refused, Some(TuneError::NoSlope { .. })), "{label}");
                continue;
            }
            assert_eq!(measured(options, &[SMALL]).len(), 48, "{label}");
        }
    }
}

/// What is measured of the first task changes what is asked of the second.
#[test]
fn tasks_tuned_together_share_the_model_of_felix() {
    let of = |tasks: &[&str]| measured(options(StrategyKind::Felix, 96), tasks);
    let both = of(&TWO);
    assert_eq!(both, of(&TWO));
    // The first batch of the second task: nothing of its own is known yet.
    let second: Vec<&str> = both.iter().filter(|s| s.0 == 1).map(|s| s.1.as_str()).take(16).collect();
    let alone = measured(TuneOptions { seed: 1, ..options(StrategyKind::Felix, 96) }, &TWO[1..]);
    let alone: Vec<&str> = alone.iter().take(second.len()).map(|s| s.1.as_str()).collect();
    assert_eq!(second.len(), 16);
    assert_ne!(second, alone, "the model of the first task taught the second nothing");
}

#[test]
fn perfect_tiles_are_a_part_of_the_space() {
    let spec = task("matmul:m=50,n=96,k=34");
    let target = Target::generic(Isa::Avx2);
    let (all, perfect) = (Space::of(&spec.dag, &target), Space::of(&spec.dag, &target).perfect());
    assert!(perfect.size() < all.size());
    let mut rng = talweg_space::Rng::new(1);
    let mut imperfect = 0;
    for _ in 0..200 {
        let candidate = perfect.sample(&mut rng);
        assert!(all.satisfies(&candidate), "{candidate}");
        let other = all.sample(&mut rng);
        imperfect += usize::from(!perfect.satisfies(&other));
        let mut repaired = other;
        assert!(perfect.repair(&mut repaired) && perfect.satisfies(&repaired), "{repaired}");
    }
    assert!(imperfect > 20, "{imperfect}");
    for strategy in [StrategyKind::Felix, StrategyKind::Ansor] {
        let options = TuneOptions { perfect_tiles: true, ..options(strategy, 48) };
        let seen = measured(options, &["matmul:m=50,n=96,k=34"]);
        for (_, candidate, _) in seen {
            let candidate = candidate.parse().expect("a candidate prints and parses");
            assert!(perfect.satisfies(&candidate), "{strategy} measured {candidate}");
        }
    }
}

#[test]
fn the_first_batch_is_reported_without_the_seeds() {
    let mut tuner = Tuner::with_runner(options(StrategyKind::Felix, 48), vec![task(SMALL)], simulated())
        .expect("a tuner");
    let report = tuner.run(&mut |_| {}).expect("the run ends well").tasks.remove(0);
    let first = report.first_batch.expect("a batch was measured");
    assert!(first >= report.best_seconds, "{first}");
    assert_eq!(report.curve.len(), report.curve_trials.len());
    assert!(report.curve_trials.windows(2).all(|w| w[0] < w[1]), "{:?}", report.curve_trials);
}

#[test]
fn a_resumed_run_measures_nothing_twice_and_keeps_the_winner() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("t.db");
    let with = |seed| TuneOptions { db: Some(path.clone()), seed, ..options(StrategyKind::Random, 40) };
    let mut all: Vec<String> = Vec::new();
    let mut best = f64::INFINITY;
    for seed in 0..3 {
        let mut tuner = Tuner::with_runner(with(seed), vec![task(SMALL)], simulated()).expect("a tuner");
        let mut resumed = None;
        let report = tuner.run(&mut |event| match event {
            Event::SampleMeasured { candidate, .. } => all.push(candidate),
            Event::TaskStarted { resumed: n, .. } => resumed = Some(n),
            _ => {}
        });
        let report = report.expect("the run ends well").tasks.remove(0);
        assert_eq!(resumed, Some(40 * seed as usize));
        assert!(report.best_seconds <= report.default_seconds.min(best), "the winner got lost");
        best = report.best_seconds;
        assert!(report.curve.windows(2).all(|w| w[0].0 <= w[1].0 && w[0].1 > w[1].1), "{:?}", report.curve);
    }
    let count = all.len();
    all.sort();
    all.dedup();
    assert_eq!((count, all.len()), (120, 120), "a candidate was measured again");
    let stats = Database::open_existing(&path).expect("the database").stats().expect("statistics");
    assert_eq!((stats.runs, stats.records), (3, 120 + 3));
    assert!(stats.tasks[0].best.as_ref().is_some_and(|b| b.ab_ratio >= 1.0));
}

#[test]
fn times_of_other_surroundings_are_not_resumed() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("t.db");
    let resumed = |hand_over| {
        let surroundings = Surroundings { hand_over, cold_constants: false };
        let options =
            TuneOptions { db: Some(path.clone()), surroundings, ..options(StrategyKind::Random, 16) };
        let mut tuner = Tuner::with_runner(options, vec![task(SMALL)], simulated()).expect("a tuner");
        let mut resumed = None;
        let listener = &mut |event| {
            if let Event::TaskStarted { resumed: n, .. } = event {
                resumed = Some(n);
            }
        };
        tuner.run(listener).expect("the run ends well");
        resumed
    };
    assert_eq!([resumed(false), resumed(true), resumed(true), resumed(false)], [0, 0, 16, 16].map(Some));
}

#[test]
fn exhausted_spaces_and_requirements_end_the_run() {
    let mut tuner = Tuner::with_runner(
        options(StrategyKind::Grid, 1_000_000),
        vec![task("softmax:rows=2,n=3")],
        simulated(),
    )
    .expect("a tuner");
    let report = tuner.run(&mut |_| {}).expect("the run ends well");
    assert_eq!(report.reason, StopReason::Exhausted);
    let mut easy = options(StrategyKind::Random, 1_000);
    (easy.objective, easy.good_enough) = (Objective::Requirement, Some(1e3));
    let mut tuner = Tuner::with_runner(easy, vec![task(SMALL)], simulated()).expect("a tuner");
    let report = tuner.run(&mut |_| {}).expect("the run ends well");
    assert_eq!((report.reason, report.trials), (StopReason::GoodEnough, 0), "the default is good enough");
    let early = Objective::EarlyStop { rounds: 2, gain: 0.01 };
    let options = TuneOptions { objective: early, ..options(StrategyKind::Random, 100_000) };
    let mut tuner = Tuner::with_runner(options, vec![task(SMALL)], simulated()).expect("a tuner");
    let report = tuner.run(&mut |_| {}).expect("the run ends well");
    assert_eq!(report.reason, StopReason::NothingToGain);
    assert!(report.trials < 100_000);
}

#[test]
fn a_run_to_the_end_uses_all_its_trials() {
    let run = |ends_early: bool| {
        let options = TuneOptions { patience: 2, ends_early, ..options(StrategyKind::Random, 320) };
        let mut tuner = Tuner::with_runner(options, vec![task(SMALL)], simulated()).expect("a tuner");
        let report = tuner.run(&mut |_| {}).expect("the run ends well");
        (report.reason, report.trials)
    };
    let (reason, trials) = run(true);
    assert!(reason != StopReason::Trials && trials < 320, "{reason} after {trials}");
    assert_eq!(run(false), (StopReason::Trials, 320));
}

#[test]
fn a_way_that_cannot_win_gets_few_rounds_and_counts_no_more() {
    let specs = [SMALL, "matmul:m=64,n=64,k=640"].map(task).to_vec();
    let steps = vec![Fork { ways: vec![vec![1], vec![0]], count: 3.0 }];
    let options = TuneOptions { steps, ..options(StrategyKind::Random, 320) };
    let mut tuner = Tuner::with_runner(options, specs, simulated()).expect("a tuner");
    let report = tuner.run(&mut |_| {}).expect("the run ends well");
    let [fast, slow] = report.tasks.as_slice() else { panic!("two tasks") };
    assert_eq!((slow.trials, fast.trials), (16, 304), "ten times as slow after its first round");
    assert_eq!(report.counts(), [3.0, 0.0]);
    assert_eq!(report.best_seconds(), 3.0 * fast.best_seconds);
    assert_eq!(report.default_seconds(), 3.0 * fast.default_seconds);
}

#[test]
fn every_task_is_tuned_for_the_mean_speedup() {
    let options = TuneOptions { objective: Objective::Speedup, ..options(StrategyKind::Random, 96) };
    let seen = measured(options, &TWO);
    assert!((0..2).all(|task| seen.iter().filter(|s| s.0 == task).count() >= 16));
}

#[test]
fn a_stop_ends_with_the_best_so_far() {
    let options = options(StrategyKind::Random, 1_000);
    let stop = options.stop.clone();
    let mut tuner = Tuner::with_runner(options, vec![task(SMALL)], simulated()).expect("a tuner");
    let (mut count, mut fastest) = (0, f64::INFINITY);
    let report = tuner.run(&mut |event| {
        if let Event::SampleMeasured { seconds, .. } = event {
            count += 1;
            fastest = seconds.map_or(fastest, |s| fastest.min(s));
            stop.store(count >= 20, std::sync::atomic::Ordering::Relaxed);
        }
    });
    let report = report.expect("the run ends well");
    assert_eq!((report.reason, report.trials), (StopReason::Interrupted, 20));
    // What was found is compared with the default and stored, although nobody waited for the finals.
    let task = &report.tasks[0];
    assert_eq!(task.default_won, fastest > task.default_seconds * 0.99, "{fastest} {task:?}");
    assert!((task.best_seconds / fastest.min(task.default_seconds) - 1.0).abs() < 0.01, "{task:?}");
    let stats = tuner.database().stats().expect("statistics");
    assert_eq!(stats.records, 21);
    assert!(stats.tasks[0].best.is_some());
}

/// Runs the default schedule and fails on everything after it.
struct Broken(Simulated, usize);

impl Runner for Broken {
    type Kernel = Nest;
    type Data = ();

    fn data(&mut self, dag: &Dag) -> Result<(), ReferenceError> {
        self.0.data(dag)
    }

    fn build(&mut self, nests: &[Nest]) -> Vec<Result<(Nest, f64), Failure>> {
        self.0.build(nests)
    }

    fn run(&mut self, data: &(), kernel: &Nest, effort: &Effort) -> Result<Timing, Failure> {
        self.1 += 1;
        if self.1 == 1 {
            return self.0.run(data, kernel, effort);
        }
        Err(Failure { cause: "wrong-result".into(), text: format!("run {} is wrong", self.1) })
    }
}

/// Threads that come near each other and go away again after every so many runs; near, everything takes a fifth less.
struct Moving(Simulated, usize);

impl Runner for Moving {
    type Kernel = Nest;
    type Data = ();

    fn data(&mut self, dag: &Dag) -> Result<(), ReferenceError> {
        self.0.data(dag)
    }

    fn build(&mut self, nests: &[Nest]) -> Vec<Result<(Nest, f64), Failure>> {
        self.0.build(nests)
    }

    fn run(&mut self, data: &(), kernel: &Nest, effort: &Effort) -> Result<Timing, Failure> {
        self.1 += 1;
        let (factor, distance) = if (self.1 / 24).is_multiple_of(2) { (1.0, 185e-9) } else { (0.8, 24e-9) };
        let mut timing = self.0.run(data, kernel, effort)?;
        timing.seconds *= factor;
        timing.samples.seconds.iter_mut().for_each(|seconds| *seconds *= factor);
        Ok(Timing { distance: Some(distance), ..timing })
    }
}

#[test]
fn times_do_not_depend_on_where_the_threads_were() {
    let options = options(StrategyKind::Random, 160);
    let mut calm = measured(options.clone(), &[SMALL]);
    let mut tuner = Tuner::with_runner(options, vec![task(SMALL)], Moving(simulated(), 0)).expect("a tuner");
    let mut seen = Vec::new();
    let report = tuner.run(&mut |event| {
        if let Event::SampleMeasured { task, candidate, seconds, .. } = event {
            seen.push((task, candidate, seconds));
        }
    });
    let report = report.expect("the run ends well");
    // The first to come near are measured before anybody knows what that does.
    assert!(calm.iter().map(|c| &c.1).eq(seen.iter().map(|c| &c.1)), "the same candidates");
    let differs = |at: &usize| {
        let pair = calm[*at].2.zip(seen[*at].2);
        pair.is_none_or(|(calm, moving)| (calm / moving - 1.0).abs() > 1e-6)
    };
    let wrong: Vec<usize> = (0..calm.len()).filter(differs).collect();
    assert!(!wrong.is_empty() && wrong.iter().all(|at| (16..48).contains(at)), "{wrong:?}");
    calm.sort_by(|a, b| a.2.unwrap_or(f64::INFINITY).total_cmp(&b.2.unwrap_or(f64::INFINITY)));
    let best = calm[0].2.expect("seconds").min(report.tasks[0].default_seconds);
    assert!(
        (report.tasks[0].best_seconds / best - 1.0).abs() < 0.01,
        "{} {best}",
        report.tasks[0].best_seconds
    );
}

/// A simulated device on which one program is the faster of all when kernels run in turns, whatever it was in the search.
struct FastInTurns {
    simulated: Simulated,
    program: Option<Nest>,
}

impl Runner for FastInTurns {
    type Kernel = Nest;
    type Data = ();

    fn data(&mut self, dag: &Dag) -> Result<(), ReferenceError> {
        self.simulated.data(dag)
    }

    fn build(&mut self, nests: &[Nest]) -> Vec<Result<(Nest, f64), Failure>> {
        self.simulated.build(nests)
    }

    fn run(&mut self, data: &(), kernel: &Nest, effort: &Effort) -> Result<Timing, Failure> {
        let timing = self.simulated.run(data, kernel, effort)?;
        let is_favoured = effort.rival.is_none() && self.program.as_ref() == Some(kernel);
        Ok(if is_favoured { Timing { seconds: timing.seconds / 1e3, ..timing } } else { timing })
    }
}

/// Tasks of networks are compared in place: what won there may have been slow in the search.
#[test]
fn what_earlier_runs_have_proven_is_replaced_only_by_what_beats_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("t.db");
    let spec = task(SMALL);
    let mut first = options(StrategyKind::Random, 16);
    first.db = Some(path.clone());
    let mut tuner = Tuner::with_runner(first.clone(), vec![spec.clone()], simulated()).expect("a tuner");
    tuner.run(&mut |_| {}).expect("the run ends well");
    let key = TargetKey::new(first.target.fingerprint());
    let mut db = Database::open_existing(&path).expect("the database");
    let mut records = db.records(&task_key(&spec.dag), &key, 1).expect("records");
    records.retain(|record| record.strategy == "random" && record.typical_seconds().is_some());
    let slow =
        records.iter().max_by(|a, b| a.typical_seconds().partial_cmp(&b.typical_seconds()).expect("numbers"));
    let slow = slow.expect("some succeeded");
    let best = NewBest { record: slow.id, default_seconds: 1e-6, ab_ratio: 1.1 };
    db.store_best(&best, Replace::Always).expect("it is stored");
    let trace = Trace::parse(&slow.trace).expect("a trace");
    let program = Some(lower(&spec, &trace).expect("legal"));
    let run = |program: Option<Nest>, seed: u64| {
        let started = Instant::now() - Duration::from_secs(60);
        let without_finals = BTreeSet::from([0]);
        let options = TuneOptions { seed, trials: Some(240), started, without_finals, ..first.clone() };
        let runner = FastInTurns { simulated: simulated(), program };
        let mut tuner = Tuner::with_runner(options, vec![spec.clone()], runner).expect("a tuner");
        let report = tuner.run(&mut |_| {}).expect("the run ends well").tasks.remove(0);
        assert!(!report.contenders.iter().any(|c| c.record == slow.id), "it is among the fastest");
        assert_eq!(report.proven.map(|proven| proven.record), Some(slow.id));
        let best = db.best(&task_key(&spec.dag), &key, 1).expect("the database").expect("a best");
        best.record.id == slow.id
    };
    assert!(run(program, 1), "what is faster in turns was replaced");
    assert!(!run(None, 2), "what is slower in turns was kept");
}

#[test]
fn nothing_but_failures_is_diagnosed_soon() {
    let options = options(StrategyKind::Random, 1_000);
    let mut tuner = Tuner::with_runner(options, vec![task(SMALL)], Broken(simulated(), 0)).expect("a tuner");
    let mut first = Vec::new();
    let error = tuner.run(&mut |event| {
        if let Event::ErrorGrouped { cause, text, .. } = event {
            first.push((cause, text));
        }
    });
    let Err(TuneError::AllFail { count, cause, text, .. }) = error else { panic!("{error:?}") };
    assert_eq!((count, cause.as_str(), text.as_str()), (32, "wrong-result", "run 2 is wrong"));
    assert_eq!(first, [("wrong-result".to_string(), "run 2 is wrong".to_string())]);
    let stats = tuner.database().stats().expect("statistics");
    assert_eq!(stats.tasks[0].failures, [("wrong-result".to_string(), 32)]);
}

/// Fails on all kernels of some output after so many runs of them.
struct Spoilt(Simulated, &'static str, usize);

impl Runner for Spoilt {
    type Kernel = Nest;
    type Data = ();

    fn data(&mut self, dag: &Dag) -> Result<(), ReferenceError> {
        self.0.data(dag)
    }

    fn build(&mut self, nests: &[Nest]) -> Vec<Result<(Nest, f64), Failure>> {
        self.0.build(nests)
    }

    fn run(&mut self, data: &(), kernel: &Nest, effort: &Effort) -> Result<Timing, Failure> {
        if kernel.name != self.1 {
            return self.0.run(data, kernel, effort);
        }
        if self.2 == 0 {
            return Err(Failure { cause: "wrong-result".into(), text: "it is wrong".into() });
        }
        self.2 -= 1;
        self.0.run(data, kernel, effort)
    }
}

#[test]
fn a_way_that_nobody_needs_costs_itself_only() {
    const SPARE: [&str; 3] = ["matmul:m=64,n=64,k=64", "softmax:rows=64,n=32", "layernorm:rows=8,n=64"];
    let run = |fails_after: usize, weights: [f64; 3]| {
        let mut options = options(StrategyKind::Random, 200);
        let fork = |ways: &[usize]| Fork { ways: ways.iter().map(|at| vec![*at]).collect(), count: 1.0 };
        options.steps = vec![fork(&[0, 1]), fork(&[2])];
        options.without_finals = [0, 1, 2].into();
        let tasks = SPARE.iter().zip(weights).map(|(text, weight)| TaskSpec { weight, ..task(text) });
        let runner = Spoilt(simulated(), "softmax", fails_after);
        let mut tuner = Tuner::with_runner(options, tasks.collect(), runner).expect("a tuner");
        let (mut given_up, mut measured) = (Vec::new(), BTreeSet::new());
        let report = tuner.run(&mut |event| match event {
            Event::GivenUp { task, text } => given_up.push((task, text)),
            Event::SampleMeasured { task, .. } => drop(measured.insert(task)),
            _ => {}
        });
        (report, given_up, measured)
    };
    // Its default fails.
    let (report, given_up, measured) = run(0, [1.0, 0.0, 1.0]);
    let report = report.expect("the run ends well");
    assert_eq!((given_up.len(), given_up[0].0, report.left_out.as_slice()), (1, 1, [1].as_slice()));
    assert!(given_up[0].1.contains("softmax") && given_up[0].1.contains("it is wrong"));
    assert_eq!(measured, BTreeSet::from([0, 2]));
    let names = [0, 1, 2].map(|at| report.of(at).map(|task| task.name.as_str()));
    assert_eq!(names, [Some(SPARE[0]), None, Some(SPARE[2])]);
    assert_eq!(report.counts(), [1.0, 1.0]);
    // Its candidates fail: the default is a way all the same.
    let (report, given_up, _) = run(1, [1.0, 0.0, 1.0]);
    let report = report.expect("the run ends well");
    assert_eq!((given_up.len(), given_up[0].0, report.left_out.len()), (1, 1, 0));
    assert!(report.of(1).is_some_and(|task| task.default_won && task.trials >= 32));
    // What is needed is not left out.
    assert!(matches!(run(0, [1.0; 3]).0, Err(TuneError::DefaultFails { .. })));
}

#[test]
fn a_default_that_fails_in_the_finals_leaves_the_proven_best() {
    let dir = tempfile::tempdir().expect("a directory");
    let with =
        |trials| TuneOptions { db: Some(dir.path().join("t.db")), ..options(StrategyKind::Random, trials) };
    let mut tuner = Tuner::with_runner(with(96), vec![task(SMALL)], simulated()).expect("a tuner");
    let proven = tuner.run(&mut |_| {}).expect("the run ends well").tasks.remove(0);
    assert!(!proven.default_won, "the test needs a candidate that is faster than the default");
    // Nothing is measured, so that the default's second run is the one in the finals.
    let mut tuner = Tuner::with_runner(with(0), vec![task(SMALL)], Broken(simulated(), 0)).expect("a tuner");
    let report = tuner.run(&mut |_| {}).expect("the run ends well").tasks.remove(0);
    assert_eq!((report.trace, report.default_won), (proven.trace.clone(), false));
    let key = TargetKey::new(Target::generic(Isa::Avx2).fingerprint());
    let best = tuner.database().best(&task_key(&task(SMALL).dag), &key, 1).expect("the database can be read");
    let best = best.expect("a stored best");
    assert_eq!(best.record.trace, proven.trace);
    assert!(best.ab_ratio > 1.0, "{}", best.ab_ratio);
}

#[test]
fn other_tasks_teach_a_global_model() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("t.db");
    let target = Target::generic(Isa::Avx2);
    let key = TargetKey::new(target.fingerprint());
    let (near, far) = (task_key(&task(SMALL).dag), task_key(&task("matmul:m=96,n=96,k=96").dag));
    let mut options = options(StrategyKind::Random, 520);
    options.db = Some(path.clone());
    let mut tuner = Tuner::with_runner(options.clone(), vec![task(SMALL)], simulated()).expect("a tuner");
    tuner.run(&mut |_| {}).expect("the run ends well");
    let db = tuner.database();
    let model = |except| global_model(db, &key, 1, except, &target, 0).expect("the database can be read");
    assert!(model(&far).is_some(), "nothing was learnt from another task");
    assert!(model(&near).is_none(), "a task must not learn from itself");

    options.strategy = StrategyKind::AutoTvm;
    options.trials = Some(48);
    let mut tuner =
        Tuner::with_runner(options, vec![task("matmul:m=96,n=96,k=96")], simulated()).expect("a tuner");
    assert_eq!(tuner.run(&mut |_| {}).expect("the run ends well").trials, 48);
}
