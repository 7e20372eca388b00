//! Convolutions and pooling compute on channels-last images; transposes around them keep the meaning, and other rules
//! move these away.
//!
//! ```text
//! Conv(x, w)   ->   ToFirst(Conv(ToLast(x), w, channels last))
//! ```

use talweg_tensor::Op;
use talweg_tensor::op::{Layout, PoolKind};

use crate::graph::{Node, NodeId};
use crate::rewrite::{Context, Edit, node};

/// The order that moves channels last: `[n, c, h, w]` to `[n, h, w, c]`.
pub(super) fn to_last(rank: usize) -> Vec<usize> {
    std::iter::once(0).chain(2..rank).chain(std::iter::once(1)).collect()
}

/// The order that moves channels back.
pub(super) fn to_first(rank: usize) -> Vec<usize> {
    [0, rank - 1].into_iter().chain(1..rank - 1).collect()
}

pub(super) fn apply(context: &mut Context<'_>, id: NodeId) -> Option<Edit> {
    let matched = context.node(id);
    let weights = || matched.inputs.get(1).copied().flatten().and_then(|w| context.constant(w));
    let mut op = matched.op.clone();
    match &mut op {
        Op::Conv(conv) if conv.layout == Layout::ChannelsFirst && weights().is_some() => {
            conv.layout = Layout::ChannelsLast;
        }
        Op::ConvTranspose(conv)
            if conv.layout == Layout::ChannelsFirst && conv.groups == 1 && weights().is_some() =>
        {
            conv.layout = Layout::ChannelsLast;
        }
        Op::Pool(pool)
            if pool.layout == Layout::ChannelsFirst && !matches!(pool.kind, PoolKind::Lp { .. }) =>
        {
            pool.layout = Layout::ChannelsLast;
        }
        _ => return None,
    }
    let x = matched.inputs[0]?;
    let [output] = matched.outputs[..] else { return None };
    let rank = context.shape(x).len();
    if !(3..=5).contains(&rank) || !context.is_f32(x) {
        return None;
    }
    let (name, mut inputs) = (matched.name.clone(), matched.inputs.clone());
    let moved = |shape: &[usize], perm: &[usize]| perm.iter().map(|p| shape[*p]).collect::<Vec<_>>();
    let last = to_last(rank);
    let image = context.add_like(x, "last", moved(context.shape(x), &last));
    let result = context.add_like(output, "last", moved(context.shape(output), &last));
    inputs[0] = Some(image);
    Some(Edit::Nodes(vec![
        node(name.clone(), Op::Transpose { perm: last }, &[x], image),
        Node { name: name.clone(), op, inputs, outputs: vec![result] },
        node(name, Op::Transpose { perm: to_first(rank) }, &[result], output),
    ]))
}
