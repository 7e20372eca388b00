//! Records and winners come back as they went in, and lookups find what they should.

mod common;

use common::{failed, good, odd_records, run, target, task};
use talweg_db::{
    BestOutcome, Database, DbError, NewBest, NewRecord, Record, RecordId, Replace, Samples, TargetKey,
    TaskKey,
};

fn as_new(record: Record) -> NewRecord {
    NewRecord {
        task: record.task,
        target: record.target,
        threads: record.threads,
        trace: record.trace,
        outcome: record.outcome,
        verification: record.verification,
        strategy: record.strategy,
        seed: record.seed,
        run: record.run,
        when: Some(record.when),
        compile_seconds: record.compile_seconds,
        probe: record.probe,
        predicted: record.predicted,
        elapsed: record.elapsed,
    }
}

#[test]
fn every_field_survives_storing_and_reopening() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tune.db");
    let mut db = Database::open(&path).unwrap();
    let run = run(&mut db);
    let batch = odd_records(run);
    let inserted = db.insert_batch(&batch).unwrap();
    assert_eq!((inserted.inserted, inserted.duplicates), (batch.len() as u64, 0));
    drop(db);
    let db = Database::open(&path).unwrap();
    for (new, id) in batch.iter().zip(&inserted.ids) {
        let record = db.record(*id).unwrap();
        assert_eq!(record.id, *id);
        assert_eq!(&as_new(record), new);
    }
    let first = &batch[0];
    let found = db.records(&first.task, &first.target, 64).unwrap();
    let expected: Vec<NewRecord> = batch.iter().filter(|record| record.threads == 64).cloned().collect();
    assert_eq!(found.into_iter().map(as_new).collect::<Vec<_>>(), expected);
    db.check().unwrap();
}

#[test]
fn a_run_keeps_what_began_it() {
    let mut db = Database::open_in_memory().unwrap();
    let (a, b) = (run(&mut db), run(&mut db));
    let runs = db.runs().unwrap();
    assert_eq!(runs.iter().map(|run| run.id).collect::<Vec<_>>(), [a, b]);
    assert_ne!(runs[0].uid, runs[1].uid);
    assert_eq!(runs[0].info, runs[1].info);
    assert_eq!(runs[0].info.seed, u64::MAX - 3);
    assert_eq!(runs[0].info.environment, "governor=performance\nkernel=ü");
    assert!(runs[0].started > 1_700_000_000);
}

#[test]
fn the_time_of_insertion_stands_in_for_a_missing_one() {
    let mut db = Database::open_in_memory().unwrap();
    let run = run(&mut db);
    let record = NewRecord { when: None, ..good(run, &task("a"), "x", 1.0) };
    let id = db.insert_batch(&[record]).unwrap().ids[0];
    assert!(db.record(id).unwrap().when >= db.runs().unwrap()[0].started);
}

#[test]
fn lookups_tell_task_version_target_and_threads_apart() {
    let mut db = Database::open_in_memory().unwrap();
    let run = run(&mut db);
    let base = good(run, &task("a"), "x", 1.0);
    let other_target = TargetKey::new("aarch64 neon");
    let newer = TaskKey { version: 2, ..task("a") };
    db.insert_batch(&[
        base.clone(),
        NewRecord { target: other_target.clone(), ..base.clone() },
        NewRecord { threads: 2, ..base.clone() },
        NewRecord { task: newer.clone(), ..base.clone() },
    ])
    .unwrap();
    for (task, target, threads, count) in [
        (&base.task, &base.target, 1, 1),
        (&base.task, &other_target, 1, 1),
        (&base.task, &base.target, 2, 1),
        (&newer, &base.target, 1, 1),
        (&newer, &other_target, 1, 0),
        (&base.task, &base.target, 3, 0),
        (&base.task, &TargetKey::new("never seen"), 1, 0),
        (&TaskKey::new("never seen", 1), &base.target, 1, 0),
    ] {
        let found = db.records(task, target, threads).unwrap();
        assert_eq!(found.len(), count, "{task:?} {target:?} {threads}");
        assert!(found.iter().all(|r| r.task == *task && r.target == *target && r.threads == threads));
    }
    assert_eq!(db.tasks().unwrap().len(), 4);
    assert_eq!(db.targets().unwrap(), [base.target, other_target]);
}

