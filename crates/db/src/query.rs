//! Looking records up: to resume, to learn from other tasks, to report.

use std::collections::BTreeMap;

use rusqlite::{OptionalExtension, params};

use crate::database::Database;
use crate::error::{At, DbError};
use crate::insert::{target_id, task_id};
use crate::record::{Best, Record, RecordId, Run, RunId, TargetKey, TaskKey};
use crate::rows::{self, Keys, SELECT_BEST, SELECT_RECORD, SELECT_RUN};

/// A task on a target with a number of threads, of which the database has records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskEntry {
    /// What was tuned.
    pub task: TaskKey,
    /// On which machine.
    pub target: TargetKey,
    /// With how many threads.
    pub threads: u32,
    /// How many records there are.
    pub records: u64,
}

/// What the database knows about one task on one target.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskStats {
    /// The task, its target and how many records there are.
    pub entry: TaskEntry,
    /// Causes of failure and how often each occurred, the most frequent first.
    pub failures: Vec<(String, u64)>,
    /// The time of the fastest good record, verified or not.
    pub fastest_seconds: Option<f64>,
    /// The stored winner.
    pub best: Option<Best>,
    /// Unix seconds of the first record.
    pub first: u64,
    /// Unix seconds of the last record.
    pub last: u64,
}

impl TaskStats {
    /// How many records are failures.
    pub fn failed(&self) -> u64 {
        self.failures.iter().map(|(_, count)| count).sum()
    }
}

/// What a run has measured on one target with one number of threads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunStats {
    /// The run.
    pub run: RunId,
    /// On which machine.
    pub target: TargetKey,
    /// With how many threads.
    pub threads: u32,
    /// How many records there are.
    pub records: u64,
    /// How many of them are failures.
    pub failed: u64,
    /// Of how many tasks.
    pub tasks: u64,
    /// Unix seconds of the first record.
    pub first: u64,
    /// Unix seconds of the last record.
    pub last: u64,
}

/// What the database holds in all.
#[derive(Debug, Clone, PartialEq)]
pub struct Stats {
    /// One entry for each task, target and number of threads.
    pub tasks: Vec<TaskStats>,
    /// How many runs there are.
    pub runs: u64,
    /// How many records there are.
    pub records: u64,
    /// The size of the database in bytes, without its log.
    pub bytes: u64,
}

/// The good records of other tasks, fetched as they are asked for. After an error it ends.
pub struct History<'d> {
    db: &'d Database,
    target: Option<i64>,
    threads: u32,
    except: Option<i64>,
    keys: Keys,
    last: i64,
    page: std::vec::IntoIter<Record>,
}

const PAGE: i64 = 256;

impl Iterator for History<'_> {
    type Item = Result<Record, DbError>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(record) = self.page.next() {
            return Some(Ok(record));
        }
        let target = self.target?;
        let (conn, keys) = (&self.db.conn, &mut self.keys);
        let fetched = rows::collect(
            conn,
            &self.db.path,
            &format!(
                "{SELECT_RECORD} WHERE r.target = ?1 AND r.threads = ?2 AND r.seconds IS NOT NULL AND r.id > ?3
                 AND r.task IS NOT ?4 ORDER BY r.id LIMIT ?5"
            ),
            params![target, self.threads, self.last, self.except, PAGE],
            |row| keys.record(conn, row),
        );
        match fetched {
            Ok(page) => {
                match page.last() {
                    Some(record) => self.last = record.id.0,
                    None => self.target = None,
                }
                self.page = page.into_iter();
                self.page.next().map(Ok)
            }
            Err(error) => {
                self.target = None;
                Some(Err(error))
            }
        }
    }
}

impl Database {
    /// All records of a task on a target, in the order they were stored: what a resumed run starts from.
    pub fn records(&self, task: &TaskKey, target: &TargetKey, threads: u32) -> Result<Vec<Record>, DbError> {
        let Some((task, target)) = self.key_ids(task, target)? else {
            return Ok(Vec::new());
        };
        let mut keys = Keys::new();
        rows::collect(
            &self.conn,
            &self.path,
            &format!("{SELECT_RECORD} WHERE r.task = ?1 AND r.target = ?2 AND r.threads = ?3 ORDER BY r.id"),
            params![task, target, threads],
            |row| keys.record(&self.conn, row),
        )
    }

