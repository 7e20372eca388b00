//! `compute_at STAGE TARGET LOOP`: compute a stage inside a loop of its reader, as much as the loop's body needs.
//!
//! ```text
//! for i in 0..n { P[i] = f(i) }
//! for i.0 in 0..n/8 { for i.1 in 0..8 { C[i.0*8 + i.1] = P[i.0*8 + i.1] } }
//! ->
//! for i.0 in 0..n/8 {
//!   alloc P[8];  for i in 0..8 { P[i] = f(i.0*8 + i) }
//!   for i.1 in 0..8 { C[i.0*8 + i.1] = P[i.1] } }
//! ```
//!
//! The region is the smallest box that holds every element read, found from the loops inside `LOOP`; overlapping
//! regions (convolution windows) are computed again. Legal for a stage that is no output, when all its readers are
//! `TARGET` itself or computed inside `LOOP`, and when no loop at or outside `LOOP` in `TARGET` is vectorised. A stage
//! may be moved again, as long as the stages it reads that are computed at a loop still enclose it.

use talweg_ir::{LoopKind, TensorId};

use crate::error::Refusal;
use crate::state::{Attach, IterId, Schedule};

impl Schedule {
    pub(super) fn compute_at(&mut self, stage: &str, target: &str, at: &str) -> Result<(), Refusal> {
        let (id, to) = (self.find_stage(stage)?, self.find_stage(target)?);
        let leaf = self.find_leaf(to, at)?;
        if self.dag.tensor(id).output {
            return Err(format!(
                "`{stage}` is an output, so all of it must be computed; `cache_write` it instead"
            ));
        }
        let readers = self.readers(id);
        if readers.is_empty() {
            return Err(format!("nothing reads `{stage}`, so no loop needs it; leave it where it is"));
        }
        if let Some(stray) = readers.iter().find(|r| !self.is_within(**r, to, leaf)) {
            return Err(format!(
                "`{}` reads `{stage}` outside loop `{at}` of `{target}`; compute that reader inside the loop first",
                self.dag.tensor(*stray).name
            ));
        }
        let s = self.stage(to);
        let place = s.leaves.iter().position(|l| *l == leaf).expect("find_leaf found it");
        if let Some(v) = s.leaves[..=place].iter().find(|l| s.iter(**l).annotation == LoopKind::Vectorize) {
            return Err(format!(
                "loop `{}` of `{target}` is vectorised; nothing can be computed inside it, so choose a loop around it",
                s.iter(*v).name
            ));
        }
        self.stage_mut(id).attach = Attach::At(to, leaf);
        Ok(())
    }

    /// Refuses when a stage is read outside the loop it is computed at; checked after every step, because moving a
    /// reader may leave its producers behind.
    pub(crate) fn check_readers_inside(&self) -> Result<(), Refusal> {
        for s in self.stages.iter().flatten() {
            let Attach::At(to, leaf) = s.attach else { continue };
            for reader in self.readers(s.tensor) {
                if !self.is_within(reader, to, leaf) {
                    let name = |id: TensorId| &self.dag.tensor(id).name;
                    let (stage, reader, target) = (name(s.tensor), name(reader), name(to));
                    let at = &self.stage(to).iter(leaf).name;
                    return Err(format!(
                        "`{stage}`, which `{reader}` reads, is computed at loop `{at}` of `{target}`, so `{reader}` \
                         must stay inside that loop; `compute_at` `{stage}` elsewhere first"
                    ));
                }
            }
        }
        Ok(())
    }

    /// Whether `stage` runs inside `leaf` of `target`: it is the target, or attached (through others) at or inside it.
    fn is_within(&self, stage: TensorId, target: TensorId, leaf: IterId) -> bool {
        if stage == target {
            return true;
        }
        match self.stage(stage).attach {
            Attach::At(to, at) if to == target => {
                let place = |l| self.stage(target).leaves.iter().position(|x| *x == l);
                place(at) >= place(leaf)
            }
            Attach::At(to, _) => self.is_within(to, target, leaf),
            _ => false,
        }
    }

    /// Stages computed at some loop of `id`, in topological order.
    pub(crate) fn attached_to(&self, id: TensorId) -> Vec<TensorId> {
        let attached = |t: &TensorId| matches!(self.stages[t.index()].as_ref().map(|s| &s.attach), Some(Attach::At(to, _)) if *to == id);
        self.order.iter().copied().filter(attached).collect()
    }

    /// Refuses when a stage is computed at one of these loops, which is about to vanish.
    pub(super) fn check_not_attached(&self, id: TensorId, leaves: &[IterId]) -> Result<(), Refusal> {
        for child in self.attached_to(id) {
            if let Attach::At(_, at) = self.stage(child).attach
                && leaves.contains(&at)
            {
                let (child, at) = (&self.dag.tensor(child).name, &self.stage(id).iter(at).name);
                return Err(format!(
                    "`{child}` is computed at loop `{at}`; split and fuse before `compute_at`"
                ));
            }
        }
        Ok(())
    }

    /// Refuses when a stage is computed at `leaf` or at a loop inside it.
    pub(super) fn check_nothing_inside(&self, id: TensorId, leaf: IterId) -> Result<(), Refusal> {
        let s = self.stage(id);
        let place = |l: IterId| s.leaves.iter().position(|x| *x == l);
        for child in self.attached_to(id) {
            if let Attach::At(_, at) = self.stage(child).attach
                && place(at) >= place(leaf)
            {
                let child = &self.dag.tensor(child).name;
                return Err(format!(
                    "`{child}` is computed inside this loop; vectorise an inner loop instead"
                ));
            }
        }
        Ok(())
    }
}
