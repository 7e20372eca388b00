//! The header is true: it names every exported function, and a C program built with it works.

use std::path::{Path, PathBuf};
use std::process::Command;

const CAPI: &str = concat!(include_str!("../src/capi.rs"), include_str!("../src/model/capi.rs"));
const HEADER: &str = include_str!("../include/talweg_runtime.h");

/// Function names in the text that start with `talweg_` and follow `before`.
fn names_after<'text>(text: &'text str, before: &str) -> Vec<&'text str> {
    let starts = text.match_indices(before).map(|(at, _)| &text[at + before.len()..]);
    let mut names: Vec<&str> =
        starts.filter_map(|rest| rest.split('(').next()).filter(|name| name.starts_with("talweg_")).collect();
    names.sort_unstable();
    names
}

#[test]
fn header_and_exports_name_the_same_functions() {
    let exported = names_after(CAPI, "extern \"C\" fn ");
    assert_eq!(exported.len(), CAPI.matches("#[unsafe(no_mangle)]").count());
    let declarations = HEADER.lines().filter(|line| line.ends_with(");") && !line.contains("(*"));
    let mut declared: Vec<&str> = declarations
        .filter_map(|line| line.split('(').next())
        .filter_map(|head| head.split([' ', '*']).next_back())
        .collect();
    declared.sort_unstable();
    assert_eq!(declared, exported);
}

const PROGRAM: &str = r#"
#include "talweg_runtime.h"
#include <stdio.h>
#include <string.h>
static void body(void *closure, int64_t begin, int64_t end, int64_t worker) {
    int64_t *sums = closure;
    for (int64_t i = begin; i < end; i++) sums[worker] += i;
}
int main(void) {
    int64_t sums[2] = {0, 0};
    talweg_pool *pool = talweg_pool_create(2);
    if (!pool || talweg_pool_threads(pool) != 2) return 1;
    talweg_pool_run(pool, body, sums, 100);
    if (sums[0] + sums[1] != 4950) return 2;
    const talweg_parallel *parallel = talweg_pool_parallel(pool);
    if (parallel->threads != 2) return 3;
    parallel->run(parallel->ctx, body, sums, 100);
    if (sums[0] + sums[1] != 9900) return 4;
    talweg_pool_destroy(pool);
    if (talweg_pool_create(0) || !strstr(talweg_last_error(), "0 threads")) return 5;
    const uint8_t garbage[16] = {1, 2, 3};
    talweg_object *object = talweg_object_load(garbage, sizeof garbage);
    if (object || !strstr(talweg_last_error(), "not a loadable object")) return 6;
    if (talweg_object_symbol(NULL, "kernel")) return 7;
    talweg_object_free(NULL);
    if (talweg_model_open("/no/such/model") || !strstr(talweg_last_error(), "cannot read the artefact")) return 8;
    if (talweg_model_from_memory(garbage, sizeof garbage) || !strstr(talweg_last_error(), "not a talweg artefact")) return 9;
    if (talweg_session_create(NULL, 1) || talweg_session_run(NULL) == 0 || talweg_model_ports(NULL, 0)) return 10;
    puts("good");
    return 0;
}
"#;

/// The static library that was built with this test: the newest one next to the test's executable.
fn static_library() -> PathBuf {
    let executable = std::env::current_exe().unwrap();
    let files = std::fs::read_dir(executable.parent().unwrap()).unwrap().filter_map(Result::ok);
    let libraries = files.filter(|file| {
        let name = file.file_name().to_string_lossy().into_owned();
        name.starts_with("libtalweg_runtime") && name.ends_with(".a")
    });
    let newest = libraries.max_by_key(|file| file.metadata().and_then(|data| data.modified()).ok());
    newest.expect("cargo builds the static library with the tests").path()
}

#[test]
fn a_c_program_works_with_the_header() {
    if Command::new("cc").arg("--version").output().is_err() {
        println!("skipped: no C compiler `cc` on this machine");
        return;
    }
    let dir = std::env::temp_dir().join(format!("talweg-header-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let (source, program) = (dir.join("program.c"), dir.join("program"));
    std::fs::write(&source, PROGRAM).unwrap();
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("include");
    let library = static_library();
    let mut cc = Command::new("cc");
    cc.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-O1"]).arg("-I").arg(include).arg(&source);
    cc.arg(&library).args(["-lpthread", "-ldl", "-lm", "-o"]).arg(&program);
    let built = cc.output().unwrap();
    let ran = Command::new(&program).output();
    let _ = std::fs::remove_dir_all(&dir);
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let ran = ran.unwrap();
    assert!(ran.status.success(), "exit {:?}", ran.status.code());
    assert_eq!(ran.stdout, b"good\n");
}
