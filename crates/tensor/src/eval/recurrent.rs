//! Recurrent layers, computed in `f64` one sequence at a time.

use super::Call;
use super::unary::float_function;
use crate::error::OpError;
use crate::infer::Cell;
use crate::op::{Activation, Direction, Op, Recurrent};
use crate::tensor::Tensor;

/// The parameters of one direction.
struct Weights<'a> {
    /// `[gates * hidden, input]`.
    input: &'a [f64],
    /// `[gates * hidden, hidden]`.
    state: &'a [f64],
    /// `[gates * hidden]` for the input.
    input_bias: &'a [f64],
    /// `[gates * hidden]` for the state.
    state_bias: &'a [f64],
    /// `[3 * hidden]`: input, output, forget.
    peepholes: &'a [f64],
    activations: &'a [Activation],
}

/// The state of one sequence.
struct State {
    hidden: Vec<f64>,
    cell: Vec<f64>,
}

pub(super) fn evaluate(call: &Call, layer: &Recurrent) -> Result<Vec<Tensor>, OpError> {
    let cell = Cell::of(call.op);
    let x = call.get(0)?;
    let (time, batch) =
        if layer.batch_first { (x.shape()[1], x.shape()[0]) } else { (x.shape()[0], x.shape()[1]) };
    let (inputs, hidden) = (x.shape()[2], layer.hidden);
    let rows = cell.gates * hidden;
    let directions = if layer.direction == Direction::Bidirectional { 2 } else { 1 };
    let given = |input: usize, length: usize| call.maybe(input).map_or(vec![0.0; length], Tensor::to_f64);
    let (x, w, r) = (x.to_f64(), call.get(1)?.to_f64(), call.get(2)?.to_f64());
    let bias = given(3, directions * 2 * rows);
    let peepholes = given(7, directions * 3 * hidden);
    let (first_hidden, first_cell) =
        (given(5, directions * batch * hidden), given(6, directions * batch * hidden));
    let lengths = lengths(call, batch, time)?;
    let state_at = |direction: usize, sequence: usize| {
        hidden
            * if layer.batch_first { sequence * directions + direction } else { direction * batch + sequence }
    };
    let mut y = vec![0.0; call.output().len()];
    let mut last = [vec![0.0; directions * batch * hidden], vec![0.0; directions * batch * hidden]];
    for direction in 0..directions {
        let per = cell.activations;
        let weights = Weights {
            input: &w[direction * rows * inputs..][..rows * inputs],
            state: &r[direction * rows * hidden..][..rows * hidden],
            input_bias: &bias[direction * 2 * rows..][..rows],
            state_bias: &bias[direction * 2 * rows + rows..][..rows],
            peepholes: &peepholes[direction * 3 * hidden..][..3 * hidden],
            activations: &layer.activations[direction * per..][..per],
        };
        let backwards = layer.direction == Direction::Reverse || direction == 1;
        for (sequence, &length) in lengths.iter().enumerate() {
            let at = state_at(direction, sequence);
            let mut state = State {
                hidden: first_hidden[at..at + hidden].to_vec(),
                cell: first_cell[at..at + hidden].to_vec(),
            };
            for step in 0..length {
                let t = if backwards { length - 1 - step } else { step };
                let row = if layer.batch_first { sequence * time + t } else { t * batch + sequence };
                let x = &x[row * inputs..][..inputs];
                match call.op {
                    Op::Lstm(_) => lstm(layer, &weights, x, &mut state),
                    Op::Gru(_) => gru(layer, &weights, x, &mut state),
                    _ => rnn(layer, &weights, x, &mut state),
                }
                let target = if layer.batch_first {
                    (sequence * time + t) * directions + direction
                } else {
                    (t * directions + direction) * batch + sequence
                };
                y[target * hidden..][..hidden].copy_from_slice(&state.hidden);
            }
            last[0][at..at + hidden].copy_from_slice(&state.hidden);
            last[1][at..at + hidden].copy_from_slice(&state.cell);
        }
    }
    let results = std::iter::once(y).chain(last);
    Ok(call
        .outputs
        .iter()
        .zip(results)
        .map(|(ty, values)| Tensor::from_f64(ty.element, ty.shape.clone(), values))
        .collect())
}

