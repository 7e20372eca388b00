//! Searches compared as a user calls it: runs kept and found again, tables and pictures, bad input.

mod chain;
mod tool;

use std::path::Path;
use std::process::Output;
use std::time::SystemTime;

use serde_json::Value;
use tool::here::command;

const TINY: &str = "matmul:m=17,n=33,k=9";
const OTHER: &str = "softmax:rows=16,n=33";

fn run(arguments: &[&str]) -> Output {
    command(&["bench", "search"]).args(arguments).output().expect("the program starts")
}

fn succeeds(arguments: &[&str]) -> (String, String) {
    let output = run(arguments);
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{arguments:?}: {}\n{err}", output.status);
    (String::from_utf8(output.stdout).expect("UTF-8"), err)
}

/// The files of finished runs with their times, by name.
fn runs(folder: &Path) -> Vec<(String, SystemTime)> {
    let entries = std::fs::read_dir(folder.join("runs")).expect("a folder of runs");
    let mut out: Vec<(String, SystemTime)> = entries
        .map(|e| e.expect("an entry"))
        .filter(|e| e.path().extension().is_some_and(|x| x == "json"))
        .map(|e| {
            (
                e.file_name().to_string_lossy().into_owned(),
                e.metadata().expect("a file").modified().expect("a time"),
            )
        })
        .collect();
    out.sort();
    out
}

#[test]
fn finished_runs_are_not_repeated_and_the_table_is_exact() {
    let dir = tempfile::tempdir().expect("a folder");
    let folder = dir.path().join("out");
    let output = folder.to_str().expect("a plain path");
    let common = ["--simulated", "--trials", "40", "--seeds", "2", "--output", output];
    let first = [&common[..], &["--strategies", "ansor,felix", "--ops", TINY]].concat();
    let (table, told) = succeeds(&first);
    assert!(table.contains("## felix against ansor") && table.contains(TINY), "{table}");
    assert_eq!(told.matches(" trials in ").count(), 4, "{told}");
    let before = runs(&folder);
    assert_eq!(before.len(), 4);

    // As if the last run had been killed: only that one is made again, and comes to the same.
    let lost = folder.join("runs").join(&before[1].0);
    let content = std::fs::read_to_string(&lost).expect("a run");
    std::fs::remove_file(&lost).expect("it is gone");
    std::fs::write(folder.join("runs/.talweg-killed"), "half a f").expect("what a kill leaves");
    let (again, told) = succeeds(&first);
    assert!(told.contains("3 of 4 runs are in"), "{told}");
    assert_eq!(told.matches(" trials in ").count(), 1, "{told}");
    assert_eq!(again, table);
    let number = |text: &str, name: &str| serde_json::from_str::<Value>(text).expect("JSON")[name].clone();
    let repeated = std::fs::read_to_string(&lost).expect("the run is back");
    for name in ["best_us", "curve", "trials", "first_batch_us", "schedule"] {
        assert_eq!(number(&repeated, name), number(&content, name), "{name}");
    }
    for ((name, made), (same, still)) in before.iter().zip(&runs(&folder)) {
        assert!(name == same && (made == still || *name == before[1].0), "{name} was made again");
    }

    // More operators add to what is there; a report alone runs nothing.
    let more =
        [&common[..], &["--strategies", "ansor,felix", "--ops", TINY, OTHER, "--report", "--json"]].concat();
    let (json, told) = succeeds(&more);
    assert!(told.is_empty(), "{told}");
    let object: Value = serde_json::from_str(&json).expect("one JSON object");
    let felix = &object["table"]["contestants"][0];
    assert_eq!(
        (felix["contestant"].as_str(), felix["rows"].as_array().map(Vec::len)),
        (Some("felix"), Some(1))
    );
    assert!(felix["speed_ups"].as_array().is_some_and(|s| s.len() == 4 && s.iter().all(Value::is_f64)));
    assert!(std::fs::read(folder.join("search.png")).expect("a picture").starts_with(b"\x89PNG"));
    assert!(std::fs::read_to_string(folder.join("search.svg")).expect("a drawing").starts_with("<svg"));

    let other = run(&["--simulated", "--trials", "41", "--seeds", "2", "--output", output, "--ops", TINY]);
    let err = String::from_utf8_lossy(&other.stderr);
    assert!(other.status.code() == Some(2) && err.contains("other settings"), "{err}");
}

#[test]
fn every_part_of_felix_can_be_switched() {
    let dir = tempfile::tempdir().expect("a folder");
    let output = dir.path().to_str().expect("a plain path");
    let arguments =
        ["--ablation", "--simulated", "--trials", "36", "--seeds", "1", "--output", output, "--ops", TINY];
    let (table, _) = succeeds(&arguments);
    for name in [
        "fixed-width",
        "rewrites",
        "bootstrapped",
        "network-alone",
        "no-repair",
        "perfect-tiles",
        "early-descent",
        "no-descent",
        "no-growth",
    ] {
        assert!(table.contains(&format!("\n| {name} | 1 |")), "{name} is missing:\n{table}");
    }
}

