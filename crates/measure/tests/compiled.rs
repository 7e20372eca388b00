//! Candidates through the code generator: nest text in, verified times out.
#![cfg(target_arch = "x86_64")]

mod common;

use common::{Workshop, doubled};
use talweg_ir::{Array, DType, Nest};
use talweg_measure::{MeasureError, Task};

/// A matrix product with packed weights and a register tile, in parallel over the rows of tiles.
fn matmul(m: usize, n: usize, k: usize, tile: usize) -> Nest {
    let (rows, columns) = (m / tile, n / 16);
    let text = format!(
        "nest matmul_{tile} {{
  input A: f32[{m}, {k}]
  const B: f32[{k}, {n}]
  packed P: f32[{columns}, {k}, 16]
  output C: f32[{m}, {n}]
  local acc: f32[{tile}, 16]
  pack P[p, r, l] = B[r, p * 16 + l]
  parallel io in 0..{rows} {{
    for jo in 0..{columns} {{
      alloc acc
      unroll i0 in 0..{tile} {{
        vectorize j0 in 0..16 {{
          acc[i0, j0] = 0.0
        }}
      }}
      for r in 0..{k} {{
        unroll i in 0..{tile} {{
          vectorize j in 0..16 {{
            acc[i, j] += A[io * {tile} + i, r] * P[jo, r, j]
          }}
        }}
      }}
      unroll i1 in 0..{tile} {{
        vectorize j1 in 0..16 {{
          C[io * {tile} + i1, jo * 16 + j1] = acc[i1, j1]
        }}
      }}
    }}
  }}
}}"
    );
    Nest::parse(&text).unwrap()
}

fn product(a: &Array, b: &Array) -> Array {
    let (m, k, n) = (a.shape()[0], a.shape()[1], b.shape()[1]);
    let (x, y) = (a.as_f32().unwrap(), b.as_f32().unwrap());
    let sum =
        |i: usize, j: usize| (0..k).map(|r| f64::from(x[i * k + r]) * f64::from(y[r * n + j])).sum::<f64>();
    let values: Vec<f32> = (0..m * n).map(|at| sum(at / n, at % n) as f32).collect();
    Array::from_f32(DType::F32, &[m, n], &values).unwrap()
}

#[test]
fn compiled_candidates_are_right_and_timed() {
    let workshop = Workshop::new();
    let (m, n, k) = (24, 48, 40);
    let a = Array::random(DType::F32, &[m, k], 1);
    let b = Array::random(DType::F32, &[k, n], 2);
    let task = Task::new(&[("A", &a), ("B", &b)], &[("C", &product(&a, &b))], 1e-5).unwrap();
    let candidates: Vec<Nest> = [1, 2, 3, 4, 6, 8].iter().map(|tile| matmul(m, n, k, *tile)).collect();
    for threads in [1, 2] {
        let measurer = workshop.measurer(|options| options.threads = threads);
        for result in measurer.measure_batch(&task, &candidates) {
            let measured = result.unwrap();
            assert!(measured.difference.unwrap().max_rel_error <= 1e-5);
            assert!(measured.samples.median() > 0.0);
            assert!(measured.compile_seconds > 0.0 && measured.object_bytes > 0);
        }
    }
}

#[test]
fn faults_between_compiled_candidates_disturb_none() {
    let workshop = Workshop::new();
    let measurer = workshop.measurer(|options| options.build_workers = 1);
    let names = ["first", "build_abort", "second", "segfault", "third"];
    let nests: Vec<Nest> = names.iter().map(|name| doubled(name)).collect();
    let results = measurer.measure_batch(&workshop.task(), &nests);
    let good: Vec<bool> = results.iter().map(Result::is_ok).collect();
    assert_eq!(good, [true, false, true, false, true], "{results:?}");
}

#[test]
fn a_nest_that_cannot_be_compiled_says_why() {
    let workshop = Workshop::new();
    let measurer = workshop.measurer(|options| options.codegen.instruction_limit = 10);
    let error = measurer.build(&matmul(24, 48, 40, 8)).unwrap_err();
    assert!(matches!(&error, MeasureError::Build { text } if text.contains("matmul_8")), "{error}");
    let open = Nest::parse("nest open { input A: f32[n] output B: f32[n] }").unwrap();
    assert_eq!(measurer.build(&open).unwrap_err().cause(), "build");
}
