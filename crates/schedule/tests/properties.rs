//! P1: a schedule never changes what is computed. P5: a trace printed, parsed and replayed is the same schedule.

use talweg_ir::{Array, Dag, Nest, Role, Source, TensorId, compare, eval_dag, run_nest, verify_nest};
use talweg_ops::testing::sample_spec;
use talweg_schedule::concrete::concretize;
use talweg_schedule::testing::random_schedule;
use talweg_schedule::{Schedule, Trace, analytic};
use talweg_target::Target;

/// How many random cases; more with TALWEG_CASES.
fn cases(default: u64) -> u64 {
    std::env::var("TALWEG_CASES").ok().and_then(|v| v.parse().ok()).unwrap_or(default)
}

fn extents(shape: &[talweg_expr::Expr]) -> Vec<usize> {
    shape.iter().map(|e| e.as_int().expect("concrete") as usize).collect()
}

fn inputs(dag: &Dag) -> Vec<(TensorId, Array)> {
    let given = dag.ids().filter(|id| !matches!(dag.tensor(*id).source, Source::Compute(_)));
    given
        .map(|id| {
            let t = dag.tensor(id);
            (id, Array::random(t.dtype, &extents(&t.shape), u64::from(id.0) + 1))
        })
        .collect()
}

/// Runs the nest on the same inputs and compares every output; integers exactly, floats within rounding.
fn check(label: &str, dag: &Dag, nest: &Nest) {
    if let Err(violations) = verify_nest(nest) {
        panic!(
            "{label}\n{nest}\n{}",
            violations.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
        );
    }
    let given = inputs(dag);
    let expected = eval_dag(dag, &given).unwrap_or_else(|e| panic!("{label}: {e}"));
    let mut args: Vec<(TensorId, Array)> = Vec::new();
    for id in nest.arguments() {
        let b = nest.buffer(id);
        match b.role {
            Role::Input | Role::Const => {
                let from = dag.find(&b.name).expect("arguments keep their names");
                args.push((id, given.iter().find(|(t, _)| *t == from).expect("given").1.clone()));
            }
            Role::Output => args.push((id, Array::zeros(b.dtype, &extents(&b.shape)))),
            _ => {}
        }
    }
    run_nest(nest, &mut args).unwrap_or_else(|e| panic!("{label}\n{nest}\n{e}"));
    for (id, want) in expected {
        let name = &dag.tensor(id).name;
        let (_, got) =
            args.iter().find(|(b, _)| nest.buffer(*b).name == *name).expect("outputs are arguments");
        let diff = compare(&want, got);
        assert!(diff.within(2e-5), "{label}\n{nest}\n`{name}`: {diff}");
    }
}

/// Absurd factors can blow a packed constant up beyond memory; such a schedule is legal but not worth running.
fn is_huge(nest: &Nest) -> bool {
    let elements = |b: &talweg_ir::Buffer| extents(&b.shape).iter().map(|e| *e as f64).product::<f64>();
    nest.buffers.iter().any(|b| elements(b) > 4e6)
}

#[test]
fn random_schedules_compute_the_same() {
    let mut huge = 0;
    for seed in 0..cases(1500) {
        let spec = sample_spec(seed, 600);
        let dag = spec.build().expect("sampled specs are legal");
        let schedule = random_schedule(dag.clone(), seed, 4 + (seed % 17) as usize);
        let label = format!("seed {seed}: {spec}\n{}", schedule.trace());
        let nest = schedule.lower().unwrap_or_else(|e| panic!("{label}: {e}"));
        let nest = concretize(&nest, &|_| None).unwrap_or_else(|e| panic!("{label}: {e}"));
        if is_huge(&nest) {
            huge += 1;
            continue;
        }
        check(&label, &dag, &nest);
    }
    assert!(huge * 50 < cases(1500), "{huge} schedules were too large to run");
}

#[test]
fn traces_replay() {
    for seed in 0..cases(1500) {
        let dag = sample_spec(seed, 5000).build().expect("sampled specs are legal");
        let schedule = random_schedule(dag.clone(), seed, 20);
        let text = schedule.trace().to_string();
        let parsed = Trace::parse(&text).unwrap_or_else(|e| panic!("{text}: {e}"));
        assert_eq!(parsed.to_string(), text);
        assert_eq!(Schedule::replay(dag, &parsed).expect("it was legal before"), schedule);
    }
}

#[test]
fn default_schedules_compute_the_same() {
    for name in ["avx512", "avx2", "neon"] {
        let target = Target::named(name).expect("a known target");
        for seed in 0..cases(250) {
            let spec = sample_spec(seed + 7000, 4000);
            let dag = spec.build().expect("sampled specs are legal");
            let trace = analytic::default_trace(&dag, &target);
            let label = format!("{name} seed {seed}: {spec}\n{trace}");
            let schedule = Schedule::replay(dag.clone(), &trace).unwrap_or_else(|e| panic!("{label}: {e}"));
            let nest = schedule.lower().unwrap_or_else(|e| panic!("{label}: {e}"));
            let nest = concretize(&nest, &|_| None).unwrap_or_else(|e| panic!("{label}: {e}"));
            check(&label, &dag, &nest);
        }
    }
}
