//! One sketch: a trace with open knobs, its symbolic nest, and the formulas its knobs must satisfy.

use talweg_expr::{Expr, Symbol};
use talweg_ir::{Nest, Role};
use talweg_schedule::{Schedule, Trace};

use crate::formula::Check;
use crate::knob::{Constraint, Knob, KnobRole};

/// A schedule with open knobs.
#[derive(Clone, Debug, PartialEq)]
pub struct Sketch {
    /// Its structural choices, for people; unique in its space.
    pub name: String,
    /// The steps, with knobs as symbols.
    pub trace: Trace,
    /// The loop nest, with knobs as symbols: one lowering for all candidates.
    pub nest: Nest,
    /// The knobs, in a fixed order.
    pub knobs: Vec<Knob>,
    /// What the knobs must satisfy together.
    pub constraints: Vec<Constraint>,
    /// The stages of the DAG with the knobs that decide how they are computed.
    pub nodes: Vec<Node>,
    /// For each knob, the constraints that mention it.
    pub(crate) limits: Vec<Vec<usize>>,
    /// For each tile knob, the knobs of levels further in of the same loop.
    pub(crate) inside: Vec<Vec<usize>>,
    checks: Vec<Check>,
    symbols: Vec<Symbol>,
}

/// A stage and its knobs, the unit of crossover.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// The stage whose steps the knobs belong to.
    pub stage: String,
    /// Positions in [`Sketch::knobs`].
    pub knobs: Vec<usize>,
}

/// Bytes of scratch a thread may use, and how much larger a packed constant may get.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    pub local_bytes: i64,
}

impl Sketch {
    /// Lowers a schedule with open knobs, adds the limits its buffers imply, and checks that the smallest values of all
    /// knobs are legal. `None` when the schedule cannot be lowered or not even those are.
    pub(crate) fn new(
        name: String,
        schedule: &Schedule,
        knobs: Vec<Knob>,
        mut constraints: Vec<Constraint>,
        budget: Budget,
    ) -> Option<Sketch> {
        let nest = schedule.lower().ok()?;
        let least = |s: &Symbol| knobs.iter().find(|k| k.symbol == *s).map(Knob::least);
        constraints.extend(buffer_limits(&nest, budget, &least));
        let is_open =
            |c: &Constraint| [&c.lhs, &c.rhs].iter().any(|e| e.symbols().iter().any(Symbol::is_knob));
        constraints.retain(|c| is_open(c) || !c.holds(&|_| None));
        let mut nodes: Vec<Node> = Vec::new();
        for (at, k) in knobs.iter().enumerate() {
            match nodes.iter_mut().find(|n| n.stage == k.role.stage()) {
                Some(n) => n.knobs.push(at),
                None => nodes.push(Node { stage: k.role.stage().to_string(), knobs: vec![at] }),
            }
        }
        let symbols: Vec<Symbol> = knobs.iter().map(|k| k.symbol.clone()).collect();
        let inside = (0..knobs.len()).map(|at| levels_inside(&knobs, at)).collect();
        let trace = schedule.trace().clone();
        let (limits, checks) = (Vec::new(), Vec::new());
        let mut sketch =
            Sketch { name, trace, nest, knobs, constraints, nodes, limits, inside, checks, symbols };
        sketch.compile_constraints();
        sketch.satisfies(&sketch.smallest()).then_some(sketch)
    }

    /// Adds constraints, those the smallest values of all knobs satisfy: these must stay legal.
    pub(crate) fn restrict(&mut self, constraints: Vec<Constraint>) {
        let smallest = self.smallest();
        let is_possible = |c: &Constraint| c.holds(&self.lookup(&smallest));
        let possible: Vec<Constraint> = constraints.into_iter().filter(is_possible).collect();
        self.constraints.extend(possible);
        self.compile_constraints();
    }

    /// Makes what checks of constraints need.
    fn compile_constraints(&mut self) {
        let about = |k: &Knob, c: &Constraint| c.lhs.mentions(&k.symbol) || c.rhs.mentions(&k.symbol);
        let constraints = &self.constraints;
        let limits =
            |k: &Knob| (0..constraints.len()).filter(|c| about(k, &constraints[*c])).collect::<Vec<usize>>();
        self.limits = self.knobs.iter().map(limits).collect();
        self.checks = constraints.iter().map(|c| Check::new(c, &self.symbols)).collect();
    }

