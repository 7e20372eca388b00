//! How much each knob explains of the measured time, by permutation.
//!
//! Boosted trees are fitted to the logarithm of the time on most of the samples. On the rest, the values of one knob at a
//! time are shuffled: the share of the variance that the trees no longer explain is what the knob is worth, scaled so that
//! all knobs together are worth what the trees explain. Unlike a comparison of means, this sees knobs that matter only
//! together with others.

use talweg_cost::random::Stream;
use talweg_cost::{CostError, Matrix, Params, Squares, Trees, one_row_each};

use crate::report::{Importance, KnobShare};
use crate::thinning::{keep, short};

/// Fewer samples are not enough to fit and judge.
const LEAST: usize = 40;
/// More are thinned: the answer hardly changes, and the time it takes does.
const MOST: usize = 1500;
/// Every so-manieth sample judges.
const JUDGE_EVERY: usize = 3;
/// Shuffles of each knob.
const SHUFFLES: u64 = 3;
/// Knobs that are shown.
const MOST_KNOBS: usize = 14;
/// Names the random streams.
const SEED: u64 = 17;

/// A sample of a task: seconds, and a value for each knob it has, as (knob, value).
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Seconds, above zero.
    pub seconds: f64,
    /// Knobs, by their position among the names, and their values.
    pub values: Vec<(usize, f32)>,
}

fn missing(why: impl Into<String>, samples: usize) -> Importance {
    Importance { missing: Some(why.into()), samples, ..Importance::default() }
}

/// What the knobs with these names explain of the rows' times.
pub fn importance(names: &[String], rows: &[Row]) -> Importance {
    if rows.len() < LEAST {
        let why = format!("{} good samples; at least {LEAST} are needed to tell knobs apart", rows.len());
        return missing(why, rows.len());
    }
    let kept: Vec<&Row> = keep(rows.len(), MOST, |_| false).into_iter().map(|at| &rows[at]).collect();
    let values = |knob: usize| kept.iter().map(move |row| value_of(row, knob));
    let varies = |knob: &usize| {
        let first = values(*knob).next();
        values(*knob).any(|v| Some(v.to_bits()) != first.map(f32::to_bits))
    };
    let knobs: Vec<usize> = (0..names.len()).filter(varies).collect();
    if knobs.is_empty() {
        return missing("all samples have the same knobs", kept.len());
    }
    match permuted(&knobs, &kept) {
        Err(error) => missing(format!("the model cannot be fitted: {error}"), kept.len()),
        Ok(None) => missing("all samples take the same time", kept.len()),
        Ok(Some((explained, shares))) => {
            let fastest = kept.iter().min_by(|a, b| a.seconds.total_cmp(&b.seconds));
            let best = |knob: usize| {
                let value = fastest.map(|row| value_of(row, knob)).filter(|v| v.is_finite());
                value.map(f64::from)
            };
            let lost: f64 = shares.iter().map(|share| share.max(0.0)).sum();
            let mut found: Vec<KnobShare> = knobs
                .iter()
                .zip(shares)
                .map(|(&knob, share)| KnobShare {
                    name: names[knob].clone(),
                    share: short(explained * share.max(0.0) / lost.max(1e-9)),
                    best: best(knob),
                })
                .collect();
            found.sort_by(|a, b| b.share.total_cmp(&a.share));
            found.truncate(MOST_KNOBS);
            Importance { knobs: found, explained: short(explained), samples: kept.len(), missing: None }
        }
    }
}

/// A knob's value, not a number where the sample's sketch does not have it.
fn value_of(row: &Row, knob: usize) -> f32 {
    row.values.iter().find(|(at, _)| *at == knob).map_or(f32::NAN, |(_, value)| *value)
}

