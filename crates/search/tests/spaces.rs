//! Strategies on real schedule spaces, measured by the simulated device.

mod common;

use std::collections::HashSet;
use std::sync::Arc;

use common::speed;
use talweg_cost::{Loss, Params};
use talweg_ops::Spec;
use talweg_search::{
    Annealing, AnnealingParams, Candidate, Domain, Evolutionary, EvolutionaryParams, Features, Genetic,
    GeneticParams, Grid, ModelScorer, Outcome, Random, Rng, Sample, Scorer, SharedModel, SimulatedDevice,
    SpaceDomain, SpaceFeatures, Strategy, TrainingSet,
};
use talweg_space::Space;
use talweg_target::{Isa, Target};

const OPERATORS: [&str; 5] = [
    "matmul:m=128,n=256,k=64",
    "bmm:b=4,m=64,n=64,k=32",
    "conv2d:n=1,h=28,w=28,c=32,f=64,k=3,s=1,p=1",
    "depthwise:n=1,h=28,w=28,c=64,k=3,s=1,p=1",
    "softmax:rows=64,n=256",
];

fn target() -> Target {
    Target::generic(Isa::Avx512)
}

fn space(spec: &str) -> Arc<Space> {
    let dag = Spec::parse(spec).expect("a known operator").build().expect("a legal operator");
    Arc::new(Space::of(&dag, &target()))
}

fn device() -> SimulatedDevice {
    SimulatedDevice::new(target())
}

/// Ansor's parts, with a population that suits a test.
fn ansor(space: &Arc<Space>, seed: u64) -> Box<dyn Strategy> {
    let scorer = ModelScorer::new(space, &target(), Features::Stores, SharedModel::ansor(seed), 0);
    let params = EvolutionaryParams { population: 256, ..EvolutionaryParams::default() };
    let domain = Arc::new(SpaceDomain::new(space.clone()));
    Box::new(Evolutionary::new(domain, Box::new(scorer.expect("features")), params, seed))
}

/// AutoTVM's parts, with fewer and shorter chains.
fn autotvm(space: &Arc<Space>, model: SharedModel, seed: u64) -> Box<dyn Strategy> {
    let scorer = ModelScorer::new(space, &target(), Features::Stores, model, 0);
    let params = AnnealingParams { chains: 32, iterations: 60, seeds: 256, ..AnnealingParams::default() };
    let domain = Arc::new(SpaceDomain::new(space.clone()));
    Box::new(Annealing::new(domain, Box::new(scorer.expect("features")), params, seed))
}

fn strategies(space: &Arc<Space>, seed: u64) -> Vec<Box<dyn Strategy>> {
    let domain = Arc::new(SpaceDomain::new(space.clone()));
    vec![
        Box::new(Random::new(domain.clone(), seed)),
        Box::new(Grid::new(domain.clone())),
        Box::new(Genetic::new(domain, GeneticParams { population: 40, ..GeneticParams::default() }, seed)),
        autotvm(space, SharedModel::autotvm(None, seed), seed),
        ansor(space, seed),
    ]
}

fn run(strategy: &mut dyn Strategy, space: &Space, trials: usize) -> Vec<Sample> {
    common::run(strategy, &device(), space, trials, 64)
}

#[test]
fn asked_candidates_are_legal_distinct_and_measurable() {
    for spec in OPERATORS {
        let space = space(spec);
        for mut strategy in strategies(&space, 1) {
            let samples = run(&mut *strategy, &space, 132);
            let distinct: HashSet<_> = samples.iter().map(|s| &s.candidate).collect();
            assert_eq!(distinct.len(), samples.len(), "{spec} {}", strategy.name());
            assert!(samples.iter().all(|s| space.satisfies(&s.candidate)), "{spec} {}", strategy.name());
            assert!(samples.iter().all(|s| s.outcome.speed() > 0.0), "{spec} {}", strategy.name());
        }
    }
}

#[test]
fn the_same_seed_and_device_give_the_same_candidates_in_the_same_order() {
    let space = space(OPERATORS[2]);
    let runs = || -> Vec<Vec<Sample>> {
        strategies(&space, 3).iter_mut().map(|s| run(&mut **s, &space, 132)).collect()
    };
    let (first, second) = (runs(), runs());
    assert_eq!(first, second);
    assert_eq!(first[4].len(), 132);
}