#[test]
fn what_a_run_had_in_hand_is_known_for_every_moment() {
    let mut db = Database::open_in_memory().unwrap();
    let (first, second) = (run(&mut db), run(&mut db));
    let key = task("a");
    let at = |run, trace, seconds, elapsed| NewRecord {
        elapsed: Some(elapsed),
        verification: Some(0.0),
        ..good(run, &key, trace, seconds)
    };
    let unchecked = NewRecord { verification: None, ..at(first, "unchecked", 0.1, 1.0) };
    let records = [at(first, "x", 3.0, 1.0), at(first, "y", 1.0, 5.0), at(first, "z", 2.0, 6.0), unchecked];
    db.insert_batch(&records).unwrap();
    db.insert_batch(&[at(second, "w", 0.5, 0.5)]).unwrap();
    for (seconds, wanted) in [(0.9, None), (1.0, Some("x")), (5.0, Some("y")), (60.0, Some("y"))] {
        let found = db.fastest_until(first, &key, &target(), 1, seconds).unwrap();
        assert_eq!(found.as_ref().map(|r| r.trace.as_str()), wanted, "after {seconds}");
    }
    assert!(db.fastest_until(first, &key, &target(), 2, 60.0).unwrap().is_none());
    assert!(db.fastest_until(first, &task("b"), &target(), 1, 60.0).unwrap().is_none());
}

#[test]
fn equal_records_are_stored_once_and_texts_too() {
    let dir = tempfile::tempdir().unwrap();
    let mut db = Database::open(dir.path().join("a.db")).unwrap();
    let (one, two) = (run(&mut db), run(&mut db));
    let trace = "split i 4; ".repeat(10_000);
    let record = good(one, &task("a"), &trace, 1.0);
    let inserted = db.insert_batch(&[record.clone(), record.clone()]).unwrap();
    assert_eq!((inserted.inserted, inserted.duplicates), (1, 1));
    assert_eq!(inserted.ids[0], inserted.ids[1]);
    let again = db.insert_batch(&[NewRecord { run: two, ..record.clone() }]).unwrap();
    assert_eq!(again.inserted, 1, "the same result of another run is another record");
    let many: Vec<NewRecord> = (1..200).map(|i| NewRecord { seed: i, ..record.clone() }).collect();
    db.insert_batch(&many).unwrap();
    let stats = db.stats().unwrap();
    assert_eq!(stats.records, 201);
    assert!(stats.bytes < 3 * trace.len() as u64 + 100_000, "{} bytes", stats.bytes);
}

#[test]
fn impossible_values_are_refused_and_nothing_of_the_batch_stays() {
    let mut db = Database::open_in_memory().unwrap();
    let run = run(&mut db);
    let ok = good(run, &task("a"), "x", 1.0);
    let samples = |seconds: Vec<f64>| Ok(Samples { seconds, ..Samples::default() });
    let bad = [
        NewRecord { outcome: samples(vec![]), ..ok.clone() },
        NewRecord { outcome: samples(vec![1.0, f64::INFINITY]), ..ok.clone() },
        NewRecord { outcome: samples(vec![f64::NAN]), ..ok.clone() },
        NewRecord { outcome: samples(vec![0.0]), ..ok.clone() },
        NewRecord { outcome: samples(vec![-1.0]), ..ok.clone() },
        NewRecord { verification: Some(f64::NAN), ..ok.clone() },
        NewRecord { verification: Some(-0.1), ..ok.clone() },
        NewRecord { compile_seconds: f64::INFINITY, ..ok.clone() },
        NewRecord { probe: Some(f64::NAN), ..ok.clone() },
        NewRecord { predicted: Some(f64::NEG_INFINITY), ..ok.clone() },
        NewRecord { threads: 0, ..ok.clone() },
        NewRecord { when: Some(u64::MAX), ..ok.clone() },
        failed(run, &task("a"), "x", ""),
    ];
    for record in bad {
        let error = db.insert_batch(&[ok.clone(), record.clone()]).unwrap_err();
        assert!(matches!(error, DbError::InvalidValue { .. }), "{record:?}: {error}");
        assert!(error.to_string().contains("as a failure"), "{error}");
    }
    assert_eq!(db.records(&ok.task, &ok.target, 1).unwrap(), []);
    let elsewhere = run_of_another_database();
    let error = db.insert_batch(&[NewRecord { run: elsewhere, ..ok.clone() }]).unwrap_err();
    assert!(matches!(error, DbError::NoSuchRun { .. }), "{error}");
}

