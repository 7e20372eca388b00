//! What loop variables stand for while the emitter walks the nest, and addresses under that.

use std::collections::HashMap;

use talweg_expr::{Expr, Ranges, Symbol};

use crate::linear::Linear;

/// What a bound variable stands for. Unbound variables are those of loops that exist at run time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bind {
    /// One iteration of an unrolled loop.
    Const(i64),
    /// The lanes of a vector: the variable's value is this base plus the lane number. In resolved expressions the
    /// variable itself then stands for the lane number.
    Lanes(i64),
    /// One of several iterations done at once: the variable's value is itself times the first number plus the second.
    Repeated(i64, i64),
}

/// How an address moves from lane to lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LanePattern {
    /// The same for all lanes.
    Uniform,
    /// Moves by this many elements (not zero).
    Stride(i64),
    /// Anything else.
    Irregular,
}

/// A flattened address: `constant + sum(terms)`, plus the lane's part. Terms of a regular address do not mention the
/// lane.
#[derive(Clone, Debug, PartialEq)]
pub struct Address {
    pub constant: i64,
    pub terms: Vec<(Expr, i64)>,
    pub pattern: LanePattern,
}

/// Bindings and ranges of the loop variables around the current statement.
#[derive(Default)]
pub struct Env {
    bound: HashMap<Expr, Bind>,
    lane: Option<Expr>,
    /// Ranges of run-time variables, and of the lane number.
    pub ranges: Ranges,
}

impl Env {
    /// Binds a variable to one value.
    pub fn bind_const(&mut self, var: &Expr, value: i64) {
        self.bound.insert(var.clone(), Bind::Const(value));
    }

    /// Makes a variable the lanes `base..base + lanes`.
    pub fn bind_lanes(&mut self, var: &Expr, base: i64, lanes: i64) {
        self.bound.insert(var.clone(), Bind::Lanes(base));
        self.lane = Some(var.clone());
        self.set_range(var, 0, lanes - 1);
    }

    /// Makes a run-time variable count groups of `times` iterations, of which this is number `which`.
    pub fn bind_repeated(&mut self, var: &Expr, times: i64, which: i64) {
        self.bound.insert(var.clone(), Bind::Repeated(times, which));
    }

    /// Ends what [`Env::bind_repeated`] began; the range stays.
    pub fn end_repeated(&mut self, var: &Expr) {
        self.bound.remove(var);
    }

    /// Forgets a variable.
    pub fn unbind(&mut self, var: &Expr) {
        self.bound.remove(var);
        if self.lane.as_ref() == Some(var) {
            self.lane = None;
        }
        if let Some(s) = var.as_sym() {
            self.ranges.remove(s);
        }
    }

    /// The range of a run-time variable, both ends included.
    pub fn set_range(&mut self, var: &Expr, lo: i64, hi: i64) {
        if let Some(s) = var.as_sym() {
            self.ranges.set(s, lo, hi.max(lo));
        }
    }

    /// The variable that stands for the lane number.
    pub fn lane(&self) -> Option<&Expr> {
        self.lane.as_ref()
    }

    /// The first value of the lanes' variable.
    pub fn lane_base(&self) -> i64 {
        match self.lane.as_ref().and_then(|l| self.bound.get(l)) {
            Some(Bind::Lanes(base)) => *base,
            _ => 0,
        }
    }

    /// Whether the expression, resolved, differs between lanes.
    pub fn is_lane_varying(&self, resolved: &Expr) -> bool {
        self.lane.as_ref().and_then(|l| l.as_sym()).is_some_and(|l| resolved.mentions(l))
    }

    fn value_of(&self, symbol: &Symbol) -> Option<Expr> {
        let var = Expr::sym(symbol);
        match self.bound.get(&var)? {
            Bind::Const(v) => Some(Expr::int(*v)),
            Bind::Lanes(base) => Some(var + *base),
            Bind::Repeated(times, which) => Some(var * *times + *which),
        }
    }

    /// Substitutes the bound variables and simplifies under the known ranges.
    pub fn resolve(&self, e: &Expr) -> Expr {
        if e.as_int().is_some() || e.as_bool().is_some() {
            return e.clone();
        }
        e.subst(&|s| self.value_of(s)).simplify(&self.ranges)
    }

    /// The address under the current bindings.
    pub fn address(&self, linear: &Linear) -> Address {
        let mut out = Linear { constant: linear.constant, terms: Vec::with_capacity(linear.terms.len()) };
        let mut stride = 0;
        let mut irregular = false;
        for (term, c) in &linear.terms {
            match self.bound.get(term) {
                Some(Bind::Const(v)) => out.constant += c * v,
                Some(Bind::Lanes(base)) => {
                    out.constant += c * base;
                    stride += c;
                }
                Some(Bind::Repeated(times, which)) => {
                    out.constant += c * which;
                    out.add_term(term, c * times);
                }
                None if term.as_sym().is_some() => out.add_term(term, *c),
                None => out.add_expr(&self.resolve(term), *c),
            }
        }
        if let Some(lane) = &self.lane {
            if let Some(at) = out.terms.iter().position(|(t, _)| t == lane) {
                stride += out.terms.remove(at).1;
            }
            irregular = out.terms.iter().any(|(t, _)| t.as_sym().is_none() && self.is_lane_varying(t));
            if irregular && stride != 0 {
                out.add_term(lane, stride);
            }
        }
        let pattern = match (irregular, stride) {
            (true, _) => LanePattern::Irregular,
            (false, 0) => LanePattern::Uniform,
            (false, s) => LanePattern::Stride(s),
        };
        Address { constant: out.constant, terms: out.terms, pattern }
    }

    /// Smallest and largest value of `sum(terms)`, when both are known.
    pub fn bounds(&self, terms: &[(Expr, i64)]) -> Option<(i64, i64)> {
        let (mut lo, mut hi) = (0.0, 0.0);
        for (t, c) in terms {
            let b = t.bounds(&self.ranges);
            let (x, y) = (b.lo * *c as f64, b.hi * *c as f64);
            lo += x.min(y);
            hi += x.max(y);
        }
        let exact = |v: f64| v.is_finite() && v.abs() < 9e15;
        (exact(lo) && exact(hi)).then_some((lo as i64, hi as i64))
    }
}
