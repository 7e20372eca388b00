//! The graph of a network: rewriting, layout, fusion into tasks.
//!
//! | module | holds |
//! |---|---|
//! | [`graph`] | values, nodes, and how to edit them |
//! | [`program`] | a network cut into tasks |
//! | [`partition`] | cutting: tasks emitted, deduplicated, in order |
//! | `fuse` | which nodes become one task |
//! | `emit` | operators as tensor expressions, one file for each family |
//! | `constants` | weights in another layout |

mod constants;
mod emit;
mod fuse;
pub mod graph;
pub mod partition;
pub mod program;

pub use graph::{Graph, GraphError, Node, NodeId, Value, ValueId};
pub use partition::{PartitionError, PartitionOptions, partition};
pub use program::{Program, Step, Task, Work};
