//! A long run of mutations: `fuzz [--seconds 1800] [--seed 0] [FILE...]`. Files are further seeds, small models best.
//!
//! Most mutants are models whose messages are changed, the rest damaged bytes. Those that get as far as the nodes and
//! give something not seen before join the seeds, so that later mutants get further. A panic ends the run with the
//! mutant in `crash.onnx`.

#[path = "../tests/models/mod.rs"]
mod models;
#[path = "../tests/models/mutate.rs"]
mod mutate;
#[path = "../tests/models/rewrite.rs"]
mod rewrite;

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use mutate::{Random, mutate};
use talweg_onnx::{ImportError, ImportOptions, import_bytes};

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

/// What tells results apart: the error with everything that varies taken out, or the operators of the graph; and
/// whether the nodes were reached at all.
fn kind(bytes: Vec<u8>) -> (bool, String) {
    let mut result = import_bytes(bytes.clone(), None, &ImportOptions::default());
    if let Err(ImportError::UnboundDimensions(inputs)) = &result {
        let dims = inputs.iter().flat_map(|input| input.dims.iter().map(|dim| (dim.clone(), 2))).collect();
        result = import_bytes(bytes, None, &ImportOptions { dims, ..ImportOptions::default() });
    }
    match result {
        Ok(graph) => (true, graph.nodes.iter().map(|node| node.op.name()).collect::<Vec<_>>().join(" ")),
        Err(error) => {
            let reached = matches!(error, ImportError::Node { .. } | ImportError::Unsupported(_));
            let text = error.to_string();
            let plain: String = text.split('`').step_by(2).collect();
            (reached, plain.chars().filter(|c| c.is_alphabetic()).take(60).collect())
        }
    }
}

fn main() -> std::io::Result<ExitCode> {
    let arguments = Arguments::parse();
    let mut pool = models::seeds();
    for file in &arguments.files {
        pool.push(std::fs::read(file)?);
    }
    let mut seen: BTreeSet<String> = pool.iter().cloned().map(|bytes| kind(bytes).1).collect();
    let mut random = Random::new(arguments.seed);
    let end = Instant::now() + Duration::from_secs(arguments.seconds);
    let (mut runs, mut deep) = (0u64, 0u64);
    let mut slowest = Duration::ZERO;
    while Instant::now() < end {
        let (i, j) = (random.below(pool.len()), random.below(pool.len()));
        let rewritten =
            if random.below(4) == 0 { None } else { rewrite::rewrite(&pool[i], &pool[j], &mut random) };
        let mutant = rewritten.unwrap_or_else(|| mutate(&pool[i], &pool[j], &mut random));
        let start = Instant::now();
        match catch_unwind(AssertUnwindSafe(|| kind(mutant.clone()))) {
            Err(_) => {
                std::fs::write("crash.onnx", &mutant)?;
                println!("panic after {runs} runs; the model is in crash.onnx");
                return Ok(ExitCode::FAILURE);
            }
            Ok((reached, kind)) => {
                deep += u64::from(reached);
                if reached && mutant.len() < 1 << 16 && seen.len() < 20_000 && seen.insert(kind) {
                    pool.push(mutant);
                }
            }
        }
        slowest = slowest.max(start.elapsed());
        runs += 1;
    }
    println!(
        "{runs} runs, {deep} of them as far as the nodes, {} kinds of results, slowest {slowest:?}, no panic",
        seen.len()
    );
    Ok(ExitCode::SUCCESS)
}
