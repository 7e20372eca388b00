//! Export, import, merge and prune.

mod common;

use common::{failed, good, odd_records, run, target, task};
use talweg_db::{
    Database, DbError, Exported, Imported, NewBest, NewRecord, PruneOptions, Pruned, Replace, RunId,
};

fn export(db: &Database) -> String {
    let mut bytes = Vec::new();
    db.export(&mut bytes).unwrap();
    String::from_utf8(bytes).unwrap()
}

/// A database with every kind of line.
fn sample() -> Database {
    let mut db = Database::open_in_memory().unwrap();
    run(&mut db);
    let run = run(&mut db);
    let ids = db.insert_batch(&odd_records(run)).unwrap().ids;
    db.insert_batch(&[good(run, &task("a"), "x", 1.0), failed(run, &task("a"), "y", "crash")]).unwrap();
    db.store_best(&NewBest { record: ids[0], default_seconds: 0.7, ab_ratio: 1.0 / 0.3 }, Replace::IfFaster)
        .unwrap();
    db
}

#[test]
fn import_of_an_export_is_the_identity() {
    let db = sample();
    let text = export(&db);
    assert_eq!(text.lines().count(), 1 + 2 + 7 + 1);
    let mut copy = Database::open_in_memory().unwrap();
    let done = copy.import(text.as_bytes()).unwrap();
    assert_eq!(done, Imported { runs: 2, records: 7, bests: 1, ..Imported::default() });
    assert_eq!(export(&copy), text);
    assert_eq!(db.stats().unwrap().tasks, copy.stats().unwrap().tasks);

    let again = copy.import(text.as_bytes()).unwrap();
    assert_eq!(again, Imported { duplicates: 7, bests_kept: 1, ..Imported::default() });
    assert_eq!(export(&copy), text);
    let mut sink = Vec::new();
    assert_eq!(db.export(&mut sink).unwrap(), Exported { runs: 2, records: 7, bests: 1 });
}

#[test]
fn exports_may_be_joined_and_have_empty_lines() {
    let (one, two) = (export(&sample()), export(&sample()));
    let mut db = Database::open_in_memory().unwrap();
    let done = db.import(format!("\n{one}\r\n\n{two}").as_bytes()).unwrap();
    assert_eq!((done.runs, done.records, done.bests, done.bests_kept), (4, 14, 1, 1));
}

#[test]
fn a_bad_line_is_named_and_nothing_is_imported() {
    let text = export(&sample());
    let lines: Vec<&str> = text.lines().collect();
    let (record, best) = (lines[8], lines[10]);
    assert!(record.contains("\"trace\":\"x\"") && best.contains("best"), "{record} {best}");
    let with = |line: usize, new: &str| {
        let mut lines = lines.clone();
        lines[line - 1] = new;
        lines.join("\n").into_bytes()
    };
    let digest = best.split('"').nth(5).unwrap();
    let cases: Vec<(u64, Vec<u8>, &str)> = vec![
        (9, with(9, "{\"record\": nonsense}"), "expected ident"),
        (9, with(9, &record[..record.len() - 9]), "EOF"),
        (9, with(9, &record.replace("\"threads\":1", "\"threads\":0")), "threads is zero"),
        (9, with(9, &record.replace("\"threads\":1", "\"threads\":-1")), "invalid value"),
        (9, with(9, &record.replace("1.0,1.0,1.0", "1.0,-1.0,1.0")), "not a time"),
        (9, with(9, &record.replace("1.0,1.0,1.0", "1e999")), "out of range"),
        (9, with(9, &record.replace("1.0,1.0,1.0", "")), "empty"),
        (9, with(9, &record.replace("\"trace\"", "\"tracé\"")), "unknown field"),
        (9, with(9, &record.replace("\"trace\":\"x\",", "")), "missing field `trace`"),
        (9, with(9, "{\"other\":{}}"), "unknown variant"),
        (2, with(2, "\u{feff}"), "expected"),
        (4, with(3, ""), "neither stored nor on a line before"),
        (11, with(11, &best.replace(digest, &"0".repeat(32))), "neither stored"),
        (11, with(11, &best.replace(digest, "+f")), "not the content hash"),
        (11, with(11, &best.replace("0.7", "0.0")), "not a number above zero"),
        (1, with(1, lines[1]), "begins with a line that gives its format"),
        (1, with(1, "{\"talweg_records\":{\"format\":3}}"), "has format 3"),
        (1, Vec::new(), "empty"),
        (2, b"{\"talweg_records\":{\"format\":1}}\n{\"run\":\"\xff\"}".to_vec(), "unicode"),
    ];
    let mut db = Database::open_in_memory().unwrap();
    let before = export(&db);
    for (line, bytes, expected) in cases {
        let error = db.import(&bytes[..]).unwrap_err();
        let DbError::BadLine { line: named, what } = &error else { panic!("{expected}: {error}") };
        assert_eq!(*named, line, "{error}");
        assert!(what.contains(expected), "{expected}: {error}");
        assert!(error.to_string().contains(&format!("line {line} of the import")), "{error}");
        assert_eq!(export(&db), before);
    }
    assert_eq!(db.import(text.as_bytes()).unwrap().records, 7);
}

