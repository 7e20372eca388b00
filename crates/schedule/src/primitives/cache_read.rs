//! `cache_read TENSOR READER`: read through a copy.
//!
//! ```text
//! C[i, j] = sum[k] A[i, k] * B[k, j]
//! ->
//! A.cache[i, k] = A[i, k];  C[i, j] = sum[k] A.cache[i, k] * B[k, j]
//! ```
//!
//! With `compute_at A.cache C LOOP` the copy becomes a small contiguous block near the loop that uses it. Legal for any
//! tensor the reader reads that is not computed at a loop; the copy is named `TENSOR.cache`.

use talweg_expr::{Expr, Symbol};
use talweg_ir::{Axis, Compute, Scalar};

use crate::error::Refusal;
use crate::state::{Attach, Schedule};

impl Schedule {
    pub(super) fn cache_read(&mut self, tensor: &str, reader: &str) -> Result<(), Refusal> {
        let source = self.find_tensor(tensor)?;
        let to = self.find_stage(reader)?;
        if !self.readers(source).contains(&to) {
            let mut reads: Vec<_> = self.compute(to).body.reads().into_iter().map(|(t, _)| t).collect();
            reads.dedup();
            return Err(format!("`{reader}` does not read `{tensor}`; it reads {}", self.names(&reads)));
        }
        if self.stages[source.index()].as_ref().is_some_and(|s| s.attach != Attach::Root) {
            return Err(format!(
                "`{tensor}` is computed at a loop already; `cache_read` comes before `compute_at`"
            ));
        }
        if self.packs.contains(&(source, to)) {
            return Err(format!("`{tensor}` is packed for `{reader}` already; one of the two is enough"));
        }
        let shape = self.dag.tensor(source).shape.clone();
        let axes: Vec<Axis> = shape
            .iter()
            .enumerate()
            .map(|(at, extent)| Axis { symbol: Symbol::var(format!("d{at}")), extent: extent.clone() })
            .collect();
        let indices = axes.iter().map(Axis::var).collect();
        let copy = Compute { axes, reduction: None, body: Scalar::Read(source, indices) };
        let cache = self.insert_before(&format!("{tensor}.cache"), copy, to)?;
        let body = self
            .compute(to)
            .body
            .map(&mut Expr::clone, &mut |t, idx| Scalar::Read(if t == source { cache } else { t }, idx));
        self.compute_mut(to).body = body;
        Ok(())
    }
}
