//! Two multiplications (or additions) by constants in a row are one.
//!
//! ```text
//! Mul(Mul(x, a), b)   ->   Mul(x, a * b)
//! Add(Add(x, a), b)   ->   Add(x, a + b)
//! ```

use talweg_tensor::op::Binary;
use talweg_tensor::{Op, evaluate};

use crate::graph::NodeId;
use crate::rewrite::{Context, Edit, joined, node};

pub(super) fn apply(context: &mut Context<'_>, id: NodeId) -> Option<Edit> {
    let outer = context.node(id);
    let Op::Binary(f @ (Binary::Mul | Binary::Add)) = outer.op else { return None };
    let (between, b) = context.with_constant(outer)?;
    let inner = context.producer(between)?;
    if inner.op != outer.op || !context.single_use(between) || !context.is_f32(between) {
        return None;
    }
    let (x, a) = context.with_constant(inner)?;
    let output = outer.outputs[0];
    // The constants together must not be larger than they need to be.
    let merged = evaluate(&Op::Binary(f), &[context.constant(a), context.constant(b)]).ok()?.pop()?;
    let largest = context.graph.ty(a).len().max(context.graph.ty(b).len());
    if merged.len() > largest || context.shape(x) != context.shape(output) {
        return None;
    }
    let name = joined(&[&inner.name, &outer.name]);
    let constant = context.add_constant(b, "merged", merged);
    Some(Edit::Nodes(vec![node(name, Op::Binary(f), &[x, constant], output)]))
}
