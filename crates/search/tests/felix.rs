//! Descent on real schedule spaces: smooth formulas, rounding, and the strategy on the simulated device.

mod common;

use std::collections::HashSet;
use std::sync::Arc;

use common::speed;
use talweg_expr::Scratch;
use talweg_features::{FeatureProgram, FeatureScratch, SmoothOptions, SmoothScratch};
use talweg_ir::verify_nest;
use talweg_ops::Spec;
use talweg_ops::testing::sample_spec;
use talweg_search::felix::hidden::HiddenUnits;
use talweg_search::felix::smooth_program;
use talweg_search::{
    Evolutionary, EvolutionaryParams, Features, Felix, FelixParams, ModelScorer, Outcome, Rng, Sample,
    SharedModel, SharedScorer, SimulatedDevice, SpaceDomain, Strategy,
};
use talweg_space::{Relaxation, Rounding, Space};
use talweg_target::{Isa, Target};

/// How many random cases; more with TALWEG_CASES.
fn cases(default: u64) -> u64 {
    std::env::var("TALWEG_CASES").ok().and_then(|v| v.parse().ok()).unwrap_or(default)
}

fn target() -> Target {
    Target::generic(Isa::Avx512)
}

fn sampled(seed: u64) -> (String, Space) {
    let spec = sample_spec(seed, 60_000);
    let space = Space::of(&spec.build().expect("sampled specs are legal"), &target());
    (format!("seed {seed}: {spec}"), space)
}

/// A random point of the box of a relaxed sketch: legal or not, whole or not.
fn any_point(relaxed: &Relaxation<'_>, rng: &mut Rng) -> Vec<f64> {
    relaxed.variables().iter().map(|v| v.lo + rng.unit() * (v.hi - v.lo)).collect()
}

/// P3: smooth features of every sketch are finite and have the derivatives finite differences find.
#[test]
fn smooth_features_are_finite_and_differentiable() {
    let (mut checked, mut sharp) = (0, 0);
    for seed in 0..cases(24) {
        let (label, space) = sampled(seed);
        let mut rng = Rng::new(seed);
        for (number, sketch) in space.sketches.iter().enumerate() {
            let options = SmoothOptions { rewrites: seed % 2 == 0 };
            let program = smooth_program(sketch, &target(), options).expect("formulas of knobs");
            let relaxed = Relaxation::new(sketch);
            let (knobs, tape) = (sketch.knobs.len(), program.tape());
            let mut scratch = Scratch::new();
            for width in [0.5, 0.15] {
                let mut x: Vec<f64> = any_point(&relaxed, &mut rng).iter().map(|x| x.exp()).collect();
                let label = format!("{label} sketch {number} at {x:?}, width {width}");
                let (mut penalty, mut pull) = ([0.0], vec![0.0; knobs]);
                program.penalty(&x, 1, width, &mut penalty, &mut pull, &mut SmoothScratch::default());
                assert!(penalty[0].is_finite() && pull.iter().all(|g| g.is_finite()), "{label}");
                x.push(width);
                // A random direction in the features.
                let seeds: Vec<f64> = (0..tape.outputs()).map(|_| 2.0 * rng.unit() - 1.0).collect();
                let (mut out, mut grad) = (vec![0.0; tape.outputs()], vec![0.0; knobs + 1]);
                tape.gradient(&x, 1, &seeds, &mut out, &mut grad, &mut scratch);
                assert!(out.iter().chain(&grad).all(|v| v.is_finite()), "{label}: {out:?} {grad:?}");
                let mut value = |k: usize, h: f64| -> f64 {
                    let mut moved = x.clone();
                    moved[k] *= 1.0 + h;
                    tape.eval(&moved, 1, &mut out, &mut scratch);
                    out.iter().zip(&seeds).map(|(f, s)| f * s).sum()
                };
                for k in 0..knobs {
                    let mut slope = |h: f64| (value(k, h) - value(k, -h)) / (2.0 * h);
                    let (coarse, fine) = (slope(2e-6), slope(1e-6));
                    let found = grad[k] * x[k];
                    // Where both steps disagree the curve bends within them.
                    let bound = 1e-3 * (1.0 + found.abs()) + 4.0 * (coarse - fine).abs();
                    assert!(
                        (found - fine).abs() <= bound,
                        "{label} knob {k}: {found}, not {fine} or {coarse}"
                    );
                    checked += 1;
                    sharp += usize::from((coarse - fine).abs() < 1e-2 * (1.0 + found.abs()));
                }
            }
        }
    }
    assert!(checked > 200 && sharp * 100 > checked * 95, "{sharp} of {checked} slopes are sharp");
}

