//! Reading elements: from registers, from earlier loads, from memory.

use inkwell::IntPredicate;
use inkwell::values::{InstructionOpcode, InstructionValue, PointerValue};
use talweg_ir::{DType, Role, TensorId};

use crate::cache::LoadKey;
use crate::emitter::{Emit, Emitter, Vector};
use crate::env::{Address, LanePattern};
use crate::linear::Linear;
use crate::ops::{Ops, V, lanes};

impl<'c, 'p> Emitter<'c, 'p> {
    /// The value of a read: a scalar when it is the same for all lanes, else a vector.
    pub fn read(&mut self, buffer: TensorId, linear: &Linear) -> Emit<V<'c>> {
        let address = self.env.address(linear);
        match (self.frame.vector, address.pattern) {
            (None, _) | (_, LanePattern::Uniform) => {
                self.load(buffer, &address, Vector { lanes: 1, active: 1 })
            }
            (Some(v), LanePattern::Stride(_)) => self.load(buffer, &address, v),
            (Some(v), LanePattern::Irregular) => {
                let t = self.o.register_type(self.plan.buffer(buffer).dtype, v.lanes);
                let mut out = t.const_zero();
                for lane in 0..v.active {
                    let element = self.in_lane(lane, |e| e.read(buffer, linear))?;
                    out = self.o.insert(out, element, lane);
                }
                Ok(out)
            }
        }
    }

    /// Reads a regular address.
    pub fn load(&mut self, buffer: TensorId, address: &Address, v: Vector) -> Emit<V<'c>> {
        let sum = self.sums.id(&address.terms);
        if let Some(slot) = self.slot_of(buffer, sum, address.constant, v.lanes)? {
            let slot = &self.frame.slots[slot];
            return slot.value.ok_or_else(|| self.internal("a register was read before it was written"));
        }
        let stride = stride_of(address);
        let safe = self.is_in_bounds(buffer, address, v);
        let guard = if safe { 0 } else { self.frame.guards.id() };
        let key =
            LoadKey { sum, constant: address.constant, stride, lanes: v.lanes, active: v.active, guard };
        if let Some(value) = self.frame.cache.load(buffer, &key) {
            return Ok(value);
        }
        let b = self.plan.buffer(buffer);
        let pointer = self.pointer(buffer, &address.terms)?;
        let access = Access {
            dtype: b.dtype,
            constant: address.constant * b.dtype.bytes() as i64,
            stride,
            vector: v,
            invariant: matches!(b.role, Role::Input | Role::Const | Role::Packed),
        };
        let hoist = if safe { self.hoisting_scope(buffer, address)? } else { None };
        let value = match hoist {
            Some((scope, before)) => {
                let s = &mut self.frame.scopes[scope];
                s.budget -= 1;
                let o = &self.o;
                let gather = self.isa.gather;
                o.before(before, || access.emit(o, pointer, None, None, gather))
            }
            None => {
                let guard = if safe { None } else { self.guard_value() };
                let fallback = guard.map(|_| self.safe_pointer(buffer, v.lanes));
                access.emit(&self.o, pointer, guard, fallback, self.isa.gather)
            }
        };
        self.frame.cache.reads_memory(buffer, &key);
        self.frame.cache.loaded(buffer, key, value);
        Ok(value)
    }

    /// Whether the ranges of the variables prove that all active lanes lie inside the buffer.
    pub fn is_in_bounds(&self, buffer: TensorId, address: &Address, v: Vector) -> bool {
        let Some((lo, hi)) = self.env.bounds(&address.terms) else { return false };
        let reach = stride_of(address) * (i64::from(v.active) - 1);
        let first = lo + address.constant + reach.min(0);
        let last = hi + address.constant + reach.max(0);
        first >= 0 && last < self.plan.buffer(buffer).elements
    }

    /// The outermost loop before which a load may be done once for all iterations, if any.
    fn hoisting_scope(
        &self,
        buffer: TensorId,
        address: &Address,
    ) -> Emit<Option<(usize, InstructionValue<'c>)>> {
        let depth = self.depth_of_terms(&address.terms)?;
        let mut found = None;
        for (at, scope) in self.frame.scopes.iter().enumerate().skip(depth + 1).rev() {
            match (scope.writes, scope.preheader) {
                (Some(writes), Some(preheader)) if !writes.contains(buffer) => {
                    if scope.budget > 0 {
                        found = Some((at, preheader));
                    }
                }
                _ => break,
            }
        }
        Ok(found)
    }

    /// Somewhere at least `lanes` elements of the buffer's type can be read.
    fn safe_pointer(&mut self, buffer: TensorId, lanes: u32) -> PointerValue<'c> {
        let base = self.frame.bases[buffer.index()];
        if let Some(base) = base
            && self.plan.buffer(buffer).elements >= i64::from(lanes)
        {
            return base;
        }
        if let Some(zeros) = self.frame.zeros {
            return zeros;
        }
        let o = &self.o;
        let t = o.i64().vec_type(8);
        let zeros = o.before(self.frame.scopes[0].marker, || {
            let block = o.alloca(t.into(), 8);
            for at in 0..8 {
                o.store(t.const_zero().into(), o.offset(block, o.int(at * 64)), 8);
            }
            block
        });
        self.frame.zeros = Some(zeros);
        zeros
    }
}

