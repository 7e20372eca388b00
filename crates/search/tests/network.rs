//! The network as a model of real schedule spaces, measured by the simulated device.

use std::sync::Arc;

use talweg_cost::metrics::pair_accuracy;
use talweg_ops::Spec;
use talweg_search::network::shipped_network;
use talweg_search::{
    Candidate, Evolutionary, EvolutionaryParams, Features, ModelScorer, Outcome, Rng, Sample, Scorer,
    SharedModel, SimulatedDevice, SpaceDomain, Strategy,
};
use talweg_space::Space;
use talweg_target::{Isa, Target};

fn target() -> Target {
    Target::generic(Isa::Avx512)
}

fn space(spec: &str) -> Arc<Space> {
    let dag = Spec::parse(spec).expect("a known operator").build().expect("a legal operator");
    Arc::new(Space::of(&dag, &target()))
}

fn measure(space: &Space, candidates: Vec<Candidate>) -> Vec<Sample> {
    let device = SimulatedDevice::new(target());
    let one = |candidate: Candidate| {
        let nest = space.instantiate(&candidate).expect("a legal candidate");
        let outcome = device.seconds(&nest, &[]).map_or(Outcome::Failed, Outcome::Seconds);
        Sample::new(candidate, outcome)
    };
    candidates.into_iter().map(one).collect()
}

fn random(space: &Space, count: usize, seed: u64) -> Vec<Sample> {
    let mut rng = Rng::new(seed);
    measure(space, (0..count).map(|_| space.sample(&mut rng)).collect())
}

fn accuracy(scorer: &mut ModelScorer, samples: &[Sample]) -> f64 {
    let candidates: Vec<Candidate> = samples.iter().map(|s| s.candidate.clone()).collect();
    let labels: Vec<f32> = samples.iter().map(|s| s.outcome.speed() as f32).collect();
    pair_accuracy(&labels, &scorer.score(&candidates), &[]).expect("equal lengths").expect("some pairs")
}

#[test]
fn a_network_from_nothing_learns_to_rank() {
    let space = space("matmul:m=128,n=256,k=64");
    let model = SharedModel::mlp_from_nothing(1);
    let mut scorer =
        ModelScorer::new(&space, &target(), Features::Stores, model.clone(), 0).expect("features");
    let unseen = random(&space, 128, 2);
    assert!(!scorer.is_trained() && model.network().is_none());
    scorer.learn(&random(&space, 96, 1));
    assert_eq!(model.error(), None);
    assert!(scorer.is_trained() && model.network().is_some());
    let after = accuracy(&mut scorer, &unseen);
    assert!(after > 0.75, "{after}");
}

#[test]
fn the_shipped_network_scores_from_the_start_and_is_refined() {
    let space = space("conv2d:n=1,h=28,w=28,c=32,f=64,k=3,s=1,p=1");
    let model = SharedModel::mlp(&target(), 1, 1);
    let mut scorer =
        ModelScorer::new(&space, &target(), Features::Stores, model.clone(), 0).expect("features");
    assert!(scorer.is_trained() && scorer.is_borrowed());
    assert_eq!(model.network(), shipped_network(&target(), 1));
    let unseen = random(&space, 128, 2);
    let before = accuracy(&mut scorer, &unseen);
    scorer.learn(&random(&space, 96, 1));
    assert_eq!(model.error(), None);
    let after = accuracy(&mut scorer, &unseen);
    assert!(!scorer.is_borrowed());
    assert!(after > before && after > 0.65, "{before} before, {after} after");
}

#[test]
fn evolution_runs_on_the_network() {
    let space = space("matmul:m=64,n=64,k=64");
    let model = SharedModel::mlp(&target(), 1, 1);
    let scorer = ModelScorer::new(&space, &target(), Features::Stores, model.clone(), 0).expect("features");
    let params = EvolutionaryParams { population: 64, ..EvolutionaryParams::default() };
    let domain = Arc::new(SpaceDomain::new(space.clone()));
    let mut strategy = Evolutionary::new(domain, Box::new(scorer), params, 1);
    for _ in 0..2 {
        let asked = strategy.ask(16);
        assert_eq!(asked.len(), 16);
        strategy.tell(&measure(&space, asked));
        assert_eq!(model.error(), None);
    }
}
