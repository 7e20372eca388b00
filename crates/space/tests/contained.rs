//! The analytic default's schedules are points of the derived spaces: same loops, same kinds, same extents.

use talweg_ir::{Nest, Stmt};
use talweg_ops::spec::Spec;
use talweg_schedule::concrete::concretize;
use talweg_schedule::{Schedule, analytic};
use talweg_space::{Candidate, Space};
use talweg_target::Target;

/// Loops and stores without names of loops.
fn skeleton(nest: &Nest) -> String {
    fn walk(nest: &Nest, stmts: &[Stmt], depth: usize, out: &mut String) {
        for s in stmts {
            let pad = "  ".repeat(depth);
            match s {
                Stmt::For(l) => {
                    let extent = l.extent.as_int().map_or("varying".to_string(), |e| e.to_string());
                    *out += &format!("{pad}{:?} {extent}\n", l.kind);
                    walk(nest, &l.body, depth + 1, out);
                }
                Stmt::If { then, otherwise, .. } => {
                    *out += &format!("{pad}if\n");
                    walk(nest, then, depth + 1, out);
                    walk(nest, otherwise, depth + 1, out);
                }
                Stmt::Store { buffer, .. } => *out += &format!("{pad}store {}\n", nest.buffer(*buffer).name),
                Stmt::Alloc(_) => {}
            }
        }
    }
    let mut out = String::new();
    walk(nest, &nest.body, 0, &mut out);
    out
}

/// Finds the default schedule in the sketch named `sketch` at the given knobs, the others being smallest.
fn check(spec: &str, sketch: &str, knobs: &[(&str, i64)]) {
    let dag = Spec::parse(spec).expect("a spec").build().expect("legal");
    let mut target = Target::named("avx512").expect("known");
    target.l2 = 2 << 20;
    let space = Space::of(&dag, &target);
    let names: Vec<&str> = space.sketches.iter().map(|s| s.name.as_str()).collect();
    let at = names.iter().position(|n| *n == sketch).unwrap_or_else(|| panic!("{names:?}"));
    let mut candidate = Candidate { sketch: at, values: space.sketches[at].smallest() };
    for (name, value) in knobs {
        let find = |k: &talweg_space::Knob| k.symbol.name() == *name;
        let place =
            space.sketches[at].knobs.iter().position(find).unwrap_or_else(|| panic!("no knob {name}"));
        candidate.values[place] = *value;
    }
    space.check(&candidate).unwrap_or_else(|e| panic!("{spec}: {e}"));
    let found = space.instantiate(&candidate).expect("legal");
    let trace = analytic::default_trace(&dag, &target);
    let lowered = Schedule::replay(dag, &trace).expect("legal").lower().expect("lowers");
    let default = concretize(&lowered, &|_| None).expect("no knobs");
    assert_eq!(skeleton(&found), skeleton(&default), "{spec}\n{trace}\n{found}\n{default}");
}

#[test]
fn matmul() {
    check(
        "matmul:m=256,n=256,k=256",
        "matmul in registers",
        &[("matmul.i.2", 19), ("matmul.i.3", 14), ("matmul.j.3", 32), ("matmul.k.u", 2)],
    );
}

#[test]
fn matmul_with_epilogue() {
    check(
        "matmul:m=128,n=3072,k=768,epilogue=bias+gelu",
        "Y in registers",
        &[("Y.i.2", 15), ("Y.i.3", 9), ("Y.j.3", 48), ("Y.k.u", 2)],
    );
}

#[test]
fn convolution() {
    check(
        "conv2d:n=1,h=56,w=56,c=64,f=64,k=3,s=1,p=1,epilogue=bias+relu",
        "Y in registers, X.pad at root",
        &[
            ("Y.oh.2", 14),
            ("Y.ow.2", 4),
            ("Y.ow.3", 14),
            ("Y.f.3", 32),
            ("Y.kh.1", 3),
            ("Y.kw.1", 3),
            ("Y.c.1", 32),
            ("Y.c.u", 2),
            ("X.pad.c.v", 64),
        ],
    );
}

