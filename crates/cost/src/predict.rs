//! Fast prediction: all trees flattened into arrays of eight-byte nodes, walked by several rows at once.
//!
//! Every row takes as many steps as the tree is deep. A leaf compares with NaN, which is never true, and is its
//! own left child, so arriving early means standing still and there is no branch to mispredict. Independent
//! rows keep the processor busy while each waits for its loads.

use crate::error::CostError;
use crate::matrix::Matrix;
use crate::tree::Tree;

/// Rows that walk a tree together.
const GROUP: usize = 16;

/// Rows that meet one tree before the next: enough to pay for bringing the tree into the cache.
const CHUNK: usize = 128;

/// A node; `next` is relative to the first node of its tree.
#[derive(Debug, Clone, Copy)]
struct Node {
    threshold: f32,
    feature: u16,
    next: u16,
}

/// Trees ready for prediction.
#[derive(Debug, Clone, Default)]
pub(crate) struct Flat {
    cols: usize,
    nodes: Vec<Node>,
    /// Parallel to `nodes`; meaningful at leaves.
    values: Vec<f32>,
    /// First node and depth of each tree.
    trees: Vec<(usize, usize)>,
}

impl Flat {
    /// Flattens trees over `cols` columns, refusing any on which walking would not be safe.
    pub fn new(trees: &[Tree], cols: usize) -> Result<Flat, CostError> {
        let mut flat = Flat { cols, ..Flat::default() };
        for (index, tree) in trees.iter().enumerate() {
            tree.check(index, cols)?;
            flat.trees.push((flat.nodes.len(), tree.depth()));
            flat.nodes.extend((0..tree.len()).map(|node| match tree.left[node] {
                0 => Node { threshold: f32::NAN, feature: 0, next: node as u16 },
                left => Node { threshold: tree.threshold[node], feature: tree.feature[node], next: left },
            }));
            flat.values.extend_from_slice(&tree.value);
        }
        Ok(flat)
    }

    /// Adds the prediction of every tree, in order, to `out`, one entry per row of `data`.
    pub fn add_to(&self, data: &Matrix, out: &mut [f32]) {
        if self.cols == 0 || data.cols() != self.cols {
            return;
        }
        for (rows, out) in data.data().chunks(CHUNK * self.cols).zip(out.chunks_mut(CHUNK)) {
            for &(first, depth) in &self.trees {
                let mut groups = rows.chunks_exact(GROUP * self.cols).zip(out.chunks_exact_mut(GROUP));
                for (rows, out) in &mut groups {
                    self.walk::<GROUP>(first, depth, rows, out);
                }
                let done = out.len() / GROUP * GROUP;
                let rest =
                    rows[done * self.cols..].chunks_exact(self.cols).zip(out[done..].chunks_exact_mut(1));
                for (row, out) in rest {
                    self.walk::<1>(first, depth, row, out);
                }
            }
        }
    }

    /// Adds one tree's prediction for `N` rows.
    #[inline]
    fn walk<const N: usize>(&self, first: usize, depth: usize, rows: &[f32], out: &mut [f32]) {
        assert!(rows.len() == N * self.cols && out.len() == N);
        let nodes = &self.nodes[first..];
        let mut at = [0usize; N];
        for _ in 0..depth {
            for (lane, at) in at.iter_mut().enumerate() {
                // SAFETY: `at` is 0 or a child of a node of this tree, which `Tree::check` has shown to be
                // inside the tree; a feature is below `cols`, which it has shown too (0 at leaves, and `cols`
                // is not 0), so `lane * cols + feature` is below `N * cols`, the length asserted above.
                unsafe {
                    let node = nodes.get_unchecked(*at);
                    let x = *rows.get_unchecked(lane * self.cols + node.feature as usize);
                    *at = node.next as usize + usize::from(x >= node.threshold);
                }
            }
        }
        let values = &self.values[first..];
        for (out, at) in out.iter_mut().zip(at) {
            *out += values[at];
        }
    }
}
