//! Convolution of three dimensions: like two dimensions, with the register tile over rows and columns, because frames
//! are often small.

use super::conv2d::{Strip, strip};
use super::{Config, Shape, Template};
use crate::analysis::StageKind;
use crate::error::SpaceError;

/// See the module.
pub struct Conv3d;

impl Template for Conv3d {
    fn name(&self) -> &'static str {
        "conv3d"
    }

    fn matches(&self, shape: &Shape) -> bool {
        shape.kind == StageKind::Contraction && shape.reduce.len() == 4 && !shape.is_transposed()
    }

    fn schedule(&self, config: &mut Config) -> Result<(), SpaceError> {
        strip(config, &Strip { tile_rows: true, unroll_window: true })
    }
}
