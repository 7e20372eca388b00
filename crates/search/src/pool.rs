//! The best candidates met during a search on predicted scores.

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, HashSet};

use crate::Candidate;

/// A candidate and its predicted score.
#[derive(Clone, Debug, PartialEq)]
pub struct Scored {
    /// The score, never NaN.
    pub score: f32,
    /// How many were offered before it: of equal scores the earlier is better.
    order: u64,
    /// The candidate.
    pub candidate: Candidate,
}

impl Eq for Scored {}

impl PartialOrd for Scored {
    fn partial_cmp(&self, other: &Scored) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Scored {
    fn cmp(&self, other: &Scored) -> Ordering {
        self.score.total_cmp(&other.score).then(other.order.cmp(&self.order))
    }
}

/// Keeps the best distinct candidates of all that are offered.
#[derive(Clone, Debug)]
pub struct Pool {
    capacity: usize,
    heap: BinaryHeap<Reverse<Scored>>,
    inside: HashSet<Candidate>,
    offered: u64,
}

impl Pool {
    /// Room for so many.
    pub fn new(capacity: usize) -> Pool {
        Pool { capacity, heap: BinaryHeap::new(), inside: HashSet::new(), offered: 0 }
    }

    /// Whether a candidate of this score would get in, as far as the score tells.
    pub fn wants(&self, score: f32) -> bool {
        let is_full = self.heap.len() >= self.capacity;
        self.capacity > 0 && !(is_full && self.heap.peek().is_some_and(|worst| score <= worst.0.score))
    }

    /// Offers a candidate; true when it got in. NaN counts as the lowest score.
    pub fn offer(&mut self, candidate: &Candidate, score: f32) -> bool {
        let score = if score.is_nan() { f32::NEG_INFINITY } else { score };
        if !self.wants(score) || self.inside.contains(candidate) {
            return false;
        }
        if self.heap.len() >= self.capacity
            && let Some(Reverse(worst)) = self.heap.pop()
        {
            self.inside.remove(&worst.candidate);
        }
        self.inside.insert(candidate.clone());
        self.heap.push(Reverse(Scored { score, order: self.offered, candidate: candidate.clone() }));
        self.offered += 1;
        true
    }

    /// The contents, best first.
    pub fn into_best(self) -> Vec<Scored> {
        self.heap.into_sorted_vec().into_iter().map(|Reverse(scored)| scored).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(value: i64) -> Candidate {
        Candidate { sketch: 0, values: vec![value] }
    }

    #[test]
    fn keeps_the_best_once_each_and_the_earlier_of_equals() {
        let mut pool = Pool::new(3);
        for (value, score) in [(1, 0.5), (2, 0.9), (1, 0.5), (3, 0.5), (4, 0.7), (5, f32::NAN), (6, 0.5)] {
            pool.offer(&candidate(value), score);
        }
        let best: Vec<i64> = pool.into_best().iter().map(|s| s.candidate.values[0]).collect();
        assert_eq!(best, [2, 4, 1]);
    }

    #[test]
    fn tells_whether_it_changed() {
        let mut pool = Pool::new(1);
        assert!(pool.offer(&candidate(1), 1.0));
        assert!(!pool.offer(&candidate(2), 1.0));
        assert!(pool.offer(&candidate(2), 2.0));
        assert!(!Pool::new(0).offer(&candidate(1), 1.0));
    }
}
