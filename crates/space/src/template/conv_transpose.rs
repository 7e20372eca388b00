//! Transposed convolution: each phase of the result is a small convolution; phases run outermost, like batches.

use super::conv2d::{Strip, strip};
use super::{Config, Shape, Template};
use crate::analysis::StageKind;
use crate::error::SpaceError;

/// See the module.
pub struct ConvTranspose;

impl Template for ConvTranspose {
    fn name(&self) -> &'static str {
        "conv_transpose"
    }

    fn matches(&self, shape: &Shape) -> bool {
        shape.kind == StageKind::Contraction && shape.is_transposed()
    }

    fn schedule(&self, config: &mut Config) -> Result<(), SpaceError> {
        strip(config, &Strip { tile_rows: true, unroll_window: false })
    }
}
