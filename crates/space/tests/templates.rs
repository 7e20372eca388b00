//! Template spaces: the shipped templates give legal candidates, and choices of every kind become knobs or sketches.

mod common;

use common::{Reference, cases};
use talweg_ops::spec::Spec;
use talweg_ops::testing::sample_spec;
use talweg_space::template::{
    AnnotatePolicy, Config, Contraction, ReorderPolicy, Shape, Sizes, SplitPolicy, Template, templates,
};
use talweg_space::{Rng, Space, SpaceError};
use talweg_target::Target;

fn space_of(spec: &str) -> Space {
    let dag = Spec::parse(spec).expect("a spec").build().expect("legal");
    Space::templated(&dag, &Target::named("avx512").expect("known")).unwrap_or_else(|| panic!("{spec}"))
}

#[test]
fn every_family_has_its_template() {
    for (spec, name) in [
        ("matmul:m=64,n=64,k=64", "dense"),
        ("bmm:b=4,m=32,n=32,k=32", "batch_matmul"),
        ("conv2d:n=1,h=14,w=14,c=32,f=32,k=1,s=1,p=0", "conv2d_pointwise"),
        ("conv2d:n=1,h=14,w=14,c=32,f=32,k=3,s=1,p=1,epilogue=bias+relu", "conv2d"),
        ("depthwise:n=1,h=14,w=14,c=32,k=3,s=1,p=1", "depthwise"),
        ("conv3d:n=1,d=4,h=7,w=7,c=16,f=16,k=3,s=1,p=1", "conv3d"),
        ("conv2d_transpose:n=1,h=4,w=4,c=32,f=32,k=4,s=2,p=1", "conv_transpose"),
    ] {
        let dag = Spec::parse(spec).expect("a spec").build().expect("legal");
        let shape = Shape::of(&dag).expect("one reduction");
        let found = templates().into_iter().find(|t| t.matches(&shape)).expect("a template");
        assert_eq!(found.name(), name, "{spec}: {shape:?}");
        let space = space_of(spec);
        assert!(space.size() > 50.0, "{spec}: {}", space.size());
    }
}

#[test]
fn candidates_compute_the_right_thing() {
    let mut tried = 0;
    for seed in 0..cases(120) {
        let spec = sample_spec(seed + 3000, 1200);
        let dag = spec.build().expect("sampled specs are legal");
        let target = Target::named(["avx512", "avx2", "neon"][(seed % 3) as usize]).expect("known");
        let Some(space) = Space::templated(&dag, &target) else { continue };
        let reference = Reference::new(&dag);
        let mut rng = Rng::new(seed);
        for _ in 0..3 {
            let c = space.sample(&mut rng);
            let label = format!("seed {seed}: {spec}\n{c}\n{}", space.trace(&c).expect("in the space"));
            let nest = space.instantiate(&c).unwrap_or_else(|e| panic!("{label}\n{e}"));
            reference.check(&label, &nest);
            tried += 1;
        }
    }
    assert!(tried > cases(120), "only {tried} candidates");
}

#[test]
fn indices_number_all_combinations() {
    let space = space_of("matmul:m=50,n=48,k=24");
    let count = space.combinations().expect("small");
    let mut rng = Rng::new(5);
    for _ in 0..200 {
        let c = space.sample(&mut rng);
        let index = space.index_of(&c).expect("in the space");
        assert!(index < count);
        assert_eq!(space.at_index(index), Some(c));
    }
    assert_eq!(space.at_index(count), None);
}

/// A template with every kind of choice.
struct Everything;

impl Template for Everything {
    fn name(&self) -> &'static str {
        "everything"
    }

    fn matches(&self, shape: &Shape) -> bool {
        shape.axes.len() == 2 && shape.reduce.len() == 1
    }

    fn schedule(&self, config: &mut Config) -> Result<(), SpaceError> {
        let c = Contraction::begin(config)?;
        let mut rows = SplitPolicy::new(Sizes::PowersOfTwo).max_factor(8);
        rows.filter = |_, size| size != 4;
        let i = config.split(&c.outer, &c.outer, "i", 2, &rows)?;
        let sizes = Sizes::Candidates(vec![vec![1, 16], vec![2, 16], vec![1, 32]]);
        let j = config.split(&c.outer, &c.outer, "j", 3, &SplitPolicy::new(sizes))?;
        let k = config.split(&c.local, &c.outer, "k", 2, &SplitPolicy::new(Sizes::Divisors).max_factor(4))?;
        let all = [&i.loops[0], &j.loops[0], &j.loops[1], &i.loops[1], &j.loops[2]].map(String::clone);
        config.reorder(&c.outer, &all, &ReorderPolicy::Identity)?;
        let blocks =
            config.reorder(&c.outer, &[i.loops[0].clone(), j.loops[0].clone()], &ReorderPolicy::All)?;
        if config.knob("unroll", &[0, 1]) == 1 {
            config.annotate(&c.local, &[k.inner()], &AnnotatePolicy::TryUnroll)?;
        }
        config.filter("small tile", i.inner_size() * j.inner_size(), 128);
        c.finish(config, &[i.inner(), j.inner()], &j.loops[1], &blocks, &k.loops)
    }
}

#[test]
fn choices_become_knobs_and_sketches() {
    let dag = Spec::parse("matmul:m=24,n=64,k=12").expect("a spec").build().expect("legal");
    let target = Target::named("avx512").expect("known");
    let space = Space::from_template(&dag, &target, &Everything).expect("it matches");
    // Two orders; not unrolled, or unrolled with an annotation taken or not, of which one is the same schedule again.
    assert_eq!(space.sketches.len(), 4, "{space}");
    let names: Vec<Vec<i64>> = space.sketches[0].knobs.iter().map(|k| k.domain.clone()).collect();
    assert_eq!(names, [vec![1, 2, 8], vec![1, 2, 3], vec![1, 2, 3, 4]]);
    let reference = Reference::new(&dag);
    let count = space.combinations().expect("small");
    let mut legal = 0;
    for index in 0..count {
        let c = space.at_index(index).expect("below the end");
        if space.satisfies(&c) {
            legal += 1;
            reference.check(&format!("{c}"), &space.instantiate(&c).expect("legal"));
        }
    }
    assert!(legal < count && legal as f64 == space.size(), "{legal} of {count}, estimated {}", space.size());
    let wrong = Spec::parse("softmax:rows=4,n=4").expect("a spec").build().expect("legal");
    let error =
        Space::from_template(&wrong, &target, &Everything).expect_err("no reduction to tile").to_string();
    assert!(error.contains("everything") && error.contains("softmax"), "{error}");
}
