//! Keeping elements of buffers in registers.
//!
//! Three regions do it, always for all accesses of the region to the buffer:
//! - a `Local` buffer, from its allocation to the end of the block, when every access is to a fixed place;
//! - a loop whose accesses to a buffer are to places that do not move with it: they are loaded before the loop and
//!   stored after it;
//! - a loop that only combines lanes into elements: the lanes are accumulated as vectors and combined once, after the
//!   loop.

use std::collections::{BTreeMap, HashMap};

use talweg_ir::{DType, Reducer, Role, TensorId};

use crate::accesses::{AccessKind, Found};
use crate::emitter::{Emit, Emitter, Slot, Vector};
use crate::env::{Address, LanePattern};
use crate::ops::{V, lanes};
use crate::plan::{For, Kind, Step, Value};

/// Where the elements of a buffer are while it is not (only) in memory.
pub enum Promotion {
    /// Elements in registers: by place, the slot.
    Cells(HashMap<CellKey, usize>),
    /// Values on their way into elements.
    Accumulators(Accumulators),
}

/// The place of an element or a vector of elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CellKey {
    sum: u32,
    constant: i64,
    lanes: u32,
}

/// Vectors that a reduction collects before it combines their lanes.
pub struct Accumulators {
    reducer: Reducer,
    cells: BTreeMap<(u32, i64), Vec<Group>>,
}

/// The accumulators of one element that have the same number of lanes, used in turn so that they do not wait for each
/// other.
struct Group {
    lanes: u32,
    first: usize,
    count: usize,
    next: usize,
}

/// What to undo when a region ends.
#[derive(Default)]
pub struct Region {
    slots: usize,
    /// Buffers whose registers are stored, with their places.
    cells: Vec<(TensorId, Vec<(Address, Vector)>)>,
    accumulated: Vec<TensorId>,
}

struct Cell {
    key: CellKey,
    address: Address,
    vector: Vector,
}

impl<'c, 'p> Emitter<'c, 'p> {
    /// The register that holds a place; `None` when it is in memory.
    pub fn slot_of(&self, buffer: TensorId, sum: u32, constant: i64, lanes: u32) -> Emit<Option<usize>> {
        match self.frame.promoted.get(&buffer).and_then(|p| p.last()) {
            None => Ok(None),
            Some(Promotion::Cells(cells)) => match cells.get(&CellKey { sum, constant, lanes }) {
                Some(slot) => Ok(Some(*slot)),
                None => Err(self.internal("an access outside the registers of its buffer")),
            },
            Some(Promotion::Accumulators(_)) => Err(self.internal("an element read while it is accumulated")),
        }
    }

    /// Puts a local buffer into registers for the rest of its block, if all accesses allow it.
    pub fn promote_local(&mut self, buffer: TensorId, rest: &[Step]) -> Emit<bool> {
        if self.plan.buffer(buffer).crosses_threads || self.frame.promoted.contains_key(&buffer) {
            return Ok(false);
        }
        let Some(found) = self.accesses(rest, buffer) else { return Ok(false) };
        if found.iter().any(|f| !f.fixed || f.parallel) {
            return Ok(false);
        }
        let Some(cells) = self.cells_of(buffer, &found) else { return Ok(false) };
        let dtype = self.plan.buffer(buffer).dtype;
        let mut slots = HashMap::new();
        for cell in cells {
            let ty = self.o.register_type(dtype, cell.key.lanes);
            slots.insert(cell.key, self.frame.slots.len());
            let value = Some(self.o.poison(ty));
            self.frame.slots.push(Slot { buffer, ty, value });
        }
        self.frame.promoted.insert(buffer, vec![Promotion::Cells(slots)]);
        Ok(true)
    }

    /// Ends the innermost promotion of a buffer; its slots go with the region.
    pub fn unpromote(&mut self, buffer: TensorId) {
        if let Some(stack) = self.frame.promoted.get_mut(&buffer) {
            stack.pop();
            if stack.is_empty() {
                self.frame.promoted.remove(&buffer);
            }
        }
    }

