//! Growing one tree: depth first, which finds the same tree as level by level (only the depth limits growth)
//! but keeps one histogram per level instead of one per node.

use crate::bins::{Binned, Block, LANES};
use crate::histogram::{Cell, Cells, Gradient, Histogram, add_rows, remove_rows, subtract};
use crate::split::{Finder, Rules, Split, Totals, better};
use crate::tree::Tree;

/// Nodes with at most this many rows find their split without a full histogram.
const FEW_ROWS: usize = 64;

/// Rows times blocks below which starting threads costs more than it saves.
const WORTH_THREADS: usize = 64 * 1024;

const EMPTY: Cell = [0.0; 2 * LANES];

/// What growing needs to know.
pub struct Settings<'a> {
    /// The training data in bins.
    pub binned: &'a Binned,
    /// When a split counts.
    pub rules: Rules,
    /// Levels of splits.
    pub max_depth: usize,
    /// Shrinkage.
    pub eta: f32,
    /// Threads to share the blocks of a node.
    pub threads: usize,
}

/// Memory that survives from tree to tree.
pub struct Buffers {
    /// Histograms not in use; their contents are stale.
    free: Vec<Histogram>,
    /// All zeros between uses.
    scratch: Box<Cells>,
    /// Right-hand rows of a partition in progress.
    rows: Vec<u32>,
    gradients: Vec<Gradient>,
}

impl Buffers {
    /// No histograms yet.
    pub fn new() -> Buffers {
        Buffers { free: Vec::new(), scratch: Box::new([EMPTY; 256]), rows: Vec::new(), gradients: Vec::new() }
    }
}

/// A node whose best split is known but not made.
struct Pending {
    node: usize,
    /// Its part of `Grower::rows`.
    start: usize,
    end: usize,
    depth: usize,
    split: Option<Split>,
    /// Present if the node has more than [`FEW_ROWS`] rows and may have grandchildren.
    histogram: Option<Histogram>,
}

/// One tree in the making.
struct Grower<'a> {
    settings: &'a Settings<'a>,
    allowed: &'a [bool],
    /// Training rows, those of a node consecutive, ascending within it.
    rows: &'a mut [u32],
    /// Parallel to `rows`.
    gradients: &'a mut [Gradient],
    buffers: &'a mut Buffers,
    tree: Tree,
}

/// Grows a tree on `rows`, whose gradients are parallel to them; both are reordered. `assign(row, value)` is
/// called once per row with the value of its leaf.
pub fn grow(
    settings: &Settings<'_>,
    allowed: &[bool],
    rows: &mut [u32],
    gradients: &mut [Gradient],
    buffers: &mut Buffers,
    mut assign: impl FnMut(u32, f32),
) -> Tree {
    let mut grower = Grower { settings, allowed, rows, gradients, buffers, tree: Tree::leaf() };
    let mut stack = vec![grower.root()];
    while let Some(mut node) = stack.pop() {
        let children = node.split.and_then(|split| grower.expand(&mut node, split));
        if let Some([left, right]) = children {
            stack.push(right);
            stack.push(left);
        } else {
            let value = grower.leaf_value(node.start, node.end);
            grower.tree.value[node.node] = value;
            for &row in &grower.rows[node.start..node.end] {
                assign(row, value);
            }
        }
        grower.buffers.free.extend(node.histogram);
    }
    grower.tree
}

/// Sums in a fixed order.
fn sum(gradients: &[Gradient]) -> Totals {
    gradients.iter().fold([0.0; 2], |sum, x| [sum[0] + f64::from(x[0]), sum[1] + f64::from(x[1])])
}

/// Folds `work` over items, in consecutive chunks on several threads when asked to. Splits do not depend on the
/// order in which they are compared, so neither does the result.
fn fold_blocks<T: Send, const N: usize>(
    items: Vec<T>,
    threads: usize,
    work: impl Fn(T, &mut [Option<Split>; N]) + Sync,
) -> [Option<Split>; N] {
    let fold = |items: Vec<T>| {
        let mut best = [None; N];
        for item in items {
            work(item, &mut best);
        }
        best
    };
    if threads <= 1 || items.len() <= 1 {
        return fold(items);
    }
    let per_thread = items.len().div_ceil(threads);
    let mut items = items.into_iter();
    let fold = &fold;
    std::thread::scope(|scope| {
        let first: Vec<T> = items.by_ref().take(per_thread).collect();
        let mut workers = Vec::new();
        while items.len() > 0 {
            let chunk: Vec<T> = items.by_ref().take(per_thread).collect();
            workers.push(scope.spawn(move || fold(chunk)));
        }
        workers.into_iter().fold(fold(first), |mut best, worker| {
            let found = match worker.join() {
                Ok(found) => found,
                Err(panic) => std::panic::resume_unwind(panic),
            };
            for (best, found) in best.iter_mut().zip(found) {
                *best = better(*best, found);
            }
            best
        })
    })
}

impl<'a> Grower<'a> {
    fn part(&self, start: usize, end: usize) -> (&[u32], &[Gradient]) {
        (&self.rows[start..end], &self.gradients[start..end])
    }

