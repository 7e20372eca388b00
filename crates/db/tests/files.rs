//! Files that are locked, damaged, foreign, newer or out of reach.

mod common;

use std::path::Path;
use std::time::Duration;

use common::{good, run, target, task};
use rusqlite::Connection;
use talweg_db::{Database, DbError, NewRecord, OpenOptions};

/// Opening must fail and leave the file and its directory as they are.
fn refused(path: &Path) -> DbError {
    let before = std::fs::read(path).unwrap();
    let names = || {
        let mut names: Vec<_> = std::fs::read_dir(path.parent().unwrap())
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        names.sort();
        names
    };
    let names_before = names();
    let error = Database::open(path).unwrap_err();
    assert_eq!(std::fs::read(path).unwrap(), before, "{error}");
    assert_eq!(names(), names_before, "{error}");
    assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
    assert!(error.to_string().contains(error.remedy()), "{error}");
    error
}

fn filled(path: &Path) {
    let mut db = Database::open(path).unwrap();
    let run = run(&mut db);
    let batch: Vec<NewRecord> =
        (1..=500).map(|i| good(run, &task("a"), &format!("{i} ").repeat(100), f64::from(i))).collect();
    db.insert_batch(&batch).unwrap();
}

#[test]
fn a_file_of_another_kind_is_refused_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("notes.txt");
    for content in [&b"x"[..], b"just some notes\n", &[7; 10_000], b"SQLite format 3\0"] {
        std::fs::write(&path, content).unwrap();
        let error = refused(&path);
        assert!(matches!(error, DbError::NotADatabase { .. }), "{error}");
    }
}

#[test]
fn a_database_of_another_program_is_refused_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("other.db");
    let other = Connection::open(&path).unwrap();
    other.execute_batch("CREATE TABLE record (id INTEGER); INSERT INTO record VALUES (1)").unwrap();
    let error = refused(&path);
    assert!(matches!(error, DbError::NotADatabase { .. }), "{error}");
    assert!(error.to_string().contains("of another program"), "{error}");
}

#[test]
fn a_database_of_another_program_that_is_still_in_its_log_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("other.db");
    let other = Connection::open(&path).unwrap();
    other.pragma_update(None, "journal_mode", "WAL").unwrap();
    other.execute_batch("CREATE TABLE record (id INTEGER)").unwrap();
    let error = refused(&path);
    assert!(matches!(error, DbError::NotADatabase { .. }), "{error}");
}

#[test]
fn a_newer_schema_is_refused_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("newer.db");
    filled(&path);
    let conn = Connection::open(&path).unwrap();
    conn.pragma_update(None, "user_version", 99).unwrap();
    drop(conn);
    let error = refused(&path);
    assert!(matches!(error, DbError::Newer { found: 99, known: 2, .. }), "{error}");
    assert!(error.to_string().contains("update talweg"), "{error}");
}

#[test]
fn damage_is_an_error_and_not_a_panic() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db");
    filled(&path);
    let whole = std::fs::read(&path).unwrap();
    let use_all = |path: &Path| -> Result<(), DbError> {
        let mut db = Database::open(path)?;
        db.check()?;
        db.records(&task("a"), &target(), 1)?;
        db.stats()?;
        db.export(std::io::sink())?;
        let run = db.begin_run(&talweg_db::RunInfo::default())?;
        db.insert_batch(&[good(run, &task("b"), "x", 1.0)])?;
        Ok(())
    };
    use_all(&path).unwrap();
    let pages = whole.len() / 4096;
    let mut damaged = 0;
    for page in 0..pages {
        let path = dir.path().join(format!("damaged-{page}.db"));
        let mut bytes = whole.clone();
        let from = page * 4096 + if page == 0 { 100 } else { 0 };
        bytes[from..(page + 1) * 4096].fill(0xA5);
        std::fs::write(&path, bytes).unwrap();
        if let Err(error) = use_all(&path) {
            assert!(matches!(error, DbError::Corrupt { .. }), "page {page}: {error}");
            assert!(error.to_string().contains("restore a copy"), "{error}");
            damaged += 1;
        }
    }
    assert!(damaged > pages / 2, "{damaged} of {pages}");
    std::fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    let error = use_all(&path).unwrap_err();
    assert!(matches!(error, DbError::Corrupt { .. }), "{error}");
}

#[test]
fn a_list_of_samples_that_is_no_such_thing_is_damage() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db");
    filled(&path);
    let conn = Connection::open(&path).unwrap();
    conn.execute("UPDATE record SET samples = x'00112233'", []).unwrap();
    let db = Database::open(&path).unwrap();
    let error = db.records(&task("a"), &target(), 1).unwrap_err();
    assert!(matches!(error, DbError::Corrupt { .. }), "{error}");
    let mut history = db.history(&target(), 1, None).unwrap();
    assert!(matches!(history.next(), Some(Err(DbError::Corrupt { .. }))));
    assert!(history.next().is_none());
}

#[test]
fn rows_that_refer_to_nothing_are_damage() {
    for damage in ["DELETE FROM body", "DELETE FROM target", "UPDATE record SET run = 99"] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.db");
        filled(&path);
        let conn = Connection::open(&path).unwrap();
        conn.pragma_update(None, "foreign_keys", false).unwrap();
        conn.execute_batch(damage).unwrap();
        let db = Database::open(&path).unwrap();
        assert!(matches!(db.check(), Err(DbError::Corrupt { .. })), "{damage}");
        let exported = db.export(std::io::sink());
        assert!(matches!(exported, Err(DbError::Corrupt { .. })), "{damage}: {exported:?}");
    }
}

#[test]
fn a_missing_file_is_created_only_on_demand() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db");
    let error = Database::open_existing(&path).unwrap_err();
    assert!(matches!(error, DbError::CannotOpen { .. }), "{error}");
    assert!(error.to_string().contains("no such file"), "{error}");
    assert!(!path.exists());
    filled(&path);
    assert_eq!(Database::open_existing(&path).unwrap().stats().unwrap().records, 500);
}

#[test]
fn a_lock_that_stays_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db");
    filled(&path);
    let options = OpenOptions { busy_timeout: Duration::from_millis(20), ..OpenOptions::default() };
    let mut db = Database::open_with(&path, &options).unwrap();
    let holder = Connection::open(&path).unwrap();
    holder.execute_batch("BEGIN IMMEDIATE").unwrap();
    let error = db.begin_run(&talweg_db::RunInfo::default()).unwrap_err();
    assert!(matches!(error, DbError::Locked { .. }), "{error}");
    assert_eq!(db.records(&task("a"), &target(), 1).unwrap().len(), 500, "readers do not wait");
    holder.execute_batch("COMMIT").unwrap();
    db.begin_run(&talweg_db::RunInfo::default()).unwrap();
}

#[test]
fn paths_that_cannot_be_opened_are_reported() {
    let dir = tempfile::tempdir().unwrap();
    for path in [dir.path().to_path_buf(), dir.path().join("no/such/directory/a.db")] {
        let error = Database::open(&path).unwrap_err();
        assert!(matches!(error, DbError::CannotOpen { .. }), "{error}");
        assert!(error.to_string().contains("check the path"), "{error}");
    }
}

#[test]
fn an_empty_file_becomes_a_database() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db");
    std::fs::write(&path, b"").unwrap();
    filled(&path);
    assert_eq!(Database::open(&path).unwrap().stats().unwrap().records, 500);
}
