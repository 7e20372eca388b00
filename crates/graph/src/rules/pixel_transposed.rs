//! A transposed convolution of a single pixel is a matrix product.
//!
//! ```text
//! ConvTranspose(x: [n, c, 1, 1], w: [c, f, 4, 4])   ->   ToFirst(Reshape(MatMul(x, w'), [n, 4, 4, f]))
//! ```

use talweg_tensor::op::{Binary, Layout};
use talweg_tensor::{Op, Tensor};

use super::channels_last::to_first;
use crate::constants;
use crate::graph::NodeId;
use crate::rewrite::{Context, Edit, node};

pub(super) fn apply(context: &mut Context<'_>, id: NodeId) -> Option<Edit> {
    let matched = context.node(id);
    let Op::ConvTranspose(conv) = &matched.op else { return None };
    let (x, w) = (matched.inputs[0]?, matched.inputs[1]?);
    let bias = matched.inputs.get(2).copied().flatten();
    let shape = context.shape(x).to_vec();
    let rank = shape.len();
    let spatial = match conv.layout {
        Layout::ChannelsFirst => &shape[2..],
        Layout::ChannelsLast => &shape[1..rank - 1],
    };
    let uncut = conv.begin.iter().chain(&conv.end).all(|p| *p == 0);
    let dense = conv.groups == 1 && conv.dilations.iter().all(|d| *d == 1);
    if spatial.iter().any(|e| *e != 1) || !uncut || !dense || !context.is_f32(x) {
        return None;
    }
    let weights = context.constant(w)?;
    let window: Vec<usize> = weights.shape()[2..].to_vec();
    let (channels, filters) = (weights.shape()[0], weights.shape()[1]);
    let perm: Vec<usize> = std::iter::once(0).chain(2..rank).chain(std::iter::once(1)).collect();
    let taps: usize = window.iter().product();
    let matrix = constants::transpose(weights, &perm).reshaped([channels, taps * filters]);
    let repeated = match bias {
        Some(bias) => {
            let values = context.constant(bias)?.values::<f32>();
            Some((bias, Tensor::new([taps * filters], values.repeat(taps))))
        }
        None => None,
    };
    let (name, output, layout) = (matched.name.clone(), matched.outputs[0], conv.layout);
    let rows = shape[0];
    let flat = context.add_like(x, "pixel", vec![rows, channels]);
    let matrix = context.add_constant(w, "matrix", matrix);
    let mut product = context.add_like(output, "product", vec![rows, taps * filters]);
    let mut nodes = vec![
        node(name.clone(), Op::Reshape { shape: vec![rows, channels] }, &[x], flat),
        node(name.clone(), Op::MatMul, &[flat, matrix], product),
    ];
    if let Some((bias, tensor)) = repeated {
        let bias = context.add_constant(bias, "repeated", tensor);
        let sum = context.add_like(output, "sum", vec![rows, taps * filters]);
        nodes.push(node(name.clone(), Op::Binary(Binary::Add), &[product, bias], sum));
        product = sum;
    }
    let image: Vec<usize> = std::iter::once(rows).chain(window).chain(std::iter::once(filters)).collect();
    let reshape = Op::Reshape { shape: image.clone() };
    if layout == Layout::ChannelsLast {
        nodes.push(node(name, reshape, &[product], output));
    } else {
        let last = context.add_like(output, "last", image);
        nodes.push(node(name.clone(), reshape, &[product], last));
        nodes.push(node(name, Op::Transpose { perm: to_first(rank) }, &[last], output));
    }
    Some(Edit::Nodes(nodes))
}
