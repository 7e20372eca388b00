//! Opening a database, beginning runs, inserting batches and storing winners.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rusqlite::{Connection, OpenFlags, OptionalExtension, Transaction, TransactionBehavior, params};

use crate::digest::{Digest, hex};
use crate::error::{At, DbError};
use crate::insert::Inserter;
use crate::record::{NewBest, NewRecord, RecordId, RunId, RunInfo};
use crate::schema;

/// An open tuning database. Several processes may have the same file open; writers wait for each other.
#[derive(Debug)]
pub struct Database {
    pub(crate) conn: Connection,
    pub(crate) path: PathBuf,
}

/// How to open a database.
#[derive(Debug, Clone)]
pub struct OpenOptions {
    /// How long to wait for other processes before giving up with [`DbError::Locked`].
    pub busy_timeout: Duration,
    /// Whether a missing file is created or an error.
    pub create: bool,
}

impl Default for OpenOptions {
    fn default() -> OpenOptions {
        OpenOptions { busy_timeout: Duration::from_secs(30), create: true }
    }
}

/// What inserting a batch did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inserted {
    /// The record for each entry of the batch, in its order.
    pub ids: Vec<RecordId>,
    /// How many were new.
    pub inserted: u64,
    /// How many were in the database already, equal in every field.
    pub duplicates: u64,
}

/// When a winner takes the place of another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replace {
    /// Only if its record is faster.
    IfFaster,
    /// In any case: the caller has compared the two itself.
    Always,
}

/// What storing a winner did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BestOutcome {
    /// It is the first one.
    First,
    /// It took the place of another record, or renewed its own entry.
    Replaced {
        /// The former winner.
        previous: RecordId,
    },
    /// The winner that was there is at least as fast and stays.
    Kept {
        /// That winner.
        current: RecordId,
    },
}

impl Database {
    /// Opens a database, creates it if there is none, and brings an older one to the newest schema. A file that is
    /// not a talweg database, or a newer one, is refused and left as it is.
    pub fn open(path: impl AsRef<Path>) -> Result<Database, DbError> {
        Database::open_with(path, &OpenOptions::default())
    }

    /// Like [`Database::open`], but a missing file is an error: for commands that only make sense on what is there.
    pub fn open_existing(path: impl AsRef<Path>) -> Result<Database, DbError> {
        Database::open_with(path, &OpenOptions { create: false, ..OpenOptions::default() })
    }

