//! `reorder STAGE a b c`: the named loops take each other's places, in the order given.
//!
//! ```text
//! reorder S j i:   for i { for k { for j { S } } }  ->  for j { for k { for i { S } } }
//! ```
//!
//! Legal while no stage is computed at a loop of this one: iterations over space are independent, and reductions may be reordered (floating-point sums are
//! checked against the reference with a tolerance). The loops of a split keep exact bounds in any order.

use crate::error::Refusal;
use crate::state::{IterId, Schedule};

impl Schedule {
    pub(super) fn reorder(&mut self, stage: &str, loops: &[String]) -> Result<(), Refusal> {
        let id = self.find_stage(stage)?;
        let ids: Vec<IterId> = loops.iter().map(|l| self.find_leaf(id, l)).collect::<Result<_, _>>()?;
        if let Some(twice) = (1..ids.len()).find(|at| ids[..*at].contains(&ids[*at])) {
            return Err(format!("loop `{}` is named twice; name each loop once", loops[twice]));
        }
        if let Some(child) = self.attached_to(id).first() {
            let child = &self.dag.tensor(*child).name;
            return Err(format!("`{child}` is computed at a loop of `{stage}`; reorder before `compute_at`"));
        }
        let mut next = ids.iter();
        for leaf in &mut self.stage_mut(id).leaves {
            if ids.contains(leaf) {
                *leaf = *next.next().expect("as many places as names");
            }
        }
        Ok(())
    }
}
