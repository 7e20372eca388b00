//! Which box of each stage is computed where, and how its axes are put together from loops.

use std::collections::{BTreeMap, BTreeSet};

use talweg_expr::{Expr, Ranges, Symbol};
use talweg_ir::TensorId;

use super::region;
use crate::error::ScheduleError;
use crate::state::{Attach, Fate, IterId, IterKind, Origin, Schedule, Stage};

/// A summand of an axis: a loop, or a share of a fused loop. Expressions are over part symbols until they are emitted,
/// because fused loops are not affine but their parts are.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    /// The loop's variable, or a name for the share of a fused loop.
    pub symbol: Symbol,
    pub stride: Expr,
    /// How many values it takes, tails aside.
    pub extent: Expr,
    /// The part in loop variables.
    pub value: Expr,
    /// The loops it depends on.
    pub loops: BTreeSet<Symbol>,
    /// Where it is in a fused loop: at each level, from the outermost, whether it is the half that runs faster.
    pub halves: Vec<bool>,
}

/// One axis of a stage: elements `base + sum(stride * part)` below both `base + tile` and `limit`.
#[derive(Clone, Debug)]
pub(crate) struct PlacedAxis {
    pub symbol: Symbol,
    /// First element computed, over part symbols of the stages around.
    pub base: Expr,
    /// How many elements at most.
    pub tile: Expr,
    /// The axis' extent.
    pub limit: Expr,
    pub parts: Vec<Part>,
}

impl PlacedAxis {
    /// The element within the box, over part symbols.
    pub fn local(&self) -> Expr {
        self.parts.iter().fold(Expr::int(0), |sum, p| sum + Expr::sym(&p.symbol) * &p.stride)
    }

    /// The element, over part symbols.
    pub fn absolute(&self) -> Expr {
        self.local() + &self.base
    }
}

/// A stage in its place.
#[derive(Clone, Debug, Default)]
pub(crate) struct PlacedStage {
    pub space: Vec<PlacedAxis>,
    pub reduce: Vec<PlacedAxis>,
    /// Fused loops and split parts that are split again: their parts must stay below the extent of what was split.
    pub inner: Vec<PlacedAxis>,
    /// Variable and static extent of each leaf loop, outermost first.
    pub loops: Vec<(Symbol, Expr)>,
}

impl PlacedStage {
    pub fn axes(&self) -> impl Iterator<Item = &PlacedAxis> {
        self.space.iter().chain(&self.reduce)
    }
}

/// All stages in their places.
pub(crate) struct Placement {
    stages: BTreeMap<TensorId, PlacedStage>,
    /// Extent, value and loops of every part.
    pub parts: BTreeMap<Symbol, Part>,
    /// Ranges of parts and loop variables, as far as they are numbers.
    pub ranges: Ranges,
}

impl Placement {
    pub fn of(schedule: &Schedule) -> Result<Placement, ScheduleError> {
        let mut p = Placement { stages: BTreeMap::new(), parts: BTreeMap::new(), ranges: Ranges::new() };
        for id in schedule.order.iter().rev() {
            let Some(stage) = &schedule.stages[id.index()] else { continue };
            let regions = match &stage.attach {
                Attach::Inlined => continue,
                Attach::Root => None,
                Attach::At(target, leaf) => Some(region::of(schedule, &p, *id, *target, *leaf)),
            };
            p.place(schedule, stage, regions);
        }
        Ok(p)
    }

    pub fn stage(&self, id: TensorId) -> &PlacedStage {
        &self.stages[&id]
    }

    /// Replaces part symbols by loop variables.
    pub fn to_loops(&self, e: &Expr) -> Expr {
        e.subst(&|s| self.parts.get(s).map(|p| p.value.clone()))
    }

    /// The loop variables around the body of `leaf`, from the outermost stage inwards.
    pub fn path(&self, schedule: &Schedule, id: TensorId, leaf: IterId) -> Vec<Symbol> {
        let stage = schedule.stage(id);
        let mut out = match stage.attach {
            Attach::At(target, at) => self.path(schedule, target, at),
            _ => Vec::new(),
        };
        for (l, (var, _)) in stage.leaves.iter().zip(&self.stage(id).loops) {
            out.push(var.clone());
            if *l == leaf {
                break;
            }
        }
        out
    }

    fn place(&mut self, schedule: &Schedule, stage: &Stage, regions: Option<Vec<(Expr, Expr)>>) {
        let name = &schedule.dag.tensor(stage.tensor).name;
        let compute = schedule.compute(stage.tensor);
        let mut roots = Vec::new();
        for (at, a) in compute.axes.iter().enumerate() {
            let (base, tile) = match &regions {
                Some(r) => r[at].clone(),
                None => (Expr::int(0), a.extent.clone()),
            };
            roots.push((IterKind::Space, at, a, base, tile));
        }
        for (at, a) in compute.reduce_axes().iter().enumerate() {
            roots.push((IterKind::Reduce, at, a, Expr::int(0), a.extent.clone()));
        }
        let mut walk = Walk { stage, name, extents: BTreeMap::new() };
        for (kind, at, _, _, tile) in &roots {
            let root = walk.root(*kind, *at);
            walk.extents.insert(root, tile.clone());
        }
        let mut placed = PlacedStage::default();
        for leaf in &stage.leaves {
            let var = walk.variable(*leaf);
            let extent = walk.extent(*leaf);
            self.set_range(&var, &extent);
            placed.loops.push((var, extent));
        }
        for (kind, at, axis, base, tile) in roots {
            let mut parts = Vec::new();
            walk.parts(walk.root(kind, at), &Expr::int(1), &mut parts);
            for p in &mut parts {
                // A loop with a factor larger than the box never runs further than the box. A share of a fused loop
                // does; a condition inside the loop holds it back.
                if p.value == Expr::sym(&p.symbol) {
                    p.extent = p.extent.min(tile.ceil_div(&p.stride));
                }
            }
            self.register(&parts);
            let placed_axis =
                PlacedAxis { symbol: axis.symbol.clone(), base, tile, limit: axis.extent.clone(), parts };
            match kind {
                IterKind::Space => placed.space.push(placed_axis),
                IterKind::Reduce => placed.reduce.push(placed_axis),
            }
        }
        placed.inner = walk.inner_splits();
        placed.inner.iter().for_each(|a| self.register(&a.parts));
        self.stages.insert(stage.tensor, placed);
    }

