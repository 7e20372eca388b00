//! Inputs for networks where the user gives none: small random numbers, and indices that every tensor has.

use talweg_graph::Graph;
use talweg_runtime::model::{Manifest, Work};
use talweg_tensor::{Op, Tensor, TensorType};

use crate::network::random_tensor;

/// Inputs of a graph, the same on every machine.
pub fn of_graph(graph: &Graph) -> Vec<Tensor> {
    let steps = graph.nodes.iter().map(|node| {
        let inputs = node.inputs.iter().map(|id| id.map(|id| (id, graph.ty(id).shape.as_slice())));
        Step { op: Some(&node.op), inputs: inputs.collect(), outputs: node.outputs.clone() }
    });
    let zero = zeros(steps);
    let of = |(at, id): (usize, &_)| tensor(graph.ty(*id), at, zero.contains(id));
    graph.inputs.iter().enumerate().map(of).collect()
}

/// Inputs of an artefact, the same on every machine.
pub fn of_manifest(manifest: &Manifest) -> Vec<Tensor> {
    let steps = manifest.steps.iter().map(|step| match &step.work {
        Work::Kernel { arguments, .. } => {
            let inputs = arguments.iter().map(|place| Some((*place, [].as_slice())));
            Step { op: None, inputs: inputs.collect(), outputs: Vec::new() }
        }
        Work::Plain { op, inputs, outputs } => {
            let inputs = inputs.iter().map(|o| o.as_ref().map(|o| (o.place, o.shape.as_slice())));
            let outputs = outputs.iter().flatten().map(|operand| operand.place);
            Step { op: Some(op), inputs: inputs.collect(), outputs: outputs.collect() }
        }
    });
    let zero = zeros(steps);
    let ports = manifest.inputs.iter().map(|port| &port.operand).enumerate();
    ports.map(|(at, operand)| tensor(&operand.ty(), at, zero.contains(&operand.place))).collect()
}

/// The input at a position; integers are zero if they must be.
fn tensor(ty: &TensorType, at: usize, is_zero: bool) -> Tensor {
    if is_zero && !ty.element.is_float() {
        return Tensor::from_f64(ty.element, ty.shape.clone(), vec![0.0; ty.len()]);
    }
    random_tensor(ty, at as u64 + 1)
}

/// A step, with what it reads and writes as their owner names them.
struct Step<'a, K> {
    /// Nothing for a kernel, which does not say either which of its arguments it writes.
    op: Option<&'a Op>,
    /// With their extents.
    inputs: Vec<Option<(K, &'a [usize])>>,
    outputs: Vec<K>,
}

/// The values that choose along an axis of a single element, as a table of token types may have it, and those they are made of.
/// Only zero is an index there.
fn zeros<'a, K: Copy + PartialEq>(steps: impl DoubleEndedIterator<Item = Step<'a, K>>) -> Vec<K> {
    let mut zero = Vec::new();
    for Step { op, inputs, outputs } in steps.rev() {
        let known = zero.len();
        zero.retain(|value| !outputs.contains(value));
        let has_zero = op.is_none() && inputs.iter().flatten().any(|(value, _)| zero.contains(value));
        if has_zero || zero.len() < known {
            zero.extend(inputs.iter().flatten().map(|(value, _)| *value));
        }
        if let Some(Op::Gather { axis } | Op::GatherElements { axis }) = op
            && let [Some((_, data)), Some((indices, _))] = inputs.as_slice()
            && data.get(*axis) == Some(&1)
        {
            zero.push(*indices);
        }
    }
    zero
}

#[cfg(test)]
mod tests {
    use talweg_graph::testing::Builder;
    use talweg_tensor::ElementType;

    use super::*;

    #[test]
    fn indices_of_a_single_row_are_zero_and_other_integers_are_not() {
        let mut b = Builder::new("embedding");
        let ids = |name: &str, element| (name.to_string(), TensorType::new(element, [2, 64]));
        let [(words, wide), (types, narrow)] =
            [ids("words", ElementType::I64), ids("types", ElementType::I32)];
        let (words, types) = (b.graph.add_input(words, wide), b.graph.add_input(types, narrow));
        let real = b.input(&[2, 64]);
        let (many, one) = (b.weights(&[9, 4], 1), b.weights(&[1, 4], 2));
        let types = b.op(Op::Cast { to: ElementType::I64 }, &[types]);
        let outputs =
            [b.op(Op::Gather { axis: 0 }, &[many, words]), b.op(Op::Gather { axis: 0 }, &[one, types])];
        let inputs = of_graph(&b.finish(&[outputs[0], outputs[1], real]));
        let has_other = |at: usize| inputs[at].to_f64().iter().any(|value| *value != 0.0);
        assert_eq!([0, 1, 2].map(has_other), [true, false, true]);
    }
}