#[test]
fn failing_readers_and_writers_are_reported() {
    struct Broken;
    impl std::io::Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            Err(std::io::Error::other("unplugged"))
        }
    }
    impl std::io::Write for Broken {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::Error::other("unplugged"))
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut db = sample();
    let writing = db.export(Broken).unwrap_err();
    let reading = db.import(std::io::BufReader::new(Broken)).unwrap_err();
    for error in [writing, reading] {
        assert!(matches!(error, DbError::Io { .. }), "{error}");
        assert!(error.to_string().contains("unplugged"), "{error}");
    }
}

#[test]
fn merging_twice_is_merging_once() {
    let dir = tempfile::tempdir().unwrap();
    let (first, second) = (sample(), sample());
    let mut db = Database::open(dir.path().join("all.db")).unwrap();
    assert_eq!(db.merge(&first).unwrap(), Imported { runs: 2, records: 7, bests: 1, ..Imported::default() });
    assert_eq!(export(&db), export(&first));
    let done = db.merge(&second).unwrap();
    assert_eq!((done.runs, done.records, done.duplicates, done.bests_kept), (2, 7, 0, 1));
    let all = export(&db);
    for other in [&first, &second] {
        let again = db.merge(other).unwrap();
        assert_eq!(again, Imported { duplicates: 7, bests_kept: 1, ..Imported::default() });
        assert_eq!(export(&db), all);
    }
    let itself = Database::open(db.path()).unwrap();
    assert_eq!(db.merge(&itself).unwrap().duplicates, 14);
    assert_eq!(export(&db), all);
    db.check().unwrap();
}

#[test]
fn a_later_verification_travels() {
    let mut one = Database::open_in_memory().unwrap();
    let run = run(&mut one);
    let id = one.insert_batch(&[good(run, &task("a"), "x", 1.0)]).unwrap().ids[0];
    let mut two = Database::open_in_memory().unwrap();
    two.merge(&one).unwrap();
    one.set_verification(id, 1e-6).unwrap();
    one.store_best(&NewBest { record: id, default_seconds: 2.0, ab_ratio: 2.0 }, Replace::IfFaster).unwrap();
    let done = two.merge(&one).unwrap();
    assert_eq!(done, Imported { duplicates: 1, verified: 1, bests: 1, ..Imported::default() });
    assert_eq!(two.best(&task("a"), &target(), 1).unwrap().unwrap().error, 1e-6);
    assert_eq!(export(&one), export(&two));
}

