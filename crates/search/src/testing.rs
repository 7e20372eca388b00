//! Small synthetic domains and scorers, so that strategies are tested without compiling anything.

use std::sync::Arc;

use crate::{Candidate, Domain, Rng, Sample, Scorer};

/// A box of knob values cut by limits on products, the shape of real tiling spaces.
#[derive(Clone, Debug)]
pub struct Lattice {
    /// Copies of the box, told apart by their sketch number.
    pub sketches: usize,
    /// The values of each knob, increasing.
    pub knobs: Vec<Vec<i64>>,
    /// The knobs of each node.
    pub nodes: Vec<Vec<usize>>,
    /// The product of these knobs must not exceed the number.
    pub limits: Vec<(Vec<usize>, i64)>,
}

impl Lattice {
    /// Two tiled axes of two levels each, as two nodes; the levels of an axis multiply to at most `extent`.
    pub fn tiles(extent: i64) -> Lattice {
        Lattice {
            sketches: 2,
            knobs: vec![(1..=extent).collect(); 4],
            nodes: vec![vec![0, 1], vec![2, 3]],
            limits: vec![(vec![0, 1], extent), (vec![2, 3], extent)],
        }
    }

    fn holds(&self, values: &[i64]) -> bool {
        self.limits.iter().all(|(knobs, most)| knobs.iter().map(|k| values[*k]).product::<i64>() <= *most)
    }

    /// Puts one knob to a random legal value.
    fn redraw(&self, candidate: &mut Candidate, knob: usize, rng: &mut Rng) {
        let mut allowed = Vec::new();
        for value in &self.knobs[knob] {
            let before = std::mem::replace(&mut candidate.values[knob], *value);
            if self.holds(&candidate.values) {
                allowed.push(*value);
            }
            candidate.values[knob] = before;
        }
        if let Some(value) = rng.pick(&allowed) {
            candidate.values[knob] = *value;
        }
    }

    /// Mixes two candidates of one sketch, shrinking what exceeds a limit.
    fn mix(&self, a: &Candidate, b: &Candidate, take_b: &dyn Fn(usize) -> bool) -> Option<Candidate> {
        let pick = |k: usize| if take_b(k) { b.values[k] } else { a.values[k] };
        let mut values: Vec<i64> = (0..self.knobs.len()).map(pick).collect();
        for knob in 0..values.len() {
            while !self.holds(&values) {
                let lower = self.knobs[knob].iter().rev().find(|v| **v < values[knob]);
                match lower {
                    Some(lower) => values[knob] = *lower,
                    None => break,
                }
            }
        }
        (a.sketch == b.sketch && self.holds(&values)).then_some(Candidate { sketch: a.sketch, values })
    }
}

impl Domain for Lattice {
    fn sample(&self, rng: &mut Rng) -> Option<Candidate> {
        let values = self.knobs.iter().map(|k| k.first().copied()).collect::<Option<Vec<i64>>>()?;
        if self.sketches == 0 || !self.holds(&values) {
            return None;
        }
        let mut candidate = Candidate { sketch: rng.below(self.sketches), values };
        let mut order: Vec<usize> = (0..self.knobs.len()).collect();
        rng.shuffle(&mut order);
        order.into_iter().for_each(|knob| self.redraw(&mut candidate, knob, rng));
        Some(candidate)
    }

    fn mutate(&self, candidate: &Candidate, rng: &mut Rng) -> Option<Candidate> {
        let knob = rng.below(self.knobs.len());
        let at = self.knobs.get(knob)?.iter().position(|v| *v == candidate.values[knob])?;
        let to = if rng.chance(0.5) { at + 1 } else { at.wrapping_sub(1) };
        let mut out = candidate.clone();
        out.values[knob] = *self.knobs[knob].get(to)?;
        self.holds(&out.values).then_some(out)
    }

    fn reroll(&self, candidate: &Candidate, rng: &mut Rng) -> Option<Candidate> {
        if self.knobs.is_empty() {
            return None;
        }
        let mut out = candidate.clone();
        self.redraw(&mut out, rng.below(self.knobs.len()), rng);
        Some(out)
    }

    fn crossover(&self, a: &Candidate, b: &Candidate, rng: &mut Rng) -> Option<Candidate> {
        let coins: Vec<bool> = self.knobs.iter().map(|_| rng.chance(0.5)).collect();
        self.mix(a, b, &|k| coins[k])
    }

    fn crossover_by_node(
        &self,
        a: (&Candidate, &[f32]),
        b: (&Candidate, &[f32]),
        _: &mut Rng,
    ) -> Option<Candidate> {
        let node = |k: usize| self.nodes.iter().position(|n| n.contains(&k)).unwrap_or(0);
        self.mix(a.0, b.0, &|k| b.1.get(node(k)) > a.1.get(node(k)))
    }

    fn contains(&self, candidate: &Candidate) -> bool {
        candidate.sketch < self.sketches
            && candidate.values.len() == self.knobs.len()
            && self.knobs.iter().zip(&candidate.values).all(|(k, v)| k.contains(v))
            && self.holds(&candidate.values)
    }

    fn next(&self, after: Option<&Candidate>) -> Option<Candidate> {
        let mut at = match after {
            Some(candidate) => candidate.clone(),
            None => {
                let values = self.knobs.iter().map(|k| k.first().copied()).collect::<Option<Vec<i64>>>()?;
                let first = Candidate { sketch: 0, values };
                if self.contains(&first) {
                    return Some(first);
                }
                first
            }
        };
        loop {
            let mut knob = self.knobs.len();
            loop {
                if knob == 0 {
                    at.sketch += 1;
                    break;
                }
                knob -= 1;
                let higher = self.knobs[knob].iter().find(|v| **v > at.values[knob]);
                match higher {
                    Some(value) => {
                        at.values[knob] = *value;
                        break;
                    }
                    None => at.values[knob] = self.knobs[knob][0],
                }
            }
            if at.sketch >= self.sketches {
                return None;
            }
            if self.contains(&at) {
                return Some(at);
            }
        }
    }

    fn size(&self) -> f64 {
        self.sketches as f64 * self.knobs.iter().map(|k| k.len() as f64).product::<f64>()
    }
}

/// A number for each node of a candidate; their sum is its score.
pub type NodeScores = Arc<dyn Fn(&Candidate) -> Vec<f32> + Send + Sync>;

/// A scorer that knows a function from the start: what a perfect model would do.
#[derive(Clone)]
pub struct Oracle {
    /// The function.
    pub nodes: NodeScores,
    /// Samples it has been taught.
    pub learnt: usize,
}

impl Oracle {
    /// The scorer of a function.
    pub fn new(nodes: NodeScores) -> Oracle {
        Oracle { nodes, learnt: 0 }
    }
}

impl Scorer for Oracle {
    fn score(&mut self, candidates: &[Candidate]) -> Vec<f32> {
        candidates.iter().map(|c| (self.nodes)(c).iter().sum()).collect()
    }

    fn score_nodes(&mut self, candidates: &[Candidate]) -> Vec<Vec<f32>> {
        candidates.iter().map(|c| (self.nodes)(c)).collect()
    }

    fn learn(&mut self, samples: &[Sample]) {
        self.learnt += samples.len();
    }

    fn is_trained(&self) -> bool {
        self.learnt > 0
    }
}
