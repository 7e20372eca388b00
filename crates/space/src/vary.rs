//! Mutation and crossover: small legal changes of candidates for evolutionary search.

use crate::candidate::Candidate;
use crate::knob::KnobRole;
use crate::rng::Rng;
use crate::sketch::Sketch;
use crate::space::Space;

/// How often each kind of mutation is tried.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MutationWeights {
    /// A factor moves between two levels of a tiled loop.
    pub tile: f64,
    /// Another sketch: compute locations and other structural choices.
    pub location: f64,
    /// Another unroll factor.
    pub unroll: f64,
    /// The outermost level of a loop grows or shrinks.
    pub parallel: f64,
}

impl Default for MutationWeights {
    fn default() -> MutationWeights {
        MutationWeights { tile: 0.90, location: 0.05, unroll: 0.04, parallel: 0.01 }
    }
}

/// Tries before a mutation falls back to choosing one knob anew.
const TRIES: usize = 8;

impl Space {
    /// A legal candidate near another; different wherever the space has a different one nearby.
    pub fn mutate(&self, candidate: &Candidate, rng: &mut Rng) -> Candidate {
        self.mutate_with(candidate, &MutationWeights::default(), rng)
    }

    /// Like [`Space::mutate`], with weights of your own.
    pub fn mutate_with(&self, candidate: &Candidate, weights: &MutationWeights, rng: &mut Rng) -> Candidate {
        let mut from = candidate.clone();
        if !self.satisfies(&from) && !self.repair(&mut from) {
            return self.sample(rng);
        }
        let sketch = &self.sketches[from.sketch];
        for _ in 0..TRIES {
            let kinds = [weights.tile, weights.location, weights.unroll, weights.parallel];
            let mut next = from.clone();
            match rng.weighted(&kinds) {
                0 => sketch.move_factor(&mut next.values, rng),
                1 => next = self.relocate(&from, rng),
                2 => sketch.change_unroll(&mut next.values, rng),
                _ => sketch.change_outermost(&mut next.values, rng),
            }
            if next != from && self.is_legal_step(&from, &next) {
                return next;
            }
        }
        sketch.choose_anew(&mut from.values, rng);
        from
    }

    /// Whether a candidate satisfies all constraints, when it was made from one that does: those around the knobs that
    /// changed decide.
    fn is_legal_step(&self, from: &Candidate, next: &Candidate) -> bool {
        if from.sketch != next.sketch || from.values.len() != next.values.len() {
            return self.satisfies(next);
        }
        let sketch = &self.sketches[next.sketch];
        let mut changed = (0..next.values.len()).filter(|at| from.values[*at] != next.values[*at]);
        let knows = |at: usize| sketch.knobs[at].domain.binary_search(&next.values[at]).is_ok();
        changed.all(|at| knows(at) && sketch.holds_around(at, &next.values))
    }

    /// The candidate in another sketch, its knobs carried over by name; unchanged when there is only one sketch.
    pub fn relocate(&self, candidate: &Candidate, rng: &mut Rng) -> Candidate {
        if self.sketches.len() < 2 {
            return candidate.clone();
        }
        let step = 1 + rng.below(self.sketches.len() - 1);
        let to = (candidate.sketch + step) % self.sketches.len();
        self.carry(candidate, to, rng)
    }

    /// The values of a candidate in another sketch, by the knobs' names; knobs of the other sketch alone are sampled.
    pub fn carry(&self, candidate: &Candidate, to: usize, rng: &mut Rng) -> Candidate {
        let mut out = self.sample_in(to, rng);
        let Ok(from) = self.sketch(candidate) else { return out };
        for (at, knob) in self.sketches[out.sketch].knobs.iter().enumerate() {
            if let Some(old) = from.position(&knob.symbol) {
                out.values[at] = candidate.values[old];
            }
        }
        self.repair(&mut out);
        out
    }

    /// A child with the structure of `a` that takes the knobs of each stage from `a` where `keeps_a` says so, otherwise
    /// from `b`, by name. Strategies decide by predicted scores of the stages, or at random.
    pub fn crossover_by_node(
        &self,
        a: &Candidate,
        b: &Candidate,
        keeps_a: &mut dyn FnMut(&str) -> bool,
    ) -> Candidate {
        let mut child = a.clone();
        let (Ok(mother), Ok(father)) = (self.sketch(a), self.sketch(b)) else { return child };
        for node in &mother.nodes {
            if keeps_a(&node.stage) {
                continue;
            }
            for at in &node.knobs {
                if let Some(value) = father.position(&mother.knobs[*at].symbol).and_then(|p| b.values.get(p))
                {
                    child.values[*at] = *value;
                }
            }
        }
        if !self.satisfies(&child) {
            self.repair(&mut child);
        }
        child
    }
}

