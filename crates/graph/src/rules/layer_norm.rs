//! Layer normalisation as exporters write it.
//!
//! ```text
//! d = Sub(x, ReduceMean(x)); s = Sqrt(Add(ReduceMean(Mul(d, d)), epsilon))
//! Mul(Div(d, s), w)               ->   LayerNorm(x, w)
//! Add(LayerNorm(x, w), b)         ->   LayerNorm(x, w, b)
//! ```

use talweg_tensor::Op;
use talweg_tensor::op::{Binary, Unary};

use crate::graph::{NodeId, ValueId};
use crate::rewrite::{Context, Edit, joined, node};

pub(super) fn apply(context: &mut Context<'_>, id: NodeId) -> Option<Edit> {
    match context.node(id).op {
        Op::Binary(Binary::Mul) => scaled(context, id),
        Op::Binary(Binary::Add) => shifted(context, id),
        _ => None,
    }
}

fn scaled(context: &Context<'_>, id: NodeId) -> Option<Edit> {
    let matched = context.node(id);
    let output = matched.outputs[0];
    let (normal, scale) = context.with_constant(matched)?;
    let (deviation, root) = context.operands(normal, Binary::Div)?;
    let (x, mean) = context.operands(deviation, Binary::Sub)?;
    let (source, axis) = context.row_mean(mean)?;
    let sum = context.operand(root, Unary::Sqrt)?;
    let sum = context.producer(sum).filter(|n| n.op == Op::Binary(Binary::Add))?;
    let (variance, epsilon) = context.with_constant(sum)?;
    let epsilon = context.scalar(epsilon)? as f32;
    let (squares, same_axis) = context.row_mean(variance)?;
    let of_deviation = context.operands(squares, Binary::Mul) == Some((deviation, deviation));
    let fits = context.shape(scale) == &context.shape(x)[axis..];
    let whole = context.shape(x) == context.shape(output) && context.is_f32(x);
    (source == x && same_axis == axis && of_deviation && fits && whole).then(|| {
        let op = Op::LayerNorm { axis, epsilon };
        Edit::Nodes(vec![node(matched.name.clone(), op, &[x, scale], output)])
    })
}

fn shifted(context: &Context<'_>, id: NodeId) -> Option<Edit> {
    let matched = context.node(id);
    let (normal, bias) = context.with_constant(matched)?;
    let inner = context.producer(normal)?;
    let Op::LayerNorm { axis, .. } = inner.op else { return None };
    let (x, scale): (ValueId, ValueId) = match inner.inputs[..] {
        [Some(x), Some(scale)] | [Some(x), Some(scale), None] => (x, scale),
        _ => return None,
    };
    let fits = context.shape(bias) == &context.shape(x)[axis..] && inner.outputs.len() == 1;
    (fits && context.single_use(normal)).then(|| {
        let name = joined(&[&inner.name, &matched.name]);
        Edit::Nodes(vec![node(name, inner.op.clone(), &[x, scale, bias], matched.outputs[0])])
    })
}
