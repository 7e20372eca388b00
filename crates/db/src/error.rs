//! Every way the database can refuse, with what happened, where, and what to do.

use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;

use crate::record::{RecordId, RunId};

/// Why a database operation did nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DbError {
    /// Another process held the write lock for longer than the busy timeout.
    #[error("{}: locked by another process for too long; {}", path.display(), self.remedy())]
    Locked {
        /// The database file.
        path: PathBuf,
    },
    /// The file is a talweg database, but damaged.
    #[error("{}: the database is damaged ({what}); {}", path.display(), self.remedy())]
    Corrupt {
        /// The database file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// The file is something else; it was not changed.
    #[error("{}: not a talweg database: {what}; {}", path.display(), self.remedy())]
    NotADatabase {
        /// The file.
        path: PathBuf,
        /// What it is instead.
        what: String,
    },
    /// A newer talweg wrote the file; it was not changed.
    #[error(
        "{}: written by a newer talweg (schema {found}, this one knows up to {known}); {}",
        path.display(),
        self.remedy()
    )]
    Newer {
        /// The database file.
        path: PathBuf,
        /// The schema version of the file.
        found: i64,
        /// The newest schema version this build knows.
        known: i64,
    },
    /// No space left for the write; the transaction was rolled back.
    #[error("{}: the disk is full, nothing of the last write was kept; {}", path.display(), self.remedy())]
    DiskFull {
        /// The database file.
        path: PathBuf,
    },
    /// The file or its directory cannot be written.
    #[error("{}: the database cannot be written; {}", path.display(), self.remedy())]
    ReadOnly {
        /// The database file.
        path: PathBuf,
    },
    /// The file cannot be opened or created.
    #[error("{}: cannot open the database: {what}; {}", path.display(), self.remedy())]
    CannotOpen {
        /// The file.
        path: PathBuf,
        /// What stands in the way.
        what: String,
    },
    /// A line of an import is wrong; nothing was imported.
    #[error("line {line} of the import: {what}; {}", self.remedy())]
    BadLine {
        /// The line, counted from one.
        line: u64,
        /// What is wrong with it.
        what: String,
    },
    /// The disk, the reader of an import or the writer of an export failed.
    #[error("{}: {what}; {}", path.display(), self.remedy())]
    Io {
        /// The database file.
        path: PathBuf,
        /// What was done and how it failed.
        what: String,
    },
    /// A value that no measurement can give; nothing of its batch was stored.
    #[error("{}: {what}; {}", path.display(), self.remedy())]
    InvalidValue {
        /// The database file.
        path: PathBuf,
        /// Which value is wrong and how.
        what: String,
    },
    /// There is no such record, or it was pruned.
    #[error("{}: there is no record {record}; {}", path.display(), self.remedy())]
    NoSuchRecord {
        /// The database file.
        path: PathBuf,
        /// The id that was asked for.
        record: RecordId,
    },
    /// There is no such run.
    #[error("{}: there is no run {run}; {}", path.display(), self.remedy())]
    NoSuchRun {
        /// The database file.
        path: PathBuf,
        /// The id that was asked for.
        run: RunId,
    },
    /// A record that cannot be a winner.
    #[error("{}: record {record} cannot be stored as best: {what}; {}", path.display(), self.remedy())]
    NotAWinner {
        /// The database file.
        path: PathBuf,
        /// The record.
        record: RecordId,
        /// Why not.
        what: String,
    },
    /// Anything else SQLite reports.
    #[error("{}: {source}; {}", path.display(), self.remedy())]
    Sqlite {
        /// The database file.
        path: PathBuf,
        /// SQLite's own error.
        source: rusqlite::Error,
    },
}

impl DbError {
    /// What the user can do about it.
    pub fn remedy(&self) -> &'static str {
        match self {
            DbError::Locked { .. } => {
                "wait for the other process, stop it, or tune into a file of your own and merge it later"
            }
            DbError::Corrupt { .. } => {
                "restore a copy, or export what is readable into a new database; keep the file and its -wal together"
            }
            DbError::NotADatabase { .. } => "give another path; the file was left as it is",
            DbError::Newer { .. } => "update talweg, or give another path; the file was left as it is",
            DbError::DiskFull { .. } => "free some space (`talweg db prune` helps) and run again",
            DbError::ReadOnly { .. } => {
                "make the file and its directory writable, or copy the file elsewhere"
            }
            DbError::CannotOpen { .. } => "check the path and its permissions",
            DbError::BadLine { .. } => "correct or remove the line; nothing was imported",
            DbError::Io { .. } => "check the disk and the other end, then run again",
            DbError::InvalidValue { .. } => "store a measurement that gives no usable number as a failure",
            DbError::NoSuchRecord { .. } => "look the record up again, it may have been pruned",
            DbError::NoSuchRun { .. } => "`talweg db runs` lists the runs of a database",
            DbError::NotAWinner { .. } => "only a good record compared with the reference can be a winner",
            DbError::Sqlite { .. } => "this is unexpected: please report it",
        }
    }
}

/// Attaches the file to SQLite's errors and gives them their meaning.
pub(crate) trait At<T> {
    fn at(self, path: &Path) -> Result<T, DbError>;
}

impl<T> At<T> for rusqlite::Result<T> {
    fn at(self, path: &Path) -> Result<T, DbError> {
        self.map_err(|error| classify(error, path))
    }
}

fn classify(error: rusqlite::Error, path: &Path) -> DbError {
    let path = path.to_path_buf();
    match &error {
        rusqlite::Error::SqliteFailure(failure, _) => match failure.code {
            ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::FileLockingProtocolFailed => {
                DbError::Locked { path }
            }
            ErrorCode::DatabaseCorrupt => DbError::Corrupt { path, what: error.to_string() },
            ErrorCode::NotADatabase => DbError::NotADatabase { path, what: error.to_string() },
            ErrorCode::DiskFull => DbError::DiskFull { path },
            ErrorCode::ReadOnly | ErrorCode::PermissionDenied => DbError::ReadOnly { path },
            ErrorCode::SystemIoFailure => DbError::Io { path, what: error.to_string() },
            ErrorCode::CannotOpen => DbError::CannotOpen { path, what: error.to_string() },
            _ => DbError::Sqlite { path, source: error },
        },
        rusqlite::Error::FromSqlConversionFailure(..)
        | rusqlite::Error::IntegralValueOutOfRange(..)
        | rusqlite::Error::InvalidColumnType(..)
        | rusqlite::Error::Utf8Error(..) => DbError::Corrupt { path, what: error.to_string() },
        _ => DbError::Sqlite { path, source: error },
    }
}
