//! Features of a small nest, computed by hand.

use talweg_expr::{Expr, Node, Symbol};
use talweg_features::{
    FeatureError, FeatureProgram, FeatureScratch, Machine, StoreFeatures, feature_names, per_store, relations,
};
use talweg_ir::Nest;
use talweg_target::Target;

const MATMUL: &str = "nest m {
  input A: f32[64, 32]
  input B: f32[32, 64]
  output C: f32[64, 64]
  parallel i in 0..64 {
    for k in 0..32 {
      vectorize j in 0..64 {
        C[i, j] += A[i, k] * B[k, j]
      }
    }
  }
}";

const TILED: &str = "nest m {
  input A: f32[60, 32]
  input B: f32[32, 64]
  output C: f32[60, 64]
  parallel i0 in 0..ceildiv(60, $t) {
    for k in 0..32 {
      for i1 in 0..min($t, 60 - i0 * $t) {
        vectorize j in 0..64 {
          C[i0 * $t + i1, j] += A[i0 * $t + i1, k] * B[k, j]
        }
      }
    }
  }
}";

fn parse(text: &str) -> Nest {
    Nest::parse(text).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

fn target() -> Target {
    Target::named("avx2").expect("a known target")
}

fn constant(e: &Expr) -> f64 {
    match e.node() {
        Node::Int(v) => *v as f64,
        Node::Real(v) => f64::from_bits(*v),
        _ => panic!("`{e}` is not constant"),
    }
}

/// The value of a store's feature.
fn named(store: &StoreFeatures, name: &str) -> f64 {
    let at = feature_names().iter().position(|n| *n == name);
    constant(&store.values[at.unwrap_or_else(|| panic!("no feature `{name}`"))])
}

/// A body of 12 x 8 vectors, on two threads.
#[test]
fn what_a_register_tile_asks_of_the_machine() {
    let text = TILED
        .replace("ceildiv(60, $t)", "5")
        .replace("for i1 in 0..min($t, 60 - i0 * $t)", "unroll i1 in 0..12")
        .replace("$t", "12");
    let target = target();
    let stores = per_store(&parse(&text), Machine::new(&target, 2));
    let of = |name: &str| named(&stores[0], name);
    let instructions = 5.0 * 32.0 * 12.0 * 8.0;
    let all_bytes = 4.0 * (60.0 * 32.0 + 32.0 * 64.0 + 60.0 * 64.0);
    // Three iterations for one thread, two for the other.
    let balance = 6.0 / 5.0;
    let cycles = instructions / 2.0 * balance;
    for (name, value) in [
        ("demand.instructions", instructions),
        ("demand.accumulators", 96.0),
        // A column of A, element by element, and a row of B.
        ("demand.loads", 12.0 + 8.0),
        ("demand.loads_each", 20.0 / 96.0),
        ("demand.l2_traffic", all_bytes),
        ("demand.l2_misses", all_bytes / instructions),
        ("demand.grain", instructions / 5.0),
        ("demand.slots", instructions),
        ("demand.cycles", cycles),
        ("demand.program", cycles),
    ] {
        let want = (value + 1.0f64).log2();
        assert!((of(name) - want).abs() < 1e-9, "{name}: {} is not {want}", of(name));
    }
    assert_eq!(of("demand.lanes"), 0.0);
    assert!((of("demand.balance") - balance.log2()).abs() < 1e-9);
}

#[test]
fn a_matrix_product() {
    let stores = per_store(&parse(MATMUL), &target());
    assert_eq!(stores.len(), 1);
    let of = |name: &str| named(&stores[0], name);
    let total = 64.0 * 32.0 * 64.0;
    for (name, value) in [
        ("float.multiply_add", total),
        ("float.add_sub", 0.0),
        ("vectorize.loops", 1.0),
        ("vectorize.innermost", 64.0),
        ("parallel.product", 64.0),
        ("block.x", 1.0),
        ("b0.bytes", 4.0 * total),
        ("b0.unique_bytes", 4.0 * 64.0 * 64.0),
        ("b0.lines", total / 16.0),
        ("b0.unique_lines", 4.0 * 64.0),
        ("b0.reuse_iterations", 64.0),
        ("b0.reuse_bytes", 256.0 + 4.0 + 256.0),
        ("b0.reuse_count", 32.0),
        ("b0.bytes_per_reuse", 4.0 * total / 32.0),
        ("b0.stride", 1.0),
        ("b1.lines", 64.0 * 32.0 / 16.0),
        ("b1.unique_bytes", 4.0 * 64.0 * 32.0),
        ("b1.reuse_iterations", 1.0),
        ("b1.reuse_bytes", 12.0),
        ("b1.reuse_count", 64.0),
        ("b2.reuse_iterations", 32.0 * 64.0),
        ("b2.reuse_bytes", 4.0 * (64.0 + 32.0 + 32.0 * 64.0)),
        ("b2.reuse_count", 64.0),
        ("b3.bytes", 0.0),
        ("intensity.100", 2.0 * total / (4.0 * (64.0 * 64.0 + 2.0 * 64.0 * 32.0))),
        ("alloc.bytes", 4.0 * 64.0 * 64.0),
        ("alloc.inner", total),
        ("outer.loops", 3.0),
        ("outer.unrolled_body", 8.0),
    ] {
        let (got, want) = (of(name), f64::log2(value + 1.0));
        assert!((got - want).abs() < 1e-9, "{name}: {got}, expected log2({value} + 1) = {want}");
    }
    let on = ["vectorize.inner_space", "unroll.none", "parallel.outer_space", "b0.read_write", "b1.read"];
    for name in on.into_iter().chain(["b0.reuse_by_loop", "b1.reuse_by_loop", "b2.reuse_by_loop"]) {
        assert_eq!(of(name), 1.0, "{name}");
    }
    assert_eq!(of("gpu") + of("b0.write") + of("b0.reuse_none") + of("vectorize.none"), 0.0);
}

#[test]
fn derivatives_are_finite_differences() {
    let text = MATMUL
        .replace("[64, 32]", "[$t, 32]")
        .replace("C: f32[64,", "C: f32[$t,")
        .replace("i in 0..64", "i in 0..$t");
    let knobs = [Symbol::knob("t")];
    let program = FeatureProgram::new(&parse(&text), &knobs, &target()).expect("the knob is listed");
    let mut scratch = FeatureScratch::new();
    let size = program.rows() * program.width();
    // Lines are rounded up: their derivative is that of the quotient, not of the steps.
    let names = feature_names();
    let weight = |k: usize| if names[k].contains("lines") { 0.0 } else { ((k * 7) % 5) as f32 - 2.0 };
    let seed: Vec<f32> = (0..size).map(weight).collect();
    let score = |t: f64, scratch: &mut FeatureScratch| {
        let mut out = vec![0.0; size];
        program.eval_batch(&[t], 1, &mut out, scratch);
        out.iter().zip(&seed).map(|(v, s)| f64::from(*v) * f64::from(*s)).sum::<f64>()
    };
    let points = [20.0, 33.0, 20.0];
    let mut grad = [0.0; 3];
    program.gradient_batch(&points, 3, &seed.repeat(3), &mut grad, &mut scratch);
    for (t, g) in points.into_iter().zip(grad) {
        let slope = (score(t + 0.25, &mut scratch) - score(t - 0.25, &mut scratch)) / 0.5;
        assert!((slope - g).abs() < 2e-3 * (1.0 + g.abs()), "at {t}: {g}, by differences {slope}");
        assert!(g.abs() > 1e-2, "{g}");
    }
}

#[test]
fn batches_are_rows_of_single_evaluations() {
    let knobs = [Symbol::knob("t")];
    let program = FeatureProgram::new(&parse(TILED), &knobs, &target()).expect("the knob is listed");
    let n = 700;
    let points: Vec<f64> = (0..n).map(|k| (1 + k % 61) as f64).collect();
    let size = program.rows() * program.width();
    let (mut all, mut single) = (vec![0.0; n * size], vec![0.0; size]);
    let mut scratch = FeatureScratch::new();
    program.eval_batch(&points, n, &mut all, &mut scratch);
    for k in [0, 63, 64, 255, 256, 699] {
        program.eval_batch(&points[k..=k], 1, &mut single, &mut scratch);
        assert_eq!(single, all[k * size..][..size], "candidate {k}");
    }
}

#[test]
fn a_knob_must_be_listed_once() {
    let nest = parse(TILED);
    let t = Symbol::knob("t");
    let error = FeatureProgram::new(&nest, &[], &target()).map(|p| p.rows());
    assert_eq!(error, Err(FeatureError::MissingKnob { nest: "m".into(), symbol: t.clone() }));
    let error = FeatureProgram::of_relations(&nest, &[t.clone(), t.clone()]).map(|p| p.rows());
    assert_eq!(error, Err(FeatureError::RepeatedKnob { nest: "m".into(), symbol: t }));
}

#[test]
fn curves_rise_with_their_thresholds() {
    let buffers = relations(&parse(MATMUL));
    assert_eq!(buffers.len(), 3);
    for b in &buffers {
        let values: Vec<f64> = b.values.iter().map(constant).collect();
        for pair in values.chunks(40) {
            let heights: Vec<f64> = pair.iter().step_by(2).copied().collect();
            assert!(heights.windows(2).all(|w| w[0] <= w[1]), "{heights:?}");
            assert!(pair.iter().skip(1).step_by(2).all(|gap| *gap > 0.0), "{pair:?}");
        }
    }
    // Above all thresholds' reach, the largest count and the largest reuse are seen.
    let a = &buffers[0].values;
    assert!((constant(&a[38]) - f64::log2(64.0 + 1.0)).abs() < 1e-9);
    assert!((constant(&a[40 + 38]) - f64::log2(64.0 * 32.0 + 1.0)).abs() < 1e-9);
}

/// An index relative to where a tile starts: at even `t` the outer loop leaves both quotients and cancels.
#[test]
fn quotients_that_cancel_at_some_values_of_a_knob() {
    let text = "nest q {
  input X: f32[9]
  output Y: f32[64]
  for a in 0..4 {
    for b in 0..$t {
      for x in 0..3 {
        Y[a * $t + b] += X[(a * $t + b + x) // 2 - (a * $t + b) // 2]
      }
    }
  }
}";
    let (nest, t) = (parse(text), Symbol::knob("t"));
    let program =
        FeatureProgram::new(&nest, std::slice::from_ref(&t), &target()).expect("the knob is listed");
    let names = feature_names();
    let by_loop = names.iter().position(|n| *n == "b1.reuse_count").expect("a name");
    let mut counts = Vec::new();
    for value in 1..=8 {
        let point = nest.map_exprs(&mut |e| e.subst(&|s| (*s == t).then(|| Expr::int(value))));
        let want: Vec<f64> = per_store(&point, &target())[0].values.iter().map(constant).collect();
        let mut got = vec![0.0; program.width()];
        program.eval_batch(&[value as f64], 1, &mut got, &mut FeatureScratch::new());
        for (k, (got, want)) in got.iter().zip(&want).enumerate() {
            assert!((f64::from(*got) - want).abs() < 1e-5, "{} at {value}: {got}, {want}", names[k]);
        }
        counts.push(want[by_loop]);
    }
    assert!(
        (counts[3] - f64::log2(5.0)).abs() < 1e-9,
        "the outer loop of 4 reads the same again: {counts:?}"
    );
}
