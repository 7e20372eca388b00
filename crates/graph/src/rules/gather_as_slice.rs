//! Gathering one element, or a run of them, by constants is a slice.
//!
//! ```text
//! Gather(x: [3, 50, 768], 1, axis 0)   ->   Reshape(Slice(x, [1..2, :, :]), [50, 768])
//! ```

use talweg_tensor::Op;
use talweg_tensor::op::SliceAxis;

use crate::graph::NodeId;
use crate::rewrite::{Context, Edit, node};

pub(super) fn apply(context: &mut Context<'_>, id: NodeId) -> Option<Edit> {
    let matched = context.node(id);
    let Op::Gather { axis } = matched.op else { return None };
    let [Some(x), Some(indices)] = matched.inputs[..] else { return None };
    let shape = context.shape(x).to_vec();
    let extent = shape[axis] as i64;
    let chosen: Vec<i64> = context.constant(indices)?.to_i64();
    let chosen: Vec<i64> = chosen.iter().map(|i| if *i < 0 { i + extent } else { *i }).collect();
    let first = *chosen.first()?;
    let run = chosen.iter().enumerate().all(|(at, i)| *i == first + at as i64);
    if !run || first < 0 || first + chosen.len() as i64 > extent {
        return None;
    }
    let part = |d: usize| match d == axis {
        true => SliceAxis { begin: first as usize, step: 1, count: chosen.len() },
        false => SliceAxis { begin: 0, step: 1, count: shape[d] },
    };
    let axes: Vec<SliceAxis> = (0..shape.len()).map(part).collect();
    let (name, output) = (matched.name.clone(), matched.outputs[0]);
    let sliced = context.add_like(output, "slice", axes.iter().map(|a| a.count).collect());
    let shape = context.shape(output).to_vec();
    Some(Edit::Nodes(vec![
        node(name.clone(), Op::Slice { axes }, &[x], sliced),
        node(name, Op::Reshape { shape }, &[sliced], output),
    ]))
}
