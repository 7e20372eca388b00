//! Tables, schema versions and migrations.
//!
//! Tasks, targets, traces and failure texts are stored once and referred to by id. The schema version is SQLite's
//! `user_version`; the application id in the file's header tells a talweg database from any other file before
//! SQLite touches it.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::{Connection, TransactionBehavior};

use crate::error::{At, DbError};

/// `TLWG`, the application id in the header of every talweg database.
pub(crate) const APPLICATION_ID: u32 = 0x544C_5747;

/// One entry for each schema version, leading from the one before it.
pub(crate) const MIGRATIONS: &[&str] = &[VERSION_1, VERSION_2];

const VERSION_1: &str = "
CREATE TABLE run (
    id INTEGER PRIMARY KEY,
    uid TEXT NOT NULL UNIQUE,
    strategy TEXT NOT NULL,
    seed INTEGER NOT NULL,
    command TEXT NOT NULL,
    tool_version TEXT NOT NULL,
    environment TEXT NOT NULL,
    started INTEGER NOT NULL
) STRICT;
CREATE TABLE task (
    id INTEGER PRIMARY KEY,
    text TEXT NOT NULL,
    version INTEGER NOT NULL,
    UNIQUE (text, version)
) STRICT;
CREATE TABLE target (
    id INTEGER PRIMARY KEY,
    text TEXT NOT NULL UNIQUE
) STRICT;
CREATE TABLE body (
    id INTEGER PRIMARY KEY,
    hash INTEGER NOT NULL,
    text TEXT NOT NULL
) STRICT;
CREATE INDEX body_hash ON body (hash);
CREATE TABLE record (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    digest BLOB NOT NULL UNIQUE,
    task INTEGER NOT NULL REFERENCES task,
    target INTEGER NOT NULL REFERENCES target,
    threads INTEGER NOT NULL,
    trace INTEGER NOT NULL,
    run INTEGER NOT NULL REFERENCES run,
    strategy TEXT NOT NULL,
    seed INTEGER NOT NULL,
    recorded INTEGER NOT NULL,
    compile_seconds REAL NOT NULL,
    probe REAL,
    predicted REAL,
    verification REAL,
    seconds REAL,
    samples BLOB,
    inner INTEGER,
    rejected INTEGER,
    disturbed INTEGER,
    stop TEXT,
    cause TEXT,
    failure INTEGER,
    CHECK ((samples IS NULL) = (cause IS NOT NULL)),
    CHECK ((seconds IS NULL) = (samples IS NULL)),
    CHECK ((failure IS NULL) = (cause IS NULL))
) STRICT;
CREATE INDEX record_key ON record (task, target, threads, seconds);
CREATE INDEX record_target ON record (target, threads) WHERE seconds IS NOT NULL;
CREATE TABLE best (
    task INTEGER NOT NULL REFERENCES task,
    target INTEGER NOT NULL REFERENCES target,
    threads INTEGER NOT NULL,
    record INTEGER NOT NULL UNIQUE REFERENCES record,
    default_seconds REAL NOT NULL,
    ab_ratio REAL NOT NULL,
    stored INTEGER NOT NULL,
    PRIMARY KEY (task, target, threads)
) STRICT;
CREATE INDEX best_target ON best (target);
";

/// When in its run a record was measured, and what the tasks of a run are called and how much they count.
const VERSION_2: &str = "
ALTER TABLE record ADD COLUMN elapsed REAL;
CREATE INDEX record_run ON record (run);
CREATE TABLE run_task (
    run INTEGER NOT NULL REFERENCES run,
    position INTEGER NOT NULL,
    task INTEGER NOT NULL REFERENCES task,
    name TEXT NOT NULL,
    weight REAL NOT NULL,
    flops REAL NOT NULL,
    PRIMARY KEY (run, position)
) STRICT;
";

// Where SQLite's file header holds what is looked at before SQLite may touch the file.
const LOGGED_AT: usize = 18;
const SCHEMA_COOKIE_AT: usize = 40;
const USER_VERSION_AT: usize = 60;
const APPLICATION_ID_AT: usize = 68;