    /// Like [`Database::open`], with options.
    pub fn open_with(path: impl AsRef<Path>, options: &OpenOptions) -> Result<Database, DbError> {
        let path = path.as_ref();
        if !schema::check_header(path)? && !options.create {
            let what = "there is no such file".into();
            return Err(DbError::CannotOpen { path: path.to_path_buf(), what });
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX
            | OpenFlags::SQLITE_OPEN_EXRESCODE;
        let mut conn = Connection::open_with_flags(path, flags).at(path)?;
        schema::prepare(&mut conn, path, schema::MIGRATIONS, options.busy_timeout)?;
        Ok(Database { conn, path: path.to_path_buf() })
    }

    /// A database that lives as long as the value: for tests and trials.
    pub fn open_in_memory() -> Result<Database, DbError> {
        let path = PathBuf::from("memory");
        let mut conn = Connection::open_in_memory().at(&path)?;
        schema::prepare(&mut conn, &path, schema::MIGRATIONS, Duration::ZERO)?;
        Ok(Database { conn, path })
    }

    /// The file, for messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the whole file and reports damage.
    pub fn check(&self) -> Result<(), DbError> {
        let path = &self.path;
        let damaged = |what: String| Err(DbError::Corrupt { path: path.clone(), what });
        let answer: String =
            self.conn.pragma_query_value(None, "integrity_check", |row| row.get(0)).at(path)?;
        if answer != "ok" {
            return damaged(answer);
        }
        let dangling: i64 = self
            .conn
            .query_row(
                "SELECT (SELECT COUNT(*) FROM pragma_foreign_key_check)
                     + (SELECT COUNT(*) FROM record WHERE trace NOT IN (SELECT id FROM body)
                        OR failure IS NOT NULL AND failure NOT IN (SELECT id FROM body))",
                [],
                |row| row.get(0),
            )
            .at(path)?;
        if dangling == 0 { Ok(()) } else { damaged(format!("{dangling} rows refer to rows that are gone")) }
    }

    /// Begins a run; records name the run they belong to.
    pub fn begin_run(&mut self, info: &RunInfo) -> Result<RunId, DbError> {
        let started = now();
        let uid = new_uid(info);
        let tx = write(&mut self.conn, &self.path)?;
        let id = put_run(&tx, &self.path, &uid, info, started)?;
        tx.commit().at(&self.path)?;
        Ok(id)
    }

    /// Replaces what a run says of its environment: some of it is known only later.
    pub fn set_environment(&mut self, run: RunId, environment: &str) -> Result<(), DbError> {
        let tx = write(&mut self.conn, &self.path)?;
        let change = "UPDATE run SET environment = ?2 WHERE id = ?1";
        if tx.execute(change, params![run.0, environment]).at(&self.path)? == 0 {
            return Err(DbError::NoSuchRun { path: self.path.clone(), run });
        }
        tx.commit().at(&self.path)
    }

    /// Stores a batch in one transaction: all of it or, on an error or a kill, nothing. Records equal to one that is
    /// there are not stored again.
    pub fn insert_batch(&mut self, batch: &[NewRecord]) -> Result<Inserted, DbError> {
        let tx = write(&mut self.conn, &self.path)?;
        let mut inserter = Inserter::new(&tx, &self.path, now());
        let mut done = Inserted { ids: Vec::with_capacity(batch.len()), inserted: 0, duplicates: 0 };
        for record in batch {
            let placed = inserter.insert(record)?;
            done.ids.push(placed.id);
            if placed.new {
                done.inserted += 1;
            } else {
                done.duplicates += 1;
            }
        }
        tx.commit().at(&self.path)?;
        Ok(done)
    }

    /// Stores the result of comparing a record with the reference: the largest relative error.
    pub fn set_verification(&mut self, record: RecordId, error: f64) -> Result<(), DbError> {
        if !(error.is_finite() && error >= 0.0) {
            let what = format!("a verification error of {error} is not a number from zero up");
            return Err(DbError::InvalidValue { path: self.path.clone(), what });
        }
        let tx = write(&mut self.conn, &self.path)?;
        let changed = tx
            .execute("UPDATE record SET verification = ?1 WHERE id = ?2", params![error, record.0])
            .at(&self.path)?;
        if changed == 0 {
            return Err(DbError::NoSuchRecord { path: self.path.clone(), record });
        }
        tx.commit().at(&self.path)
    }

    /// Stores the winner of its record's task, target and threads. Refuses a failure and a record that was not
    /// compared with the reference.
    pub fn store_best(&mut self, best: &NewBest, replace: Replace) -> Result<BestOutcome, DbError> {
        let tx = write(&mut self.conn, &self.path)?;
        let outcome = put_best(&tx, &self.path, best, replace, now())?;
        tx.commit().at(&self.path)?;
        Ok(outcome)
    }
}

/// Begins a transaction that holds the write lock from the start, so that it cannot fail halfway for want of it.
pub(crate) fn write<'c>(conn: &'c mut Connection, path: &Path) -> Result<Transaction<'c>, DbError> {
    conn.transaction_with_behavior(TransactionBehavior::Immediate).at(path)
}

/// Unix seconds now.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Stores a run, or finds the one with that uid.
pub(crate) fn put_run(
    conn: &Connection,
    path: &Path,
    uid: &str,
    info: &RunInfo,
    started: u64,
) -> Result<RunId, DbError> {
    if i64::try_from(started).is_err() {
        let what = "a run's start is out of range".into();
        return Err(DbError::InvalidValue { path: path.to_path_buf(), what });
    }
    conn.execute(
        "INSERT INTO run (uid, strategy, seed, command, tool_version, environment, started)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT (uid) DO NOTHING",
        params![
            uid,
            info.strategy,
            info.seed.cast_signed(),
            info.command,
            info.tool_version,
            info.environment,
            started.cast_signed()
        ],
    )
    .at(path)?;
    let id = conn.query_row("SELECT id FROM run WHERE uid = ?1", [uid], |row| row.get(0)).at(path)?;
    Ok(RunId(id))
}