    /// The stored winner of a task on a target.
    pub fn best(&self, task: &TaskKey, target: &TargetKey, threads: u32) -> Result<Option<Best>, DbError> {
        let Some((task, target)) = self.key_ids(task, target)? else {
            return Ok(None);
        };
        self.conn
            .prepare_cached(&format!("{SELECT_BEST} WHERE b.task = ?1 AND b.target = ?2 AND b.threads = ?3"))
            .and_then(|mut query| {
                query
                    .query_row(params![task, target, threads], |row| Keys::new().best(&self.conn, row))
                    .optional()
            })
            .at(&self.path)
    }

    /// The winners of all tasks on a target.
    pub fn bests(&self, target: &TargetKey) -> Result<Vec<Best>, DbError> {
        let Some(target) = target_id(&self.conn, &self.path, target)? else {
            return Ok(Vec::new());
        };
        let mut keys = Keys::new();
        let sql = format!("{SELECT_BEST} WHERE b.target = ?1 ORDER BY b.task, b.threads");
        rows::collect(&self.conn, &self.path, &sql, [target], |row| keys.best(&self.conn, row))
    }

    /// The fastest checked record of a task that a run had measured so many seconds after its start: what it had in hand then.
    pub fn fastest_until(
        &self,
        run: RunId,
        task: &TaskKey,
        target: &TargetKey,
        threads: u32,
        seconds: f64,
    ) -> Result<Option<Record>, DbError> {
        let Some((task, target)) = self.key_ids(task, target)? else { return Ok(None) };
        let sql = format!(
            "{SELECT_RECORD} WHERE r.task = ?1 AND r.target = ?2 AND r.threads = ?3 AND r.run = ?4
             AND r.seconds IS NOT NULL AND r.verification IS NOT NULL AND r.elapsed <= ?5
             ORDER BY r.seconds, r.id LIMIT 1"
        );
        self.conn
            .prepare_cached(&sql)
            .and_then(|mut query| {
                let values = params![task, target, threads, run.0, seconds];
                query.query_row(values, |row| Keys::new().record(&self.conn, row)).optional()
            })
            .at(&self.path)
    }

    /// The record with an id.
    pub fn record(&self, id: RecordId) -> Result<Record, DbError> {
        self.conn
            .prepare_cached(&format!("{SELECT_RECORD} WHERE r.id = ?1"))
            .and_then(|mut query| {
                query.query_row([id.0], |row| Keys::new().record(&self.conn, row)).optional()
            })
            .at(&self.path)?
            .ok_or_else(|| DbError::NoSuchRecord { path: self.path.clone(), record: id })
    }

