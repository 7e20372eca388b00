//! What a cost model sees of a program, as formulas of its symbolic loop nest.
//!
//! Every feature is an expression over the knobs of a sketch. A nest without knobs gives constants by the same code,
//! so what a search scores is what a concrete program would be described by.
//!
//! | module | holds |
//! |---|---|
//! | [`store`] | the features of every store statement: Ansor's 164, and talweg's own |
//! | [`names`] | what they are called |
//! | `compute`, `buffers`, `intensity`, `allocation`, `outer` | the five groups of Ansor's |
//! | [`demand`] | talweg's own: what a store asks of the machine |
//! | [`mod@context`] | AutoTVM's features of every loop |
//! | [`relation`] | AutoTVM's curve features of every buffer |
//! | [`program`] | formulas compiled for many candidates at once |
//! | [`smooth`] | differentiable formulas, for knobs that are real numbers |
//! | `site` | the stores of a nest with the loops around them |
//! | `region` | how much of a buffer some loops touch |
//! | `reuse` | where a store meets elements again |
//! | `ops` | operations of one element |
//! | `formula` | real arithmetic on expressions |
//!
//! # Conventions
//!
//! - A loop counts with its extent on a full tile: outer loop variables are taken as zero, so
//!   `min($t, 1024 - i * $t)` counts as `min($t, 1024)`. Extents are at least one.
//! - Conditions around statements are taken to hold; both sides of an `if` are described.
//! - Address arithmetic is not counted as operations.
//! - A loop runs over a reduction when its store updates a buffer that lives outside the loop and whose index does
//!   not mention the loop's variable. All other loops run over space.

mod allocation;
mod buffers;
mod compute;
pub mod context;
pub mod demand;
mod formula;
mod intensity;
pub mod names;
mod ops;
mod outer;
pub mod program;
mod region;
pub mod relation;
mod reuse;
mod site;
pub mod smooth;
pub mod store;

pub use context::{CONTEXT_WIDTH, LoopFeatures, context};
pub use demand::Machine;
pub use names::{STORE_WIDTH, feature_names};
pub use program::{FeatureError, FeatureProgram, FeatureScratch, constraints_tape};
pub use relation::{BufferFeatures, RELATION_WIDTH, relations};
pub use smooth::{SmoothOptions, SmoothProgram, SmoothReport, SmoothScratch};
pub use store::{StoreFeatures, per_store};
