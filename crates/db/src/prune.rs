//! Deleting what is no longer needed.

use rusqlite::{Connection, params};

use crate::database::{Database, write};
use crate::error::{At, DbError};

/// What to delete. The default deletes nothing. Winners, and the fastest record of each task, target and number of
/// threads, always stay.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PruneOptions {
    /// Delete good records beyond the fastest `n` of each task, target and number of threads. Without it and with
    /// `older_than`, only the fastest one stays.
    pub keep_best_n: Option<u32>,
    /// Delete only records measured before this time (Unix seconds).
    pub older_than: Option<u64>,
    /// Delete failures too.
    pub failures: bool,
    /// Only count what would be deleted.
    pub dry_run: bool,
}

/// What pruning deleted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Good records.
    pub good: u64,
    /// Failures.
    pub failures: u64,
    /// Traces and failure texts that nothing refers to any more.
    pub texts: u64,
}

impl Database {
    /// Deletes records, the texts only they used, and gives the space back.
    pub fn prune(&mut self, options: &PruneOptions) -> Result<Pruned, DbError> {
        let mut pruned = Pruned::default();
        let before = options.older_than.map_or(i64::MAX, |when| i64::try_from(when).unwrap_or(i64::MAX));
        let path = &self.path;
        let tx = write(&mut self.conn, path)?;
        if options.keep_best_n.is_some() || options.older_than.is_some() {
            let keep = options.keep_best_n.unwrap_or(1).max(1);
            let deleted = tx
                .execute(
                    "DELETE FROM record WHERE id NOT IN (SELECT record FROM best) AND id IN (
                         SELECT id FROM (
                             SELECT id, recorded, ROW_NUMBER() OVER (
                                 PARTITION BY task, target, threads ORDER BY seconds, id) AS place
                             FROM record WHERE seconds IS NOT NULL)
                         WHERE place > ?1 AND recorded < ?2)",
                    params![keep, before],
                )
                .at(path)?;
            pruned.good = deleted as u64;
        }
        if options.failures {
            let deleted = tx
                .execute("DELETE FROM record WHERE seconds IS NULL AND recorded < ?1", params![before])
                .at(path)?;
            pruned.failures = deleted as u64;
        }
        if pruned.good + pruned.failures > 0 {
            let deleted = tx
                .execute(
                    "DELETE FROM body WHERE id NOT IN (
                         SELECT trace FROM record UNION SELECT failure FROM record WHERE failure IS NOT NULL)",
                    [],
                )
                .at(path)?;
            pruned.texts = deleted as u64;
            tx.execute_batch(
                "DELETE FROM run_task WHERE task NOT IN (SELECT task FROM record);
                 DELETE FROM task WHERE id NOT IN (SELECT task FROM record);
                 DELETE FROM target WHERE id NOT IN (SELECT target FROM record);",
            )
            .at(path)?;
        }
        if options.dry_run {
            tx.rollback().at(path)?;
            return Ok(pruned);
        }
        tx.commit().at(path)?;
        give_space_back(&self.conn).at(path)?;
        Ok(pruned)
    }
}

/// Shrinks the file by its free pages; SQLite frees one with each row that is asked for.
fn give_space_back(conn: &Connection) -> rusqlite::Result<()> {
    let mut vacuum = conn.prepare("PRAGMA incremental_vacuum")?;
    let mut rows = vacuum.query([])?;
    while rows.next()?.is_some() {}
    Ok(())
}
