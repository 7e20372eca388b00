//! AddRfactor: a long reduction with few results is cut into partial results that run in parallel.
//!
//! ```text
//! s[i] = sum[j in 0..n] X[i, j]
//! ->
//! s.rf[i, j.0] = sum[j.1 in 0..n/p] X[i, j.0 * (n/p) + j.1];  s[i] = sum[j.0 in 0..p] s.rf[i, j.0]
//! ```
//!
//! Condition: a reduction along rows with fewer results than would keep all cores busy, and so long that a part is
//! worth a thread. The part length divides the reduction, so that no element is guarded; the number of parts is a
//! structural choice, because the partial results' shape depends on it.

use talweg_schedule::Step;

use super::{Decision, PARALLEL_FROM, SketchRule};
use crate::analysis::StageKind;
use crate::state::{Applied, SketchState};

/// See the module.
pub struct AddRfactor;

impl SketchRule for AddRfactor {
    fn name(&self) -> &'static str {
        "AddRfactor"
    }

    fn condition(&self, state: &SketchState, stage: &str) -> Decision {
        let stages = state.stages();
        let is_rows = stages.is_reduction(stage) && stages.kind(stage) == StageKind::Rows;
        let few = stages.elements(stage) < 4 * state.machine.cores;
        let long = stages.iterations(stage) >= 4 * PARALLEL_FROM;
        let is_new = !stage.ends_with(".rf") && !stages.producers(stage).iter().any(|p| p.ends_with(".rf"));
        if is_rows && few && long && is_new { Decision::Apply } else { Decision::Skip }
    }

    fn apply(&self, state: &SketchState, stage: &str) -> Vec<SketchState> {
        let Some((_, extent)) = state.stages().reduce_axes(stage).last().cloned() else { return Vec::new() };
        let mut out = Vec::new();
        let mut used = Vec::new();
        for wanted in [state.machine.cores, 4 * state.machine.cores, 16 * state.machine.cores] {
            // The divisor nearest to the wanted number of parts.
            let near = (2..=extent.min(4 * wanted)).filter(|p| extent % p == 0);
            let Some(parts) = near.min_by_key(|p| (p - wanted).abs()) else { continue };
            if !used.contains(&parts) {
                used.push(parts);
                out.extend(factored(state, stage, parts));
            }
        }
        out
    }
}

fn factored(state: &SketchState, stage: &str, parts: i64) -> Applied<SketchState> {
    let mut s = state.clone();
    if let Some((axis, extent)) = s.stages().reduce_axes(stage).last().cloned() {
        let names = s.split(stage, &axis, &[(extent / parts).into()])?;
        s.step(Step::Rfactor { stage: stage.to_string(), axis: names[0].clone() })?;
        s.choose(format!("{stage} in {parts} parts"));
    }
    Ok(s)
}
