//! Runs every file of `filetests/`. The first line names the command, the lines from `# expect:` on hold its output:
//!
//! - `# test cat`: parses and prints, or gives the parse error;
//! - `# test verify`: parses and verifies; `ok`, or every violation.
//!
//! The extension says what the file holds: a `dag` or a `nest`. `TALWEG_BLESS=1` rewrites the expectations.

use std::fs;
use std::path::{Path, PathBuf};

use talweg_ir::{Dag, Nest, Rule, Violation, verify_dag, verify_nest};

const EXPECT: &str = "# expect:\n";

fn files() -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/filetests");
    let mut out: Vec<PathBuf> = fs::read_dir(dir)
        .expect("the directory of file tests exists")
        .map(|entry| entry.expect("it can be listed").path())
        .filter(|p| p.extension().is_some_and(|e| e == "dag" || e == "nest"))
        .collect();
    out.sort();
    out
}

fn report(result: Result<(), Vec<Violation>>) -> String {
    match result {
        Ok(()) => "ok\n".into(),
        Err(violations) => violations.iter().map(|v| format!("{v}\n")).collect(),
    }
}

fn cat(text: &str, is_dag: bool) -> Result<String, String> {
    let print = |text: &str| {
        if is_dag {
            Dag::parse(text).map(|d| d.to_string())
        } else {
            Nest::parse(text).map(|n| n.to_string())
        }
    };
    let once = match print(text) {
        Ok(once) => once,
        Err(e) => return Ok(format!("error: {e}\n")),
    };
    match print(&once) {
        Ok(twice) if twice == once => Ok(once),
        other => Err(format!("printed once:\n{once}\nparsed and printed again:\n{other:?}")),
    }
}

fn verify(text: &str, is_dag: bool) -> String {
    let result = if is_dag {
        Dag::parse(text).map(|d| report(verify_dag(&d)))
    } else {
        Nest::parse(text).map(|n| report(verify_nest(&n)))
    };
    result.unwrap_or_else(|e| format!("error: {e}\n"))
}

fn run(path: &Path) -> Result<(), String> {
    let content = fs::read_to_string(path).map_err(|e| e.to_string())?;
    let (program, expected) = content.split_once(EXPECT).unwrap_or((&content, ""));
    let is_dag = path.extension().is_some_and(|e| e == "dag");
    let output = match program.lines().next() {
        Some("# test cat") => cat(program, is_dag)?,
        Some("# test verify") => verify(program, is_dag),
        other => {
            return Err(format!("the first line is {other:?}, expected `# test cat` or `# test verify`"));
        }
    };
    let output: String = output.lines().map(|l| format!("# {l}\n")).collect();
    if output == expected {
        return Ok(());
    }
    if std::env::var_os("TALWEG_BLESS").is_some() {
        return fs::write(path, format!("{program}{EXPECT}{output}")).map_err(|e| e.to_string());
    }
    Err(format!("expected:\n{expected}found:\n{output}run with TALWEG_BLESS=1 if that is right"))
}

#[test]
fn all_files_give_what_they_expect() {
    let files = files();
    assert!(files.len() > 10, "file tests are missing: found {}", files.len());
    let failures: Vec<String> =
        files.iter().filter_map(|p| run(p).err().map(|e| format!("{}: {e}", p.display()))).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

#[test]
fn every_rule_is_violated_by_some_file() {
    let texts: Vec<String> =
        files().iter().map(|p| fs::read_to_string(p).expect("a file test can be read")).collect();
    // Text cannot hold an id without a tensor behind it.
    for rule in Rule::ALL.into_iter().filter(|r| *r != Rule::Reference) {
        let expected = format!("\n# {}: ", rule.label());
        assert!(texts.iter().any(|t| t.contains(&expected)), "no file violates {rule}");
    }
}
