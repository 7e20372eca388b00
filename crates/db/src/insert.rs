//! Storing one record inside a transaction that the caller owns.

use std::collections::HashMap;
use std::path::Path;

use rusqlite::{Connection, OptionalExtension, params};

use crate::digest::{Digest, text_hash};
use crate::error::{At, DbError};
use crate::record::{NewRecord, RecordId, RunId, Samples, TargetKey, TaskKey};

/// Where a record ended up.
pub(crate) struct Placed {
    pub(crate) id: RecordId,
    /// Whether it was not there before.
    pub(crate) new: bool,
    /// Whether a record that was there before received the verification it lacked.
    pub(crate) verified: bool,
}

/// Stores records and remembers the ids of what they refer to, for as long as one transaction lasts.
pub(crate) struct Inserter<'c> {
    conn: &'c Connection,
    path: &'c Path,
    now: u64,
    runs: HashMap<RunId, String>,
    tasks: HashMap<TaskKey, i64>,
    targets: HashMap<TargetKey, i64>,
}

impl<'c> Inserter<'c> {
    pub(crate) fn new(conn: &'c Connection, path: &'c Path, now: u64) -> Inserter<'c> {
        Inserter { conn, path, now, runs: HashMap::new(), tasks: HashMap::new(), targets: HashMap::new() }
    }

    /// Stores a record unless the same one is there already.
    pub(crate) fn insert(&mut self, record: &NewRecord) -> Result<Placed, DbError> {
        let typical = self.check(record)?;
        let when = record.when.unwrap_or(self.now);
        let digest = self.digest(record, when)?;
        let task = self.task(&record.task)?;
        let target = self.target(&record.target)?;
        let found: Option<(i64, Option<f64>)> = self
            .conn
            .prepare_cached("SELECT id, verification FROM record WHERE digest = ?1")
            .and_then(|mut query| {
                query.query_row([&digest[..]], |row| Ok((row.get(0)?, row.get(1)?))).optional()
            })
            .at(self.path)?;
        if let Some((id, known)) = found {
            let verified = known.is_none() && record.verification.is_some();
            if verified {
                self.conn
                    .execute(
                        "UPDATE record SET verification = ?1 WHERE id = ?2",
                        params![record.verification, id],
                    )
                    .at(self.path)?;
            }
            return Ok(Placed { id: RecordId(id), new: false, verified });
        }
        let trace = self.body(&record.trace)?;
        let samples = record.outcome.as_ref().ok();
        let failure = record.outcome.as_ref().err();
        let failure_text = failure.map(|failure| self.body(&failure.text)).transpose()?;
        self.conn
            .prepare_cached(
                "INSERT INTO record (digest, task, target, threads, trace, run, strategy, seed, recorded,
                     compile_seconds, probe, predicted, verification, seconds, samples, inner, rejected, disturbed,
                     stop, cause, failure, elapsed)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20,
                     ?21, ?22)",
            )
            .and_then(|mut insert| {
                insert.execute(params![
                    &digest[..],
                    task,
                    target,
                    record.threads,
                    trace,
                    record.run.0,
                    record.strategy,
                    record.seed.cast_signed(),
                    when.cast_signed(),
                    record.compile_seconds,
                    record.probe,
                    record.predicted,
                    record.verification,
                    typical,
                    samples.map(encode_seconds),
                    samples.map(|samples| samples.inner),
                    samples.map(|samples| samples.rejected),
                    samples.map(|samples| samples.disturbed),
                    samples.map(|samples| &samples.stop),
                    failure.map(|failure| &failure.cause),
                    failure_text,
                    record.elapsed,
                ])
            })
            .at(self.path)?;
        Ok(Placed { id: RecordId(self.conn.last_insert_rowid()), new: true, verified: false })
    }

    /// Refuses numbers that no measurement can give; hands back the time the record is ranked by.
    fn check(&self, record: &NewRecord) -> Result<Option<f64>, DbError> {
        let refuse = |what: String| {
            Err(DbError::InvalidValue { path: self.path.to_path_buf(), what: format!("a record's {what}") })
        };
        let typical = match &record.outcome {
            Ok(samples) => {
                if let Some(bad) = samples.seconds.iter().find(|x| !(x.is_finite() && **x > 0.0)) {
                    return refuse(format!("sample of {bad} seconds is not a time"));
                }
                if samples.seconds.is_empty() {
                    return refuse("list of samples is empty".into());
                }
                samples.typical()
            }
            Err(failure) if failure.cause.is_empty() => return refuse("failure has no cause".into()),
            Err(_) => None,
        };
        if record.threads == 0 {
            return refuse("number of threads is zero".into());
        }
        if record.when.is_some_and(|when| i64::try_from(when).is_err()) {
            return refuse("time of measurement is out of range".into());
        }
        let at_least_zero = [
            ("verification error", record.verification),
            ("compile time", Some(record.compile_seconds)),
            ("time since the start of its run", record.elapsed),
        ];
        if let Some((name, Some(bad))) =
            at_least_zero.into_iter().find(|(_, x)| x.is_some_and(|x| !(x.is_finite() && x >= 0.0)))
        {
            return refuse(format!("{name} of {bad} is not a number from zero up"));
        }
        let finite = [("probe", record.probe), ("prediction", record.predicted)];
        if let Some((name, Some(bad))) = finite.into_iter().find(|(_, x)| x.is_some_and(|x| !x.is_finite())) {
            return refuse(format!("{name} of {bad} is not a finite number"));
        }
        Ok(typical)
    }

    /// The content hash: everything but local ids, the verification, which may come later, and the time since the start
    /// of the run, which databases of the first version do not have.
    fn digest(&mut self, record: &NewRecord, when: u64) -> Result<[u8; 16], DbError> {
        let run = self.run_uid(record.run)?;
        let mut digest = Digest::new();
        digest.text(run);
        digest.text(&record.task.text);
        digest.int(u64::from(record.task.version));
        digest.text(&record.target.text);
        digest.int(u64::from(record.threads));
        digest.text(&record.trace);
        match &record.outcome {
            Ok(samples) => {
                digest.int(samples.seconds.len() as u64);
                samples.seconds.iter().for_each(|x| digest.float(*x));
                digest.int(u64::from(samples.inner));
                digest.int(u64::from(samples.rejected));
                digest.int(u64::from(samples.disturbed));
                digest.text(&samples.stop);
            }
            Err(failure) => {
                digest.int(0);
                digest.text(&failure.cause);
                digest.text(&failure.text);
            }
        }
        digest.text(&record.strategy);
        digest.int(record.seed);
        digest.int(when);
        digest.float(record.compile_seconds);
        digest.maybe(record.probe);
        digest.maybe(record.predicted);
        Ok(digest.finish())
    }

    fn run_uid(&mut self, run: RunId) -> Result<&str, DbError> {
        if !self.runs.contains_key(&run) {
            let uid: Option<String> = self
                .conn
                .query_row("SELECT uid FROM run WHERE id = ?1", [run.0], |row| row.get(0))
                .optional()
                .at(self.path)?;
            let uid = uid.ok_or_else(|| DbError::NoSuchRun { path: self.path.to_path_buf(), run })?;
            self.runs.insert(run, uid);
        }
        Ok(&self.runs[&run])
    }

    pub(crate) fn task(&mut self, key: &TaskKey) -> Result<i64, DbError> {
        if let Some(id) = self.tasks.get(key) {
            return Ok(*id);
        }
        let id = match task_id(self.conn, self.path, key)? {
            Some(id) => id,
            None => {
                self.conn
                    .execute(
                        "INSERT INTO task (text, version) VALUES (?1, ?2)",
                        params![&*key.text, key.version],
                    )
                    .at(self.path)?;
                self.conn.last_insert_rowid()
            }
        };
        self.tasks.insert(key.clone(), id);
        Ok(id)
    }

    fn target(&mut self, key: &TargetKey) -> Result<i64, DbError> {
        if let Some(id) = self.targets.get(key) {
            return Ok(*id);
        }
        let id = match target_id(self.conn, self.path, key)? {
            Some(id) => id,
            None => {
                self.conn.execute("INSERT INTO target (text) VALUES (?1)", [&*key.text]).at(self.path)?;
                self.conn.last_insert_rowid()
            }
        };
        self.targets.insert(key.clone(), id);
        Ok(id)
    }

    fn body(&self, text: &str) -> Result<i64, DbError> {
        let hash = text_hash(text);
        let found: Option<i64> = self
            .conn
            .prepare_cached("SELECT id FROM body WHERE hash = ?1 AND text = ?2")
            .and_then(|mut query| query.query_row(params![hash, text], |row| row.get(0)).optional())
            .at(self.path)?;
        if let Some(id) = found {
            return Ok(id);
        }
        self.conn
            .prepare_cached("INSERT INTO body (hash, text) VALUES (?1, ?2)")
            .and_then(|mut insert| insert.insert(params![hash, text]))
            .at(self.path)
    }
}

/// The id of a task, if any record has it.
pub(crate) fn task_id(conn: &Connection, path: &Path, key: &TaskKey) -> Result<Option<i64>, DbError> {
    conn.prepare_cached("SELECT id FROM task WHERE text = ?1 AND version = ?2")
        .and_then(|mut query| query.query_row(params![&*key.text, key.version], |row| row.get(0)).optional())
        .at(path)
}

/// The id of a target, if any record has it.
pub(crate) fn target_id(conn: &Connection, path: &Path, key: &TargetKey) -> Result<Option<i64>, DbError> {
    conn.prepare_cached("SELECT id FROM target WHERE text = ?1")
        .and_then(|mut query| query.query_row([&*key.text], |row| row.get(0)).optional())
        .at(path)
}

fn encode_seconds(samples: &Samples) -> Vec<u8> {
    samples.seconds.iter().flat_map(|x| x.to_le_bytes()).collect()
}