    /// Before a loop that exists at run time: moves what it accumulates into registers.
    pub fn enter_registers(&mut self, l: &'p For) -> Emit<Region> {
        let mut region = self.enter_lane_accumulators(l)?;
        let buffers: Vec<TensorId> = l.effects.writes.iter().collect();
        for buffer in buffers {
            if l.effects.allocs.contains(buffer)
                || !l.effects.reads.contains(buffer)
                || self.frame.promoted.contains_key(&buffer)
                || moves_with(&l.body, buffer, &l.var)
            {
                continue;
            }
            let Some(found) = self.loop_accesses(l, buffer) else { continue };
            if found.iter().any(|f| !f.fixed || f.parallel) {
                continue;
            }
            let Some(cells) = self.cells_of(buffer, &found) else { continue };
            if !cells.iter().all(|c| self.may_touch(buffer, c, &found)) {
                continue;
            }
            let dtype = self.plan.buffer(buffer).dtype;
            let mut slots = HashMap::new();
            let mut places = Vec::new();
            for cell in cells {
                let value = self.load(buffer, &cell.address, cell.vector)?;
                slots.insert(cell.key, self.frame.slots.len());
                let ty = self.o.register_type(dtype, cell.key.lanes);
                self.frame.slots.push(Slot { buffer, ty, value: Some(value) });
                places.push((cell.address, cell.vector));
            }
            self.frame.promoted.insert(buffer, vec![Promotion::Cells(slots)]);
            region.cells.push((buffer, places));
        }
        Ok(region)
    }

    /// Whether a place may be loaded before a loop and stored after it: the loop touches it in any case, or it belongs
    /// to this thread and surely exists.
    fn may_touch(&self, buffer: TensorId, cell: &Cell, found: &[Found]) -> bool {
        if found.iter().any(|f| f.certain && f.address == cell.address) {
            return true;
        }
        let b = self.plan.buffer(buffer);
        b.role == Role::Local && !b.crosses_threads && self.is_in_bounds(buffer, &cell.address, cell.vector)
    }

    /// The places of the accesses, when they are whole, disjoint, at one base and few enough for registers.
    fn cells_of(&mut self, buffer: TensorId, found: &[Found]) -> Option<Vec<Cell>> {
        let bytes = register_bytes(self.plan.buffer(buffer).dtype);
        let mut cells: Vec<Cell> = Vec::new();
        let mut seen: HashMap<CellKey, u32> = HashMap::new();
        for f in found {
            let vector = match f.address.pattern {
                LanePattern::Uniform => Vector { lanes: 1, active: 1 },
                LanePattern::Stride(1) => f.vector,
                _ => return None,
            };
            let key = CellKey {
                sum: self.sums.id(&f.address.terms),
                constant: f.address.constant,
                lanes: vector.lanes,
            };
            match seen.get(&key) {
                Some(active) if *active == vector.active => {}
                Some(_) => return None,
                None => {
                    seen.insert(key, vector.active);
                    cells.push(Cell { key, address: f.address.clone(), vector });
                }
            }
        }
        cells.sort_by_key(|c| c.key);
        let disjoint = cells.windows(2).all(|w| {
            w[0].key.sum == w[1].key.sum
                && w[0].key.constant + i64::from(w[0].vector.active) <= w[1].key.constant
        });
        let registers: usize =
            cells.iter().map(|c| (c.key.lanes as usize * bytes).div_ceil(self.isa.vector_bytes)).sum();
        (disjoint && registers <= 2 * self.isa.registers).then_some(cells)
    }

