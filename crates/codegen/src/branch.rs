//! Branches, and joining registers where paths meet.

use inkwell::basic_block::BasicBlock;
use inkwell::values::BasicValue;

use crate::emitter::{Emit, Emitter};
use crate::ops::V;
use crate::plan::If;

impl<'c, 'p> Emitter<'c, 'p> {
    /// Emits an `if`; decided ones leave only the side taken.
    pub fn branch(&mut self, i: &'p If) -> Emit<()> {
        let condition = self.env.resolve(&i.condition);
        match condition.as_bool() {
            Some(true) => return self.block(&i.then),
            Some(false) => return self.block(&i.otherwise),
            None => {}
        }
        if self.env.is_lane_varying(&condition) {
            return self.per_lane(|e| e.branch(i));
        }
        let truth = self.index(&condition)?;
        let function = self.frame.function;
        let cache = self.frame.cache.snapshot();
        self.frame.cache.end_block();
        let outer: Vec<Option<V>> = self.frame.slots.iter().map(|s| s.value).collect();
        let (then, join) = (self.o.block(function, "then"), self.o.block(function, "join"));
        let otherwise = if i.otherwise.is_empty() { join } else { self.o.block(function, "else") };
        let from = self.o.here();
        self.o.cond_br(truth, then, otherwise);
        self.o.goto(then);
        self.block(&i.then)?;
        let then_end = self.o.here();
        self.o.br(join);
        let mut other_values = outer.clone();
        let mut other_end = from;
        if !i.otherwise.is_empty() {
            let then_values: Vec<Option<V>> = self.frame.slots.iter().map(|s| s.value).collect();
            for (slot, value) in self.frame.slots.iter_mut().zip(&outer) {
                slot.value = *value;
            }
            self.frame.cache = cache.snapshot();
            self.o.goto(otherwise);
            self.block(&i.otherwise)?;
            other_end = self.o.here();
            self.o.br(join);
            other_values = self.frame.slots.iter().map(|s| s.value).collect();
            for (slot, value) in self.frame.slots.iter_mut().zip(&then_values) {
                slot.value = *value;
            }
        }
        self.o.goto(join);
        self.merge_slots(&other_values, other_end, then_end);
        self.frame.cache = cache;
        self.frame.cache.forget_all(&i.effects.writes);
        Ok(())
    }

    /// At the start of a block reached from `other` with the values `others`, and from `current` with the current
    /// ones: joins those that differ.
    pub fn merge_slots(&mut self, others: &[Option<V<'c>>], other: BasicBlock<'c>, current: BasicBlock<'c>) {
        for (slot, old) in self.frame.slots.iter_mut().zip(others) {
            if slot.value == *old {
                continue;
            }
            let poison = self.o.poison(slot.ty);
            let (a, b) = (old.unwrap_or(poison), slot.value.unwrap_or(poison));
            let phi = self.o.phi(slot.ty);
            phi.add_incoming(&[(&a as &dyn BasicValue, other), (&b as &dyn BasicValue, current)]);
            slot.value = Some(phi.as_basic_value());
        }
    }
}
