//! Values of elements: constants, reads, arithmetic, conversions.

use inkwell::values::InstructionOpcode;
use inkwell::{FloatPredicate, IntPredicate};
use talweg_expr::Expr;
use talweg_ir::{ArithOp, DType, MathOp, Reducer, Scalar};

use crate::cache::Function;
use crate::emitter::{Emit, Emitter};
use crate::error::CodegenError;
use crate::load::rounded;
use crate::ops::{V, is_const, lanes};
use crate::plan::Value;

impl<'c, 'p> Emitter<'c, 'p> {
    /// The value for the current lanes; a scalar when it is the same for all of them.
    pub fn eval(&mut self, value: &'p Value) -> Emit<V<'c>> {
        Ok(match value {
            Value::Float(v, _) => self.o.ctx.f32_type().const_float(*v).into(),
            Value::Int(v, d) => self.o.int_of(self.o.register_type(*d, 1), *v),
            Value::Index(e, d) => self.index_as(e, *d)?,
            Value::Read { buffer, address, .. } => self.read(*buffer, address)?,
            Value::Unary(op, a) => {
                let x = self.eval(a)?;
                self.unary(*op, a.dtype(), x)?
            }
            Value::Binary(op, a, b) => self.binary_value(*op, a, b)?,
            Value::Select(c, a, b) => self.select_value(c, a, b)?,
            Value::Cast(to, a) => {
                let x = self.eval(a)?;
                self.convert(x, a.dtype(), *to)
            }
        })
    }

    fn index_as(&mut self, e: &Expr, dtype: DType) -> Emit<V<'c>> {
        let resolved = self.env.resolve(e);
        let v = self.lane_index(&resolved)?;
        if resolved.ty() == talweg_expr::Ty::Bool {
            return Ok(v);
        }
        let from = if element_bits(v) == 32 { DType::I32 } else { DType::I64 };
        Ok(self.convert(v, from, dtype))
    }

