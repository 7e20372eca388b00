//! Features quantised to at most 256 bins, so that a split is found from a histogram instead of a sort.
//!
//! Each feature has ascending *cuts*; the bin of `x` is the number of cuts `c` with `x >= c`. A split after
//! bin `b` sends `x >= cuts[b]` to the right, which is the same test prediction makes on the raw value.
//! Every value has a bin: infinities sort where they belong, and NaN, for which no comparison holds, falls
//! into bin 0 and always goes left, as if it were minus infinity.

use crate::matrix::Matrix;

/// Features share a histogram in blocks of four: one word of bins per row and block.
pub const LANES: usize = 4;

/// Rows looked at to place the cuts of a feature; more rows are sampled at a fixed stride.
const SKETCH_ROWS: usize = 1 << 16;

/// Four features with similar numbers of bins.
#[derive(Debug, Clone)]
pub struct Block {
    /// The matrix column of each lane; unused lanes repeat the first column and are never split on.
    pub columns: [u32; LANES],
    /// Lanes in use.
    pub lanes: usize,
    /// The largest number of bins of a lane.
    pub bins: usize,
    /// The bins of every row.
    pub words: Vec<[u8; LANES]>,
}

/// A matrix in bins. Columns with a single bin cannot be split and are in no block.
#[derive(Debug, Clone)]
pub struct Binned {
    /// Blocks, narrow ones first.
    pub blocks: Vec<Block>,
    /// Where each column went: block and lane.
    pub places: Vec<Option<(u32, u32)>>,
    /// The cuts of each column.
    pub cuts: Vec<Vec<f32>>,
}

/// Maps a number to an integer of the same order; NaN below everything.
fn order_key(x: f32) -> u32 {
    if x.is_nan() {
        return 0;
    }
    let bits = (x + 0.0).to_bits();
    if bits >> 31 == 1 { !bits } else { bits | (1 << 31) }
}

/// The inverse of [`order_key`] for numbers.
fn key_value(key: u32) -> f32 {
    f32::from_bits(if key >> 31 == 1 { key ^ (1 << 31) } else { !key })
}

/// A finite number `c` with `low < c <= high`, if there is one: the border between two neighbours.
fn border(low: f32, high: f32) -> Option<f32> {
    let middle = low + (high - low) / 2.0;
    let cut = match (low.is_finite(), high.is_finite()) {
        (true, true) if middle.is_finite() && middle > low => middle,
        (_, true) => high,
        (true, false) => f32::MAX,
        (false, false) => 0.0,
    };
    (low < cut && cut <= high).then_some(cut)
}

/// Cuts that spread the sorted `keys` evenly over at most `max_bins` bins; one bin per distinct value where
/// that suffices.
fn place_cuts(keys: &[u32], max_bins: usize) -> Vec<f32> {
    let distinct = keys.chunk_by(|a, b| a == b);
    let exact = distinct.clone().take(max_bins + 1).count() <= max_bins;
    let value = |key: u32| if key == 0 { f32::NEG_INFINITY } else { key_value(key) };
    let mut cuts = Vec::new();
    let (mut in_bin, mut seen) = (0usize, 0usize);
    let mut previous: Option<u32> = None;
    for run in distinct {
        if let Some(previous) = previous {
            let bins_left = max_bins - cuts.len();
            let share = (keys.len() - (seen - in_bin)).div_ceil(bins_left.max(1));
            let full = exact || in_bin >= share || in_bin + run.len() / 2 > share;
            if full
                && bins_left > 1
                && let Some(cut) = border(value(previous), value(run[0]))
            {
                cuts.push(cut);
                in_bin = 0;
            }
        }
        previous = Some(run[0]);
        in_bin += run.len();
        seen += run.len();
    }
    cuts
}

/// The number of cuts not above `x`.
fn bin_of(cuts: &[f32], x: f32) -> u8 {
    cuts.partition_point(|&cut| x >= cut) as u8
}

impl Binned {
    /// Quantises every column of `data` to at most `max_bins` (2 to 256) bins.
    pub fn new(data: &Matrix, max_bins: usize) -> Binned {
        let (rows, cols) = (data.rows(), data.cols());
        let stride = rows.div_ceil(SKETCH_ROWS).max(1);
        let mut keys = Vec::new();
        let cuts: Vec<Vec<f32>> = (0..cols)
            .map(|col| {
                keys.clear();
                keys.extend((0..rows).step_by(stride).map(|row| order_key(data.data()[row * cols + col])));
                keys.sort_unstable();
                place_cuts(&keys, max_bins)
            })
            .collect();
        let mut active: Vec<usize> = (0..cols).filter(|&col| !cuts[col].is_empty()).collect();
        active.sort_by_key(|&col| (cuts[col].len(), col));
        let mut places = vec![None; cols];
        let blocks = active
            .chunks(LANES)
            .enumerate()
            .map(|(index, columns)| {
                for (lane, &col) in columns.iter().enumerate() {
                    places[col] = Some((index as u32, lane as u32));
                }
                Block::new(data, columns, &cuts)
            })
            .collect();
        Binned { blocks, places, cuts }
    }
}

