//! Random candidates, the nearest legal candidate, and the number of candidates.
//!
//! All three walk through legal points only: they start from the smallest value of every knob, which is legal, and
//! change one knob at a time to a value all constraints around it allow.

use crate::candidate::Candidate;
use crate::knob::KnobRole;
use crate::rng::Rng;
use crate::sketch::Sketch;
use crate::space::Space;

/// Probes of the size estimate.
const PROBES: usize = 48;
/// Descents where a rough number will do.
const ROUGH_PROBES: usize = 4;

impl Space {
    /// A random legal candidate; sketches are equally likely.
    pub fn sample(&self, rng: &mut Rng) -> Candidate {
        let sketch = rng.below(self.sketches.len());
        self.sample_in(sketch, rng)
    }

    /// A random legal candidate of one sketch, the last one when there is no such sketch.
    pub fn sample_in(&self, sketch: usize, rng: &mut Rng) -> Candidate {
        let sketch = sketch.min(self.sketches.len() - 1);
        let s = &self.sketches[sketch];
        let mut values = s.smallest();
        for at in sampling_order(s, rng) {
            let least = values[at];
            let inner: i64 = s.inside[at].iter().map(|k| values[*k]).product();
            let domain = &s.knobs[at].domain;
            let mut weights: Vec<f64> = domain.iter().map(|v| weight(s, at, inner, *v)).collect();
            // Drawing until a legal value is found is the same as drawing from the legal ones, and faster.
            while weights.iter().any(|w| *w > 0.0) {
                let drawn = rng.weighted(&weights);
                values[at] = domain[drawn];
                if s.holds_around(at, &values) {
                    break;
                }
                weights[drawn] = 0.0;
                values[at] = least;
            }
        }
        Candidate { sketch, values }
    }

    /// Moves a candidate to a legal one nearby; false when its sketch does not exist or the number of values is wrong.
    pub fn repair(&self, candidate: &mut Candidate) -> bool {
        let Ok(sketch) = self.sketch(candidate) else { return false };
        let wanted: Vec<f64> = candidate.values.iter().map(|v| *v as f64).collect();
        candidate.values = sketch.round(&wanted);
        true
    }

    /// The number of candidates, counted exactly where constraints do not cut and estimated where they do.
    pub fn size(&self) -> f64 {
        self.sketches.iter().map(Sketch::size).sum()
    }

    /// About the same, in a fraction of the time.
    pub fn rough_size(&self) -> f64 {
        self.sketches.iter().map(|sketch| sketch.size_by(ROUGH_PROBES)).sum()
    }
}

impl Sketch {
    /// The values of one knob that are legal with the others as they are; never empty when they are legal now.
    pub(crate) fn allowed(&self, knob: usize, values: &mut [i64]) -> Vec<i64> {
        let now = values[knob];
        let mut out = Vec::new();
        for v in &self.knobs[knob].domain {
            values[knob] = *v;
            if self.holds_around(knob, values) {
                out.push(*v);
            }
        }
        values[knob] = now;
        if out.is_empty() {
            out.push(now);
        }
        out
    }

    /// The legal values nearest to real ones: rounded, shrunk until legal, then grown back where there is room.
    pub fn round(&self, wanted: &[f64]) -> Vec<i64> {
        let at: Vec<usize> = self.knobs.iter().zip(wanted).map(|(k, w)| k.nearest(*w)).collect();
        let mut place = at.clone();
        let value = |place: &[usize]| -> Vec<i64> {
            self.knobs.iter().zip(place).map(|(k, p)| k.domain[*p]).collect()
        };
        let mut values = value(&place);
        let mut order: Vec<usize> = (0..place.len()).collect();
        while !self.holds(&values) {
            // The step down that helps most for the change it makes. Constraints without the knob stay as they are.
            let mut best: Option<(f64, usize, usize)> = None;
            for k in 0..place.len() {
                let (now, before) = (values[k], self.excess_around(k, &values));
                if before == 0.0 {
                    continue;
                }
                for to in [place[k].saturating_sub(1), place[k] / 2, 0] {
                    if to == place[k] {
                        continue;
                    }
                    let trial = self.knobs[k].domain[to];
                    values[k] = trial;
                    let gain = gain(before, self.excess_around(k, &values));
                    values[k] = now;
                    let change = (now as f64 / (trial as f64).max(1.0)).ln().abs().max(1e-3);
                    if best.is_none_or(|(g, ..)| gain / change > g) {
                        best = Some((gain / change, k, to));
                    }
                }
            }
            match best {
                Some((g, k, to)) if g > 0.0 => place[k] = to,
                // No single step helps: all over again from the smallest, inner levels first.
                _ => {
                    place = vec![0; place.len()];
                    order.sort_by_key(|k| self.inside[*k].len());
                }
            }
            values = value(&place);
            if place.iter().all(|p| *p == 0) {
                break;
            }
        }
        for k in order {
            for to in (place[k] + 1..=at[k]).rev() {
                let before = values[k];
                values[k] = self.knobs[k].domain[to];
                if self.holds_around(k, &values) {
                    break;
                }
                values[k] = before;
            }
        }
        values
    }

