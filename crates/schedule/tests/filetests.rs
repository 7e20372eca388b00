//! Runs every file of `filetests/`. The first line names the command:
//!
//! - `# test lower`: the loop nest of the schedule, knobs left open;
//! - `# test concrete`: the nest as code generation takes it, knobs substituted;
//! - `# test error`: the error of the trace, or of making its nest concrete.
//!
//! More lines that begin with `# ` say what the file shows. Sections follow, each begun by its name: `## spec` or
//! `## dag` says what is computed, `## knobs` holds lines like `ti = 4`, `## trace` the steps and `## expect` the output.
//! From `## trace` on they may be repeated: the operator and the knobs stay. `TALWEG_BLESS=1` rewrites the expectations.

use std::fs;
use std::path::{Path, PathBuf};

use talweg_expr::Symbol;
use talweg_ir::{Dag, Nest, verify_nest};
use talweg_ops::Spec;
use talweg_schedule::concrete::concretize;
use talweg_schedule::{Schedule, ScheduleError, Trace};

fn files() -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/filetests");
    let mut out: Vec<PathBuf> = fs::read_dir(dir)
        .expect("the directory of file tests exists")
        .map(|entry| entry.expect("it can be listed").path())
        .filter(|p| p.extension().is_some_and(|e| e == "txt"))
        .collect();
    out.sort();
    out
}

/// The sections of a file after its head: names and contents.
fn sections(text: &str) -> (String, Vec<(String, String)>) {
    let (mut head, mut out) = (String::new(), Vec::<(String, String)>::new());
    for line in text.lines() {
        match (line.strip_prefix("## "), out.last_mut()) {
            (Some(name), _) => out.push((name.to_string(), String::new())),
            (None, Some((_, content))) => *content += &format!("{line}\n"),
            (None, None) => head += &format!("{line}\n"),
        }
    }
    (head, out)
}

type Knobs = Vec<(Symbol, i64)>;

fn parse_knobs(text: &str) -> Result<Knobs, String> {
    let parse = |line: &str| {
        let (name, value) = line.split_once('=')?;
        Some((Symbol::knob(name.trim()), value.trim().parse().ok()?))
    };
    text.lines().map(|l| parse(l).ok_or_else(|| format!("`{l}` is not `knob = value`"))).collect()
}

fn legal(nest: Nest) -> Result<String, String> {
    match verify_nest(&nest) {
        Ok(()) => Ok(nest.to_string()),
        Err(violations) => Err(format!("illegal nest:\n{nest}\n{}", violations[0])),
    }
}

fn output(command: &str, dag: &Dag, knobs: &Knobs, trace: &str) -> Result<String, String> {
    let schedule = || Schedule::replay(dag.clone(), &Trace::parse(trace)?);
    let concrete = || {
        let value = |s: &Symbol| knobs.iter().find(|(k, _)| k == s).map(|(_, v)| *v);
        concretize(&schedule()?.lower()?, &value)
    };
    let unexpected = |e: ScheduleError| e.to_string();
    match command {
        "lower" => legal(schedule().and_then(|s| s.lower()).map_err(unexpected)?),
        "concrete" => legal(concrete().map_err(unexpected)?),
        "error" => match concrete() {
            Ok(nest) => Err(format!("there is no error:\n{nest}")),
            Err(e) => Ok(format!("{e}\n")),
        },
        other => Err(format!("`{other}` is no command; the commands are lower, concrete, error")),
    }
}

fn run(path: &Path) -> Result<(), String> {
    let text = fs::read_to_string(path).map_err(|e| e.to_string())?;
    let (head, sections) = sections(&text);
    let command = head.lines().next().and_then(|l| l.strip_prefix("# test "));
    let command = command.ok_or("the first line is not `# test COMMAND`")?;
    let (mut dag, mut knobs, mut trace) = (None, Knobs::new(), String::new());
    let (mut new, mut failures) = (head.clone(), Vec::new());
    for (name, content) in &sections {
        let mut kept = content.clone();
        match name.as_str() {
            "spec" => {
                let built = Spec::parse(content.trim()).and_then(|s| s.build());
                dag = Some(built.map_err(|e| e.to_string())?);
            }
            "dag" => dag = Some(Dag::parse(content).map_err(|e| e.to_string())?),
            "knobs" => knobs = parse_knobs(content)?,
            "trace" => trace.clone_from(content),
            "expect" => {
                let dag = dag.as_ref().ok_or("there is no `## spec` or `## dag` before `## expect`")?;
                kept = output(command, dag, &knobs, &trace).map_err(|e| format!("{trace}{e}"))?;
                if kept != *content {
                    failures.push(format!("after\n{trace}expected:\n{content}found:\n{kept}"));
                }
            }
            other => return Err(format!("there is no section `{other}`")),
        }
        new += &format!("## {name}\n{kept}");
    }
    if failures.is_empty() {
        return Ok(());
    }
    if std::env::var_os("TALWEG_BLESS").is_some() {
        return fs::write(path, new).map_err(|e| e.to_string());
    }
    failures.push("run with TALWEG_BLESS=1 if that is right".into());
    Err(failures.join("\n"))
}

#[test]
fn all_files_give_what_they_expect() {
    let files = files();
    assert!(files.len() > 20, "file tests are missing: found {}", files.len());
    let failures: Vec<String> =
        files.iter().filter_map(|p| run(p).err().map(|e| format!("{}: {e}", p.display()))).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

#[test]
fn every_step_is_shown_and_refused_by_some_file() {
    let texts: Vec<String> =
        files().iter().map(|p| fs::read_to_string(p).expect("a file test can be read")).collect();
    let steps = [
        "split",
        "fuse",
        "reorder",
        "compute_at",
        "inline",
        "cache_write",
        "cache_read",
        "rfactor",
        "vectorize",
        "unroll",
        "parallel",
        "bind",
        "pack",
    ];
    for step in steps {
        let shown = |t: &&String| !t.starts_with("# test error") && t.contains(&format!("\n{step} "));
        assert!(texts.iter().any(|t| shown(&t)), "no file shows `{step}`");
        let refused = format!("\nstep `{step} ");
        assert!(texts.iter().any(|t| t.contains(&refused)), "no file has an error of `{step}`");
    }
}