#[test]
fn real_runs_are_timed_from_the_start_and_end_in_a_playoff() {
    let dir = tempfile::tempdir().expect("a folder");
    let output = dir.path().to_str().expect("a plain path");
    let arguments =
        ["--budget", "8s", "--seeds", "1", "--threads", "1", "--playoff", "1", "--ops", TINY, "--json"];
    let (json, _) =
        succeeds(&[&arguments[..], &["--strategies", "random,genetic", "--output", output]].concat());
    let object: Value = serde_json::from_str(&json).expect("one JSON object");
    assert_eq!(object["table"]["reference"], "random");
    let entries = object["playoffs"][0]["entries"].as_array().expect("a playoff");
    let is_timed = |us: &Value| us.as_f64().is_some_and(|us| us > 0.0);
    let is_whole =
        |e: &Value| e["curve_us"].as_array().is_some_and(|c| !c.is_empty() && c.iter().all(is_timed));
    assert!(entries.len() == 2, "{object}");
    assert!(entries.iter().all(|e| is_timed(&e["winner_us"]) && is_whole(e)), "{object}");
    let levels = object["table"]["contestants"][0]["rows"][0]["levels"].as_array().expect("levels");
    assert!(levels.iter().all(|l| l["own"].as_f64().is_some_and(|s| s > 0.0)), "{object}");
}

#[test]
fn what_networks_had_in_hand_is_timed_as_a_whole() {
    let dir = tempfile::tempdir().expect("a folder");
    let (network, folder) = (dir.path().join("net.onnx"), dir.path().join("out"));
    std::fs::write(&network, chain::model(1)).expect("a model");
    let (network, output) = (network.to_str().expect("a plain path"), folder.to_str().expect("a plain path"));
    let arguments = ["--budget", "6s", "--seeds", "1", "--threads", "1", "--playoff", "1", "--from-default"];
    let more =
        ["--strategies", "genetic,random", "--share", "2,3", "--ops", network, "--output", output, "--json"];
    let all = [&arguments[..], &more].concat();
    let (json, told) = succeeds(&all);
    assert!(!told.contains("was not compared"), "{told}");
    let object: Value = serde_json::from_str(&json).expect("one JSON object");
    assert_eq!(object["table"]["reference"], "genetic");
    let entries = object["playoffs"][0]["entries"].as_array().expect("a playoff");
    assert_eq!(entries.len(), 3, "{object}");
    for entry in entries {
        let numbers = |name: &str| -> Vec<f64> {
            entry[name].as_array().into_iter().flatten().filter_map(Value::as_f64).collect()
        };
        let (moments, us) = (numbers("moments"), numbers("curve_us"));
        assert!(moments.len() == us.len() && moments.is_sorted() && us.iter().all(|us| *us > 0.0), "{entry}");
        assert_eq!(us.last().copied(), entry["winner_us"].as_f64());
    }
    // The second search had half of the time of the first, and once more a third.
    let ends = |at: usize| entries[at]["moments"].as_array().and_then(|m| m.last()?.as_f64()).unwrap_or(0.0);
    assert!(ends(1) < 0.9 * ends(0), "{} of {}", ends(1), ends(0));
    let result = &object["results"][0]["rows"][0];
    let contestant = result["contestant"].as_str().expect("a run");
    assert!(["random-2", "random-3"].contains(&contestant), "{object}");
    assert!(result["ratio"].as_f64().is_some_and(|ratio| ratio > 0.0), "{object}");

    // As if it had been killed in the playoff, which alone is made again.
    let files = runs(&folder);
    let (playoff, _) = files.iter().find(|(name, _)| name.contains(".playoff.")).expect("a playoff");
    std::fs::remove_file(folder.join("runs").join(playoff)).expect("it is gone");
    let (json, told) = succeeds(&all);
    assert!(told.contains("3 of 3 runs are in") && !told.contains(" trials in "), "{told}");
    let again: Value = serde_json::from_str(&json).expect("one JSON object");
    assert_eq!(again["playoffs"][0]["entries"].as_array().map(Vec::len), Some(3), "{again}");
}

#[test]
fn bad_options_are_refused() {
    let dir = tempfile::tempdir().expect("a folder");
    let (file, output) = (dir.path().join("file"), dir.path().join("none"));
    let network = dir.path().join("net.onnx");
    std::fs::write(&file, "").expect("a file");
    std::fs::write(&network, "").expect("a file");
    let (file, output) = (file.to_str().expect("a plain path"), output.to_str().expect("a plain path"));
    let network = network.to_str().expect("a plain path");
    let cases: [(&[&str], &str); 18] = [
        (&["--strategies", "tabu"], "ansor, autotvm"),
        (&["--models", "xgb"], "mlp-bootstrap"),
        (&["--strategies", "felix", "--models", "trees"], "has none"),
        (&["--strategies", "felix,felix"], "every name once"),
        (&["--ops", "matmull:m=4"], "did you mean `matmul`"),
        (&["--ops", TINY, TINY], "given twice"),
        (&["--ops", "nowhere.onnx"], "no such file"),
        (&["--simulated", "--ops", network], "operators only"),
        (&["--budget", "5x"], "such as 20s"),
        (&["--share", "0.5"], "'0.5' for '--share"),
        (&["--share", "3,3"], "every number once"),
        (&["--share", "2", "--simulated"], "cannot be used with"),
        (&["--seeds", "0"], "--seeds 0"),
        (&["--threads", "0"], "--threads 0"),
        (&["--trials", "5"], "--simulated"),
        (&["--simulated", "--trials", "0"], "at least 1"),
        (&["--ablation", "--strategies", "ansor"], "cannot be used with"),
        (&["--report"], "has no runs"),
    ];
    for (arguments, expected) in cases {
        let refused = run(&[arguments, &["--output", output]].concat());
        let err = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{arguments:?}: {err}");
        assert!(err.contains(expected) && !err.contains("panicked"), "{arguments:?}: {err}");
    }
    let refused = run(&["--report", "--output", file]);
    assert_eq!(refused.status.code(), Some(2), "{}", String::from_utf8_lossy(&refused.stderr));
}
