//! Forward and backward through a network, for a block of programs.

use std::ops::Range;

use super::gemm::{Panels, add_outer, multiply, pad_rows};
use super::network::Mlp;
use super::shape::Shape;
use crate::model::Batch;

/// The layers' matrices as they are multiplied with.
#[derive(Clone, Debug, PartialEq, Default)]
pub(super) struct Packed {
    forward: Vec<Panels>,
    backward: Vec<Panels>,
}

impl Packed {
    pub(super) fn new(shape: &Shape, parameters: &[f32]) -> Packed {
        let of = |pack: fn(&[f32], usize, usize) -> Panels| {
            let packed = |l: &super::shape::Layer| pack(&parameters[l.matrix.clone()], l.inputs, l.outputs);
            shape.layers.iter().map(packed).collect()
        };
        Packed { forward: of(Panels::new), backward: of(Panels::transposed) }
    }

    pub(super) fn refill(&mut self, shape: &Shape, parameters: &[f32]) {
        for (index, layer) in shape.layers.iter().enumerate() {
            self.forward[index].fill(&parameters[layer.matrix.clone()]);
            self.backward[index].fill_transposed(&parameters[layer.matrix.clone()]);
        }
    }
}

/// The numbers between layers, for one block; used again for the next.
#[derive(Default)]
pub(super) struct Pass {
    rows: Range<usize>,
    programs: Range<usize>,
    /// Inputs, and outputs of the encoder's layers: a row for each store.
    seen: Vec<f32>,
    first: Vec<f32>,
    second: Vec<f32>,
    /// Sum of stores, outputs of the residual layers before and after the sum: a row for each program.
    sum: Vec<f32>,
    third: Vec<f32>,
    middle: Vec<f32>,
    fourth: Vec<f32>,
    /// Derivatives by the same.
    d_seen: Vec<f32>,
    d_first: Vec<f32>,
    d_second: Vec<f32>,
    d_sum: Vec<f32>,
    d_third: Vec<f32>,
    d_fourth: Vec<f32>,
}

/// A slice of at least `len` numbers; what they are does not matter.
fn sized(buffer: &mut Vec<f32>, len: usize) -> &mut [f32] {
    if buffer.len() < len {
        buffer.resize(len, 0.0);
    }
    &mut buffer[..len]
}

/// `max(x + bias, 0)` for every row.
fn rectify(values: &mut [f32], bias: &[f32]) {
    for row in values.chunks_exact_mut(bias.len()) {
        row.iter_mut().zip(bias).for_each(|(x, b)| *x = (*x + b).max(0.0));
    }
}

/// Passes derivatives on where the layer's output is positive.
fn mask(derivatives: &mut [f32], outputs: &[f32]) {
    derivatives.iter_mut().zip(outputs).for_each(|(d, y)| *d = if *y > 0.0 { *d } else { 0.0 });
}

fn add(to: &mut [f32], from: &[f32]) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to += from);
}

/// Adds every row of `from` to one row.
fn add_rows(to: &mut [f32], from: &[f32]) {
    from.chunks_exact(to.len()).for_each(|row| add(to, row));
}

impl Pass {
    /// Computes the scores of some programs.
    pub(super) fn forward(
        &mut self,
        mlp: &Mlp,
        batch: &Batch<'_>,
        programs: Range<usize>,
        scores: &mut [f32],
    ) {
        let (shape, weights) = (&mlp.shape, &mlp.parameters);
        let hidden = shape.hidden;
        let rows = batch.offsets[programs.start]..batch.offsets[programs.end];
        (self.rows, self.programs) = (rows.clone(), programs.clone());
        let (padded, heads) = (pad_rows(rows.len()), pad_rows(programs.len()));
        let bias = |layer: usize| &weights[shape.layers[layer].bias.clone()];

        let seen = sized(&mut self.seen, padded * shape.inputs);
        mlp.inputs.read(batch.features, rows.clone(), shape.inputs, seen);
        let first = sized(&mut self.first, padded * hidden);
        multiply(seen, padded, &mlp.packed.forward[0], first);
        rectify(first, bias(0));
        let second = sized(&mut self.second, padded * hidden);
        multiply(first, padded, &mlp.packed.forward[1], second);
        rectify(second, bias(1));

        let sum = sized(&mut self.sum, heads * hidden);
        sum.fill(0.0);
        for (program, sum) in programs.clone().zip(sum.chunks_exact_mut(hidden)) {
            let range = batch.offsets[program] - rows.start..batch.offsets[program + 1] - rows.start;
            add_rows(sum, &second[range.start * hidden..range.end * hidden]);
        }
        let third = sized(&mut self.third, heads * hidden);
        multiply(sum, heads, &mlp.packed.forward[2], third);
        rectify(third, bias(2));
        let middle = sized(&mut self.middle, heads * hidden);
        middle.copy_from_slice(sum);
        add(middle, third);
        let fourth = sized(&mut self.fourth, heads * hidden);
        multiply(middle, heads, &mlp.packed.forward[3], fourth);
        rectify(fourth, bias(3));
        let output = &weights[shape.output.clone()];
        for (program, score) in scores[..programs.len()].iter_mut().enumerate() {
            let at = program * hidden..(program + 1) * hidden;
            let terms = middle[at.clone()].iter().zip(&fourth[at]).zip(output);
            *score = terms.map(|((middle, fourth), weight)| (middle + fourth) * weight).sum();
        }
    }