/// The length of every sequence.
fn lengths(call: &Call, batch: usize, time: usize) -> Result<Vec<usize>, OpError> {
    let Some(lengths) = call.maybe(4) else {
        return Ok(vec![time; batch]);
    };
    let check = |length: i64| {
        usize::try_from(length).ok().filter(|&length| length <= time).ok_or_else(|| {
            OpError::value(call.op, 4, format!("lengths of at most {time}"), length.to_string())
        })
    };
    lengths.to_i64().into_iter().map(check).collect()
}

/// `matrix @ vector` of one row.
fn dot(matrix: &[f64], row: usize, vector: &[f64]) -> f64 {
    matrix[row * vector.len()..][..vector.len()].iter().zip(vector).map(|(a, b)| a * b).sum()
}

/// An activation of a gate, whose input is limited by the clip.
fn activate(layer: &Recurrent, activation: Activation, value: f64) -> f64 {
    let limit = layer.clip.map(f64::from);
    apply(activation, limit.map_or(value, |limit| value.max(-limit).min(limit)))
}

fn apply(activation: Activation, v: f64) -> f64 {
    match activation {
        Activation::Unary(unary) => float_function(unary, v),
        Activation::Affine { alpha, beta } => f64::from(alpha) * v + f64::from(beta),
        Activation::ScaledTanh { alpha, beta } => f64::from(alpha) * (f64::from(beta) * v).tanh(),
    }
}

impl Weights<'_> {
    /// What the input and its bias contribute to a gate.
    fn input_part(&self, row: usize, x: &[f64]) -> f64 {
        dot(self.input, row, x) + self.input_bias[row]
    }

    /// What the state and its bias contribute to a gate.
    fn state_part(&self, row: usize, state: &[f64]) -> f64 {
        dot(self.state, row, state) + self.state_bias[row]
    }
}

fn rnn(layer: &Recurrent, weights: &Weights, x: &[f64], state: &mut State) {
    let next = |j: usize| {
        activate(
            layer,
            weights.activations[0],
            weights.input_part(j, x) + weights.state_part(j, &state.hidden),
        )
    };
    state.hidden = (0..layer.hidden).map(next).collect();
}

/// Gates in the order update, reset, hidden.
fn gru(layer: &Recurrent, weights: &Weights, x: &[f64], state: &mut State) {
    let n = layer.hidden;
    let old = &state.hidden;
    let gate = |row: usize| {
        activate(layer, weights.activations[0], weights.input_part(row, x) + weights.state_part(row, old))
    };
    let update: Vec<f64> = (0..n).map(gate).collect();
    let reset: Vec<f64> = (n..2 * n).map(gate).collect();
    let kept: Vec<f64> = reset.iter().zip(old).map(|(reset, old)| reset * old).collect();
    let next = |j: usize| {
        let row = 2 * n + j;
        let recurrent = if layer.linear_before_reset {
            reset[j] * weights.state_part(row, old)
        } else {
            weights.state_part(row, &kept)
        };
        let candidate = activate(layer, weights.activations[1], weights.input_part(row, x) + recurrent);
        (1.0 - update[j]) * candidate + update[j] * old[j]
    };
    state.hidden = (0..n).map(next).collect();
}

/// Gates in the order input, output, forget, cell.
fn lstm(layer: &Recurrent, weights: &Weights, x: &[f64], state: &mut State) {
    let n = layer.hidden;
    let [f, g, h] = [0, 1, 2].map(|i| weights.activations[i]);
    let sums: Vec<f64> =
        (0..4 * n).map(|row| weights.input_part(row, x) + weights.state_part(row, &state.hidden)).collect();
    let peephole = |which: usize, j: usize| weights.peepholes[which * n + j];
    for j in 0..n {
        let old = state.cell[j];
        let input = activate(layer, f, sums[j] + peephole(0, j) * old);
        let forget = if layer.input_forget {
            1.0 - input
        } else {
            activate(layer, f, sums[2 * n + j] + peephole(2, j) * old)
        };
        let candidate = activate(layer, g, sums[3 * n + j]);
        let cell = forget * old + input * candidate;
        let output = activate(layer, f, sums[n + j] + peephole(1, j) * cell);
        state.cell[j] = cell;
        state.hidden[j] = output * apply(h, cell);
    }
}
