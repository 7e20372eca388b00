//! Pointwise convolution: a window of one element, so rows and columns of the image share the register tile.
//!
//! Choices: those of [`super::conv2d`], and `tile_oh`.

use super::conv2d::{Strip, strip};
use super::{Config, Shape, Template};
use crate::analysis::StageKind;
use crate::error::SpaceError;

/// See the module.
pub struct Conv2dPointwise;

impl Template for Conv2dPointwise {
    fn name(&self) -> &'static str {
        "conv2d_pointwise"
    }

    fn matches(&self, shape: &Shape) -> bool {
        shape.kind == StageKind::Contraction && matches!(shape.reduce.len(), 2 | 3) && shape.is_pointwise()
    }

    fn schedule(&self, config: &mut Config) -> Result<(), SpaceError> {
        strip(config, &Strip { tile_rows: true, unroll_window: false })
    }
}
