//! The stores of a nest, each with the loops around it and the buffers it touches.

use talweg_expr::{Expr, Ranges, Symbol};
use talweg_ir::{LoopKind, Nest, Reducer, Scalar, Stmt, TensorId};

use crate::formula::{at_zero, mul, one, real};
use crate::ops::Ops;

/// A loop around a store.
#[derive(Clone, Debug)]
pub(crate) struct Level {
    pub var: Symbol,
    pub kind: LoopKind,
    /// How often it runs on a full tile; real, at least one.
    pub extent: Expr,
    /// One less.
    pub steps: Expr,
    /// Whether it runs over a reduction of the store.
    pub reduces: bool,
}

/// A buffer a store reads or writes.
#[derive(Clone, Debug)]
pub(crate) struct Touched {
    pub buffer: TensorId,
    pub read: bool,
    pub written: bool,
    /// Different index lists, in order of occurrence; the stored one first.
    pub accesses: Vec<Vec<Expr>>,
}

/// A store statement in its place.
#[derive(Clone, Debug)]
pub(crate) struct Site<'a> {
    pub nest: &'a Nest,
    pub buffer: TensorId,
    pub update: Option<Reducer>,
    pub ops: Ops,
    /// Outermost first.
    pub loops: Vec<Level>,
    /// How many of the loops are outside the allocation of the stored buffer.
    pub allocated: usize,
    /// The stored buffer first, then the others in order of occurrence.
    pub touched: Vec<Touched>,
    /// `outside[k]` is the product of the extents of loops before `k`.
    pub outside: Vec<Expr>,
    /// `inside[k]` is the product of the extents of loop `k` and those inside it.
    pub inside: Vec<Expr>,
}

impl<'a> Site<'a> {
    /// All stores of a nest in program order.
    pub fn all(nest: &'a Nest) -> Vec<Site<'a>> {
        let mut walk = Walk { nest, loops: Vec::new(), allocated: Vec::new(), sites: Vec::new() };
        walk.block(&nest.body);
        walk.sites
    }

    pub fn depth(&self) -> usize {
        self.loops.len()
    }

    /// How often the store runs.
    pub fn iterations(&self) -> &Expr {
        &self.inside[0]
    }

    /// How many loops this store and another one share.
    pub fn shared_loops(&self, other: &Site<'_>) -> usize {
        self.loops.iter().zip(&other.loops).take_while(|(a, b)| a.var == b.var).count()
    }

    pub fn element_bytes(&self, buffer: TensorId) -> f64 {
        self.nest.buffer(buffer).dtype.bytes() as f64
    }
}

struct Walk<'a> {
    nest: &'a Nest,
    loops: Vec<Level>,
    /// Local buffers with the number of loops around their allocation.
    allocated: Vec<(TensorId, usize)>,
    sites: Vec<Site<'a>>,
}

impl Walk<'_> {
    fn block(&mut self, stmts: &[Stmt]) {
        let live = self.allocated.len();
        for s in stmts {
            match s {
                Stmt::For(l) => {
                    let extent = full_extent(&l.extent);
                    let steps = extent.clone() + Expr::real(-1.0);
                    let (var, kind) = (l.var.clone(), l.kind);
                    self.loops.push(Level { var, kind, extent, steps, reduces: false });
                    self.block(&l.body);
                    self.loops.pop();
                }
                Stmt::If { then, otherwise, .. } => {
                    self.block(then);
                    self.block(otherwise);
                }
                Stmt::Alloc(b) => self.allocated.push((*b, self.loops.len())),
                Stmt::Store { buffer, indices, value, update } => {
                    self.store(*buffer, indices, value, *update);
                }
            }
        }
        self.allocated.truncate(live);
    }

    fn store(&mut self, buffer: TensorId, indices: &[Expr], value: &Scalar, update: Option<Reducer>) {
        let allocated = self.allocated.iter().rev().find(|(b, _)| *b == buffer).map_or(0, |(_, at)| *at);
        let mut loops = self.loops.clone();
        for l in loops.iter_mut().skip(allocated) {
            l.reduces = update.is_some() && !indices.iter().any(|e| e.mentions(&l.var));
        }
        let mut touched =
            vec![Touched { buffer, read: update.is_some(), written: true, accesses: vec![indices.to_vec()] }];
        for (t, indices) in value.reads() {
            match touched.iter_mut().find(|known| known.buffer == t) {
                Some(known) => {
                    known.read = true;
                    if !known.accesses.contains(&indices) {
                        known.accesses.push(indices);
                    }
                }
                None => {
                    touched.push(Touched { buffer: t, read: true, written: false, accesses: vec![indices] });
                }
            }
        }
        let mut outside = vec![one()];
        for l in &loops {
            outside.push(mul(&outside[outside.len() - 1], &l.extent));
        }
        let mut inside = vec![one()];
        for l in loops.iter().rev() {
            inside.push(mul(&inside[inside.len() - 1], &l.extent));
        }
        inside.reverse();
        let ops = Ops::of(self.nest, value, update);
        let nest = self.nest;
        self.sites.push(Site { nest, buffer, update, ops, loops, allocated, touched, outside, inside });
    }
}

/// The extent of a loop on a full tile, as a real of at least one.
fn full_extent(extent: &Expr) -> Expr {
    let e = at_zero(extent);
    let e = if e.bounds(&Ranges::new()).lo < 1.0 { e.max(1) } else { e };
    real(&e)
}

/// The extents of a buffer, as reals.
pub(crate) fn shape(nest: &Nest, buffer: TensorId) -> Vec<Expr> {
    nest.buffer(buffer).shape.iter().map(|e| real(&at_zero(e))).collect()
}
