//! Files that cargo built with the tests.

use std::path::{Path, PathBuf};

/// The newest file in `folder` whose name begins and ends so.
pub fn newest(folder: &Path, begin: &str, end: &str) -> PathBuf {
    let files = std::fs::read_dir(folder).unwrap().filter_map(Result::ok);
    let named = files.filter(|file| {
        let name = file.file_name().to_string_lossy().into_owned();
        name.starts_with(begin) && name.ends_with(end)
    });
    let newest = named.max_by_key(|file| file.metadata().and_then(|data| data.modified()).ok());
    newest.unwrap_or_else(|| panic!("cargo builds {begin}*{end} with the tests")).path()
}

/// Where cargo puts libraries (`deps`) and, beside it, programs and examples.
pub fn deps() -> PathBuf {
    std::env::current_exe().unwrap().parent().unwrap().to_path_buf()
}

/// An example that cargo built.
pub fn example(name: &str) -> PathBuf {
    let program = deps().parent().unwrap().join("examples").join(name);
    assert!(
        program.exists(),
        "cargo builds the examples with all tests; build it with `cargo build --examples`"
    );
    program
}

/// A command that compiles and links a C program with the runtime.
#[allow(dead_code)]
pub fn c_compiler(source: &Path, program: &Path) -> std::process::Command {
    let runtime = Path::new(env!("CARGO_MANIFEST_DIR")).join("../runtime");
    let mut cc = std::process::Command::new("cc");
    cc.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-O1", "-I"]).arg(runtime.join("include"));
    cc.arg(source).arg(newest(&deps(), "libtalweg_runtime", ".a"));
    cc.args(["-lpthread", "-ldl", "-lm", "-o"]).arg(program);
    cc
}
