//! MultiLevelTilingWithFusion: a reduction is tiled `SSRSRS` together with the elementwise stage that reads it.
//!
//! ```text
//! C[i, j] = sum[k] ...;  Y[i, j] = f(C[i, j])
//! -> registers:
//! parallel S0 { S1 { S2 { local C[S3];  R0 { R1 { unroll k.u { S3: C += ... } } }  S3: Y = f(C) } } }
//! -> memory:
//! parallel S0 { S1 { local C[S2*S3];  R0 { S2 { R1 { unroll k.u { S3: C += ... } } } }  S2 S3: Y = f(C) } }
//! ```
//!
//! Condition: the stage needs tiling and an untouched elementwise stage reads its elements in place. Accumulators live
//! in registers over the whole reduction, or in memory across its outer part (contractions with a long reduction).

use super::register_tile::{self, Accumulate};
use super::{Decision, SketchRule};
use crate::analysis::StageKind;
use crate::state::SketchState;

/// Reductions shorter than this gain nothing from being cut into blocks.
const LONG_REDUCTION: i64 = 128;

/// See the module.
pub struct MultiLevelTilingWithFusion;

impl SketchRule for MultiLevelTilingWithFusion {
    fn name(&self) -> &'static str {
        "MultiLevelTilingWithFusion"
    }

    fn condition(&self, state: &SketchState, stage: &str) -> Decision {
        if state.stages().needs_tiling(stage) && state.fusible_reader(stage).is_some() {
            Decision::ApplyAndSkipRest
        } else {
            Decision::Skip
        }
    }

    fn apply(&self, state: &SketchState, stage: &str) -> Vec<SketchState> {
        let Some(outer) = state.fusible_reader(stage) else { return Vec::new() };
        let depth: i64 = state.stages().reduce_axes(stage).iter().map(|(_, e)| *e).product();
        let mut ways = vec![Accumulate::Registers];
        if state.stages().kind(stage) == StageKind::Contraction && depth >= LONG_REDUCTION {
            ways.push(Accumulate::Memory);
        }
        ways.into_iter().filter_map(|way| register_tile::tile(state, stage, &outer, way).ok()).collect()
    }
}
