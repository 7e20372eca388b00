//! `rfactor STAGE LOOP`: a reduction loop becomes an axis of partial results, which a second reduction combines.
//!
//! ```text
//! split C k [16]; rfactor C k.1:
//! C[i] = sum[k in 0..n] f(i, k)
//! ->
//! C.rf[i, k.1 in 0..16] = sum[k.0 in 0..ceildiv(n, 16)] f(i, k.0*16 + k.1);  C[i] = sum[k.1 in 0..16] C.rf[i, k.1]
//! ```
//!
//! Partial results are independent, so `k.1` can be vectorised or run in parallel. Where a factor does not divide the
//! extent it splits, the overshoot contributes the reduction's neutral value. Legal when only splits were applied to the stage
//! before, and only to its reduction loops. Both stages start with fresh loops.

use talweg_expr::{Expr, Ranges, Symbol};
use talweg_ir::{Axis, Compute, LoopKind, Reduction, Scalar};

use crate::error::Refusal;
use crate::state::{Attach, Fate, IterId, IterKind, Origin, Schedule, Stage};

impl Schedule {
    pub(super) fn rfactor(&mut self, stage: &str, axis: &str) -> Result<(), Refusal> {
        let id = self.find_stage(stage)?;
        let leaf = self.find_leaf(id, axis)?;
        let s = self.stage(id).clone();
        let compute = self.compute(id).clone();
        let Some(reduction) = compute.reduction.clone() else {
            return Err(format!("`{stage}` is no reduction, so it has nothing to factor"));
        };
        if s.iter(leaf).kind != IterKind::Reduce {
            return Err(format!("`{axis}` does not run over the reduction; name one of its loops or parts"));
        }
        let plain = s.iters.iter().all(|i| {
            i.annotation == LoopKind::Serial
                && !matches!(i.origin, Origin::Fused { .. })
                && (i.kind == IterKind::Reduce
                    || matches!((&i.origin, &i.fate), (Origin::Axis(_), Fate::Leaf)))
        });
        if !plain || s.attach != Attach::Root || !self.attached_to(id).is_empty() {
            return Err(format!(
                "`{stage}` may only have splits of its reduction loops before `rfactor`; apply other steps afterwards"
            ));
        }

        // Each reduction axis as a sum over its split parts, each part with its extent.
        let mut values = Vec::new();
        let mut parts: Vec<(IterId, Axis)> = Vec::new();
        let mut limits: Vec<(Expr, Expr)> = Vec::new();
        for (at, a) in reduction.axes.iter().enumerate() {
            let root = s
                .iters
                .iter()
                .position(|i| i.kind == IterKind::Reduce && i.origin == Origin::Axis(at))
                .expect("every axis has its loop");
            values.push(unfold(&s, root, &a.extent, &mut parts, &mut limits));
        }
        parts.sort_by_key(|(p, _)| s.leaves.iter().position(|l| l == p));
        let by = |symbol: &Symbol| {
            reduction.axes.iter().position(|a| a.symbol == *symbol).map(|at| values[at].clone())
        };
        let mut body = compute.body.subst(&by);
        let mut ranges = Ranges::new();
        for (_, a) in &parts {
            if let Some(e) = a.extent.as_int() {
                ranges.set(&a.symbol, 0, e - 1);
            }
        }
        let inside = limits
            .iter()
            .fold(Expr::bool(true), |all, (value, extent)| all.and(&value.lt(extent).simplify(&ranges)));
        if inside.as_bool() != Some(true) {
            let neutral = reduction.reducer.identity(self.dag.tensor(id).dtype);
            body = Scalar::select(Scalar::predicate(inside), body, neutral);
        }

        let at = parts.iter().position(|(p, _)| *p == leaf).expect("the leaf is a part");
        let (_, factored) = parts.remove(at);
        let mut axes = compute.axes.clone();
        axes.push(factored.clone());
        let over: Vec<Axis> = parts.into_iter().map(|(_, a)| a).collect();
        let inner = (!over.is_empty()).then(|| Reduction { reducer: reduction.reducer, axes: over });
        let partial = Compute { axes: axes.clone(), reduction: inner, body };
        let rf = self.insert_before(&format!("{stage}.rf"), partial, id)?;
        *self.compute_mut(id) = Compute {
            axes: compute.axes,
            reduction: Some(Reduction { reducer: reduction.reducer, axes: vec![factored] }),
            body: Scalar::Read(rf, axes.iter().map(Axis::var).collect()),
        };
        let fresh = Stage::new(id, self.compute(id));
        *self.stage_mut(id) = fresh;
        self.move_packs(id, rf);
        Ok(())
    }
}

/// The value of a loop as a sum over its leaf parts. Collects the parts with their extents, and for every split loop its
/// value with the extent it must stay below: parts of parts may overshoot their parent without overshooting the axis.
fn unfold(
    s: &Stage,
    at: usize,
    extent: &Expr,
    parts: &mut Vec<(IterId, Axis)>,
    limits: &mut Vec<(Expr, Expr)>,
) -> Expr {
    match &s.iters[at].fate {
        Fate::Split { parts: inner, factors } => {
            let mut value = Expr::int(0);
            for (level, part) in inner.iter().enumerate() {
                let stride = factors[level..].iter().fold(Expr::int(1), |p, f| p * f);
                let extent = if level == 0 { extent.ceil_div(&stride) } else { factors[level - 1].clone() };
                value = value + unfold(s, part.0, &extent, parts, limits) * stride;
            }
            limits.push((value.clone(), extent.clone()));
            value
        }
        _ => {
            let symbol = Symbol::var(&s.iters[at].name);
            let value = Expr::sym(&symbol);
            parts.push((IterId(at), Axis { symbol, extent: extent.clone() }));
            value
        }
    }
}
