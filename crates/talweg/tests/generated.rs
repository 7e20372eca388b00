//! What is generated from the command line: completions and manual pages, for every verb.

mod tool;

use std::path::Path;
use std::process::{Command, Stdio};

use tempfile::TempDir;
use tool::{all_verbs, fails, object, succeeds};

#[test]
fn completions_know_every_verb() {
    let verbs: Vec<Vec<String>> = all_verbs();
    for shell in ["bash", "zsh", "fish"] {
        let script = succeeds(Path::new("."), &["completions", shell]);
        for verb in &verbs {
            let last = verb.last().expect("a word");
            assert!(script.contains(last.as_str()), "{shell} does not complete `{last}`");
        }
        assert!(script.contains("budget") && script.contains("strategy"), "{shell} completes no options");
        assert!(!script.contains("worker"), "{shell} completes a verb that is not for users");
    }
    assert!(fails(Path::new("."), &["completions", "cmd"], 2).contains("possible values"));
}

#[test]
fn the_bash_script_is_one() {
    let script = succeeds(Path::new("."), &["completions", "bash"]);
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("talweg.bash");
    std::fs::write(&path, script).expect("a file");
    let checked = Command::new("bash").arg("-n").arg(&path).stdin(Stdio::null()).status();
    assert!(checked.expect("bash starts").success());
}

#[test]
fn every_verb_has_a_manual_page() {
    let folder = TempDir::new().expect("a folder");
    let written = object(folder.path(), &["man", "-o", "pages/man1", "--json"]);
    let pages = written["pages"].as_array().expect("names");
    let mut expected = vec!["talweg".to_string()];
    expected.extend(all_verbs().iter().map(|verb| format!("talweg-{}", verb.join("-"))));
    assert_eq!(pages.len(), expected.len(), "{pages:?}");
    for name in expected {
        let path = folder.path().join("pages/man1").join(format!("{name}.1"));
        let page = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(page.contains(".TH ") && page.contains(".SH NAME"), "{name}: {page}");
        assert!(page.contains(&name.replace('-', "\\-")), "{name} is not in its page");
        assert!(page.contains("Example"), "{name} has no example");
        assert!(page.contains("\\-\\-color"), "{name} lacks the options of the tool");
    }
}

#[test]
fn a_folder_that_cannot_be_made_is_refused() {
    let folder = TempDir::new().expect("a folder");
    std::fs::write(folder.path().join("file"), "").expect("a file");
    assert!(fails(folder.path(), &["man", "-o", "file/man"], 2).contains("file/man"));
}
