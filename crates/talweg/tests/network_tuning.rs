//! Tuning whole networks as a user does: artefacts and locks, the same bits again, kills and interrupts, other runtimes.

mod chain;
mod child;
mod tool;

use std::io::BufReader;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};

use chain::model;
use child::start_until;
use prost::Message;
use serde_json::Value;
use talweg::lock::{Lock, Provenance};
use talweg::network::Network;
use talweg_artifact::Choice;
use talweg_db::{Database, NewBest, Replace, TaskEntry};
use talweg_graph::{Algorithm, Way};
use talweg_onnx::ImportOptions;
use talweg_onnx::proto::ModelProto;
use talweg_target::Target;
use talweg_tensor::{Tensor, npy};
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

/// Writes `python`, a program that other runtimes are asked of.
fn python(folder: &Path, script: &str) {
    let path = folder.join("python");
    std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("a script");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("it may be run");
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
fn bench_says_how_much_of_a_model_is_tuned() {
    let folder = folder();
    let at = folder.path();
    let bench = ["bench", "net.onnx", "--budget", "0.01"];
    let untuned = json(&succeeds(at, &[&bench[..], &["--json"]].concat()));
    let tasks = untuned["tasks"].as_u64().expect("a number");
    assert_eq!(untuned["tuned"], 0);
    assert!(tasks > 0 && succeeds(at, &bench).contains(&format!("0 of {tasks} tasks tuned")), "{untuned}");
    succeeds(at, &["tune", "net.onnx", "--trials", "24", "--batch", "8"]);
    let tuned = json(&succeeds(at, &[&bench[..], &["--json"]].concat()));
    assert!(tuned["tuned"].as_u64() > Some(0), "{tuned}");
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

/// A product, and a lock that computes it by Strassen's scheme.
fn inexact_lock(folder: &Path) {
    std::fs::write(folder.join("product.onnx"), chain::product()).expect("a model");
    let mut network =
        Network::open(&folder.join("product.onnx"), &ImportOptions::default()).expect("a network");
    let is_inexact = |way: &Way| way.algorithm == Algorithm::Strassen;
    assert_eq!(network.program.forks.len(), 1);
    network.program.choose(&|fork| fork.ways.iter().position(is_inexact).expect("a product"));
    let target = Target::host();
    let from = Provenance { target, threads: 1, seed: 0, strategy: "none".into() };
    let choices = vec![Choice::Default; network.program.tasks.len()];
    let lock = Lock::new(&network, &choices, &[], &from);
    lock.write(&folder.join("l.lock")).expect("a lock");
}

#[test]
fn a_lock_with_a_larger_error_than_accepted_is_refused() {
    let folder = folder();
    let at = folder.path();
    inexact_lock(at);
    let compile = ["compile", "product.onnx", "--lock", "l.lock", "-o", "out.talweg"];
    let accepting = |error: &'static str| [&compile[..], &["--max-error", error]].concat();
    let wanted = ["`only`", "strassen", "--max-error accepts 0", "leave it out"];
    refuses(at, &accepting("0"), &wanted);
    refuses(at, &["bench", "product.onnx", "--lock", "l.lock", "--max-error", "0"], &wanted);
    assert!(!at.join("out.talweg").exists());
    let said = succeeds(at, &accepting("1e-3"));
    assert!(said.contains("1 strassen"), "{said}");
    // A setting is for what is not locked.
    std::fs::write(at.join("talweg.toml"), "max_error = 0.0\n").expect("a file");
    succeeds(at, &compile);
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

/// Interrupts tuning after a message; what it reports.
fn interrupted(folder: &Path, more: &[&str], until: &str) -> Value {
    let (child, mut stderr) = tuning(folder, &[&["--budget", "1h"], more].concat(), until);
    // SAFETY: the process is a child of this one and has not been waited for, so its number is its own.
    assert_eq!(unsafe { libc::kill(child.id() as libc::pid_t, libc::SIGINT) }, 0);
    std::io::copy(&mut stderr, &mut std::io::sink()).expect("the rest of its messages");
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", output.status);
    let report = json(&String::from_utf8_lossy(&output.stdout));
    assert_eq!(report["stopped_by"], "interrupted");
    report
}

#[test]
fn an_interrupt_still_writes_the_best_artefact() {
    for until in [": ", "saved"] {
        let folder = folder();
        let at = folder.path();
        interrupted(at, &[], until);
        succeeds(at, &["run", "net.talweg", "--output", "y.npy"]);
        succeeds(at, &["compile", "net.onnx", "--lock", "net.talweg.lock", "-o", "again.talweg"]);
        let bytes = |name: &str| std::fs::read(at.join(name)).expect("an artefact");
        assert!(bytes("net.talweg") == bytes("again.talweg"), "the bits differ");
    }
}

/// Writes a program that says it has started and ends half a second later, after one more line of shell.
fn slow_program(path: &Path, last: &str) {
    let script = format!("#!/bin/sh\ntouch started\nsleep 0.5\n{last}\n");
    std::fs::write(path, script).expect("a script");
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).expect("it may be run");
}

/// Interrupts a command once a slow program it calls has started.
fn interrupted_command(command: &mut Command, folder: &Path) -> std::process::ExitStatus {
    let mut child = command.current_dir(folder).stderr(Stdio::null()).spawn().expect("the program starts");
    while !folder.join("started").exists() {
        assert!(child.try_wait().expect("a child").is_none(), "it ended by itself");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    // SAFETY: the process is a child of this one and has not been waited for, so its number is its own.
    assert_eq!(unsafe { libc::kill(child.id() as libc::pid_t, libc::SIGINT) }, 0);
    child.wait().expect("it ends")
}

fn names_with(folder: &Path, part: &str) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("a folder").filter_map(Result::ok);
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.contains(part)).collect()
}

#[test]
fn an_interrupt_leaves_no_temporary_files() {
    let folder = folder();
    let at = folder.path();
    std::fs::create_dir(at.join("bin")).expect("a folder");
    std::fs::create_dir(at.join("tmp")).expect("a folder");
    slow_program(&at.join("bin/cc"), "exit 1");
    let path = format!("{}:{}", at.join("bin").display(), std::env::var("PATH").expect("a path"));
    let compile = ["compile", "net.onnx", "--emit", "so", "-o", "net.so"];
    let status = interrupted_command(command(at, &compile).env("PATH", path), at);
    assert_eq!(status.signal(), Some(libc::SIGINT), "{status}");
    assert_eq!(names_with(at, ".talweg-"), [""; 0]);

    std::fs::remove_file(at.join("started")).expect("a file");
    slow_program(&at.join("python"), "echo '{\"missing\": \"onnxruntime\"}'");
    let bench = ["bench", "net.onnx", "--against", "onnxruntime,openvino", "--python", "./python"];
    let status = interrupted_command(command(at, &bench).env("TMPDIR", at.join("tmp")), at);
    assert_eq!(status.code(), Some(1), "{status}");
    assert_eq!(names_with(&at.join("tmp"), "talweg-peers-"), [""; 0]);
}

#[test]
fn an_interrupt_before_all_tasks_have_begun_keeps_what_earlier_runs_have_stored() {
    let folder = folder();
    let at = folder.path();
    succeeds(at, &["tune", "net.onnx", "--trials", "24", "--batch", "8"]);
    // Whatever has won, the best of every task is another than the default now.
    let mut db = Database::open_existing(at.join("talweg.db")).expect("the database opens");
    for TaskEntry { task, target, threads, .. } in db.tasks().expect("tasks") {
        let records = db.records(&task, &target, threads).expect("records");
        let other = records.iter().find(|r| r.strategy != "default" && r.verification.is_some());
        let best = NewBest { record: other.expect("a record").id, default_seconds: 1.0, ab_ratio: 2.0 };
        db.store_best(&best, Replace::Always).expect("it is stored");
    }
    drop(db);
    let report = interrupted(at, &[], ": ");
    succeeds(at, &["compile", "net.onnx", "-o", "stored.talweg"]);
    let bytes = |name: &str| std::fs::read(at.join(name)).expect("an artefact");
    assert!(bytes("net.talweg") == bytes("stored.talweg"), "the bits differ: {report}");
    let report = interrupted(at, &["--fresh"], ": ");
    assert!(bytes("net.talweg") != bytes("stored.talweg"), "earlier runs are not to count: {report}");
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
fn a_network_that_cannot_be_written_takes_none_of_the_others_with_it() {
    let folder = folder();
    let at = folder.path();
    let more = ["other.onnx", "--trials", "8"];
    let (child, mut stderr) = tuning(at, &more, ": ");
    std::fs::create_dir(at.join("net.talweg")).expect("a folder in its place");
    std::io::copy(&mut stderr, &mut std::io::sink()).expect("the rest of its messages");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(2));
    let report = json(&String::from_utf8_lossy(&output.stdout));
    assert_eq!(report["networks"].as_array().map(Vec::len), Some(1), "{report}");
    assert_eq!(report["networks"][0]["output"], "other.talweg");
    succeeds(at, &["run", "other.talweg", "--output", "y.npy"]);
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
    // Peers would be confined to the core of the thread that starts them.
    refuses(at, &with(&bench, &["onnxruntime", "--pin"]), &["--pin", "--against"]);
    let alone = succeeds(at, &["bench", "net.talweg", "--budget", "0.01", "--json", "--turns"]);
    assert!(json(&alone)["median_ms"].as_f64() > Some(0.0) && alone.lines().count() == 1, "{alone}");
    // A Python that lacks everything.
    python(at, r#"echo '{"missing": "onnxruntime"}'"#);
    let output = run(at, &with(&bench, &["onnxruntime", "--python", "./python"]));
    assert_eq!(output.status.code(), Some(1));
    let out = String::from_utf8_lossy(&output.stdout);
    assert!(out.contains("no package `onnxruntime`") && out.contains("./python -m pip install"), "{out}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("no other runtime could be timed"));
}

/// The chain with its last weights as an input, `v`, and the values for it in `v.npy`.
fn with_open_weights(folder: &Path) {
    let mut chain = ModelProto::decode(model(1).as_slice()).expect("a model");
    let graph = chain.graph.as_mut().expect("a graph");
    graph.initializer.retain(|weights| weights.name != "v");
    let mut input = graph.input[0].clone();
    input.name = "v".into();
    let shape =
        input.r#type.as_mut().and_then(|ty| ty.tensor_type.as_mut()?.shape.as_mut()).expect("a shape");
    shape.dim[0].dim_value = Some(40);
    shape.dim[1].dim_value = Some(24);
    graph.input.push(input);
    std::fs::write(folder.join("open.onnx"), chain.encode_to_vec()).expect("a model");
    let values = Tensor::new([40, 24], vec![0.5f32; 40 * 24]);
    std::fs::write(folder.join("v.npy"), npy::write_npy(&values)).expect("an array");
}

#[test]
fn others_are_given_fixed_inputs_too() {
    let folder = folder();
    let at = folder.path();
    with_open_weights(at);
    // The names of arrays stand in their archive as they are.
    python(
        at,
        "for file; do case $file in *inputs.npz) grep -q v.npy $file && echo has v >&2; esac; done; exit 1",
    );
    let fixed = ["open.onnx", "--fix", "v=v.npy", "--against", "onnxruntime", "--python", "./python"];
    let verified = run(at, &[&["verify"], &fixed[..]].concat());
    let said = String::from_utf8_lossy(&verified.stderr);
    assert!(said.contains("has v"), "{said}");
    let benched = run(at, &[&["bench"], &fixed[..], &["--budget", "0.01"]].concat());
    let said = String::from_utf8_lossy(&benched.stdout);
    assert!(said.contains("has v"), "{said}");
}

#[test]
fn runtimes_that_are_slow_or_die_are_named_once() {
    let folder = folder();
    let at = folder.path();
    succeeds(at, &["run", "net.onnx", "--output", "y.npz"]);
    let bench = ["bench", "net.onnx", "--budget", "0.03", "--rounds", "3", "--against", "onnxruntime"];
    let with_python = |script: &str| {
        python(at, script);
        let output = run(at, &[&bench[..], &["--python", "./python", "--json"]].concat());
        (output.status.code(), json(&String::from_utf8_lossy(&output.stdout)))
    };
    let ready = r#"cp y.npz "$6"; echo '{"ready": "fake 1", "first": 0.001}'"#;
    let (code, slow) = with_python(&ready.replace("0.001", "99.0"));
    let why = slow["not_timed"][0]["why"].as_str().unwrap_or_default();
    assert!(code == Some(1) && why.contains("a run takes 99.0 s"), "{slow}");

    let (code, once) = with_python(&format!("{ready}; read a; echo '{{\"seconds\": [1, 1]}}'; read b"));
    assert_eq!((code, &once["rows"][1]["runs"]), (Some(0), &2.into()), "{once}");
    let left_out = once["not_timed"].as_array().expect("a list");
    let why = left_out[0]["why"].as_str().unwrap_or_default();
    assert!(left_out.len() == 1 && why.contains("ended after 1 turns"), "{once}");

    let (code, never) = with_python(&format!("{ready}; read a"));
    let counts = ["rows", "not_timed"].map(|list| never[list].as_array().map(Vec::len));
    assert_eq!((code, counts), (Some(1), [Some(1), Some(1)]), "{never}");
}
