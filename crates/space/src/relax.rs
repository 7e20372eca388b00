//! Knobs as real variables: the box descent moves in, and the way back to a legal candidate.
//!
//! Every tile size and unroll factor becomes the logarithm of a real number between the ends of its domain, whatever the
//! extent's factors are: tiles need not divide it. Choices, whose values have no order, keep their value during a
//! descent; different seeds try different ones. Rounding never rejects: what violates a constraint is repaired.

use talweg_expr::{Expr, Ranges, Symbol};

use crate::candidate::Candidate;
use crate::knob::KnobRole;
use crate::rng::Rng;
use crate::sketch::Sketch;

/// How variables become whole numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// To the nearest value of the domain, in ratio.
    Nearest,
    /// To a size near by that wastes least: of the values within a third, one that leaves the fewest padded iterations of
    /// its loop, the nearest of several.
    Neat,
}

/// A variable of a relaxed sketch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Variable {
    /// The logarithm of the knob's smallest value.
    pub lo: f64,
    /// The logarithm of its largest.
    pub hi: f64,
    /// Whether descent moves it.
    pub moves: bool,
}

/// A sketch whose knobs are real numbers.
#[derive(Clone, Debug)]
pub struct Relaxation<'a> {
    sketch: &'a Sketch,
    variables: Vec<Variable>,
}

impl<'a> Relaxation<'a> {
    /// Relaxes a sketch.
    pub fn new(sketch: &'a Sketch) -> Relaxation<'a> {
        let variable = |k: &crate::knob::Knob| {
            let end = |v: Option<&i64>| (v.copied().unwrap_or(1).max(1) as f64).ln();
            let (lo, hi) = (end(k.domain.first()), end(k.domain.last()));
            Variable { lo, hi, moves: hi > lo && !matches!(k.role, KnobRole::Choice { .. }) }
        };
        Relaxation { sketch, variables: sketch.knobs.iter().map(variable).collect() }
    }

    /// One variable for each knob, in order.
    pub fn variables(&self) -> &[Variable] {
        &self.variables
    }

    /// The knobs' symbols, in order.
    pub fn symbols(&self) -> Vec<Symbol> {
        self.sketch.knobs.iter().map(|k| k.symbol.clone()).collect()
    }

    /// What is known of the knobs: the ends of their domains.
    pub fn ranges(&self) -> Ranges {
        let mut out = Ranges::new();
        for k in &self.sketch.knobs {
            out.set(&k.symbol, k.least(), k.domain.last().copied().unwrap_or(1));
        }
        out
    }

    /// The constraints that have a slope, as pairs of which the first is at most the second.
    pub fn constraints(&self) -> Vec<(Expr, Expr)> {
        let followed = self.sketch.constraints.iter().filter(|c| c.has_slope);
        followed.map(|c| (c.lhs.clone(), c.rhs.clone())).collect()
    }

    /// The variables of a candidate.
    pub fn point(&self, values: &[i64]) -> Vec<f64> {
        values.iter().map(|v| (*v).max(1) as f64).map(f64::ln).collect()
    }

    /// A point near another: each variable that moves is shifted by up to `by` in logarithm.
    pub fn shaken(&self, point: &[f64], by: f64, rng: &mut Rng) -> Vec<f64> {
        let shift = |(x, v): (&f64, &Variable)| {
            let to = x + (2.0 * rng.unit() - 1.0) * by;
            if v.moves { to.clamp(v.lo, v.hi) } else { *x }
        };
        point.iter().zip(&self.variables).map(shift).collect()
    }

    /// A legal candidate near a point.
    pub fn round(&self, sketch: usize, point: &[f64], rounding: Rounding) -> Candidate {
        Candidate { sketch, values: self.sketch.round(&self.wanted(point, rounding)) }
    }

    /// Like [`Relaxation::round`] without repair: nothing where the rounded values are illegal.
    pub fn round_or_reject(&self, sketch: usize, point: &[f64], rounding: Rounding) -> Option<Candidate> {
        let wanted = self.wanted(point, rounding);
        let values: Vec<i64> =
            self.sketch.knobs.iter().zip(&wanted).map(|(k, w)| k.domain[k.nearest(*w)]).collect();
        self.sketch.satisfies(&values).then_some(Candidate { sketch, values })
    }

    /// The values of a point, neat ones if asked for.
    fn wanted(&self, point: &[f64], rounding: Rounding) -> Vec<f64> {
        let mut wanted: Vec<f64> = point.iter().map(|x| x.exp()).collect();
        if rounding == Rounding::Neat {
            // Inner levels first: what they leave is what outer ones tile.
            let mut order: Vec<usize> = (0..wanted.len()).collect();
            order.sort_by_key(|k| self.sketch.inside[*k].len());
            for k in order {
                if let Some(v) = self.neat(k, &wanted) {
                    wanted[k] = v;
                }
            }
        }
        wanted
    }

    /// The value near `wanted[knob]` that pads its loop least.
    fn neat(&self, knob: usize, wanted: &[f64]) -> Option<f64> {
        let k = &self.sketch.knobs[knob];
        let KnobRole::Tile { extent, .. } = &k.role else { return None };
        let inner: f64 = self.sketch.inside[knob].iter().map(|i| wanted[*i].round().max(1.0)).product();
        let left = (*extent as f64 / inner).ceil().max(1.0);
        let target = wanted[knob].max(1e-3);
        let cost = |v: f64| {
            let padded = (left / v).ceil() * v / left;
            padded.ln() + 0.5 * (v / target).ln().abs()
        };
        let near = k.domain.iter().map(|v| *v as f64).filter(|v| (v / target).ln().abs() <= 0.34);
        near.min_by(|a, b| cost(*a).total_cmp(&cost(*b)))
    }
}
