//! `fuse STAGE a b ...`: neighbouring loops become one.
//!
//! ```text
//! for a in 0..n { for b in 0..m { S(a, b) } }
//! ->
//! for a_b in 0..n * m { S(a_b // m, a_b % m) }
//! ```
//!
//! Legal when the loops are neighbours in the given order and all of one kind (space or reduction), and no stage is computed at
//! one of them.

use talweg_ir::LoopKind;

use crate::error::Refusal;
use crate::state::{Fate, Iter, IterId, Origin, Schedule};

impl Schedule {
    pub(super) fn fuse(&mut self, stage: &str, loops: &[String]) -> Result<(), Refusal> {
        let id = self.find_stage(stage)?;
        let ids: Vec<IterId> = loops.iter().map(|l| self.find_leaf(id, l)).collect::<Result<_, _>>()?;
        self.check_not_attached(id, &ids)?;
        let s = self.stage_mut(id);
        let at = s.leaves.iter().position(|l| *l == ids[0]).expect("find_leaf found it");
        if s.leaves.get(at..at + ids.len()) != Some(ids.as_slice()) {
            return Err("the loops are not neighbours in this order; `reorder` them first".into());
        }
        if ids.iter().any(|i| s.iter(*i).kind != s.iter(ids[0]).kind) {
            return Err(
                "space and reduction loops cannot be fused; `reorder` loops of one kind together first"
                    .into(),
            );
        }
        if let Some(i) = ids.iter().find(|i| s.iter(**i).annotation != LoopKind::Serial) {
            return Err(format!("`{}` is annotated already; fuse before annotating", s.iter(*i).name));
        }
        let kind = s.iter(ids[0]).kind;
        let mut fused = ids[0];
        for inner in &ids[1..] {
            s.iters.push(Iter {
                name: format!("{}_{}", s.iter(fused).name, s.iter(*inner).name),
                kind,
                origin: Origin::Fused { outer: fused, inner: *inner },
                fate: Fate::Leaf,
                annotation: LoopKind::Serial,
            });
            let new = IterId(s.iters.len() - 1);
            s.iters[fused.0].fate = Fate::Fused(new);
            s.iters[inner.0].fate = Fate::Fused(new);
            fused = new;
        }
        s.leaves.splice(at..at + ids.len(), [fused]);
        Ok(())
    }
}
