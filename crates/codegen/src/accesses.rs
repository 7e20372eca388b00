//! Enumerating how a region accesses one buffer, with unrolled loops repeated and vector loops cut into chunks exactly
//! as emission will.

use talweg_expr::Expr;
use talweg_ir::{Reducer, TensorId};

use crate::emitter::{Emitter, Vector};
use crate::env::{Address, LanePattern};
use crate::linear::Linear;
use crate::loops::chunks;
use crate::plan::{For, Kind, Step, Store, Value};

/// What an access does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessKind {
    Read,
    Write,
    Update(Reducer),
}

/// One access of a region.
#[derive(Clone, Debug)]
pub struct Found {
    pub address: Address,
    pub vector: Vector,
    pub kind: AccessKind,
    /// Whether it happens whenever the region runs.
    pub certain: bool,
    /// Whether the address is the same in all iterations of the region's run-time loops.
    pub fixed: bool,
    /// Whether the access is inside a parallel loop of the region.
    pub parallel: bool,
}

/// Regions with more accesses than this are not worth looking at.
const MOST: usize = 4096;

struct Visitor {
    buffer: TensorId,
    /// Variables of run-time loops inside the region.
    inner: Vec<Expr>,
    certain: bool,
    parallel: bool,
    found: Vec<Found>,
    /// Something makes the region impossible to describe this way.
    failed: bool,
}

impl<'c, 'p> Emitter<'c, 'p> {
    /// All accesses of statements to a buffer; `None` when there are too many, or some cannot be described.
    pub fn accesses(&mut self, steps: &[Step], buffer: TensorId) -> Option<Vec<Found>> {
        let mut v = Visitor {
            buffer,
            inner: Vec::new(),
            certain: true,
            parallel: false,
            found: Vec::new(),
            failed: false,
        };
        self.visit_steps(&mut v, steps);
        (!v.failed).then_some(v.found)
    }

    /// All accesses of a loop to a buffer, the loop included.
    pub fn loop_accesses(&mut self, l: &For, buffer: TensorId) -> Option<Vec<Found>> {
        let mut v = Visitor {
            buffer,
            inner: Vec::new(),
            certain: true,
            parallel: false,
            found: Vec::new(),
            failed: false,
        };
        let repeated_away = self.env.resolve(&l.extent).as_int() == Some(l.repeat);
        if matches!(l.kind, Kind::Unroll | Kind::Vector) || repeated_away {
            self.visit_loop(&mut v, l);
        } else {
            self.visit_run(&mut v, l);
        }
        (!v.failed).then_some(v.found)
    }

    fn visit_steps(&mut self, v: &mut Visitor, steps: &[Step]) {
        for step in steps {
            if v.failed {
                return;
            }
            match step {
                Step::Alloc(_) | Step::Prefetch(_) => {}
                Step::Store(s) => self.visit_store(v, s),
                _ if !step.touches(v.buffer) => {}
                Step::If(i) => {
                    let condition = self.env.resolve(&i.condition);
                    match condition.as_bool() {
                        Some(true) => self.visit_steps(v, &i.then),
                        Some(false) => self.visit_steps(v, &i.otherwise),
                        None if self.env.is_lane_varying(&condition) => v.failed = true,
                        None => {
                            let certain = std::mem::replace(&mut v.certain, false);
                            self.visit_steps(v, &i.then);
                            self.visit_steps(v, &i.otherwise);
                            v.certain = certain;
                        }
                    }
                }
                Step::For(l) => self.visit_loop(v, l),
            }
        }
    }

