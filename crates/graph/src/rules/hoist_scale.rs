//! A factor of an operand is a factor of the product, where it costs nothing: the epilogue, or the softmax behind.
//!
//! ```text
//! MatMul(Mul(a, c), b)   ->   Mul(MatMul(a, b), c)      for one number c; also for b
//! ```

use talweg_tensor::Op;
use talweg_tensor::op::Binary;

use crate::graph::NodeId;
use crate::rewrite::{Context, Edit, node};

pub(super) fn apply(context: &mut Context<'_>, id: NodeId) -> Option<Edit> {
    let matched = context.node(id);
    let Op::MatMul = matched.op else { return None };
    let [Some(a), Some(b)] = matched.inputs[..] else { return None };
    let (at, x, c) = [a, b].into_iter().enumerate().find_map(|(at, operand)| {
        let producer = context.producer(operand).filter(|n| n.op == Op::Binary(Binary::Mul))?;
        let (x, c) = context.with_constant(producer)?;
        let plain = context.shape(x) == context.shape(operand) && context.single_use(operand);
        (plain && context.scalar(c).is_some() && context.is_f32(x)).then_some((at, x, c))
    })?;
    let (name, output) = (matched.name.clone(), matched.outputs[0]);
    // A factor of higher rank than the product would give the result more axes.
    if context.shape(c).len() > context.shape(output).len() {
        return None;
    }
    let operands = if at == 0 { [x, b] } else { [a, x] };
    let product = context.add_like(output, "product", context.shape(output).to_vec());
    Some(Edit::Nodes(vec![
        node(name.clone(), Op::MatMul, &operands, product),
        node(name, Op::Binary(Binary::Mul), &[product, c], output),
    ]))
}