    /// The smallest value of every knob, which is always legal.
    pub fn smallest(&self) -> Vec<i64> {
        self.knobs.iter().map(Knob::least).collect()
    }

    /// The position of a knob.
    pub fn position(&self, symbol: &Symbol) -> Option<usize> {
        self.knobs.iter().position(|k| k.symbol == *symbol)
    }

    /// The value of a knob in a list of values.
    pub fn lookup<'a>(&'a self, values: &'a [i64]) -> impl Fn(&Symbol) -> Option<i64> + 'a {
        move |s| self.position(s).and_then(|at| values.get(at).copied())
    }

    /// Whether the values are in their domains and every constraint holds.
    pub fn satisfies(&self, values: &[i64]) -> bool {
        values.len() == self.knobs.len()
            && self.knobs.iter().zip(values).all(|(k, v)| k.domain.binary_search(v).is_ok())
            && self.holds(values)
    }

    /// Whether every constraint holds.
    pub(crate) fn holds(&self, values: &[i64]) -> bool {
        self.checks.iter().all(|c| c.holds(values, &self.symbols))
    }

    /// Whether every constraint that mentions a knob holds. The values of a legal candidate of which one knob got another
    /// value of its domain are legal when this is true.
    pub fn holds_around(&self, knob: usize, values: &[i64]) -> bool {
        self.limits[knob].iter().all(|c| self.checks[*c].holds(values, &self.symbols))
    }

    /// How much the values exceed the constraints that mention a knob.
    pub(crate) fn excess_around(&self, knob: usize, values: &[i64]) -> f64 {
        self.limits[knob].iter().map(|c| self.checks[*c].excess(values, &self.symbols)).sum()
    }

    /// The trace with the values in place of the knobs.
    pub fn trace_at(&self, values: &[i64]) -> Trace {
        let lookup = self.lookup(values);
        self.trace.subst(&|s| lookup(s).map(Expr::int))
    }
}

/// The knobs of levels further in of the loop that a tile knob belongs to.
fn levels_inside(knobs: &[Knob], at: usize) -> Vec<usize> {
    let KnobRole::Tile { stage, axis, level, .. } = &knobs[at].role else { return Vec::new() };
    let is_inside = |k: &Knob| match &k.role {
        KnobRole::Tile { stage: s, axis: a, level: l, .. } => s == stage && a == axis && l > level,
        KnobRole::Unroll { stage: s, axis: a, .. } => s == stage && a == axis,
        KnobRole::Choice { .. } => false,
    };
    (0..knobs.len()).filter(|k| is_inside(&knobs[*k])).collect()
}

/// Local buffers fit the budget, packed constants stay below twice their source.
///
/// What the smallest knobs already need is always granted: long rows have buffers no knob can shrink.
fn buffer_limits(nest: &Nest, budget: Budget, least: &dyn Fn(&Symbol) -> Option<i64>) -> Vec<Constraint> {
    let elements = |shape: &[Expr]| shape.iter().fold(Expr::int(1), |p, e| p * e);
    let mut out = Vec::new();
    for b in &nest.buffers {
        if b.role == Role::Local {
            let bytes = elements(&b.shape) * b.dtype.bytes() as i64;
            let limit = bytes.eval(least).unwrap_or(0).max(budget.local_bytes);
            out.push(Constraint::new(format!("bytes of {}", b.name), bytes, limit));
        }
    }
    for p in &nest.packs {
        let (packed, source) = (nest.buffer(p.packed), nest.buffer(p.source));
        let (size, whole) = (elements(&packed.shape), elements(&source.shape).as_int().unwrap_or(0));
        let limit = (whole * 2 + PACKED_SLACK).max(size.eval(least).unwrap_or(0));
        out.push(Constraint::new(format!("size of {}", packed.name), size, limit));
    }
    out
}

/// Elements a packed constant may be padded by however small it is.
const PACKED_SLACK: i64 = 1 << 14;
