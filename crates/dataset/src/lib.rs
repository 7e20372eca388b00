//! Measured programs of many operators: collecting them, training the shipped cost model on them, judging it.
//!
//! | module | holds |
//! |---|---|
//! | [`operators`](mod@operators) | operators drawn from a seed |
//! | [`collect`](mod@collect) | measuring their programs into a database |
//! | [`programs`] | stored programs as a model sees them |
//! | [`train`](mod@train) | training the network on them |
//! | [`evaluate`](mod@evaluate) | how it ranks programs of operators it has not seen |
//! | [`plot`] | the same as a picture |
//! | [`machine`] | the targets of a dataset |
//! | [`error`] | why it cannot be done |

pub mod collect;
pub mod error;
pub mod evaluate;
pub mod machine;
pub mod operators;
pub mod plot;
pub mod programs;
pub mod train;

pub use collect::{CollectOptions, Collected, Progress, collect};
pub use error::DatasetError;
pub use evaluate::{Quality, Row, evaluate};
pub use operators::operators;
pub use programs::Programs;
pub use talweg_search::network::shipped;
pub use train::train;
