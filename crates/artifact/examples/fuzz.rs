//! A long run of mutated artefacts: `fuzz [--seconds 60] [--seed 0] [FILE]`, where the file is an artefact to start
//! from. A panic ends the run with the mutant in `crash.talweg`.

#[path = "../tests/mutants/mod.rs"]
mod mutants;

use std::panic::catch_unwind;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use mutants::{Random, Seed, artefact};
use talweg_runtime::model::Model;

const USAGE: &str = "usage: fuzz [--seconds N] [--seed N] [FILE]";

fn main() -> ExitCode {
    match fuzz() {
        Ok(code) => code,
        Err(text) => {
            eprintln!("error: {text}");
            ExitCode::from(2)
        }
    }
}

fn fuzz() -> Result<ExitCode, String> {
    let (mut seconds, mut first, mut file) = (60, 0, None);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut number = || arguments.next().and_then(|text| text.parse().ok()).ok_or(USAGE);
        match argument.as_str() {
            "--seconds" => seconds = number()?,
            "--seed" => first = number()?,
            _ if argument.starts_with('-') => return Err(USAGE.into()),
            _ => file = Some(argument),
        }
    }
    let bytes = match file {
        Some(path) => std::fs::read(&path).map_err(|e| format!("{path}: {e}"))?,
        None => artefact(),
    };
    Model::from_bytes(&bytes).map_err(|e| format!("the seed does not load: {e}"))?;
    let seed = Seed::new(&bytes);
    let mut random = Random::new(first);
    let end = Instant::now() + Duration::from_secs(seconds);
    let (mut runs, mut loaded) = (0u64, 0u64);
    while Instant::now() < end {
        let mutant = seed.mutant(&mut random);
        if runs.is_multiple_of(4096) {
            println!("{runs} mutants, {loaded} loaded");
        }
        match catch_unwind(|| Model::from_bytes(&mutant).is_ok()) {
            Ok(sound) => loaded += u64::from(sound),
            Err(_) => {
                std::fs::write("crash.talweg", &mutant).map_err(|e| format!("crash.talweg: {e}"))?;
                println!("mutant {runs} of seed {first} panics; it is in crash.talweg");
                return Ok(ExitCode::FAILURE);
            }
        }
        runs += 1;
    }
    println!("{runs} mutants, {loaded} loaded, no panic");
    Ok(ExitCode::SUCCESS)
}
