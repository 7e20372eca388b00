//! `talweg explain` as a user calls it: tasks by node, number and name, winners and defaults, near misses, JSON.

mod chain;
mod tool;

use std::path::Path;

use tempfile::TempDir;
use tool::{fails, object, succeeds};

const SPEC: &str = "matmul:m=48,n=64,k=32";

fn with_model() -> TempDir {
    let folder = TempDir::new().expect("a folder");
    std::fs::write(folder.path().join("m.onnx"), chain::model(1)).expect("a model");
    folder
}

#[test]
fn an_untuned_operator_is_explained_by_its_default() {
    let folder = TempDir::new().expect("a folder");
    let text = succeeds(folder.path(), &["explain", SPEC]);
    for part in
        ["the analytic default", "talweg tune matmul:m=48,n=64,k=32", "roofline", "steps", "nearest losers"]
    {
        assert!(text.contains(part), "`{part}` is not in:\n{text}");
    }
    let answer = object(folder.path(), &["explain", SPEC, "--json"]);
    assert_eq!(answer["origin"]["from"], "default");
    assert!(answer["measured"].is_null());
    let steps = answer["steps"].as_array().expect("steps");
    assert!(!steps.is_empty());
    let changes = |step: &serde_json::Value| step["changes"].as_array().map_or(0, Vec::len);
    assert!(steps.iter().map(changes).sum::<usize>() >= steps.len(), "steps change nothing: {steps:?}");
    assert_eq!(answer["roofline"]["flops"], 2.0 * 48.0 * 64.0 * 32.0);
    assert!(answer["prediction"]["score"].is_number(), "{}", answer["prediction"]);
}

#[test]
fn a_tuned_operator_is_explained_by_its_winner_and_losers() {
    let folder = TempDir::new().expect("a folder");
    succeeds(
        folder.path(),
        &["tune", SPEC, "--trials", "12", "--batch", "6", "--strategy", "random", "--json"],
    );
    let answer = object(folder.path(), &["explain", SPEC, "--losers", "3", "--json", "--full"]);
    assert_eq!(answer["origin"]["from"], "winner");
    assert!(answer["measured"].as_f64().is_some_and(|s| s > 0.0));
    let losers = &answer["losers"];
    assert!(losers["measured"].as_u64().is_some_and(|n| n >= 6), "{losers}");
    let by_time = losers["by_time"].as_array().expect("losers");
    assert_eq!(by_time.len(), 3);
    for loser in by_time {
        assert!(loser["ratio"].as_f64().is_some_and(|r| r > 0.0), "{loser}");
        assert!(!loser["differs"].as_array().expect("differences").is_empty(), "{loser}");
    }
    let (steps, nests) = (answer["steps"].as_array(), answer["nests"].as_array());
    assert_eq!(steps.map(Vec::len), nests.map(Vec::len));
    assert!(
        nests.is_some_and(|n| n.iter().all(|n| n["after"].as_str().is_some_and(|t| t.starts_with("nest "))))
    );
    let text = succeeds(folder.path(), &["explain", SPEC]);
    assert!(text.contains("winner of tuning: record"), "{text}");
    assert!(text.contains("of the roofline") && text.contains("record "), "{text}");
}

#[test]
fn every_node_of_a_fused_task_finds_it() {
    let folder = with_model();
    let by = |name: &str| object(folder.path(), &["explain", "m.onnx", name, "--threads", "1", "--json"]);
    let first = by("first");
    assert_eq!(first["task"], by("relu")["task"], "the product and its activation are one task");
    assert_ne!(first["task"], by("second")["task"]);
    let title = first["task"].as_str().expect("a title");
    let number = title.split(' ').next().expect("a number");
    assert_eq!(by(number)["task"], first["task"]);
    let nodes = first["nodes"].as_array().expect("nodes");
    assert!(nodes.iter().any(|n| n == "first"), "{nodes:?}");
    let name = title.split(' ').nth(1).expect("a name");
    assert_eq!(by(&format!("{name}:first"))["task"], first["task"]);
    let listed = object(folder.path(), &["check", "m.onnx", "--threads", "1", "--json"]);
    let task = &listed["tasks"][number.parse::<usize>().expect("a number")];
    assert_eq!(task["nodes"], first["nodes"]);
}

#[test]
fn wrong_names_are_answered_with_near_ones() {
    let folder = with_model();
    let complaint = fails(folder.path(), &["explain", "m.onnx", "secnd"], 2);
    assert!(complaint.contains("no node or task `secnd`") && complaint.contains("`second`"), "{complaint}");
    let complaint = fails(folder.path(), &["explain", "m.onnx", "99"], 2);
    assert!(complaint.contains("there is no task 99; the tasks are 0 to"), "{complaint}");
    let complaint = fails(folder.path(), &["explain", "m.onnx"], 2);
    assert!(complaint.contains("talweg check m.onnx"), "{complaint}");
    let complaint = fails(folder.path(), &["explain", SPEC, "first"], 2);
    assert!(complaint.contains("is an operator"), "{complaint}");
    assert!(fails(Path::new("."), &["explain", "no.onnx", "x"], 2).contains("no.onnx"));
}

#[test]
fn outputs_that_differ_have_a_code_of_their_own() {
    let folder = with_model();
    succeeds(folder.path(), &["verify", "m.onnx", "--threads", "1"]);
    let complaint = fails(folder.path(), &["verify", "m.onnx", "--threads", "1", "--tolerance", "1e-30"], 3);
    assert!(complaint.contains("the outputs differ"), "{complaint}");
}

#[test]
fn running_says_what_went_in_and_came_out() {
    let folder = with_model();
    let ran = object(folder.path(), &["run", "m.onnx", "--threads", "1", "--output", "y.npy", "--json"]);
    assert_eq!(ran["inputs"][0]["random"], true);
    assert_eq!(ran["outputs"][0]["name"], "y");
    assert!(ran["outputs"][0]["max"].as_f64().is_some_and(|v| v <= 1.0), "a softmax: {ran}");
    assert!(folder.path().join("y.npy").exists());
    let steps = object(folder.path(), &["check", "m.onnx", "--threads", "1", "--steps", "--json"]);
    assert!(steps["steps"].as_array().is_some_and(|s| !s.is_empty()));
}

#[test]
fn databases_are_told_as_json() {
    let folder = TempDir::new().expect("a folder");
    succeeds(
        folder.path(),
        &["tune", SPEC, "--trials", "4", "--batch", "4", "--strategy", "random", "--json"],
    );
    let listed = object(folder.path(), &["db", "ls", "--json"]);
    assert_eq!(listed["tasks"].as_array().map(Vec::len), Some(1));
    let stats = object(folder.path(), &["db", "stats", "--json"]);
    assert!(stats["records"].as_u64().is_some_and(|n| n >= 5), "{stats}");
    let best = object(folder.path(), &["db", "best", SPEC, "--json"]);
    assert!(best["gain"].as_f64().is_some_and(|g| g > 0.0), "{best}");
    let exported = object(folder.path(), &["db", "export", "r.jsonl", "--json"]);
    assert_eq!(exported["records"], stats["records"]);
    let imported = object(folder.path(), &["db", "--db", "other.db", "import", "r.jsonl", "--json"]);
    assert_eq!(imported["records"], stats["records"]);
    let pruned = object(folder.path(), &["db", "prune", "--keep", "1", "--dry-run", "--json"]);
    assert_eq!(pruned["dry_run"], true);
    assert!(pruned["good"].as_u64().is_some_and(|n| n > 0), "{pruned}");
}
