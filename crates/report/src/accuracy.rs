//! How well a cost model ranks what is measured after it: only the order of scores matters to a search.

use crate::report::Accuracy;
use crate::thinning::short;

/// Fewer samples with a score say nothing.
const LEAST: usize = 8;
/// Pairs are counted on at most so many samples, evenly chosen.
const MOST_PAIRED: usize = 300;

/// Ranks of values, ties sharing their mean.
fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
    let mut out = vec![0.0; values.len()];
    let mut start = 0;
    while start < order.len() {
        let same = order[start..].iter().take_while(|at| values[**at] == values[order[start]]).count();
        let mean = start as f64 + (same as f64 - 1.0) / 2.0;
        order[start..start + same].iter().for_each(|at| out[*at] = mean);
        start += same;
    }
    out
}

/// The correlation of two lists; zero where one of them is constant.
fn correlation(a: &[f64], b: &[f64]) -> f64 {
    let mean = |v: &[f64]| v.iter().sum::<f64>() / v.len() as f64;
    let (ma, mb) = (mean(a), mean(b));
    let (mut ab, mut aa, mut bb) = (0.0, 0.0, 0.0);
    for (x, y) in a.iter().zip(b) {
        let (dx, dy) = (x - ma, y - mb);
        (ab, aa, bb) = (ab + dx * dy, aa + dx * dx, bb + dy * dy);
    }
    if aa > 0.0 && bb > 0.0 { ab / (aa * bb).sqrt() } else { 0.0 }
}

/// Compares what was expected with what was measured, in any units that grow together: `(expected, measured)`.
pub fn accuracy(pairs: &[(f64, f64)]) -> Option<Accuracy> {
    if pairs.len() < LEAST {
        return None;
    }
    let (expected, measured): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
    let rank = correlation(&ranks(&expected), &ranks(&measured));
    let step = pairs.len().div_ceil(MOST_PAIRED);
    let few: Vec<&(f64, f64)> = pairs.iter().step_by(step).collect();
    let (mut right, mut all) = (0.0, 0.0);
    for (at, a) in few.iter().enumerate() {
        for b in &few[at + 1..] {
            let order = (a.0 - b.0) * (a.1 - b.1);
            if a.1 != b.1 {
                all += 1.0;
                right += if order > 0.0 {
                    1.0
                } else if order == 0.0 {
                    0.5
                } else {
                    0.0
                };
            }
        }
    }
    let share = if all > 0.0 { right / all } else { 0.5 };
    Some(Accuracy { samples: pairs.len(), rank: short(rank), pairs: short(share) })
}

/// The means of several accuracies, each counting as often as it has samples.
pub fn together(parts: &[Accuracy]) -> Option<Accuracy> {
    let samples: usize = parts.iter().map(|p| p.samples).sum();
    let mean = |of: fn(&Accuracy) -> f64| {
        short(parts.iter().map(|p| of(p) * p.samples as f64).sum::<f64>() / samples as f64)
    };
    (samples > 0).then(|| Accuracy { samples, rank: mean(|p| p.rank), pairs: mean(|p| p.pairs) })
}

/// The line `y = a + b x` nearest to points; `None` where there is none that says something.
pub fn line(points: &[(f64, f64)]) -> Option<(f64, f64)> {
    let n = points.len() as f64;
    let (mx, my) = points.iter().fold((0.0, 0.0), |(x, y), p| (x + p.0 / n, y + p.1 / n));
    let xx: f64 = points.iter().map(|p| (p.0 - mx).powi(2)).sum();
    let xy: f64 = points.iter().map(|p| (p.0 - mx) * (p.1 - my)).sum();
    // Sums of equal numbers are rounded: what is left of them is no spread.
    let spreads = xx > 1e-12 * n * (1e-12 + mx * mx);
    (points.len() >= LEAST && spreads).then(|| (my - mx * xy / xx, xy / xx))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn perfect_reversed_and_constant_orders() {
        let of = |f: fn(f64) -> f64| {
            accuracy(&(0..20).map(|i| (f(f64::from(i)), f64::from(i * i))).collect::<Vec<_>>()).unwrap()
        };
        assert_eq!((of(|x| x.exp()).rank, of(|x| x.exp()).pairs), (1.0, 1.0));
        assert_eq!((of(|x| -x).rank, of(|x| -x).pairs), (-1.0, 0.0));
        assert_eq!((of(|_| 3.0).rank, of(|_| 3.0).pairs), (0.0, 0.5));
        assert_eq!(accuracy(&[(1.0, 1.0); 3]), None);
    }

    #[test]
    fn ties_share_a_rank_and_parts_are_weighted() {
        assert_eq!(ranks(&[3.0, 1.0, 3.0, 2.0]), [2.5, 0.0, 2.5, 1.0]);
        let part = |samples, rank| Accuracy { samples, rank, pairs: 0.5 };
        assert_eq!(together(&[part(10, 1.0), part(30, 0.0)]), Some(part(40, 0.25)));
        assert_eq!(together(&[]), None);
    }

    #[test]
    fn a_line_goes_through_points_of_a_line() {
        let points: Vec<(f64, f64)> = (0..10).map(|i| (f64::from(i), 2.0 - 0.5 * f64::from(i))).collect();
        let (a, b) = line(&points).unwrap();
        assert!((a - 2.0).abs() < 1e-9 && (b + 0.5).abs() < 1e-9);
        assert_eq!(line(&[(1.0, 2.0); 20]), None);
    }
}
