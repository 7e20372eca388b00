//! What changes nothing is left out.
//!
//! ```text
//! Identity(x), Reshape(x) to its own shape, Transpose(x) in its own order, Slice(x) of everything,
//! x + 0, x - 0, x * 1, x / 1, Concat(x), ...   ->   x
//! ```

use talweg_tensor::Op;
use talweg_tensor::op::{Binary, Unary};

use crate::graph::{NodeId, ValueId};
use crate::rewrite::{Context, Edit};

pub(super) fn apply(context: &mut Context<'_>, id: NodeId) -> Option<Edit> {
    let node = context.node(id);
    let x = node.inputs.first().copied().flatten()?;
    let output = *node.outputs.first()?;
    let kept =
        |value: ValueId| (context.graph.ty(value) == context.graph.ty(output)).then_some(Edit::Value(value));
    match &node.op {
        Op::Unary(Unary::Identity | Unary::Clip { min: None, max: None })
        | Op::Reshape { .. }
        | Op::Expand { .. }
        | Op::Cast { .. } => kept(x),
        Op::Tile { repeats } if repeats.iter().all(|r| *r == 1) => kept(x),
        Op::Transpose { perm } if perm.iter().enumerate().all(|(i, p)| i == *p) => kept(x),
        Op::Slice { axes } if axes.iter().all(|a| a.begin == 0 && a.step == 1) => kept(x),
        Op::Pad { begin, end, .. } if begin.iter().chain(end).all(|p| *p == 0) => kept(x),
        Op::Concat { .. } if node.inputs.len() == 1 => kept(x),
        Op::Binary(f) => {
            let y = node.inputs.get(1).copied().flatten()?;
            let neutral = match f {
                Binary::Add | Binary::Sub => 0.0,
                Binary::Mul | Binary::Div => 1.0,
                _ => return None,
            };
            if context.scalar(y) == Some(neutral) {
                return kept(x);
            }
            let commutes = matches!(f, Binary::Add | Binary::Mul);
            (commutes && context.scalar(x) == Some(neutral)).then(|| kept(y)).flatten()
        }
        _ => None,
    }
}
