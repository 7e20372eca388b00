//! What holds for every strategy, on synthetic domains.

use std::collections::HashSet;
use std::sync::Arc;

use talweg_search::testing::{Lattice, NodeScores, Oracle};
use talweg_search::{
    Annealing, AnnealingParams, Candidate, Domain, Evolutionary, EvolutionaryParams, Genetic, GeneticParams,
    Grid, Outcome, Random, RandomScorer, Sample, Scorer, Strategy,
};

/// How fast a candidate is: best where every knob of an axis is the square root of its extent, and in sketch 1.
fn speed(candidate: &Candidate) -> Vec<f32> {
    let near = |v: i64, best: f64| (-((v as f64).ln() - best.ln()).powi(2)).exp() as f32;
    let bonus = if candidate.sketch == 1 { 1.0 } else { 0.7 };
    candidate.values.chunks(2).map(|n| bonus * (near(n[0], 8.0) + near(n[1], 4.0))).collect()
}

fn measure(candidate: &Candidate) -> Outcome {
    Outcome::Seconds(1e-3 / f64::from(speed(candidate).iter().sum::<f32>()))
}

/// Every eleventh candidate or so cannot be measured.
fn unreliable(candidate: &Candidate) -> Outcome {
    let hash = candidate.values.iter().fold(candidate.sketch as i64, |h, v| h * 31 + v);
    if hash % 11 == 0 { Outcome::Failed } else { measure(candidate) }
}

fn oracle() -> Box<dyn Scorer> {
    let nodes: NodeScores = Arc::new(speed);
    Box::new(Oracle::new(nodes))
}

/// Every strategy, with a scorer that knows and one that does not.
fn strategies(domain: &Arc<dyn Domain>, seed: u64) -> Vec<Box<dyn Strategy>> {
    let annealing = AnnealingParams { chains: 16, iterations: 60, plan: 16, ..Default::default() };
    let evolution = EvolutionaryParams { population: 128, round: 16, ..Default::default() };
    let genetic = GeneticParams { population: 20, ..Default::default() };
    let mut out: Vec<Box<dyn Strategy>> = vec![
        Box::new(Random::new(domain.clone(), seed)),
        Box::new(Grid::new(domain.clone())),
        Box::new(Genetic::new(domain.clone(), genetic, seed)),
    ];
    for scorer in [oracle, || Box::new(RandomScorer::new(3)) as Box<dyn Scorer>] {
        out.push(Box::new(Annealing::new(domain.clone(), scorer(), annealing.clone(), seed)));
        out.push(Box::new(Evolutionary::new(domain.clone(), scorer(), evolution.clone(), seed)));
    }
    out
}

/// Asks in batches of `batch` until `trials` candidates have been measured or none come any more.
fn run(
    strategy: &mut dyn Strategy,
    trials: usize,
    batch: usize,
    device: fn(&Candidate) -> Outcome,
) -> Vec<Sample> {
    let mut samples = Vec::new();
    while samples.len() < trials {
        let asked = strategy.ask(batch.min(trials - samples.len()));
        if asked.is_empty() {
            break;
        }
        let told: Vec<Sample> =
            asked.into_iter().map(|c| (device(&c), c)).map(|(o, c)| Sample::new(c, o)).collect();
        strategy.tell(&told);
        samples.extend(told);
    }
    samples
}

fn best(samples: &[Sample]) -> f64 {
    samples.iter().filter_map(|s| s.outcome.seconds()).fold(f64::INFINITY, f64::min)
}

fn large() -> Arc<dyn Domain> {
    Arc::new(Lattice::tiles(64))
}

#[test]
fn candidates_are_legal_and_never_repeated() {
    let domain = large();
    for mut strategy in strategies(&domain, 1) {
        for batch in [1, 7, 64] {
            let samples = run(&mut *strategy, 150, batch, unreliable);
            assert_eq!(samples.len(), 150, "{}", strategy.name());
            assert!(samples.iter().all(|s| domain.contains(&s.candidate)), "{}", strategy.name());
        }
    }
    for mut strategy in strategies(&domain, 1) {
        let samples = run(&mut *strategy, 400, 16, unreliable);
        let distinct: HashSet<_> = samples.iter().map(|s| &s.candidate).collect();
        assert_eq!(distinct.len(), 400, "{}", strategy.name());
    }
}

#[test]
fn the_same_seed_asks_the_same_and_another_does_not() {
    let domain = large();
    let runs = |seed| -> Vec<Vec<Sample>> {
        strategies(&domain, seed).iter_mut().map(|s| run(&mut **s, 200, 16, unreliable)).collect()
    };
    let (first, second, other) = (runs(5), runs(5), runs(6));
    assert_eq!(first, second);
    for (at, strategy) in strategies(&domain, 5).iter().enumerate() {
        assert_eq!(first[at] == other[at], strategy.name() == "grid", "{}", strategy.name());
    }
}