    fn register(&mut self, parts: &[Part]) {
        for p in parts {
            self.set_range(&p.symbol, &p.extent);
            self.parts.insert(p.symbol.clone(), p.clone());
        }
    }

    fn set_range(&mut self, symbol: &Symbol, extent: &Expr) {
        let hi = extent.bounds(&self.ranges).hi;
        let hi = if hi.is_finite() { (hi as i64 - 1).max(0) } else { i64::MAX };
        self.ranges.set(symbol, 0, hi);
    }
}

/// Derives extents and values of a stage's loops.
pub(super) struct Walk<'a> {
    pub stage: &'a Stage,
    pub name: &'a str,
    pub extents: BTreeMap<IterId, Expr>,
}

impl Walk<'_> {
    fn root(&self, kind: IterKind, axis: usize) -> IterId {
        let is = |i: &crate::state::Iter| i.kind == kind && i.origin == Origin::Axis(axis);
        IterId(self.stage.iters.iter().position(is).expect("every axis has its loop"))
    }

    fn variable(&self, id: IterId) -> Symbol {
        Symbol::var(format!("{}.{}", self.name, self.stage.iter(id).name))
    }

    /// How often a loop runs, tails aside.
    fn extent(&mut self, id: IterId) -> Expr {
        if let Some(e) = self.extents.get(&id) {
            return e.clone();
        }
        let e = match self.stage.iter(id).origin.clone() {
            Origin::Axis(_) => unreachable!("the extents of axes are given"),
            Origin::Split { parent, level } => {
                let Fate::Split { factors, .. } = &self.stage.iter(parent).fate else {
                    unreachable!("the parent of a part is split")
                };
                let factors = factors.clone();
                match level {
                    0 => self.extent(parent).ceil_div(factors.iter().fold(Expr::int(1), |p, f| p * f)),
                    _ => factors[level - 1].clone(),
                }
            }
            Origin::Fused { outer, inner } => self.extent(outer) * self.extent(inner),
        };
        self.extents.insert(id, e.clone());
        e
    }

    /// The value of a loop in leaf variables, and the leaves it depends on.
    fn value(&mut self, id: IterId, loops: &mut BTreeSet<Symbol>) -> Expr {
        match self.stage.iter(id).fate.clone() {
            Fate::Leaf => {
                let var = self.variable(id);
                let e = Expr::sym(&var);
                loops.insert(var);
                e
            }
            Fate::Split { parts, factors } => {
                let mut sum = Expr::int(0);
                for (level, part) in parts.iter().enumerate() {
                    let stride = factors[level..].iter().fold(Expr::int(1), |p, f| p * f);
                    sum = sum + self.value(*part, loops) * stride;
                }
                sum
            }
            Fate::Fused(whole) => {
                let Origin::Fused { outer, inner } = self.stage.iter(whole).origin else {
                    unreachable!("a fused loop knows its halves")
                };
                let whole = self.value(whole, loops);
                let by = self.extent(inner);
                if id == outer { whole.floor_div(by) } else { whole.rem(by) }
            }
        }
    }

    /// The summands of a loop: itself, its split parts, or its share of a fused loop.
    fn parts(&mut self, id: IterId, stride: &Expr, out: &mut Vec<Part>) {
        if let Fate::Split { parts, factors } = self.stage.iter(id).fate.clone() {
            for (level, part) in parts.iter().enumerate() {
                let inner = factors[level..].iter().fold(stride.clone(), |p, f| p * f);
                self.parts(*part, &inner, out);
            }
            return;
        }
        let mut loops = BTreeSet::new();
        let value = self.value(id, &mut loops);
        let halves = self.halves(id);
        out.push(Part {
            symbol: self.variable(id),
            stride: stride.clone(),
            extent: self.extent(id),
            value,
            loops,
            halves,
        });
    }

    /// Where a loop is in the loop it was fused into.
    fn halves(&self, mut id: IterId) -> Vec<bool> {
        let mut out = Vec::new();
        while let Fate::Fused(whole) = self.stage.iter(id).fate {
            out.push(matches!(self.stage.iter(whole).origin, Origin::Fused { inner, .. } if inner == id));
            id = whole;
        }
        out.reverse();
        out
    }

    /// Loops that are no axes and are split: each as an axis of its own.
    fn inner_splits(&mut self) -> Vec<PlacedAxis> {
        let mut out = Vec::new();
        for id in (0..self.stage.iters.len()).map(IterId) {
            let iter = self.stage.iter(id);
            if matches!(iter.origin, Origin::Axis(_)) || !matches!(iter.fate, Fate::Split { .. }) {
                continue;
            }
            let mut parts = Vec::new();
            self.parts(id, &Expr::int(1), &mut parts);
            let (symbol, tile) = (self.variable(id), self.extent(id));
            out.push(PlacedAxis { symbol, base: Expr::int(0), tile: tile.clone(), limit: tile, parts });
        }
        out
    }
}