    /// The number of legal candidates: exact when no constraint cuts, otherwise by random descents through the tree of
    /// knob values, each weighted with the branches it passed.
    pub fn size(&self) -> f64 {
        self.size_by(PROBES)
    }

    fn size_by(&self, probes: usize) -> f64 {
        if self.constraints.is_empty() {
            return self.knobs.iter().map(|k| k.domain.len() as f64).product();
        }
        let mut rng = Rng::new(0x512e);
        let mut total = 0.0;
        for _ in 0..probes {
            let mut values = self.smallest();
            let mut count = 1.0;
            for at in 0..values.len() {
                let allowed = self.allowed(at, &mut values);
                count *= allowed.len() as f64;
                values[at] = allowed[rng.below(allowed.len())];
            }
            total += count;
        }
        (total / probes as f64).round()
    }
}

/// How much of the excess a step removes; infinite excess (a formula without value) counts as large.
fn gain(before: f64, after: f64) -> f64 {
    before.min(1e12) - after.min(1e12)
}

/// Inner levels first, so that register tiles are not squeezed by outer ones; random within a level.
fn sampling_order(sketch: &Sketch, rng: &mut Rng) -> Vec<usize> {
    let mut order: Vec<usize> = (0..sketch.knobs.len()).collect();
    rng.shuffle(&mut order);
    let rank = |k: &usize| match &sketch.knobs[*k].role {
        KnobRole::Tile { vector: true, .. } => 0,
        KnobRole::Tile { level: 3, .. } => 0,
        KnobRole::Unroll { .. } => 1,
        KnobRole::Tile { reduce: true, .. } => 2,
        KnobRole::Tile { level, .. } => 2 + 3usize.saturating_sub(*level),
        KnobRole::Choice { .. } => 6,
    };
    order.sort_by_key(rank);
    order
}

/// How likely a value is: register tiles prefer few vectors and many rows, outer levels are log-uniform, all prefer
/// tiles without waste. `inner` is the size of the levels further in.
fn weight(sketch: &Sketch, knob: usize, inner: i64, value: i64) -> f64 {
    let KnobRole::Tile { extent, level, vector, reduce, .. } = &sketch.knobs[knob].role else {
        return 1.0;
    };
    // What the levels further in leave to be tiled.
    let left = (extent + inner - 1) / inner.max(1);
    let tiles = (left + value - 1) / value;
    let is_tight = (left + tiles - 1) / tiles == value;
    let neat: f64 = match left % value {
        0 => 4.0,
        _ if is_tight => 1.0,
        _ => 0.1,
    };
    match level {
        3 if *vector => register_vectors(sketch, knob, value),
        _ if *vector => 1.0,
        3 => neat * value as f64,
        _ if *reduce => neat,
        _ => neat / value as f64,
    }
}

/// Up to four vectors of columns leave room for rows that share them; without rows all widths are equally likely.
fn register_vectors(sketch: &Sketch, knob: usize, value: i64) -> f64 {
    let stage = sketch.knobs[knob].role.stage();
    let has_rows = sketch
        .knobs
        .iter()
        .any(|k| matches!(&k.role, KnobRole::Tile { stage: s, level: 3, vector: false, .. } if s == stage));
    let vectors = value as f64 / sketch.knobs[knob].least().max(1) as f64;
    if has_rows && vectors > 4.0 { (4.0 / vectors).powi(2) } else { 1.0 }
}
