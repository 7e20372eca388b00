//! Writing elements: plain, updating, and combining lanes.

use talweg_ir::{Reducer, Role, TensorId};

use crate::cache::LoadKey;
use crate::emitter::{Emit, Emitter, Vector};
use crate::env::{Address, LanePattern};
use crate::load::{Access, rounded, stride_of};
use crate::ops::{V, lanes};
use crate::plan::{Store, Value};

const SCALAR: Vector = Vector { lanes: 1, active: 1 };

impl<'c, 'p> Emitter<'c, 'p> {
    /// Emits a store for the current lanes.
    pub fn store(&mut self, s: &'p Store) -> Emit<()> {
        let address = self.env.address(&s.address);
        let Some(v) = self.frame.vector else {
            if let Some(reducer) = s.update
                && self.accumulate(s.buffer, &address, reducer, &s.value)?
            {
                return Ok(());
            }
            return self.store_at(s, &address, SCALAR);
        };
        match (address.pattern, s.update) {
            (LanePattern::Stride(_), _) => self.store_at(s, &address, v),
            (LanePattern::Uniform, Some(reducer)) => {
                if self.accumulate(s.buffer, &address, reducer, &s.value)? {
                    return Ok(());
                }
                let value = self.eval(&s.value)?;
                let dtype = self.plan.buffer(s.buffer).dtype;
                let value = self.o.splat(value, v.lanes);
                let value = self.neutral_beyond(value, v.active, reducer, dtype);
                let combined = self.reduce_lanes(value, reducer, dtype);
                self.update_element(s.buffer, &address, reducer, combined)
            }
            (LanePattern::Uniform, None) => {
                // Every lane writes the same element: the last one stays.
                let value = self.eval(&s.value)?;
                let value = if lanes(value) > 1 { self.o.extract(value, v.active - 1) } else { value };
                self.write(s.buffer, &address, SCALAR, value)
            }
            (LanePattern::Irregular, _) => {
                let value = self.eval(&s.value)?;
                for lane in 0..v.active {
                    let element = if lanes(value) > 1 { self.o.extract(value, lane) } else { value };
                    self.in_lane(lane, |e| {
                        let address = e.env.address(&s.address);
                        match s.update {
                            Some(reducer) => e.update_element(s.buffer, &address, reducer, element),
                            None => e.write(s.buffer, &address, SCALAR, element),
                        }
                    })?;
                }
                Ok(())
            }
        }
    }

    fn store_at(&mut self, s: &'p Store, address: &Address, v: Vector) -> Emit<()> {
        let value = match s.update {
            None => self.eval(&s.value)?,
            Some(reducer) => {
                let old = self.load(s.buffer, address, v)?;
                self.combine_with(reducer, old, &s.value)?
            }
        };
        let value = self.o.splat(value, v.lanes);
        self.write(s.buffer, address, v, value)
    }

    /// `buffer[address] = update(buffer[address], value)` for one element.
    pub fn update_element(
        &mut self,
        buffer: TensorId,
        address: &Address,
        reducer: Reducer,
        value: V<'c>,
    ) -> Emit<()> {
        let dtype = self.plan.buffer(buffer).dtype;
        let old = self.load(buffer, address, SCALAR)?;
        let new = self.arithmetic(reducer.op(), dtype, old, value)?;
        self.write(buffer, address, SCALAR, new)
    }

    /// `update(old, value)`; sums of products become fused multiply-adds.
    pub fn combine_with(&mut self, reducer: Reducer, old: V<'c>, value: &'p Value) -> Emit<V<'c>> {
        let dtype = value.dtype();
        if reducer == Reducer::Sum
            && dtype.is_float()
            && let Value::Binary(talweg_ir::ArithOp::Mul, a, b) = value
        {
            let (a, b) = (self.eval(a)?, self.eval(b)?);
            return Ok(self.multiply_add(a, b, old));
        }
        let value = self.eval(value)?;
        self.arithmetic(reducer.op(), dtype, old, value)
    }

    /// Writes to the register or the memory an address stands for.
    pub fn write(&mut self, buffer: TensorId, address: &Address, v: Vector, value: V<'c>) -> Emit<()> {
        let dtype = self.plan.buffer(buffer).dtype;
        let sum = self.sums.id(&address.terms);
        if let Some(slot) = self.slot_of(buffer, sum, address.constant, v.lanes)? {
            let value = rounded(&self.o, dtype, value);
            self.frame.slots[slot].value = Some(value);
            return Ok(());
        }
        if !matches!(self.plan.buffer(buffer).role, Role::Output | Role::Temp | Role::Local) {
            return Err(self.internal(format!("buffer {} is read-only but written", buffer.0)));
        }
        let pointer = self.pointer(buffer, &address.terms)?;
        let stride = stride_of(address);
        let access = Access {
            dtype,
            constant: address.constant * dtype.bytes() as i64,
            stride,
            vector: v,
            invariant: false,
        };
        let instruction = access.store(&self.o, value, pointer, self.isa.gather);
        let key =
            LoadKey { sum, constant: address.constant, stride, lanes: v.lanes, active: v.active, guard: 0 };
        let exact = !matches!(dtype, talweg_ir::DType::F16 | talweg_ir::DType::BF16);
        if let Some(dead) = self.frame.cache.overwrites(buffer, key, instruction) {
            self.o.erase(dead);
        }
        self.frame.cache.stored(buffer, key, exact.then_some(value));
        Ok(())
    }
}