    fn binary_value(&mut self, op: ArithOp, a: &'p Value, b: &'p Value) -> Emit<V<'c>> {
        let dtype = a.dtype();
        if dtype.is_float() && matches!(op, ArithOp::Add | ArithOp::Sub) {
            if let Value::Binary(ArithOp::Mul, x, y) = a {
                let (x, y, z) = (self.eval(x)?, self.eval(y)?, self.eval(b)?);
                let z = if op == ArithOp::Sub { self.o.fneg(z) } else { z };
                return Ok(self.multiply_add(x, y, z));
            }
            if let Value::Binary(ArithOp::Mul, x, y) = b {
                let (z, x, y) = (self.eval(a)?, self.eval(x)?, self.eval(y)?);
                let x = if op == ArithOp::Sub { self.o.fneg(x) } else { x };
                return Ok(self.multiply_add(x, y, z));
            }
        }
        let (x, y) = (self.eval(a)?, self.eval(b)?);
        self.arithmetic(op, dtype, x, y)
    }

    /// `x * y + z`. Scalars are spread to lanes once in a block: a register tile uses each of them several times.
    pub fn multiply_add(&mut self, x: V<'c>, y: V<'c>, z: V<'c>) -> V<'c> {
        let n = lanes(x).max(lanes(y)).max(lanes(z));
        let o = &self.o;
        let [x, y, z] = [x, y, z].map(|v| match lanes(v) {
            m if m == n => v,
            _ => self.frame.cache.splat(v, n, || o.splat(v, n)),
        });
        o.fma(x, y, z)
    }

    fn select_value(&mut self, c: &'p Value, a: &'p Value, b: &'p Value) -> Emit<V<'c>> {
        let Value::Index(condition, _) = c else {
            let (c, a, b) = (self.eval(c)?, self.eval(a)?, self.eval(b)?);
            return Ok(self.o.select(c, a, b));
        };
        let resolved = self.env.resolve(condition);
        match resolved.as_bool() {
            Some(true) => return self.eval(a),
            Some(false) => return self.eval(b),
            None => {}
        }
        let truth = self.lane_index(&resolved)?;
        let x = self.guarded(condition, true, |e| e.eval(a))?;
        let y = self.guarded(condition, false, |e| e.eval(b))?;
        Ok(self.o.select(truth, x, y))
    }

    /// An operator on two values of one type.
    pub fn arithmetic(&mut self, op: ArithOp, dtype: DType, a: V<'c>, b: V<'c>) -> Emit<V<'c>> {
        if dtype.is_float() {
            return self.float_arithmetic(op, a, b);
        }
        let o = &self.o;
        let signed = dtype != DType::U8 && dtype != DType::Bool;
        let ordered = |s: IntPredicate, u: IntPredicate| if signed { s } else { u };
        let (lt, le) =
            (ordered(IntPredicate::SLT, IntPredicate::ULT), ordered(IntPredicate::SLE, IntPredicate::ULE));
        Ok(match op {
            ArithOp::Add if dtype == DType::Bool => o.or(a, b),
            ArithOp::Mul if dtype == DType::Bool => o.and(a, b),
            ArithOp::Add => o.add(a, b),
            ArithOp::Sub => o.sub(a, b),
            ArithOp::Mul => o.mul(a, b),
            ArithOp::Div | ArithOp::Rem => self.integer_division(op, signed, a, b),
            ArithOp::Max => o.select(o.icmp(lt, a, b), b, a),
            ArithOp::Min => o.select(o.icmp(lt, b, a), b, a),
            ArithOp::Lt => o.icmp(lt, a, b),
            ArithOp::Le => o.icmp(le, a, b),
            ArithOp::Eq => o.icmp(IntPredicate::EQ, a, b),
            ArithOp::Ne => o.icmp(IntPredicate::NE, a, b),
            ArithOp::And => o.and(a, b),
            ArithOp::Or => o.or(a, b),
            ArithOp::Pow => self.integer_power(dtype, a, b),
        })
    }

    fn float_arithmetic(&mut self, op: ArithOp, a: V<'c>, b: V<'c>) -> Emit<V<'c>> {
        let o = &self.o;
        Ok(match op {
            ArithOp::Add => o.fadd(a, b),
            ArithOp::Sub => o.fsub(a, b),
            ArithOp::Mul => o.fmul(a, b),
            ArithOp::Div => self.quotient(a, b),
            ArithOp::Rem => self.float_remainder(a, b),
            // The form a single max or min instruction has.
            ArithOp::Max => o.select(o.fcmp(FloatPredicate::OGT, a, b), a, b),
            ArithOp::Min => o.select(o.fcmp(FloatPredicate::OLT, a, b), a, b),
            ArithOp::Pow => self.power(a, b),
            ArithOp::Lt => o.fcmp(FloatPredicate::OLT, a, b),
            ArithOp::Le => o.fcmp(FloatPredicate::OLE, a, b),
            ArithOp::Eq => o.fcmp(FloatPredicate::OEQ, a, b),
            ArithOp::Ne => o.fcmp(FloatPredicate::UNE, a, b),
            ArithOp::And | ArithOp::Or => return Err(self.unsupported("logic on floats; compare first")),
        })
    }

    fn float_remainder(&mut self, a: V<'c>, b: V<'c>) -> V<'c> {
        self.lane_by_lane(a, b, |e, x, y| e.o.call_c("fmodf", &[x, y], e.o.ctx.f32_type().into()))
    }

    /// Applies a scalar function of two floats to every lane.
    pub fn lane_by_lane(
        &mut self,
        a: V<'c>,
        b: V<'c>,
        f: impl Fn(&mut Self, V<'c>, V<'c>) -> V<'c>,
    ) -> V<'c> {
        let (a, b) = self.o.unify(a, b);
        if lanes(a) == 1 {
            return f(self, a, b);
        }
        let mut out = a.get_type().const_zero();
        for lane in 0..lanes(a) {
            let (x, y) = (self.o.extract(a, lane), self.o.extract(b, lane));
            let z = f(self, x, y);
            out = self.o.insert(out, z, lane);
        }
        out
    }

    /// Truncated division and remainder, 0 when the divisor is 0; never traps.
    fn integer_division(&mut self, op: ArithOp, signed: bool, a: V<'c>, b: V<'c>) -> V<'c> {
        let o = &self.o;
        let (a, b) = o.unify(a, b);
        let t = b.get_type();
        let (zero, one) = (t.const_zero(), o.int_of(t, 1));
        let by_zero = o.icmp(IntPredicate::EQ, b, zero);
        if !signed {
            let divisor = o.select(by_zero, one, b);
            let code = if op == ArithOp::Div { InstructionOpcode::UDiv } else { InstructionOpcode::URem };
            return o.select(by_zero, zero, o.binary(code, a, divisor));
        }
        let by_minus_one = o.icmp(IntPredicate::EQ, b, o.int_of(t, -1));
        let special = o.or(by_zero, by_minus_one);
        let divisor = o.select(special, one, b);
        let (code, minus) = match op {
            ArithOp::Div => (InstructionOpcode::SDiv, o.sub(zero, a)),
            _ => (InstructionOpcode::SRem, zero),
        };
        let plain = o.binary(code, a, divisor);
        let exact = o.select(by_minus_one, minus, plain);
        o.select(by_zero, zero, exact)
    }

    /// Wrapping power by repeated squaring; a negative exponent gives the truncated reciprocal.
    fn integer_power(&mut self, dtype: DType, a: V<'c>, b: V<'c>) -> V<'c> {
        let o = &self.o;
        let (a, b) = o.unify(a, b);
        let t = b.get_type();
        let (zero, one) = (t.const_zero(), o.int_of(t, 1));
        let is_odd = |v: V<'c>| o.icmp(IntPredicate::NE, o.and(v, one), zero);
        let signed = !matches!(dtype, DType::U8 | DType::Bool);
        let bits = register_bits(dtype) - u32::from(signed);
        let (mut out, mut square, mut left) = (one, a, b);
        for bit in 0..bits {
            out = o.select(is_odd(left), o.mul(out, square), out);
            if bit + 1 < bits {
                square = o.mul(square, square);
                left = o.binary(InstructionOpcode::LShr, left, one);
            }
        }
        if !signed {
            return out;
        }
        let minus_one = o.int_of(t, -1);
        let sign = o.select(is_odd(b), minus_one, one);
        let reciprocal = o.select(o.icmp(IntPredicate::EQ, a, minus_one), sign, zero);
        let reciprocal = o.select(o.icmp(IntPredicate::EQ, a, one), one, reciprocal);
        o.select(o.icmp(IntPredicate::SLT, b, zero), reciprocal, out)
    }

    fn unary(&mut self, op: MathOp, dtype: DType, x: V<'c>) -> Emit<V<'c>> {
        if op == MathOp::Not {
            return Ok(self.o.not(x));
        }
        if !dtype.is_float() {
            let zero = x.get_type().const_zero();
            return Ok(match op {
                MathOp::Neg => self.o.sub(zero, x),
                MathOp::Abs if dtype == DType::U8 => x,
                MathOp::Abs => {
                    let minus = self.o.sub(zero, x);
                    self.o.select(self.o.icmp(IntPredicate::SLT, x, zero), minus, x)
                }
                MathOp::Floor | MathOp::Ceil | MathOp::Round => x,
                _ => return Err(self.unsupported("math functions of integers; cast to a float type first")),
            });
        }
        if let Some(v) = self.frame.cache.computed(Function::Math(op), x) {
            return Ok(v);
        }
        let v = self.math(op, x);
        if !is_const(x) {
            self.frame.cache.compute(Function::Math(op), x, v);
        }
        Ok(v)
    }

    /// A quotient. Vectors are divided by what is the same for all lanes with one scalar division.
    fn quotient(&mut self, a: V<'c>, b: V<'c>) -> V<'c> {
        if lanes(a) == 1 || lanes(b) > 1 {
            return self.o.fdiv(a, b);
        }
        if let Some(v) = self.frame.cache.computed(Function::Reciprocal, b) {
            return self.o.fmul(a, v);
        }
        let v = self.o.fdiv(self.o.f32_like(1.0, b), b);
        if !is_const(b) {
            self.frame.cache.compute(Function::Reciprocal, b, v);
        }
        self.o.fmul(a, v)
    }

    /// Converts between types: floats to integers truncate and saturate, integers wrap.
    pub fn convert(&mut self, v: V<'c>, from: DType, to: DType) -> V<'c> {
        let o = &self.o;
        let t = o.register_type(to, 1);
        match (from, to) {
            (a, b) if a == b => v,
            (_, DType::Bool) if from.is_float() => o.fcmp(FloatPredicate::UNE, v, v.get_type().const_zero()),
            (_, DType::Bool) => o.icmp(IntPredicate::NE, v, v.get_type().const_zero()),
            (a, b) if a.is_float() && b.is_float() => rounded(o, b, v),
            (a, _) if a.is_float() => {
                let target = o.like(t, v);
                let name = if to == DType::U8 { "llvm.fptoui.sat" } else { "llvm.fptosi.sat" };
                o.intrinsic_over(name, target, &[target, v.get_type()], &[v])
            }
            (a, b) if b.is_float() => {
                let unsigned = matches!(a, DType::U8 | DType::Bool);
                let code = if unsigned { InstructionOpcode::UIToFP } else { InstructionOpcode::SIToFP };
                let real = o.cast(code, v, o.ctx.f32_type().into());
                rounded(o, b, real)
            }
            (a, b) => {
                let (from_bits, to_bits) = (register_bits(a), register_bits(b));
                let unsigned = matches!(a, DType::U8 | DType::Bool);
                let code = match to_bits.cmp(&from_bits) {
                    std::cmp::Ordering::Equal => return v,
                    std::cmp::Ordering::Less => InstructionOpcode::Trunc,
                    std::cmp::Ordering::Greater if unsigned => InstructionOpcode::ZExt,
                    std::cmp::Ordering::Greater => InstructionOpcode::SExt,
                };
                o.cast(code, v, t)
            }
        }
    }

    /// The value a reduction starts from.
    pub fn identity(&self, reducer: Reducer, dtype: DType, lanes: u32) -> V<'c> {
        let scalar = match reducer.identity(dtype) {
            Scalar::Float(v, _) => self.o.ctx.f32_type().const_float(v).into(),
            Scalar::Int(v, _) => self.o.int_of(self.o.register_type(dtype, 1), v),
            _ => self.o.register_type(dtype, 1).const_zero(),
        };
        self.o.splat(scalar, lanes)
    }

    /// Replaces the lanes that are no iterations by the reduction's start.
    pub fn neutral_beyond(&self, v: V<'c>, active: u32, reducer: Reducer, dtype: DType) -> V<'c> {
        let n = lanes(v);
        if active >= n {
            return v;
        }
        self.o.select(self.o.prefix_mask(n, active), v, self.identity(reducer, dtype, n))
    }

    /// Combines all lanes into one value, halving the vector each time.
    pub fn reduce_lanes(&mut self, v: V<'c>, reducer: Reducer, dtype: DType) -> V<'c> {
        let mut v = v;
        while lanes(v) > 1 {
            let half = lanes(v) / 2;
            let (low, high) = (self.o.slice(v, 0, half), self.o.slice(v, half, half));
            v = match self.arithmetic(reducer.op(), dtype, low, high) {
                Ok(v) => v,
                Err(_) => low,
            };
        }
        v
    }

    pub fn unsupported(&self, what: &str) -> CodegenError {
        CodegenError::Unsupported { kernel: self.plan.name.clone(), what: format!("no code for {what}") }
    }
}

fn register_bits(d: DType) -> u32 {
    match d {
        DType::Bool => 1,
        d => d.bytes() as u32 * 8,
    }
}

fn element_bits(v: V<'_>) -> u32 {
    match v {
        V::IntValue(v) => v.get_type().get_bit_width(),
        V::VectorValue(v) => v.get_type().get_element_type().into_int_type().get_bit_width(),
        _ => 0,
    }
}
