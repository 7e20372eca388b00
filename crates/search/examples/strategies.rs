//! Strategies compared on the simulated device: exact, and the same on every machine.
//!
//! `cargo run --release -p talweg-search --example strategies [TRIALS] [SEEDS] [FIRST] [WORD]` prints two tables: the best
//! time each strategy finds with equal trials, and how many trials `autotvm` needs with and without the history of the
//! other operators. WORD chooses operators by their names. `scripts/compare_strategies.py` prints the same tables for this
//! machine.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use talweg_cost::{Loss, Params};
use talweg_ops::Spec;
use talweg_ops::quality::QUALITY;
use talweg_search::{
    Features, Genetic, GeneticParams, Random, Sample, SharedModel, SimulatedDevice, SpaceDomain,
    SpaceFeatures, Strategy, TrainingSet, ansor, autotvm,
};
use talweg_space::Space;
use talweg_target::Target;

/// What the models see.
const KIND: Features = Features::Stores;
/// Candidates measured together, as the tuner does.
const BATCH: usize = 32;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// One operator.
struct Task {
    name: &'static str,
    space: Arc<Space>,
}

/// Where everything is measured, and for how long.
struct Bench {
    target: Target,
    device: SimulatedDevice,
    trials: usize,
    seeds: std::ops::Range<u64>,
}

impl Bench {
    /// Asks and measures until all trials are done or none are left; the samples in order.
    fn run(&self, strategy: &mut dyn Strategy, task: &Task) -> Vec<Sample> {
        let mut samples = Vec::new();
        while samples.len() < self.trials {
            let asked = strategy.ask((self.trials - samples.len()).min(BATCH));
            if asked.is_empty() {
                break;
            }
            let measure = |c| Sample { outcome: self.device.measure(&task.space, &c), candidate: c };
            let told: Vec<Sample> = asked.into_iter().map(measure).collect();
            strategy.tell(&told);
            samples.extend(told);
        }
        samples
    }

    /// The samples of random, genetic, autotvm and ansor.
    fn compare(&self, task: &Task, seed: u64) -> Result<[Vec<Sample>; 4], Failure> {
        let domain = Arc::new(SpaceDomain::new(task.space.clone()));
        let mut genetic = Genetic::new(domain.clone(), GeneticParams::default(), seed);
        let mut annealing = autotvm(&task.space, &self.target, KIND, None, seed)?;
        let mut evolution = ansor(&task.space, &self.target, SharedModel::ansor(seed), 0, seed)?;
        Ok([
            self.run(&mut Random::new(domain, seed), task),
            self.run(&mut genetic, task),
            self.run(&mut annealing, task),
            self.run(&mut evolution, task),
        ])
    }

    /// The samples of autotvm that knows those of other tasks.
    fn transfer(
        &self,
        task: &Task,
        others: &[(&Task, &[Sample])],
        seed: u64,
    ) -> Result<Vec<Sample>, Failure> {
        let mut history = TrainingSet::new();
        for (number, (other, samples)) in (0u32..).zip(others) {
            history.add(&SpaceFeatures::new(&other.space, &self.target, KIND)?, number, samples)?;
        }
        let global = history.fit_global(Loss::PairwiseRank, &Params::autotvm())?;
        Ok(self.run(&mut autotvm(&task.space, &self.target, KIND, global, seed)?, task))
    }
}

fn speed(samples: &[Sample]) -> f64 {
    samples.iter().map(|s| s.outcome.speed()).fold(0.0, f64::max)
}

/// Trials until a speed is reached; all of them and one more when it is not.
fn trials_to(samples: &[Sample], wanted: f64) -> usize {
    samples.iter().position(|s| s.outcome.speed() >= wanted).unwrap_or(samples.len()) + 1
}

fn geometric_mean(values: impl Iterator<Item = f64>) -> f64 {
    let logs: Vec<f64> = values.map(f64::ln).collect();
    (logs.iter().sum::<f64>() / logs.len().max(1) as f64).exp()
}

