//! MultiLevelTiling: a reduction is tiled `SSRSRS` and accumulates in its result.
//!
//! ```text
//! C[i, j] = sum[k] ...   ->   parallel S0 { S1 { S2 S3: C = 0;  R0 { S2 { R1 { unroll k.u { S3: C += ... } } } } } }
//! ```
//!
//! Condition: the stage needs tiling, has a long reduction, and no elementwise stage reads it in place. Saves the copy
//! of a local buffer where the result itself stays in the cache.

use super::register_tile::{self, Accumulate};
use super::{Decision, SketchRule};
use crate::analysis::StageKind;
use crate::state::SketchState;

/// Reductions shorter than this are never worth reading the result again.
const LONG_REDUCTION: i64 = 256;

/// See the module.
pub struct MultiLevelTiling;

impl SketchRule for MultiLevelTiling {
    fn name(&self) -> &'static str {
        "MultiLevelTiling"
    }

    fn condition(&self, state: &SketchState, stage: &str) -> Decision {
        let stages = state.stages();
        let depth: i64 = stages.reduce_axes(stage).iter().map(|(_, e)| *e).product();
        let long = stages.kind(stage) == StageKind::Contraction && depth >= LONG_REDUCTION;
        if long && state.fusible_reader(stage).is_none() { Decision::Apply } else { Decision::Skip }
    }

    fn apply(&self, state: &SketchState, stage: &str) -> Vec<SketchState> {
        register_tile::tile(state, stage, stage, Accumulate::Direct).into_iter().collect()
    }
}
