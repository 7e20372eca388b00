//! How many points per second a tape evaluates, forward and backward, on one core.
//!
//! `cargo run --release -p talweg-expr --example tape_speed`

use std::time::Instant;

use talweg_expr::{Expr, Scratch, Symbol, Tape, TapeError, UnaryOp};

/// Formulas as feature extraction writes them: trip counts that are products of rounded quotients, footprints that are
/// sums of products, clamps, and a ratio in every second one.
fn formulas(knobs: &[Expr], outputs: usize, logs: bool) -> Vec<Expr> {
    let k = |at: usize| knobs[at % knobs.len()].clone();
    (0..outputs)
        .map(|o| {
            let trips = Expr::int(1024 + (o % 8) as i64).ceil_div(k(o)) * k(o * 7 + 3) * k(o / 16 + 2);
            let tile = k(o + 1) * k(o + 2) * (o as i64 + 1) + k(o * 5 + 4) * 3;
            let footprint = tile.max(k(o + 6) * 16 + 5);
            let bytes = (footprint.clone() * k(o * 3 + 1) + trips.clone()).min(Expr::int(32768 + o as i64));
            let ratio = if o % 2 == 0 { trips.div(footprint.clone()) } else { trips };
            let chosen = Expr::select(footprint.lt(&(k(o + 3) * 64 + o as i64)), bytes.clone(), ratio);
            let sum = chosen * Expr::real(0.5) + bytes;
            if logs { Expr::unary(UnaryOp::Log, sum + 1) } else { sum }
        })
        .collect()
}

fn measure(name: &str, outputs: &[Expr], inputs: &[Symbol]) -> Result<(), TapeError> {
    let tape = Tape::new(outputs, inputs)?;
    let n = 2048;
    let points: Vec<f64> = (0..n * inputs.len()).map(|i| ((i * 7919) % 61 + 1) as f64).collect();
    let mut out = vec![0.0; n * outputs.len()];
    let seed = vec![1.0; n * outputs.len()];
    let mut grad = vec![0.0; n * inputs.len()];
    let mut scratch = Scratch::new();
    // The fastest round is the one that other processes disturbed least.
    let rate = |f: &mut dyn FnMut()| {
        let round = |f: &mut dyn FnMut()| {
            let start = Instant::now();
            f();
            start.elapsed().as_secs_f64()
        };
        let best = (0..60).map(|_| round(f)).fold(f64::INFINITY, f64::min);
        n as f64 / best / 1e6
    };
    let forward = rate(&mut || tape.eval(&points, n, &mut out, &mut scratch));
    let backward = rate(&mut || tape.gradient(&points, n, &seed, &mut out, &mut grad, &mut scratch));
    println!(
        "{name}: {} steps, {} slots, {} outputs: forward {forward:.2} M points/s, gradient {backward:.2} M points/s",
        tape.steps(),
        tape.slots(),
        tape.outputs(),
    );
    Ok(())
}

fn main() -> Result<(), TapeError> {
    let inputs: Vec<Symbol> = (0..16).map(|k| Symbol::knob(format!("t{k}"))).collect();
    let knobs: Vec<Expr> = inputs.iter().map(Expr::sym).collect();
    measure("arithmetic", &formulas(&knobs, 82, false), &inputs)?;
    measure("with logarithms", &formulas(&knobs, 82, true), &inputs)
}
