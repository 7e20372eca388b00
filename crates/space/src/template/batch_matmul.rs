//! Batched matmul: `C[b, i, j] = sum[k] A[b, i, k] * B[b, k, j]`, like dense, with the batch in the parallel loop.

use super::dense::matmul;
use super::{Config, Shape, Template};
use crate::analysis::StageKind;
use crate::error::SpaceError;

/// See the module.
pub struct BatchMatmul;

impl Template for BatchMatmul {
    fn name(&self) -> &'static str {
        "batch_matmul"
    }

    fn matches(&self, shape: &Shape) -> bool {
        shape.kind == StageKind::Contraction
            && shape.reduce.len() == 1
            && !shape.batch.is_empty()
            && shape.axes.len() > 2
    }

    fn schedule(&self, config: &mut Config) -> Result<(), SpaceError> {
        matmul(config)
    }
}