/// Refuses a file that is not a talweg database, by its header alone; says whether there is a file at all. A missing
/// or empty one will become a database.
pub(crate) fn check_header(path: &Path) -> Result<bool, DbError> {
    let cannot_open = |what: String| DbError::CannotOpen { path: path.to_path_buf(), what };
    let not_ours = |what: &str| DbError::NotADatabase { path: path.to_path_buf(), what: what.into() };
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(cannot_open(error.to_string())),
    };
    if !file.metadata().map_err(|error| cannot_open(error.to_string()))?.is_file() {
        return Err(cannot_open("not a regular file".into()));
    }
    let mut header = Vec::with_capacity(100);
    file.take(100).read_to_end(&mut header).map_err(|error| cannot_open(error.to_string()))?;
    // Zeros: another process is creating the database, and SQLite's locks will order the two.
    if header.iter().all(|byte| *byte == 0) {
        return Ok(true);
    }
    if !header.starts_with(b"SQLite format 3\0") || header.len() < 100 {
        return Err(not_ours("the file has some other format"));
    }
    // Nothing was ever stored in it: a talweg that is creating it, or was killed while it did, leaves it like this.
    let number = |at: usize| u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    let logged = header[LOGGED_AT] == 2;
    let blank = !logged && [SCHEMA_COOKIE_AT, USER_VERSION_AT, APPLICATION_ID_AT].map(number) == [0; 3];
    if !blank && number(APPLICATION_ID_AT) != APPLICATION_ID {
        return Err(not_ours("the file is an SQLite database of another program"));
    }
    Ok(true)
}

/// Brings a checked file to the newest schema, creating it if it is empty, and sets the connection up.
pub(crate) fn prepare(
    conn: &mut Connection,
    path: &Path,
    migrations: &[&str],
    patience: Duration,
) -> Result<(), DbError> {
    conn.busy_timeout(patience).at(path)?;
    conn.set_prepared_statement_cache_capacity(64);
    let known = migrations.len() as i64;
    if version(conn, path)? != known {
        migrate(conn, path, migrations)?;
    }
    // Only after the first commit: the application id is then in the file itself and not in the log.
    use_log(conn, path, patience)?;
    conn.pragma_update(None, "synchronous", "NORMAL").at(path)?;
    conn.pragma_update(None, "foreign_keys", true).at(path)
}

fn version(conn: &Connection, path: &Path) -> Result<i64, DbError> {
    conn.pragma_query_value(None, "user_version", |row| row.get(0)).at(path)
}

fn migrate(conn: &mut Connection, path: &Path, migrations: &[&str]) -> Result<(), DbError> {
    let known = migrations.len() as i64;
    if version(conn, path)? == 0 {
        conn.pragma_update(None, "auto_vacuum", "INCREMENTAL").at(path)?;
    }
    let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate).at(path)?;
    let found = version(&tx, path)?;
    let done = usize::try_from(found).unwrap_or(usize::MAX);
    let Some(missing) = migrations.get(done..) else {
        return Err(DbError::Newer { path: path.to_path_buf(), found, known });
    };
    if found == 0 {
        let tables: i64 =
            tx.query_row("SELECT COUNT(*) FROM sqlite_schema", [], |row| row.get(0)).at(path)?;
        if tables != 0 {
            let what = "the file is an SQLite database of another program".into();
            return Err(DbError::NotADatabase { path: path.to_path_buf(), what });
        }
    }
    for step in missing {
        tx.execute_batch(step).at(path)?;
    }
    if !missing.is_empty() {
        tx.pragma_update(None, "application_id", APPLICATION_ID).at(path)?;
        tx.pragma_update(None, "user_version", known).at(path)?;
    }
    tx.commit().at(path)
}

