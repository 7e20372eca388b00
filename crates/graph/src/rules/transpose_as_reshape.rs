//! A transpose that only moves axes of extent one moves no elements.
//!
//! ```text
//! Transpose(x: [1, 1, 1, 512], [0, 3, 1, 2])   ->   Reshape(x, [1, 512, 1, 1])
//! ```

use talweg_tensor::Op;

use crate::graph::NodeId;
use crate::rewrite::{Context, Edit, node};

pub(super) fn apply(context: &mut Context<'_>, id: NodeId) -> Option<Edit> {
    let matched = context.node(id);
    let Op::Transpose { perm } = &matched.op else { return None };
    let x = matched.inputs.first().copied().flatten()?;
    let shape = context.shape(x);
    let moved: Vec<usize> = perm.iter().copied().filter(|p| shape[*p] != 1).collect();
    let output = matched.outputs[0];
    let identity = perm.iter().enumerate().all(|(i, p)| i == *p);
    (moved.is_sorted() && !identity).then(|| {
        let op = Op::Reshape { shape: context.shape(output).to_vec() };
        Edit::Nodes(vec![node(matched.name.clone(), op, &[x], output)])
    })
}