/// Times 1 to 6 measured at 60 down to 10, two failures, and the slowest record as winner.
fn prunable(db: &mut Database) -> RunId {
    let run = run(db);
    let mut batch: Vec<NewRecord> = (1..=6)
        .map(|i: u32| {
            let record = good(run, &task("a"), &format!("trace {i}"), f64::from(i));
            NewRecord { when: Some(70 - 10 * u64::from(i)), verification: Some(0.0), ..record }
        })
        .collect();
    batch.push(NewRecord { when: Some(15), ..failed(run, &task("a"), "bad", "crash") });
    batch.push(NewRecord { when: Some(55), ..failed(run, &task("b"), "worse", "crash") });
    let ids = db.insert_batch(&batch).unwrap().ids;
    db.store_best(&NewBest { record: ids[5], default_seconds: 9.0, ab_ratio: 1.5 }, Replace::Always).unwrap();
    run
}

#[test]
fn pruning_keeps_the_best() {
    let none = PruneOptions::default();
    let cases: [(PruneOptions, Vec<f64>, (u64, u64)); 7] = [
        (none.clone(), vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0], (0, 0)),
        (PruneOptions { keep_best_n: Some(2), ..none.clone() }, vec![1.0, 2.0, 6.0], (3, 0)),
        (PruneOptions { keep_best_n: Some(0), failures: true, ..none.clone() }, vec![1.0, 6.0], (4, 2)),
        (PruneOptions { older_than: Some(40), ..none.clone() }, vec![1.0, 2.0, 3.0, 6.0], (2, 0)),
        (
            PruneOptions { older_than: Some(40), failures: true, ..none.clone() },
            vec![1.0, 2.0, 3.0, 6.0],
            (2, 1),
        ),
        (PruneOptions { older_than: Some(1_000), ..none.clone() }, vec![1.0, 6.0], (4, 0)),
        (
            PruneOptions { older_than: Some(40), keep_best_n: Some(4), ..none.clone() },
            vec![1.0, 2.0, 3.0, 4.0, 6.0],
            (1, 0),
        ),
    ];
    for (options, left, counts) in cases {
        let mut db = Database::open_in_memory().unwrap();
        prunable(&mut db);
        let before = export(&db);
        let tried = db.prune(&PruneOptions { dry_run: true, ..options.clone() }).unwrap();
        assert_eq!(export(&db), before, "{options:?}");
        let pruned = db.prune(&options).unwrap();
        assert_eq!(pruned, tried);
        assert_eq!((pruned.good, pruned.failures), counts, "{options:?}");
        assert_eq!(pruned.texts, counts.0 + 2 * counts.1, "{options:?}");
        let records = db.records(&task("a"), &target(), 1).unwrap();
        let times: Vec<f64> = records.iter().filter_map(|record| record.typical_seconds()).collect();
        assert_eq!(times, left, "{options:?}");
        assert_eq!(db.best(&task("a"), &target(), 1).unwrap().unwrap().record.typical_seconds(), Some(6.0));
        assert_eq!(db.prune(&options).unwrap(), Pruned::default(), "{options:?} twice");
        db.check().unwrap();
    }
}

#[test]
fn pruning_gives_space_back_and_ids_are_not_used_again() {
    let dir = tempfile::tempdir().unwrap();
    let mut db = Database::open(dir.path().join("a.db")).unwrap();
    let run = run(&mut db);
    let batch: Vec<NewRecord> =
        (1..=50).map(|i| good(run, &task("a"), &format!("{i} ").repeat(20_000), f64::from(i))).collect();
    let last = *db.insert_batch(&batch).unwrap().ids.last().unwrap();
    let full = db.stats().unwrap().bytes;
    db.prune(&PruneOptions { keep_best_n: Some(1), ..PruneOptions::default() }).unwrap();
    let small = db.stats().unwrap().bytes;
    assert!(small < full / 4, "{small} of {full} bytes");
    let next = db.insert_batch(&[good(run, &task("a"), "new", 1.0)]).unwrap().ids[0];
    assert!(next > last, "{next} after {last}");
}
