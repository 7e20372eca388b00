//! Powers with a small constant exponent.
//!
//! ```text
//! Pow(x, 2)    ->   Mul(x, x)
//! Pow(x, 1)    ->   Identity(x)
//! Pow(x, 0.5)  ->   Sqrt(x)
//! Pow(x, -1)   ->   Reciprocal(x)
//! ```

use talweg_tensor::Op;
use talweg_tensor::op::{Binary, Unary};

use crate::graph::NodeId;
use crate::rewrite::{Context, Edit, node};

pub(super) fn apply(context: &mut Context<'_>, id: NodeId) -> Option<Edit> {
    let matched = context.node(id);
    let Op::Binary(Binary::Pow) = matched.op else { return None };
    let [Some(x), Some(c)] = matched.inputs[..] else { return None };
    let output = matched.outputs[0];
    let exponent = context.constant(c).filter(|t| t.len() == 1)?.to_f64()[0];
    if !context.is_f32(x) || context.shape(x) != context.shape(output) {
        return None;
    }
    let (op, inputs) = match exponent {
        2.0 => (Op::Binary(Binary::Mul), vec![x, x]),
        1.0 => (Op::Unary(Unary::Identity), vec![x]),
        0.5 => (Op::Unary(Unary::Sqrt), vec![x]),
        -1.0 => (Op::Unary(Unary::Reciprocal), vec![x]),
        _ => return None,
    };
    Some(Edit::Nodes(vec![node(matched.name.clone(), op, &inputs, output)]))
}