/// Elements from one lane to the next; 0 for scalars.
pub fn stride_of(address: &Address) -> i64 {
    match address.pattern {
        LanePattern::Stride(s) => s,
        _ => 0,
    }
}

/// A memory access whose address, except for a constant, is in a pointer.
pub struct Access {
    pub dtype: DType,
    /// Bytes.
    pub constant: i64,
    /// Elements.
    pub stride: i64,
    pub vector: Vector,
    pub invariant: bool,
}

impl Access {
    fn align(&self) -> u32 {
        self.dtype.bytes() as u32
    }

    /// The lanes that may be touched; `None` when that is all of them.
    fn mask<'c>(&self, o: &Ops<'c>, guard: Option<V<'c>>) -> Option<V<'c>> {
        let Vector { lanes: n, active } = self.vector;
        let prefix = (active < n).then(|| o.prefix_mask(n, active));
        let guard = guard.map(|g| o.splat(g, n));
        match (prefix, guard) {
            (Some(a), Some(b)) => Some(o.and(a, b)),
            (a, b) => a.or(b),
        }
    }

    fn emit<'c>(
        &self,
        o: &Ops<'c>,
        pointer: PointerValue<'c>,
        guard: Option<V<'c>>,
        fallback: Option<PointerValue<'c>>,
        gather: bool,
    ) -> V<'c> {
        let v = self.emit_raw(o, pointer, guard, fallback, gather);
        from_memory(o, self.dtype, v)
    }

    fn emit_raw<'c>(
        &self,
        o: &Ops<'c>,
        pointer: PointerValue<'c>,
        guard: Option<V<'c>>,
        fallback: Option<PointerValue<'c>>,
        gather: bool,
    ) -> V<'c> {
        let Vector { lanes: n, active } = self.vector;
        let at = o.offset(pointer, o.int(self.constant));
        let redirect = |at: PointerValue<'c>, condition: V<'c>| match fallback {
            Some(f) => o.select(condition, at.into(), f.into()).into_pointer_value(),
            None => at,
        };
        let scalar = o.memory_type(self.dtype, 1);
        if n == 1 {
            let at = match guard {
                Some(g) if lanes(g) == 1 => redirect(at, g),
                Some(g) => {
                    let any = any_lane(o, g);
                    redirect(at, any)
                }
                None => at,
            };
            return o.load(scalar, at, self.align(), self.invariant);
        }
        let t = o.memory_type(self.dtype, n);
        if self.stride == 1 {
            if let Some(g) = guard
                && lanes(g) == 1
            {
                let at = redirect(at, g);
                return match self.mask(o, None) {
                    None => o.load(t, at, self.align(), self.invariant),
                    Some(mask) => o.masked_load(t, at, self.align(), mask),
                };
            }
            return match self.mask(o, guard) {
                None => o.load(t, at, self.align(), self.invariant),
                Some(mask) => o.masked_load(t, at, self.align(), mask),
            };
        }
        if gather && self.dtype.bytes() >= 4 && i32::try_from(self.stride * i64::from(n)).is_ok() {
            let mask = self.mask(o, guard).unwrap_or_else(|| o.prefix_mask(n, n));
            let pointers = o.element_pointers(scalar, at, self.lane_offsets(o));
            return o.gather(t, pointers, self.align(), mask);
        }
        let mut out = t.const_zero();
        for lane in 0..active {
            let mut p = o.offset(at, o.int(i64::from(lane) * self.stride * self.dtype.bytes() as i64));
            if let Some(g) = guard {
                p = redirect(p, o.extract(g, lane));
            }
            let element = o.load(scalar, p, self.align(), self.invariant);
            out = o.insert(out, element, lane);
        }
        out
    }

    fn lane_offsets<'c>(&self, o: &Ops<'c>) -> inkwell::values::VectorValue<'c> {
        let lanes = i64::from(self.vector.lanes);
        o.int_vector(o.ctx.i32_type(), (0..lanes).map(|l| l * self.stride)).into_vector_value()
    }

    /// Writes a value in register form; returns the instruction when it is a single plain one.
    pub fn store<'c>(
        &self,
        o: &Ops<'c>,
        value: V<'c>,
        pointer: PointerValue<'c>,
        gather: bool,
    ) -> Option<InstructionValue<'c>> {
        let Vector { lanes: n, active } = self.vector;
        let at = o.offset(pointer, o.int(self.constant));
        let value = to_memory(o, self.dtype, value);
        if n == 1 {
            return Some(o.store(value, at, self.align()));
        }
        let value = o.splat(value, n);
        if self.stride == 1 {
            return match self.mask(o, None) {
                None => Some(o.store(value, at, self.align())),
                Some(mask) => {
                    o.masked_store(value, at, self.align(), mask);
                    None
                }
            };
        }
        if gather && self.dtype.bytes() >= 4 && i32::try_from(self.stride * i64::from(n)).is_ok() {
            let mask = o.prefix_mask(n, active);
            let pointers = o.element_pointers(o.memory_type(self.dtype, 1), at, self.lane_offsets(o));
            o.scatter(value, pointers, self.align(), mask);
            return None;
        }
        for lane in 0..active {
            let p = o.offset(at, o.int(i64::from(lane) * self.stride * self.dtype.bytes() as i64));
            o.store(o.extract(value, lane), p, self.align());
        }
        None
    }
}

