//! Search strategies and the task scheduler: ask for candidates, tell what they measured.
//!
//! | module | holds |
//! |---|---|
//! | [`domain`] | what a strategy searches |
//! | [`scorer`] | what predicts which candidates are fast |
//! | [`outcome`] | what a measurement says |
//! | [`strategy`] | ask and tell |
//! | [`history`] | what a strategy has proposed and been told |
//! | [`random`], [`grid`], [`genetic`] | strategies without a model |
//! | [`annealing`], [`diversity`] | AutoTVM's search, and how it spreads a batch |
//! | [`evolutionary`] | Ansor's search |
//! | [`pool`] | the best candidates met during a search |
//! | [`testing`] | synthetic domains and scorers |
//! | [`scheduler`], [`objective`] | which of several tasks is tuned next, and for what |

pub mod annealing;
pub mod diversity;
pub mod domain;
pub mod evolutionary;
pub mod genetic;
pub mod grid;
pub mod history;
pub mod objective;
pub mod outcome;
pub mod pool;
mod provisional;
pub mod random;
pub mod scheduler;
pub mod scorer;
pub mod strategy;
pub mod testing;

pub use annealing::{Annealing, AnnealingParams};
pub use domain::Domain;
pub use evolutionary::{Evolutionary, EvolutionaryParams};
pub use genetic::{Genetic, GeneticParams};
pub use grid::Grid;
pub use outcome::{Outcome, Sample};
pub use provisional::{Candidate, Rng};
pub use random::Random;
pub use scorer::{RandomScorer, Scorer};
pub use strategy::Strategy;
