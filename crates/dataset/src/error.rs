//! Why a dataset cannot be collected, read or learnt from.

use talweg_cost::CostError;
use talweg_db::DbError;

/// A failure of the work on a dataset, as opposed to one of a program in it.
#[derive(Debug, thiserror::Error)]
pub enum DatasetError {
    /// The database refuses.
    #[error("{0}")]
    Db(#[from] DbError),
    /// The model refuses.
    #[error("{0}")]
    Cost(#[from] CostError),
    /// There is nothing to learn from.
    #[error(
        "{path}: no measured programs that this version of talweg can describe ({skipped} records skipped); run `talweg dataset collect` first"
    )]
    Empty {
        /// The database.
        path: String,
        /// Records that are of no use.
        skipped: usize,
    },
    /// The checkpoint was trained on other features.
    #[error(
        "the checkpoint reads {found} columns and the features of this version have {expected}; train it again with `talweg dataset train`"
    )]
    OtherFeatures {
        /// Columns of this version.
        expected: usize,
        /// Columns of the checkpoint.
        found: usize,
    },
}
