//! `talweg dataset` as a user calls it: bad input, and a small dataset from collecting to judging.

mod tool;

use std::path::Path;
use std::process::Output;

use tool::here::command;

fn run(arguments: &[&str]) -> Output {
    command(&["dataset"]).args(arguments).output().expect("the program starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs successfully and gives what was printed.
fn succeeds(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// Is refused as bad input, with an error that holds the given text.
fn refuses(arguments: &[&str], name: &str) {
    let output = run(arguments);
    let err = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {err}");
    assert!(err.contains("error: ") && !err.contains("panicked"), "{arguments:?}: {err}");
    assert!(err.contains(name), "{arguments:?}: `{name}` is not in: {err}");
}

fn path(dir: &Path, name: &str) -> String {
    dir.join(name).to_string_lossy().into_owned()
}

#[test]
fn bad_input_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let (db, out) = (path(dir.path(), "d.db"), path(dir.path(), "m.mlp"));
    for (arguments, name) in [
        (&["collect", "--operators", "0"][..], "--operators 0"),
        (&["collect", "--programs", "0"], "--programs 0"),
        (&["collect", "--threads", "0"], "--threads 0"),
        (&["collect", "--target", "pdp11"], "unknown target `pdp11`"),
        (&["collect", "--budget", "soon"], "--budget soon"),
        (&["collect", "--sampling", "-1s"], "'-1'"),
        (&["collect", "--sampling", "0s"], "--sampling 0s"),
        (&["collect", "--seed", "x"], "invalid value 'x'"),
        (&["train", "--output", &out, "--loss", "best"], "--loss best"),
        (&["train", "--output", &out, "--epochs", "0"], "--epochs 0"),
        (&["train", "--output", &out, "--rate", "nan"], "rate"),
        (&["train", "--db", &db, "--output", &out], "d.db"),
        (&["train", "--db", &db], "--output"),
        (&["evaluate", "--db", &db], "d.db"),
        (&["evaluate", "--db", &db, "--checkpoint", &out], "m.mlp"),
        (&["measure"], "unrecognized subcommand"),
    ] {
        refuses(arguments, name);
    }
    std::fs::write(&out, b"not a network").expect("a file");
    refuses(&["evaluate", "--db", &db, "--checkpoint", &out], "does not begin as a checkpoint");
    std::fs::write(&db, b"not a database, but long enough to be looked at by somebody").expect("a file");
    refuses(&["train", "--db", &db, "--output", &out], "d.db");
    refuses(&["collect", "--db", &db, "--operators", "1"], "d.db");
}

#[test]
fn a_seed_lists_its_operators() {
    let list = succeeds(&["collect", "--operators", "20", "--list"]);
    assert_eq!(list.lines().count(), 20);
    assert!(list.starts_with("conv2d:") && list.contains("\nsoftmax:"), "{list}");
    assert_eq!(list, succeeds(&["collect", "--operators", "20", "--list"]));
}

#[test]
fn a_small_dataset_is_collected_learnt_and_judged() {
    let dir = tempfile::tempdir().expect("a directory");
    let (db, out, plot) = (path(dir.path(), "d.db"), path(dir.path(), "m.mlp"), path(dir.path(), "p.svg"));
    let collect = ["collect", "--db", &db, "--operators", "5", "--programs", "4", "--sampling", "1ms"];
    let first = succeeds(&collect);
    assert!(first.contains("20 programs measured, 0 failed; 5 of 5 operators done\n"), "{first}");
    let again = succeeds(&collect);
    assert!(again.contains("0 programs measured"), "{again}");
    refuses(&["train", "--db", &db, "--output", &out, "--hidden", "33"], "hidden");
    let train =
        ["train", "--db", &db, "--output", &out, "--epochs", "2", "--hidden", "32", "--hold-out", "2"];
    let trained = succeeds(&train);
    assert!(trained.contains("on 20 programs, 0 records skipped"), "{trained}");
    let bytes = std::fs::read(&out).expect("a checkpoint");
    let judged = succeeds(&["evaluate", "--db", &db, "--checkpoint", &out, "--plot", &plot]);
    assert!(judged.contains("made by `talweg dataset train") && judged.contains("| all |"), "{judged}");
    assert!(std::fs::read_to_string(&plot).expect("a plot").starts_with("<svg"));
    let picture = std::fs::read(path(dir.path(), "p.png")).expect("a picture");
    assert!(picture.starts_with(b"\x89PNG"));
    succeeds(&train);
    assert_eq!(std::fs::read(&out).expect("a checkpoint"), bytes, "the same command gives the same file");
}
