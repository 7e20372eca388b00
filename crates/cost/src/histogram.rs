//! Sums of gradients per bin, for four features at a time.

use crate::bins::{Block, LANES};

/// Gradient and hessian of one row.
pub type Gradient = [f32; 2];

/// One bin of a block: gradient and hessian sums of each lane, interleaved.
pub type Cell = [f64; 2 * LANES];

/// The histogram of a block. Indexing by a byte needs no bounds check.
pub type Cells = [Cell; 256];

/// The histogram of one node: a [`Cells`] per block.
pub struct Histogram {
    /// The blocks, in the order of [`crate::bins::Binned::blocks`].
    pub blocks: Vec<Cells>,
}

impl Histogram {
    /// All zeros, for `blocks` blocks.
    pub fn new(blocks: usize) -> Histogram {
        Histogram { blocks: vec![[[0.0; 2 * LANES]; 256]; blocks] }
    }
}

/// Adds the rows of a node to a block's histogram. `gradients` is parallel to `rows`.
pub fn add_rows(cells: &mut Cells, block: &Block, rows: &[u32], gradients: &[Gradient]) {
    for (&row, gradient) in rows.iter().zip(gradients) {
        let (g, h) = (f64::from(gradient[0]), f64::from(gradient[1]));
        let word = block.words[row as usize];
        for lane in 0..LANES {
            let cell = &mut cells[word[lane] as usize];
            cell[2 * lane] += g;
            cell[2 * lane + 1] += h;
        }
    }
}

/// Takes rows out of a block's histogram again: what remains is the histogram of the sibling.
pub fn remove_rows(cells: &mut Cells, block: &Block, rows: &[u32], gradients: &[Gradient]) {
    for (&row, gradient) in rows.iter().zip(gradients) {
        let (g, h) = (f64::from(gradient[0]), f64::from(gradient[1]));
        let word = block.words[row as usize];
        for lane in 0..LANES {
            let cell = &mut cells[word[lane] as usize];
            cell[2 * lane] -= g;
            cell[2 * lane + 1] -= h;
        }
    }
}

/// Turns the histogram of a parent into that of one child by subtracting the other child's.
pub fn subtract(parent: &mut [Cell], child: &[Cell]) {
    for (parent, child) in parent.as_flattened_mut().iter_mut().zip(child.as_flattened()) {
        *parent -= child;
    }
}