    /// Before a loop whose only accesses to some element combine lanes into it: collects the lanes first.
    pub fn enter_lane_accumulators(&mut self, l: &'p For) -> Emit<Region> {
        let mut region = Region { slots: self.frame.slots.len(), ..Region::default() };
        let buffers: Vec<TensorId> = l.effects.horizontal.iter().collect();
        for buffer in buffers {
            let top = self.frame.promoted.get(&buffer).and_then(|p| p.last());
            if matches!(top, Some(Promotion::Accumulators(_))) || l.effects.allocs.contains(buffer) {
                continue;
            }
            let Some(found) = self.loop_accesses(l, buffer) else { continue };
            let Some(first) = found.first() else { continue };
            let AccessKind::Update(reducer) = first.kind else { continue };
            let plain = |f: &Found| {
                f.kind == first.kind && f.fixed && !f.parallel && f.address.pattern == LanePattern::Uniform
            };
            if !found.iter().all(plain) || !found.iter().any(|f| f.vector.lanes > 1) {
                continue;
            }
            let private = {
                let b = self.plan.buffer(buffer);
                b.role == Role::Local && !b.crosses_threads
            };
            let reachable = found.iter().all(|f| {
                f.certain
                    || top_is_cells(&self.frame.promoted, buffer)
                    || (private && self.is_in_bounds(buffer, &f.address, Vector { lanes: 1, active: 1 }))
            });
            if !reachable {
                continue;
            }
            self.add_accumulators(l, buffer, reducer, &found);
            region.accumulated.push(buffer);
        }
        Ok(region)
    }

    fn add_accumulators(&mut self, l: &For, buffer: TensorId, reducer: Reducer, found: &[Found]) {
        let dtype = self.plan.buffer(buffer).dtype;
        let straight = matches!(l.kind, Kind::Unroll | Kind::Vector) || l.extent.as_int() == Some(l.repeat);
        let run_time = l.effects.control || !straight;
        let mut counts: BTreeMap<(u32, i64), BTreeMap<u32, usize>> = BTreeMap::new();
        for f in found {
            let sum = self.sums.id(&f.address.terms);
            let lanes = f.vector.lanes;
            *counts.entry((sum, f.address.constant)).or_default().entry(lanes).or_default() += 1;
        }
        let groups: usize = counts.values().map(BTreeMap::len).sum();
        let most = (self.isa.registers / 2 / groups.max(1)).clamp(1, 8);
        let mut cells: BTreeMap<(u32, i64), Vec<Group>> = BTreeMap::new();
        for (place, by_lanes) in counts {
            for (lanes, count) in by_lanes {
                let count = count.min(most);
                let first = self.frame.slots.len();
                for _ in 0..count {
                    let value = run_time.then(|| self.identity(reducer, dtype, lanes));
                    let ty = self.o.register_type(dtype, lanes);
                    self.frame.slots.push(Slot { buffer, ty, value });
                }
                cells.entry(place).or_default().push(Group { lanes, first, count, next: 0 });
            }
        }
        let accumulators = Promotion::Accumulators(Accumulators { reducer, cells });
        self.frame.promoted.entry(buffer).or_default().push(accumulators);
    }

    /// Adds a value to the accumulators of an element; false when the element is not being accumulated.
    pub fn accumulate(
        &mut self,
        buffer: TensorId,
        address: &Address,
        reducer: Reducer,
        value: &'p Value,
    ) -> Emit<bool> {
        let v = self.frame.vector.unwrap_or(Vector { lanes: 1, active: 1 });
        let sum = self.sums.id(&address.terms);
        let Some(Promotion::Accumulators(a)) =
            self.frame.promoted.get_mut(&buffer).and_then(|stack| stack.last_mut())
        else {
            return Ok(false);
        };
        let group = a
            .cells
            .get_mut(&(sum, address.constant))
            .and_then(|groups| groups.iter_mut().find(|g| g.lanes == v.lanes))
            .filter(|_| a.reducer == reducer);
        let Some(group) = group else {
            return Err(self.internal("an element without accumulators is updated"));
        };
        let slot = group.first + group.next % group.count;
        group.next += 1;
        let dtype = self.plan.buffer(buffer).dtype;
        let new = match self.frame.slots[slot].value {
            None => {
                let x = self.eval(value)?;
                let x = self.o.splat(x, v.lanes);
                self.neutral_beyond(x, v.active, reducer, dtype)
            }
            Some(old) => {
                let new = self.combine_with(reducer, old, value)?;
                let new = self.o.splat(new, v.lanes);
                if v.active < v.lanes {
                    self.o.select(self.o.prefix_mask(v.lanes, v.active), new, old)
                } else {
                    new
                }
            }
        };
        self.frame.slots[slot].value = Some(new);
        Ok(true)
    }

