//! Multiplying the result by a constant for each channel multiplies the weights (and the bias) instead: batch
//! normalisation disappears.
//!
//! ```text
//! Mul(Conv(x, w, b), c)   ->   Conv(x, w * c, b * c)      also ConvTranspose
//! Mul(MatMul(x, w), c)    ->   MatMul(x, w * c)
//! ```

use talweg_tensor::op::{Binary, Layout};
use talweg_tensor::{Op, Tensor};

use crate::graph::{Node, NodeId};
use crate::rewrite::{Context, Edit, joined};

pub(super) fn apply(context: &mut Context<'_>, id: NodeId) -> Option<Edit> {
    let matched = context.node(id);
    if matched.op != Op::Binary(Binary::Mul) {
        return None;
    }
    let (product, c) = context.with_constant(matched)?;
    let inner = context.producer(product)?;
    let output = matched.outputs[0];
    if !context.single_use(product) || context.shape(product) != context.shape(output) {
        return None;
    }
    let w = inner.inputs.get(1).copied().flatten()?;
    let weights = context.constant(w)?;
    let shape = weights.shape().to_vec();
    let out = context.shape(output);
    // For every element of the weights, the channel of the result it belongs to.
    let inner_size = |from: usize| shape[from..].iter().product::<usize>();
    let (channels, axis, channel): (usize, usize, Box<dyn Fn(usize) -> usize>) = match &inner.op {
        Op::Conv(conv) => {
            let axis = if conv.layout == Layout::ChannelsFirst { 1 } else { out.len() - 1 };
            let size = inner_size(1);
            (shape[0], axis, Box::new(move |at| at / size))
        }
        Op::ConvTranspose(conv) => {
            let axis = if conv.layout == Layout::ChannelsFirst { 1 } else { out.len() - 1 };
            let (outer, size, filters) = (inner_size(1), inner_size(2), shape[1]);
            let per_group = shape[0] / conv.groups;
            let place = move |at: usize| at / outer / per_group * filters + at / size % filters;
            (filters * conv.groups, axis, Box::new(place))
        }
        Op::MatMul if shape.len() >= 2 => {
            let columns = shape[shape.len() - 1];
            (columns, out.len().checked_sub(1)?, Box::new(move |at| at % columns))
        }
        _ => return None,
    };
    let factors = context.channel_vector(c, out.len(), axis, channels)?;
    let scaled: Vec<f32> =
        weights.values::<f32>().iter().enumerate().map(|(at, v)| v * factors[channel(at)]).collect();
    let bias = match inner.inputs.get(2).copied().flatten() {
        Some(bias) => {
            let values = context.constant(bias)?.values::<f32>();
            let scaled: Vec<f32> = values.iter().zip(&factors).map(|(v, f)| v * f).collect();
            Some((bias, Tensor::new([channels], scaled)))
        }
        None => None,
    };
    let mut node = Node {
        name: joined(&[&inner.name, &matched.name]),
        op: inner.op.clone(),
        inputs: inner.inputs.clone(),
        outputs: vec![output],
    };
    node.inputs[1] = Some(context.add_constant(w, "scaled", Tensor::new(shape, scaled)));
    if let Some((bias, tensor)) = bias {
        node.inputs[2] = Some(context.add_constant(bias, "scaled", tensor));
    }
    Some(Edit::Nodes(vec![node]))
}

impl Context<'_> {
    /// A constant that varies along one axis of a result only, as one f32 for each channel.
    pub fn channel_vector(
        &self,
        constant: crate::graph::ValueId,
        rank: usize,
        axis: usize,
        channels: usize,
    ) -> Option<Vec<f32>> {
        if !self.is_f32(constant) {
            return None;
        }
        let tensor = self.constant(constant)?;
        let skip = rank.checked_sub(tensor.shape().len())?;
        let along =
            tensor.shape().iter().enumerate().all(|(d, e)| *e == 1 || (d + skip == axis && *e == channels));
        if !along {
            return None;
        }
        let values = tensor.values::<f32>();
        match values.as_ref() {
            [one] => Some(vec![*one; channels]),
            many if many.len() == channels => Some(many.to_vec()),
            _ => None,
        }
    }
}