#[test]
fn ansor_beats_random_on_every_operator() {
    for spec in OPERATORS {
        let space = space(spec);
        let (mut guided, mut random) = (0.0, 0.0);
        for seed in 0..2 {
            let domain = Arc::new(SpaceDomain::new(space.clone()));
            guided += speed(&run(&mut *ansor(&space, seed), &space, 192));
            random += speed(&run(&mut Random::new(domain, seed), &space, 192));
        }
        assert!(guided > random, "{spec}: {guided} {random}");
    }
}

#[test]
fn history_of_a_similar_operator_makes_the_first_trials_better() {
    let (other, mine) = (space("matmul:m=256,n=128,k=96"), space(OPERATORS[0]));
    let mut rng = Rng::new(5);
    let device = device();
    let history: Vec<Sample> = (0..600)
        .map(|_| other.sample(&mut rng))
        .map(|c| Sample { outcome: device.measure(&other, &c), candidate: c })
        .collect();
    let mut set = TrainingSet::new();
    let features = SpaceFeatures::new(&other, &target(), Features::Stores).expect("features");
    set.add(&features, 0, &history).expect("rows of one width");
    let global = set.fit_global(Loss::PairwiseRank, &Params::autotvm()).expect("a fit");
    assert!(global.is_some());
    let mean = |model: SharedModel| {
        let samples = run(&mut *autotvm(&mine, model, 2), &mine, 61);
        samples.iter().map(|s| s.outcome.speed()).sum::<f64>() / samples.len() as f64
    };
    let (with, without) = (mean(SharedModel::autotvm(global, 2)), mean(SharedModel::autotvm(None, 2)));
    assert!(with > 1.1 * without, "{with} {without}");
}

#[test]
fn failures_train_as_slow_and_do_not_stop_a_search() {
    let space = space(OPERATORS[0]);
    let device = device();
    for mut strategy in strategies(&space, 6) {
        for round in 0..3 {
            let asked = strategy.ask(64);
            assert!(asked.len() >= 24, "{}: {}", strategy.name(), asked.len());
            let fails = |at: usize| round == 0 || at.is_multiple_of(3);
            let told: Vec<Sample> = asked
                .into_iter()
                .enumerate()
                .map(|(at, c)| (if fails(at) { Outcome::Failed } else { device.measure(&space, &c) }, c))
                .map(|(outcome, candidate)| Sample { candidate, outcome })
                .collect();
            strategy.tell(&told);
        }
    }
}

#[test]
fn scores_belong_to_candidates_and_nodes_add_up() {
    let space = space(OPERATORS[2]);
    let device = device();
    let mut rng = Rng::new(8);
    let samples: Vec<Sample> = (0..100)
        .map(|_| space.sample(&mut rng))
        .map(|c| Sample { outcome: device.measure(&space, &c), candidate: c })
        .collect();
    let mut scorer =
        ModelScorer::new(&space, &target(), Features::Stores, SharedModel::ansor(1), 0).expect("features");
    assert!(!scorer.is_trained());
    scorer.learn(&samples);
    assert!(scorer.is_trained() && !scorer.is_borrowed());
    let candidates: Vec<Candidate> = samples.iter().map(|s| s.candidate.clone()).collect();
    let scores = scorer.score(&candidates);
    let reversed: Vec<Candidate> = candidates.iter().rev().cloned().collect();
    let mut back = scorer.score(&reversed);
    back.reverse();
    assert_eq!(scores, back);
    for (score, nodes) in scores.iter().zip(scorer.score_nodes(&candidates)) {
        assert!(!nodes.is_empty() && (nodes.iter().sum::<f32>() - score).abs() < 1e-3, "{score} {nodes:?}");
    }
    let stranger = Candidate { sketch: 99, values: vec![1] };
    assert_eq!(scorer.score(&[stranger]), [f32::NEG_INFINITY]);
}

#[test]
fn small_spaces_are_listed_completely() {
    let space = space("softmax:rows=2,n=8");
    let domain = SpaceDomain::new(space.clone());
    let mut listed = HashSet::new();
    let mut at = domain.next(None);
    while let Some(candidate) = at {
        assert!(domain.contains(&candidate));
        at = domain.next(Some(&candidate));
        assert!(listed.insert(candidate));
    }
    let mut rng = Rng::new(4);
    assert!((0..500).filter_map(|_| domain.sample(&mut rng)).all(|c| listed.contains(&c)));
    for mut strategy in strategies(&space, 1) {
        let samples = run(&mut *strategy, &space, 100_000);
        assert_eq!(samples.len(), listed.len(), "{}", strategy.name());
    }
}