fn run_of_another_database() -> talweg_db::RunId {
    let mut db = Database::open_in_memory().unwrap();
    run(&mut db);
    run(&mut db)
}

#[test]
fn a_winner_needs_verification() {
    let mut db = Database::open_in_memory().unwrap();
    let run = run(&mut db);
    let a = task("a");
    let ids = db.insert_batch(&[good(run, &a, "x", 2.0), failed(run, &a, "y", "crash")]).unwrap().ids;
    let best = |record| NewBest { record, default_seconds: 3.0, ab_ratio: 1.5 };
    let error = db.store_best(&best(ids[0]), Replace::Always).unwrap_err();
    assert!(matches!(error, DbError::NotAWinner { .. }), "{error}");
    assert!(error.to_string().contains("not compared with the reference"), "{error}");
    assert_eq!(db.best(&a, &target(), 1).unwrap(), None);

    db.set_verification(ids[1], 0.0).unwrap();
    let error = db.store_best(&best(ids[1]), Replace::Always).unwrap_err();
    assert!(error.to_string().contains("its measurement failed"), "{error}");
    let gone = RecordId::from_number(99);
    assert!(matches!(db.store_best(&best(gone), Replace::Always), Err(DbError::NoSuchRecord { .. })));
    assert!(matches!(db.set_verification(gone, 0.0), Err(DbError::NoSuchRecord { .. })));
    assert!(matches!(db.set_verification(ids[0], f64::NAN), Err(DbError::InvalidValue { .. })));

    db.set_verification(ids[0], 1e-6).unwrap();
    for (default_seconds, ab_ratio) in [(0.0, 1.0), (f64::NAN, 1.0), (1.0, f64::INFINITY), (1.0, -1.0)] {
        let error = db
            .store_best(&NewBest { record: ids[0], default_seconds, ab_ratio }, Replace::Always)
            .unwrap_err();
        assert!(matches!(error, DbError::InvalidValue { .. }), "{error}");
    }
    assert_eq!(db.store_best(&best(ids[0]), Replace::IfFaster).unwrap(), BestOutcome::First);
    let stored = db.best(&a, &target(), 1).unwrap().unwrap();
    assert_eq!(stored.record, db.record(ids[0]).unwrap());
    assert_eq!((stored.default_seconds, stored.error, stored.ab_ratio), (3.0, 1e-6, 1.5));
    assert!(stored.stored > 1_700_000_000);
}

#[test]
fn a_winner_is_replaced_by_a_faster_one_or_on_demand() {
    let mut db = Database::open_in_memory().unwrap();
    let run = run(&mut db);
    let a = task("a");
    let batch: Vec<NewRecord> = [2.0, 1.0, 3.0]
        .iter()
        .map(|s| NewRecord { verification: Some(0.0), ..good(run, &a, &format!("{s}"), *s) })
        .collect();
    let ids = db.insert_batch(&batch).unwrap().ids;
    let best = |i: usize| NewBest { record: ids[i], default_seconds: 3.0, ab_ratio: 1.5 };
    assert_eq!(db.store_best(&best(0), Replace::IfFaster).unwrap(), BestOutcome::First);
    let replaced = BestOutcome::Replaced { previous: ids[0] };
    assert_eq!(db.store_best(&best(1), Replace::IfFaster).unwrap(), replaced);
    let kept = BestOutcome::Kept { current: ids[1] };
    assert_eq!(db.store_best(&best(2), Replace::IfFaster).unwrap(), kept);
    assert_eq!(db.bests(&target()).unwrap()[0].record.id, ids[1]);
    let replaced = BestOutcome::Replaced { previous: ids[1] };
    assert_eq!(db.store_best(&best(2), Replace::Always).unwrap(), replaced);
    assert_eq!(db.best(&a, &target(), 1).unwrap().unwrap().record.id, ids[2]);
    assert_eq!(db.best(&a, &target(), 2).unwrap(), None);
    assert_eq!(db.best(&a, &TargetKey::new("elsewhere"), 1).unwrap(), None);
    assert_eq!(db.bests(&TargetKey::new("elsewhere")).unwrap(), []);
}