/// Narrow smooth features of legal candidates are the exact ones, but for the few where something is rounded that is smoothed
/// itself (see `talweg_expr::smooth`); these are near.
#[test]
fn narrow_features_are_exact() {
    let (mut all, mut off) = (0, 0);
    for seed in 100..100 + cases(12) {
        let (label, space) = sampled(seed);
        let mut rng = Rng::new(seed);
        for (at, sketch) in space.sketches.iter().enumerate() {
            let program = smooth_program(sketch, &target(), SmoothOptions::default()).expect("formulas");
            let symbols = Relaxation::new(sketch).symbols();
            let exact = FeatureProgram::new(&sketch.nest, &symbols, &target()).expect("formulas");
            let values = space.sample_in(at, &mut rng).values;
            let x: Vec<f64> = values.iter().map(|v| *v as f64).collect();
            let mut want = vec![0.0; exact.rows() * exact.width()];
            exact.eval_batch(&x, 1, &mut want, &mut FeatureScratch::new());
            let found = program.features(&x, 1, 1e-6, &mut SmoothScratch::default());
            let apart = |share: f32| {
                want.iter().zip(&found).filter(|(a, b)| (**a - **b).abs() > share * (1.0 + a.abs())).count()
            };
            let names = talweg_features::feature_names();
            let far = want
                .iter()
                .zip(&found)
                .enumerate()
                .find(|(_, (a, b))| (**a - **b).abs() > 0.1 * (1.0 + a.abs()));
            let far = far.map(|(k, (a, b))| {
                format!("{} of row {}: {b}, exactly {a}", names[k % names.len()], k / names.len())
            });
            assert_eq!(far, None, "{label} sketch {at} at {values:?}: {} features differ", apart(0.1));
            all += want.len();
            off += apart(0.02);
        }
    }
    assert!(off * 1000 <= all, "{off} of {all} features differ by 2 % or more");
}

/// P4: whatever a descent rounds is legal, lowers and verifies.
#[test]
fn rounded_points_are_legal_and_verify() {
    let mut distinct = HashSet::new();
    for seed in 200..200 + cases(60) {
        let (label, space) = sampled(seed);
        let mut rng = Rng::new(seed);
        for (at, sketch) in space.sketches.iter().enumerate() {
            let relaxed = Relaxation::new(sketch);
            for rounding in [Rounding::Nearest, Rounding::Neat] {
                let c = relaxed.round(at, &any_point(&relaxed, &mut rng), rounding);
                assert!(space.satisfies(&c), "{label}: {c}");
                let nest = space.instantiate(&c).unwrap_or_else(|e| panic!("{label}: {c}: {e}"));
                assert!(verify_nest(&nest).is_ok(), "{label}: {c}");
                distinct.insert((seed, c));
            }
            // Legal candidates round to themselves.
            let legal = space.sample_in(at, &mut rng);
            assert_eq!(relaxed.round(at, &relaxed.point(&legal.values), Rounding::Nearest), legal, "{label}");
        }
    }
    assert!(distinct.len() > 100);
}

fn space(spec: &str) -> Arc<Space> {
    let dag = Spec::parse(spec).expect("a known operator").build().expect("a legal operator");
    Arc::new(Space::of(&dag, &target()))
}

fn felix(space: &Arc<Space>, params: FelixParams, seed: u64) -> Felix {
    let scorer = SharedScorer::new(Box::new(HiddenUnits::new(128, 24, seed)));
    Felix::new(space, &target(), scorer, 0, params, seed).expect("formulas")
}

fn evolutionary(space: &Arc<Space>, seed: u64) -> Evolutionary {
    let scorer = ModelScorer::new(space, &target(), Features::Stores, SharedModel::ansor(seed), 0);
    let params = EvolutionaryParams { population: 512, ..EvolutionaryParams::default() };
    let domain = Arc::new(SpaceDomain::new(space.clone()));
    Evolutionary::new(domain, Box::new(scorer.expect("features")), params, seed)
}

fn run(strategy: &mut dyn Strategy, space: &Space, trials: usize) -> Vec<Sample> {
    common::run(strategy, &SimulatedDevice::new(target()), space, trials, 32)
}

