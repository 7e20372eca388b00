//! Search strategies and the task scheduler: ask for candidates, tell what they measured.
//!
//! | module | holds |
//! |---|---|
//! | [`domain`] | what a strategy searches |
//! | [`scorer`] | what predicts which candidates are fast |
//! | [`outcome`] | what a measurement says |
//! | [`strategy`] | ask and tell |
//! | [`history`] | what a strategy has proposed and been told |
//! | [`rounds`] | what strategies that plan in rounds have in common |
//! | [`random`], [`grid`], [`genetic`] | strategies without a model |
//! | [`annealing`], [`diversity`] | AutoTVM's search, and how it spreads a batch |
//! | [`evolutionary`] | Ansor's search |
//! | [`felix`] | gradient descent over knobs as real variables |
//! | [`pool`] | the best candidates met during a search |
//! | [`space_domain`] | schedule spaces as domains |
//! | [`featurize`], [`training`], [`learned`] | the scorer on features and cost models |
//! | [`network`] | the shipped network as a model |
//! | [`systems`] | AutoTVM and Ansor, put together |
//! | [`device`] | a simulated device to compare strategies on |
//! | [`testing`] | synthetic domains and scorers |
//! | [`forecast`] | what the rest of a run can be expected to gain |
//! | [`scheduler`], [`objective`] | which of several tasks is tuned next, and for what |

pub mod annealing;
pub mod device;
pub mod diversity;
pub mod domain;
pub mod evolutionary;
pub mod featurize;
pub mod felix;
pub mod forecast;
pub mod genetic;
pub mod grid;
pub mod history;
pub mod learned;
pub mod network;
pub mod objective;
pub mod outcome;
pub mod parallel;
pub mod pool;
pub mod random;
pub mod rounds;
pub mod scheduler;
pub mod scorer;
pub mod space_domain;
pub mod strategy;
pub mod systems;
pub mod testing;
pub mod training;

pub use annealing::{Annealing, AnnealingParams};
pub use device::SimulatedDevice;
pub use domain::Domain;
pub use evolutionary::{Evolutionary, EvolutionaryParams};
pub use featurize::{Features, Predict, SpaceFeatures};
pub use felix::scorer::{DifferentiableScorer, SharedScorer};
pub use felix::{Felix, FelixParams};
pub use genetic::{Genetic, GeneticParams};
pub use grid::Grid;
pub use learned::{ModelScorer, SharedModel};
pub use outcome::{Outcome, Sample};
pub use random::Random;
pub use rounds::{Planner, Rounds};
pub use scorer::{RandomScorer, Scorer};
pub use space_domain::SpaceDomain;
pub use strategy::Strategy;
pub use systems::{ansor, autotvm};
pub use talweg_features::Machine;
pub use talweg_space::{Candidate, Rng};
pub use training::TrainingSet;
