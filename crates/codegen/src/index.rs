//! Index arithmetic at run time: every sub-expression is computed once, in the outermost loop body it is known in.

use inkwell::IntPredicate;
use inkwell::types::IntType;
use inkwell::values::{InstructionOpcode, PointerValue};
use talweg_expr::{BinaryOp, Expr, Node, Ty, UnaryOp};
use talweg_ir::TensorId;

use crate::emitter::{Emit, Emitter};
use crate::linear::Linear;
use crate::ops::{Ops, V};

/// Terms with their coefficients.
type Terms = Vec<(Expr, i64)>;

impl<'c, 'p> Emitter<'c, 'p> {
    /// The innermost run-time loop whose variable occurs; 0 when none does.
    pub fn depth_of(&self, e: &Expr) -> Emit<usize> {
        if e.as_sym().is_some() {
            return match self.frame.variables.get(e) {
                Some((depth, _)) => Ok(*depth),
                None => Err(self.internal(format!("variable `{e}` is used outside its loop"))),
            };
        }
        let mut depth = 0;
        let mut unknown = None;
        e.visit_symbols(&mut |s| match self.frame.variables.get(&Expr::sym(s)) {
            Some((d, _)) => depth = depth.max(*d),
            None => unknown = Some(s.clone()),
        });
        match unknown {
            None => Ok(depth),
            Some(s) => Err(self.internal(format!("variable `{s}` is used outside its loop"))),
        }
    }

    /// The depth of a sum of terms.
    pub fn depth_of_terms(&self, terms: &[(Expr, i64)]) -> Emit<usize> {
        terms.iter().try_fold(0, |d, (t, _)| Ok(d.max(self.depth_of(t)?)))
    }

