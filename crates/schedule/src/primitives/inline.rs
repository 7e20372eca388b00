//! `inline STAGE`: every reader computes the value itself.
//!
//! ```text
//! B[i] = f(A[i]);  C[i] = g(B[i + 1])   ->   C[i] = g(f(A[i + 1]))
//! ```
//!
//! Legal for a stage that is neither an output nor a reduction, reads no packed constant and is not
//! computed at a loop.

use talweg_expr::{Expr, Symbol};
use talweg_ir::Scalar;

use crate::error::Refusal;
use crate::state::{Attach, Schedule};

impl Schedule {
    pub(super) fn inline(&mut self, stage: &str) -> Result<(), Refusal> {
        let id = self.find_stage(stage)?;
        let compute = self.compute(id).clone();
        if self.dag.tensor(id).output {
            return Err(format!(
                "`{stage}` is an output, so it must be stored; inline the stages it reads instead"
            ));
        }
        if compute.reduction.is_some() {
            return Err(format!(
                "`{stage}` is a reduction; only elementwise stages can be inlined, so use `compute_at`"
            ));
        }
        if let Some((packed, _)) = self.packs.iter().find(|(_, reader)| *reader == id) {
            let packed = &self.dag.tensor(*packed).name;
            return Err(format!("`{packed}` is packed for `{stage}`; inline before `pack`"));
        }
        if self.stage(id).attach != Attach::Root {
            return Err(format!("`{stage}` is computed at a loop already; inline it before `compute_at`"));
        }
        if let Some(child) = self.attached_to(id).first() {
            let child = &self.dag.tensor(*child).name;
            return Err(format!(
                "`{child}` is computed at a loop of `{stage}`, which would vanish; inline before `compute_at`"
            ));
        }
        for reader in self.readers(id) {
            let body = self.compute(reader).body.map(&mut Expr::clone, &mut |t, indices| {
                if t != id {
                    return Scalar::Read(t, indices);
                }
                let axis = |s: &Symbol| {
                    compute.axes.iter().position(|a| a.symbol == *s).map(|at| indices[at].clone())
                };
                compute.body.subst(&axis)
            });
            self.compute_mut(reader).body = body;
        }
        self.stage_mut(id).attach = Attach::Inlined;
        Ok(())
    }
}
