//! Writing the statements of a placed stage.

use std::collections::BTreeSet;

use talweg_expr::{Expr, Symbol};
use talweg_ir::{Loop, LoopKind, Scalar, Stmt, TensorId};

use super::Lowering;
use super::place::{PlacedAxis, PlacedStage};
use crate::state::{Attach, IterId, IterKind, Stage};

/// One stage being written.
struct Writer<'a> {
    lowering: &'a Lowering<'a>,
    id: TensorId,
    stage: &'a Stage,
    placed: &'a PlacedStage,
    /// Axes and loops that are split again: everything whose parts have a common limit.
    limits: Vec<PlacedAxis>,
    /// The loops around the whole stage.
    around: BTreeSet<Symbol>,
    /// Position of the outermost reduction loop.
    first_reduce: Option<usize>,
}

impl Lowering<'_> {
    /// The statements that compute a stage (its box, when it is computed at a loop).
    pub(super) fn emit_stage(&self, id: TensorId) -> Vec<Stmt> {
        let stage = self.schedule.stage(id);
        let placed = self.placement.stage(id);
        let around = match stage.attach {
            Attach::At(target, leaf) => {
                self.placement.path(self.schedule, target, leaf).into_iter().collect()
            }
            _ => BTreeSet::new(),
        };
        let limits = placed.axes().chain(&placed.inner).cloned().collect();
        let reduces = |l: &IterId| stage.iter(*l).kind == IterKind::Reduce;
        let reduction = self.schedule.compute(id).reduction.as_ref();
        let first_reduce =
            reduction.map(|_| stage.leaves.iter().position(reduces).unwrap_or(stage.leaves.len()));
        Writer { lowering: self, id, stage, placed, limits, around, first_reduce }.loops(0)
    }
}