impl Sketch {
    /// Tile knobs grouped by the loop they tile, outermost level first.
    fn tiled_loops(&self) -> Vec<Vec<usize>> {
        let mut groups: Vec<((String, String), Vec<usize>)> = Vec::new();
        for (at, k) in self.knobs.iter().enumerate() {
            let key = match &k.role {
                KnobRole::Tile { stage, axis, .. } | KnobRole::Unroll { stage, axis, .. } => {
                    (stage.clone(), axis.clone())
                }
                KnobRole::Choice { .. } => continue,
            };
            match groups.iter_mut().find(|(k, _)| *k == key) {
                Some((_, members)) => members.push(at),
                None => groups.push((key, vec![at])),
            }
        }
        groups.into_iter().map(|(_, g)| g).collect()
    }

    /// Moves a factor from one level of a loop to another. Level 0, which has no knob, takes part: it absorbs what the
    /// others give up.
    fn move_factor(&self, values: &mut [i64], rng: &mut Rng) {
        let loops = self.tiled_loops();
        let Some(group) = rng.pick(&loops) else { return };
        let levels = group.len() + 1;
        let from = rng.below(levels);
        let to = (from + 1 + rng.below(levels - 1)) % levels;
        let knob = |level: usize| (level > 0).then(|| group[level - 1]);
        let factor = match knob(from) {
            // Mostly small factors of the size; sometimes one step of the domain.
            Some(k) => {
                let v = values[k];
                let divisors: Vec<i64> = (2..=v.min(64)).filter(|d| v % d == 0).collect();
                *rng.pick(&divisors).unwrap_or(&2) as f64
            }
            None => *rng.pick(&[2.0, 2.0, 3.0, 4.0]).unwrap_or(&2.0),
        };
        let gentle = rng.chance(0.25);
        if let Some(k) = knob(from) {
            self.scale(k, values, 1.0 / factor, gentle);
        }
        if let Some(k) = knob(to) {
            self.scale(k, values, factor, gentle);
        }
        if !self.satisfies(values) {
            let wanted: Vec<f64> = values.iter().map(|v| *v as f64).collect();
            values.copy_from_slice(&self.round(&wanted));
        }
    }

    /// Scales a knob to the nearest value of its domain, or by one step of it.
    fn scale(&self, knob: usize, values: &mut [i64], by: f64, gentle: bool) {
        let k = &self.knobs[knob];
        let now = k.nearest(values[knob] as f64);
        let mut to = k.nearest(values[knob] as f64 * by);
        if gentle || to == now {
            to = if by > 1.0 { (now + 1).min(k.domain.len() - 1) } else { now.saturating_sub(1) };
        }
        values[knob] = k.domain[to];
    }

    /// Another legal value for an unroll factor or a choice.
    fn change_unroll(&self, values: &mut [i64], rng: &mut Rng) {
        let is_unroll = |k: &usize| !matches!(self.knobs[*k].role, KnobRole::Tile { .. });
        let open: Vec<usize> = (0..self.knobs.len()).filter(is_unroll).collect();
        if let Some(k) = rng.pick(&open) {
            self.choose(*k, values, rng);
        }
    }

    /// Another legal value for the outermost level of a loop over space: more or fewer parallel iterations.
    fn change_outermost(&self, values: &mut [i64], rng: &mut Rng) {
        let is_outer = |k: &usize| {
            matches!(self.knobs[*k].role, KnobRole::Tile { level: 1, reduce: false, vector: false, .. })
        };
        let open: Vec<usize> = (0..self.knobs.len()).filter(is_outer).collect();
        if let Some(k) = rng.pick(&open) {
            self.choose(*k, values, rng);
        }
    }

    /// Another legal value for some knob, when one has any.
    fn choose_anew(&self, values: &mut [i64], rng: &mut Rng) {
        let mut order: Vec<usize> = (0..self.knobs.len()).collect();
        rng.shuffle(&mut order);
        for k in order {
            let before = values[k];
            self.choose(k, values, rng);
            if values[k] != before {
                return;
            }
        }
    }

    fn choose(&self, knob: usize, values: &mut [i64], rng: &mut Rng) {
        let mut allowed = self.allowed(knob, values);
        allowed.retain(|v| *v != values[knob]);
        if let Some(v) = rng.pick(&allowed) {
            values[knob] = *v;
        }
    }
}
