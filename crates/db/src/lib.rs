//! The tuning database: samples with their full context in SQLite.
//!
//! Every measured candidate becomes a [`Record`]: its task and target as canonical text, the trace, the samples or the
//! failure, and who measured it when. There are no sentinel times. Winners are kept apart as [`Best`], and only a
//! verified record can become one. Several processes may use one file; a killed process loses at most the batch it
//! had not committed.
//!
//! | module | holds |
//! |---|---|
//! | [`record`] | the plain data that crosses the boundary |
//! | [`database`] | opening, runs, inserting batches, winners |
//! | [`query`] | looking records up: resume, history, statistics |
//! | [`exchange`] | export, import and merge |
//! | [`run_tasks`] | what the tasks of a run are called and how much they count |
//! | [`prune`](mod@prune) | deleting what is no longer needed |
//! | [`error`] | every way the database can refuse |
//! | `schema` | tables, versions, migrations |
//! | `insert` | storing one record inside a transaction |
//! | `rows` | turning table rows back into records |
//! | `wire` | the lines of an export |
//! | `digest` | content hashes |
//!
//! ```
//! use talweg_db::{Database, NewRecord, RunInfo, Samples, TargetKey, TaskKey};
//!
//! # fn main() -> Result<(), talweg_db::DbError> {
//! let mut db = Database::open_in_memory()?;
//! let run = db.begin_run(&RunInfo { strategy: "random".into(), seed: 1, ..RunInfo::default() })?;
//! let (task, target) = (TaskKey::new("matmul 8 8 8", 1), TargetKey::new("x86-64 avx2"));
//! let outcome = Ok(Samples { seconds: vec![1e-6, 1.1e-6], ..Samples::default() });
//! db.insert_batch(&[NewRecord::new(run, &task, &target, 1, "split i 4", outcome)])?;
//! assert_eq!(db.records(&task, &target, 1)?.len(), 1);
//! # Ok(())
//! # }
//! ```
//!
//! A lookup that forgets the target does not type-check:
//!
//! ```compile_fail
//! # use talweg_db::{Database, TaskKey};
//! # fn lookup(db: &Database, task: &TaskKey) {
//! let records = db.records(task, 1);
//! # }
//! ```

pub mod database;
mod digest;
pub mod error;
pub mod exchange;
mod insert;
pub mod prune;
pub mod query;
pub mod record;
mod rows;
pub mod run_tasks;
mod schema;
mod wire;

pub use database::{BestOutcome, Database, Inserted, OpenOptions, Replace};
pub use error::DbError;
pub use exchange::{Exported, Imported};
pub use prune::{PruneOptions, Pruned};
pub use query::{History, RunStats, Stats, TaskEntry, TaskStats};
pub use record::{
    Best, Failure, NewBest, NewRecord, Record, RecordId, Run, RunId, RunInfo, RunTask, Samples, TargetKey,
    TaskKey,
};
