//! The graph of a network: rewriting, layout, fusion into tasks.
//!
//! | module | holds |
//! |---|---|
//! | [`graph`] | values, nodes, and how to edit them |
//! | [`rewrite`] | the driver of the rules |
//! | `rules` | one rule a file: before -> after |
//! | [`program`] | a network cut into tasks |
//! | [`mod@partition`] | cutting: tasks emitted, deduplicated, in order |
//! | [`forks`] | steps that several algorithms can do, and choosing among them |
//! | `fuse` | which nodes become one task |
//! | `attention` | attention among the nodes of a graph |
//! | `emit` | operators as tensor expressions, one file for each family |
//! | `constants` | weights in another layout |
//! | [`reference`] | what a graph and a program mean, computed plainly |
//! | [`testing`] | graphs by hand and random inputs |

mod attention;
mod constants;
mod emit;
pub mod forks;
mod fuse;
pub mod graph;
pub mod partition;
pub mod program;
pub mod reference;
pub mod rewrite;
mod rules;
pub mod testing;

pub use forks::{Algorithm, Before, Fork, Way};
pub use graph::{Graph, GraphError, Node, NodeId, Value, ValueId};
pub use partition::{PartitionError, PartitionOptions, partition};
pub use program::{Program, Step, Task, Work};
pub use rewrite::{RewriteError, RewriteReport, optimise};
