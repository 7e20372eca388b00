//! A factor of an operand is a factor of the product, where it costs nothing: the epilogue, or the softmax behind.
//!
//! ```text
//! MatMul(Mul(a, c), b)              ->   Mul(MatMul(a, b), c)      for one number c; also for b
//! MatMul(Transpose(Mul(a, c)), b)   ->   Mul(MatMul(Transpose(a), b), c)      also Reshape, Slice
//! ```

use talweg_tensor::Op;
use talweg_tensor::op::Binary;

use crate::graph::{Node, NodeId, ValueId};
use crate::rewrite::{Context, Edit, node};

pub(super) fn apply(context: &mut Context<'_>, id: NodeId) -> Option<Edit> {
    let matched = context.node(id);
    let Op::MatMul = matched.op else { return None };
    let [Some(a), Some(b)] = matched.inputs[..] else { return None };
    let (at, scaled) = [a, b].into_iter().enumerate().find_map(|(at, v)| Some((at, scaled(context, v)?)))?;
    let (name, output) = (matched.name.clone(), matched.outputs[0]);
    // A factor of higher rank than the product would give the result more axes.
    if context.shape(scaled.factor).len() > context.shape(output).len() {
        return None;
    }
    let mut nodes = Vec::new();
    let mut value = scaled.x;
    for moved in scaled.movements.into_iter().rev() {
        let old = moved.outputs[0];
        let new = context.add_like(old, "unscaled", context.shape(old).to_vec());
        nodes.push(node(moved.name, moved.op, &[value], new));
        value = new;
    }
    let operands = if at == 0 { [value, b] } else { [a, value] };
    let product = context.add_like(output, "product", context.shape(output).to_vec());
    nodes.push(node(name.clone(), Op::MatMul, &operands, product));
    nodes.push(node(name, Op::Binary(Binary::Mul), &[product, scaled.factor], output));
    Some(Edit::Nodes(nodes))
}

/// A value that is a number times another, moved around.
struct Scaled {
    x: ValueId,
    factor: ValueId,
    /// Movements behind the multiplication, the last one first.
    movements: Vec<Node>,
}

fn scaled(context: &Context<'_>, operand: ValueId) -> Option<Scaled> {
    let mut value = operand;
    let mut movements = Vec::new();
    loop {
        let producer = context.producer(value).filter(|_| context.single_use(value))?;
        match &producer.op {
            Op::Transpose { .. } | Op::Reshape { .. } | Op::Slice { .. } => {
                movements.push(producer.clone());
                value = producer.inputs.first().copied().flatten()?;
            }
            Op::Binary(Binary::Mul) => {
                let (x, factor) = context.with_constant(producer)?;
                let plain = context.shape(x) == context.shape(value) && context.is_f32(x);
                return (plain && context.scalar(factor).is_some()).then_some(Scaled {
                    x,
                    factor,
                    movements,
                });
            }
            _ => return None,
        }
    }
}
