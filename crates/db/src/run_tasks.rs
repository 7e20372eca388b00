//! What the tasks of a run are called and how much they count: for reports, which records alone could not write.

use std::path::Path;

use rusqlite::{Connection, params};

use crate::database::{Database, now, write};
use crate::error::{At, DbError};
use crate::insert::Inserter;
use crate::record::{RunId, RunTask};
use crate::rows::{self, Keys};

impl Database {
    /// Adds tasks to a run, in their order.
    pub fn add_run_tasks(&mut self, run: RunId, tasks: &[RunTask]) -> Result<(), DbError> {
        self.run(run)?;
        let tx = write(&mut self.conn, &self.path)?;
        let mut inserter = Inserter::new(&tx, &self.path, now());
        for task in tasks {
            put_task(&mut inserter, &tx, &self.path, run, task)?;
        }
        tx.commit().at(&self.path)
    }

    /// The tasks of a run, in their order; none for runs of older versions and where all of a task's records were
    /// pruned.
    pub fn run_tasks(&self, run: RunId) -> Result<Vec<RunTask>, DbError> {
        tasks_of(&self.conn, &self.path, run)
    }
}

/// Adds a task to a run inside the caller's transaction.
pub(crate) fn put_task(
    inserter: &mut Inserter<'_>,
    conn: &Connection,
    path: &Path,
    run: RunId,
    task: &RunTask,
) -> Result<(), DbError> {
    let bad = [("weight", task.weight), ("arithmetic", task.flops)]
        .into_iter()
        .find(|(_, x)| !(x.is_finite() && *x >= 0.0));
    if let Some((name, value)) = bad {
        let what = format!("a task's {name} of {value} is not a number from zero up");
        return Err(DbError::InvalidValue { path: path.to_path_buf(), what });
    }
    let id = inserter.task(&task.task)?;
    conn.execute(
        "INSERT INTO run_task (run, position, task, name, weight, flops)
         SELECT ?1, COALESCE(MAX(position) + 1, 0), ?2, ?3, ?4, ?5 FROM run_task WHERE run = ?1",
        params![run.0, id, task.name, task.weight, task.flops],
    )
    .at(path)?;
    Ok(())
}

/// The tasks of a run, in their order.
pub(crate) fn tasks_of(conn: &Connection, path: &Path, run: RunId) -> Result<Vec<RunTask>, DbError> {
    let mut keys = Keys::new();
    let sql = "SELECT task, name, weight, flops FROM run_task WHERE run = ?1 ORDER BY position";
    rows::collect(conn, path, sql, [run.0], |row| {
        Ok(RunTask {
            task: keys.task(conn, row.get(0)?)?,
            name: row.get(1)?,
            weight: row.get(2)?,
            flops: row.get(3)?,
        })
    })
}
