//! Rows per second of training (rows times trees) and prediction (rows through 100 trees), on the sizes a
//! tuning run has; the shortest of a few runs.
//!
//! `cargo run --release -p talweg-cost --example trees_speed`

use std::time::Instant;

use talweg_cost::random::Stream;
use talweg_cost::{CostError, Matrix, Objective, Params, Squares, SummedSquares, Trees, one_row_each};

const ROWS: usize = 10_000;
const COLS: usize = 164;

/// Columns as features have them: half continuous, half with few distinct values; some constant.
fn features(stream: &mut Stream) -> Vec<f32> {
    let value = |index: usize, stream: &mut Stream| match (index % COLS) % 8 {
        0..4 => stream.unit() * 20.0,
        4..7 => stream.below(17) as f32,
        _ => 1.0,
    };
    (0..ROWS * COLS).map(|index| value(index, stream)).collect()
}

/// The shortest of several runs in seconds, and the last result.
fn best_of<T>(runs: usize, mut run: impl FnMut() -> T) -> (f64, Option<T>) {
    let mut best = (f64::INFINITY, None);
    for _ in 0..runs {
        let start = Instant::now();
        let result = run();
        best = (best.0.min(start.elapsed().as_secs_f64()), Some(result));
    }
    best
}

fn main() -> Result<(), CostError> {
    let mut stream = Stream::new(1, 1);
    let continuous: Vec<f32> = (0..ROWS * COLS).map(|_| stream.unit()).collect();
    let mixed = features(&mut stream);
    let offsets = one_row_each(ROWS);
    println!(
        "{:<12} {:<22} {:>9} {:>14} {:>7} {:>16}",
        "features", "model", "train s", "train rows/s", "nodes", "predict rows/s"
    );
    for (kind, data) in [("continuous", continuous), ("mixed", mixed)] {
        let data = Matrix::new(ROWS, COLS, data)?;
        let speed = |x: &[f32]| (1.0 + x[0] * x[1] + x[4] * (x[5] - x[2]).abs() + x[3].sin()).abs();
        let speeds: Vec<f32> = (0..ROWS).map(|row| speed(data.row(row))).collect();
        let fastest = speeds.iter().copied().fold(0.0, f32::max);
        let labels: Vec<f32> =
            speeds.iter().map(|speed| 0.9 * speed / fastest + 0.1 * stream.unit()).collect();
        let free = Params { min_child_weight: 0.0, ..Params::default() };
        for (name, params, summed) in [
            ("depth 6", free.clone(), false),
            ("depth 6, 64 bins", Params { max_bins: 64, ..free.clone() }, false),
            ("depth 6, 2 threads", Params { threads: 2, ..free.clone() }, false),
            ("depth 10", Params { max_depth: 10, ..free.clone() }, false),
            ("ansor", Params::ansor(), true),
            ("autotvm", Params::autotvm(), false),
        ] {
            let objective: &dyn Objective = if summed { &SummedSquares { floor: 0.0 } } else { &Squares };
            let (train, trees) =
                best_of(2, || Trees::fit(&data, &offsets, &labels, objective, &params, None, None));
            let Some(trees) = trees.transpose()? else { continue };
            let (predict, _) = best_of(5, || trees.predict_rows(&data));
            let nodes: usize = trees.trees().iter().map(|tree| tree.len()).sum();
            let rate = (ROWS * params.rounds) as f64 / train;
            println!(
                "{kind:<12} {name:<22} {train:>9.3} {rate:>14.0} {:>7} {:>16.0}",
                nodes / trees.trees().len().max(1),
                ROWS as f64 / predict
            );
        }
    }
    Ok(())
}
