//! The graph of a network: rewriting, layout, fusion into tasks.
//!
//! | module | holds |
//! |---|---|
//! | [`graph`] | values, nodes, and how to edit them |
//! | [`program`] | a network cut into tasks |

pub mod graph;
pub mod program;

pub use graph::{Graph, GraphError, Node, NodeId, Value, ValueId};
pub use program::{Program, Step, Task, Work};
