//! A reshape that keeps together what the transpose before it kept together can come first.
//!
//! ```text
//! Reshape(Transpose(x: [1, 7, 7, 768], to first), [1, 768, 49])   ->   Transpose(Reshape(x, [1, 49, 768]), [0, 2, 1])
//! ```

use talweg_tensor::Op;

use super::sink_transpose::inverted;
use crate::emit::reshape::matching;
use crate::graph::NodeId;
use crate::rewrite::{Context, Edit, joined, node};

pub(super) fn apply(context: &mut Context<'_>, id: NodeId) -> Option<Edit> {
    let matched = context.node(id);
    let Op::Reshape { shape: to } = &matched.op else { return None };
    let between = matched.inputs.first().copied().flatten()?;
    let inner = context.producer(between)?;
    let Op::Transpose { perm } = &inner.op else { return None };
    let x = inner.inputs.first().copied().flatten()?;
    let source = context.shape(x);
    // Groups of dimensions that become groups of dimensions; each must lie together in the source.
    let mut pieces: Vec<(usize, Vec<usize>)> = Vec::new();
    for (from, into) in matching(context.shape(between), to)? {
        let dims: Vec<usize> = from.map(|d| perm[d]).filter(|d| source[*d] != 1).collect();
        let consecutive = dims.windows(2).all(|w| w[0] < w[1] && (w[0] + 1..w[1]).all(|d| source[d] == 1));
        if !consecutive {
            return None;
        }
        // Dimensions of extent one may stand anywhere; they stay where they were.
        let place = dims.first().copied();
        pieces.push((place.unwrap_or(usize::MAX), into.collect()));
    }
    let mut order: Vec<usize> = (0..pieces.len()).collect();
    order.sort_by_key(|at| (pieces[*at].0, *at));
    let dims: Vec<usize> = order.iter().flat_map(|at| pieces[*at].1.clone()).collect();
    let shape: Vec<usize> = dims.iter().map(|d| to[*d]).collect();
    // `dims[i]` is the place in the result of dimension `i` of the new reshape.
    let behind = inverted(&dims);
    let name = joined(&[&inner.name, &matched.name]);
    let output = matched.outputs[0];
    if behind.iter().enumerate().all(|(i, p)| i == *p) {
        return Some(Edit::Nodes(vec![node(name, Op::Reshape { shape }, &[x], output)]));
    }
    let first = context.add_like(x, "reshaped", shape.clone());
    Some(Edit::Nodes(vec![
        node(name.clone(), Op::Reshape { shape }, &[x], first),
        node(name, Op::Transpose { perm: behind }, &[first], output),
    ]))
}
