//! What descent costs for a conv2d: the formulas at every stage, and gradients of features and model a second.
//!
//! `cargo run --release -p talweg-search --example descent [SPEC]`

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use talweg_features::{SmoothOptions, SmoothScratch};
use talweg_ops::Spec;
use talweg_search::felix::descent::score_gradient;
use talweg_search::felix::hidden::HiddenUnits;
use talweg_search::felix::smooth_program;
use talweg_search::{
    DifferentiableScorer, Felix, FelixParams, Rng, Sample, SharedScorer, SimulatedDevice, Strategy,
};
use talweg_space::Space;
use talweg_target::Target;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let target = Target::named("avx512")?;
    let spec = std::env::args().nth(1).unwrap_or("conv2d:n=1,h=56,w=56,c=64,f=64,k=3,s=1,p=1".into());
    let space = Arc::new(Space::of(&Spec::parse(&spec)?.build()?, &target));
    println!("{spec}: {} sketches", space.sketches.len());
    println!("operators of the formulas: as written, rewritten, smooth; without rewriting, smooth");
    for (at, sketch) in space.sketches.iter().enumerate() {
        let start = Instant::now();
        let with = smooth_program(sketch, &target, SmoothOptions { rewrites: true })?;
        let seconds = start.elapsed().as_secs_f64();
        let without = smooth_program(sketch, &target, SmoothOptions { rewrites: false })?;
        let r = with.report();
        println!(
            "  sketch {at} ({} knobs, {} rows): {} -> {} -> {}; {}   [{seconds:.3} s] {:?}",
            sketch.knobs.len(),
            with.rows(),
            r.exact,
            r.rewritten,
            r.smooth,
            without.report().smooth,
            r.rewriting
        );
    }

    let device = SimulatedDevice::new(target.clone());
    let scorer = SharedScorer::new(Box::new(HiddenUnits::new(128, 24, 1)));
    let start = Instant::now();
    let mut felix = Felix::new(&space, &target, scorer.clone(), 0, FelixParams::default(), 1)?;
    felix.programs();
    println!("all formulas made in {:.3} s", start.elapsed().as_secs_f64());
    let mut best = f64::INFINITY;
    for round in 0..6 {
        let start = Instant::now();
        let asked = felix.ask(32);
        let seconds = start.elapsed().as_secs_f64();
        let told: Vec<Sample> =
            asked.into_iter().map(|c| Sample::new(c.clone(), device.measure(&space, &c))).collect();
        best = told.iter().filter_map(|s| s.outcome.seconds()).fold(best, f64::min);
        felix.tell(&told);
        println!("round {round}: planned in {seconds:.3} s, best so far {:.2} us", best * 1e6);
    }

    let sketch = (0..space.sketches.len()).max_by_key(|s| space.sketches[*s].knobs.len()).unwrap_or(0);
    let Some(program) = felix.programs()[sketch].as_ref() else {
        return Err(format!("sketch {sketch} has no smooth formulas").into());
    };
    let mut rng = Rng::new(3);
    let n = 64 * 8;
    let points: Vec<f64> =
        (0..n).flat_map(|_| space.sample_in(sketch, &mut rng).values).map(|v| v as f64).collect();
    let network = SharedScorer::network(&target, 1, 1);
    let rate = |threads: usize, scorer: Option<&SharedScorer>| {
        let start = Instant::now();
        let repeats = 20;
        let work = |model: Option<&dyn DifferentiableScorer>| {
            let (mut scratch, mut grad) = (SmoothScratch::default(), vec![0.0; points.len()]);
            for _ in 0..repeats {
                match model {
                    Some(model) => score_gradient(program, &points, n, 0.2, model, &mut grad, &mut scratch),
                    None => {
                        let mut ones = |_: Range<usize>, _: &[f32], slopes: &mut [f32]| slopes.fill(1.0);
                        program.gradient(&points, n, 0.2, &mut ones, &mut grad, &mut scratch);
                    }
                }
            }
        };
        let run = |model: Option<&dyn DifferentiableScorer>| {
            std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(|| work(model)))));
        };
        match scorer {
            Some(scorer) => scorer.with(|model| run(Some(model))),
            None => run(None),
        }
        (threads * repeats * n) as f64 / start.elapsed().as_secs_f64()
    };
    for threads in [1, 2] {
        println!(
            "sketch {sketch}, {threads} threads, gradients a second: {:.0} of features alone, {:.0} with hidden units, {:.0} with the network",
            rate(threads, None),
            rate(threads, Some(&scorer)),
            rate(threads, Some(&network))
        );
    }
    Ok(())
}
