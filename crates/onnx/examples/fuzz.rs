//! A long run of mutations: `fuzz [--seconds 1800] [--seed 0] [FILE...]`. Files are further seeds, small models best.
//!
//! Mutants that give a graph, or an error not seen before, join the seeds, so that later mutants get further. A panic
//! ends the run with the mutant in `crash.onnx`.

#[path = "../tests/models/mod.rs"]
mod models;
#[path = "../tests/models/mutate.rs"]
mod mutate;

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use mutate::{Random, mutate};
use talweg_onnx::{ImportOptions, import_bytes};

#[derive(Parser)]
struct Arguments {
    /// How long to run.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// The first random number.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Further models to start from.
    files: Vec<PathBuf>,
}

/// What tells results apart: the error with everything that varies taken out, or the operators of the graph.
fn kind(bytes: Vec<u8>) -> String {
    let dims = [("batch".to_string(), 2)].into();
    match import_bytes(bytes, None, &ImportOptions { dims, ..ImportOptions::default() }) {
        Ok(graph) => graph.nodes.iter().map(|node| node.op.name()).collect::<Vec<_>>().join(" "),
        Err(error) => {
            let text = error.to_string();
            let quoted = text.split('`').step_by(2).collect::<String>();
            quoted.chars().filter(|c| c.is_alphabetic()).take(60).collect()
        }
    }
}

fn main() -> std::io::Result<ExitCode> {
    let arguments = Arguments::parse();
    let mut pool = models::seeds();
    for file in &arguments.files {
        pool.push(std::fs::read(file)?);
    }
    let mut seen: BTreeSet<String> = pool.iter().cloned().map(kind).collect();
    let mut random = Random::new(arguments.seed);
    let end = Instant::now() + Duration::from_secs(arguments.seconds);
    let mut runs = 0u64;
    let mut slowest = Duration::ZERO;
    while Instant::now() < end {
        let (i, j) = (random.below(pool.len()), random.below(pool.len()));
        let mutant = mutate(&pool[i], &pool[j], &mut random);
        let start = Instant::now();
        match catch_unwind(AssertUnwindSafe(|| kind(mutant.clone()))) {
            Err(_) => {
                std::fs::write("crash.onnx", &mutant)?;
                println!("panic after {runs} runs; the model is in crash.onnx");
                return Ok(ExitCode::FAILURE);
            }
            Ok(kind) => {
                if mutant.len() < 1 << 16 && seen.len() < 20_000 && seen.insert(kind) {
                    pool.push(mutant);
                }
            }
        }
        slowest = slowest.max(start.elapsed());
        runs += 1;
    }
    println!("{runs} runs, {} kinds of results, slowest {slowest:?}, no panic", seen.len());
    Ok(ExitCode::SUCCESS)
}
