//! P2: features of a sketch at a point are the features of the program with the knobs substituted, and those are what
//! a naive walk over the program with numbers finds.

mod naive;

use std::collections::BTreeSet;

use talweg_expr::{Expr, Node, Symbol};
use talweg_features::{FeatureProgram, FeatureScratch, context, feature_names, per_store, relations};
use talweg_ir::{Dag, Nest};
use talweg_ops::testing::sample_spec;
use talweg_schedule::testing::{Random, random_schedule};
use talweg_schedule::{Schedule, Step, Trace};
use talweg_target::Target;

/// How many random cases; more with TALWEG_CASES.
fn cases(default: u64) -> u64 {
    std::env::var("TALWEG_CASES").ok().and_then(|v| v.parse().ok()).unwrap_or(default)
}

fn target() -> Target {
    Target::named("avx2").expect("a known target")
}

/// A random schedule whose split factors are knobs, with the values they had.
fn sketch(dag: &Dag, seed: u64) -> Option<(Nest, Vec<Symbol>, Vec<i64>)> {
    let trace = random_schedule(dag.clone(), seed, 6 + (seed % 17) as usize).trace().clone();
    let (mut knobs, mut values) = (Vec::new(), Vec::new());
    let mut open = Trace::default();
    for mut step in trace.steps {
        if let Step::Split { factors, .. } = &mut step {
            for f in factors {
                values.push(f.as_int()?);
                knobs.push(Symbol::knob(format!("k{}", knobs.len())));
                *f = Expr::sym(&knobs[knobs.len() - 1]);
            }
        }
        open.steps.push(step);
    }
    let nest = Schedule::replay(dag.clone(), &open).ok()?.lower().ok()?;
    Some((nest, knobs, values))
}

fn substituted(nest: &Nest, knobs: &[Symbol], point: &[i64]) -> Nest {
    let value = |s: &Symbol| knobs.iter().position(|k| k == s).map(|at| Expr::int(point[at]));
    nest.map_exprs(&mut |e| e.subst(&value))
}

fn constant(e: &Expr) -> f64 {
    match e.node() {
        Node::Int(v) => *v as f64,
        Node::Real(v) => f64::from_bits(*v),
        Node::Bool(v) => f64::from(u8::from(*v)),
        _ => panic!("`{e}` is not constant"),
    }
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 2e-6 * (1.0 + b.abs())
}

/// Points to compare at: the factors the random schedule had, and others.
fn points(values: &[i64], seed: u64) -> Vec<Vec<i64>> {
    let mut random = Random::new(seed ^ 77);
    let mut out = vec![values.to_vec(), vec![1; values.len()]];
    for most in [4, 16, 64] {
        out.push(values.iter().map(|_| 1 + random.below(most) as i64).collect());
    }
    out
}

fn check(
    label: &str,
    program: &FeatureProgram,
    point: &[i64],
    want: &[Vec<Expr>],
    name: &dyn Fn(usize) -> String,
) {
    let at: Vec<f64> = point.iter().map(|v| *v as f64).collect();
    let mut out = vec![0.0f32; program.rows() * program.width()];
    program.eval_batch(&at, 1, &mut out, &mut FeatureScratch::new());
    assert_eq!(want.len(), program.rows(), "{label}");
    for (row, want) in want.iter().enumerate() {
        assert_eq!(want.len(), program.width(), "{label}");
        for (k, w) in want.iter().enumerate() {
            let (got, w) = (f64::from(out[row * program.width() + k]), constant(w));
            assert!(got.is_finite(), "{label}\nrow {row}, {}: {got}", name(k));
            assert!(
                near(got, w),
                "{label}\nrow {row}, {}: {got} from the sketch, {w} from the program",
                name(k)
            );
        }
    }
}

#[test]
fn features_of_a_sketch_are_those_of_its_programs() {
    let names = feature_names();
    let (target, mut done, mut open) = (target(), 0, 0);
    let total = cases(150);
    for seed in 0..total {
        let spec = sample_spec(seed + 300, 3000);
        let dag = spec.build().expect("sampled specs are legal");
        let Some((nest, knobs, values)) = sketch(&dag, seed) else { continue };
        done += 1;
        open += usize::from(!knobs.is_empty());
        let stores = FeatureProgram::new(&nest, &knobs, &target).expect("all knobs are listed");
        let loops = FeatureProgram::of_context(&nest, &knobs).expect("all knobs are listed");
        let buffers = FeatureProgram::of_relations(&nest, &knobs).expect("all knobs are listed");
        for point in points(&values, seed) {
            let label = format!("seed {seed}: {spec}\n{nest}\nat {point:?}");
            let program = substituted(&nest, &knobs, &point);
            let want: Vec<Vec<Expr>> = per_store(&program, &target).into_iter().map(|s| s.values).collect();
            check(&label, &stores, &point, &want, &|k| names[k].to_string());
            let want: Vec<Vec<Expr>> = context(&program).into_iter().map(|l| l.values).collect();
            check(&label, &loops, &point, &want, &|k| format!("context {k}"));
            let want: Vec<Vec<Expr>> = relations(&program).into_iter().map(|b| b.values).collect();
            check(&label, &buffers, &point, &want, &|k| format!("relation {k}"));
        }
    }
    assert!(done * 10 >= total * 9, "only {done} of {total} schedules could be opened");
    assert!(open * 2 > done as usize, "only {open} sketches had knobs");
}

#[test]
fn features_of_a_program_are_what_a_walk_with_numbers_finds() {
    let names = feature_names();
    let target = target();
    let (mut compared, mut exact) = (0, 0);
    let mut seen = BTreeSet::new();
    for seed in 0..cases(250) {
        let spec = sample_spec(seed + 9000, 400);
        let dag = spec.build().expect("sampled specs are legal");
        let Some((nest, knobs, values)) = sketch(&dag, seed) else { continue };
        for point in points(&values, seed) {
            let program = substituted(&nest, &knobs, &point);
            let label = format!("seed {seed}: {spec}\n{program}");
            let features = per_store(&program, &target);
            let walked = naive::extract(&program, f64::from(target.line));
            assert_eq!(features.len(), walked.len(), "{label}");
            for (row, (f, w)) in features.iter().zip(walked).enumerate() {
                let Some(w) = w else { continue };
                compared += 1;
                exact += usize::from(w.exact);
                for (k, name) in names.iter().enumerate() {
                    let Some(v) = w.values.get(*name) else { continue };
                    let flag = name.contains("reuse_by_") || name.contains("reuse_none");
                    let (got, want) = (constant(&f.values[k]), if flag { *v } else { (v + 1.0).log2() });
                    // Where a box is not exact it is at least as large as what is reached.
                    let region = name.contains("unique") || name.contains("reuse");
                    let fine =
                        match (region && !w.exact, name.contains(".unique_bytes") && !name.contains("per")) {
                            (false, _) => near(got, want),
                            (true, true) => got >= want - 1e-6,
                            (true, false) => true,
                        };
                    assert!(fine, "{label}\nstore {row}, {name}: {got}, walked {want}");
                    seen.insert(*name);
                }
            }
        }
    }
    assert!(exact * 2 > compared, "only {exact} of {compared} stores have exact boxes");
    assert!(compared > 500 && seen.len() > 70, "{compared} stores, {} features", seen.len());
}
