//! How fast the network is: scores, gradients and training rows a second.
//!
//! `cargo run --release -p talweg-cost --example mlp_speed`

use std::time::Instant;

use talweg_cost::mlp::{Inputs, Mlp};
use talweg_cost::random::Stream;
use talweg_cost::{Batch, Matrix, Samples, TrainParams};

/// Stores of a program, as of a convolution with padding and epilogue.
const STORES: usize = 3;

fn main() -> Result<(), talweg_cost::CostError> {
    let mut stream = Stream::new(1, 1);
    let (programs, cols) = (2048, 166);
    let data = (0..programs * STORES * cols).map(|_| stream.unit() * 10.0).collect();
    let features = Matrix::new(programs * STORES, cols, data)?;
    let offsets: Vec<usize> = (0..=programs).map(|p| p * STORES).collect();
    let batch = Batch { features: &features, offsets: &offsets };
    for hidden in [128, 256] {
        let mlp = Mlp::new(Inputs::of(&features)?, hidden, 1)?;
        let time = |run: &dyn Fn() -> Result<(), talweg_cost::CostError>| {
            run()?;
            let start = Instant::now();
            let mut count = 0;
            while start.elapsed().as_secs_f64() < 1.0 {
                run()?;
                count += programs;
            }
            Ok::<f64, talweg_cost::CostError>(f64::from(count as u32) / start.elapsed().as_secs_f64())
        };
        let scores = time(&|| mlp.predict(&batch).map(drop))?;
        let gradients = time(&|| mlp.gradient(&batch).map(drop))?;
        let labels: Vec<f32> = (0..programs).map(|p| 1.0 / (1.0 + features.row(p * STORES)[0])).collect();
        let tasks: Vec<u32> = (0..programs as u32).map(|p| p / 32).collect();
        let samples = Samples { programs: batch, labels: &labels, tasks: &tasks };
        let start = Instant::now();
        let params = TrainParams { hidden, epochs: 20, ..TrainParams::default() };
        let trained = Mlp::train(&samples, &params)?.1;
        let rows = trained.rows as f64 / start.elapsed().as_secs_f64();
        let products = |cols: usize| (2 * cols * hidden) as f64;
        let forward = STORES as f64 * (products(192) + products(hidden)) + 2.0 * products(hidden);
        println!(
            "hidden {hidden}: {scores:.0} scores/s ({:.0} GFLOP/s), {gradients:.0} gradients/s ({:.0} GFLOP/s), programs of {STORES} stores; {rows:.0} training rows/s",
            scores * forward * 1e-9,
            gradients * 2.0 * forward * 1e-9
        );
    }
    Ok(())
}
