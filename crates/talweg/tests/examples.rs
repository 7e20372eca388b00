//! The examples of the Rust and the C interface do what their texts say.

mod common;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use common::model;

/// A file that cargo built with these tests: the newest in `folder` whose name begins and ends so.
fn built(folder: &Path, begin: &str, end: &str) -> PathBuf {
    let files = std::fs::read_dir(folder).unwrap().filter_map(Result::ok);
    let named = files.filter(|file| {
        let name = file.file_name().to_string_lossy().into_owned();
        name.starts_with(begin) && name.ends_with(end)
    });
    let newest = named.max_by_key(|file| file.metadata().and_then(|data| data.modified()).ok());
    newest.unwrap_or_else(|| panic!("cargo builds {begin}*{end} with the tests")).path()
}

/// Where cargo puts libraries (`deps`) and, beside it, programs and examples.
fn deps() -> PathBuf {
    std::env::current_exe().unwrap().parent().unwrap().to_path_buf()
}

fn good(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn the_rust_example_compiles_and_runs_a_model() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("relu.onnx");
    std::fs::write(&file, model("Relu", &["2", "3"])).unwrap();
    let program = deps().parent().unwrap().join("examples/run_network");
    assert!(
        program.exists(),
        "cargo builds the examples with all tests; build it with `cargo build --examples`"
    );
    let printed = good(&Command::new(&program).arg(&file).output().unwrap());
    assert!(printed.contains("y: [2, 3], from 0 to "), "{printed}");
    let refused = Command::new(&program).arg("missing.onnx").output().unwrap();
    assert!(!refused.status.success());
    assert!(String::from_utf8_lossy(&refused.stderr).contains("missing.onnx"));
}

#[test]
fn the_c_example_runs_an_artefact() {
    if Command::new("cc").arg("--version").output().is_err() {
        println!("skipped: no C compiler `cc` on this machine");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("sigmoid.onnx"), model("Sigmoid", &["2", "3"])).unwrap();
    let mut talweg = Command::new(env!("CARGO_BIN_EXE_talweg"));
    good(
        &talweg
            .arg("compile")
            .arg(path("sigmoid.onnx"))
            .arg("-o")
            .arg(path("model.talweg"))
            .output()
            .unwrap(),
    );
    let runtime = Path::new(env!("CARGO_MANIFEST_DIR")).join("../runtime");
    let mut cc = Command::new("cc");
    cc.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-O1", "-I"]).arg(runtime.join("include"));
    cc.arg(runtime.join("examples/run_model.c")).arg(built(&deps(), "libtalweg_runtime", ".a"));
    good(&cc.args(["-lpthread", "-ldl", "-lm", "-o"]).arg(path("run_model")).output().unwrap());
    let printed = good(&Command::new(path("run_model")).arg(path("model.talweg")).output().unwrap());
    assert_eq!(printed, "output y: 6 numbers, the first is 0.5\n");
    let refused = Command::new(path("run_model")).arg(path("sigmoid.onnx")).output().unwrap();
    assert_eq!(refused.status.code(), Some(1));
    assert!(!refused.stderr.is_empty());
}