impl Writer<'_> {
    /// The loops from position `at` inwards, preceded by the initialisation where the reduction begins.
    fn loops(&self, at: usize) -> Vec<Stmt> {
        let mut out = Vec::new();
        if self.first_reduce == Some(at) {
            out.extend(self.init_loops(at));
        }
        out.extend(self.loop_at(at));
        out
    }

    fn loop_at(&self, at: usize) -> Vec<Stmt> {
        let Some(leaf) = self.stage.leaves.get(at) else {
            return vec![self.store()];
        };
        let mut body = Vec::new();
        for child in self.lowering.schedule.attached_to(self.id) {
            if self.lowering.schedule.stage(child).attach == Attach::At(self.id, *leaf) {
                body.push(Stmt::Alloc(self.lowering.buffer_of[child.index()].expect("locals are declared")));
                body.extend(self.lowering.emit_stage(child));
            }
        }
        body.extend(self.loops(at + 1));
        self.wrap(at, &|_| true, body)
    }

    /// The loop at a position around a body, with its exact extent and, for fused loops, a condition.
    fn wrap(&self, at: usize, counts: &dyn Fn(usize) -> bool, body: Vec<Stmt>) -> Vec<Stmt> {
        let (var, extent) = &self.placed.loops[at];
        let ranges = &self.lowering.placement.ranges;
        // Loops that are open when this one starts.
        let mut open = self.around.clone();
        open.extend((0..at).filter(|p| counts(*p)).map(|p| self.placed.loops[p].0.clone()));
        let mut exact = extent.simplify(ranges);
        let mut condition = Expr::bool(true);
        for axis in &self.limits {
            let sum = |open: &BTreeSet<Symbol>| {
                let parts = axis.parts.iter().filter(|p| p.loops.is_subset(open));
                parts.fold(Expr::int(0), |s, p| s + Expr::sym(&p.symbol) * &p.stride)
            };
            let done = sum(&open);
            if let Some(own) = axis.parts.iter().find(|p| p.symbol == *var) {
                for room in [axis.tile.clone() - &done, axis.limit.clone() - &axis.base - &done] {
                    let room = self.lowering.placement.to_loops(&room).ceil_div(&own.stride);
                    exact = exact.min(room).simplify(ranges);
                }
            } else if axis.parts.iter().any(|p| p.loops.contains(var)) {
                let mut inside = open.clone();
                inside.insert(var.clone());
                let now = sum(&inside);
                for limit in [axis.tile.clone(), axis.limit.clone() - &axis.base] {
                    if now == done || starts_inside(axis, &now, &limit) {
                        continue;
                    }
                    let ok = now.lt(&limit).simplify(ranges);
                    let ok = self.lowering.placement.to_loops(&ok).simplify(ranges);
                    condition = condition.and(&ok);
                }
            }
        }
        let body = match condition.as_bool() {
            Some(true) => body,
            _ => vec![Stmt::If { condition, then: body, otherwise: Vec::new() }],
        };
        let kind = self.stage.iter(self.stage.leaves[at]).annotation;
        vec![Stmt::For(Loop { var: var.clone(), extent: exact, kind, body })]
    }

    /// The stores that start the reduction, over the space loops from position `from` inwards.
    fn init_loops(&self, from: usize) -> Vec<Stmt> {
        let compute = self.lowering.schedule.compute(self.id);
        let reducer = compute.reduction.as_ref().expect("only reductions are initialised").reducer;
        let is_space = |p: usize| self.stage.iter(self.stage.leaves[p]).kind == IterKind::Space;
        let dtype = self.lowering.schedule.dag.tensor(self.id).dtype;
        let mut body = vec![Stmt::Store {
            buffer: self.lowering.buffer_of[self.id.index()].expect("stages are declared"),
            indices: self.own_indices(),
            value: reducer.identity(dtype),
            update: None,
        }];
        for at in (from..self.stage.leaves.len()).rev().filter(|p| is_space(*p)) {
            body = self.wrap(at, &|p| p < from || is_space(p), body);
            if let [Stmt::For(l)] = body.as_mut_slice()
                && l.kind == LoopKind::Parallel
            {
                l.kind = LoopKind::Serial;
            }
        }
        let renamed: Vec<&Symbol> = (from..self.stage.leaves.len())
            .filter(|p| is_space(*p))
            .map(|p| &self.placed.loops[p].0)
            .collect();
        body.iter().map(|s| rename(s, &renamed)).collect()
    }

    /// Where the current element lies in the stage's own buffer.
    fn own_indices(&self) -> Vec<Expr> {
        let local = matches!(self.stage.attach, Attach::At(..));
        let index = |a: &PlacedAxis| if local { a.local() } else { a.absolute() };
        self.placed.space.iter().map(|a| self.lowering.placement.to_loops(&index(a))).collect()
    }

    fn store(&self) -> Stmt {
        let (schedule, placement) = (self.lowering.schedule, &self.lowering.placement);
        let compute = schedule.compute(self.id);
        let absolute = |s: &Symbol| self.placed.axes().find(|a| a.symbol == *s).map(PlacedAxis::absolute);
        let mut index = |e: &Expr| e.subst(&absolute);
        let mut read = |t: TensorId, indices: Vec<Expr>| {
            if let Some(packed) = self.lowering.packed_buffer(t, self.id) {
                let parts = self.lowering.pack_parts(t, self.id);
                let indices = parts.iter().map(|p| placement.to_loops(&Expr::sym(p))).collect();
                return Scalar::Read(packed, indices);
            }
            let buffer =
                self.lowering.buffer_of[t.index()].expect("tensors are declared before their readers");
            let attached =
                schedule.stages[t.index()].as_ref().is_some_and(|s| matches!(s.attach, Attach::At(..)));
            let indices = indices
                .into_iter()
                .enumerate()
                .map(|(at, e)| if attached { e - &placement.stage(t).space[at].base } else { e });
            Scalar::Read(buffer, indices.collect())
        };
        let over_parts = compute.body.map(&mut index, &mut read);
        let value = over_parts.map(&mut |e| placement.to_loops(e), &mut Scalar::Read);
        Stmt::Store {
            buffer: self.lowering.buffer_of[self.id.index()].expect("stages are declared"),
            indices: self.own_indices(),
            value,
            update: compute.reduction.as_ref().map(|r| r.reducer),
        }
    }
}

/// The outermost part of an axis alone never reaches the extent it was derived from:
/// `(ceildiv(n, s) - 1) * s < n`.
fn starts_inside(axis: &PlacedAxis, sum: &Expr, limit: &Expr) -> bool {
    axis.parts
        .first()
        .is_some_and(|p| *sum == Expr::sym(&p.symbol) * &p.stride && p.extent == limit.ceil_div(&p.stride))
}

/// Gives loop variables new names, so that they stay unique in the nest.
fn rename(stmt: &Stmt, vars: &[&Symbol]) -> Stmt {
    let fresh = |s: &Symbol| vars.contains(&s).then(|| Symbol::var(format!("{}.init", s.name())));
    let mut out = stmt.map_exprs(&mut |e| e.subst(&|s| fresh(s).map(|n| Expr::sym(&n))));
    fn walk(stmt: &mut Stmt, fresh: &dyn Fn(&Symbol) -> Option<Symbol>) {
        match stmt {
            Stmt::For(l) => {
                if let Some(n) = fresh(&l.var) {
                    l.var = n;
                }
                l.body.iter_mut().for_each(|s| walk(s, fresh));
            }
            Stmt::If { then, otherwise, .. } => {
                then.iter_mut().chain(otherwise).for_each(|s| walk(s, fresh));
            }
            _ => {}
        }
    }
    walk(&mut out, &fresh);
    out
}
