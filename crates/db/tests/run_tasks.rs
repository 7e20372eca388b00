//! The tasks of runs: stored, exchanged, merged and pruned with the rest.

mod common;

use common::{good, run, task};
use talweg_db::{Database, DbError, PruneOptions, RunId, RunTask};

fn tasks() -> Vec<RunTask> {
    let entry =
        |name: &str, weight| RunTask { task: task(name), name: format!("op:{name}"), weight, flops: 8.5 };
    vec![entry("b", 2.0), entry("a", 1.0)]
}

#[test]
fn tasks_keep_their_order_and_travel_with_their_run() {
    let mut db = Database::open_in_memory().unwrap();
    let first = run(&mut db);
    db.add_run_tasks(first, &tasks()).unwrap();
    assert_eq!(db.run_tasks(first).unwrap(), tasks());
    let mut text = Vec::new();
    db.export(&mut text).unwrap();

    let mut copy = Database::open_in_memory().unwrap();
    run(&mut copy);
    for _ in 0..2 {
        copy.import(&text[..]).unwrap();
        copy.merge(&db).unwrap();
        let id = copy.runs().unwrap()[1].id;
        assert_eq!(copy.run_tasks(id).unwrap(), tasks());
    }
}

#[test]
fn pruned_tasks_leave_their_runs() {
    let mut db = Database::open_in_memory().unwrap();
    let id = run(&mut db);
    db.add_run_tasks(id, &tasks()).unwrap();
    db.insert_batch(&[good(id, &task("a"), "x", 1.0), good(id, &task("a"), "y", 2.0)]).unwrap();
    db.prune(&PruneOptions { keep_best_n: Some(1), ..PruneOptions::default() }).unwrap();
    let names: Vec<_> = db.run_tasks(id).unwrap().into_iter().map(|t| t.name).collect();
    assert_eq!(names, ["op:a"]);
    db.check().unwrap();
}

#[test]
fn a_run_that_is_not_there_and_numbers_that_are_none_are_refused() {
    let mut db = Database::open_in_memory().unwrap();
    let missing = RunId::from_number(77);
    assert!(matches!(db.add_run_tasks(missing, &tasks()), Err(DbError::NoSuchRun { .. })));
    assert!(matches!(db.run(missing), Err(DbError::NoSuchRun { .. })));
    let id = run(&mut db);
    let bad = RunTask { weight: f64::NAN, ..tasks()[0].clone() };
    assert!(matches!(db.add_run_tasks(id, &[bad]), Err(DbError::InvalidValue { .. })));
    assert!(db.run_tasks(id).unwrap().is_empty());
}

#[test]
fn what_runs_have_measured_is_counted() {
    let mut db = Database::open_in_memory().unwrap();
    let (first, second) = (run(&mut db), run(&mut db));
    let records = [good(first, &task("a"), "x", 1.0), common::failed(first, &task("b"), "y", "crash")];
    db.insert_batch(&records).unwrap();
    let stats = db.run_stats().unwrap();
    assert_eq!(stats.len(), 1);
    assert_eq!((stats[0].run, stats[0].records, stats[0].failed, stats[0].tasks), (first, 2, 1, 2));
    assert_eq!(db.run_records(first).unwrap().len(), 2);
    assert!(db.run_records(second).unwrap().is_empty());
}
