//! Schedule spaces as domains.

use std::sync::{Arc, OnceLock};

use talweg_space::{Candidate, Rng, Space};

use crate::Domain;

/// Draws of a knob value before a move gives up.
const TRIES: usize = 16;

/// A schedule space, with its size counted once, when it is first asked for: that takes longer than drawing from it.
#[derive(Clone, Debug)]
pub struct SpaceDomain {
    space: Arc<Space>,
    size: OnceLock<f64>,
}

impl SpaceDomain {
    /// The domain of all candidates of a space.
    pub fn new(space: Arc<Space>) -> SpaceDomain {
        SpaceDomain { space, size: OnceLock::new() }
    }

    /// The space.
    pub fn space(&self) -> &Arc<Space> {
        &self.space
    }
}

impl Domain for SpaceDomain {
    fn sample(&self, rng: &mut Rng) -> Option<Candidate> {
        (!self.space.sketches.is_empty()).then(|| self.space.sample(rng))
    }

    fn mutate(&self, candidate: &Candidate, rng: &mut Rng) -> Option<Candidate> {
        Some(self.space.mutate(candidate, rng))
    }

    /// The structure is a knob too: it is redrawn as often as any other.
    fn reroll(&self, candidate: &Candidate, rng: &mut Rng) -> Option<Candidate> {
        let sketch = self.space.sketch(candidate).ok()?;
        let knob = rng.below(sketch.knobs.len() + usize::from(self.space.sketches.len() > 1));
        let Some(domain) = sketch.knobs.get(knob).map(|k| &k.domain) else {
            return Some(self.space.relocate(candidate, rng));
        };
        let mut out = candidate.clone();
        for _ in 0..TRIES {
            out.values[knob] = *rng.pick(domain)?;
            if out != *candidate && sketch.holds_around(knob, &out.values) {
                return Some(out);
            }
        }
        None
    }

    fn crossover(&self, a: &Candidate, b: &Candidate, rng: &mut Rng) -> Option<Candidate> {
        if a.sketch != b.sketch {
            return None;
        }
        let mut out = a.clone();
        for (value, other) in out.values.iter_mut().zip(&b.values) {
            if rng.chance(0.5) {
                *value = *other;
            }
        }
        (self.space.satisfies(&out) || self.space.repair(&mut out)).then_some(out)
    }

    /// The child has the structure of `a`, whose nodes the scores are told apart by.
    fn crossover_by_node(
        &self,
        a: (&Candidate, &[f32]),
        b: (&Candidate, &[f32]),
        _: &mut Rng,
    ) -> Option<Candidate> {
        let of = |sketch: usize, scores: &[f32], stage: &str| {
            let node = self.space.sketches.get(sketch)?.nodes.iter().position(|n| n.stage == stage)?;
            scores.get(node).copied()
        };
        let mut keeps_a = |stage: &str| {
            let (mine, other) = (of(a.0.sketch, a.1, stage), of(b.0.sketch, b.1, stage));
            !matches!((mine, other), (Some(mine), Some(other)) if other > mine)
        };
        Some(self.space.crossover_by_node(a.0, b.0, &mut keeps_a))
    }

    fn contains(&self, candidate: &Candidate) -> bool {
        self.space.satisfies(candidate)
    }

    /// Lexicographic by sketch and knobs, over the candidates that stay legal when any knobs at their end take their
    /// smallest values: all of them where constraints limit products and sums.
    fn next(&self, after: Option<&Candidate>) -> Option<Candidate> {
        let first = |sketch: usize| {
            let values = self.space.sketches.get(sketch)?.smallest();
            Some(Candidate { sketch, values })
        };
        let Some(after) = after else { return first(0) };
        let sketch = self.space.sketch(after).ok()?;
        let mut at = after.clone();
        for knob in (0..at.values.len()).rev() {
            let now = at.values[knob];
            for value in sketch.knobs[knob].domain.iter().filter(|v| **v > now) {
                at.values[knob] = *value;
                if sketch.satisfies(&at.values) {
                    return Some(at);
                }
            }
            at.values[knob] = sketch.knobs[knob].least();
        }
        first(after.sketch + 1)
    }

    fn size(&self) -> f64 {
        *self.size.get_or_init(|| self.space.size())
    }
}
