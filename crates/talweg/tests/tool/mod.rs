//! Calling the tool as a user does, without the settings of whoever runs the tests.

// Every test program includes this module and uses a part of it.
#![allow(dead_code)]

use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// The tool without settings from outside.
fn isolated(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_talweg"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("TALWEG_")) {
        command.env_remove(name);
    }
    command.env_remove("NO_COLOR").args(arguments).stdin(Stdio::null());
    command
}

/// The tool where it does not matter: in no folder of the test, and without any settings.
pub mod here {
    use super::{Command, Output, isolated, printed};

    /// The tool.
    pub fn command(arguments: &[&str]) -> Command {
        let mut command = isolated(arguments);
        command.env("TALWEG_CONFIG", "none");
        command
    }

    /// Runs the tool.
    pub fn run(arguments: &[&str]) -> Output {
        command(arguments).output().expect("the program starts")
    }

    /// What the tool prints; it must succeed.
    pub fn succeeds(arguments: &[&str]) -> String {
        printed(arguments, run(arguments))
    }
}

/// The tool in a folder, with that folder's settings only.
pub fn command(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = isolated(arguments);
    command.env("XDG_CONFIG_HOME", folder.join("no-config")).current_dir(folder);
    command
}

/// Runs the tool.
pub fn run(folder: &Path, arguments: &[&str]) -> Output {
    command(folder, arguments).output().expect("the program starts")
}

/// What the tool prints; it must succeed.
pub fn succeeds(folder: &Path, arguments: &[&str]) -> String {
    printed(arguments, run(folder, arguments))
}

fn printed(arguments: &[&str], output: Output) -> String {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {}\n{errors}", output.status);
    String::from_utf8(output.stdout).expect("output is UTF-8")
}

/// The JSON object that the tool prints.
pub fn object(folder: &Path, arguments: &[&str]) -> Value {
    let text = succeeds(folder, arguments);
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{arguments:?}: {e}: {text}"))
}

/// What the tool complains about; it must return the code.
pub fn fails(folder: &Path, arguments: &[&str], code: i32) -> String {
    let output = run(folder, arguments);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {errors}");
    errors
}

/// The verbs that a help text lists.
pub fn verbs(help: &str) -> Vec<String> {
    let listed = help.lines().skip_while(|l| *l != "Commands:").skip(1).take_while(|l| !l.is_empty());
    let first =
        |line: &str| line.strip_prefix("  ").and_then(|l| l.split_whitespace().next()).map(str::to_string);
    let names = listed.filter(|l| !l.starts_with("   ")).filter_map(first);
    names.filter(|name| name != "help").collect()
}

/// Every verb of the tool with the verbs below it, as the words that call it.
pub fn all_verbs() -> Vec<Vec<String>> {
    let mut out: Vec<Vec<String>> = Vec::new();
    let mut open = vec![Vec::new()];
    while let Some(path) = open.pop() {
        let mut words: Vec<&str> = path.iter().map(String::as_str).collect();
        words.push("--help");
        for verb in verbs(&succeeds(Path::new("."), &words)) {
            let mut below = path.clone();
            below.push(verb);
            out.push(below.clone());
            open.push(below);
        }
    }
    out.sort();
    out
}
