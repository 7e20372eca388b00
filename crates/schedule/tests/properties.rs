//! P1: a schedule never changes what is computed. P5: a trace printed, parsed and replayed is the same schedule.
//!
//! Every case is a seed: `TALWEG_CASES` sets how many, `TALWEG_SEED` the first, `TALWEG_TRACE` prints each before it
//! runs.

use talweg_ir::{Array, Dag, Nest, Role, Source, TensorId, compare, eval_dag, run_nest, verify_nest};
use talweg_ops::Spec;
use talweg_ops::testing::sample_spec;
use talweg_schedule::concrete::concretize;
use talweg_schedule::testing::{is_absurd, open_knobs, random_schedule, tiled_schedule};
use talweg_schedule::{Schedule, ScheduleError, Trace, analytic};
use talweg_target::Target;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(default)
}

/// Runs a check for many seeds; says how many failed and shows the first.
fn for_all(default: u64, check: impl Fn(u64) -> Result<(), String>) {
    let (first, cases) = (setting("TALWEG_SEED", 0), setting("TALWEG_CASES", default));
    let failures: Vec<String> = (first..first + cases)
        .filter_map(|seed| check(seed).err().map(|e| format!("seed {seed}: {e}")))
        .collect();
    assert!(failures.is_empty(), "{} of {cases} cases fail; the first: {}", failures.len(), failures[0]);
}

/// What a case is, for messages; printed first when asked for.
fn label(spec: &Spec, trace: &Trace) -> String {
    let label = format!("{spec}\n{trace}");
    if std::env::var_os("TALWEG_TRACE").is_some() {
        eprintln!("{label}");
    }
    label
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
fn compares_equal(dag: &Dag, nest: &Nest) -> Result<(), String> {
    verify_nest(nest)
        .map_err(|violations| violations.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))?;
    let given = inputs(dag);
    let expected = eval_dag(dag, &given).map_err(|e| e.to_string())?;
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
    run_nest(nest, &mut args).map_err(|e| e.to_string())?;
    for (id, want) in expected {
        let name = &dag.tensor(id).name;
        let (_, got) =
            args.iter().find(|(b, _)| nest.buffer(*b).name == *name).expect("outputs are arguments");
        let diff = compare(&want, got);
        if !diff.within(2e-5) {
            return Err(format!("`{name}`: {diff}"));
        }
    }
    Ok(())
}

/// The concrete nest of a schedule whose knobs have values.
fn program(schedule: &Schedule, knobs: &[(talweg_expr::Symbol, i64)]) -> Result<Nest, ScheduleError> {
    concretize(&schedule.lower()?, &|s| knobs.iter().find(|(k, _)| k == s).map(|(_, v)| *v))
}

/// Lowers, runs and compares one schedule.
fn computes_the_same(spec: &Spec, dag: &Dag, schedule: &Schedule) -> Result<(), String> {
    let label = label(spec, schedule.trace());
    let nest = program(schedule, &[]).map_err(|e| format!("{label}{e}"))?;
    if is_absurd(&nest) {
        return Ok(());
    }
    compares_equal(dag, &nest).map_err(|e| format!("{label}{nest}\n{e}"))
}

#[test]
fn random_schedules_compute_the_same() {
    for_all(2000, |seed| {
        let spec = sample_spec(seed, [150, 600, 3000][seed as usize % 3]);
        let dag = spec.build().map_err(|e| e.to_string())?;
        computes_the_same(&spec, &dag, &random_schedule(dag.clone(), seed, 4 + (seed % 17) as usize))
    });
}

#[test]
fn tiled_schedules_compute_the_same() {
    for_all(1000, |seed| {
        let spec = sample_spec(seed + 1_000_000, [600, 3000][seed as usize % 2]);
        let dag = spec.build().map_err(|e| e.to_string())?;
        computes_the_same(&spec, &dag, &tiled_schedule(dag.clone(), seed))
    });
}

/// Lowering with knobs left open and substituted afterwards computes the same as lowering with numbers.
#[test]
fn knobs_substituted_after_lowering_compute_the_same() {
    for_all(800, |seed| {
        let spec = sample_spec(seed + 2_000_000, 400);
        let dag = spec.build().map_err(|e| e.to_string())?;
        let closed = match seed % 2 {
            0 => random_schedule(dag.clone(), seed, 5 + (seed % 13) as usize),
            _ => tiled_schedule(dag.clone(), seed),
        };
        let (trace, knobs) = open_knobs(closed.trace(), seed);
        let label = format!("{}knobs {knobs:?}\n", label(&spec, &trace));
        let open = Schedule::replay(dag.clone(), &trace).map_err(|e| format!("{label}{e}"))?;
        let nest = program(&open, &knobs).map_err(|e| format!("{label}{e}"))?;
        if is_absurd(&nest) {
            return Ok(());
        }
        compares_equal(&dag, &nest).map_err(|e| format!("{label}{nest}\n{e}"))?;
        // Substituting in the trace instead leads to the schedule with numbers, by the same steps.
        let value = |s: &talweg_expr::Symbol| {
            knobs.iter().find(|(k, _)| k == s).map(|(_, v)| talweg_expr::Expr::int(*v))
        };
        let replayed = Schedule::replay(dag, &trace.subst(&value)).map_err(|e| format!("{label}{e}"))?;
        if replayed == closed {
            Ok(())
        } else {
            Err(format!("{label}substituted, the trace is another schedule"))
        }
    });
}

#[test]
fn traces_replay() {
    for_all(1500, |seed| {
        let spec = sample_spec(seed, 5000);
        let dag = spec.build().map_err(|e| e.to_string())?;
        let mut schedule = random_schedule(dag.clone(), seed, 20);
        if seed % 2 == 1 {
            let (open, _) = open_knobs(schedule.trace(), seed);
            schedule = Schedule::replay(dag.clone(), &open).map_err(|e| format!("{open}{e}"))?;
        }
        let text = schedule.trace().to_string();
        let parsed = Trace::parse(&text).map_err(|e| format!("{text}{e}"))?;
        assert_eq!(parsed.to_string(), text);
        assert_eq!(Schedule::replay(dag, &parsed).expect("it was legal before"), schedule);
        Ok(())
    });
}

#[test]
fn default_schedules_compute_the_same() {
    let targets = ["avx512", "avx2", "neon"].map(|name| Target::named(name).expect("a known target"));
    for_all(600, |seed| {
        let spec = sample_spec(seed / 3 + 7000, 4000);
        let dag = spec.build().map_err(|e| e.to_string())?;
        let target = &targets[seed as usize % 3];
        let trace = analytic::default_trace(&dag, target);
        let schedule =
            Schedule::replay(dag.clone(), &trace).map_err(|e| format!("{}{e}", label(&spec, &trace)))?;
        computes_the_same(&spec, &dag, &schedule).map_err(|e| format!("{}: {e}", target.isa.name()))
    });
}