    /// The value of a resolved expression that is the same for all lanes: an i64, or a bit for truth expressions.
    pub fn index(&mut self, e: &Expr) -> Emit<V<'c>> {
        match e.node() {
            Node::Int(v) => return Ok(self.o.int(*v).into()),
            Node::Bool(v) => return Ok(self.o.bool(*v)),
            Node::Sym(_) => {
                return match self.frame.variables.get(e) {
                    Some((_, v)) => Ok((*v).into()),
                    None => Err(self.internal(format!("variable `{e}` is used outside its loop"))),
                };
            }
            _ => {}
        }
        let depth = self.depth_of(e)?;
        if let Some(v) = self.frame.scopes[depth].values.get(e) {
            return Ok(*v);
        }
        let v = match e.node() {
            Node::Binary(BinaryOp::Add, ..) => self.sum(&Linear::of(e))?,
            Node::Binary(op, a, b) => {
                let plain = self.is_non_negative(a);
                let (x, y) = (self.index(a)?, self.index(b)?);
                let marker = self.frame.scopes[depth].marker;
                let o = &self.o;
                match o.before(marker, || integer_op(o, *op, x, y, b.as_int(), plain)) {
                    Some(v) => v,
                    None => return Err(self.not_an_index(e)),
                }
            }
            Node::Unary(op, a) => {
                let x = self.index(a)?;
                let marker = self.frame.scopes[depth].marker;
                let o = &self.o;
                match op {
                    UnaryOp::Not => o.before(marker, || o.not(x)),
                    UnaryOp::Abs => o.before(marker, || integer_abs(o, x)),
                    _ => return Err(self.not_an_index(e)),
                }
            }
            Node::Select(c, a, b) => {
                let (c, a, b) = (self.index(c)?, self.index(a)?, self.index(b)?);
                let marker = self.frame.scopes[depth].marker;
                let o = &self.o;
                o.before(marker, || o.select(c, a, b))
            }
            _ => return Err(self.not_an_index(e)),
        };
        self.frame.scopes[depth].values.insert(e.clone(), v);
        Ok(v)
    }

    fn not_an_index(&self, e: &Expr) -> crate::CodegenError {
        crate::CodegenError::Unsupported {
            kernel: self.plan.name.clone(),
            what: format!("`{e}` is not an integer or truth expression and cannot be an index"),
        }
    }

    fn is_non_negative(&self, e: &Expr) -> bool {
        e.ty() == Ty::Int && e.bounds(&self.env.ranges).lo >= 0.0
    }

    /// Terms grouped by the loop they belong to, outermost first.
    fn by_depth(&self, terms: &[(Expr, i64)]) -> Emit<Vec<(usize, Terms)>> {
        let mut groups: Vec<(usize, Terms)> = Vec::new();
        for t in terms {
            let d = self.depth_of(&t.0)?;
            match groups.binary_search_by_key(&d, |g| g.0) {
                Ok(at) => groups[at].1.push(t.clone()),
                Err(at) => groups.insert(at, (d, vec![t.clone()])),
            }
        }
        Ok(groups)
    }

    /// `scale * sum(terms)` computed at `depth`.
    fn group_value(&mut self, depth: usize, terms: &[(Expr, i64)], scale: i64) -> Emit<V<'c>> {
        let mut parts = Vec::new();
        for (t, c) in terms {
            parts.push((self.index(t)?, c * scale));
        }
        let marker = self.frame.scopes[depth].marker;
        let o = &self.o;
        Ok(o.before(marker, || {
            parts
                .into_iter()
                .map(|(v, c)| if c == 1 { v } else { o.mul(v, o.int(c).into()) })
                .reduce(|a, b| o.add(a, b))
                .unwrap_or_else(|| o.int(0).into())
        }))
    }

    /// The value of a sum; sums that share their outer part share its computation.
    pub fn sum(&mut self, linear: &Linear) -> Emit<V<'c>> {
        let mut prefix = Terms::new();
        let mut value: Option<V> = None;
        let mut depth = 0;
        for (d, group) in self.by_depth(&linear.terms)? {
            prefix.extend(group.iter().cloned());
            depth = d;
            let id = self.sums.id(&prefix);
            if let Some(v) = self.frame.scopes[d].sums.get(&id) {
                value = Some(*v);
                continue;
            }
            let part = self.group_value(d, &group, 1)?;
            let o = &self.o;
            let v = match value {
                None => part,
                Some(outer) => o.before(self.frame.scopes[d].marker, || o.add(outer, part)),
            };
            self.frame.scopes[d].sums.insert(id, v);
            value = Some(v);
        }
        let o = &self.o;
        let constant: V = o.int(linear.constant).into();
        Ok(match value {
            None => constant,
            Some(v) if linear.constant == 0 => v,
            Some(v) => o.before(self.frame.scopes[depth].marker, || o.add(v, constant)),
        })
    }

    /// The address of element `sum(terms)` of a buffer; accesses that share their outer part share its pointer.
    pub fn pointer(&mut self, buffer: TensorId, terms: &[(Expr, i64)]) -> Emit<PointerValue<'c>> {
        let bytes = self.plan.buffer(buffer).dtype.bytes() as i64;
        let mut pointer = match self.frame.bases[buffer.index()] {
            Some(p) => p,
            None => return Err(self.internal(format!("buffer {} has no memory here", buffer.0))),
        };
        if terms.is_empty() {
            return Ok(pointer);
        }
        let whole = self.sums.id(terms);
        let depth = self.depth_of_terms(terms)?;
        if let Some(p) = self.frame.scopes[depth].pointers.get(&(buffer, whole)) {
            return Ok(*p);
        }
        let mut prefix = Terms::new();
        for (d, group) in self.by_depth(terms)? {
            prefix.extend(group.iter().cloned());
            let id = self.sums.id(&prefix);
            if let Some(p) = self.frame.scopes[d].pointers.get(&(buffer, id)) {
                pointer = *p;
                continue;
            }
            let part = self.group_value(d, &group, bytes)?;
            let o = &self.o;
            pointer = o.before(self.frame.scopes[d].marker, || o.offset(pointer, part.into_int_value()));
            self.frame.scopes[d].pointers.insert((buffer, id), pointer);
        }
        self.frame.scopes[depth].pointers.insert((buffer, whole), pointer);
        Ok(pointer)
    }

    /// The value of a resolved expression, which may differ between lanes: then a vector of integers or bits.
    pub fn lane_index(&mut self, e: &Expr) -> Emit<V<'c>> {
        if !self.env.is_lane_varying(e) {
            return self.index(e);
        }
        let narrow = self.fits_i32(e);
        let t = if narrow { self.o.ctx.i32_type() } else { self.o.i64() };
        self.lane_value(e, t)
    }

    fn fits_i32(&self, e: &Expr) -> bool {
        let own = e.ty() == Ty::Bool || {
            let b = e.bounds(&self.env.ranges);
            b.lo >= f64::from(i32::MIN) && b.hi <= f64::from(i32::MAX)
        };
        own && match e.node() {
            Node::Unary(_, a) => self.fits_i32(a),
            Node::Binary(_, a, b) => self.fits_i32(a) && self.fits_i32(b),
            Node::Select(c, a, b) => self.fits_i32(c) && self.fits_i32(a) && self.fits_i32(b),
            _ => true,
        }
    }

    fn lane_value(&mut self, e: &Expr, t: IntType<'c>) -> Emit<V<'c>> {
        if !self.env.is_lane_varying(e) {
            let v = self.index(e)?;
            let narrower = e.ty() != Ty::Bool && t.get_bit_width() < 64;
            return Ok(if narrower { self.o.cast(InstructionOpcode::Trunc, v, t.into()) } else { v });
        }
        let lanes = self.frame.vector.map_or(1, |v| v.lanes);
        Ok(match e.node() {
            Node::Sym(_) => self.o.int_vector(t, 0..i64::from(lanes)),
            Node::Unary(op, a) => {
                let x = self.lane_value(a, t)?;
                match op {
                    UnaryOp::Not => self.o.not(x),
                    UnaryOp::Abs => integer_abs(&self.o, x),
                    _ => return Err(self.not_an_index(e)),
                }
            }
            Node::Binary(op, a, b) => {
                let plain = self.is_non_negative(a);
                let (x, y) = (self.lane_value(a, t)?, self.lane_value(b, t)?);
                match integer_op(&self.o, *op, x, y, b.as_int(), plain) {
                    Some(v) => v,
                    None => return Err(self.not_an_index(e)),
                }
            }
            Node::Select(c, a, b) => {
                let (c, a, b) = (self.lane_value(c, t)?, self.lane_value(a, t)?, self.lane_value(b, t)?);
                self.o.select(c, a, b)
            }
            _ => return Err(self.not_an_index(e)),
        })
    }
}

