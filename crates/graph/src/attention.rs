//! Attention among the nodes of a graph: scores of queries against keys, their softmax, and the sum of values weighted by
//! it.
//!
//! ```text
//! MatMul(Softmax(f(MatMul(q, k))), v)      where f scales and masks
//! ```
//!
//! As one task the scores never leave the core that computes them: a block of queries is taken at a time, and what it
//! needs stays in the caches.

use talweg_tensor::{ElementType, Op};

use crate::emit::elementwise;
use crate::graph::{Graph, NodeId, ValueId};

/// Functions between the scores and the softmax, at most.
const MAX_BETWEEN: usize = 8;
/// Keys whose scores for a few queries still stay in a second cache level.
const MAX_KEYS: usize = 16 * 1024;

/// The nodes of an attention; the last one is the weighted sum itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Attention {
    /// The product of queries and keys.
    pub scores: NodeId,
    /// Scaling and masking, in order: each reads the one before.
    pub between: Vec<NodeId>,
    pub softmax: NodeId,
}

impl Attention {
    /// All its nodes, in order.
    pub fn nodes(&self) -> impl Iterator<Item = NodeId> + '_ {
        std::iter::once(self.scores).chain(self.between.iter().copied()).chain(std::iter::once(self.softmax))
    }

    /// The attention that ends in a product. `only_reader` gives the single reader of a value that nothing else needs.
    pub fn ending_in(
        graph: &Graph,
        producers: &[Option<NodeId>],
        only_reader: &dyn Fn(ValueId) -> Option<NodeId>,
        weighted: NodeId,
    ) -> Option<Attention> {
        let finder = Finder { graph, producers, only_reader };
        let (weights, values) = finder.product(weighted)?;
        let softmax = finder.producer(weights, weighted)?;
        let Op::Softmax { axis, log: false } = graph.nodes[softmax.index()].op else { return None };
        let shape = &graph.ty(weights).shape;
        if axis + 1 != shape.len() || graph.constant(values).is_some() {
            return None;
        }
        let mut between = Vec::new();
        let scaled = graph.nodes[softmax.index()].inputs[0]?;
        let scores = finder.scores(scaled, softmax, &mut between)?;
        let (queries, keys) = finder.product(scores)?;
        if [queries, keys, weights, values].iter().any(|v| graph.ty(*v).element != ElementType::F32) {
            return None;
        }
        let result = &graph.ty(graph.nodes[weighted.index()].outputs[0]).shape;
        let [batch @ .., rows, many] = shape.as_slice() else { return None };
        let same_batch =
            result.len() == shape.len() && result[..result.len() - 1] == shape[..shape.len() - 1];
        let sizes = *rows > 1 && *many > 1 && *many <= MAX_KEYS && batch.iter().all(|e| *e > 0);
        (same_batch && sizes && graph.constant(keys).is_none()).then_some(Attention {
            scores,
            between,
            softmax,
        })
    }
}

struct Finder<'g> {
    graph: &'g Graph,
    producers: &'g [Option<NodeId>],
    only_reader: &'g dyn Fn(ValueId) -> Option<NodeId>,
}

impl Finder<'_> {
    /// The operands of a matrix product of matrices.
    fn product(&self, id: NodeId) -> Option<(ValueId, ValueId)> {
        let node = &self.graph.nodes[id.index()];
        let (Op::MatMul, [Some(a), Some(b)]) = (&node.op, &node.inputs[..]) else { return None };
        let matrix = |v: ValueId| self.graph.ty(v).shape.len() >= 2;
        (matrix(*a) && matrix(*b)).then_some((*a, *b))
    }

    /// The node that writes a value which only `reader` needs.
    fn producer(&self, value: ValueId, reader: NodeId) -> Option<NodeId> {
        self.producers[value.index()].filter(|_| (self.only_reader)(value) == Some(reader))
    }

    /// The product behind functions of single elements, which are collected in order.
    fn scores(&self, value: ValueId, reader: NodeId, between: &mut Vec<NodeId>) -> Option<NodeId> {
        let id = self.producer(value, reader)?;
        let node = &self.graph.nodes[id.index()];
        if node.op == Op::MatMul {
            return Some(id);
        }
        if elementwise::arity(&node.op).is_none() || node.outputs.len() != 1 || between.len() >= MAX_BETWEEN {
            return None;
        }
        let shape = |v: ValueId| &self.graph.ty(v).shape;
        let operands: Vec<ValueId> = node.reads().filter(|v| shape(*v) == shape(value)).collect();
        for operand in operands {
            let before = between.len();
            if let Some(found) = self.scores(operand, id, between) {
                between.push(id);
                return Some(found);
            }
            between.truncate(before);
        }
        None
    }
}
