//! The best split of a node, from histograms.
//!
//! For gradient sums `G`, `H` the best leaf improves the loss by `G^2 / (H + lambda)` (times one half); a split
//! is worth `GL^2 / (HL + lambda) + GR^2 / (HR + lambda) - G^2 / (H + lambda)`, its *gain*.

use crate::bins::{Binned, Block, LANES};
use crate::histogram::{Cell, Cells, Gradient};

/// Sums of gradient and hessian.
pub type Totals = [f64; 2];

/// A split after a bin of a column: larger bins go right.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Split {
    /// Loss reduction, parent's term included.
    pub gain: f64,
    /// Matrix column.
    pub column: u32,
    /// The last bin that goes left.
    pub bin: u8,
}

impl Split {
    /// Larger gain wins; ties go to the lower column, so that the order of evaluation does not matter.
    fn beats(&self, other: &Option<Split>) -> bool {
        other.is_none_or(|other| {
            self.gain > other.gain || (self.gain == other.gain && self.column < other.column)
        })
    }
}

/// Keeps the better of two splits.
pub fn better(a: Option<Split>, b: Option<Split>) -> Option<Split> {
    match b {
        Some(split) if split.beats(&a) => b,
        _ => a,
    }
}

/// What a split must satisfy.
#[derive(Debug, Clone, Copy)]
pub struct Rules {
    /// Penalty on leaf values.
    pub lambda: f64,
    /// Smallest useful gain.
    pub gamma: f64,
    /// Least hessian on either side.
    pub min_child_weight: f64,
}

/// The term of one leaf in the gain.
pub fn score(totals: Totals, lambda: f64) -> f64 {
    let weight = totals[1] + lambda;
    if weight > 0.0 { totals[0] * totals[0] / weight } else { 0.0 }
}

/// Both leaf terms over one denominator: one division per candidate split.
#[inline(always)]
fn pair_score(gl: f64, hl: f64, totals: Totals, lambda: f64) -> f64 {
    let (gr, hr) = (totals[0] - gl, totals[1] - hl);
    let (wl, wr) = (hl + lambda, hr + lambda);
    (gl * gl * wr + gr * gr * wl) / (wl * wr)
}

/// The split finder of one node.
#[derive(Debug, Clone, Copy)]
pub struct Finder<'a> {
    allowed: &'a [bool],
    totals: Totals,
    lambda: f64,
    floor: f64,
    parent: f64,
    needed: f64,
}

