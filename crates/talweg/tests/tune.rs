//! Tuning as a user calls it: results, bad input, kills, two processes on one database.

mod child;
mod tool;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use child::start_until;
use serde_json::Value;
use talweg_db::{Database, Record};
use tempfile::TempDir;
use tool::here::{command, run, succeeds};

const TINY: &str = "matmul:m=17,n=33,k=9,epilogue=bias+relu";
const OTHER: &str = "softmax:rows=16,n=33";

fn temporary() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().expect("a directory");
    let db = dir.path().join("t.db");
    (dir, db)
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a plain path")
}

/// All records of candidates; the default schedule's are left out.
fn candidates(path: &Path) -> Vec<Record> {
    let db = Database::open_existing(path).expect("the database opens");
    db.check().expect("the database is sound");
    let mut out = Vec::new();
    for entry in db.tasks().expect("tasks") {
        out.extend(db.records(&entry.task, &entry.target, entry.threads).expect("records"));
    }
    out.retain(|r| r.strategy != "default");
    out
}

fn distinct(records: &[Record]) -> usize {
    records.iter().map(|r| (&r.task, &r.trace)).collect::<BTreeSet<_>>().len()
}

#[test]
fn tuning_ends_with_a_verified_best_and_an_object() {
    for strategy in ["random", "ansor"] {
        let (_dir, db) = temporary();
        let out =
            succeeds(&["tune", TINY, "--strategy", strategy, "--trials", "24", "--db", text(&db), "--json"]);
        let object: Value = serde_json::from_str(&out).expect("one JSON object");
        let number = |name: &str| object[name].as_f64().unwrap_or_else(|| panic!("{name} in {object}"));
        assert!(number("best_us") > 0.0 && number("best_us") <= number("default_us"), "{object}");
        assert!(number("gflops") > 0.0 && number("seconds") > 0.0);
        assert_eq!((number("trials"), object["strategy"].as_str()), (24.0, Some(strategy)));
        let curve = object["curve"].as_array().expect("a curve");
        assert!(!curve.is_empty() && curve.iter().all(|p| p[0].is_f64() && p[1].is_f64()), "{object}");
        assert_eq!(object["failures"], serde_json::json!({}), "candidates fail");

        assert_eq!(candidates(&db).len(), 24);
        let stats = Database::open_existing(&db).expect("the database").stats().expect("statistics");
        let best = stats.tasks[0].best.clone().expect("a winner");
        assert!(best.ab_ratio >= 1.0 && best.error < 1e-4);
        let shown = succeeds(&["db", "best", TINY, "--db", text(&db)]);
        assert!(shown.contains("split ") && shown.starts_with(&format!("# {TINY}")), "{shown}");
        let report =
            succeeds(&["op", TINY, "--schedule", "best", "--db", text(&db), "--budget", "0.01", "--json"]);
        assert!(serde_json::from_str::<Value>(&report).expect("a report")["median_us"].is_f64());
    }
}

#[test]
fn several_operators_are_tuned_together() {
    let (_dir, db) = temporary();
    let arguments =
        ["tune", TINY, OTHER, "--strategy", "genetic", "--trials", "40", "--batch", "8", "--json", "--db"];
    let out = succeeds(&[&arguments[..], &[text(&db)]].concat());
    let object: Value = serde_json::from_str(&out).expect("one JSON object");
    let tasks = object["tasks"].as_array().expect("tasks");
    let trials: Vec<u64> = tasks.iter().map(|t| t["trials"].as_u64().expect("a number")).collect();
    assert_eq!(trials.len(), 2);
    assert!(trials.iter().all(|t| *t >= 8) && trials.iter().sum::<u64>() <= 40, "{trials:?}");
    let sum: f64 = tasks.iter().map(|t| t["best_us"].as_f64().expect("a number")).sum();
    assert!((object["best_us"].as_f64().expect("a number") - sum).abs() < 1e-9 * sum);
    let listed = succeeds(&["db", "ls", "--db", text(&db)]);
    assert!(listed.lines().count() == 2 && listed.contains("matmul A[17,9]"), "{listed}");
}

#[test]
fn bad_input_is_refused() {
    let (dir, db) = temporary();
    let no_db = dir.path().join("no.db");
    let file = dir.path().join("text");
    std::fs::write(&file, "this is no database, but long enough to be looked at").expect("a file");
    let cases: [(&[&str], &str); 19] = [
        (&["tune", "matmull:m=4"], "did you mean `matmul`"),
        (&["tune", TINY, "--strategy", "tabu"], "ansor, autotvm"),
        (&["tune", TINY, "--model", "xgb"], "trees, rank"),
        (&["tune", TINY, "--strategy", "felix", "--model", "trees"], "mlp-bootstrap"),
        (&["tune", TINY, "--strategy", "felix", "--model", "random"], "slope"),
        (&["tune", TINY, "--strategy", "felix", "--felix", "no-luck"], "no-repair"),
        (&["tune", TINY, "--strategy", "ansor", "--felix", "no-repair"], "--strategy felix"),
        (&["tune", TINY, "--tiles", "round"], "any or perfect"),
        (&["tune", TINY, "--simulated", "--db", "some.db"], "cannot be used with"),
        (&["tune", TINY, "--budget", "5x"], "such as 90s"),
        (&["tune", TINY, "--threads", "0"], "--threads 0"),
        (&["tune", TINY, "--trials", "0"], "at least 1"),
        (&["tune", TINY, TINY], "given twice"),
        (&["tune", TINY, "--objective", "joy"], "speedup"),
        (&["tune", TINY, "--trials", "1", "--db", text(&file)], "not a talweg database"),
        (&["space", "matmul:m=4"], "needs `n`"),
        (&["db", "ls", "--db", text(&no_db)], "no such file"),
        (&["db", "best", TINY, "--db", text(&no_db)], "no such file"),
        (&["op", TINY, "--schedule", "best", "--db", text(&no_db)], "no such file"),
    ];
    for (arguments, expected) in cases {
        let output = run(arguments);
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {err}");
        assert!(err.contains(expected) && !err.contains("panicked"), "{arguments:?}: {err}");
    }
    assert!(!db.exists() && !no_db.exists());
}

