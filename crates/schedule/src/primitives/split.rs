//! `split STAGE LOOP [f1, f2, ...]`: one loop becomes a nest of tiles.
//!
//! ```text
//! for i in 0..n { S(i) }
//! ->
//! for i.0 in 0..ceildiv(n, f1 * f2) {
//!   for i.1 in 0..min(f1, ceildiv(n - i.0 * f1 * f2, f2)) {
//!     for i.2 in 0..min(f2, n - i.0 * f1 * f2 - i.1 * f2) { S(i.0 * f1 * f2 + i.1 * f2 + i.2) } } }
//! ```
//!
//! The factors need not divide the extent: the last tile is smaller, and no iteration is guarded. Where they divide
//! it, the minima vanish. Legal for every loop no stage is computed at; factors are positive.

use talweg_expr::{Expr, Ty};
use talweg_ir::LoopKind;

use crate::error::Refusal;
use crate::state::{Fate, Iter, IterId, Origin, Schedule};

impl Schedule {
    pub(super) fn split(&mut self, stage: &str, axis: &str, factors: &[Expr]) -> Result<(), Refusal> {
        let id = self.find_stage(stage)?;
        let parent = self.find_leaf(id, axis)?;
        if factors.is_empty() {
            return Err("there are no factors; give the extents of the inner loops in brackets".into());
        }
        for f in factors {
            let knobs_only = f.symbols().iter().all(|s| s.is_knob());
            if f.ty() != Ty::Int || !knobs_only || f.as_int().is_some_and(|v| v < 1) {
                return Err(format!("factor `{f}` is not a positive number or an expression of knobs"));
            }
        }
        self.check_not_attached(id, &[parent])?;
        let s = self.stage_mut(id);
        if s.iter(parent).annotation != LoopKind::Serial {
            return Err(format!("`{axis}` is annotated already; split it before annotating its parts"));
        }
        let (name, kind) = (s.iter(parent).name.clone(), s.iter(parent).kind);
        let parts: Vec<IterId> = (0..=factors.len())
            .map(|level| {
                s.iters.push(Iter {
                    name: format!("{name}.{level}"),
                    kind,
                    origin: Origin::Split { parent, level },
                    fate: Fate::Leaf,
                    annotation: LoopKind::Serial,
                });
                IterId(s.iters.len() - 1)
            })
            .collect();
        let at = s.leaves.iter().position(|l| *l == parent).expect("find_leaf found it");
        s.leaves.splice(at..=at, parts.iter().copied());
        s.iters[parent.0].fate = Fate::Split { parts, factors: factors.to_vec() };
        Ok(())
    }
}