    /// From derivatives by the scores of the programs of the last [`Pass::forward`] to derivatives by what enters the
    /// first layer's output.
    fn backward_to_first(&mut self, mlp: &Mlp, batch: &Batch<'_>, by_score: &[f32]) {
        let shape = &mlp.shape;
        let hidden = shape.hidden;
        let (padded, heads) = (pad_rows(self.rows.len()), pad_rows(self.programs.len()));
        let output = &mlp.parameters[shape.output.clone()];
        let d_fourth = sized(&mut self.d_fourth, heads * hidden);
        d_fourth.fill(0.0);
        for (row, by_score) in d_fourth.chunks_exact_mut(hidden).zip(by_score) {
            row.iter_mut().zip(output).for_each(|(d, weight)| *d = by_score * weight);
        }
        // The derivative by `middle`, for now; `d_third` holds what passes it by.
        let d_third = sized(&mut self.d_third, heads * hidden);
        d_third.copy_from_slice(d_fourth);
        mask(d_fourth, &self.fourth);
        let d_sum = sized(&mut self.d_sum, heads * hidden);
        multiply(d_fourth, heads, &mlp.packed.backward[3], d_sum);
        add(d_sum, d_third);
        d_third.copy_from_slice(d_sum);
        mask(d_third, &self.third);
        let through = sized(&mut self.d_second, padded.max(heads) * hidden);
        multiply(d_third, heads, &mlp.packed.backward[2], through);
        add(d_sum, &through[..heads * hidden]);

        let d_second = sized(&mut self.d_second, padded * hidden);
        for (program, d_sum) in self.programs.clone().zip(d_sum.chunks_exact(hidden)) {
            for row in batch.offsets[program]..batch.offsets[program + 1] {
                d_second[(row - self.rows.start) * hidden..][..hidden].copy_from_slice(d_sum);
            }
        }
        d_second[self.rows.len() * hidden..].fill(0.0);
        mask(d_second, &self.second);
        let d_first = sized(&mut self.d_first, padded * hidden);
        multiply(d_second, padded, &mlp.packed.backward[1], d_first);
        mask(d_first, &self.first);
    }

    /// Derivatives by the features, from derivatives by the scores of the last [`Pass::forward`]. `out` has the rows of
    /// these programs.
    pub(super) fn by_features(&mut self, mlp: &Mlp, batch: &Batch<'_>, by_score: &[f32], out: &mut [f32]) {
        self.backward_to_first(mlp, batch, by_score);
        let (padded, inputs) = (pad_rows(self.rows.len()), mlp.shape.inputs);
        let d_seen = sized(&mut self.d_seen, padded * inputs);
        multiply(&self.d_first[..padded * mlp.shape.hidden], padded, &mlp.packed.backward[0], d_seen);
        let rows = out.chunks_exact_mut(batch.features.cols().max(1));
        rows.zip(d_seen.chunks_exact(inputs)).for_each(|(out, seen)| mlp.inputs.write_gradient(seen, out));
    }

    /// Adds derivatives by the parameters, from derivatives by the scores of the last [`Pass::forward`].
    pub(super) fn by_parameters(&mut self, mlp: &Mlp, batch: &Batch<'_>, by_score: &[f32], out: &mut [f32]) {
        self.backward_to_first(mlp, batch, by_score);
        let (shape, hidden) = (&mlp.shape, mlp.shape.hidden);
        let (rows, programs) = (self.rows.len(), self.programs.len());
        let layers = [
            (&self.seen, &self.d_first, rows),
            (&self.first, &self.d_second, rows),
            (&self.sum, &self.d_third, programs),
            (&self.middle, &self.d_fourth, programs),
        ];
        for (layer, (inputs, derivatives, rows)) in shape.layers.iter().zip(layers) {
            add_outer(inputs, layer.inputs, derivatives, hidden, rows, &mut out[layer.matrix.clone()]);
            add_rows(&mut out[layer.bias.clone()], &derivatives[..rows * hidden]);
        }
        let by_output = &mut out[shape.output.clone()];
        for (program, by_score) in by_score.iter().take(programs).enumerate() {
            let at = program * hidden..(program + 1) * hidden;
            let terms = self.middle[at.clone()].iter().zip(&self.fourth[at]);
            by_output.iter_mut().zip(terms).for_each(|(out, (middle, fourth))| {
                *out += by_score * (middle + fourth);
            });
        }
    }
}