/// Stores a winner inside the caller's transaction.
pub(crate) fn put_best(
    conn: &Connection,
    path: &Path,
    best: &NewBest,
    replace: Replace,
    stored: u64,
) -> Result<BestOutcome, DbError> {
    let record = best.record;
    let numbers = [("default time", best.default_seconds), ("A/B ratio", best.ab_ratio)];
    if let Some((name, bad)) = numbers.into_iter().find(|(_, x)| !(x.is_finite() && *x > 0.0)) {
        let what = format!("a winner's {name} of {bad} is not a number above zero");
        return Err(DbError::InvalidValue { path: path.to_path_buf(), what });
    }
    if i64::try_from(stored).is_err() {
        let what = "a winner's time of storing is out of range".into();
        return Err(DbError::InvalidValue { path: path.to_path_buf(), what });
    }
    type Row = (i64, i64, u32, Option<f64>, Option<f64>);
    let row: Option<Row> = conn
        .query_row(
            "SELECT task, target, threads, seconds, verification FROM record WHERE id = ?1",
            [record.0],
            |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?)),
        )
        .optional()
        .at(path)?;
    let refuse =
        |what: &str| DbError::NotAWinner { path: path.to_path_buf(), record, what: what.to_string() };
    let (task, target, threads, seconds, verification) =
        row.ok_or_else(|| DbError::NoSuchRecord { path: path.to_path_buf(), record })?;
    let seconds = seconds.ok_or_else(|| refuse("its measurement failed"))?;
    if verification.is_none() {
        return Err(refuse("it was not compared with the reference"));
    }
    let current: Option<(i64, f64)> = conn
        .query_row(
            "SELECT b.record, r.seconds FROM best b JOIN record r ON r.id = b.record
             WHERE b.task = ?1 AND b.target = ?2 AND b.threads = ?3",
            params![task, target, threads],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .optional()
        .at(path)?;
    if let Some((id, fastest)) = current
        && replace == Replace::IfFaster
        && seconds >= fastest
    {
        return Ok(BestOutcome::Kept { current: RecordId(id) });
    }
    conn.execute(
        "INSERT OR REPLACE INTO best (task, target, threads, record, default_seconds, ab_ratio, stored)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        params![task, target, threads, record.0, best.default_seconds, best.ab_ratio, stored.cast_signed()],
    )
    .at(path)?;
    Ok(match current {
        None => BestOutcome::First,
        Some((id, _)) => BestOutcome::Replaced { previous: RecordId(id) },
    })
}

/// A name no other run has, on any machine.
fn new_uid(info: &RunInfo) -> String {
    let mut digest = Digest::new();
    digest.text(&info.strategy);
    digest.int(info.seed);
    digest.text(&info.command);
    digest.text(&info.environment);
    digest.int(u64::from(std::process::id()));
    digest.int(
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)),
    );
    // Two draws from the operating system's randomness, which the standard library seeds its hashers with.
    digest.int(RandomState::new().build_hasher().finish());
    digest.int(RandomState::new().build_hasher().finish());
    hex(&digest.finish())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Samples, TargetKey, TaskKey};

    #[test]
    fn what_a_run_says_of_its_environment_can_follow() {
        let mut db = Database::open_in_memory().unwrap();
        let run = db.begin_run(&RunInfo { environment: "threads: 2".into(), ..RunInfo::default() }).unwrap();
        db.set_environment(run, "threads: 2\npeak: 5").unwrap();
        assert_eq!(db.run(run).unwrap().info.environment, "threads: 2\npeak: 5");
        let other = db.set_environment(RunId(run.0 + 1), "").unwrap_err();
        assert!(matches!(other, DbError::NoSuchRun { .. }), "{other}");
    }

    #[test]
    fn a_full_disk_is_reported_and_the_batch_rolled_back() {
        let dir = tempfile::tempdir().unwrap();
        let mut db = Database::open(dir.path().join("a.db")).unwrap();
        let run = db.begin_run(&RunInfo::default()).unwrap();
        let (task, target) = (TaskKey::new("a", 1), TargetKey::new("t"));
        let record = |trace: String| {
            let samples = Samples { seconds: vec![1.0], ..Samples::default() };
            NewRecord::new(run, &task, &target, 1, trace, Ok(samples))
        };
        db.insert_batch(&[record("first".into())]).unwrap();
        let pages: i64 = db.conn.pragma_query_value(None, "page_count", |row| row.get(0)).unwrap();
        db.conn
            .pragma_update_and_check(None, "max_page_count", pages + 4, |row| row.get::<_, i64>(0))
            .unwrap();
        let error = db.insert_batch(&[record("second".into()), record("x".repeat(100_000))]).unwrap_err();
        assert!(matches!(error, DbError::DiskFull { .. }), "{error}");
        assert!(error.to_string().contains("free some space"), "{error}");
        assert_eq!(db.records(&task, &target, 1).unwrap().len(), 1);
        db.insert_batch(&[record("third".into())]).unwrap();
        db.check().unwrap();
    }
}
