//! Databases that the tests make reports of.

#![allow(dead_code, reason = "each test file uses the part it needs")]

use talweg_cost::random::Stream;
use talweg_db::{
    Database, Failure, NewBest, NewRecord, Replace, RunId, RunInfo, RunTask, Samples, TargetKey, TaskKey,
};

pub const TARGET: &str = "x86-64;avx512;Test CPU;cores=2;l1d=32768;l2=1048576;l3=16777216";

/// The task of a matrix product of some size.
pub fn task(size: usize) -> TaskKey {
    let text = format!(
        "dag matmul {{\n  input A: f32[{size}, {size}]\n  const B: f32[{size}, {size}]\n  output matmul: f32[i={size}, j={size}] = sum[k={size}] A[i, k] * B[k, j]\n}}\n"
    );
    TaskKey::new(text, 1)
}

pub fn target() -> TargetKey {
    TargetKey::new(TARGET)
}

pub fn begin(db: &mut Database, strategy: &str, environment: &str) -> RunId {
    let info = RunInfo {
        strategy: strategy.into(),
        seed: 3,
        command: format!("tune matmul --strategy {strategy}"),
        tool_version: "0.1.0".into(),
        environment: environment.into(),
    };
    db.begin_run(&info).unwrap()
}

/// A trace as the tuner writes it.
pub fn trace(values: [usize; 4]) -> String {
    let [a, b, c, k] = values;
    format!(
        "# candidate 0:{a},{b},{c},{k}\ncache_write matmul\nsplit matmul i [{a}, {b}]\nsplit matmul j [{c}]\nsplit matmul.local k [{k}]\nvectorize matmul j\n"
    )
}

/// A record of a run: good unless there is a cause of failure.
pub fn record(
    run: RunId,
    task: &TaskKey,
    values: [usize; 4],
    outcome: Result<f64, &str>,
    at: f64,
) -> NewRecord {
    let outcome = match outcome {
        Ok(seconds) => Ok(Samples { seconds: vec![seconds; 3], ..Samples::default() }),
        Err(cause) => Err(Failure { cause: cause.into(), text: format!("{cause}: </script> & more") }),
    };
    let mut record = NewRecord::new(run, task, &target(), 1, trace(values), outcome);
    (record.verification, record.strategy, record.elapsed) = (Some(1e-7), "ansor".into(), Some(at));
    record
}

/// The default schedule of a task.
pub fn default(run: RunId, task: &TaskKey, seconds: f64) -> NewRecord {
    let mut record = record(run, task, [1, 1, 16, 1], Ok(seconds), 0.5);
    (record.strategy, record.trace) = ("default".into(), "vectorize matmul j\n".into());
    record
}

/// A run of Ansor over some tasks: tiles of 16 are the best, predictions are good but not perfect, some fail.
pub fn search(db: &mut Database, strategy: &str, tasks: &[TaskKey], samples: usize, seed: u64) -> RunId {
    let run = begin(db, strategy, "threads: 1\npeak GFLOP/s: 120.5\n");
    let named = |(at, key): (usize, &TaskKey)| RunTask {
        task: key.clone(),
        name: format!("matmul:{at}"),
        weight: (at + 1) as f64,
        flops: 2e6 * (at + 1) as f64,
    };
    let named: Vec<RunTask> = tasks.iter().enumerate().map(named).collect();
    db.add_run_tasks(run, &named).unwrap();
    let mut stream = Stream::new(seed, 1);
    let mut batch: Vec<NewRecord> = tasks.iter().map(|task| default(run, task, 9e-4)).collect();
    let mut best = 9e-4;
    for at in 0..samples {
        let task = &tasks[at % tasks.len()];
        let tile = 1usize << stream.below(7);
        let values = [tile, 1 + stream.below(4), 16 << stream.below(3), 1 << stream.below(4)];
        let noise = 1.0 + 0.1 * f64::from(stream.unit());
        let far = (tile as f64 / 16.0).ln().abs();
        let ideal = 2e-4 * (0.5 * far).exp() * (1.0 + 0.05 * values[3] as f64);
        let outcome = if at % 97 == 5 { Err(["crash", "timeout"][at % 2]) } else { Ok(ideal * noise) };
        let mut record = record(run, task, values, outcome, 1.0 + at as f64 * 0.01);
        record.strategy = strategy.into();
        record.predicted = (at > 63).then_some(best / ideal);
        if let Ok(seconds) = outcome {
            best = f64::min(best, seconds);
        }
        batch.push(record);
    }
    db.insert_batch(&batch).unwrap();
    run
}

/// Stores the fastest record of a task as its winner.
pub fn crown(db: &mut Database, task: &TaskKey) {
    let records = db.records(task, &target(), 1).unwrap();
    let good = records.iter().filter(|r| r.typical_seconds().is_some());
    let fastest = good.min_by(|a, b| a.typical_seconds().partial_cmp(&b.typical_seconds()).unwrap()).unwrap();
    let best = NewBest { record: fastest.id, default_seconds: 8e-4, ab_ratio: 4.0 };
    db.store_best(&best, Replace::IfFaster).unwrap();
}
