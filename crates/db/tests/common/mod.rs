//! Records that the tests store.

#![allow(dead_code, reason = "each test file uses the part it needs")]

use talweg_db::{Database, Failure, NewRecord, RunId, RunInfo, Samples, TargetKey, TaskKey};

pub fn task(name: &str) -> TaskKey {
    TaskKey::new(format!("task {name}"), 1)
}

pub fn target() -> TargetKey {
    TargetKey::new("x86-64 avx2 fma; l1 32768; l2 262144")
}

pub fn run(db: &mut Database) -> RunId {
    let info = RunInfo {
        strategy: "ansor".into(),
        seed: u64::MAX - 3,
        command: "talweg tune 'matmul 8 8 8'".into(),
        tool_version: "0.1.0".into(),
        environment: "governor=performance\nkernel=ü".into(),
    };
    db.begin_run(&info).unwrap()
}

/// A good record whose every sample is `seconds`.
pub fn good(run: RunId, task: &TaskKey, trace: &str, seconds: f64) -> NewRecord {
    let samples = Samples { seconds: vec![seconds; 3], ..Samples::default() };
    NewRecord { when: Some(1_000), ..NewRecord::new(run, task, &target(), 1, trace, Ok(samples)) }
}

/// A failed record.
pub fn failed(run: RunId, task: &TaskKey, trace: &str, cause: &str) -> NewRecord {
    let failure = Failure { cause: cause.into(), text: format!("{cause}: everything about {trace}") };
    NewRecord { when: Some(1_000), ..NewRecord::new(run, task, &target(), 1, trace, Err(failure)) }
}

/// Records that between them use every field and odd values of it.
pub fn odd_records(run: RunId) -> Vec<NewRecord> {
    let task = TaskKey::new("矩阵 \"乘\" \\ \u{1F980}\n\ttab \u{0} nul", u32::MAX);
    let full = NewRecord {
        task: task.clone(),
        target: target(),
        threads: 64,
        trace: "split i 4\nvectorize ι\u{0301} \u{7f}".into(),
        outcome: Ok(Samples {
            seconds: vec![1.0 / 3.0, 5e-324, f64::MIN_POSITIVE, 1.234_567_890_123_456_7e-6, f64::MAX],
            inner: u32::MAX,
            rejected: 17,
            disturbed: true,
            stop: "precise enough".into(),
        }),
        verification: Some(3.1e-7),
        strategy: "évolution".into(),
        seed: u64::MAX,
        run,
        when: Some(1_900_000_001),
        compile_seconds: 0.1 + 0.2,
        probe: Some(1.000_000_000_000_000_2),
        predicted: Some(-1e-300),
        elapsed: Some(0.1 + 0.7),
    };
    let failure = NewRecord {
        outcome: Err(Failure { cause: "crash".into(), text: "SIGSEGV at 0x0\n  #1 kernel\n✗".into() }),
        verification: None,
        probe: None,
        predicted: None,
        seed: 1 << 63,
        when: Some(0),
        ..full.clone()
    };
    let wrong = NewRecord {
        outcome: Err(Failure { cause: "wrong result".into(), text: String::new() }),
        verification: Some(0.5),
        predicted: Some(-0.0),
        ..full.clone()
    };
    let large = NewRecord { trace: "reorder ijk äöü ".repeat(200_000), ..full.clone() };
    let bare = NewRecord { trace: String::new(), strategy: String::new(), threads: 1, ..full.clone() };
    vec![full, failure, wrong, large, bare]
}
