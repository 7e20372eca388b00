//! Recurrent layers.

use super::args::{Args, Kind};
use crate::element::ElementType;
use crate::error::OpError;
use crate::op::{Direction, Op, Recurrent};
use crate::tensor::TensorType;

/// What distinguishes the recurrent layers.
pub(crate) struct Cell {
    /// Gates: rows of the weights in units of the state's size.
    pub(crate) gates: usize,
    /// Activation functions for each direction.
    pub(crate) activations: usize,
    /// Inputs, optional ones included.
    pub(crate) inputs: usize,
    /// Results.
    pub(crate) outputs: usize,
}

impl Cell {
    /// The cell of a recurrent operator; the plain one for any other.
    pub(crate) fn of(op: &Op) -> Cell {
        match op {
            Op::Lstm(_) => Cell { gates: 4, activations: 3, inputs: 8, outputs: 3 },
            Op::Gru(_) => Cell { gates: 3, activations: 2, inputs: 6, outputs: 2 },
            _ => Cell { gates: 1, activations: 1, inputs: 6, outputs: 2 },
        }
    }
}

pub(super) fn recurrent(args: &Args, op: &Op, layer: &Recurrent) -> Result<Vec<TensorType>, OpError> {
    let cell = Cell::of(op);
    args.arity(3, cell.inputs)?;
    let x = args.kind(0, Kind::Float)?;
    args.require(0, x.shape.len() == 3, || "of rank 3")?;
    for input in [1, 2, 3, 5, 6, 7] {
        args.element(input, x.element)?;
    }
    args.element(4, ElementType::I32)?;
    let (time, batch) = if layer.batch_first { (x.shape[1], x.shape[0]) } else { (x.shape[0], x.shape[1]) };
    let directions = if layer.direction == Direction::Bidirectional { 2 } else { 1 };
    let hidden = layer.hidden;
    let rows = |count: usize| {
        hidden.checked_mul(count).ok_or_else(|| args.attribute(format!("a state of {hidden} is too large")))
    };
    let gates = rows(cell.gates)?;
    args.shape(1, &[directions, gates, x.shape[2]])?;
    args.shape(2, &[directions, gates, hidden])?;
    args.shape(3, &[directions, rows(2 * cell.gates)?])?;
    args.shape(4, &[batch])?;
    let state = if layer.batch_first { [batch, directions, hidden] } else { [directions, batch, hidden] };
    args.shape(5, &state)?;
    args.shape(6, &state)?;
    args.shape(7, &[directions, rows(3)?])?;
    args.ensure(layer.activations.len() == directions * cell.activations, || {
        format!("{} activations, {} needed", layer.activations.len(), directions * cell.activations)
    })?;
    let y =
        if layer.batch_first { [batch, time, directions, hidden] } else { [time, directions, batch, hidden] };
    let mut outputs = vec![TensorType::new(x.element, y)];
    outputs.extend((1..cell.outputs).map(|_| TensorType::new(x.element, state)));
    Ok(outputs)
}