/// The share that the trees explain, and what each knob is worth; `None` if there is nothing to explain.
fn permuted(knobs: &[usize], rows: &[&Row]) -> Result<Option<(f64, Vec<f64>)>, CostError> {
    let judges = |at: &usize| at.is_multiple_of(JUDGE_EVERY);
    // Samples of a search get better with time, so those that judge are spread over all of it.
    let learning: Vec<&Row> = (0..rows.len()).filter(|at| !judges(at)).map(|at| rows[at]).collect();
    let judging: Vec<&Row> = (0..rows.len()).filter(judges).map(|at| rows[at]).collect();
    let mean = learning.iter().map(|row| row.seconds.ln()).sum::<f64>() / learning.len() as f64;
    let labels =
        |rows: &[&Row]| -> Vec<f32> { rows.iter().map(|r| (r.seconds.ln() - mean) as f32).collect() };
    let matrix = |rows: &[&Row]| {
        let data = rows.iter().flat_map(|row| knobs.iter().map(|knob| value_of(row, *knob))).collect();
        Matrix::new(rows.len(), knobs.len(), data)
    };
    let params = Params { rounds: 60, max_depth: 4, eta: 0.2, seed: SEED, ..Params::default() };
    let (data, truth) = (matrix(&learning)?, labels(&learning));
    let trees = Trees::fit(&data, &one_row_each(data.rows()), &truth, &Squares, &params, None, None)?;
    let (data, truth) = (matrix(&judging)?, labels(&judging));
    let middle = truth.iter().map(|y| f64::from(*y)).sum::<f64>() / truth.len() as f64;
    let variance: f64 = truth.iter().map(|y| (f64::from(*y) - middle).powi(2)).sum();
    if variance <= 1e-12 {
        return Ok(None);
    }
    let unexplained = |data: &Matrix| -> Result<f64, CostError> {
        let found = trees.predict_rows(data)?;
        let squares = found.iter().zip(&truth).map(|(p, y)| f64::from(p - y).powi(2));
        Ok(squares.sum::<f64>() / variance)
    };
    let base = unexplained(&data)?;
    let mut shares = Vec::with_capacity(knobs.len());
    for column in 0..knobs.len() {
        let mut lost = 0.0;
        for shuffle in 0..SHUFFLES {
            lost += unexplained(&shuffled(&data, column, shuffle)?)? - base;
        }
        shares.push(lost / SHUFFLES as f64);
    }
    Ok(Some(((1.0 - base).clamp(0.0, 1.0), shares)))
}

/// The matrix with the values of one column in another order.
fn shuffled(data: &Matrix, column: usize, key: u64) -> Result<Matrix, CostError> {
    let mut stream = Stream::new(SEED, key.wrapping_mul(1 << 20) + column as u64);
    let mut order: Vec<usize> = (0..data.rows()).collect();
    for at in (1..order.len()).rev() {
        order.swap(at, stream.below(at + 1));
    }
    let mut values = data.data().to_vec();
    for (row, from) in order.into_iter().enumerate() {
        values[row * data.cols() + column] = data.row(from)[column];
    }
    Matrix::new(data.rows(), data.cols(), values)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Vec<String> {
        ["a", "b", "noise", "constant"].map(String::from).to_vec()
    }

    fn rows(n: u64) -> Vec<Row> {
        let mut stream = Stream::new(3, 0);
        let mut draw = |n: usize| stream.below(n) as f32;
        let row = |_| {
            let (a, b, noise) = (draw(8), draw(8), draw(8));
            let seconds = 1e-6 * f64::from(0.3 * a + 0.1 * b).exp();
            Row { seconds, values: vec![(0, a), (1, b), (2, noise), (3, 5.0)] }
        };
        (0..n).map(row).collect()
    }

    #[test]
    fn knobs_are_ranked_by_what_they_change() {
        let found = importance(&names(), &rows(600));
        let order: Vec<&str> = found.knobs.iter().map(|k| k.name.as_str()).collect();
        assert_eq!(order, ["a", "b", "noise"]);
        assert!(found.explained > 0.9, "{found:?}");
        assert!(
            found.knobs[0].share > 3.0 * found.knobs[1].share && found.knobs[2].share < 0.05,
            "{found:?}"
        );
        let sum: f64 = found.knobs.iter().map(|k| k.share).sum();
        assert!((sum - found.explained).abs() < 1e-3, "{found:?}");
        assert_eq!(found.knobs[0].best, Some(0.0));
        assert_eq!(importance(&names(), &rows(600)), found);
    }

    #[test]
    fn too_few_equal_or_incomplete_samples_are_said_to_be_so() {
        let why = |rows: &[Row]| importance(&names(), rows).missing.unwrap();
        assert!(why(&rows(10)).contains("at least 40"));
        let same = Row { seconds: 1.0, values: vec![(0, 1.0)] };
        assert!(why(&vec![same.clone(); 50]).contains("same knobs"));
        let mut equal = vec![same; 50];
        equal.iter_mut().step_by(2).for_each(|row| row.values.clear());
        assert!(why(&equal).contains("same time"));
        assert!(why(&[]).contains("0 good samples"));
    }
}
