//! Values already computed in the current straight-line code: loads, and results of costly functions.

use std::collections::HashMap;

use inkwell::values::InstructionValue;
use talweg_ir::{MathOp, TensorId};

use crate::ops::V;
use crate::plan::BufferSet;

/// Which elements a load reads: `sum + constant + stride * lane` for the lanes, under a guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LoadKey {
    pub sum: u32,
    pub constant: i64,
    pub stride: i64,
    pub lanes: u32,
    pub active: u32,
    pub guard: u32,
}

impl LoadKey {
    /// First and last element relative to the sum.
    fn span(&self) -> (i64, i64) {
        let last = self.constant + self.stride * (i64::from(self.active) - 1);
        (self.constant.min(last), self.constant.max(last))
    }

    fn may_overlap(&self, other: &LoadKey) -> bool {
        let ((a, b), (c, d)) = (self.span(), other.span());
        self.sum != other.sum || (a <= d && c <= b)
    }
}

/// More values of one buffer than this are not kept: no machine has the registers, and stores look at all of them.
const MOST: usize = 512;

/// A function worth not computing twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Function {
    Math(MathOp),
    /// One over a float.
    Reciprocal,
}

/// What is known to be computed at the current position.
#[derive(Default)]
pub struct Cache<'c> {
    loads: HashMap<TensorId, HashMap<LoadKey, V<'c>>>,
    computed: HashMap<(Function, V<'c>), V<'c>>,
    /// Stores of the current basic block that nothing has read from memory since.
    unread: HashMap<TensorId, HashMap<LoadKey, InstructionValue<'c>>>,
    /// Scalars of the current basic block in every lane, by number of lanes.
    splats: HashMap<(V<'c>, u32), V<'c>>,
}

impl<'c> Cache<'c> {
    /// What stays known in the blocks that follow.
    pub fn snapshot(&self) -> Cache<'c> {
        Cache { loads: self.loads.clone(), computed: self.computed.clone(), ..Cache::default() }
    }

    /// The current basic block ends.
    pub fn end_block(&mut self) {
        self.unread.clear();
        self.splats.clear();
    }

    /// Memory is read here: stores that it may see have to stay.
    pub fn reads_memory(&mut self, buffer: TensorId, key: &LoadKey) {
        if let Some(of) = self.unread.get_mut(&buffer) {
            of.retain(|k, _| !k.may_overlap(key));
        }
    }

    /// A store was emitted; returns an earlier one that it makes superfluous.
    pub fn overwrites(
        &mut self,
        buffer: TensorId,
        key: LoadKey,
        store: Option<InstructionValue<'c>>,
    ) -> Option<InstructionValue<'c>> {
        let of = self.unread.entry(buffer).or_default();
        match store {
            Some(store) => of.insert(key, store),
            None => of.remove(&key),
        }
    }

    pub fn load(&self, buffer: TensorId, key: &LoadKey) -> Option<V<'c>> {
        self.loads.get(&buffer)?.get(key).copied()
    }

    pub fn loaded(&mut self, buffer: TensorId, key: LoadKey, value: V<'c>) {
        self.loads.entry(buffer).or_default().insert(key, value);
    }

    /// A store to these elements: other loads that may see it are forgotten.
    pub fn stored(&mut self, buffer: TensorId, key: LoadKey, value: Option<V<'c>>) {
        let of = self.loads.entry(buffer).or_default();
        if of.len() > MOST {
            of.clear();
        }
        of.retain(|k, _| !k.may_overlap(&key));
        if let Some(v) = value {
            of.insert(key, v);
        }
    }

    pub fn forget(&mut self, buffer: TensorId) {
        self.loads.remove(&buffer);
    }

    pub fn forget_all(&mut self, buffers: &BufferSet) {
        self.loads.retain(|b, _| !buffers.contains(*b));
    }

    pub fn computed(&self, function: Function, of: V<'c>) -> Option<V<'c>> {
        self.computed.get(&(function, of)).copied()
    }

    /// The scalar in every lane, as `make` makes it the first time.
    pub fn splat(&mut self, of: V<'c>, lanes: u32, make: impl FnOnce() -> V<'c>) -> V<'c> {
        *self.splats.entry((of, lanes)).or_insert_with(make)
    }

    pub fn compute(&mut self, function: Function, of: V<'c>, value: V<'c>) {
        self.computed.insert((function, of), value);
    }
}
