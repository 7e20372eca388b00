//! How many points per second a tape evaluates, forward and backward, on one core.
//!
//! `cargo run --release -p talweg-expr --example tape_speed`

use std::time::Instant;

use talweg_expr::{Expr, Scratch, Symbol, Tape, TapeError, UnaryOp};

/// Formulas as feature extraction writes them: products of tile sizes, rounded quotients, footprints, clamps.
fn formulas(knobs: &[Expr], outputs: usize, logs: bool) -> Vec<Expr> {
    let k = |at: usize| knobs[at % knobs.len()].clone();
    (0..outputs)
        .map(|o| {
            let trips = Expr::int(1024).ceil_div(k(o)) * k(o * 7 + 3);
            let inner = (k(o + 1) * k(o + 2) + k(o * 5 + 4)).max(k(o + 6) * 16);
            let bytes = (trips.div(inner.clone()) + k(o * 3 + 1) * k(o + 5)).min(Expr::int(32768));
            let ratio =
                Expr::select(inner.lt(&(k(o + 3) * 64 + o as i64)), bytes.clone(), trips.div(k(o + 4)));
            let sum = ratio + bytes;
            if logs { Expr::unary(UnaryOp::Log, sum + 1) } else { sum }
        })
        .collect()
}

fn measure(name: &str, outputs: &[Expr], inputs: &[Symbol]) -> Result<(), TapeError> {
    let tape = Tape::new(outputs, inputs)?;
    let n = 4096;
    let points: Vec<f64> = (0..n * inputs.len()).map(|i| ((i * 7919) % 61 + 1) as f64).collect();
    let mut out = vec![0.0; n * outputs.len()];
    let seed = vec![1.0; n * outputs.len()];
    let mut grad = vec![0.0; n * inputs.len()];
    let mut scratch = Scratch::new();
    let rounds = 40;
    let rate = |f: &mut dyn FnMut()| {
        f();
        let start = Instant::now();
        (0..rounds).for_each(|_| f());
        (n * rounds) as f64 / start.elapsed().as_secs_f64() / 1e6
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