    fn finder(&self, start: usize, end: usize) -> Finder<'a> {
        Finder::new(self.settings.rules, sum(&self.gradients[start..end]), self.allowed)
    }

    fn leaf_value(&self, start: usize, end: usize) -> f32 {
        let [g, h] = sum(&self.gradients[start..end]);
        let weight = h + self.settings.rules.lambda;
        let value = if weight > 0.0 { (-g / weight) as f32 * self.settings.eta } else { 0.0 };
        if value.is_finite() { value } else { 0.0 }
    }

    fn take_histogram(&mut self) -> Histogram {
        self.buffers.free.pop().unwrap_or_else(|| Histogram::new(self.settings.binned.blocks.len()))
    }

    fn threads_for(&self, rows: usize) -> usize {
        let work = rows.saturating_mul(self.settings.binned.blocks.len());
        if work >= WORTH_THREADS { self.settings.threads } else { 1 }
    }

    /// The blocks this tree may use, each with its histogram.
    fn used<'h>(&self, histogram: &'h mut Histogram) -> Vec<(&'a Block, &'h mut Cells)> {
        let blocks = self.settings.binned.blocks.iter().zip(&mut histogram.blocks);
        blocks.filter(|(block, _)| block.used(self.allowed)).collect()
    }

    fn root(&mut self) -> Pending {
        let end = self.rows.len();
        let mut root = Pending { node: 0, start: 0, end, depth: 0, split: None, histogram: None };
        if end <= FEW_ROWS {
            root.split = self.split_few(0, end);
            return root;
        }
        let finder = self.finder(0, end);
        if finder.splittable() {
            let mut histogram = self.take_histogram();
            let (rows, gradients) = self.part(0, end);
            let items = self.used(&mut histogram);
            [root.split] = fold_blocks(items, self.threads_for(end), |(block, cells), [best]| {
                cells[..block.bins].fill(EMPTY);
                add_rows(cells, block, rows, gradients);
                *best = finder.scan(cells, block, *best);
            });
            root.histogram = Some(histogram);
        }
        root
    }

    /// The split of a node with few rows.
    fn split_few(&mut self, start: usize, end: usize) -> Option<Split> {
        let finder = self.finder(start, end);
        if end - start < 2 || !finder.splittable() {
            return None;
        }
        let (rows, gradients) = (&self.rows[start..end], &self.gradients[start..end]);
        finder.scan_rows(self.settings.binned, rows, gradients, &mut self.buffers.scratch)
    }

    /// Makes a node's split and finds those of its children. A split that separates nothing, which only
    /// rounding could propose, is refused.
    fn expand(&mut self, parent: &mut Pending, split: Split) -> Option<[Pending; 2]> {
        let (block, lane) = self.settings.binned.places[split.column as usize]?;
        let words = &self.settings.binned.blocks[block as usize].words;
        let (start, end) = (parent.start, parent.end);
        let middle = self.partition(start, end, |row| words[row as usize][lane as usize] <= split.bin);
        if middle == start || middle == end {
            return None;
        }
        let threshold = self.settings.binned.cuts[split.column as usize][split.bin as usize];
        let left = self.tree.split(parent.node, split.column as u16, threshold, split.gain as f32);
        let depth = parent.depth + 1;
        let child = |node, start, end| Pending { node, start, end, depth, split: None, histogram: None };
        let mut children = [child(left, start, middle), child(left + 1, middle, end)];
        if depth < self.settings.max_depth {
            let [left, right] = &mut children;
            let (small, large) = if middle - start <= end - middle { (left, right) } else { (right, left) };
            self.find_splits(parent.histogram.take(), small, large);
        }
        Some(children)
    }

    /// Finds the splits of two siblings from their parent's histogram, touching only the smaller one's rows.
    fn find_splits(&mut self, parent: Option<Histogram>, small: &mut Pending, large: &mut Pending) {
        let few = |node: &Pending| node.end - node.start <= FEW_ROWS;
        let Some(mut parent) = parent.filter(|_| !few(large)) else {
            small.split = self.split_few(small.start, small.end);
            large.split = self.split_few(large.start, large.end);
            return;
        };
        let finder = self.finder(large.start, large.end);
        let threads = self.threads_for(small.end - small.start);
        if few(small) {
            let (rows, gradients) = self.part(small.start, small.end);
            [large.split] = fold_blocks(self.used(&mut parent), threads, |(block, cells), [best]| {
                remove_rows(cells, block, rows, gradients);
                *best = finder.scan(cells, block, *best);
            });
            small.split = self.split_few(small.start, small.end);
        } else {
            let mut histogram = self.take_histogram();
            let small_finder = self.finder(small.start, small.end);
            let (rows, gradients) = self.part(small.start, small.end);
            let items = self.used(&mut histogram).into_iter().zip(self.used(&mut parent)).collect();
            [small.split, large.split] =
                fold_blocks(items, threads, |((block, cells), (_, rest)), [best, best_rest]| {
                    cells[..block.bins].fill(EMPTY);
                    add_rows(cells, block, rows, gradients);
                    subtract(&mut rest[..block.bins], &cells[..block.bins]);
                    *best = small_finder.scan(cells, block, *best);
                    *best_rest = finder.scan(rest, block, *best_rest);
                });
            small.histogram = Some(histogram);
        }
        large.histogram = Some(parent);
    }

    /// Moves the rows that go left to the front, keeping the order on both sides; returns where the right side
    /// starts.
    fn partition(&mut self, start: usize, end: usize, goes_left: impl Fn(u32) -> bool) -> usize {
        let Buffers { rows: right_rows, gradients: right_gradients, .. } = &mut *self.buffers;
        right_rows.clear();
        right_gradients.clear();
        let mut middle = start;
        for i in start..end {
            let (row, gradient) = (self.rows[i], self.gradients[i]);
            if goes_left(row) {
                self.rows[middle] = row;
                self.gradients[middle] = gradient;
                middle += 1;
            } else {
                right_rows.push(row);
                right_gradients.push(gradient);
            }
        }
        self.rows[middle..end].copy_from_slice(right_rows);
        self.gradients[middle..end].copy_from_slice(right_gradients);
        middle
    }
}
