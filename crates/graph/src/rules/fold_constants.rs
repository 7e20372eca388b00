//! An operator of constants is a constant.
//!
//! ```text
//! y = Add(2, 3)   ->   y = 5
//! ```

use talweg_tensor::{Op, evaluate};

use crate::graph::NodeId;
use crate::rewrite::{Context, Edit};

/// Bytes beyond which a constant is not made larger than what it is made from.
const MAX_GROWTH: usize = 1 << 20;

pub(super) fn apply(context: &mut Context<'_>, id: NodeId) -> Option<Edit> {
    let node = context.node(id);
    let given: usize = node.reads().map(|v| context.graph.ty(v).bytes()).sum();
    let made: usize = node.outputs.iter().map(|v| context.graph.ty(*v).bytes()).sum();
    let repeats = matches!(node.op, Op::Expand { .. } | Op::Tile { .. });
    if (repeats && made > given && made > MAX_GROWTH) || node.outputs.len() != 1 {
        return None;
    }
    let inputs: Option<Vec<_>> = node
        .inputs
        .iter()
        .map(|i| i.map(|v| context.constant(v)).map_or(Some(None), |t| t.map(Some)))
        .collect();
    let results = evaluate(&node.op, &inputs?).ok()?;
    let output = node.outputs[0];
    let result = results.into_iter().next().filter(|t| t.ty() == context.graph.ty(output))?;
    let value = context.add_constant(output, "folded", result);
    Some(Edit::Value(value))
}
