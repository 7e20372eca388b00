//! Adding a constant for each channel is the convolution's bias.
//!
//! ```text
//! Add(Conv(x, w, b), c)   ->   Conv(x, w, b + c)      also ConvTranspose
//! ```

use talweg_tensor::op::{Binary, Layout};
use talweg_tensor::{Op, Tensor};

use crate::graph::{Node, NodeId};
use crate::rewrite::{Context, Edit, joined};

pub(super) fn apply(context: &mut Context<'_>, id: NodeId) -> Option<Edit> {
    let matched = context.node(id);
    if matched.op != Op::Binary(Binary::Add) {
        return None;
    }
    let (sum, c) = context.with_constant(matched)?;
    let inner = context.producer(sum)?;
    let layout = match &inner.op {
        Op::Conv(conv) => conv.layout,
        Op::ConvTranspose(conv) => conv.layout,
        _ => return None,
    };
    let output = matched.outputs[0];
    let shape = context.shape(output);
    if !context.single_use(sum) || context.shape(sum) != shape {
        return None;
    }
    let axis = if layout == Layout::ChannelsFirst { 1 } else { shape.len() - 1 };
    let channels = shape[axis];
    let mut values = context.channel_vector(c, shape.len(), axis, channels)?;
    if let Some(bias) = inner.inputs.get(2).copied().flatten() {
        let old = context.constant(bias)?.values::<f32>();
        values.iter_mut().zip(old.iter()).for_each(|(v, o)| *v += o);
    }
    let (name, op) = (joined(&[&inner.name, &matched.name]), inner.op.clone());
    let mut inputs = inner.inputs.clone();
    let bias = context.add_constant(c, "bias", Tensor::new([channels], values));
    inputs.resize(3, None);
    inputs[2] = Some(bias);
    Some(Edit::Nodes(vec![Node { name, op, inputs, outputs: vec![output] }]))
}