/// Does `n` pieces of work on all cores; the results in order.
fn spread<T: Send>(n: usize, work: impl Fn(usize) -> Result<T, Failure> + Sync) -> Result<Vec<T>, Failure> {
    let next = AtomicUsize::new(0);
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    let take = || {
        let mut done = Vec::new();
        loop {
            match next.fetch_add(1, Ordering::Relaxed) {
                at if at < n => done.push((at, work(at))),
                _ => return done,
            }
        }
    };
    let mut all: Vec<(usize, Result<T, Failure>)> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(take)).collect();
        workers.into_iter().flat_map(|w| w.join().unwrap_or_default()).collect()
    });
    all.sort_by_key(|(at, _)| *at);
    all.into_iter().map(|(_, result)| result).collect()
}

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let trials: usize = arguments.next().map_or(Ok(200), |text| text.parse())?;
    let seeds: u64 = arguments.next().map_or(Ok(1), |text| text.parse())?;
    let first: u64 = arguments.next().map_or(Ok(0), |text| text.parse())?;
    let word = arguments.next().unwrap_or_default();
    let target = Target::named("avx512")?;
    let device = SimulatedDevice::new(target.clone());
    let bench = Bench { target, device, trials, seeds: first..first + seeds.max(1) };
    let mut tasks = Vec::new();
    for (name, spec) in QUALITY.into_iter().filter(|(name, _)| name.contains(&word)) {
        let dag = Spec::parse(spec)?.build()?;
        tasks.push(Task { name, space: Arc::new(Space::of(&dag, &bench.target)) });
    }
    let runs: Vec<(usize, u64)> =
        (0..tasks.len()).flat_map(|at| bench.seeds.clone().map(move |seed| (at, seed))).collect();
    let per_task = runs.len() / tasks.len().max(1);
    let plain = spread(runs.len(), |run| bench.compare(&tasks[runs[run].0], runs[run].1))?;
    print_speeds(&bench, &tasks, &plain, per_task);

    let with = spread(runs.len(), |run| {
        let (at, seed) = runs[run];
        let others: Vec<(&Task, &[Sample])> = (0..tasks.len())
            .filter(|other| *other != at)
            .map(|other| (&tasks[other], plain[other * per_task + run % per_task][2].as_slice()))
            .collect();
        bench.transfer(&tasks[at], &others, seed)
    })?;
    print_transfer(&bench, &tasks, &plain, &with, per_task);
    Ok(())
}

fn print_speeds(bench: &Bench, tasks: &[Task], plain: &[[Vec<Sample>; 4]], per_task: usize) {
    let Bench { trials, seeds, .. } = bench;
    println!(
        "best time after {trials} trials on the simulated device, in microseconds; geometric means over seeds {seeds:?}"
    );
    println!(
        "{:<30} {:>10} {:>10} {:>10} {:>10} {:>13} {:>11}",
        "", "random", "genetic", "autotvm", "ansor", "random/ansor", "worst seed"
    );
    let mut ratios = Vec::new();
    for (task, runs) in tasks.iter().zip(plain.chunks(per_task)) {
        let times = [0, 1, 2, 3].map(|s| geometric_mean(runs.iter().map(|run| 1e6 / speed(&run[s]))));
        let worst = runs.iter().map(|run| speed(&run[3]) / speed(&run[0])).fold(f64::INFINITY, f64::min);
        let [random, genetic, autotvm, ansor] = times;
        ratios.push(random / ansor);
        println!(
            "{:<30} {random:>10.2} {genetic:>10.2} {autotvm:>10.2} {ansor:>10.2} {:>13.3} {worst:>11.3}",
            task.name,
            random / ansor
        );
    }
    let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
    println!("geometric mean {:.3}, worst operator {least:.3}", geometric_mean(ratios.into_iter()));
}

fn print_transfer(
    bench: &Bench,
    tasks: &[Task],
    plain: &[[Vec<Sample>; 4]],
    with: &[Vec<Sample>],
    per_task: usize,
) {
    println!(
        "\ntrials of autotvm to 95 % of the speed it has after {} trials without history; means over seeds {:?}",
        bench.trials, bench.seeds
    );
    println!("{:<30} {:>10} {:>10} {:>10} {:>16}", "", "without", "with", "ratio", "final speed-up");
    let (mut ratios, mut sums) = (Vec::new(), [0, 0]);
    for (at, task) in tasks.iter().enumerate() {
        let runs = at * per_task..(at + 1) * per_task;
        let trials = |run: usize| {
            let own = &plain[run][2];
            [own, &with[run]].map(|samples| trials_to(samples, 0.95 * speed(own)))
        };
        let sum = runs.clone().map(trials).fold([0, 0], |s, t| [s[0] + t[0], s[1] + t[1]]);
        let gain = geometric_mean(runs.clone().map(|run| speed(&with[run]) / speed(&plain[run][2])));
        let ratio = geometric_mean(runs.map(trials).map(|[without, with]| with as f64 / without as f64));
        let mean = sum.map(|trials| trials as f64 / per_task as f64);
        println!("{:<30} {:>10.1} {:>10.1} {ratio:>10.2} {gain:>16.2}", task.name, mean[0], mean[1]);
        ratios.push(ratio);
        sums = [sums[0] + sum[0], sums[1] + sum[1]];
    }
    let total = sums[1] as f64 / sums[0].max(1) as f64;
    println!(
        "geometric mean of the ratios {:.2}; all trials together {total:.2}",
        geometric_mean(ratios.into_iter())
    );
}
