//! How many different small kernels are compiled, checked and measured per second of wall clock.
//!
//! `cargo run --release -p talweg-measure --example throughput [COUNT]`

use std::time::Instant;

use talweg_ir::{Array, DType, Nest};
use talweg_measure::{MeasureOptions, Measurer, Task, worker_main};
use talweg_target::Target;

const M: usize = 48;
const N: usize = 192;
const K: usize = 64;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let argument = std::env::args().nth(1);
    if argument.as_deref() == Some("worker") {
        worker_main();
    }
    let count: usize = argument.map_or(Ok(200), |a| a.parse())?;
    let measurer = Measurer::new(MeasureOptions::new(Target::host())?)?;
    let start = Instant::now();
    measurer.start()?;
    let workers = measurer.workers_started();
    println!("{workers} workers started in {:.1} ms", start.elapsed().as_secs_f64() * 1e3);

    let a = Array::random(DType::F32, &[M, K], 1);
    let b = Array::random(DType::F32, &[K, N], 2);
    let task = Task::new(&[("A", &a), ("B", &b)], &[("C", &product(&a, &b)?)], 1e-5)?;
    let nests: Vec<Nest> = variants().take(count).collect::<Result<_, _>>()?;
    let start = Instant::now();
    let results = measurer.measure_batch(&task, &nests);
    let seconds = start.elapsed().as_secs_f64();

    let mut compile: Vec<f64> = results.iter().flatten().map(|m| m.compile_seconds * 1e3).collect();
    compile.sort_by(f64::total_cmp);
    let best = results.iter().flatten().map(|m| m.samples.median()).fold(f64::INFINITY, f64::min);
    println!(
        "{} of {} kernels measured in {seconds:.2} s: {:.1} per second; compiling {:.1} ms (median); best {:.1} GFLOP/s",
        compile.len(),
        nests.len(),
        nests.len() as f64 / seconds,
        compile.get(compile.len() / 2).copied().unwrap_or_default(),
        2e-9 * (M * N * K) as f64 / best
    );
    for error in results.iter().filter_map(|r| r.as_ref().err()).take(3) {
        println!("{}: {error}", error.cause());
    }
    Ok(())
}

/// Register-tiled products with different tiles and loop orders.
fn variants() -> impl Iterator<Item = Result<Nest, talweg_ir::ParseError>> {
    let tiles = [1, 2, 3, 4, 6, 8].into_iter().flat_map(|tm| [1, 2, 3, 4].map(|tv| (tm, tv)));
    let unrolled = tiles.flat_map(|(tm, tv)| [1, 2, 4].map(|u| (tm, tv, u)));
    let orders = unrolled.flat_map(|(tm, tv, u)| [false, true].map(|swap| (tm, tv, u, swap)));
    orders.filter(|(tm, tv, u, _)| tm * tv * u <= 96).enumerate().map(|(at, (tm, tv, u, swap))| {
        let (width, rows, columns) = (16 * tv, M / tm, N / (16 * tv));
        let outer = [format!("for io in 0..{rows} {{"), format!("for jo in 0..{columns} {{")];
        let [first, second] = if swap { [&outer[1], &outer[0]] } else { [&outer[0], &outer[1]] };
        Nest::parse(&format!(
            "nest matmul_{at} {{
  input A: f32[{M}, {K}]
  const B: f32[{K}, {N}]
  packed P: f32[{columns}, {K}, {width}]
  output C: f32[{M}, {N}]
  local acc: f32[{tm}, {width}]
  pack P[p, r, l] = B[r, p * {width} + l]
  {first} {second}
    alloc acc
    unroll i0 in 0..{tm} {{ unroll v0 in 0..{tv} {{ vectorize j0 in 0..16 {{ acc[i0, v0 * 16 + j0] = 0.0 }} }} }}
    for ro in 0..{steps} {{ unroll r in 0..{u} {{
      unroll i in 0..{tm} {{ unroll v in 0..{tv} {{ vectorize j in 0..16 {{
        acc[i, v * 16 + j] += A[io * {tm} + i, ro * {u} + r] * P[jo, ro * {u} + r, v * 16 + j]
      }} }} }}
    }} }}
    unroll i1 in 0..{tm} {{ unroll v1 in 0..{tv} {{ vectorize j1 in 0..16 {{
      C[io * {tm} + i1, jo * {width} + v1 * 16 + j1] = acc[i1, v1 * 16 + j1]
    }} }} }}
  }} }}
}}",
            steps = K / u
        ))
    })
}

fn product(a: &Array, b: &Array) -> Result<Array, talweg_ir::DataError> {
    let missing = &[][..];
    let (x, y) = (a.as_f32().unwrap_or(missing), b.as_f32().unwrap_or(missing));
    let value =
        |i: usize, j: usize| (0..K).map(|r| f64::from(x[i * K + r]) * f64::from(y[r * N + j])).sum::<f64>();
    let values: Vec<f32> = (0..M * N).map(|at| value(at / N, at % N) as f32).collect();
    Array::from_f32(DType::F32, &[M, N], &values)
}
