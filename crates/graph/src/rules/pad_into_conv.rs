//! Zeros around the image belong to the convolution.
//!
//! ```text
//! Conv(Pad(x, 1 around, 0), w)   ->   Conv(x, w, pads 1 more)
//! ```

use talweg_tensor::Op;
use talweg_tensor::op::{Layout, PadMode};

use crate::graph::{Node, NodeId};
use crate::rewrite::{Context, Edit, joined};

pub(super) fn apply(context: &mut Context<'_>, id: NodeId) -> Option<Edit> {
    let matched = context.node(id);
    let Op::Conv(conv) = &matched.op else { return None };
    let padded = matched.inputs[0]?;
    let inner = context.producer(padded)?;
    let Op::Pad { begin, end, mode: PadMode::Constant } = &inner.op else { return None };
    let zero = match inner.inputs.get(1).copied().flatten() {
        Some(value) => context.scalar(value) == Some(0.0),
        None => true,
    };
    let rank = begin.len();
    let spatial = match conv.layout {
        Layout::ChannelsFirst => 2..rank,
        Layout::ChannelsLast => 1..rank - 1,
    };
    let sides = || begin.iter().zip(end).enumerate();
    let fits =
        sides().all(|(d, (b, e))| if spatial.contains(&d) { *b >= 0 && *e >= 0 } else { *b == 0 && *e == 0 });
    if !zero || !fits {
        return None;
    }
    let mut conv = conv.clone();
    for (at, d) in spatial.enumerate() {
        conv.begin[at] += begin[d] as usize;
        conv.end[at] += end[d] as usize;
    }
    let mut inputs = matched.inputs.clone();
    inputs[0] = inner.inputs[0];
    let name = joined(&[&inner.name, &matched.name]);
    Some(Edit::Nodes(vec![Node { name, op: Op::Conv(conv), inputs, outputs: matched.outputs.clone() }]))
}
