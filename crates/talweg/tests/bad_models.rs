//! Bad input to the verbs that take a model: exit code 2, a clear text, nothing written.

mod common;
mod tool;

use std::path::{Path, PathBuf};

use common::model;
use talweg_tensor::{Tensor, npy};
use tool::run;

/// Every verb that takes an ONNX file, with what it needs beside the file.
const VERBS: [&[&str]; 6] =
    [&["check"], &["compile", "-o", "out.talweg"], &["run"], &["bench"], &["verify"], &["profile"]];

fn names(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut names: Vec<PathBuf> = entries.collect();
    names.sort();
    names
}

/// Is refused as bad input with every given text, prints nothing else and leaves the folder as it was.
fn refuses(folder: &Path, arguments: &[&str], wanted: &[&str]) {
    let before = names(folder);
    let output = run(folder, arguments);
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {err}");
    assert_eq!(out, "", "{arguments:?} writes to standard output");
    assert!(err.starts_with("error: "), "{arguments:?}: {err}");
    assert!(!err.contains("panicked"), "{arguments:?}: {err}");
    for text in wanted {
        assert!(err.contains(text), "{arguments:?}: `{text}` is not in: {err}");
    }
    assert_eq!(names(folder), before, "{arguments:?} leaves files behind");
}

fn succeeds(folder: &Path, arguments: &[&str]) {
    let output = run(folder, arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A folder with a good model, one with an open dimension, and one with an operator that does not exist.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| std::fs::write(folder.path().join(name), bytes).unwrap();
    write("good.onnx", &model("Relu", &["2", "3"]));
    write("open.onnx", &model("Relu", &["batch", "3"]));
    write("strange.onnx", &model("NoSuchOperator", &["2", "3"]));
    write("garbage.onnx", b"\xff\xfe this is no model \x00\x01\x02");
    write("empty.onnx", b"");
    write("x.npy", &npy::write_npy(&Tensor::new([2usize, 3], vec![-1.0f32, 0.0, 1.0, 2.0, -3.0, 4.0])));
    write("wide.npy", &npy::write_npy(&Tensor::new([2usize, 4], vec![1.0f32; 8])));
    write("whole.npy", &npy::write_npy(&Tensor::new([2usize, 3], vec![1i64; 6])));
    write("broken.npy", b"\x93NUMPY\x01\x00\x10");
    folder
}

#[test]
fn files_that_are_no_models_are_refused_by_every_verb() {
    let folder = folder();
    for verb in VERBS {
        for (file, text) in [
            ("missing.onnx", "missing.onnx"),
            ("garbage.onnx", "not a valid ONNX model"),
            ("empty.onnx", "empty.onnx"),
            ("strange.onnx", "NoSuchOperator"),
            ("open.onnx", "--dim batch=N"),
        ] {
            let mut arguments = vec![verb[0], file];
            arguments.extend(&verb[1..]);
            refuses(folder.path(), &arguments, &[text]);
        }
    }
}

#[test]
fn every_cut_of_a_model_is_refused_or_understood() {
    let folder = folder();
    let whole = model("Relu", &["2", "3"]);
    for length in (1..whole.len()).step_by(7) {
        std::fs::write(folder.path().join("cut.onnx"), &whole[..length]).unwrap();
        let output = run(folder.path(), &["check", "cut.onnx"]);
        let err = String::from_utf8_lossy(&output.stderr);
        assert!(matches!(output.status.code(), Some(0 | 2)), "{length} bytes: {err}");
    }
}

#[test]
fn bindings_that_do_not_fit_are_refused() {
    let folder = folder();
    let at = folder.path();
    refuses(at, &["check", "good.onnx", "--shape", "z=2,3"], &["`z`"]);
    refuses(at, &["check", "good.onnx", "--shape", "x=2,3,4"], &["`x`"]);
    refuses(at, &["check", "good.onnx", "--shape", "x=5,3"], &["`x`"]);
    refuses(at, &["check", "good.onnx", "--shape", "x=two"], &["whole numbers"]);
    refuses(at, &["check", "open.onnx", "--dim", "batch=many"], &["whole number"]);
    refuses(at, &["check", "open.onnx", "--dim", "other=1"], &["other"]);
    refuses(at, &["check", "open.onnx", "--fix", "z=x.npy"], &["`z`"]);
    refuses(at, &["check", "open.onnx", "--fix", "x=whole.npy"], &["`x`", "i64"]);
    refuses(at, &["check", "open.onnx", "--fix", "x=none.npy"], &["none.npy"]);
}

#[test]
fn inputs_that_do_not_fit_are_refused() {
    let folder = folder();
    let at = folder.path();
    let run = |input: &str, wanted: &[&str]| {
        refuses(at, &["run", "good.onnx", "--input", input, "--output", "out.npz"], wanted);
    };
    run("z=x.npy", &["no input `z`", "`x`"]);
    run("x=wide.npy", &["f32[2,3]", "f32[2,4]"]);
    run("x=whole.npy", &["f32[2,3]", "i64[2,3]"]);
    run("x=broken.npy", &["broken.npy"]);
    run("x=none.npy", &["none.npy"]);
    run("x", &["NAME=FILE.npy"]);
    refuses(at, &["run", "good.onnx", "--input", "x=x.npy", "--output", "none/out.npz"], &["none/out.npz"]);
    succeeds(at, &["run", "good.onnx", "--input", "x=x.npy", "--output", "y.npy"]);
    let y = npy::read_npy(&std::fs::read(at.join("y.npy")).unwrap()).unwrap();
    assert_eq!(y.values::<f32>().as_ref(), [0.0, 0.0, 1.0, 2.0, 0.0, 4.0]);
}

#[test]
fn damaged_artefacts_are_refused() {
    let folder = folder();
    let at = folder.path();
    succeeds(at, &["compile", "good.onnx", "-o", "good.talweg"]);
    let whole = std::fs::read(at.join("good.talweg")).unwrap();
    for length in [7, 100, 200, whole.len() / 2, whole.len() - 1] {
        std::fs::write(at.join("bad.talweg"), &whole[..length]).unwrap();
        refuses(at, &["run", "bad.talweg", "--output", "out.npz"], &["bad.talweg"]);
    }
    let mut damaged = whole.clone();
    damaged[140] ^= 1;
    std::fs::write(at.join("bad.talweg"), damaged).unwrap();
    refuses(at, &["run", "bad.talweg"], &["checksum of its manifest and kernels"]);
    refuses(at, &["bench", "bad.talweg"], &["checksum"]);
    let mut newer = whole;
    newer[8] = 77;
    std::fs::write(at.join("bad.talweg"), newer).unwrap();
    refuses(at, &["profile", "bad.talweg"], &["format version 77"]);
    refuses(at, &["compile", "good.talweg", "-o", "again.talweg"], &["good.talweg"]);
}

#[test]
fn an_artefact_takes_no_options_of_the_import() {
    let folder = folder();
    let at = folder.path();
    succeeds(at, &["compile", "open.onnx", "--dim", "batch=2", "-o", "open.talweg"]);
    let options = [
        ["--dim", "batch=8"],
        ["--shape", "x=8,3"],
        ["--fix", "x=x.npy"],
        ["--max-error", "0"],
        ["--db", "a.db"],
    ];
    for given in options {
        for verb in ["run", "bench", "profile"] {
            let wanted = format!("open.talweg is compiled already; give the ONNX file with {}", given[0]);
            refuses(at, &[&[verb, "open.talweg"], &given[..]].concat(), &[&wanted]);
        }
    }
    // A setting is for models that are imported.
    std::fs::write(at.join("talweg.toml"), "max_error = 0.0\n").unwrap();
    succeeds(at, &["run", "open.talweg"]);
}

#[test]
fn a_database_that_is_named_must_be_there() {
    let folder = folder();
    let at = folder.path();
    for verb in VERBS {
        let mut arguments = vec![verb[0], "good.onnx", "--db", "mistyped.db"];
        arguments.extend(&verb[1..]);
        refuses(at, &arguments, &["no database `mistyped.db`", "talweg tune", "leave it out"]);
    }
    refuses(at, &["explain", "good.onnx", "0", "--db", "mistyped.db"], &["mistyped.db"]);
    refuses(at, &["explain", "matmul:m=4,n=4,k=4", "--db", "mistyped.db"], &["mistyped.db"]);
    // Before the first search there is none, wherever it is to be.
    succeeds(at, &["run", "good.onnx"]);
    std::fs::write(at.join("talweg.toml"), "db = 'later.db'\n").unwrap();
    succeeds(at, &["run", "good.onnx"]);
}

#[test]
fn results_are_not_written_over_what_is_read() {
    let folder = folder();
    let at = folder.path();
    let model = std::fs::read(at.join("good.onnx")).unwrap();
    std::fs::write(at.join("good.lock"), "a lock").unwrap();
    let wanted = ["would replace `good.onnx`", "another name"];
    refuses(at, &["compile", "good.onnx", "-o", "good.onnx"], &wanted);
    refuses(at, &["compile", "good.onnx", "-o", "./good.onnx", "--emit", "so"], &wanted);
    refuses(at, &["compile", "good.onnx", "--lock", "good.lock", "-o", "good.lock"], &["`good.lock`"]);
    refuses(at, &["tune", "good.onnx", "--trials", "1", "-o", "good.onnx"], &wanted);
    refuses(at, &["run", "good.onnx", "--output", "good.onnx"], &wanted);
    refuses(at, &["profile", "good.onnx", "--trace", "good.onnx"], &wanted);
    succeeds(at, &["tune", "good.onnx", "--trials", "1"]);
    let db = std::fs::read(at.join("talweg.db")).unwrap();
    refuses(at, &["db", "export", "talweg.db"], &["would replace `talweg.db`"]);
    refuses(at, &["report", "-o", "talweg.db"], &["would replace `talweg.db`"]);
    assert!(std::fs::read(at.join("talweg.db")).unwrap() == db, "the database has changed");
    assert_eq!(std::fs::read(at.join("good.onnx")).unwrap(), model);
    // Another file may be replaced.
    std::fs::write(at.join("out.talweg"), "something else").unwrap();
    succeeds(at, &["compile", "good.onnx", "-o", "out.talweg"]);
}

#[test]
fn places_that_cannot_be_written_and_tolerances_that_mean_nothing_are_refused() {
    let folder = folder();
    let at = folder.path();
    for emit in ["artefact", "so"] {
        refuses(at, &["compile", "good.onnx", "--emit", emit, "-o", "none/out"], &["none", "cannot write"]);
    }
    for tolerance in ["nan", "-1", "inf"] {
        refuses(at, &["verify", "good.onnx", &format!("--tolerance={tolerance}")], &["--tolerance", "1e-4"]);
    }
}
