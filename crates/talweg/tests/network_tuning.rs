//! Tuning whole networks as a user does: artefacts and locks, the same bits again, kills and interrupts, other runtimes.

mod chain;
mod child;
mod tool;

use std::io::BufReader;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, ChildStderr};

use chain::model;
use child::start_until;
use serde_json::Value;
use talweg_db::Database;
use tempfile::TempDir;
use tool::{command, run, succeeds};

fn folder() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("net.onnx"), model(1)).expect("a model");
    std::fs::write(folder.path().join("other.onnx"), model(5)).expect("a model");
    folder
}

fn refuses(folder: &Path, arguments: &[&str], wanted: &[&str]) {
    let output = run(folder, arguments);
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {err}");
    for text in wanted {
        assert!(err.contains(text), "{arguments:?}: `{text}` is not in: {err}");
    }
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

/// Starts tuning and waits for a message.
fn tuning(folder: &Path, more: &[&str], until: &str) -> (Child, BufReader<ChildStderr>) {
    let arguments =
        ["tune", "net.onnx", "--strategy", "random", "--batch", "4", "--json", "--least-gain", "0"];
    start_until(&mut command(folder, &[&arguments[..], more].concat()), until)
}

#[test]
fn a_lock_rebuilds_the_same_bits() {
    let folder = folder();
    let at = folder.path();
    let arguments = ["tune", "net.onnx", "--trials", "40", "--batch", "8", "--json", "-o", "net.talweg"];
    let report = json(&succeeds(at, &arguments));
    let network = &report["networks"][0];
    assert_eq!(network["model"], "net");
    for field in ["default_ms", "tuned_ms", "tasks_alone_ms", "tasks_in_place_ms", "compared"] {
        assert!(network[field].as_f64().is_some_and(|ms| ms > 0.0), "{field} in {network}");
    }
    let lock = json(&std::fs::read_to_string(at.join("net.talweg.lock")).expect("a lock"));
    assert!(lock["llvm"].as_str().is_some_and(|v| v.contains('.')) && lock["threads"].as_u64() > Some(0));
    assert_eq!(lock["tasks"].as_array().map(Vec::len), report["tasks"].as_array().map(Vec::len));
    let bytes = |name: &str| std::fs::read(at.join(name)).expect("an artefact");
    // Without the database, and under another name.
    std::fs::remove_file(at.join("talweg.db")).expect("a database");
    std::fs::rename(at.join("net.onnx"), at.join("renamed.onnx")).expect("a model");
    succeeds(at, &["compile", "renamed.onnx", "--lock", "net.talweg.lock", "-o", "again.talweg"]);
    assert!(bytes("net.talweg") == bytes("again.talweg"), "the bits differ");
    let by_lock = ["compile", "renamed.onnx", "--lock", "net.talweg.lock", "-o", "third.talweg"];
    succeeds(at, &[&by_lock[..], &["--target", "lock"]].concat());
    assert!(bytes("net.talweg") == bytes("third.talweg"), "the bits differ");
    let bench =
        succeeds(at, &["bench", "renamed.onnx", "--lock", "net.talweg.lock", "--budget", "0.01", "--pin"]);
    assert!(bench.contains("median"), "{bench}");
}

#[test]
fn what_a_run_had_at_a_moment_can_be_compiled() {
    let folder = folder();
    let at = folder.path();
    succeeds(at, &["tune", "net.onnx", "--trials", "24", "--batch", "8"]);
    let compile = ["compile", "net.onnx", "-o", "early.talweg", "--json", "--as-of"];
    let with = |more: &[&'static str]| [&compile[..], more].concat();
    let report = json(&succeeds(at, &with(&["1h", "--run", "1"])));
    assert_eq!(report["tuned"], report["tasks"], "{report}");
    succeeds(at, &["run", "early.talweg", "--output", "y.npy"]);
    std::fs::remove_file(at.join("early.talweg")).expect("an artefact");
    refuses(at, &with(&["1ms"]), &["had measured nothing", "--as-of"]);
    refuses(at, &with(&["soon"]), &["--as-of soon", "30s"]);
    refuses(at, &with(&["1h", "--run", "7"]), &["7"]);
    refuses(at, &with(&["1h", "--db", "none.db"]), &["none.db"]);
    refuses(at, &["compile", "net.onnx", "-o", "early.talweg", "--run", "1"], &["--as-of"]);
    assert!(!at.join("early.talweg").exists());
}

#[test]
fn locks_that_do_not_fit_are_refused() {
    let folder = folder();
    let at = folder.path();
    succeeds(at, &["tune", "net.onnx", "--trials", "8", "--batch", "4"]);
    let text = std::fs::read_to_string(at.join("net.talweg.lock")).expect("a lock");
    let compile = |model: &str, wanted: &[&str]| {
        refuses(at, &["compile", model, "--lock", "l.lock", "-o", "out.talweg"], wanted);
        assert!(!at.join("out.talweg").exists());
    };
    let write = |text: &str| std::fs::write(at.join("l.lock"), text).expect("a file");
    compile("net.onnx", &["l.lock", "cannot read"]);
    write(&text);
    compile("other.onnx", &["written for the model `net`", "--shape"]);
    let elsewhere = ["compile", "net.onnx", "--lock", "l.lock", "-o", "out.talweg", "--target", "neon"];
    refuses(at, &elsewhere, &["written for the machine", "neon"]);
    refuses(at, &["compile", "net.onnx", "-o", "out.talweg", "--target", "lock"], &["--lock FILE"]);
    for cut in [0, 1, text.len() / 2, text.len() - 3] {
        write(&text[..cut]);
        compile("net.onnx", &["not a sound lock", "talweg tune"]);
    }
    let lock = json(&text);
    let mut changed = lock.clone();
    changed["format"] = 99.into();
    write(&changed.to_string());
    compile("net.onnx", &["format 99"]);
    changed = lock.clone();
    changed["tasks"][0]["trace"] = serde_json::json!(["split nowhere i ["]);
    write(&changed.to_string());
    compile("net.onnx", &["the schedule of the task"]);
    changed["tasks"][0]["trace"] = serde_json::json!(["split nowhere i [4]"]);
    write(&changed.to_string());
    compile("net.onnx", &["does not fit the model", "nowhere"]);
    changed = lock.clone();
    changed["tasks"] = serde_json::json!([]);
    write(&changed.to_string());
    compile("net.onnx", &["no schedule for the task"]);
    changed = lock;
    changed["llvm"] = "0.0.1".into();
    write(&changed.to_string());
    let output = run(at, &["compile", "net.onnx", "--lock", "l.lock", "-o", "out.talweg"]);
    assert!(output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("LLVM 0.0.1"));
}

#[test]
fn a_killed_run_leaves_a_sound_database_and_is_resumed() {
    let folder = folder();
    let at = folder.path();
    for pause in [0, 60] {
        let (mut child, _) = tuning(at, &["--trials", "4000"], "saved");
        std::thread::sleep(std::time::Duration::from_millis(pause));
        child.kill().expect("it is killed");
        child.wait().expect("it is gone");
        let db = Database::open_existing(at.join("talweg.db")).expect("the database opens");
        db.check().expect("the database is sound");
        assert!(!at.join("net.talweg.lock").exists(), "a lock without a result");
    }
    let arguments = ["tune", "net.onnx", "--strategy", "random", "--trials", "8", "--batch", "4", "--json"];
    let report = json(&succeeds(at, &arguments));
    let resumed = report["tasks"].as_array().into_iter().flatten().filter_map(|t| t["resumed"].as_u64());
    assert!(resumed.sum::<u64>() > 0, "nothing was resumed: {report}");
    succeeds(at, &["verify", "net.onnx"]);
    succeeds(at, &["run", "net.talweg", "--output", "y.npy"]);
}

#[test]
fn an_interrupt_still_writes_the_best_artefact() {
    for until in [": ", "saved"] {
        let folder = folder();
        let at = folder.path();
        let (child, mut stderr) = tuning(at, &["--budget", "1h"], until);
        // SAFETY: the process is a child of this one and has not been waited for, so its number is its own.
        assert_eq!(unsafe { libc::kill(child.id() as libc::pid_t, libc::SIGINT) }, 0);
        std::io::copy(&mut stderr, &mut std::io::sink()).expect("the rest of its messages");
        let output = child.wait_with_output().expect("it ends");
        assert!(output.status.success(), "{}", output.status);
        let report = json(&String::from_utf8_lossy(&output.stdout));
        assert_eq!(report["stopped_by"], "interrupted");
        succeeds(at, &["run", "net.talweg", "--output", "y.npy"]);
        succeeds(at, &["compile", "net.onnx", "--lock", "net.talweg.lock", "-o", "again.talweg"]);
        let bytes = |name: &str| std::fs::read(at.join(name)).expect("an artefact");
        assert!(bytes("net.talweg") == bytes("again.talweg"), "the bits differ");
    }
}

#[test]
fn an_interrupt_after_the_search_ends_the_comparisons() {
    let folder = folder();
    let at = folder.path();
    let (child, mut stderr) = tuning(at, &["--trials", "8"], "finished after");
    // SAFETY: as above.
    assert_eq!(unsafe { libc::kill(child.id() as libc::pid_t, libc::SIGINT) }, 0);
    std::io::copy(&mut stderr, &mut std::io::sink()).expect("the rest of its messages");
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", output.status);
    let network = &json(&String::from_utf8_lossy(&output.stdout))["networks"][0];
    assert!(network["tuned_ms"].is_null() && network["compared"] == 1, "{network}");
    succeeds(at, &["run", "net.talweg", "--output", "y.npy"]);
    assert!(at.join("net.talweg.lock").exists());
}

#[test]
fn networks_are_tuned_together() {
    let folder = folder();
    let at = folder.path();
    let both = ["tune", "net.onnx", "other.onnx", "--trials", "12", "--batch", "4", "--json"];
    let report = json(&succeeds(at, &both));
    let names: Vec<_> =
        report["networks"].as_array().into_iter().flatten().map(|n| n["output"].clone()).collect();
    assert_eq!(names, ["net.talweg", "other.talweg"]);
    // The networks differ in their weights only, so they share their tasks.
    let uses = json(&std::fs::read_to_string(at.join("net.talweg.lock")).expect("a lock"));
    assert_eq!(report["tasks"].as_array().map(Vec::len), uses["tasks"].as_array().map(Vec::len));
    std::fs::create_dir(at.join("out")).expect("a folder");
    succeeds(at, &[&both[..], &["-o", "out"]].concat());
    assert!(at.join("out/other.talweg.lock").exists());
    refuses(at, &[&both[..], &["-o", "a.talweg"]].concat(), &["1 times for 2 models"]);
    refuses(at, &[&both[..], &["-o", "a", "-o", "a"]].concat(), &["two models would be written to `a`"]);
    refuses(at, &["tune", "net.onnx", "-o", "no/such/folder/a"], &["no such folder"]);
    std::fs::create_dir(at.join("taken.lock")).expect("a folder");
    for place in ["/proc/net.talweg", "taken"] {
        let arguments = ["tune", "net.onnx", "--db", "new.db", "-o", place];
        refuses(at, &arguments, &["cannot write", place]);
        assert!(!at.join("new.db").exists(), "it is known before anything is measured");
    }
    refuses(at, &["tune", "matmul:m=4,n=4,k=4", "-o", "a"], &["--output is for models"]);
    refuses(at, &["tune", "net.onnx", "--least-gain", "200"], &["--least-gain"]);
}

#[test]
fn a_forecast_ends_the_run_early() {
    let folder = folder();
    let arguments = ["tune", "net.onnx", "--strategy", "random", "--batch", "4", "--budget", "10m", "--json"];
    let output = run(folder.path(), &[&arguments[..], &["--least-gain", "60"]].concat());
    assert!(output.status.success());
    let report = json(&String::from_utf8_lossy(&output.stdout));
    assert_eq!(report["stopped_by"], "forecast", "{report}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("ends early"));
}

#[test]
fn missing_runtimes_are_named() {
    let folder = folder();
    let at = folder.path();
    let bench = ["bench", "net.onnx", "--budget", "0.05", "--rounds", "2", "--against"];
    fn with<'a>(bench: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
        [bench, more].concat()
    }
    refuses(at, &with(&bench, &["onnxruntime,tflite"]), &["`tflite`", "openvino", "tvm"]);
    refuses(
        at,
        &with(&bench, &["onnxruntime", "--python", "/nowhere/python3"]),
        &["/nowhere/python3", "--python"],
    );
    succeeds(at, &["compile", "net.onnx", "-o", "net.talweg"]);
    let compiled = ["bench", "net.talweg", "--against", "onnxruntime"];
    refuses(at, &compiled, &["need the ONNX file"]);
    // Whoever alternates otherwise asks for turns; without any request there is the report alone.
    refuses(at, &with(&bench, &["onnxruntime", "--turns"]), &["--turns", "--against"]);
    let alone = succeeds(at, &["bench", "net.talweg", "--budget", "0.01", "--json", "--turns"]);
    assert!(json(&alone)["median_ms"].as_f64() > Some(0.0) && alone.lines().count() == 1, "{alone}");
    // A Python that lacks everything.
    let python = at.join("python");
    std::fs::write(&python, "#!/bin/sh\necho '{\"missing\": \"onnxruntime\"}'\n").expect("a script");
    std::fs::set_permissions(&python, std::fs::Permissions::from_mode(0o755)).expect("it may be run");
    let output = run(at, &with(&bench, &["onnxruntime", "--python", "./python"]));
    assert_eq!(output.status.code(), Some(1));
    let out = String::from_utf8_lossy(&output.stdout);
    assert!(out.contains("no package `onnxruntime`") && out.contains("./python -m pip install"), "{out}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("no other runtime could be timed"));
}
