//! One regression tree, as it is stored and explained.

use serde::{Deserialize, Serialize};

use crate::error::CostError;
use crate::params::MAX_DEPTH;

/// A binary tree in arrays. Node 0 is the root; the children of an inner node are `left[i]` and `left[i] + 1`,
/// both behind it; `left[i] == 0` marks a leaf.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Tree {
    /// The column an inner node looks at.
    pub(crate) feature: Vec<u16>,
    /// Values `>=` this go right; all others, NaN included, go left.
    pub(crate) threshold: Vec<f32>,
    /// The left child, or 0 for a leaf.
    pub(crate) left: Vec<u16>,
    /// What a leaf adds to the prediction, shrinkage included.
    pub(crate) value: Vec<f32>,
    /// The loss reduction of an inner node's split.
    pub(crate) gain: Vec<f32>,
}

impl Tree {
    /// A tree that is one leaf of value 0.
    pub(crate) fn leaf() -> Tree {
        let mut tree = Tree::default();
        tree.push();
        tree
    }

    fn push(&mut self) {
        self.feature.push(0);
        self.threshold.push(0.0);
        self.left.push(0);
        self.value.push(0.0);
        self.gain.push(0.0);
    }

    /// Number of nodes.
    pub fn len(&self) -> usize {
        self.left.len()
    }

    /// Whether there is no node at all, which no grown tree is.
    pub fn is_empty(&self) -> bool {
        self.left.is_empty()
    }

    /// Turns a leaf into an inner node and returns its left child.
    pub(crate) fn split(&mut self, node: usize, feature: u16, threshold: f32, gain: f32) -> usize {
        let left = self.len();
        self.push();
        self.push();
        self.feature[node] = feature;
        self.threshold[node] = threshold;
        self.left[node] = left as u16;
        self.gain[node] = gain;
        left
    }

    /// The prediction for one row, which must have the model's columns, by walking down: the definition that
    /// fast prediction must match.
    pub fn predict(&self, row: &[f32]) -> f32 {
        let mut node = 0;
        while self.left[node] != 0 {
            let right = row[self.feature[node] as usize] >= self.threshold[node];
            node = self.left[node] as usize + usize::from(right);
        }
        self.value[node]
    }

    /// Levels of splits: 0 for a leaf.
    pub fn depth(&self) -> usize {
        let mut depth = vec![0usize; self.len()];
        for node in 0..self.len() {
            if self.left[node] != 0 {
                let left = self.left[node] as usize;
                depth[left] = depth[node] + 1;
                depth[left + 1] = depth[node] + 1;
            }
        }
        depth.into_iter().max().unwrap_or(0)
    }

    /// Checks everything prediction relies on, for a tree that comes from outside.
    pub(crate) fn check(&self, index: usize, cols: usize) -> Result<(), CostError> {
        let damaged = |node, problem| CostError::Damaged { tree: index, node, problem };
        let len = self.len();
        let arrays = [self.feature.len(), self.threshold.len(), self.value.len(), self.gain.len()];
        if len == 0 || len > 1 << (MAX_DEPTH + 1) || arrays.iter().any(|&n| n != len) {
            return Err(damaged(0, "its arrays are empty, too long or of different lengths"));
        }
        for node in 0..len {
            let left = self.left[node] as usize;
            if left != 0 && (left <= node || left + 1 >= len) {
                return Err(damaged(node, "its children are not behind it"));
            }
            if left != 0 && self.feature[node] as usize >= cols {
                return Err(damaged(node, "it looks at a column that does not exist"));
            }
            if !self.threshold[node].is_finite() || !self.value[node].is_finite() {
                return Err(damaged(node, "its threshold or value is not finite"));
            }
        }
        if self.depth() > MAX_DEPTH {
            return Err(damaged(0, "it is too deep"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn walking_follows_the_thresholds() {
        let mut tree = Tree::leaf();
        let left = tree.split(0, 1, 2.0, 1.0);
        tree.value[left] = -1.0;
        tree.value[left + 1] = 1.0;
        assert_eq!(tree.depth(), 1);
        for (x, expected) in
            [(1.9, -1.0), (2.0, 1.0), (f32::INFINITY, 1.0), (f32::NEG_INFINITY, -1.0), (f32::NAN, -1.0)]
        {
            assert_eq!(tree.predict(&[0.0, x]), expected, "{x}");
        }
    }

    #[test]
    fn damage_is_found() {
        let mut good = Tree::leaf();
        good.split(0, 1, 2.0, 1.0);
        assert!(good.check(0, 2).is_ok());
        assert!(good.check(0, 1).is_err());
        for damage in [
            (|tree: &mut Tree| tree.left[0] = 2) as fn(&mut Tree),
            |tree| tree.left[1] = 1,
            |tree| tree.threshold[0] = f32::NAN,
            |tree| tree.value.clear(),
        ] {
            let mut bad = good.clone();
            damage(&mut bad);
            assert!(bad.check(3, 2).is_err(), "{bad:?}");
        }
    }
}