fn integer_abs<'c>(o: &Ops<'c>, x: V<'c>) -> V<'c> {
    let zero = x.get_type().const_zero();
    let negative = o.icmp(IntPredicate::SLT, x, zero);
    let minus = o.sub(zero, x);
    o.select(negative, minus, x)
}

/// An operator of index arithmetic; `plain` says that `a` is not negative. `None` for real-valued operators.
fn integer_op<'c>(
    o: &Ops<'c>,
    op: BinaryOp,
    a: V<'c>,
    b: V<'c>,
    divisor: Option<i64>,
    plain: bool,
) -> Option<V<'c>> {
    let pick = |p: IntPredicate| {
        let c = o.icmp(p, a, b);
        o.select(c, a, b)
    };
    Some(match op {
        BinaryOp::Add => o.add(a, b),
        BinaryOp::Mul => o.mul(a, b),
        BinaryOp::Min => pick(IntPredicate::SLT),
        BinaryOp::Max => pick(IntPredicate::SGT),
        BinaryOp::Lt => o.icmp(IntPredicate::SLT, a, b),
        BinaryOp::Le => o.icmp(IntPredicate::SLE, a, b),
        BinaryOp::Eq => o.icmp(IntPredicate::EQ, a, b),
        BinaryOp::Ne => o.icmp(IntPredicate::NE, a, b),
        BinaryOp::And => o.and(a, b),
        BinaryOp::Or => o.or(a, b),
        BinaryOp::FloorDiv => floor_div(o, a, b, divisor, plain),
        BinaryOp::CeilDiv => {
            let zero = a.get_type().const_zero();
            let q = floor_div(o, o.sub(zero, a), b, divisor, false);
            o.sub(q.get_type().const_zero(), q)
        }
        BinaryOp::Mod => {
            if plain && divisor.is_some_and(|d| d > 0) {
                o.binary(InstructionOpcode::URem, a, b)
            } else {
                let q = floor_div(o, a, b, divisor, plain);
                o.sub(a, o.mul(q, b))
            }
        }
        BinaryOp::Div | BinaryOp::Pow => return None,
    })
}

fn floor_div<'c>(o: &Ops<'c>, a: V<'c>, b: V<'c>, divisor: Option<i64>, plain: bool) -> V<'c> {
    match divisor {
        Some(d) if d > 0 && plain => return o.binary(InstructionOpcode::UDiv, a, b),
        Some(d) if d > 0 && d & (d - 1) == 0 => {
            let (a, b) = o.unify(a, b);
            let shift = o.int_of(b.get_type(), i64::from(d.trailing_zeros()));
            return o.binary(InstructionOpcode::AShr, a, shift);
        }
        _ => {}
    }
    let (a, b) = o.unify(a, b);
    let zero = b.get_type().const_zero();
    // The quotient by zero is never used, but it must not trap either.
    let b = match divisor {
        Some(d) if d != 0 => b,
        _ => o.select(o.icmp(IntPredicate::EQ, b, zero), o.int_of(b.get_type(), 1), b),
    };
    let q = o.binary(InstructionOpcode::SDiv, a, b);
    let r = o.sub(a, o.mul(q, b));
    let inexact = o.icmp(IntPredicate::NE, r, zero);
    let signs = o.binary(InstructionOpcode::Xor, r, b);
    let opposite = o.icmp(IntPredicate::SLT, signs, zero);
    let down = o.and(inexact, opposite);
    let one = o.int_of(q.get_type(), 1);
    o.select(down, o.sub(q, one), q)
}
