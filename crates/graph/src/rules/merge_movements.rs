//! Two movements of one kind in a row are one.
//!
//! ```text
//! Reshape(Reshape(x))            ->   Reshape(x)
//! Transpose(Transpose(x, p), q)  ->   Transpose(x, p[q])
//! ```

use talweg_tensor::Op;

use crate::graph::NodeId;
use crate::rewrite::{Context, Edit, joined, node};

pub(super) fn apply(context: &mut Context<'_>, id: NodeId) -> Option<Edit> {
    let outer = context.node(id);
    let between = outer.inputs.first().copied().flatten()?;
    let inner = context.producer(between)?;
    let x = inner.inputs.first().copied().flatten()?;
    let op = match (&outer.op, &inner.op) {
        (Op::Reshape { shape }, Op::Reshape { .. }) => Op::Reshape { shape: shape.clone() },
        (Op::Transpose { perm: q }, Op::Transpose { perm: p }) => {
            Op::Transpose { perm: q.iter().map(|i| p[*i]).collect() }
        }
        _ => return None,
    };
    let name = joined(&[&inner.name, &outer.name]);
    Some(Edit::Nodes(vec![node(name, op, &[x], outer.outputs[0])]))
}
