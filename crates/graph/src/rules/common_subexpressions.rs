//! The same operator of the same values is computed once.
//!
//! ```text
//! a = Exp(x); b = Exp(x)   ->   a = Exp(x); b = a
//! ```

use crate::graph::NodeId;
use crate::rewrite::{Context, Edit};

pub(super) fn apply(context: &mut Context<'_>, id: NodeId) -> Option<Edit> {
    let node = context.node(id);
    let first = node.reads().next()?;
    let same = context.consumers(first).iter().take_while(|other| **other < id).find(|other| {
        let other = context.node(**other);
        other.inputs == node.inputs && other.outputs.len() == 1 && other.op == node.op
    })?;
    let value = context.node(*same).outputs[0];
    (node.outputs.len() == 1 && context.graph.ty(value) == context.graph.ty(node.outputs[0]))
        .then_some(Edit::Value(value))
}
