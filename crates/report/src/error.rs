//! Why there is no report.

use std::path::PathBuf;

use talweg_db::DbError;

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReportError {
    /// The database cannot be read, or has no such run.
    #[error(transparent)]
    Db(#[from] DbError),
    /// No run has records.
    #[error("{}: no run has measured anything yet; tune something first, for example `talweg tune matmul:m=512,n=512,k=512`", path.display())]
    NoRecords {
        /// The database.
        path: PathBuf,
    },
    /// A run that was asked for has no records.
    #[error("{}: run {run} has no records; `talweg db runs` lists the runs that have", path.display())]
    EmptyRun {
        /// The database.
        path: PathBuf,
        /// The run.
        run: i64,
    },
    /// Runs that were asked for cannot be compared.
    #[error(
        "run {run} was measured on another machine or with another number of threads ({found}) than run {first} ({wanted}); make one report for each"
    )]
    Mixed {
        /// The first run.
        first: i64,
        /// Its target and threads.
        wanted: String,
        /// The run that differs.
        run: i64,
        /// Its target and threads.
        found: String,
    },
    /// The file with the times of peers is not one.
    #[error(
        "{what}; give what `talweg bench MODEL --against ... --json` prints, or a list such as [{{\"name\": \"onnxruntime\", \"us\": 830.5}}]"
    )]
    Peers {
        /// What is wrong.
        what: String,
    },
}
