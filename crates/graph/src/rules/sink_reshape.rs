//! A function of single elements comes before the reshape, next to what it can be fused with.
//!
//! ```text
//! Relu(Reshape(x))         ->   Reshape(Relu(x))
//! Mul(Reshape(x), 0.5)     ->   Reshape(Mul(x, 0.5))
//! ```

use talweg_tensor::{Op, TensorType};

use crate::graph::{Node, NodeId};
use crate::rewrite::{Context, Edit, node};

pub(super) fn apply(context: &mut Context<'_>, id: NodeId) -> Option<Edit> {
    let matched = context.node(id);
    let [output] = matched.outputs[..] else { return None };
    let between = match &matched.op {
        Op::Unary(_) | Op::Cast { .. } => matched.inputs.first().copied().flatten()?,
        Op::Binary(_) => {
            let (x, c) = context.with_constant(matched)?;
            (context.graph.ty(c).len() == 1).then_some(x)?
        }
        _ => return None,
    };
    let inner = context.producer(between)?;
    let Op::Reshape { .. } = &inner.op else { return None };
    let x = inner.inputs.first().copied().flatten()?;
    let same_shape = context.shape(between) == context.shape(output);
    if !context.single_use(between) || !same_shape {
        return None;
    }
    // A scalar with more axes than the operand would add axes to the result.
    if matched.reads().any(|v| v != between && context.shape(v).len() > context.shape(x).len()) {
        return None;
    }
    let (name, op) = (matched.name.clone(), matched.op.clone());
    let (reshape, reshape_name) = (inner.op.clone(), inner.name.clone());
    let inputs = matched.inputs.iter().map(|i| i.map(|v| if v == between { x } else { v })).collect();
    let ty = TensorType::new(context.graph.ty(output).element, context.shape(x).to_vec());
    let value = format!("{}.unshaped", context.graph.value(output).name);
    let result = context.graph.add_value(value, ty);
    Some(Edit::Nodes(vec![
        Node { name, op, inputs, outputs: vec![result] },
        node(reshape_name, reshape, &[result], output),
    ]))
}
