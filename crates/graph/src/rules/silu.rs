//! A value times its own sigmoid.
//!
//! ```text
//! Mul(x, Sigmoid(x))           ->   Swish(x, alpha 1)
//! Mul(x, Sigmoid(Mul(x, a)))   ->   Swish(x, alpha a)
//! ```

use talweg_tensor::Op;
use talweg_tensor::op::{Binary, Unary};

use crate::graph::NodeId;
use crate::rewrite::{Context, Edit, node};

pub(super) fn apply(context: &mut Context<'_>, id: NodeId) -> Option<Edit> {
    let matched = context.node(id);
    let output = matched.outputs[0];
    let (a, b) = context.operands(output, Binary::Mul)?;
    let (x, alpha) = [(a, b), (b, a)].into_iter().find_map(|(x, gate)| {
        let inner = context.operand(gate, Unary::Sigmoid)?;
        if inner == x {
            return Some((x, 1.0));
        }
        let scaled = context.producer(inner).filter(|n| n.op == Op::Binary(Binary::Mul))?;
        let (source, c) = context.with_constant(scaled)?;
        context.scalar(c).filter(|_| source == x).map(|alpha| (x, alpha as f32))
    })?;
    (context.is_f32(x) && context.shape(x) == context.shape(output)).then(|| {
        let op = Op::Unary(Unary::Swish { alpha });
        Edit::Nodes(vec![node(matched.name.clone(), op, &[x], output)])
    })
}