#[test]
fn history_gives_the_good_records_of_other_tasks() {
    let mut db = Database::open_in_memory().unwrap();
    let run = run(&mut db);
    let mut batch = Vec::new();
    for i in 0..700 {
        let name = ["a", "b", "c"][i % 3];
        batch.push(good(run, &task(name), &format!("trace {i}"), 1.0 + i as f64));
        batch.push(failed(run, &task(name), &format!("trace {i}"), "compile"));
    }
    batch.push(NewRecord { target: TargetKey::new("elsewhere"), ..batch[0].clone() });
    batch.push(NewRecord { threads: 2, ..batch[2].clone() });
    db.insert_batch(&batch).unwrap();
    let traces = |except: Option<&TaskKey>| {
        let history = db.history(&target(), 1, except).unwrap();
        history.map(|record| record.unwrap()).map(|r| (r.task, r.trace)).collect::<Vec<_>>()
    };
    let expected = |left_out: Option<&TaskKey>| {
        let kept = batch.iter().filter(|r| r.outcome.is_ok() && r.target == target() && r.threads == 1);
        kept.filter(|r| Some(&r.task) != left_out)
            .map(|r| (r.task.clone(), r.trace.clone()))
            .collect::<Vec<_>>()
    };
    assert_eq!(traces(None).len(), 700);
    assert_eq!(traces(None), expected(None));
    assert_eq!(traces(Some(&task("b"))), expected(Some(&task("b"))));
    assert_eq!(traces(Some(&task("never seen"))), expected(None));
    assert_eq!(db.history(&TargetKey::new("never seen"), 1, None).unwrap().count(), 0);
}

#[test]
fn statistics_count_by_task_and_cause() {
    let mut db = Database::open_in_memory().unwrap();
    let run = run(&mut db);
    let (a, b) = (task("a"), task("b"));
    let ids = db
        .insert_batch(&[
            NewRecord { verification: Some(1e-7), when: Some(10), ..good(run, &a, "1", 2.0) },
            NewRecord { when: Some(40), ..good(run, &a, "2", 1.5) },
            failed(run, &a, "3", "timeout"),
            failed(run, &a, "4", "compile"),
            failed(run, &a, "5", "compile"),
            failed(run, &b, "6", "crash"),
        ])
        .unwrap()
        .ids;
    db.store_best(&NewBest { record: ids[0], default_seconds: 4.0, ab_ratio: 2.0 }, Replace::IfFaster)
        .unwrap();
    let stats = db.stats().unwrap();
    assert_eq!((stats.records, stats.runs, stats.tasks.len()), (6, 1, 2));
    let of_a = &stats.tasks[0];
    assert_eq!((of_a.entry.records, of_a.failed()), (5, 3));
    assert_eq!(of_a.failures, [("compile".to_string(), 2), ("timeout".to_string(), 1)]);
    assert_eq!(of_a.fastest_seconds, Some(1.5));
    assert_eq!(of_a.best.as_ref().map(|best| best.record.id), Some(ids[0]));
    assert_eq!((of_a.first, of_a.last), (10, 1_000));
    let of_b = &stats.tasks[1];
    assert_eq!((of_b.fastest_seconds, of_b.best.is_none(), of_b.failed()), (None, true, 1));
    assert_eq!(of_b.entry.task, b);
}

#[test]
fn records_are_ranked_by_the_middle_sample() {
    let samples = Samples { seconds: vec![9.0, 1.0, 3.0, 2.0, 4.0], ..Samples::default() };
    assert_eq!(samples.typical(), Some(3.0));
    assert_eq!(Samples::default().typical(), None);
}
