//! The README and the book: every page is listed, every link leads somewhere, every code block works.
//!
//! | block | is |
//! |---|---|
//! | `sh` | run by bash in a folder with `model.onnx` (input `x`, output `y`) and `x.npy`; one folder a page, in order |
//! | `c` | compiled, linked with the runtime, and run in the same folder |
//! | `toml` | read as `talweg.toml` |
//! | `python` | run by the Python in `TALWEG_BOOK_PYTHON`, if that is set |
//! | `rust` | tested with the library's documentation |
//! | `text` | output, or a command that takes long: not run |
//!
//! So that this takes minutes and not hours, the `talweg` that these blocks find shortens budgets and trials.

mod built;
mod chain;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

/// What `talweg` is for the blocks: the tool, with short budgets.
const WRAPPER: &str = r#"#!/bin/bash
arguments=()
while [ $# -gt 0 ]; do
    arguments+=("$1")
    case "$1" in
        --budget) case "$2" in *[smh]) arguments+=(2s) ;; *) arguments+=(0.1) ;; esac; shift ;;
        --trials) arguments+=(8); shift ;;
        --patience) arguments+=(0); shift ;;
        --runs) arguments+=(3); shift ;;
    esac
    shift
done
exec "$TALWEG_BOOK_TOOL" "${arguments[@]}"
"#;

struct Block {
    language: String,
    line: usize,
    text: String,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository")
}

/// All pages of the book, in the order of their names.
fn pages() -> Vec<PathBuf> {
    let mut out = Vec::new();
    let mut open = vec![root().join("docs/src")];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder").filter_map(Result::ok) {
            let path = entry.path();
            match path.extension().and_then(|e| e.to_str()) {
                _ if path.is_dir() => open.push(path),
                Some("md") => out.push(path),
                _ => {}
            }
        }
    }
    out.sort();
    out
}

fn documents() -> Vec<PathBuf> {
    let mut all = vec![root().join("README.md")];
    all.extend(pages());
    all
}

