//! Knobs and constraints: plain data that every strategy reads.

use talweg_expr::{Expr, Symbol};

/// A number left open in a sketch.
#[derive(Clone, Debug, PartialEq)]
pub struct Knob {
    /// The symbol that stands for it in trace, nest and constraints.
    pub symbol: Symbol,
    /// The values it may take, in increasing order, never empty. The smallest of every knob together are legal.
    pub domain: Vec<i64>,
    /// What it decides.
    pub role: KnobRole,
}

/// What a knob decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KnobRole {
    /// The extent of one level of a tiled loop.
    Tile {
        /// The stage whose tiling it belongs to; accumulating stages count to the stage they are computed in.
        stage: String,
        /// The loop that is tiled.
        axis: String,
        /// Its extent.
        extent: i64,
        /// From 1, counted inwards; level 0 is what the others leave.
        level: usize,
        /// Whether this level runs as vector lanes.
        vector: bool,
        /// Whether the loop runs over a reduction.
        reduce: bool,
    },
    /// How many iterations of a loop are unrolled.
    Unroll {
        /// The stage, as for tiles.
        stage: String,
        /// The loop.
        axis: String,
        /// Its extent.
        extent: i64,
    },
    /// A choice from a list, by value.
    Choice {
        /// The stage it belongs to.
        stage: String,
        /// What is chosen.
        what: String,
    },
}

impl KnobRole {
    /// The stage the knob belongs to, the unit of crossover.
    pub fn stage(&self) -> &str {
        match self {
            KnobRole::Tile { stage, .. }
            | KnobRole::Unroll { stage, .. }
            | KnobRole::Choice { stage, .. } => stage,
        }
    }
}

impl Knob {
    /// The smallest value.
    pub fn least(&self) -> i64 {
        self.domain.first().copied().unwrap_or(1)
    }

    /// The position of the value in the domain nearest to `value`, in ratio; the smaller one of equally near ones.
    pub fn nearest(&self, value: f64) -> usize {
        let value = value.max(1e-3);
        let distance = |v: &i64| ((*v as f64).max(1e-3) / value).ln().abs();
        let best = self.domain.iter().enumerate().min_by(|a, b| distance(a.1).total_cmp(&distance(b.1)));
        best.map_or(0, |(at, _)| at)
    }
}

/// `lhs <= rhs`, formulas over knobs.
#[derive(Clone, Debug, PartialEq)]
pub struct Constraint {
    /// What is limited, for people.
    pub name: String,
    /// The quantity.
    pub lhs: Expr,
    /// Its limit.
    pub rhs: Expr,
    /// Whether it has a slope that descent can follow; whether a tile divides its loop has none.
    pub has_slope: bool,
}

impl Constraint {
    /// `lhs <= rhs`.
    pub fn new(name: impl Into<String>, lhs: impl Into<Expr>, rhs: impl Into<Expr>) -> Constraint {
        Constraint { name: name.into(), lhs: lhs.into(), rhs: rhs.into(), has_slope: true }
    }

    /// `lhs <= rhs`, of which nothing is known between whole values.
    pub fn without_slope(name: impl Into<String>, lhs: impl Into<Expr>, rhs: impl Into<Expr>) -> Constraint {
        Constraint { has_slope: false, ..Constraint::new(name, lhs, rhs) }
    }

    /// How much the limit is exceeded, as a ratio minus one; at most 0 when it holds, infinite when a side has no value.
    pub fn excess(&self, at: &dyn Fn(&Symbol) -> Option<i64>) -> f64 {
        match (self.lhs.eval(at), self.rhs.eval(at)) {
            (Some(l), Some(r)) if l <= r => 0.0,
            (Some(l), Some(r)) => (l as f64 / (r as f64).max(1.0) - 1.0).max(1e-9),
            _ => f64::INFINITY,
        }
    }

    /// Whether it holds.
    pub fn holds(&self, at: &dyn Fn(&Symbol) -> Option<i64>) -> bool {
        matches!((self.lhs.eval(at), self.rhs.eval(at)), (Some(l), Some(r)) if l <= r)
    }
}
