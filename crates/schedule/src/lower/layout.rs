//! The layout of packed constants: one dimension for each loop part their index depends on, outermost first.
//!
//! A reader computed inside a loop that reads it by quotients or remainders has indices that are not affine in the
//! loops; it reads the constant as it is.

use talweg_expr::{Expr, Symbol};
use talweg_ir::{Buffer, Pack, Role, TensorId};

use super::Lowering;

impl Lowering<'_> {
    /// Declares a packed buffer for every pack of the schedule.
    pub(super) fn declare_packs(&mut self) -> Vec<Pack> {
        let mut out = Vec::new();
        for (source, reader) in self.schedule.packs.clone() {
            let parts = self.pack_parts(source, reader);
            let tensor = self.schedule.dag.tensor(source);
            let axes: Vec<Symbol> = (0..parts.len()).map(|d| Symbol::var(format!("d{d}"))).collect();
            let read = self.read_over_parts(source, reader);
            if read.iter().any(|e| e.affine(&parts).is_none()) {
                continue;
            }
            let by = |s: &Symbol| parts.iter().position(|p| p == s).map(|at| Expr::sym(&axes[at]));
            let indices = read.iter().map(|e| e.subst(&by)).collect();
            let shape = parts.iter().map(|p| self.placement.parts[p].extent.clone()).collect();
            self.buffers.push(Buffer {
                name: format!("{}.packed", tensor.name),
                dtype: tensor.dtype,
                shape,
                role: Role::Packed,
            });
            let packed = TensorId(self.buffers.len() as u32 - 1);
            let source_buffer = self.buffer_of[source.index()].expect("constants are declared first");
            out.push(Pack { packed, source: source_buffer, axes, indices });
        }
        out
    }

    /// The packed buffer a reader uses instead of a constant.
    pub(super) fn packed_buffer(&self, source: TensorId, reader: TensorId) -> Option<TensorId> {
        if !self.schedule.packs.contains(&(source, reader)) {
            return None;
        }
        let name = format!("{}.packed", self.schedule.dag.tensor(source).name);
        self.buffers.iter().position(|b| b.name == name).map(|at| TensorId(at as u32))
    }

    /// The indices by which `reader` reads `source`, over part symbols.
    fn read_over_parts(&self, source: TensorId, reader: TensorId) -> Vec<Expr> {
        let placed = self.placement.stage(reader);
        let absolute =
            |s: &Symbol| placed.axes().find(|a| a.symbol == *s).map(super::place::PlacedAxis::absolute);
        let reads = self.schedule.compute(reader).body.reads();
        let (_, indices) = reads.into_iter().find(|(t, _)| *t == source).expect("pack checked the read");
        indices.iter().map(|e| e.subst(&absolute)).collect()
    }

    /// The parts a packed constant's index depends on, in the order of the loops around the read.
    pub(super) fn pack_parts(&self, source: TensorId, reader: TensorId) -> Vec<Symbol> {
        let stage = self.schedule.stage(reader);
        let path = match stage.leaves.last() {
            Some(last) => self.placement.path(self.schedule, reader, *last),
            None => Vec::new(),
        };
        let mut parts = Vec::new();
        for e in self.read_over_parts(source, reader) {
            for s in e.symbols() {
                if self.placement.parts.contains_key(&s) && !parts.contains(&s) {
                    parts.push(s);
                }
            }
        }
        let place = |s: &Symbol| {
            let last = self.placement.parts[s].loops.iter().map(|l| path.iter().position(|p| p == l)).max();
            last.flatten()
        };
        let halves = |s: &Symbol| &self.placement.parts[s].halves;
        parts.sort_by(|a, b| place(a).cmp(&place(b)).then(halves(a).cmp(halves(b))).then_with(|| a.cmp(b)));
        parts
    }
}
