//! Products of one activation with several constants are one product, whose readers read their columns of it: the
//! activation passes through the caches once, and there is one kernel to start instead of three.
//!
//! ```text
//! q = Add(MatMul(x, wq), bq)                y = Add(MatMul(x, [wq wk wv]), [bq bk bv])
//! k = MatMul(x, wk)                   ->    q = Slice(y), k = Slice(y), v = Slice(y)
//! v = Add(MatMul(x, wv), bv)
//! ```
//!
//! Only where all that read the results read columns as well as a whole: heads that are taken apart and multiplied. What
//! would have been computed in the same pass as one of the products (an activation, a gate) would need a pass of its own.

use talweg_tensor::op::{Binary, SliceAxis};
use talweg_tensor::{Op, Tensor};

use crate::emit::{elementwise, movement};
use crate::graph::{NodeId, ValueId};
use crate::rewrite::{Context, Edit, joined, node};

/// One of the products.
struct Member {
    product: NodeId,
    weights: ValueId,
    columns: usize,
    /// The addition of a bias behind it, and the bias.
    bias: Option<(NodeId, ValueId)>,
    /// What the others read.
    result: ValueId,
}

pub(super) fn apply(context: &mut Context<'_>, id: NodeId) -> Option<Edit> {
    let first = member(context, id)?;
    let x = context.node(id).inputs[0]?;
    let mut members = vec![first];
    for other in context.consumers(x) {
        if *other > id
            && members.iter().all(|m| m.product != *other)
            && let Some(found) = member(context, *other).filter(|_| context.node(*other).inputs[0] == Some(x))
        {
            members.push(found);
        }
    }
    if members.len() < 2 {
        return None;
    }
    let depth = *context.shape(members[0].weights).first()?;
    let columns: usize = members.iter().map(|m| m.columns).sum();
    let names: Vec<&str> = members.iter().map(|m| context.node(m.product).name.as_str()).collect();
    let name = joined(&names);
    let like = members[0].result;
    let mut shape = context.shape(like).to_vec();
    *shape.last_mut()? = columns;

    let weights: Vec<Tensor> =
        members.iter().map(|m| context.constant(m.weights).cloned()).collect::<Option<_>>()?;
    let weights = side_by_side(&weights, depth, columns);
    let weights = context.add_constant(members[0].weights, "merged", weights);
    let mut y = context.add_like(like, "product", shape.clone());
    let mut nodes = vec![node(name.clone(), Op::MatMul, &[x, weights], y)];
    if let Some(bias) = joined_bias(context, &members, shape.len()) {
        let bias = context.add_constant(members[0].weights, "merged_bias", Tensor::new([columns], bias));
        let sum = context.add_like(like, "merged", shape.clone());
        nodes.push(node(name, Op::Binary(Binary::Add), &[y, bias], sum));
        y = sum;
    }
    let mut places = Vec::new();
    let mut begin = 0;
    for (at, m) in members.iter().enumerate() {
        let last = shape.len() - 1;
        let part = |d: usize| match d == last {
            true => SliceAxis { begin, step: 1, count: m.columns },
            false => SliceAxis { begin: 0, step: 1, count: shape[d] },
        };
        let axes = (0..shape.len()).map(part).collect();
        let end = m.bias.map_or(m.product, |(add, _)| add);
        let slice = node(context.node(end).name.clone(), Op::Slice { axes }, &[y], m.result);
        let mut product = if at == 0 { std::mem::take(&mut nodes) } else { Vec::new() };
        if end == m.product {
            product.push(slice);
        } else {
            places.push((end, vec![slice]));
        }
        places.push((m.product, product));
        begin += m.columns;
    }
    Some(Edit::Places(places))
}

/// A product with a constant matrix whose result can as well be columns of a wider one.
fn member(context: &Context<'_>, id: NodeId) -> Option<Member> {
    let matched = context.node(id);
    let Op::MatMul = matched.op else { return None };
    let [Some(x), Some(weights)] = matched.inputs[..] else { return None };
    let tensor = context.constant(weights)?;
    let [_, columns] = *tensor.shape() else { return None };
    if context.shape(x).len() < 2 || context.constant(x).is_some() || !context.is_f32(weights) {
        return None;
    }
    let mut result = matched.outputs[0];
    let mut bias = None;
    if let [add] = *context.consumers(result)
        && context.single_use(result)
        && let after = context.node(add)
        && after.op == Op::Binary(Binary::Add)
        && let Some((_, vector)) = context.with_constant(after)
        && context.shape(after.outputs[0]) == context.shape(result)
        && context
            .channel_vector(vector, context.shape(result).len(), context.shape(result).len() - 1, columns)
            .is_some()
    {
        bias = Some((add, vector));
        result = after.outputs[0];
    }
    reads_columns(context, result, false).then_some(Member { product: id, weights, columns, bias, result })
}

/// Whether everything that reads a value reads a part of a wider one at no cost. `apart`: the columns have been taken
/// apart on the way, so that nothing behind could have been computed in the product's own pass.
fn reads_columns(context: &Context<'_>, value: ValueId, apart: bool) -> bool {
    let readers = context.consumers(value);
    let shape = context.shape(value);
    let fine = |id: &NodeId| {
        let reader = context.node(*id);
        let Some(output) = reader.outputs.first().copied() else { return false };
        match &reader.op {
            Op::Reshape { shape: to } => reads_columns(context, output, apart || to.last() < shape.last()),
            Op::Transpose { .. } => reads_columns(context, output, apart),
            Op::Slice { .. } => reads_columns(context, output, true),
            Op::MatMul | Op::Softmax { .. } | Op::Reduce(_) => true,
            Op::LayerNorm { .. } | Op::RmsNorm { .. } => reader.inputs[0] == Some(value),
            op if movement::is_movement(op) => true,
            op if elementwise::arity(op).is_some() => {
                apart || readers.len() > 1 || context.shape(output) != shape
            }
            _ => false,
        }
    };
    !readers.is_empty() && !context.graph.outputs.contains(&value) && readers.iter().all(fine)
}

/// Matrices of equally many rows beside each other.
fn side_by_side(matrices: &[Tensor], rows: usize, columns: usize) -> Tensor {
    let mut out = Vec::with_capacity(rows * columns);
    let parts: Vec<(_, usize)> = matrices.iter().map(|m| (m.values::<f32>(), m.shape()[1])).collect();
    for row in 0..rows {
        for (values, width) in &parts {
            out.extend_from_slice(&values[row * width..(row + 1) * width]);
        }
    }
    Tensor::new([rows, columns], out)
}

/// The biases behind each other, zeros for a product that has none; `None` when none has one.
fn joined_bias(context: &Context<'_>, members: &[Member], rank: usize) -> Option<Vec<f32>> {
    members.iter().find(|m| m.bias.is_some())?;
    let mut out = Vec::new();
    for m in members {
        match m.bias {
            Some((_, bias)) => out.extend(context.channel_vector(bias, rank, rank - 1, m.columns)?),
            None => out.resize(out.len() + m.columns, 0.0),
        }
    }
    Some(out)
}
