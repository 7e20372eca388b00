//! Transposes move behind what does not care about the order of axes, until they meet their inverse or the end.
//!
//! ```text
//! Relu(Transpose(x))                      ->   Transpose(Relu(x))
//! Add(Transpose(x), Transpose(y))         ->   Transpose(Add(x, y))
//! Mul(Transpose(x), constant)             ->   Transpose(Mul(x, constant'))
//! Concat, Slice, Pad, Reduce, Softmax, Resize of Transpose(x)   likewise, with their axes renamed
//! ```

use talweg_tensor::Op;
use talweg_tensor::op::SliceAxis;

use crate::constants;
use crate::emit::elementwise;
use crate::graph::{Node, NodeId, ValueId};
use crate::rewrite::{Context, Edit, node};

pub(super) fn apply(context: &mut Context<'_>, id: NodeId) -> Option<Edit> {
    let matched = context.node(id);
    let [output] = matched.outputs[..] else { return None };
    let elementwise = elementwise::arity(&matched.op).is_some();
    let joins = matches!(matched.op, Op::Concat { .. });
    let perm = matched.reads().find_map(|v| transposed(context, v).map(|(_, perm)| perm))?;
    let (op, behind) =
        if elementwise { (matched.op.clone(), perm.clone()) } else { moved(&matched.op, &perm)? };
    let rank = perm.len();
    // Each operand before the transpose; `Err` for a constant that must be transposed back.
    let mut operands: Vec<Option<Result<ValueId, ValueId>>> = Vec::new();
    for (at, input) in matched.inputs.iter().enumerate() {
        let Some(input) = *input else {
            operands.push(None);
            continue;
        };
        let follows = at == 0 || elementwise || joins;
        operands.push(Some(match transposed(context, input) {
            _ if !follows => Ok(input),
            Some((x, p)) if p == perm => Ok(x),
            _ if context.graph.ty(input).len() == 1 && elementwise => Ok(input),
            _ if context.constant(input).is_some() && context.shape(input).len() <= rank => Err(input),
            _ => return None,
        }));
    }
    if elementwise && context.shape(output).len() != rank {
        return None;
    }
    let inverse = inverted(&perm);
    let name = matched.name.clone();
    let mut inputs = Vec::new();
    for operand in operands {
        inputs.push(match operand {
            None => None,
            Some(Ok(value)) => Some(value),
            Some(Err(constant)) => {
                let tensor = context.constant(constant)?;
                let mut shape = vec![1; rank - tensor.shape().len()];
                shape.extend(tensor.shape());
                let tensor = constants::transpose(&tensor.reshaped(shape), &inverse);
                Some(context.add_constant(constant, "moved", tensor))
            }
        });
    }
    let before = inverted(&behind);
    let shape = before.iter().map(|p| context.shape(output)[*p]).collect();
    let result = context.add_like(output, "moved", shape);
    Some(Edit::Nodes(vec![
        Node { name: name.clone(), op, inputs, outputs: vec![result] },
        node(name, Op::Transpose { perm: behind }, &[result], output),
    ]))
}

fn transposed(context: &Context<'_>, value: ValueId) -> Option<(ValueId, Vec<usize>)> {
    let producer = context.producer(value)?;
    let Op::Transpose { perm } = &producer.op else { return None };
    Some((producer.inputs.first().copied().flatten()?, perm.clone()))
}

pub(super) fn inverted(perm: &[usize]) -> Vec<usize> {
    let mut out = vec![0; perm.len()];
    perm.iter().enumerate().for_each(|(i, p)| out[*p] = i);
    out
}

/// The operator on the untransposed operand, and the order of the transpose behind it.
fn moved(op: &Op, perm: &[usize]) -> Option<(Op, Vec<usize>)> {
    let inverse = inverted(perm);
    fn back<T: Copy>(inverse: &[usize], values: &[T]) -> Vec<T> {
        inverse.iter().map(|i| values[*i]).collect()
    }
    let same = perm.to_vec();
    Some(match op {
        Op::Concat { axis } => (Op::Concat { axis: perm[*axis] }, same),
        Op::Slice { axes } => {
            let axes: Vec<SliceAxis> = back(&inverse, axes);
            (Op::Slice { axes }, same)
        }
        Op::Pad { begin, end, mode } => {
            let (begin, end) = (back(&inverse, begin), back(&inverse, end));
            (Op::Pad { begin, end, mode: *mode }, same)
        }
        Op::Softmax { axis, log } => (Op::Softmax { axis: perm[*axis], log: *log }, same),
        Op::Resize(resize) => {
            let mut resize = resize.clone();
            resize.shape = back(&inverse, &resize.shape);
            resize.scales = back(&inverse, &resize.scales);
            if !resize.roi.is_empty() {
                let (begins, ends) = resize.roi.split_at(perm.len());
                resize.roi = back(&inverse, begins).into_iter().chain(back(&inverse, ends)).collect();
            }
            (Op::Resize(resize), same)
        }
        Op::Reduce(reduce) => {
            let mut reduce = reduce.clone();
            let dropped: Vec<usize> = reduce.axes.clone();
            reduce.axes = dropped.iter().map(|a| perm[*a]).collect();
            reduce.axes.sort_unstable();
            if reduce.keep {
                return Some((Op::Reduce(reduce), same));
            }
            // Positions among the axes that are left, on either side of the transpose.
            let left: Vec<usize> = (0..perm.len()).filter(|d| !reduce.axes.contains(d)).collect();
            let kept = (0..perm.len()).filter(|d| !dropped.contains(d));
            let order: Option<Vec<usize>> = kept.map(|d| left.iter().position(|l| *l == perm[d])).collect();
            (Op::Reduce(reduce), order?)
        }
        _ => return None,
    })
}
