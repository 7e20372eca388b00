//! `pack TENSOR READER`: lay a constant out at build time in the order the reader's loops read it.
//!
//! ```text
//! for j.0 { for k { for j.1 in 0..16 { ... B[k, j.0*16 + j.1] ... } } }
//! ->
//! for j.0 { for k { for j.1 in 0..16 { ... B.packed[j.0, k, j.1] ... } } }
//! ```
//!
//! The packed array has one dimension for each loop the index depends on, outermost first, so the innermost loops read
//! it contiguously; where tiles overshoot the extent it holds zeros that are never read. Loops may still be scheduled
//! afterwards. Legal for a constant that the reader reads once and nobody else reads, by indices affine in its loops.

use talweg_ir::{Source, TensorId};

use crate::error::Refusal;
use crate::state::Schedule;

impl Schedule {
    /// A stage's body has moved to another stage: so have its packed constants.
    pub(super) fn move_packs(&mut self, from: TensorId, to: TensorId) {
        for (_, reader) in &mut self.packs {
            if *reader == from {
                *reader = to;
            }
        }
    }

    pub(super) fn pack(&mut self, tensor: &str, reader: &str) -> Result<(), Refusal> {
        let source = self.find_tensor(tensor)?;
        let to = self.find_stage(reader)?;
        if self.dag.tensor(source).source != Source::Const {
            return Err(format!(
                "`{tensor}` is no constant, so it cannot be laid out at build time; use `cache_read`"
            ));
        }
        let readers = self.readers(source);
        if !readers.contains(&to) {
            return Err(format!("`{reader}` does not read `{tensor}`; {} does", self.names(&readers)));
        }
        if readers.len() > 1 {
            let readers = self.names(&readers);
            return Err(format!(
                "`{tensor}` is read by {readers}, but can have the layout of one reader only; use `cache_read`"
            ));
        }
        let compute = self.compute(to);
        let reads: Vec<_> = compute.body.reads().into_iter().filter(|(t, _)| *t == source).collect();
        let axes: Vec<_> =
            compute.axes.iter().chain(compute.reduce_axes()).map(|a| a.symbol.clone()).collect();
        if reads.len() != 1 || reads[0].1.iter().any(|e| e.affine(&axes).is_none()) {
            return Err(format!(
                "`{reader}` must read `{tensor}` exactly once, by affine indices; `cache_read` takes any"
            ));
        }
        if self.packs.iter().any(|(t, _)| *t == source) {
            return Err(format!("`{tensor}` is packed already; one step is enough"));
        }
        self.packs.push((source, to));
        Ok(())
    }
}
