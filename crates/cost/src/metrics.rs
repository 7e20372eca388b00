//! How well scores rank programs: what a search needs from a model, more than small errors.

use crate::error::CostError;

fn check_lengths(labels: &[f32], scores: &[f32], tasks: &[u32]) -> Result<(), CostError> {
    if scores.len() != labels.len() {
        return Err(CostError::Shape { what: "scores", expected: labels.len(), found: scores.len() });
    }
    if !tasks.is_empty() && tasks.len() != labels.len() {
        return Err(CostError::Shape { what: "task ids", expected: labels.len(), found: tasks.len() });
    }
    Ok(())
}

/// Programs of each task, tasks ascending; one task for all if `tasks` is empty.
fn by_task(programs: usize, tasks: &[u32]) -> Vec<Vec<usize>> {
    let task = |&program: &usize| tasks.get(program).copied().unwrap_or(0);
    let mut sorted: Vec<usize> = (0..programs).collect();
    sorted.sort_by_key(|program| (task(program), *program));
    sorted.chunk_by(|a, b| task(a) == task(b)).map(<[usize]>::to_vec).collect()
}

/// The fraction of pairs within a task whose order the scores get right. Equal labels make no pair, equal
/// scores are half right. `None` without any pair; chance is 0.5.
pub fn pair_accuracy(labels: &[f32], scores: &[f32], tasks: &[u32]) -> Result<Option<f64>, CostError> {
    clear_pair_accuracy(labels, scores, tasks, 1.0)
}

/// [`pair_accuracy`] of the pairs of which one label is at least `ratio` times the other: the rest is mostly noise.
pub fn clear_pair_accuracy(
    labels: &[f32],
    scores: &[f32],
    tasks: &[u32],
    ratio: f32,
) -> Result<Option<f64>, CostError> {
    check_lengths(labels, scores, tasks)?;
    let (mut right, mut pairs) = (0.0, 0u64);
    for group in by_task(labels.len(), tasks) {
        for (i, &a) in group.iter().enumerate() {
            for &b in &group[..i] {
                let (label, score) = (labels[a] - labels[b], scores[a] - scores[b]);
                let clear = labels[a].max(labels[b]) >= ratio * labels[a].min(labels[b]);
                if label != 0.0 && clear {
                    pairs += 1;
                    right +=
                        if score == 0.0 { 0.5 } else { f64::from(u8::from((label > 0.0) == (score > 0.0))) };
                }
            }
        }
    }
    Ok((pairs > 0).then(|| right / pairs as f64))
}

/// What measuring only the `k` best-scored programs of each task loses: the mean over tasks of
/// `1 - best label among them / best label`. 0 is perfect; `None` if no task has a positive label.
pub fn top_k_regret(
    labels: &[f32],
    scores: &[f32],
    tasks: &[u32],
    k: usize,
) -> Result<Option<f64>, CostError> {
    check_lengths(labels, scores, tasks)?;
    let best = |programs: &[usize]| programs.iter().map(|&p| f64::from(labels[p])).fold(0.0, f64::max);
    let (mut regret, mut counted) = (0.0, 0u64);
    for mut group in by_task(labels.len(), tasks) {
        let top = best(&group);
        if top > 0.0 {
            group.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]).then(a.cmp(&b)));
            regret += 1.0 - best(&group[..k.min(group.len())]) / top;
            counted += 1;
        }
    }
    Ok((counted > 0).then(|| regret / counted as f64))
}

/// Root mean squared difference of scores and labels; `None` without programs.
pub fn rmse(labels: &[f32], scores: &[f32]) -> Result<Option<f64>, CostError> {
    check_lengths(labels, scores, &[])?;
    let sum: f64 = labels.iter().zip(scores).map(|(&y, &f)| (f64::from(f) - f64::from(y)).powi(2)).sum();
    Ok((!labels.is_empty()).then(|| (sum / labels.len() as f64).sqrt()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pair_accuracy_counts_order_within_tasks() {
        let labels = [1.0, 2.0, 3.0];
        assert_eq!(pair_accuracy(&labels, &[1.0, 5.0, 9.0], &[]), Ok(Some(1.0)));
        assert_eq!(pair_accuracy(&labels, &[3.0, 2.0, 1.0], &[]), Ok(Some(0.0)));
        assert_eq!(pair_accuracy(&labels, &[0.0; 3], &[]), Ok(Some(0.5)));
        assert_eq!(pair_accuracy(&labels, &[3.0, 2.0, 4.0], &[0, 1, 0]), Ok(Some(1.0)));
        assert_eq!(pair_accuracy(&labels, &[3.0, 2.0, 4.0], &[0, 1, 2]), Ok(None));
        assert!(pair_accuracy(&labels, &[0.0; 2], &[]).is_err());
        assert_eq!(clear_pair_accuracy(&labels, &[1.0, 5.0, 4.0], &[], 1.9), Ok(Some(1.0)));
        assert_eq!(clear_pair_accuracy(&labels, &[1.0, 5.0, 4.0], &[], 4.0), Ok(None));
        assert!(pair_accuracy(&labels, &[0.0; 3], &[0]).is_err());
    }

    #[test]
    fn regret_is_what_the_chosen_lose() {
        let (labels, scores) = ([0.5, 1.0, 0.8], [3.0, 1.0, 2.0]);
        assert_eq!(top_k_regret(&labels, &scores, &[], 1), Ok(Some(0.5)));
        assert!((top_k_regret(&labels, &scores, &[], 2).unwrap().unwrap() - 0.2).abs() < 1e-6);
        assert_eq!(top_k_regret(&labels, &scores, &[], 9), Ok(Some(0.0)));
        assert_eq!(top_k_regret(&labels, &scores, &[], 0), Ok(Some(1.0)));
        assert!((top_k_regret(&labels, &scores, &[0, 1, 1], 1).unwrap().unwrap() - 0.1).abs() < 1e-6);
        assert_eq!(top_k_regret(&[0.0], &[1.0], &[], 1), Ok(None));
    }

    #[test]
    fn rmse_is_the_root_of_the_mean() {
        assert_eq!(rmse(&[0.0, 0.0], &[3.0, 4.0]), Ok(Some(12.5f64.sqrt())));
        assert_eq!(rmse(&[], &[]), Ok(None));
        assert!(rmse(&[1.0], &[]).is_err());
    }
}
