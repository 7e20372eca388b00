//! Diversity-aware choice: a batch that is good and does not ask the same question twice.

use std::collections::HashSet;

use crate::Candidate;
use crate::pool::Scored;

/// Chooses up to `n` of a pool, greedily maximising `sum(score) + alpha * (distinct knob values covered)`, in the
/// order of choice. Scores are scaled to 0..1 over the pool, so that `alpha` means the same for every model.
pub fn choose(pool: Vec<Scored>, n: usize, alpha: f32) -> Vec<Candidate> {
    let finite = || pool.iter().map(|s| s.score).filter(|s| s.is_finite());
    let low = finite().fold(f32::INFINITY, f32::min);
    let range = (finite().fold(f32::NEG_INFINITY, f32::max) - low).max(f32::MIN_POSITIVE);
    let scale = |score: f32| if score.is_finite() { (score - low) / range } else { 0.0 };
    let mut rest: Vec<(f32, Candidate)> =
        pool.iter().map(|s| (scale(s.score), s.candidate.clone())).collect();
    let mut covered = HashSet::new();
    let mut out = Vec::new();
    while out.len() < n && !rest.is_empty() {
        let value = |(score, candidate): &(f32, Candidate)| {
            score + alpha * values(candidate).filter(|v| !covered.contains(v)).count() as f32
        };
        let mut best = (0, f32::NEG_INFINITY);
        for (at, entry) in rest.iter().enumerate() {
            let value = value(entry);
            if value > best.1 {
                best = (at, value);
            }
        }
        let (_, candidate) = rest.remove(best.0);
        covered.extend(values(&candidate));
        out.push(candidate);
    }
    out
}

/// The knob values of a candidate, distinguished by sketch and knob.
fn values(candidate: &Candidate) -> impl Iterator<Item = (usize, usize, i64)> + '_ {
    candidate.values.iter().enumerate().map(|(knob, value)| (candidate.sketch, knob, *value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::Pool;

    fn pool(entries: &[(f32, [i64; 2])]) -> Vec<Scored> {
        let mut pool = Pool::new(entries.len());
        for (score, values) in entries {
            pool.offer(&Candidate { sketch: 0, values: values.to_vec() }, *score);
        }
        pool.into_best()
    }

    fn chosen(alpha: f32) -> Vec<Vec<i64>> {
        let pool = pool(&[(1.0, [1, 1]), (0.9, [1, 2]), (0.8, [1, 1 + 2]), (0.5, [7, 8]), (0.0, [9, 1])]);
        choose(pool, 3, alpha).into_iter().map(|c| c.values).collect()
    }

    #[test]
    fn without_weight_the_best_are_chosen() {
        assert_eq!(chosen(0.0), [[1, 1], [1, 2], [1, 3]]);
    }

    #[test]
    fn with_weight_new_knob_values_are_worth_a_lower_score() {
        // [7, 8] brings two new values: 0.5 + 2 * 0.5 against 0.9 + 0.5.
        assert_eq!(chosen(0.5), [[1, 1], [7, 8], [1, 2]]);
    }

    #[test]
    fn scores_without_meaning_are_tolerated() {
        let equal = pool(&[(f32::NAN, [1, 1]), (f32::NAN, [1, 2])]);
        assert_eq!(choose(equal, 5, 0.1).len(), 2);
    }
}