    /// All good records on a target, except those of one task, in the order they were stored: what transfer learning
    /// starts from. Holds only a page of them in memory.
    pub fn history(
        &self,
        target: &TargetKey,
        threads: u32,
        except: Option<&TaskKey>,
    ) -> Result<History<'_>, DbError> {
        let target = target_id(&self.conn, &self.path, target)?;
        let except = match except {
            Some(task) => task_id(&self.conn, &self.path, task)?,
            None => None,
        };
        let page = Vec::new().into_iter();
        Ok(History { db: self, target, threads, except, keys: Keys::new(), last: 0, page })
    }

    /// Every task, target and number of threads of which there are records, in the order they first appeared.
    pub fn tasks(&self) -> Result<Vec<TaskEntry>, DbError> {
        let mut keys = Keys::new();
        rows::collect(
            &self.conn,
            &self.path,
            "SELECT task, target, threads, COUNT(*) FROM record GROUP BY task, target, threads
             ORDER BY task, target, threads",
            [],
            |row| {
                Ok(TaskEntry {
                    task: keys.task(&self.conn, row.get(0)?)?,
                    target: keys.target(&self.conn, row.get(1)?)?,
                    threads: row.get(2)?,
                    records: row.get::<_, i64>(3)?.cast_unsigned(),
                })
            },
        )
    }

    /// Every target of which there are records.
    pub fn targets(&self) -> Result<Vec<TargetKey>, DbError> {
        rows::collect(&self.conn, &self.path, "SELECT text FROM target ORDER BY id", [], |row| {
            Ok(TargetKey::new(row.get::<_, String>(0)?))
        })
    }

    /// Every run, in the order they were stored.
    pub fn runs(&self) -> Result<Vec<Run>, DbError> {
        rows::collect(&self.conn, &self.path, &format!("{SELECT_RUN} ORDER BY id"), [], rows::run)
    }

    /// The run with an id.
    pub fn run(&self, id: RunId) -> Result<Run, DbError> {
        self.conn
            .query_row(&format!("{SELECT_RUN} WHERE id = ?1"), [id.0], rows::run)
            .optional()
            .at(&self.path)?
            .ok_or_else(|| DbError::NoSuchRun { path: self.path.clone(), run: id })
    }

    /// All records of a run, on whatever target, in the order they were stored.
    pub fn run_records(&self, id: RunId) -> Result<Vec<Record>, DbError> {
        let mut keys = Keys::new();
        let sql = format!("{SELECT_RECORD} WHERE r.run = ?1 ORDER BY r.id");
        rows::collect(&self.conn, &self.path, &sql, [id.0], |row| keys.record(&self.conn, row))
    }

    /// What every run has measured, in the order in which the runs were stored; runs without records are left out.
    pub fn run_stats(&self) -> Result<Vec<RunStats>, DbError> {
        let mut keys = Keys::new();
        rows::collect(
            &self.conn,
            &self.path,
            "SELECT run, target, threads, COUNT(*), COUNT(cause), COUNT(DISTINCT task), MIN(recorded), MAX(recorded)
             FROM record GROUP BY run, target, threads ORDER BY run, target, threads",
            [],
            |row| {
                Ok(RunStats {
                    run: RunId(row.get(0)?),
                    target: keys.target(&self.conn, row.get(1)?)?,
                    threads: row.get(2)?,
                    records: row.get::<_, i64>(3)?.cast_unsigned(),
                    failed: row.get::<_, i64>(4)?.cast_unsigned(),
                    tasks: row.get::<_, i64>(5)?.cast_unsigned(),
                    first: row.get::<_, i64>(6)?.cast_unsigned(),
                    last: row.get::<_, i64>(7)?.cast_unsigned(),
                })
            },
        )
    }

    /// Counts, failures by cause, winners and times of every task, all of one moment.
    pub fn stats(&self) -> Result<Stats, DbError> {
        let snapshot = self.conn.unchecked_transaction().at(&self.path)?;
        let mut keys = Keys::new();
        type Id = (i64, i64, u32);
        let mut failures: BTreeMap<Id, Vec<(String, u64)>> = BTreeMap::new();
        let counted = rows::collect(
            &snapshot,
            &self.path,
            "SELECT task, target, threads, cause, COUNT(*) FROM record WHERE cause IS NOT NULL
             GROUP BY task, target, threads, cause ORDER BY COUNT(*) DESC, cause",
            [],
            |row| {
                let id: Id = (row.get(0)?, row.get(1)?, row.get(2)?);
                Ok((id, (row.get::<_, String>(3)?, row.get::<_, i64>(4)?.cast_unsigned())))
            },
        )?;
        for (id, count) in counted {
            failures.entry(id).or_default().push(count);
        }
        let winners = rows::collect(
            &snapshot,
            &self.path,
            &format!("{SELECT_BEST} ORDER BY b.task, b.target, b.threads"),
            [],
            |row| Ok(((row.get(1)?, row.get(2)?, row.get(3)?), keys.best(&snapshot, row)?)),
        )?;
        let mut winners: BTreeMap<Id, Best> = winners.into_iter().collect();
        let tasks = rows::collect(
            &snapshot,
            &self.path,
            "SELECT task, target, threads, COUNT(*), MIN(seconds), MIN(recorded), MAX(recorded) FROM record
             GROUP BY task, target, threads ORDER BY task, target, threads",
            [],
            |row| {
                let id: Id = (row.get(0)?, row.get(1)?, row.get(2)?);
                Ok(TaskStats {
                    entry: TaskEntry {
                        task: keys.task(&snapshot, id.0)?,
                        target: keys.target(&snapshot, id.1)?,
                        threads: id.2,
                        records: row.get::<_, i64>(3)?.cast_unsigned(),
                    },
                    failures: failures.remove(&id).unwrap_or_default(),
                    fastest_seconds: row.get(4)?,
                    best: winners.remove(&id),
                    first: row.get::<_, i64>(5)?.cast_unsigned(),
                    last: row.get::<_, i64>(6)?.cast_unsigned(),
                })
            },
        )?;
        let one = |sql: &str| {
            snapshot.query_row(sql, [], |row| row.get::<_, i64>(0)).map(i64::cast_unsigned).at(&self.path)
        };
        Ok(Stats {
            records: tasks.iter().map(|task| task.entry.records).sum(),
            tasks,
            runs: one("SELECT COUNT(*) FROM run")?,
            bytes: one("PRAGMA page_count")? * one("PRAGMA page_size")?,
        })
    }

    fn key_ids(&self, task: &TaskKey, target: &TargetKey) -> Result<Option<(i64, i64)>, DbError> {
        let task = task_id(&self.conn, &self.path, task)?;
        let target = target_id(&self.conn, &self.path, target)?;
        Ok(task.zip(target))
    }
}