/// Whether any bit of a mask is set.
fn any_lane<'c>(o: &Ops<'c>, mask: V<'c>) -> V<'c> {
    o.intrinsic_over("llvm.vector.reduce.or", mask.get_type(), &[mask.get_type()], &[mask])
}

/// From the form in memory to the form in registers.
fn from_memory<'c>(o: &Ops<'c>, dtype: DType, v: V<'c>) -> V<'c> {
    match dtype {
        DType::F16 => o.cast(InstructionOpcode::FPExt, v, o.ctx.f32_type().into()),
        DType::BF16 => {
            let wide = o.cast(InstructionOpcode::ZExt, v, o.ctx.i32_type().into());
            let bits = o.binary(InstructionOpcode::Shl, wide, o.i32_like(16, wide));
            o.bitcast(bits, o.ctx.f32_type().into())
        }
        DType::Bool => o.icmp(IntPredicate::NE, v, v.get_type().const_zero()),
        _ => v,
    }
}

/// From the form in registers to the form in memory; small floats are rounded to nearest, ties to even.
pub fn to_memory<'c>(o: &Ops<'c>, dtype: DType, v: V<'c>) -> V<'c> {
    match dtype {
        DType::F16 => o.cast(InstructionOpcode::FPTrunc, v, o.ctx.f16_type().into()),
        DType::BF16 => {
            let bits = o.bitcast(v, o.ctx.i32_type().into());
            let lowest = o.binary(InstructionOpcode::LShr, bits, o.i32_like(16, v));
            let odd = o.and(lowest, o.i32_like(1, v));
            let half = o.add(odd, o.i32_like(0x7fff, v));
            let rounded = o.add(bits, half);
            let quiet = o.or(bits, o.i32_like(0x0040_0000, v));
            let nan = o.fcmp(inkwell::FloatPredicate::UNO, v, v);
            let chosen = o.select(nan, quiet, rounded);
            let top = o.binary(InstructionOpcode::LShr, chosen, o.i32_like(16, v));
            o.cast(InstructionOpcode::Trunc, top, o.ctx.i16_type().into())
        }
        DType::Bool => o.cast(InstructionOpcode::ZExt, v, o.ctx.i8_type().into()),
        _ => v,
    }
}

/// The value a store and a load of this type would give back.
pub fn rounded<'c>(o: &Ops<'c>, dtype: DType, v: V<'c>) -> V<'c> {
    match dtype {
        DType::F16 | DType::BF16 => {
            let stored = to_memory(o, dtype, v);
            from_memory(o, dtype, stored)
        }
        _ => v,
    }
}
