//! The sizes of a network, and where its weights are.

use std::ops::Range;

use super::gemm::COLS;
use crate::error::CostError;
use crate::random::Stream;

/// Where the parameters of one layer are in the list of all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layer {
    /// Numbers that go in, padded.
    pub inputs: usize,
    /// Numbers that come out, padded.
    pub outputs: usize,
    /// The matrix, row-major `inputs x outputs`.
    pub matrix: Range<usize>,
    /// What is added to the outputs.
    pub bias: Range<usize>,
}

/// The sizes of a network: two layers for each store, a sum, two residual layers, one number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Inputs used, padded to the tile.
    pub inputs: usize,
    /// Numbers between layers.
    pub hidden: usize,
    /// First and second layer of the encoder, first and second residual layer.
    pub layers: [Layer; 4],
    /// Weights of the sum that is the score.
    pub output: Range<usize>,
    /// All parameters.
    pub len: usize,
}

impl Shape {
    /// The shape of a network on so many inputs; `hidden` is a multiple of 32.
    pub fn new(inputs: usize, hidden: usize) -> Result<Shape, CostError> {
        if hidden == 0 || !hidden.is_multiple_of(COLS) || hidden > 4096 {
            let range = "a multiple of 32 up to 4096";
            return Err(CostError::Param { name: "hidden", value: hidden as f64, range });
        }
        let inputs = inputs.max(1).next_multiple_of(COLS);
        let mut at = 0;
        let mut layer = |inputs: usize| {
            let matrix = at..at + inputs * hidden;
            let bias = matrix.end..matrix.end + hidden;
            at = bias.end;
            Layer { inputs, outputs: hidden, matrix, bias }
        };
        let layers = [layer(inputs), layer(hidden), layer(hidden), layer(hidden)];
        let output = at..at + hidden;
        Ok(Shape { inputs, hidden, layers, len: output.end, output })
    }

    /// Random parameters of about the size that keeps numbers between layers alike: uniform, by the number of inputs.
    pub fn initial(&self, used: usize, seed: u64) -> Vec<f32> {
        let mut stream = Stream::new(seed, 0x006d_6c70);
        let mut parameters = vec![0.0; self.len];
        for (index, layer) in self.layers.iter().enumerate() {
            let inputs = if index == 0 { used.max(1) } else { layer.inputs };
            // Residual layers start small: the sum passes nearly unchanged.
            let gain = if index < 2 { 6.0 } else { 0.6 };
            let limit = (gain / inputs as f32).sqrt();
            let drawn = &mut parameters[layer.matrix.clone()][..inputs * layer.outputs];
            drawn.iter_mut().for_each(|w| *w = (2.0 * stream.unit() - 1.0) * limit);
        }
        let limit = (1.0 / self.hidden as f32).sqrt();
        parameters[self.output.clone()].iter_mut().for_each(|w| *w = (2.0 * stream.unit() - 1.0) * limit);
        parameters
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_follow_one_another() {
        let shape = Shape::new(33, 64).unwrap();
        assert_eq!((shape.inputs, shape.layers[0].matrix.clone()), (64, 0..64 * 64));
        assert_eq!(shape.layers[3].bias.end, shape.output.start);
        assert_eq!(shape.len, 4 * (64 * 64 + 64) + 64);
        let initial = shape.initial(33, 1);
        assert_eq!(initial.len(), shape.len);
        assert!(initial[33 * 64..64 * 64].iter().all(|w| *w == 0.0));
        assert_ne!(initial, shape.initial(33, 2));
    }

    #[test]
    fn odd_sizes_are_refused() {
        assert!(Shape::new(4, 0).is_err());
        assert!(Shape::new(4, 33).is_err());
        assert!(Shape::new(4, 8192).is_err());
    }
}
