//! Dividing by a constant is multiplying by its inverse, and subtracting one is adding its negative.
//!
//! ```text
//! Div(x, c)   ->   Mul(x, 1 / c)
//! Sub(x, c)   ->   Add(x, -c)
//! ```

use talweg_tensor::op::Binary;
use talweg_tensor::{Op, Tensor};

use crate::graph::NodeId;
use crate::rewrite::{Context, Edit, node};

pub(super) fn apply(context: &mut Context<'_>, id: NodeId) -> Option<Edit> {
    let matched = context.node(id);
    let Op::Binary(f @ (Binary::Div | Binary::Sub)) = matched.op else { return None };
    let [Some(x), Some(c)] = matched.inputs[..] else { return None };
    if !context.is_f32(x) || context.constant(x).is_some() {
        return None;
    }
    let constant = context.constant(c)?;
    let values = constant.values::<f32>();
    let (op, suffix, values): (_, _, Vec<f32>) = match f {
        Binary::Div => {
            // An inverse that is not a normal number loses what the quotient keeps.
            if !values.iter().all(|v| (1.0 / v).is_normal()) {
                return None;
            }
            (Binary::Mul, "inverse", values.iter().map(|v| (1.0 / f64::from(*v)) as f32).collect())
        }
        _ => (Binary::Add, "negative", values.iter().map(|v| -v).collect()),
    };
    let tensor = Tensor::new(constant.shape().to_vec(), values);
    let (name, output) = (matched.name.clone(), matched.outputs[0]);
    let other = context.add_constant(c, suffix, tensor);
    Some(Edit::Nodes(vec![node(name, Op::Binary(op), &[x, other], output)]))
}
