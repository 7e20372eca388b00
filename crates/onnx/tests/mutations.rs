//! Damaged models give errors or graphs, never a panic.

mod models;
#[path = "models/mutate.rs"]
mod mutate;
#[path = "models/rewrite.rs"]
mod rewrite;

use mutate::{Random, mutate};
use talweg_onnx::{ImportOptions, import_bytes};

fn options() -> ImportOptions {
    ImportOptions { dims: [("batch".to_string(), 2)].into(), ..ImportOptions::default() }
}

#[test]
fn damaged_models_do_not_panic() {
    let cases: u64 = std::env::var("TALWEG_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(3000);
    let seeds = models::seeds();
    let (mut refused, mut accepted) = (0, 0);
    for case in 0..cases {
        let mut random = Random::new(case);
        let (i, j) = (random.below(seeds.len()), random.below(seeds.len()));
        let rewritten =
            if case % 2 == 0 { rewrite::rewrite(&seeds[i], &seeds[j], &mut random) } else { None };
        let bytes = rewritten.unwrap_or_else(|| mutate(&seeds[i], &seeds[j], &mut random));
        match import_bytes(bytes.clone(), None, &options())
            .or_else(|_| import_bytes(bytes, None, &ImportOptions::default()))
        {
            Ok(graph) => {
                graph.verify().unwrap_or_else(|error| panic!("case {case}: {error}"));
                accepted += 1;
            }
            Err(error) => {
                assert!(!error.to_string().is_empty(), "case {case}");
                refused += 1;
            }
        }
    }
    assert!(refused > accepted, "{refused} refused, {accepted} accepted");
    assert!(accepted > 0, "every mutation was refused, so that little was tested");
}

#[test]
fn truncated_models_are_refused_or_complete() {
    for seed in models::seeds() {
        for len in 0..seed.len() {
            if let Ok(graph) = import_bytes(seed[..len].to_vec(), None, &options()) {
                graph.verify().unwrap_or_else(|error| panic!("{len} bytes: {error}"));
            }
        }
    }
}
