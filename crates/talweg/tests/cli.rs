//! The command line as a user calls it: exit codes, texts, stages, JSON.

mod tool;

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::Value;
use talweg_ir::{Dag, Nest, verify_dag, verify_nest};
use talweg_schedule::Trace;
use tool::here::{command, run};

/// The operators of the README, small enough to be emitted in every form.
const EXAMPLES: [&str; 8] = [
    "matmul:m=1024,n=1024,k=1024",
    "bmm:b=12,m=128,n=128,k=64",
    "conv2d:n=1,h=56,w=56,c=64,f=64,k=3,s=1,p=1,epilogue=bias+relu",
    "depthwise:n=1,h=112,w=112,c=32,k=3,s=1,p=1",
    "conv3d:n=1,d=8,h=28,w=28,c=64,f=64,k=3,s=1,p=1",
    "conv2d_transpose:n=1,h=4,w=4,c=512,f=256,k=4,s=2,p=1",
    "softmax:rows=1536,n=128",
    "layernorm:rows=128,n=768",
];

/// An operator that is checked and timed in no time.
const TINY: &str = "matmul:m=17,n=33,k=9,epilogue=bias+relu";

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("output is UTF-8")
}

/// Runs successfully and gives what was printed.
fn succeeds(arguments: &[&str]) -> String {
    let output = run(arguments);
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{arguments:?}: {}\n{err}", output.status);
    assert_eq!(err, "", "{arguments:?} writes to standard error");
    out
}

/// Is refused as bad input, with an error that holds every given text, and without anything else.
fn refuses(arguments: &[&str], names: &[&str]) {
    let output = run(arguments);
    let err = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {err}");
    assert_eq!(text(&output.stdout), "", "{arguments:?} writes to standard output");
    assert!(err.starts_with("error: "), "{arguments:?}: {err}");
    assert!(!err.contains("panicked"), "{arguments:?}: {err}");
    for name in names {
        assert!(err.contains(name), "{arguments:?}: `{name}` is not in: {err}");
    }
}

/// A file that goes away with the test.
struct TemporaryFile(PathBuf);