    fn visit_loop(&mut self, v: &mut Visitor, l: &For) {
        let extent = self.env.resolve(&l.extent);
        if self.env.is_lane_varying(&extent) {
            v.failed = true;
            return;
        }
        match (l.kind, extent.as_int()) {
            (_, Some(n)) if n <= 0 => {}
            (Kind::Unroll, Some(n)) => (0..n).for_each(|i| self.visit_const(v, l, i)),
            (Kind::Vector, Some(n)) if self.frame.vector.is_none() => {
                for c in chunks(n, l.lanes, l.masked) {
                    if c.lanes == 1 {
                        self.visit_const(v, l, c.base);
                        continue;
                    }
                    self.env.bind_lanes(&l.var, c.base, i64::from(c.lanes));
                    self.frame.vector = Some(Vector { lanes: c.lanes, active: c.active });
                    self.visit_steps(v, &l.body);
                    self.frame.vector = None;
                    self.env.unbind(&l.var);
                }
            }
            (_, Some(n)) if n == l.repeat => (0..n).for_each(|i| self.visit_const(v, l, i)),
            _ => {
                let (certain, parallel) = (v.certain, v.parallel);
                v.certain &= extent.bounds(&self.env.ranges).lo >= 1.0;
                v.parallel |= l.kind == Kind::Parallel && self.frame.parallel.is_some();
                self.visit_run(v, l);
                (v.certain, v.parallel) = (certain, parallel);
            }
        }
    }

    fn visit_run(&mut self, v: &mut Visitor, l: &For) {
        let extent = self.env.resolve(&l.extent).floor_div(l.repeat).bounds(&self.env.ranges);
        let highest = if extent.hi.is_finite() { extent.hi as i64 - 1 } else { i64::MAX >> 16 };
        self.env.set_range(&l.var, 0, highest);
        v.inner.push(l.var.clone());
        for which in 0..l.repeat {
            if l.repeat > 1 {
                self.env.bind_repeated(&l.var, l.repeat, which);
            }
            self.visit_steps(v, &l.body);
            self.env.end_repeated(&l.var);
        }
        v.inner.pop();
        self.env.unbind(&l.var);
    }

    fn visit_const(&mut self, v: &mut Visitor, l: &For, value: i64) {
        if v.failed {
            return;
        }
        self.env.bind_const(&l.var, value);
        self.visit_steps(v, &l.body);
        self.env.unbind(&l.var);
    }

    fn visit_store(&mut self, v: &mut Visitor, s: &Store) {
        self.visit_value(v, &s.value);
        if s.buffer == v.buffer {
            let kind = match s.update {
                Some(reducer) => AccessKind::Update(reducer),
                None => AccessKind::Write,
            };
            self.found(v, &s.address, kind);
        }
    }

    fn visit_value(&mut self, v: &mut Visitor, value: &Value) {
        match value {
            Value::Read { buffer, address, .. } if *buffer == v.buffer => {
                self.found(v, address, AccessKind::Read);
            }
            Value::Unary(_, a) | Value::Cast(_, a) => self.visit_value(v, a),
            Value::Binary(_, a, b) => {
                self.visit_value(v, a);
                self.visit_value(v, b);
            }
            Value::Select(c, a, b) => {
                self.visit_value(v, c);
                if let Value::Index(condition, _) = &**c {
                    match self.env.resolve(condition).as_bool() {
                        Some(true) => return self.visit_value(v, a),
                        Some(false) => return self.visit_value(v, b),
                        None => {}
                    }
                    let certain = std::mem::replace(&mut v.certain, false);
                    self.visit_value(v, a);
                    self.visit_value(v, b);
                    v.certain = certain;
                } else {
                    self.visit_value(v, a);
                    self.visit_value(v, b);
                }
            }
            _ => {}
        }
    }

    fn found(&mut self, v: &mut Visitor, linear: &Linear, kind: AccessKind) {
        let address = self.env.address(linear);
        if address.pattern == LanePattern::Irregular || v.found.len() >= MOST {
            v.failed = true;
            return;
        }
        let vector = match (self.frame.vector, kind) {
            (Some(vector), _) if address.pattern != LanePattern::Uniform => vector,
            // A horizontal reduction: the lanes are the values combined, the element is one.
            (Some(vector), AccessKind::Update(_)) => vector,
            _ => Vector { lanes: 1, active: 1 },
        };
        let moves = |(t, _): &(Expr, i64)| v.inner.iter().any(|i| i.as_sym().is_some_and(|s| t.mentions(s)));
        let fixed = !address.terms.iter().any(moves);
        v.found.push(Found { address, vector, kind, certain: v.certain, fixed, parallel: v.parallel });
    }
}
