//! `reorder STAGE a b c`: the named loops take each other's places, in the order given.
//!
//! ```text
//! reorder S j i:   for i { for k { for j { S } } }  ->  for j { for k { for i { S } } }
//! ```
//!
//! Always legal: iterations over space are independent, and reductions may be reordered (floating-point sums are
//! checked against the reference with a tolerance). The loops of a split keep exact bounds in any order.

use crate::error::Refusal;
use crate::state::{IterId, Schedule};

impl Schedule {
    pub(super) fn reorder(&mut self, stage: &str, loops: &[String]) -> Result<(), Refusal> {
        let id = self.find_stage(stage)?;
        let ids: Vec<IterId> = loops.iter().map(|l| self.find_leaf(id, l)).collect::<Result<_, _>>()?;
        if let Some(twice) = (1..ids.len()).find(|at| ids[..*at].contains(&ids[*at])) {
            return Err(format!("loop `{}` is named twice", loops[twice]));
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
