//! The examples of the Rust and the C interface do what their texts say.

mod built;
mod common;
mod tool;

use std::path::Path;
use std::process::{Command, Output};

use built::{c_compiler, example};
use common::model;
use tool::here::command;

fn good(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn the_rust_example_compiles_and_runs_a_model() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("relu.onnx");
    std::fs::write(&file, model("Relu", &["2", "3"])).unwrap();
    let program = example("run_network");
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
    good(
        &command(&["compile"])
            .arg(path("sigmoid.onnx"))
            .arg("-o")
            .arg(path("model.talweg"))
            .output()
            .unwrap(),
    );
    let runtime = Path::new(env!("CARGO_MANIFEST_DIR")).join("../runtime");
    good(&c_compiler(&runtime.join("examples/run_model.c"), &path("run_model")).output().unwrap());
    let printed = good(&Command::new(path("run_model")).arg(path("model.talweg")).output().unwrap());
    assert_eq!(printed, "output y: 6 numbers, the first is 0.5\n");
    let refused = Command::new(path("run_model")).arg(path("sigmoid.onnx")).output().unwrap();
    assert_eq!(refused.status.code(), Some(1));
    assert!(!refused.stderr.is_empty());
}