#[test]
fn spaces_are_printed() {
    let out = succeeds(&["space", TINY]);
    assert!(out.starts_with("space matmul: ") && out.contains("\nsketch 0: "), "{out}");
    let object: Value = serde_json::from_str(&succeeds(&["space", TINY, "--json"])).expect("one JSON object");
    assert!(object["size"].as_f64().is_some_and(|s| s > 1.0), "{object}");
}

/// P7. Killed at any instant, the database is sound, holds every batch that was reported as saved and no part of
/// another, and the next run measures nothing again.
#[test]
fn a_killed_run_loses_the_batch_in_flight_at_most() {
    const BATCH: usize = 8;
    let (_dir, db) = temporary();
    let mut saved = 0;
    for (round, lines) in [1usize, 2, 5, 9].into_iter().enumerate() {
        let seed = round.to_string();
        let arguments = [
            "tune",
            TINY,
            "--strategy",
            "random",
            "--trials",
            "500",
            "--batch",
            "8",
            "--seed",
            &seed,
            "--db",
        ];
        let mut child = command(&[&arguments[..], &[text(&db)]].concat())
            .stderr(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .expect("the program starts");
        let stderr = BufReader::new(child.stderr.take().expect("standard error"));
        let mut reported = 0;
        for (at, line) in stderr.lines().map(|l| l.expect("a line")).enumerate() {
            reported += usize::from(line.contains("saved 8 records"));
            if at + 1 >= lines {
                break;
            }
        }
        // Not at the moment of a line, but somewhere in what follows it.
        std::thread::sleep(std::time::Duration::from_millis(37 * round as u64));
        child.kill().expect("it is killed");
        child.wait().expect("it is gone");
        // Killed before the database was made.
        if !db.exists() {
            continue;
        }
        let records = candidates(&db);
        assert_eq!(records.len() % BATCH, 0, "a part of a batch was stored");
        assert!(records.len() >= saved + reported * BATCH, "a saved batch is gone");
        assert_eq!(distinct(&records), records.len(), "a candidate was measured again");
        saved = records.len();
    }
    assert!(saved > 0, "no kill came after a saved batch");
    let out = succeeds(&["tune", TINY, "--strategy", "random", "--trials", "8", "--db", text(&db), "--json"]);
    let object: Value = serde_json::from_str(&out).expect("one JSON object");
    assert_eq!(object["resumed"].as_u64(), Some(saved as u64));
    let records = candidates(&db);
    assert_eq!((records.len(), distinct(&records)), (saved + 8, saved + 8));
}

#[test]
fn two_processes_share_a_database() {
    let (_dir, db) = temporary();
    let start = |seed: &str| {
        let arguments =
            ["tune", TINY, "--strategy", "random", "--trials", "24", "--batch", "4", "--seed", seed, "--db"];
        command(&[&arguments[..], &[text(&db)]].concat())
            .stderr(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program starts")
    };
    for child in [start("1"), start("2")] {
        let output = child.wait_with_output().expect("it ends");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    assert_eq!(candidates(&db).len(), 48);
    let stats = Database::open_existing(&db).expect("the database").stats().expect("statistics");
    assert_eq!(stats.runs, 2);
    assert!(stats.tasks[0].best.is_some());
}

/// An interrupt ends the run early and well.
#[test]
fn an_interrupt_keeps_the_best_so_far() {
    let (_dir, db) = temporary();
    let arguments =
        ["tune", TINY, "--strategy", "random", "--trials", "1000", "--batch", "4", "--json", "--db"];
    let (child, mut stderr) = start_until(&mut command(&[&arguments[..], &[text(&db)]].concat()), "saved");
    // SAFETY: the process is a child of this one and has not been waited for, so its number is its own.
    assert_eq!(unsafe { libc::kill(child.id() as libc::pid_t, libc::SIGINT) }, 0);
    std::io::copy(&mut stderr, &mut std::io::sink()).expect("the rest of its messages");
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", output.status);
    let object: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    assert_eq!(object["stopped_by"], "interrupted");
    assert!(object["trials"].as_u64().is_some_and(|n| n >= 4), "{object}");
    let db = Database::open_existing(&db).expect("the database");
    assert!(db.stats().expect("statistics").tasks[0].best.is_some());
}

#[test]
fn databases_are_exchanged() {
    let (dir, db) = temporary();
    let (copy, lines) = (dir.path().join("copy.db"), dir.path().join("lines"));
    succeeds(&["tune", TINY, "--strategy", "random", "--trials", "6", "--db", text(&db)]);
    succeeds(&["db", "export", text(&lines), "--db", text(&db)]);
    let told = succeeds(&["db", "import", text(&lines), "--db", text(&copy)]);
    assert!(told.starts_with("7 records added"), "{told}");
    let told = succeeds(&["db", "merge", text(&db), "--db", text(&copy)]);
    assert!(told.starts_with("0 records added, 7 were there already"), "{told}");
    let told = succeeds(&["db", "prune", "--keep", "2", "--db", text(&copy)]);
    assert!(told.starts_with("deleted "), "{told}");
    let stats = succeeds(&["db", "stats", "--db", text(&copy)]);
    assert!(stats.contains(" of 1 tasks in 1 runs"), "{stats}");
    assert!(succeeds(&["db", "best", TINY, "--db", text(&copy)]).contains("split "));
}
