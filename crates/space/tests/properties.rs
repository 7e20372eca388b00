//! P1 every candidate computes what the tensor expression says; P4 every candidate that is sampled, repaired, mutated or
//! crossed satisfies its constraints and verifies; P5 its trace prints, parses and replays to the same program.

mod common;

use common::{Reference, cases};
use talweg_ir::{Buffer, Nest, Role};
use talweg_ops::testing::sample_spec;
use talweg_schedule::concrete::concretize;
use talweg_schedule::{Schedule, Trace};
use talweg_space::{Candidate, Rng, Space};
use talweg_target::Target;

const TARGETS: [&str; 3] = ["avx512", "avx2", "neon"];

fn space_of(seed: u64, elements: i64) -> (String, Space) {
    let spec = sample_spec(seed, elements);
    let dag = spec.build().expect("sampled specs are legal");
    let name = TARGETS[(seed % 3) as usize];
    let target = Target::named(name).expect("a known target");
    (format!("{name} seed {seed}: {spec}"), Space::of(&dag, &target))
}

/// The text of a nest, packed constants by their size only: open tiles of one element are dimensions of it, closed ones
/// are not.
fn shape(nest: &Nest) -> (Vec<String>, Vec<i64>) {
    let text = nest.to_string();
    let lines = text.lines().filter(|l| !l.contains(".packed")).map(str::to_string).collect();
    let packed = nest.buffers.iter().filter(|b| b.role == Role::Packed);
    let elements = |b: &Buffer| b.shape.iter().map(|e| e.as_int().expect("concrete")).product();
    (lines, packed.map(elements).collect())
}

#[test]
fn candidates_compute_the_right_thing() {
    for seed in 0..cases(150) {
        let (label, space) = space_of(seed, 1500);
        let reference = Reference::new(&space.dag);
        let mut rng = Rng::new(seed);
        for sketch in 0..space.sketches.len() {
            assert_ne!(space.sketches[sketch].name, "default", "{label}: no rule applies");
            for _ in 0..2 {
                let c = space.sample_in(sketch, &mut rng);
                let trace = space.trace(&c).expect("in the space");
                let label = format!("{label}\ncandidate {c}\n{trace}");
                assert!(space.satisfies(&c), "{label}");
                let nest = space.instantiate(&c).unwrap_or_else(|e| panic!("{label}\n{e}"));
                reference.check(&label, &nest);
            }
        }
    }
}

#[test]
fn traces_replay_to_the_same_program() {
    for seed in 0..cases(60) {
        let (label, space) = space_of(seed + 500, 1500);
        let reference = Reference::new(&space.dag);
        let c = space.sample(&mut Rng::new(seed));
        let trace = space.trace(&c).expect("in the space");
        let label = format!("{label}\ncandidate {c}\n{trace}");
        let parsed = Trace::parse(&trace.to_string()).unwrap_or_else(|e| panic!("{label}\n{e}"));
        assert_eq!(parsed, trace, "{label}");
        let schedule =
            Schedule::replay(space.dag.clone(), &parsed).unwrap_or_else(|e| panic!("{label}\n{e}"));
        let nest = concretize(&schedule.lower().expect("lowers"), &|_| None).expect("has no knobs");
        reference.check(&label, &nest);
        let symbolic = space.instantiate(&c).expect("legal");
        assert_eq!(shape(&nest), shape(&symbolic), "{label}");
        // The open trace is text too.
        let open = &space.sketches[c.sketch].trace;
        assert_eq!(&Trace::parse(&open.to_string()).expect("open traces parse"), open, "{label}");
    }
}

#[test]
fn repair_mutation_and_crossover_stay_legal() {
    let mut changed = 0;
    for seed in 0..cases(120) {
        let (label, space) = space_of(seed + 900, 60_000);
        let mut rng = Rng::new(seed);
        for _ in 0..6 {
            let (a, b) = (space.sample(&mut rng), space.sample(&mut rng));
            let m = space.mutate(&a, &mut rng);
            assert!(space.satisfies(&m), "{label}: {a} -> {m}");
            changed += u64::from(m != a);
            let child = space.crossover_by_node(&a, &b, &mut |_| rng.chance(0.5));
            assert!(space.satisfies(&child), "{label}: {a} x {b} -> {child}");
            let mut wild = Candidate { sketch: a.sketch, values: a.values.clone() };
            wild.values.iter_mut().for_each(|v| *v = rng.below(3000) as i64 - 100);
            assert!(space.repair(&mut wild));
            assert!(space.satisfies(&wild), "{label}: {wild}");
            let mut same = a.clone();
            assert!(space.repair(&mut same));
            assert_eq!(same, a, "{label}: legal candidates are left alone");
        }
    }
    assert!(changed > cases(120) * 4, "only {changed} mutations changed something");
}

#[test]
fn strangers_are_refused() {
    let (_, space) = space_of(3, 2000);
    let mut rng = Rng::new(1);
    let c = space.sample(&mut rng);
    let mut stray = Candidate { sketch: 99, values: vec![1] };
    assert!(!space.satisfies(&stray) && !space.repair(&mut stray));
    assert!(space.instantiate(&stray).expect_err("no such sketch").to_string().contains("no sketch 99"));
    assert!(space.satisfies(&space.mutate(&stray, &mut rng)));
    assert_eq!(space.crossover_by_node(&c, &stray, &mut |_| false), c);
    let mut short = c.clone();
    short.values.pop();
    assert!(space.trace(&short).expect_err("a value is missing").to_string().contains("knobs"));
    let mut outside = c;
    outside.values[0] = 1 << 40;
    assert!(space.check(&outside).expect_err("not in the domain").to_string().contains("domain"));
}

#[test]
fn sampling_is_deterministic() {
    for seed in 0..20 {
        let (label, space) = space_of(seed + 40, 5000);
        let draw = |s: &Space| {
            let mut rng = Rng::new(7);
            (0..20).map(|_| s.sample(&mut rng)).collect::<Vec<_>>()
        };
        assert_eq!(draw(&space), draw(&space_of(seed + 40, 5000).1), "{label}");
    }
}