impl<'a> Finder<'a> {
    /// A finder for a node with the given totals, in a tree that may use the `allowed` columns.
    pub fn new(rules: Rules, totals: Totals, allowed: &'a [bool]) -> Finder<'a> {
        let parent = score(totals, rules.lambda);
        Finder {
            allowed,
            totals,
            lambda: rules.lambda,
            // An empty side may hold rounding errors of the subtraction; it must not count as a child.
            floor: rules.min_child_weight.max(1e-10 * totals[1]).max(f64::MIN_POSITIVE),
            parent,
            needed: rules.gamma.max(1e-9 * parent),
        }
    }

    /// Whether any split could satisfy the rules.
    pub fn splittable(&self) -> bool {
        self.totals[1] >= 2.0 * self.floor
    }

    fn admissible(&self, hl: f64) -> bool {
        hl >= self.floor && self.totals[1] - hl >= self.floor
    }

    /// A split if its gain is enough.
    fn judge(&self, pair: f64, column: u32, bin: usize) -> Option<Split> {
        let gain = pair - self.parent;
        (gain > self.needed).then_some(Split { gain, column, bin: bin as u8 })
    }

    /// The better of `best` and the best split of a block, from its full histogram.
    pub fn scan(&self, cells: &Cells, block: &Block, best: Option<Split>) -> Option<Split> {
        let cells = &cells[..block.bins - 1];
        let tops = lane_maxima(cells, self.totals, self.lambda, self.floor);
        let mut best = best;
        for (lane, &top) in tops.iter().enumerate().take(block.lanes) {
            let column = block.columns[lane];
            let promising = top - self.parent >= best.map_or(self.needed, |best| best.gain);
            if promising && self.allowed[column as usize] {
                best = better(best, self.scan_lane(cells, lane, column));
            }
        }
        best
    }

    /// The first best split of one lane.
    fn scan_lane(&self, cells: &[Cell], lane: usize, column: u32) -> Option<Split> {
        let (mut gl, mut hl) = (0.0, 0.0);
        let mut top = (f64::NEG_INFINITY, 0);
        for (bin, cell) in cells.iter().enumerate() {
            gl += cell[2 * lane];
            hl += cell[2 * lane + 1];
            if self.admissible(hl) {
                let pair = pair_score(gl, hl, self.totals, self.lambda);
                if pair > top.0 {
                    top = (pair, bin);
                }
            }
        }
        self.judge(top.0, column, top.1)
    }

    /// The best split of a node with few rows: visits only bins that hold rows. `scratch` is all zeros before
    /// and after.
    pub fn scan_rows(
        &self,
        binned: &Binned,
        rows: &[u32],
        gradients: &[Gradient],
        scratch: &mut Cells,
    ) -> Option<Split> {
        let mut best = None;
        for block in binned.blocks.iter().filter(|block| block.used(self.allowed)) {
            let mut touched = [[0u64; 4]; LANES];
            for (&row, gradient) in rows.iter().zip(gradients) {
                let word = block.words[row as usize];
                for lane in 0..LANES {
                    let bin = word[lane] as usize;
                    touched[lane][bin / 64] |= 1 << (bin % 64);
                    scratch[bin][2 * lane] += f64::from(gradient[0]);
                    scratch[bin][2 * lane + 1] += f64::from(gradient[1]);
                }
            }
            for (lane, touched) in touched.into_iter().enumerate() {
                let column = block.columns[lane];
                let wanted = lane < block.lanes && self.allowed[column as usize];
                let found = self.drain_lane(scratch, lane, touched, column);
                if wanted {
                    best = better(best, found);
                }
            }
        }
        best
    }

    /// Scans the touched bins of a lane and zeroes them.
    fn drain_lane(&self, cells: &mut Cells, lane: usize, touched: [u64; 4], column: u32) -> Option<Split> {
        let (mut gl, mut hl) = (0.0, 0.0);
        let mut top = (f64::NEG_INFINITY, 0);
        for (word, mut bits) in touched.into_iter().enumerate() {
            while bits != 0 {
                let bin = word * 64 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                let cell = &mut cells[bin];
                gl += std::mem::take(&mut cell[2 * lane]);
                hl += std::mem::take(&mut cell[2 * lane + 1]);
                if self.admissible(hl) {
                    let pair = pair_score(gl, hl, self.totals, self.lambda);
                    if pair > top.0 {
                        top = (pair, bin);
                    }
                }
            }
        }
        self.judge(top.0, column, top.1)
    }
}

/// The best pair score of each lane over all splits of a block; the hot loop of training, compiled for
/// AVX2 too. Both versions do the same operations in the same order, so they agree to the bit.
fn lane_maxima(cells: &[Cell], totals: Totals, lambda: f64, floor: f64) -> [f64; LANES] {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2, the only requirement of the function.
        return unsafe { lane_maxima_avx2(cells, totals, lambda, floor) };
    }
    lane_maxima_portable(cells, totals, lambda, floor)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn lane_maxima_avx2(cells: &[Cell], totals: Totals, lambda: f64, floor: f64) -> [f64; LANES] {
    lane_maxima_portable(cells, totals, lambda, floor)
}

#[inline(always)]
fn lane_maxima_portable(cells: &[Cell], totals: Totals, lambda: f64, floor: f64) -> [f64; LANES] {
    let mut gl = [0.0; LANES];
    let mut hl = [0.0; LANES];
    let mut top = [f64::NEG_INFINITY; LANES];
    for cell in cells {
        for lane in 0..LANES {
            gl[lane] += cell[2 * lane];
            hl[lane] += cell[2 * lane + 1];
            let pair = pair_score(gl[lane], hl[lane], totals, lambda);
            let low = if hl[lane] < totals[1] - hl[lane] { hl[lane] } else { totals[1] - hl[lane] };
            let pair = if low >= floor { pair } else { f64::NEG_INFINITY };
            top[lane] = if pair > top[lane] { pair } else { top[lane] };
        }
    }
    top
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::histogram::{add_rows, remove_rows, subtract};
    use crate::matrix::Matrix;

    const RULES: Rules = Rules { lambda: 1.0, gamma: 0.0, min_child_weight: 0.5 };

    fn totals(rows: &[u32], gradients: &[Gradient]) -> Totals {
        let sum = |k: usize| rows.iter().map(|&row| f64::from(gradients[row as usize][k])).sum();
        [sum(0), sum(1)]
    }

    /// The best gain over all columns and all thresholds between values, by definition.
    fn brute_force(data: &Matrix, rows: &[u32], gradients: &[Gradient], rules: Rules) -> f64 {
        let all = totals(rows, gradients);
        let mut best = 0.0f64;
        for column in 0..data.cols() {
            for &at in rows {
                let threshold = data.row(at as usize)[column];
                let left: Vec<u32> =
                    rows.iter().copied().filter(|&row| data.row(row as usize)[column] < threshold).collect();
                let left = totals(&left, gradients);
                let right = [all[0] - left[0], all[1] - left[1]];
                if left[1] >= rules.min_child_weight && right[1] >= rules.min_child_weight {
                    let gain =
                        score(left, rules.lambda) + score(right, rules.lambda) - score(all, rules.lambda);
                    best = best.max(gain);
                }
            }
        }
        best
    }

    fn gather(rows: &[u32], gradients: &[Gradient]) -> Vec<Gradient> {
        rows.iter().map(|&row| gradients[row as usize]).collect()
    }

    fn dense(binned: &Binned, rows: &[u32], gradients: &[Gradient]) -> Vec<Cells> {
        binned
            .blocks
            .iter()
            .map(|block| {
                let mut cells = [[0.0; 8]; 256];
                add_rows(&mut cells, block, rows, &gather(rows, gradients));
                cells
            })
            .collect()
    }

    fn scan_all(finder: &Finder<'_>, binned: &Binned, cells: &[Cells]) -> Option<Split> {
        binned.blocks.iter().zip(cells).fold(None, |best, (block, cells)| finder.scan(cells, block, best))
    }

    proptest! {
        #[test]
        fn histogram_gain_equals_brute_force(
            cols in 1usize..7,
            cells in prop::collection::vec(-4i8..5, 6..240),
            gradients in prop::collection::vec((-3.0f32..3.0, 0.1f32..2.0), 240),
            keep in prop::collection::vec(any::<bool>(), 240),
        ) {
            let rows = cells.len() / cols;
            prop_assume!(rows > 0);
            let data = cells[..rows * cols].iter().map(|&x| f32::from(x)).collect();
            let data = Matrix::new(rows, cols, data).unwrap();
            let gradients: Vec<Gradient> = gradients.iter().map(|&(g, h)| [g, h]).collect();
            let binned = Binned::new(&data, 256);
            let all: Vec<u32> = (0..rows as u32).collect();
            let some: Vec<u32> = all.iter().copied().filter(|&row| keep[row as usize]).collect();
            let rest: Vec<u32> = all.iter().copied().filter(|&row| !keep[row as usize]).collect();
            let allowed = vec![true; cols];
            let mut parent = dense(&binned, &all, &gradients);
            let mut removed = parent.clone();
            let child = dense(&binned, &rest, &gradients);
            for ((parent, removed), (child, block)) in
                parent.iter_mut().zip(&mut removed).zip(child.iter().zip(&binned.blocks))
            {
                subtract(parent, child);
                remove_rows(removed, block, &rest, &gather(&rest, &gradients));
            }

            let finder = Finder::new(RULES, totals(&some, &gradients), &allowed);
            let expected = brute_force(&data, &some, &gradients, RULES);
            let gain = |split: Option<Split>| split.map_or(0.0, |split| split.gain);
            let close = |x: f64| (x - expected).abs() <= 1e-6 * (1.0 + expected);
            prop_assert!(close(gain(scan_all(&finder, &binned, &parent))), "subtracted");
            prop_assert!(close(gain(scan_all(&finder, &binned, &removed))), "removed");
            let direct = scan_all(&finder, &binned, &dense(&binned, &some, &gradients));
            prop_assert!(close(gain(direct)), "direct");

            let mut scratch = [[0.0; 8]; 256];
            let sparse = finder.scan_rows(&binned, &some, &gather(&some, &gradients), &mut scratch);
            prop_assert_eq!(sparse, direct);
            prop_assert!(scratch.as_flattened().iter().all(|&x| x == 0.0));
        }
    }

    #[test]
    fn versions_agree_to_the_bit() {
        let mut stream = crate::random::Stream::new(1, 1);
        let cells: Vec<Cell> = (0..200).map(|_| std::array::from_fn(|_| f64::from(stream.unit()))).collect();
        let totals = [100.0, 120.0];
        let portable = lane_maxima_portable(&cells, totals, 1.0, 0.1);
        assert_eq!(lane_maxima(&cells, totals, 1.0, 0.1).map(f64::to_bits), portable.map(f64::to_bits));
    }

    #[test]
    fn forbidden_columns_are_not_split() {
        let data = Matrix::new(4, 2, vec![0., 0., 0., 1., 1., 0., 1., 1.]).unwrap();
        let binned = Binned::new(&data, 256);
        let gradients = [[-1.0, 1.0], [-1.0, 1.0], [1.0, 1.0], [1.0, 1.0]];
        let rows = [0, 1, 2, 3];
        let cells = dense(&binned, &rows, &gradients);
        let find = |allowed: &[bool]| {
            scan_all(&Finder::new(RULES, totals(&rows, &gradients), allowed), &binned, &cells)
        };
        assert_eq!(find(&[true, true]).map(|split| split.column), Some(0));
        assert_eq!(find(&[false, true]), None);
    }
}
