//! Candidates scored a second, features and model together, on one core, for a conv2d sketch.
//!
//! `cargo run --release -p talweg-search --example scoring`

use std::sync::Arc;
use std::time::Instant;

use talweg_ops::Spec;
use talweg_search::{
    Candidate, Domain, Features, ModelScorer, Rng, Sample, Scorer, SharedModel, SimulatedDevice, SpaceDomain,
};
use talweg_space::Space;
use talweg_target::Target;

/// Runs a function a few times; the shortest in seconds.
fn best_of(runs: usize, mut run: impl FnMut()) -> f64 {
    let time = |_| {
        let start = Instant::now();
        run();
        start.elapsed().as_secs_f64()
    };
    (0..runs).map(time).fold(f64::INFINITY, f64::min)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let target = Target::named("avx512")?;
    let dag = Spec::parse("conv2d:n=1,h=56,w=56,c=64,f=64,k=3,s=1,p=1")?.build()?;
    let space = Arc::new(Space::of(&dag, &target));
    let domain = SpaceDomain::new(space.clone());
    println!("{} sketches, {:.1e} candidates", space.sketches.len(), domain.size());
    let device = SimulatedDevice::new(target.clone());
    let mut rng = Rng::new(1);
    let sketch = (0..space.sketches.len()).max_by_key(|s| space.sketches[*s].knobs.len()).unwrap_or(0);
    let candidates: Vec<Candidate> = (0..4096).map(|_| space.sample_in(sketch, &mut rng)).collect();

    let rate = |what: &str, n: usize, seconds: f64| println!("{what:<28} {:>12.0} /s", n as f64 / seconds);
    let n = 1024;
    rate("drawn", n, best_of(3, || (0..n).for_each(|_| drop(domain.sample(&mut rng)))));
    rate("mutated", n, best_of(3, || candidates[..n].iter().for_each(|c| drop(domain.mutate(c, &mut rng)))));
    rate(
        "one knob redrawn",
        n,
        best_of(3, || candidates[..n].iter().for_each(|c| drop(domain.reroll(c, &mut rng)))),
    );
    let nodes = [0.5f32, 0.5];
    let cross = |pair: &[Candidate], rng: &mut Rng| {
        drop(domain.crossover_by_node((&pair[0], &nodes), (&pair[1], &nodes), rng));
    };
    rate("crossed", n / 2, best_of(3, || candidates[..n].chunks(2).for_each(|pair| cross(pair, &mut rng))));
    let measured: Vec<Sample> = (0..512)
        .filter_map(|_| domain.sample(&mut rng))
        .map(|c| Sample::new(c.clone(), device.measure(&space, &c)))
        .collect();
    rate(
        "measured on the device",
        64,
        best_of(3, || {
            let _ = candidates[..64].iter().map(|c| device.measure(&space, c).speed()).sum::<f64>();
        }),
    );

    for (name, kind, model) in [
        ("ansor", Features::Stores, SharedModel::ansor(1)),
        ("autotvm", Features::Stores, SharedModel::autotvm(None, 1)),
        ("autotvm, relations", Features::Buffers, SharedModel::autotvm(None, 1)),
    ] {
        let start = Instant::now();
        let mut scorer = ModelScorer::new(&space, &target, kind, model, 0)?;
        println!("{name}: features compiled in {:.3} s", start.elapsed().as_secs_f64());
        let start = Instant::now();
        scorer.learn(&measured);
        println!(
            "{name}: model fitted on {} samples in {:.3} s",
            measured.len(),
            start.elapsed().as_secs_f64()
        );
        let seconds = best_of(5, || drop(scorer.score(&candidates)));
        rate(&format!("{name}: scored"), candidates.len(), seconds);
    }
    Ok(())
}