/// The fenced blocks of a document.
fn blocks(text: &str) -> Vec<Block> {
    let mut out = Vec::new();
    let mut open: Option<Block> = None;
    for (at, line) in text.lines().enumerate() {
        match (line.trim_start().strip_prefix("```"), &mut open) {
            (Some(language), None) => {
                open = Some(Block { language: language.trim().into(), line: at + 1, text: String::new() });
            }
            (Some(_), Some(_)) => out.extend(open.take()),
            (None, Some(block)) => block.text += &format!("{line}\n"),
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "a block is not closed");
    out
}

/// The targets of links and pictures, those outside of the repository left out.
fn links(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    let mut in_block = false;
    for line in text.lines() {
        in_block ^= line.trim_start().starts_with("```");
        let mut rest = if in_block { "" } else { line };
        while let Some(at) = rest.find("](") {
            rest = &rest[at + 2..];
            let Some(end) = rest.find(')') else { break };
            out.push(rest[..end].to_string());
            rest = &rest[end..];
        }
    }
    out.retain(|link| !link.contains("://") && !link.starts_with('#'));
    out
}

#[test]
fn every_page_is_in_the_summary() {
    let summary = root().join("docs/src/SUMMARY.md");
    let listed = links(&std::fs::read_to_string(&summary).expect("a summary"));
    for page in pages().iter().filter(|page| **page != summary) {
        let name = page.strip_prefix(root().join("docs/src")).expect("a page").display().to_string();
        assert!(listed.contains(&name), "{name} is not in SUMMARY.md");
    }
    assert!(listed.len() > 20, "{listed:?}");
}

#[test]
fn every_link_leads_somewhere() {
    let mut all = documents();
    all.push(root().join("ARCHITECTURE.md"));
    for page in all {
        let folder = page.parent().expect("a folder");
        for link in links(&std::fs::read_to_string(&page).expect("a page")) {
            let file = link.split('#').next().unwrap_or_default();
            assert!(folder.join(file).exists(), "{}: `{link}` leads nowhere", page.display());
        }
    }
}

#[test]
fn every_block_has_a_language_that_is_tested() {
    for page in documents() {
        for block in blocks(&std::fs::read_to_string(&page).expect("a page")) {
            let known = ["sh", "c", "toml", "python", "rust", "text"].contains(&block.language.as_str());
            assert!(known, "{}:{}: `{}` is not tested", page.display(), block.line, block.language);
        }
    }
}

#[test]
fn every_page_with_rust_is_tested_with_the_library() {
    let library = std::fs::read_to_string(root().join("crates/talweg/src/lib.rs")).expect("the library");
    for page in documents() {
        let text = std::fs::read_to_string(&page).expect("a page");
        if blocks(&text).iter().any(|block| block.language == "rust") {
            let name = page.strip_prefix(root()).expect("a page").display().to_string();
            assert!(
                library.contains(&format!("include_str!(\"../../../{name}\")")),
                "{name} is not in lib.rs"
            );
        }
    }
}

/// A folder with what blocks may use, and a folder with the tool.
fn workplace() -> (TempDir, TempDir) {
    let (work, bin) = (TempDir::new().expect("a folder"), TempDir::new().expect("a folder"));
    let tool = bin.path().join("talweg");
    std::fs::write(&tool, WRAPPER).expect("a script");
    std::fs::set_permissions(&tool, std::fs::Permissions::from_mode(0o755)).expect("a program");
    std::fs::write(work.path().join("model.onnx"), chain::model(1)).expect("a model");
    let values = (0..12 * 16).map(|n| f64::from(n % 7) / 7.0).collect::<Vec<_>>();
    let x = talweg_tensor::Tensor::from_f64(talweg_tensor::ElementType::F32, vec![12, 16], values);
    std::fs::write(work.path().join("x.npy"), talweg_tensor::npy::write_npy(&x)).expect("an array");
    (work, bin)
}

/// Runs a block; none if this machine cannot.
fn run(block: &Block, work: &Path, bin: &Path) -> Option<Output> {
    let program = match block.language.as_str() {
        "sh" => {
            let mut bash = Command::new("bash");
            bash.args(["-euo", "pipefail", "-c", &block.text]);
            bash
        }
        "toml" => {
            std::fs::write(work.join("talweg.toml"), &block.text).expect("a file");
            let mut tool = Command::new(bin.join("talweg"));
            tool.arg("config");
            tool
        }
        "c" => {
            std::fs::write(work.join("main.c"), &block.text).expect("a file");
            let compiled = built::c_compiler(&work.join("main.c"), &work.join("main")).output().ok()?;
            if !compiled.status.success() {
                return Some(compiled);
            }
            Command::new(work.join("main"))
        }
        "python" => {
            let mut python = Command::new(std::env::var_os("TALWEG_BOOK_PYTHON")?);
            python.args(["-c", &block.text]);
            python
        }
        _ => return None,
    };
    Some(surrounded(program, work, bin).output().expect("the block starts"))
}

fn surrounded(mut program: Command, work: &Path, bin: &Path) -> Command {
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("TALWEG_")) {
        program.env_remove(name);
    }
    let path = std::env::var("PATH").unwrap_or_default();
    program
        .env("PATH", format!("{}:{path}", bin.display()))
        .env("TALWEG_BOOK_TOOL", env!("CARGO_BIN_EXE_talweg"));
    program.env("TALWEG_OP_BUDGET", "0.1").env("TALWEG_OP_PATIENCE", "0").env("TALWEG_BENCH_BUDGET", "0.1");
    program.env("XDG_CONFIG_HOME", work.join("no-config")).env("HOME", work);
    program.current_dir(work).stdin(Stdio::null());
    program
}

#[test]
fn every_block_works() {
    let (mut ran, mut failed) = (0, Vec::new());
    for page in documents() {
        let (work, bin) = workplace();
        for block in blocks(&std::fs::read_to_string(&page).expect("a page")) {
            let Some(output) = run(&block, work.path(), bin.path()) else { continue };
            ran += 1;
            if !output.status.success() {
                let errors = String::from_utf8_lossy(&output.stderr);
                failed.push(format!("{}:{}: {}\n{errors}", page.display(), block.line, output.status));
            }
        }
    }
    assert!(failed.is_empty(), "{} of {ran} blocks failed:\n{}", failed.len(), failed.join("\n"));
    assert!(ran > 20, "only {ran} blocks were run");
}

#[test]
fn the_pictures_are_what_the_code_draws() {
    let folder = TempDir::new().expect("a folder");
    let drawn = Command::new(built::example("book_pictures")).arg(folder.path()).status().expect("it starts");
    assert!(drawn.success());
    let mut count = 0;
    for entry in std::fs::read_dir(folder.path()).expect("pictures").filter_map(Result::ok) {
        let kept = root().join("docs/src/images").join(entry.file_name());
        let same = std::fs::read(&kept).ok() == std::fs::read(entry.path()).ok();
        assert!(same, "{} is old; draw it anew as the example's text says", kept.display());
        count += 1;
    }
    assert_eq!(count, 3);
}