fn trials_to(samples: &[Sample], speed: f64) -> usize {
    samples.iter().position(|s| s.outcome.speed() >= speed).map_or(2 * samples.len(), |at| at + 1)
}

#[test]
fn felix_needs_fewer_trials_than_evolution() {
    let (mut mine, mut other) = (0, 0);
    for (spec, seeds) in [("matmul:m=128,n=256,k=64", 2), ("conv2d:n=1,h=28,w=28,c=32,f=64,k=3,s=1,p=1", 1)] {
        let space = space(spec);
        for seed in 0..seeds {
            let evolved = run(&mut evolutionary(&space, seed), &space, 192);
            let goal = 0.95 * speed(&evolved);
            let params = FelixParams { gradients: 8000, ..FelixParams::default() };
            let descended = run(&mut felix(&space, params, seed), &space, 192);
            assert!(speed(&descended) >= goal, "{spec} with seed {seed}");
            mine += trials_to(&descended, goal);
            other += trials_to(&evolved, goal);
        }
    }
    assert!(mine < other, "felix took {mine} trials, evolution {other}");
}

#[test]
fn the_same_seed_asks_the_same_on_any_number_of_threads() {
    let space = space("matmul:m=96,n=128,k=50");
    let of = |seed: u64, threads: usize| {
        let mut params = FelixParams { gradients: 2000, ..FelixParams::default() };
        params.descent.threads = threads;
        run(&mut felix(&space, params, seed), &space, 96)
    };
    let first = of(3, 2);
    assert_eq!(first, of(3, 1));
    assert_ne!(first, of(4, 2));
    let distinct: HashSet<_> = first.iter().map(|s| &s.candidate).collect();
    assert_eq!(distinct.len(), 96);
    assert!(first.iter().all(|s| space.satisfies(&s.candidate)));
}

#[test]
fn the_first_rounds_of_an_informed_search_are_short() {
    let space = space("matmul:m=96,n=128,k=50");
    let rounds = |opening: usize, grows: bool| {
        let params = FelixParams { opening, grows, gradients: 2000, ..FelixParams::default() };
        let network = SharedScorer::network(&target(), 1, 1);
        let mut felix = Felix::new(&space, &target(), network, 0, params, 1).expect("features");
        let device = SimulatedDevice::new(target());
        [(); 4].map(|()| {
            let asked = felix.ask(100);
            let told = asked.iter().map(|c| Sample::new(c.clone(), device.measure(&space, c)));
            felix.tell(&told.collect::<Vec<_>>());
            asked.len()
        })
    };
    assert_eq!(rounds(8, true), [8, 8, 16, 32]);
    assert_eq!(rounds(8, false), [8, 32, 32, 32]);
    assert_eq!(rounds(0, true), [32, 32, 32, 32]);
    assert_eq!(rounds(500, true), [32, 32, 32, 32]);
}

#[test]
fn openings_of_many_tasks_are_short() {
    let opening =
        |opening: usize, tasks: usize| FelixParams { opening, ..FelixParams::default() }.among(tasks).opening;
    assert_eq!([1, 8, 16, 40].map(|tasks| opening(8, tasks)), [8, 8, 4, 3]);
    assert_eq!([opening(0, 1), opening(0, 40), opening(2, 40)], [0, 0, 2]);
    let grows = |tasks: usize| FelixParams::default().among(tasks).grows;
    assert_eq!([1, 2, 30].map(grows), [true, false, false]);
}

#[test]
fn failures_small_spaces_and_earlier_samples_are_handled() {
    let space = space("softmax:rows=2,n=8");
    let all = run(&mut felix(&space, FelixParams::default(), 1), &space, 100_000);
    let grid = run(&mut talweg_search::Grid::new(Arc::new(SpaceDomain::new(space.clone()))), &space, 100_000);
    assert_eq!(all.len(), grid.len());
    let mut resumed = felix(&space, FelixParams::default(), 1);
    resumed.tell(&all[..all.len() / 2]);
    let known: HashSet<_> = all[..all.len() / 2].iter().map(|s| s.candidate.clone()).collect();
    assert!(resumed.ask(5).iter().all(|c| !known.contains(c)));
    let mut unlucky = felix(&space, FelixParams::default(), 2);
    for _ in 0..3 {
        let told: Vec<Sample> =
            unlucky.ask(24).into_iter().map(|c| Sample::new(c, Outcome::Failed)).collect();
        unlucky.tell(&told);
    }
}
