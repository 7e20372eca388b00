//! Several processes on one file, and processes that are killed.
//!
//! The writers are this test program itself, started again with the ignored test `writer` and a place to write to.

mod common;

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::{failed, good, run, target, task};
use talweg_db::{Database, NewRecord};

const DIRECTORY: &str = "TALWEG_DB_TEST_DIRECTORY";
const NAME: &str = "TALWEG_DB_TEST_NAME";
const BATCHES: &str = "TALWEG_DB_TEST_BATCHES";
const BATCH: usize = 8;
/// More batches than any test waits for.
const ENDLESS: usize = 50_000;

/// Stores batches of [`BATCH`] records, and appends a byte to a file of its own after each commit.
fn write_batches(directory: &Path, name: &str, batches: usize) {
    let mut db = Database::open(directory.join("tune.db")).unwrap();
    let mut committed = File::create(directory.join(name)).unwrap();
    let run = run(&mut db);
    for batch in 0..batches {
        let records: Vec<NewRecord> = (0..BATCH)
            .map(|i| match i % 4 {
                3 => failed(run, &task("shared"), &format!("{name} {batch} {i}"), "timeout"),
                // Traces that all writers have in common race for one row of text.
                _ => NewRecord {
                    strategy: name.to_string(),
                    ..good(run, &task("shared"), &format!("split {batch} {i}"), 1.0 + i as f64)
                },
            })
            .collect();
        assert_eq!(db.insert_batch(&records).unwrap().inserted, BATCH as u64);
        committed.write_all(b".").unwrap();
    }
}

#[test]
#[ignore = "the writer that the other tests of this file start"]
fn writer() {
    let variable = |name| std::env::var(name).ok();
    let Some(directory) = variable(DIRECTORY).map(PathBuf::from) else {
        let dir = tempfile::tempdir().unwrap();
        write_batches(dir.path(), "alone", 3);
        assert_eq!(stored(dir.path()), 3 * BATCH);
        return;
    };
    let batches = variable(BATCHES).and_then(|text| text.parse().ok()).unwrap();
    write_batches(&directory, &variable(NAME).unwrap(), batches);
}

/// A writer that does not outlive its test, even if that fails.
struct Writer(Child);

impl Drop for Writer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(directory: &Path, name: &str, batches: usize) -> Writer {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "writer", "--nocapture"])
        .env(DIRECTORY, directory)
        .env(NAME, name)
        .env(BATCHES, batches.to_string())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    Writer(child)
}

fn stored(directory: &Path) -> usize {
    let db = Database::open(directory.join("tune.db")).unwrap();
    db.check().unwrap();
    db.records(&task("shared"), &target(), 1).unwrap().len()
}

fn committed(directory: &Path, name: &str) -> usize {
    std::fs::metadata(directory.join(name)).map_or(0, |file| file.len() as usize)
}

#[test]
fn four_processes_create_and_fill_one_file() {
    let dir = tempfile::tempdir().unwrap();
    let names = ["one", "two", "three", "four"];
    let writers: Vec<Writer> = names.iter().map(|name| start(dir.path(), name, 200)).collect();
    for mut writer in writers {
        assert!(writer.0.wait().unwrap().success());
    }
    assert_eq!(stored(dir.path()), 4 * 200 * BATCH);
    let db = Database::open(dir.path().join("tune.db")).unwrap();
    assert_eq!(db.runs().unwrap().len(), 4);
    assert_eq!(db.tasks().unwrap().len(), 1, "the key is stored once");
    let records = db.records(&task("shared"), &target(), 1).unwrap();
    for name in names {
        let mine = records.iter().filter(|record| record.strategy == name).count();
        assert_eq!(mine, 200 * BATCH * 3 / 4);
    }
}

#[test]
fn a_killed_writer_loses_at_most_the_batch_in_flight() {
    let dir = tempfile::tempdir().unwrap();
    let mut before = 0;
    for round in 0..12_usize {
        let name = format!("round {round}");
        let mut writer = start(dir.path(), &name, ENDLESS);
        let begun = Instant::now();
        while committed(dir.path(), &name) < 1 + 7 * round {
            assert!(begun.elapsed() < Duration::from_secs(120), "the writer does not write");
            assert!(writer.0.try_wait().unwrap().is_none(), "the writer ended by itself");
            std::thread::sleep(Duration::from_micros(100 + 37 * round as u64));
        }
        writer.0.kill().unwrap();
        assert!(!writer.0.wait().unwrap().success());
        let acknowledged = committed(dir.path(), &name) * BATCH;
        let after = stored(dir.path());
        assert_eq!(after % BATCH, 0, "a batch is stored as a whole or not at all");
        let new = after - before;
        assert!(new >= acknowledged, "round {round}: {new} stored, {acknowledged} acknowledged");
        assert!(new <= acknowledged + BATCH, "round {round}: {new} stored, {acknowledged} acknowledged");
        before = after;
    }
}

#[test]
fn killing_one_writer_does_not_disturb_another() {
    let dir = tempfile::tempdir().unwrap();
    let mut survivor = start(dir.path(), "survivor", 60);
    let mut victim = start(dir.path(), "victim", ENDLESS);
    let begun = Instant::now();
    while committed(dir.path(), "victim") < 5 {
        assert!(begun.elapsed() < Duration::from_secs(120), "the writer does not write");
        std::thread::sleep(Duration::from_micros(300));
    }
    victim.0.kill().unwrap();
    victim.0.wait().unwrap();
    assert!(survivor.0.wait().unwrap().success());
    let acknowledged = (60 + committed(dir.path(), "victim")) * BATCH;
    let stored = stored(dir.path());
    assert!(
        stored == acknowledged || stored == acknowledged + BATCH,
        "{stored}, {acknowledged} acknowledged"
    );
}

#[test]
fn a_writer_killed_while_it_creates_the_file_leaves_one_that_opens() {
    for round in 0..40 {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = start(dir.path(), "creator", ENDLESS);
        std::thread::sleep(Duration::from_micros(250 * round));
        writer.0.kill().unwrap();
        writer.0.wait().unwrap();
        let acknowledged = committed(dir.path(), "creator") * BATCH;
        let stored = stored(dir.path());
        assert!(
            stored == acknowledged || stored == acknowledged + BATCH,
            "{stored}, {acknowledged} acknowledged"
        );
    }
}
