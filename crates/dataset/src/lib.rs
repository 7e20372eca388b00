//! Measured programs of many operators: collecting them, training the shipped cost model on them, judging it.
//!
//! | module | holds |
//! |---|---|
//! | [`operators`](mod@operators) | operators drawn from a seed |
//! | [`collect`](mod@collect) | measuring their programs into a database |
//! | [`machine`] | the targets of a dataset |
//! | [`error`] | why it cannot be done |

pub mod collect;
pub mod error;
pub mod machine;
pub mod operators;

pub use collect::{CollectOptions, Collected, Progress, collect};
pub use error::DatasetError;
pub use operators::operators;