#[test]
fn small_spaces_are_exhausted_completely() {
    let lattice = Lattice::tiles(4);
    let mut all = HashSet::new();
    let mut at = lattice.next(None);
    while let Some(candidate) = at {
        at = lattice.next(Some(&candidate));
        assert!(all.insert(candidate));
    }
    assert_eq!(all.len(), 2 * 8 * 8);
    let domain: Arc<dyn Domain> = Arc::new(lattice);
    for mut strategy in strategies(&domain, 2) {
        let samples = run(&mut *strategy, 10_000, 16, measure);
        let seen: HashSet<_> = samples.iter().map(|s| s.candidate.clone()).collect();
        assert_eq!(seen, all, "{}", strategy.name());
        assert!(strategy.ask(1).is_empty());
    }
}

#[test]
fn empty_and_single_spaces_end() {
    let mut empty = Lattice::tiles(4);
    empty.limits.push((vec![0], 0));
    let single = Lattice { sketches: 1, knobs: vec![], nodes: vec![], limits: vec![] };
    for (lattice, count) in [(empty, 0), (single, 1)] {
        let domain: Arc<dyn Domain> = Arc::new(lattice);
        for mut strategy in strategies(&domain, 2) {
            assert_eq!(
                run(&mut *strategy, 10, 3, |_| Outcome::Seconds(1.0)).len(),
                count,
                "{}",
                strategy.name()
            );
        }
    }
}

#[test]
fn nothing_but_failures_is_survived() {
    let domain = large();
    for mut strategy in strategies(&domain, 3) {
        let samples = run(&mut *strategy, 200, 16, |_| Outcome::Failed);
        assert_eq!(samples.len(), 200, "{}", strategy.name());
    }
}

#[test]
fn told_samples_are_not_asked_again() {
    let domain = large();
    for at in 0..strategies(&domain, 4).len() {
        let earlier = run(&mut *strategies(&domain, 4)[at], 100, 16, measure);
        let mut resumed = strategies(&domain, 4).remove(at);
        resumed.tell(&earlier);
        let known: HashSet<_> = earlier.iter().map(|s| &s.candidate).collect();
        let more = run(&mut *resumed, 100, 16, measure);
        assert!(more.iter().all(|s| !known.contains(&s.candidate)), "{}", resumed.name());
    }
}

#[test]
fn guided_strategies_beat_random() {
    let domain = large();
    for seed in 0..3 {
        let mut strategies = strategies(&domain, seed);
        let random = best(&run(&mut *strategies[0], 200, 16, unreliable));
        for at in [2, 3, 4] {
            let guided = best(&run(&mut *strategies[at], 200, 16, unreliable));
            assert!(guided < random, "{} with seed {seed}: {guided} {random}", strategies[at].name());
        }
    }
}

#[test]
fn a_good_model_finds_the_optimum() {
    let domain = large();
    for at in [3, 4] {
        let mut strategy = strategies(&domain, 9).remove(at);
        let found = best(&run(&mut *strategy, 200, 16, measure));
        assert!((found - 0.25e-3).abs() < 1e-9, "{}: {found}", strategy.name());
    }
}

#[test]
fn crossover_by_node_takes_the_better_node() {
    let lattice = Lattice::tiles(64);
    let candidate = |values: [i64; 4]| Candidate { sketch: 1, values: values.to_vec() };
    let (a, b) = (candidate([8, 4, 1, 1]), candidate([1, 1, 8, 4]));
    let child =
        lattice.crossover_by_node((&a, &speed(&a)), (&b, &speed(&b)), &mut talweg_search::Rng::new(0));
    assert_eq!(child, Some(candidate([8, 4, 8, 4])));
}

/// A scorer that has learnt from other tasks.
struct Transferred(Box<dyn Scorer>);

impl Scorer for Transferred {
    fn score(&mut self, candidates: &[Candidate]) -> Vec<f32> {
        self.0.score(candidates)
    }

    fn learn(&mut self, samples: &[Sample]) {
        self.0.learn(samples);
    }

    fn is_trained(&self) -> bool {
        true
    }

    fn is_transferred(&self) -> bool {
        true
    }
}

#[test]
fn plans_of_a_transferred_model_grow_with_what_was_measured() {
    let params =
        AnnealingParams { chains: 16, iterations: 20, plan: 64, first_plan: 8, ..Default::default() };
    let mut strategy = Annealing::new(large(), Box::new(Transferred(oracle())), params, 1);
    let mut sizes = Vec::new();
    for _ in 0..6 {
        let asked = strategy.ask(100);
        sizes.push(asked.len());
        strategy.tell(&asked.into_iter().map(|c| Sample::new(c.clone(), measure(&c))).collect::<Vec<_>>());
    }
    assert_eq!(sizes, [8, 8, 16, 32, 64, 64]);
}
