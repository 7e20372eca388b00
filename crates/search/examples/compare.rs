//! Strategies compared on the simulated device: exact, and the same on every machine.
//!
//! `cargo run --release -p talweg-search --example compare [TRIALS] [SEEDS] [FIRST]` prints two tables: the best time each
//! strategy finds with equal trials, and how many trials `autotvm` needs with and without the history of the other
//! operators.

use std::sync::Arc;

use talweg_cost::{Loss, Params};
use talweg_ops::Spec;
use talweg_search::{
    Features, Genetic, GeneticParams, Outcome, Random, Sample, SharedModel, SimulatedDevice, SpaceDomain,
    SpaceFeatures, Strategy, TrainingSet, ansor, autotvm,
};
use talweg_space::Space;
use talweg_target::Target;

const OPERATORS: [(&str, &str); 13] = [
    ("matmul 512", "matmul:m=512,n=512,k=512"),
    ("matmul 1024", "matmul:m=1024,n=1024,k=1024"),
    ("matmul bert", "matmul:m=128,n=3072,k=768"),
    ("bmm", "bmm:b=12,m=128,n=128,k=64"),
    ("conv 3x3 64x56", "conv2d:n=1,h=56,w=56,c=64,f=64,k=3,s=1,p=1"),
    ("conv 3x3 128x28", "conv2d:n=1,h=28,w=28,c=128,f=128,k=3,s=1,p=1"),
    ("conv 3x3 256x14", "conv2d:n=1,h=14,w=14,c=256,f=256,k=3,s=1,p=1"),
    ("conv 1x1 64x56", "conv2d:n=1,h=56,w=56,c=64,f=256,k=1,s=1,p=0"),
    ("conv 7x7 stride 2", "conv2d:n=1,h=224,w=224,c=3,f=64,k=7,s=2,p=3"),
    ("depthwise 32x112", "depthwise:n=1,h=112,w=112,c=32,k=3,s=1,p=1"),
    ("depthwise 384x14", "depthwise:n=1,h=14,w=14,c=384,k=3,s=1,p=1"),
    ("softmax", "softmax:rows=1536,n=128"),
    ("layer norm", "layernorm:rows=128,n=768"),
];

/// What the models see.
const KIND: Features = Features::Stores;

type Failure = Box<dyn std::error::Error>;

/// One operator.
struct Task {
    name: &'static str,
    space: Arc<Space>,
}

/// Asks and measures until so many trials are done or none are left; the samples in order.
fn run(strategy: &mut dyn Strategy, task: &Task, device: &SimulatedDevice, trials: usize) -> Vec<Sample> {
    let mut samples = Vec::new();
    while samples.len() < trials {
        let asked = strategy.ask((trials - samples.len()).min(64));
        if asked.is_empty() {
            break;
        }
        let measure = |c| Sample { outcome: device.measure(&task.space, &c), candidate: c };
        let told: Vec<Sample> = asked.into_iter().map(measure).collect();
        strategy.tell(&told);
        samples.extend(told);
    }
    samples
}

fn speed(samples: &[Sample]) -> f64 {
    samples.iter().map(|s| s.outcome.speed()).fold(0.0, f64::max)
}

/// Trials until a speed is reached; all of them and one more when it is not.
fn trials_to(samples: &[Sample], wanted: f64) -> usize {
    samples.iter().position(|s| s.outcome.speed() >= wanted).unwrap_or(samples.len()) + 1
}

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let trials: usize = arguments.next().map_or(Ok(200), |text| text.parse())?;
    let seeds: u64 = arguments.next().map_or(Ok(1), |text| text.parse())?;
    let first: u64 = arguments.next().map_or(Ok(0), |text| text.parse())?;
    let target = Target::named("avx512")?;
    let device = SimulatedDevice::new(target.clone());
    let mut tasks = Vec::new();
    for (name, spec) in OPERATORS {
        let dag = Spec::parse(spec)?.build()?;
        tasks.push(Task { name, space: Arc::new(Space::of(&dag, &target)) });
    }

    println!(
        "best time after {trials} trials on the simulated device, in microseconds; mean over {seeds} seeds from {first}"
    );
    println!(
        "{:<18} {:>10} {:>10} {:>10} {:>10} {:>14}",
        "", "random", "genetic", "autotvm", "ansor", "ansor/random"
    );
    let mut plain: Vec<Vec<Vec<Sample>>> = Vec::new();
    for task in &tasks {
        let mut times = [0.0; 4];
        let mut kept = Vec::new();
        for seed in first..first + seeds {
            let domain = Arc::new(SpaceDomain::new(task.space.clone()));
            let mut strategies: Vec<Box<dyn Strategy>> = vec![
                Box::new(Random::new(domain.clone(), seed)),
                Box::new(Genetic::new(domain, GeneticParams::default(), seed)),
                Box::new(autotvm(&task.space, &target, KIND, None, seed)?),
                Box::new(ansor(&task.space, &target, SharedModel::ansor(seed), 0, seed)?),
            ];
            for (at, strategy) in strategies.iter_mut().enumerate() {
                let samples = run(&mut **strategy, task, &device, trials);
                times[at] += 1e6 / speed(&samples) / seeds as f64;
                if at == 2 {
                    kept.push(samples);
                }
            }
        }
        plain.push(kept);
        let [random, genetic, autotvm, ansor] = times;
        println!(
            "{:<18} {random:>10.2} {genetic:>10.2} {autotvm:>10.2} {ansor:>10.2} {:>14.2}",
            task.name,
            random / ansor
        );
    }

    println!("\ntrials of autotvm to 95 % of the speed it has after {trials} trials without history");
    println!("{:<18} {:>10} {:>10} {:>10} {:>16}", "", "without", "with", "ratio", "final speed-up");
    let (mut all_without, mut all_with) = (0, 0);
    for (at, task) in tasks.iter().enumerate() {
        let (mut without, mut with, mut gain) = (0, 0, 0.0);
        for seed in first..first + seeds {
            let mut history = TrainingSet::new();
            for (other, _) in tasks.iter().enumerate().filter(|(other, _)| *other != at) {
                let mut features = SpaceFeatures::new(&tasks[other].space, &target, KIND)?;
                history.add(&mut features, other as u32, &plain[other][(seed - first) as usize])?;
            }
            let global = history.fit_global(Loss::PairwiseRank, &Params::autotvm())?;
            let mut strategy = autotvm(&task.space, &target, KIND, global, seed)?;
            let samples = run(&mut strategy, task, &device, trials);
            let own = &plain[at][(seed - first) as usize];
            without += trials_to(own, 0.95 * speed(own));
            with += trials_to(&samples, 0.95 * speed(own));
            gain += speed(&samples) / speed(own) / seeds as f64;
        }
        println!(
            "{:<18} {without:>10} {with:>10} {:>10.2} {gain:>16.2}",
            task.name,
            with as f64 / without as f64
        );
        all_without += without;
        all_with += with;
    }
    println!("{:<18} {all_without:>10} {all_with:>10} {:>10.2}", "all", all_with as f64 / all_without as f64);
    let failed = plain.iter().flatten().flatten().filter(|s| s.outcome == Outcome::Failed).count();
    println!("\n{failed} trials failed");
    Ok(())
}