impl Block {
    /// Whether a tree that may use the `allowed` columns may use any lane.
    pub fn used(&self, allowed: &[bool]) -> bool {
        self.columns[..self.lanes].iter().any(|&column| allowed[column as usize])
    }

    fn new(data: &Matrix, columns: &[usize], cuts: &[Vec<f32>]) -> Block {
        let column = |lane: usize| columns[if lane < columns.len() { lane } else { 0 }];
        let words = (0..data.rows())
            .map(|row| {
                let row = data.row(row);
                std::array::from_fn(|lane| bin_of(&cuts[column(lane)], row[column(lane)]))
            })
            .collect();
        Block {
            columns: std::array::from_fn(|lane| column(lane) as u32),
            lanes: columns.len(),
            bins: columns.iter().map(|&col| cuts[col].len() + 1).max().unwrap_or(1),
            words,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cuts_of(values: &[f32], max_bins: usize) -> Vec<f32> {
        let mut keys: Vec<u32> = values.iter().map(|&x| order_key(x)).collect();
        keys.sort_unstable();
        place_cuts(&keys, max_bins)
    }

    #[test]
    fn few_distinct_values_get_a_bin_each() {
        let cuts = cuts_of(&[3.0, 1.0, 2.0, 1.0, 3.0], 256);
        assert_eq!(cuts, [1.5, 2.5]);
        assert_eq!([1.0, 2.0, 3.0].map(|x| bin_of(&cuts, x)), [0, 1, 2]);
    }

    #[test]
    fn a_constant_column_has_no_cut() {
        assert!(cuts_of(&[7.0; 9], 256).is_empty());
        assert!(cuts_of(&[0.0, -0.0], 256).is_empty());
        assert!(cuts_of(&[f32::NAN, f32::NEG_INFINITY], 256).is_empty());
        let data = Matrix::new(3, 2, vec![1.0, 5.0, 1.0, 6.0, 1.0, 7.0]).unwrap();
        let binned = Binned::new(&data, 256);
        assert_eq!(binned.places, [None, Some((0, 0))]);
        assert_eq!((binned.blocks[0].lanes, binned.blocks[0].bins), (1, 3));
    }

    #[test]
    fn many_values_spread_evenly() {
        let values: Vec<f32> = (0..10_000).map(|i| (i as f32).sqrt()).collect();
        let cuts = cuts_of(&values, 64);
        assert_eq!(cuts.len(), 63);
        let mut counts = [0usize; 64];
        for &x in &values {
            counts[bin_of(&cuts, x) as usize] += 1;
        }
        assert!(counts.iter().all(|&n| (100..=220).contains(&n)), "{counts:?}");
    }

    #[test]
    fn infinities_and_nan_have_bins() {
        let values = [f32::NAN, f32::NEG_INFINITY, -1.0, 2.0, f32::MAX, f32::INFINITY];
        let cuts = cuts_of(&values, 256);
        assert!(cuts.iter().all(|cut| cut.is_finite()));
        let bins = values.map(|x| bin_of(&cuts, x));
        assert_eq!(bins, [0, 0, 1, 2, 3, 3]);
        assert_eq!(cuts_of(&[f32::NEG_INFINITY, f32::INFINITY], 256), [0.0]);
    }

    proptest! {
        #[test]
        fn bins_respect_order_and_limit(
            values in prop::collection::vec(prop_oneof![any::<f32>(), (0..9i32).prop_map(|x| x as f32)], 1..200),
            max_bins in 2usize..=256,
        ) {
            let cuts = cuts_of(&values, max_bins);
            prop_assert!(cuts.len() < max_bins);
            prop_assert!(cuts.windows(2).all(|w| w[0] < w[1]));
            for &x in &values {
                for &y in &values {
                    if x <= y {
                        prop_assert!(bin_of(&cuts, x) <= bin_of(&cuts, y));
                    }
                }
            }
        }

        #[test]
        fn order_keys_invert(x in any::<f32>()) {
            if !x.is_nan() {
                prop_assert_eq!(key_value(order_key(x)), x);
            }
        }
    }
}
