//! Loops: unrolled, vectorised chunk by chunk, or run.

use inkwell::IntPredicate;
use inkwell::values::BasicValue;

use crate::emitter::{Emit, Emitter, Scope, Vector};
use crate::ops::V;
use crate::plan::{For, Kind};

/// Steps of unrolled reductions with fewer instructions than this share a block.
const STEP: usize = 32;

/// A part of a vector loop: iterations `base..base + active`, computed in `lanes` lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
    pub base: i64,
    pub lanes: u32,
    pub active: u32,
}

/// Splits a vector loop. What remains after whole registers is one shorter vector when that is a power of two, else a
/// masked one where the target has masks, else several powers of two.
pub fn chunks(extent: i64, lanes: u32, masked: bool) -> Vec<Chunk> {
    let mut out = Vec::new();
    let mut base = 0;
    while extent - base >= i64::from(lanes) {
        out.push(Chunk { base, lanes, active: lanes });
        base += i64::from(lanes);
    }
    let mut rest = (extent - base).max(0) as u32;
    if masked && !rest.is_power_of_two() && rest > 0 {
        out.push(Chunk { base, lanes: rest.next_power_of_two(), active: rest });
        return out;
    }
    while rest > 0 {
        let part = 1 << rest.ilog2();
        out.push(Chunk { base, lanes: part, active: part });
        base += i64::from(part);
        rest -= part;
    }
    out
}

impl<'c, 'p> Emitter<'c, 'p> {
    /// Emits a loop.
    pub fn for_loop(&mut self, l: &'p For) -> Emit<()> {
        let extent = self.env.resolve(&l.extent);
        if self.env.is_lane_varying(&extent) {
            return self.per_lane(|e| e.for_loop(l));
        }
        match (l.kind, extent.as_int()) {
            (_, Some(n)) if n <= 0 => Ok(()),
            (Kind::Unroll, Some(n)) => self.unrolled(l, n),
            (Kind::Vector, Some(n)) if self.frame.vector.is_none() => {
                let region = self.enter_lane_accumulators(l)?;
                for c in chunks(n, l.lanes, l.masked) {
                    self.vector_chunk(l, c)?;
                }
                self.leave(region)
            }
            (_, Some(n)) if n == l.repeat => self.unrolled(l, n),
            (Kind::Parallel, _) if self.frame.parallel.is_some() => self.parallel_loop(l, &extent),
            _ => {
                let extent = extent.floor_div(l.repeat);
                let bounds = extent.bounds(&self.env.ranges);
                let end = self.index(&extent)?;
                let start = self.o.int(0).into();
                let highest = if bounds.hi.is_finite() { bounds.hi as i64 - 1 } else { i64::MAX >> 16 };
                self.run_loop(l, start, end, bounds.lo < 1.0, highest)
            }
        }
    }

    fn unrolled(&mut self, l: &'p For, n: i64) -> Emit<()> {
        let region = self.enter_lane_accumulators(l)?;
        for i in 0..n {
            self.with_const(l, i)?;
            if i + 1 < n {
                self.end_step(l);
            }
        }
        self.leave(region)
    }

    /// Gives the next iteration of an unrolled reduction a block of its own. LLVM would move the loads of all iterations
    /// to the top of a common one, where they take the registers of the tile.
    fn end_step(&mut self, l: &For) {
        if l.reduces && self.o.count_in_block() >= STEP {
            let next = self.o.block(self.frame.function, "step");
            self.o.br(next);
            self.o.goto(next);
        }
    }

    fn with_const(&mut self, l: &'p For, value: i64) -> Emit<()> {
        self.env.bind_const(&l.var, value);
        let out = self.block(&l.body);
        self.env.unbind(&l.var);
        out
    }

    fn vector_chunk(&mut self, l: &'p For, c: Chunk) -> Emit<()> {
        if c.lanes == 1 {
            return self.with_const(l, c.base);
        }
        self.env.bind_lanes(&l.var, c.base, i64::from(c.lanes));
        self.frame.vector = Some(Vector { lanes: c.lanes, active: c.active });
        let out = self.block(&l.body);
        self.frame.vector = None;
        self.env.unbind(&l.var);
        out
    }

    /// Emits once for every active lane, in scalar code.
    pub fn per_lane(&mut self, mut emit: impl FnMut(&mut Self) -> Emit<()>) -> Emit<()> {
        let active = self.frame.vector.map_or(1, |v| v.active);
        (0..active).try_for_each(|lane| self.in_lane(lane, &mut emit))
    }

