//! ARCHITECTURE.md tells the truth: its code map agrees with the manifests, the files it names exist, and what it
//! says is absent is absent.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

type Map = BTreeMap<String, BTreeSet<String>>;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn page() -> String {
    read(&root().join("ARCHITECTURE.md"))
}

/// Whatever stands between backquotes in a line.
fn quoted(line: &str) -> BTreeSet<String> {
    line.split('`').skip(1).step_by(2).map(str::to_string).collect()
}

/// Crate to the crates it may use, from the table.
fn code_map(page: &str) -> Map {
    let section =
        page.lines().skip_while(|l| *l != "## Code map").skip(1).take_while(|l| !l.starts_with('#'));
    let rows = section.filter(|l| l.starts_with("| `"));
    rows.map(|row| {
        let cells: Vec<&str> = row.trim_matches('|').split('|').collect();
        let [name, _, uses] = cells.as_slice() else { panic!("not three columns: {row}") };
        (quoted(name).pop_first().expect("a name"), quoted(uses))
    })
    .collect()
}

/// Names of the dependencies of a manifest, those of tests and build scripts aside.
fn dependencies(manifest: &str) -> BTreeSet<String> {
    let mut wanted = false;
    let mut out = BTreeSet::new();
    for line in manifest.lines().map(str::trim) {
        if line.starts_with('[') {
            let table = line.trim_matches(['[', ']']);
            let (parent, last) = table.rsplit_once('.').unwrap_or(("", table));
            wanted = last == "dependencies";
            if parent == "dependencies" || parent.ends_with(".dependencies") {
                out.insert(last.to_string());
            }
        } else if wanted && !line.is_empty() && !line.starts_with('#') {
            let name = line.split(['.', '=', ' ']).next().unwrap_or_default();
            out.insert(name.trim_matches('"').to_string());
        }
    }
    out
}

/// All dependencies of every crate, by its directory.
fn manifests() -> Map {
    let crates = fs::read_dir(root().join("crates")).expect("the crates can be listed");
    crates
        .map(|entry| entry.expect("an entry").path())
        .filter(|dir| dir.join("Cargo.toml").exists())
        .map(|dir| {
            let name = dir.file_name().expect("a name").to_string_lossy().into_owned();
            (name, dependencies(&read(&dir.join("Cargo.toml"))))
        })
        .collect()
}

fn sources(dir: &Path, out: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, out);
        } else if path.extension().is_some_and(|e| e == "rs") {
            out.push(path);
        }
    }
}

#[test]
fn manifests_are_read_in_all_their_forms() {
    let text = "[package]\nname = \"x\"\n[dependencies]\na.workspace = true\nb = \"1\"\n\"c\" = { path = \"c\" }\n\n\
                [target.'cfg(unix)'.dependencies]\nd = \"1\"\n[dependencies.e]\nversion = \"1\"\n\
                [dev-dependencies]\nf = \"1\"\n[dev-dependencies.g]\nversion = \"1\"\n";
    let expected: BTreeSet<String> = ["a", "b", "c", "d", "e"].map(str::to_string).into();
    assert_eq!(dependencies(text), expected);
}

#[test]
fn the_code_map_lists_what_every_crate_depends_on() {
    let workspace = |all: BTreeSet<String>| -> BTreeSet<String> {
        let own = all.iter().filter(|d| *d == "talweg" || d.starts_with("talweg-"));
        own.map(|d| d.strip_prefix("talweg-").unwrap_or(d).to_string()).collect()
    };
    let found: Map = manifests().into_iter().map(|(name, all)| (name, workspace(all))).collect();
    assert!(found.len() >= 9, "crates are missing: {found:?}");
    let documented = code_map(&page());
    let names = |map: &Map| map.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&documented), names(&found), "ARCHITECTURE.md lists these crates, and there are those");
    for (name, uses) in &found {
        assert_eq!(&documented[name], uses, "`{name}`: ARCHITECTURE.md says this, its Cargo.toml that");
    }
}

#[test]
fn only_the_code_generator_knows_llvm() {
    for (name, uses) in manifests() {
        let llvm = uses.iter().any(|d| d == "inkwell" || d == "llvm-sys");
        assert_eq!(llvm, name == "codegen", "`{name}` and LLVM");
    }
}

#[test]
fn files_that_are_named_exist() {
    let page = page();
    let is_path = |name: &String| name.starts_with("crates/") || name.starts_with("scripts/");
    let named: Vec<String> = page.lines().flat_map(quoted).filter(is_path).collect();
    assert!(named.len() > 15, "too few files are named: {named:?}");
    for path in named {
        assert!(root().join(&path).exists(), "ARCHITECTURE.md names `{path}`, which does not exist");
    }
}

#[test]
fn the_core_does_no_io() {
    const FORBIDDEN: [&str; 8] =
        ["std::fs", "std::net", "std::process", "std::env", "std::io", "println!", "dbg!", "SystemTime"];
    let mut files = Vec::new();
    for name in ["expr", "ir", "ops", "schedule", "codegen"] {
        sources(&root().join("crates").join(name).join("src"), &mut files);
    }
    assert!(files.len() > 50, "too few files: {}", files.len());
    for path in files {
        let text = read(&path);
        for (at, line) in text.lines().enumerate().filter(|(_, l)| !l.trim_start().starts_with("//")) {
            let found = FORBIDDEN.iter().find(|f| line.contains(**f));
            assert_eq!(found, None, "{}:{}: {line}", path.display(), at + 1);
        }
    }
}
