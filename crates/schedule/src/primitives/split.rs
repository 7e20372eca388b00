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
//! it, the minima vanish. Legal for every serial loop no stage is computed at. Factors are numbers or expressions of
//! knobs that are at least 1 whatever the knobs are; a tile has at most 2^48 iterations.

use talweg_expr::{Expr, Ranges, Ty};
use talweg_ir::LoopKind;

use crate::concrete::MAX_KNOB;
use crate::error::Refusal;
use crate::state::{Fate, Iter, IterId, Origin, Schedule, Stage};

impl Schedule {
    pub(super) fn split(&mut self, stage: &str, axis: &str, factors: &[Expr]) -> Result<(), Refusal> {
        let id = self.find_stage(stage)?;
        let parent = self.find_leaf(id, axis)?;
        if factors.is_empty() {
            return Err("there are no factors; give the extents of the inner loops in brackets".into());
        }
        for f in factors {
            check_factor(f)?;
        }
        let s = self.stage(id);
        let tile = reach(s, parent) * factors.iter().map(size).product::<f64>();
        if tile > MAX_TILE {
            return Err(format!(
                "a tile of {tile:.1e} iterations is larger than any loop; use smaller factors"
            ));
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

/// No more iterations than this in a tile, so that arithmetic on loop variables cannot overflow.
const MAX_TILE: f64 = (1u64 << 48) as f64;

/// Refuses factors that are not whole numbers from 1 on for all values of their knobs.
fn check_factor(factor: &Expr) -> Result<(), Refusal> {
    let symbols = factor.symbols();
    if factor.ty() != Ty::Int || !symbols.iter().all(|s| s.is_knob()) {
        return Err(format!(
            "factor `{factor}` is not a positive number or an expression of knobs; write it like `4` or `$ti`"
        ));
    }
    let mut ranges = Ranges::new();
    symbols.iter().for_each(|s| ranges.set(s, 1, MAX_KNOB));
    if factor.bounds(&ranges).lo < 1.0 {
        return Err(format!(
            "factor `{factor}` can be less than 1; write it like `4`, `$ti` or `max($ti - 1, 1)`"
        ));
    }
    Ok(())
}

/// A factor as far as it is known.
fn size(factor: &Expr) -> f64 {
    factor.as_int().map_or(1.0, |v| v as f64)
}

/// The product of the factors that led to a loop.
fn reach(s: &Stage, id: IterId) -> f64 {
    match &s.iter(id).origin {
        Origin::Axis(_) => 1.0,
        Origin::Fused { outer, inner } => reach(s, *outer) * reach(s, *inner),
        Origin::Split { parent, .. } => match &s.iter(*parent).fate {
            Fate::Split { factors, .. } => reach(s, *parent) * factors.iter().map(size).product::<f64>(),
            _ => reach(s, *parent),
        },
    }
}