    /// Emits `for var in start..end`, tested at the bottom; the variable never exceeds `highest`.
    pub fn run_loop(
        &mut self,
        l: &'p For,
        start: V<'c>,
        end: V<'c>,
        may_be_empty: bool,
        highest: i64,
    ) -> Emit<()> {
        let function = self.frame.function;
        let cache = self.frame.cache.snapshot();
        self.frame.cache.end_block();
        let outer: Vec<Option<V>> = self.frame.slots.iter().map(|s| s.value).collect();
        let guard = may_be_empty.then(|| {
            let (enter, exit) = (self.o.block(function, "enter"), self.o.block(function, "exit"));
            let runs = self.o.icmp(IntPredicate::SLT, start, end);
            self.o.cond_br(runs, enter, exit);
            let from = self.o.here();
            self.o.goto(enter);
            (from, exit)
        });
        let region = self.enter_registers(l)?;
        let header = self.o.block(function, "loop");
        let preheader = self.o.br(header);
        let before = self.o.here();
        self.o.goto(header);
        let phi = self.o.phi(self.o.i64().into());
        phi.add_incoming(&[(&start, before)]);
        let carried = self.carried_slots(l);
        let phis: Vec<_> = carried
            .iter()
            .map(|at| {
                let slot = &mut self.frame.slots[*at];
                let phi = self.o.phi(slot.ty);
                let initial = slot.value.unwrap_or_else(|| self.o.poison(slot.ty));
                phi.add_incoming(&[(&initial, before)]);
                slot.value = Some(phi.as_basic_value());
                phi
            })
            .collect();
        let marker = self.o.marker();
        let used = self.frame.slots.len() + 6;
        let budget = self.isa.registers.saturating_sub(used);
        let depth = self.frame.scopes.len();
        let variable = phi.as_basic_value().into_int_value();
        self.frame.scopes.push(Scope::new(marker, Some(preheader), Some(&l.effects.writes), budget));
        self.frame.variables.insert(l.var.clone(), (depth, variable));
        self.env.set_range(&l.var, 0, highest);
        self.frame.cache.end_block();
        self.frame.cache.forget_all(&l.effects.writes);
        self.iterations(l)?;
        self.frame.cache.end_block();
        self.env.unbind(&l.var);
        self.frame.variables.remove(&l.var);
        self.frame.scopes.pop();
        self.o.erase(marker);
        let next = self.o.increment(variable);
        let more = self.o.icmp(IntPredicate::SLT, next.into(), end);
        let done = self.o.block(function, "done");
        self.o.cond_br(more, header, done);
        let latch = self.o.here();
        phi.add_incoming(&[(&next, latch)]);
        for (at, phi) in carried.iter().zip(phis) {
            let value =
                self.frame.slots[*at].value.unwrap_or_else(|| self.o.poison(self.frame.slots[*at].ty));
            phi.add_incoming(&[(&value as &dyn BasicValue, latch)]);
        }
        self.o.goto(done);
        self.leave(region)?;
        if let Some((from, exit)) = guard {
            let last = self.o.here();
            self.o.br(exit);
            self.o.goto(exit);
            self.merge_slots(&outer, from, last);
        }
        self.frame.cache = cache;
        self.frame.cache.forget_all(&l.effects.writes);
        Ok(())
    }

    /// The iterations of a run-time loop that are done at once.
    fn iterations(&mut self, l: &'p For) -> Emit<()> {
        if l.repeat == 1 {
            return self.block(&l.body);
        }
        for which in 0..l.repeat {
            self.env.bind_repeated(&l.var, l.repeat, which);
            self.block(&l.body)?;
            self.env.end_repeated(&l.var);
        }
        Ok(())
    }

    /// The registers a loop changes.
    fn carried_slots(&self, l: &For) -> Vec<usize> {
        let written = |at: &usize| l.effects.writes.contains(self.frame.slots[*at].buffer);
        (0..self.frame.slots.len()).filter(written).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(extent: i64, lanes: u32, masked: bool) -> Vec<(i64, u32, u32)> {
        chunks(extent, lanes, masked).into_iter().map(|c| (c.base, c.lanes, c.active)).collect()
    }

    #[test]
    fn tails_are_short_vectors_masks_or_powers_of_two() {
        assert_eq!(shape(64, 16, true), [(0, 16, 16), (16, 16, 16), (32, 16, 16), (48, 16, 16)]);
        assert_eq!(shape(20, 16, true), [(0, 16, 16), (16, 4, 4)]);
        assert_eq!(shape(21, 16, true), [(0, 16, 16), (16, 8, 5)]);
        assert_eq!(shape(7, 4, false), [(0, 4, 4), (4, 2, 2), (6, 1, 1)]);
        assert_eq!(shape(1, 16, true), [(0, 1, 1)]);
        assert_eq!(shape(0, 16, true), []);
    }
}
