//! Turning table rows back into records.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row};

use crate::error::{At, DbError};
use crate::record::{Best, Failure, Record, RecordId, Run, RunId, RunInfo, Samples, TargetKey, TaskKey};

/// The start of every query for whole records; [`Keys::record`] reads its columns.
pub(crate) const SELECT_RECORD: &str = "
    SELECT r.id, r.task, r.target, r.threads, trace.text, r.run, r.strategy, r.seed, r.recorded, r.compile_seconds,
        r.probe, r.predicted, r.verification, r.samples, r.inner, r.rejected, r.disturbed, r.stop, r.cause,
        failure.text, r.elapsed
    FROM record r LEFT JOIN body trace ON trace.id = r.trace LEFT JOIN body failure ON failure.id = r.failure ";

/// The start of every query for whole winners; [`Keys::best`] reads its columns.
pub(crate) const SELECT_BEST: &str = "
    SELECT r.id, r.task, r.target, r.threads, trace.text, r.run, r.strategy, r.seed, r.recorded, r.compile_seconds,
        r.probe, r.predicted, r.verification, r.samples, r.inner, r.rejected, r.disturbed, r.stop, r.cause,
        NULL, r.elapsed, b.default_seconds, b.ab_ratio, b.stored
    FROM best b JOIN record r ON r.id = b.record LEFT JOIN body trace ON trace.id = r.trace ";

/// The columns of a run; [`run`] reads them.
pub(crate) const SELECT_RUN: &str =
    "SELECT id, uid, strategy, seed, command, tool_version, environment, started FROM run ";

/// The tasks and targets by id, so that records share their texts.
pub(crate) struct Keys {
    tasks: HashMap<i64, TaskKey>,
    targets: HashMap<i64, TargetKey>,
}

impl Keys {
    pub(crate) fn new() -> Keys {
        Keys { tasks: HashMap::new(), targets: HashMap::new() }
    }

    /// The task with an id.
    pub(crate) fn task(&mut self, conn: &Connection, id: i64) -> rusqlite::Result<TaskKey> {
        if let Some(key) = self.tasks.get(&id) {
            return Ok(key.clone());
        }
        let key =
            conn.prepare_cached("SELECT text, version FROM task WHERE id = ?1")?.query_row([id], |row| {
                Ok(TaskKey { text: Arc::from(row.get_ref(0)?.as_str()?), version: row.get(1)? })
            })?;
        self.tasks.insert(id, key.clone());
        Ok(key)
    }

    /// The target with an id.
    pub(crate) fn target(&mut self, conn: &Connection, id: i64) -> rusqlite::Result<TargetKey> {
        if let Some(key) = self.targets.get(&id) {
            return Ok(key.clone());
        }
        let key = conn
            .prepare_cached("SELECT text FROM target WHERE id = ?1")?
            .query_row([id], |row| Ok(TargetKey { text: Arc::from(row.get_ref(0)?.as_str()?) }))
            .optional()?
            .ok_or_else(|| damage(2, Type::Integer, format!("there is no target {id}")))?;
        self.targets.insert(id, key.clone());
        Ok(key)
    }

    /// Reads a row of [`SELECT_RECORD`].
    pub(crate) fn record(&mut self, conn: &Connection, row: &Row<'_>) -> rusqlite::Result<Record> {
        let outcome = match row.get::<_, Option<String>>(18)? {
            Some(cause) => Err(Failure { cause, text: row.get(19)? }),
            None => Ok(Samples {
                seconds: decode_seconds(row)?,
                inner: row.get(14)?,
                rejected: row.get(15)?,
                disturbed: row.get(16)?,
                stop: row.get(17)?,
            }),
        };
        Ok(Record {
            id: RecordId(row.get(0)?),
            task: self.task(conn, row.get(1)?)?,
            target: self.target(conn, row.get(2)?)?,
            threads: row.get(3)?,
            trace: row.get(4)?,
            outcome,
            verification: row.get(12)?,
            strategy: row.get(6)?,
            seed: row.get::<_, i64>(7)?.cast_unsigned(),
            run: RunId(row.get(5)?),
            when: row.get::<_, i64>(8)?.cast_unsigned(),
            compile_seconds: row.get(9)?,
            probe: row.get(10)?,
            predicted: row.get(11)?,
            elapsed: row.get(20)?,
        })
    }

    /// Reads a row of [`SELECT_BEST`].
    pub(crate) fn best(&mut self, conn: &Connection, row: &Row<'_>) -> rusqlite::Result<Best> {
        Ok(Best {
            record: self.record(conn, row)?,
            default_seconds: row.get(21)?,
            error: row.get(12)?,
            ab_ratio: row.get(22)?,
            stored: row.get::<_, i64>(23)?.cast_unsigned(),
        })
    }
}

/// Reads a row of [`SELECT_RUN`].
pub(crate) fn run(row: &Row<'_>) -> rusqlite::Result<Run> {
    Ok(Run {
        id: RunId(row.get(0)?),
        uid: row.get(1)?,
        info: RunInfo {
            strategy: row.get(2)?,
            seed: row.get::<_, i64>(3)?.cast_unsigned(),
            command: row.get(4)?,
            tool_version: row.get(5)?,
            environment: row.get(6)?,
        },
        started: row.get::<_, i64>(7)?.cast_unsigned(),
    })
}

/// All rows of a query as values.
pub(crate) fn collect<T>(
    conn: &Connection,
    path: &Path,
    sql: &str,
    params: impl rusqlite::Params,
    mut read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> Result<Vec<T>, DbError> {
    conn.prepare_cached(sql)
        .and_then(|mut query| query.query_map(params, |row| read(row))?.collect::<rusqlite::Result<Vec<T>>>())
        .at(path)
}

fn decode_seconds(row: &Row<'_>) -> rusqlite::Result<Vec<f64>> {
    let bytes = row.get_ref(13)?.as_blob()?;
    let (chunks, rest) = bytes.as_chunks::<8>();
    if !rest.is_empty() || chunks.is_empty() {
        return Err(damage(13, Type::Blob, format!("a list of samples has {} bytes", bytes.len())));
    }
    Ok(chunks.iter().map(|chunk| f64::from_le_bytes(*chunk)).collect())
}

/// An error that callers will see as [`DbError::Corrupt`].
fn damage(column: usize, kind: Type, what: String) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, kind, what.into())
}