impl TemporaryFile {
    fn new(name: &str, content: &[u8]) -> TemporaryFile {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-{name}", std::process::id()));
        std::fs::write(&path, content).expect("a temporary file");
        TemporaryFile(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().expect("a plain path")
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn bad_operators_are_refused() {
    let cases: &[(&str, &[&str])] = &[
        (
            "matmull:m=4,n=4,k=4",
            &["unknown operator `matmull` at column 1", "did you mean `matmul`", "softmax"],
        ),
        ("", &["unknown operator", "matmul"]),
        (":::", &["unknown operator", "matmul"]),
        ("matmul:m=-4,n=4,k=4", &["`m=-4` at column 10", "a whole number from 1 to"]),
        ("matmul:m=4,n=0,k=4", &["`n=0` at column 14", "a whole number from 1 to"]),
        ("matmul:m=4,n=x,k=4", &["`n=x` at column 14", "a whole number"]),
        ("matmul:m=4,n=4,k=99999999999999999999", &["`k=99999999999999999999`", "a whole number from 1 to"]),
        ("matmul:m=4,n=4", &["needs `k`", "for example `matmul:m=1024,n=1024,k=1024`"]),
        ("matmul", &["needs `m`, `n`, `k`", "for example"]),
        ("matmul:m=4,n=4,k=4,z=1", &["no parameter `z` at column 20", "it takes m, n, k"]),
        ("matmul:m=4,n=4,k=4,m=5", &["`m` is given again at column 20", "keep one"]),
        ("matmul:m=4;n=4", &["`m=4;n=4` at column 10", "a whole number"]),
        ("matmul:m=4,n=4,k=4,epilogue=bias+rel", &["unknown operation `rel`", "did you mean `relu`"]),
        ("matmul:m=4,n=4,k=4,dtype=f64", &["`dtype=f64`", "f32"]),
        ("conv2d:h=8,w=8,c=6,f=4,k=3,g=4", &["group"]),
        ("conv2d:h=2,w=2,c=4,f=4,k=5", &["conv2d:h=2,w=2,c=4,f=4,k=5"]),
        ("elementwise:n=2147483648,rows=2147483648,chain=relu", &["elements"]),
    ];
    for (spec, names) in cases {
        refuses(&["op", spec], names);
        refuses(&["op", spec, "--emit", "te"], names);
    }
}

#[test]
fn operators_beyond_memory_are_refused_before_they_run() {
    refuses(&["op", "elementwise:n=2147483648,rows=500,chain=relu"], &["GiB", "make it smaller"]);
}

#[test]
fn missing_and_unreadable_schedules_are_refused() {
    refuses(
        &["op", TINY, "--schedule", "no/such.sched"],
        &["`no/such.sched`", "No such file", "give `default`"],
    );
    refuses(
        &["op", TINY, "--schedule", env!("CARGO_MANIFEST_DIR")],
        &["cannot read the schedule", "directory"],
    );
    let file = TemporaryFile::new("binary.sched", &[0xff, 0xfe, 0x00, 0x80]);
    refuses(&["op", TINY, "--schedule", file.path()], &[file.path(), "UTF-8"]);
}

#[test]
fn schedules_that_do_not_parse_or_are_illegal_are_refused() {
    let cases: &[(&str, &[&str])] = &[
        ("# comment\n\nsplt matmul i [4]\n", &["line 3", "`splt` is no step", "split"]),
        ("split matmul i 4\n", &["line 1", "split STAGE LOOP [FACTOR, ...]"]),
        ("split matmul i [4 4]\n", &["line 1", "`4 4` is no expression"]),
        ("inline\n", &["line 1", "inline STAGE"]),
        ("bind matmul i thread.w\n", &["line 1", "`thread.w` is no thread axis"]),
        ("split nothing i [4]\n", &["step `split nothing i [4]`", "no tensor `nothing`", "matmul"]),
        (
            "split matmul q [4]\n",
            &["step `split matmul q [4]`", "no loop `q`", "its loops are `i`, `j`, `k`"],
        ),
        ("parallel matmul k\n", &["step `parallel matmul k`", "rfactor"]),
        ("split matmul i [$t]\n", &["`t`", "substitute"]),
        ("split matmul i [0]\n", &["step `split matmul i [0]`"]),
        ("split matmul i [-4]\n", &["step `split matmul i [-4]`"]),
        ("compute_at matmul matmul i\n", &["step `compute_at matmul matmul i`"]),
        ("vectorize matmul i\nvectorize matmul i\n", &["step `vectorize matmul i`", "annotation already"]),
    ];
    for (at, (steps, names)) in cases.iter().enumerate() {
        let file = TemporaryFile::new(&format!("{at}.sched"), steps.as_bytes());
        let mut names = names.to_vec();
        names.push(file.path());
        refuses(&["op", "matmul:m=8,n=8,k=8", "--schedule", file.path(), "--emit", "loops"], &names);
    }
}

#[test]
fn options_out_of_range_are_refused() {
    refuses(&["op", TINY, "--threads", "0"], &["--threads 0", "from 1 to"]);
    refuses(&["op", TINY, "--threads", "100000"], &["--threads 100000", "from 1 to"]);
    refuses(&["op", TINY, "--threads=-1"], &["--threads"]);
    refuses(&["op", TINY, "--threads", "two"], &["--threads"]);
    for budget in ["0", "-1", "NaN", "inf"] {
        refuses(&["op", TINY, &format!("--budget={budget}")], &["--budget", "from 0.001 to 3600"]);
    }
    refuses(&["op", TINY, "--emit", "ptx"], &["ptx", "te, schedule, loops, llvm, asm"]);
    refuses(&["op", TINY, "--emit", "te", "--json"], &["--json", "--emit"]);
    refuses(&["op"], &["SPEC"]);
    refuses(&["frobnicate"], &["frobnicate"]);
    refuses(&["op", TINY, "--target", "vax"], &["--target", "`vax`", "host, avx512, avx2 or neon"]);
}

#[test]
fn code_for_another_machine_is_printed_but_not_run() {
    let other = if cfg!(target_arch = "aarch64") { "avx2" } else { "neon" };
    refuses(&["op", TINY, "--target", other], &["--target", "cannot run", "`host`", "--emit asm"]);
    assert!(succeeds(&["op", TINY, "--target", other, "--emit", "asm"]).contains("matmul"));
}

#[test]
fn every_stage_of_every_example_is_printed_and_parses_back() {
    for spec in EXAMPLES {
        let stage = |emit: &str| succeeds(&["op", spec, "--emit", emit]);
        let te = stage("te");
        let dag = Dag::parse(&te).unwrap_or_else(|e| panic!("{spec}: {e}\n{te}"));
        assert_eq!(dag.to_string(), te, "{spec}");
        assert_eq!(verify_dag(&dag), Ok(()), "{spec}");

        let steps = stage("schedule");
        let trace = Trace::parse(&steps).unwrap_or_else(|e| panic!("{spec}: {e}\n{steps}"));
        assert_eq!(trace.to_string(), steps, "{spec}");

        let loops = stage("loops");
        let nest = Nest::parse(&loops).unwrap_or_else(|e| panic!("{spec}: {e}\n{loops}"));
        assert_eq!(nest.to_string(), loops, "{spec}");
        assert_eq!(verify_nest(&nest), Ok(()), "{spec}");

        let file = TemporaryFile::new("emitted.sched", steps.as_bytes());
        let replayed = succeeds(&["op", spec, "--schedule", file.path(), "--emit", "loops"]);
        assert_eq!(replayed, loops, "{spec}: the printed schedule gives another program");

        assert!(stage("llvm").contains("define "), "{spec}");
        assert!(stage("asm").contains(".text"), "{spec}");
    }
}

#[test]
fn every_example_compiles_for_every_target() {
    for spec in EXAMPLES {
        for (target, register) in [("avx512", "%zmm"), ("avx2", "%ymm"), ("neon", ".4s")] {
            let asm = succeeds(&["op", spec, "--target", target, "--emit", "asm"]);
            assert!(asm.contains(register), "{spec} for {target} uses no {register}");
        }
    }
}

#[test]
fn an_operator_is_checked_and_timed() {
    let output = succeeds(&["op", TINY, "--budget", "0.01"]);
    for word in [TINY, "1 thread", "GFLOP/s", "largest relative error", "compile"] {
        assert!(output.contains(word), "`{word}` is not in: {output}");
    }
}

#[test]
fn json_is_one_object() {
    let output = succeeds(&["op", TINY, "--budget", "0.01", "--json"]);
    assert_eq!(output.lines().count(), 1, "{output}");
    let object: Value = serde_json::from_str(&output).expect("one JSON value");
    assert_eq!(object["spec"], TINY);
    assert_eq!(object["threads"], 1);
    for key in ["median_us", "gflops", "peak_fraction", "compile_ms", "peak_gflops"] {
        assert!(object[key].as_f64().is_some_and(|v| v > 0.0 && v.is_finite()), "{key}: {output}");
    }
    let error = object["max_rel_error"].as_f64().expect("a number");
    let accepted = object["tolerance"].as_f64().expect("a number");
    assert!((0.0..=accepted).contains(&error), "{output}");
}

#[test]
fn an_operator_takes_turns_with_another_program() {
    use std::io::Write;

    let mut tool = tool::here::command(&["op", TINY, "--budget", "0.01", "--json", "--turns"]);
    tool.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut tool = tool.spawn().expect("the program starts");
    tool.stdin.take().expect("a pipe").write_all(b"0.01\n0.002\nsoon\n0.01\n").expect("it reads");
    let output = tool.wait_with_output().expect("it ends");
    let (printed, complaint) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let (report, turns) = printed.split_once('\n').expect("a report");
    assert!(serde_json::from_str::<Value>(report).is_ok_and(|r| r["spec"] == TINY), "{printed}");
    let turns: Vec<f64> = turns.lines().map(|l| l.parse().expect("a number")).collect();
    assert!(turns.len() == 2 && turns.iter().all(|t| *t > 0.0), "one answer for each good line: {printed}");
    assert_eq!(output.status.code(), Some(2));
    assert!(complaint.contains("--turns: `soon`") && complaint.contains("seconds"), "{complaint}");
}

#[test]
fn all_threads_of_the_machine_can_be_used() {
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    let spec = "matmul:m=64,n=64,k=64";
    let output = succeeds(&["op", spec, "--budget", "0.01", "--json", "--threads", &threads.to_string()]);
    let object: Value = serde_json::from_str(&output).expect("one JSON value");
    assert_eq!(object["threads"], threads);
}

#[test]
fn a_schedule_from_a_file_is_used() {
    let steps = "# by hand\nsplit matmul j [4]\nvectorize matmul j.1\n";
    let file = TemporaryFile::new("by-hand.sched", steps.as_bytes());
    let spec = "matmul:m=6,n=10,k=5";
    let printed = succeeds(&["op", spec, "--schedule", file.path(), "--emit", "schedule"]);
    assert_eq!(printed, "split matmul j [4]\nvectorize matmul j.1\n");
    let output = succeeds(&["op", spec, "--schedule", file.path(), "--budget", "0.01"]);
    assert!(output.contains(file.path()) && output.contains("GFLOP/s"), "{output}");
}

#[test]
fn schedules_kept_in_the_repository_apply_to_the_operator_they_name() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schedules");
    let files =
        std::fs::read_dir(directory).expect("there are kept schedules").map(|f| f.expect("a file").path());
    let mut count = 0;
    for path in files.filter(|p| p.extension().is_some_and(|e| e == "sched")) {
        let content = std::fs::read_to_string(&path).expect("text");
        let first = content.lines().next().unwrap_or_default();
        let spec = first.strip_prefix("# ").unwrap_or_else(|| panic!("{}: no `# SPEC`", path.display()));
        let path = path.to_str().expect("a plain path");
        assert!(succeeds(&["op", spec, "--schedule", path, "--emit", "asm"]).contains(".text"), "{path}");
        count += 1;
    }
    assert!(count >= 5, "{count} schedules");
}

#[test]
fn the_doctor_describes_the_machine() {
    let output = succeeds(&["doctor", "--json"]);
    let object: Value = serde_json::from_str(&output).expect("one JSON value");
    assert!(object["peak_gflops"]["1"].as_f64().is_some_and(|p| p > 0.0), "{output}");
    let levels = object["bandwidth"].as_array().expect("a list");
    assert!(levels.len() >= 2, "{output}");
    for level in levels {
        assert!(level["copy_gbs"].as_f64().is_some_and(|b| b > 0.0), "{output}");
    }
    for found in object["disturbances"].as_array().expect("a list") {
        assert!(found["what"].is_string() && found["remedy"].is_string(), "{output}");
    }
    // Threads that never met say nothing.
    if let Some(distances) = object["core_distance_ns"].as_array() {
        let ns: Vec<f64> = distances.iter().filter_map(Value::as_f64).collect();
        assert!(ns.len() == 2 && 0.0 < ns[0] && ns[0] <= ns[1], "{output}");
    }
    let readable = succeeds(&["doctor"]);
    for word in ["CPU", "vectors", "caches", "peak", "bandwidth", "L1"] {
        assert!(readable.contains(word), "`{word}` is not in: {readable}");
    }
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let mut child = command(&["op", EXAMPLES[2], "--emit", "asm"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut first = String::new();
    let mut reader = BufReader::with_capacity(16, child.stdout.take().expect("a pipe"));
    reader.read_line(&mut first).expect("a line");
    drop(reader);
    let mut err = String::new();
    child.stderr.take().expect("a pipe").read_to_string(&mut err).expect("text");
    assert!(child.wait().expect("it ends").success(), "{err}");
    assert_eq!(err, "");
    assert!(!first.is_empty());
}

#[test]
fn a_full_disk_is_reported() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("Linux has it");
    let output = command(&["op", TINY, "--emit", "te"]).stdout(full).output().expect("the program starts");
    let err = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{err}");
    assert!(err.contains("cannot write to standard output") && !err.contains("panicked"), "{err}");
}

#[test]
fn help_lists_every_operator_with_its_parameters() {
    let (short, long) = (succeeds(&["op", "-h"]), succeeds(&["op", "--help"]));
    for operator in talweg_ops::operators() {
        assert!(short.contains(operator.example), "{}", operator.name);
        assert!(long.contains(operator.example) && long.contains(operator.help), "{}", operator.name);
        for parameter in &operator.params {
            assert!(long.contains(parameter.name), "{} {}", operator.name, parameter.name);
        }
    }
    for line in long.lines().skip_while(|l| !l.starts_with("Operators")) {
        assert!(line.len() <= 120, "too wide: {line}");
    }
}