    /// Ends a region: combines accumulators into their elements, stores registers.
    pub fn leave(&mut self, region: Region) -> Emit<()> {
        for (buffer, places) in &region.cells {
            let mut values = Vec::new();
            for (address, v) in places {
                values.push(self.load(*buffer, address, *v)?);
            }
            self.unpromote(*buffer);
            for ((address, v), value) in places.iter().zip(values) {
                self.write(*buffer, address, *v, value)?;
            }
        }
        for buffer in &region.accumulated {
            let Some(Promotion::Accumulators(a)) =
                self.frame.promoted.get_mut(buffer).and_then(|stack| stack.pop())
            else {
                return Err(self.internal("accumulators that were never begun"));
            };
            if self.frame.promoted.get(buffer).is_some_and(Vec::is_empty) {
                self.frame.promoted.remove(buffer);
            }
            for ((sum, constant), groups) in a.cells {
                let terms = self.sums.terms(sum).to_vec();
                let address = Address { constant, terms, pattern: LanePattern::Uniform };
                let total = self.combine_groups(*buffer, a.reducer, &groups)?;
                if let Some(total) = total {
                    self.update_element(*buffer, &address, a.reducer, total)?;
                }
            }
        }
        self.frame.slots.truncate(region.slots);
        Ok(())
    }

    fn combine_groups(
        &mut self,
        buffer: TensorId,
        reducer: Reducer,
        groups: &[Group],
    ) -> Emit<Option<V<'c>>> {
        let dtype = self.plan.buffer(buffer).dtype;
        let mut total = None;
        for g in groups {
            let slots = &self.frame.slots[g.first..g.first + g.count];
            let mut values: Vec<V> = slots.iter().filter_map(|s| s.value).collect();
            while values.len() > 1 {
                let mut next = Vec::new();
                for pair in values.chunks(2) {
                    next.push(match pair {
                        [a, b] => self.arithmetic(reducer.op(), dtype, *a, *b)?,
                        _ => pair[0],
                    });
                }
                values = next;
            }
            for v in values {
                debug_assert_eq!(lanes(v), g.lanes);
                let scalar = self.reduce_lanes(v, reducer, dtype);
                total = Some(match total {
                    None => scalar,
                    Some(t) => self.arithmetic(reducer.op(), dtype, t, scalar)?,
                });
            }
        }
        Ok(total)
    }
}

fn top_is_cells(promoted: &HashMap<TensorId, Vec<Promotion>>, buffer: TensorId) -> bool {
    matches!(promoted.get(&buffer).and_then(|p| p.last()), Some(Promotion::Cells(_)))
}

fn register_bytes(dtype: DType) -> usize {
    if dtype.is_float() { 4 } else { dtype.bytes() }
}

/// Whether some access to the buffer mentions the variable.
fn moves_with(steps: &[Step], buffer: TensorId, var: &talweg_expr::Expr) -> bool {
    let Some(symbol) = var.as_sym() else { return true };
    let mentions = |address: &crate::linear::Linear| address.terms.iter().any(|(t, _)| t.mentions(symbol));
    steps.iter().any(|s| match s {
        Step::For(l) => l.effects.touches(buffer) && moves_with(&l.body, buffer, var),
        Step::If(i) => moves_with(&i.then, buffer, var) || moves_with(&i.otherwise, buffer, var),
        Step::Store(s) => {
            let mut found = s.buffer == buffer && mentions(&s.address);
            s.value.visit_reads(&mut |b, address| found |= b == buffer && mentions(address));
            found
        }
        Step::Alloc(_) | Step::Prefetch(_) => false,
    })
}
