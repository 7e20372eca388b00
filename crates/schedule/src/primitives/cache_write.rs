//! `cache_write STAGE`: compute into a buffer of its own, then copy.
//!
//! ```text
//! C[i, j] = sum[k] A[i, k] * B[k, j]
//! ->
//! C.local[i, j] = sum[k] A[i, k] * B[k, j];  C[i, j] = C.local[i, j]
//! ```
//!
//! With `compute_at C.local C LOOP` the buffer becomes a tile that can live in registers. Legal before any other step
//! on the stage's loops.

use talweg_ir::{Compute, Scalar};

use crate::error::Refusal;
use crate::state::{Schedule, Stage};

impl Schedule {
    pub(super) fn cache_write(&mut self, stage: &str) -> Result<(), Refusal> {
        let id = self.find_stage(stage)?;
        if !self.stage(id).is_untouched() || !self.attached_to(id).is_empty() {
            return Err(format!("`{stage}` has been scheduled already; `cache_write` comes first"));
        }
        let compute = self.compute(id).clone();
        let axes = compute.axes.clone();
        let local = self.insert_before(&format!("{stage}.local"), compute, id)?;
        let indices = axes.iter().map(|a| a.var()).collect();
        *self.compute_mut(id) = Compute { axes, reduction: None, body: Scalar::Read(local, indices) };
        let fresh = Stage::new(id, self.compute(id));
        *self.stage_mut(id) = fresh;
        self.move_packs(id, local);
        Ok(())
    }
}