#[test]
fn convolution_with_padding_by_block() {
    check(
        "conv3d:n=1,d=8,h=28,w=28,c=64,f=64,k=3,s=1,p=1",
        "conv in registers, X.pad by block",
        &[
            ("conv.f.1", 2),
            ("conv.oh.2", 14),
            ("conv.ow.2", 2),
            ("conv.ow.3", 14),
            ("conv.f.3", 32),
            ("conv.kd.1", 3),
            ("conv.kh.1", 3),
            ("conv.kw.1", 3),
            ("conv.c.1", 32),
            ("conv.c.u", 2),
            ("X.pad.c.v", 64),
        ],
    );
}

#[test]
fn transposed_convolution() {
    check(
        "conv2d_transpose:n=1,h=4,w=4,c=512,f=256,k=4,s=2,p=1",
        "conv in registers, X.pad at root",
        &[
            ("conv.oh.3", 4),
            ("conv.ow.2", 2),
            ("conv.ow.3", 2),
            ("conv.f.3", 48),
            ("conv.kh.1", 2),
            ("conv.kw.1", 2),
            ("conv.c.1", 256),
            ("conv.c.u", 2),
            ("X.pad.c.v", 64),
        ],
    );
}

#[test]
fn kept_schedule_of_matmul() {
    let dag = Spec::parse("matmul:m=1024,n=1024,k=1024").expect("a spec").build().expect("legal");
    let space = Space::of(&dag, &Target::named("avx512").expect("known"));
    // Rows in tiles of 6, columns of 64, no unrolled reduction, as in the schedule kept in the repository, but in blocks.
    let candidate: Candidate = "0:1,43,6,1,1,64,1".parse().expect("a candidate");
    space.check(&candidate).expect("legal");
}

#[test]
fn depthwise() {
    check(
        "depthwise:n=1,h=112,w=112,c=32,k=3,s=1,p=1",
        "conv in registers, X.pad by block",
        &[
            ("conv.oh.2", 5),
            ("conv.ow.3", 7),
            ("conv.c.3", 32),
            ("conv.kh.u", 3),
            ("conv.kw.u", 3),
            ("X.pad.c.v", 32),
        ],
    );
}

#[test]
fn row_reductions() {
    let all = |n| ["Y", "sum", "exp", "max"].map(|s| (format!("{s}.j.v"), n)).to_vec();
    let knobs = all(128);
    let mut knobs: Vec<(&str, i64)> = knobs.iter().map(|(n, v)| (n.as_str(), *v)).collect();
    knobs.push(("Y.rows", 4));
    check("softmax:rows=1536,n=128", "Y by block of rows", &knobs);
    let knobs = [("Y.rows", 4), ("Y.j.v", 128), ("sqdev.j.v", 128), ("sum.j.v", 128)];
    check("layernorm:rows=128,n=768", "Y by block of rows", &knobs);
}

#[test]
fn spaces_are_large() {
    let target = Target::named("avx512").expect("known");
    let size = |spec: &str| {
        let dag = Spec::parse(spec).expect("a spec").build().expect("legal");
        Space::of(&dag, &target).size()
    };
    assert!(size("conv2d:n=1,h=56,w=56,c=64,f=64,k=3,s=1,p=1") > 1e7);
    assert!(size("matmul:m=1024,n=1024,k=1024") > 1e7);
    assert!(size("softmax:rows=1536,n=128") > 1e3);
}

#[test]
fn printing_names_everything() {
    let dag =
        Spec::parse("conv2d:n=1,h=7,w=7,c=32,f=32,k=3,s=1,p=1").expect("a spec").build().expect("legal");
    let space = Space::of(&dag, &Target::named("avx2").expect("known"));
    let text = space.to_string();
    for part in ["sketch 0:", "cache_write conv", "$conv.oh.3 in {1..7}", "registers of conv:", "candidates"]
    {
        assert!(text.contains(part), "{part}\n{text}");
    }
}
