//! Prints the median time of an empty parallel loop: `cargo run --release --example fork_join [THREADS]`.

use std::time::Instant;
use talweg_runtime::ThreadPool;
use talweg_runtime::affinity::{allowed_cores, pin_current_thread};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let cores = allowed_cores();
    let threads = match std::env::args().nth(1) {
        Some(text) => text.parse()?,
        None => cores.len(),
    };
    let pool = if threads <= cores.len() { ThreadPool::pinned(threads)? } else { ThreadPool::new(threads)? };
    pin_current_thread(cores[0])?;
    let mut times: Vec<f64> = Vec::new();
    for round in 0..30_000 {
        let start = Instant::now();
        pool.run(threads as i64, |begin, end, worker| {
            std::hint::black_box((begin, end, worker));
        });
        let elapsed = start.elapsed().as_secs_f64() * 1e6;
        if round >= 5_000 {
            times.push(elapsed);
        }
    }
    times.sort_by(f64::total_cmp);
    let quantile = |q: f64| times[(q * (times.len() - 1) as f64) as usize];
    println!(
        "fork-join on {threads} threads: median {:.2} us, 10 % {:.2} us, 99 % {:.2} us",
        quantile(0.5),
        quantile(0.1),
        quantile(0.99)
    );
    Ok(())
}