/// Switches to write-ahead logging. SQLite does not wait for the lock this needs, so this does.
fn use_log(conn: &Connection, path: &Path, patience: Duration) -> Result<(), DbError> {
    let begun = Instant::now();
    loop {
        let mode: String = conn.pragma_query_value(None, "journal_mode", |row| row.get(0)).at(path)?;
        if mode == "wal" || mode == "memory" {
            return Ok(());
        }
        let switched =
            conn.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get::<_, String>(0)).at(path);
        match switched {
            Ok(_) | Err(DbError::ReadOnly { .. }) => return Ok(()),
            Err(DbError::Locked { .. }) if begun.elapsed() < patience => {
                std::thread::sleep(Duration::from_millis(5));
            }
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(5);

    fn prepared(path: &Path, migrations: &[&str]) -> Result<Connection, DbError> {
        let mut conn = Connection::open(path).at(path)?;
        prepare(&mut conn, path, migrations, PATIENCE)?;
        Ok(conn)
    }

    #[test]
    fn migrations_lead_forward_and_keep_the_data() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.db");
        let first = "CREATE TABLE a (x INTEGER) STRICT;";
        let second = "ALTER TABLE a ADD COLUMN y INTEGER NOT NULL DEFAULT 7;";
        let conn = prepared(&path, &[first]).unwrap();
        conn.execute("INSERT INTO a (x) VALUES (3)", []).unwrap();
        drop(conn);
        let conn = prepared(&path, &[first, second]).unwrap();
        let row: (i64, i64) =
            conn.query_row("SELECT x, y FROM a", [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        assert_eq!(row, (3, 7));
        assert_eq!(version(&conn, &path).unwrap(), 2);
        drop(conn);
        let refused = prepared(&path, &[first]);
        assert!(matches!(refused, Err(DbError::Newer { found: 2, known: 1, .. })), "{refused:?}");
    }

    #[test]
    fn a_database_of_the_first_version_keeps_its_records_and_takes_new_ones() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("old.db");
        let conn = prepared(&path, &[VERSION_1]).unwrap();
        conn.execute_batch(
            "INSERT INTO run VALUES (1, 'u', 'ansor', 0, 'tune', '0.1.0', '', 100);
             INSERT INTO task VALUES (1, 'a', 1);
             INSERT INTO target VALUES (1, 't');
             INSERT INTO body VALUES (1, 0, 'trace');
             INSERT INTO record (id, digest, task, target, threads, trace, run, strategy, seed, recorded,
                 compile_seconds, cause, failure) VALUES (1, x'00', 1, 1, 1, 1, 1, 'ansor', 0, 107, 0.0, 'crash', 1);",
        )
        .unwrap();
        drop(conn);
        let db = crate::Database::open(&path).unwrap();
        let run = db.runs().unwrap().remove(0);
        let records = db.run_records(run.id).unwrap();
        assert_eq!((records.len(), records[0].elapsed, records[0].when), (1, None, 107));
        assert!(db.run_tasks(run.id).unwrap().is_empty());
        let mut new = records[0].clone().into_new(run.id);
        (new.elapsed, new.trace) = (Some(1.5), "other".into());
        let mut db = db;
        db.insert_batch(&[new]).unwrap();
        let elapsed: Vec<_> = db.run_records(run.id).unwrap().iter().map(|r| r.elapsed).collect();
        assert_eq!(elapsed, [None, Some(1.5)]);
        db.check().unwrap();
    }

    #[test]
    fn a_failing_migration_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.db");
        let first = "CREATE TABLE a (x INTEGER) STRICT;";
        drop(prepared(&path, &[first]).unwrap());
        assert!(prepared(&path, &[first, "CREATE TABLE b (x INTEGER) STRICT; nonsense"]).is_err());
        let conn = prepared(&path, &[first]).unwrap();
        assert!(conn.prepare("SELECT x FROM b").is_err());
    }

    #[test]
    fn the_application_id_is_in_the_file_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.db");
        let conn = prepared(&path, MIGRATIONS).unwrap();
        let header = std::fs::read(&path).unwrap();
        assert_eq!(header[68..72], APPLICATION_ID.to_be_bytes());
        let mode: String = conn.pragma_query_value(None, "journal_mode", |row| row.get(0)).unwrap();
        assert_eq!(mode, "wal");
    }
}
