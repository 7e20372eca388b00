//! Help texts: every verb has examples, and their options exist; every verb that prints results prints JSON.

mod tool;

use std::path::Path;

use tool::{all_verbs, run, succeeds};

/// Verbs that print a file made for another program, or only have verbs below them.
const WITHOUT_JSON: [&str; 1] = ["completions"];

fn help(verb: &[String]) -> String {
    let mut words: Vec<&str> = verb.iter().map(String::as_str).collect();
    words.push("--help");
    succeeds(Path::new("."), &words)
}

#[test]
fn every_verb_has_examples_whose_options_exist() {
    let all = all_verbs();
    assert!(all.len() > 20, "{all:?}");
    for verb in &all {
        let text = help(verb);
        let begin = format!("talweg {}", verb[0]);
        let shown = text.lines().map(|l| l.trim_start().trim_start_matches("Example: "));
        let examples: Vec<&str> = shown.filter(|l| l.starts_with(&begin)).collect();
        assert!(!examples.is_empty(), "{verb:?} has no example:\n{text}");
        for example in examples {
            check_options(&all, example);
        }
    }
}

/// Every option of an example is in the help of the verb that the example calls.
fn check_options(all: &[Vec<String>], example: &str) {
    let words: Vec<&str> = example.split_whitespace().skip(1).take_while(|w| *w != ">").collect();
    let is_called = |verb: &&Vec<String>| {
        let mut rest = words.iter().filter(|w| !w.starts_with('-'));
        verb.iter().all(|part| rest.any(|w| w == part))
    };
    let called = all.iter().filter(is_called).max_by_key(|verb| verb.len());
    let text = help(called.unwrap_or_else(|| panic!("`{example}` calls no verb")));
    for option in words.iter().filter(|w| w.starts_with('-')) {
        let name = option.split('=').next().unwrap_or_default();
        let is_listed = |line: &str| {
            line.trim_start().starts_with('-')
                && line.split([' ', ',']).any(|w| w == name || w.strip_suffix("...") == Some(name))
        };
        assert!(text.lines().any(is_listed), "`{example}`: no {name} in:\n{text}");
    }
}

#[test]
fn every_verb_that_prints_results_prints_json() {
    let all = all_verbs();
    for verb in &all {
        let is_group = all.iter().any(|other| other.len() > verb.len() && other.starts_with(verb));
        if WITHOUT_JSON.contains(&verb[0].as_str()) || is_group {
            continue;
        }
        assert!(help(verb).contains("--json"), "{verb:?} has no --json");
    }
}

#[test]
fn exit_codes_are_documented() {
    let text = succeeds(Path::new("."), &["--help"]);
    for code in ["0 done", "1 the work failed", "2 the input or an option is wrong", "3 results differ"] {
        assert!(text.contains(code), "{code} is not in:\n{text}");
    }
}

#[test]
fn colours_are_used_when_asked_for_and_not_in_pipes() {
    let escape = |arguments: &[&str]| {
        let output = run(Path::new("."), arguments);
        let all = [output.stdout, output.stderr].concat();
        all.contains(&0x1b)
    };
    assert!(!escape(&["op", "nothing"]), "standard error is no terminal");
    assert!(!escape(&["--color", "never", "op", "nothing"]));
    assert!(escape(&["--color", "always", "op", "nothing"]));
    assert!(escape(&["op", "--color=always", "nothing"]));
    assert!(escape(&["--color", "always", "op", "--no-such-option"]));
    assert!(!escape(&["op", "--no-such-option"]));
    assert!(!escape(&["--help"]));
}
