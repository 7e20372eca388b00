//! Interpolation to another size.

use super::args::{Args, Kind};
use crate::error::OpError;
use crate::op::{Coordinates, Resize, ResizeMode};
use crate::tensor::TensorType;

pub(super) fn resize(args: &Args, resize: &Resize) -> Result<TensorType, OpError> {
    args.arity(1, 1)?;
    let x = match resize.mode {
        ResizeMode::Nearest(_) => args.get(0)?,
        _ => args.kind(0, Kind::Number)?,
    };
    let rank = x.shape.len();
    args.ensure(resize.shape.len() == rank && resize.scales.len() == rank, || {
        format!("{} extents and {} scales for {x}", resize.shape.len(), resize.scales.len())
    })?;
    args.ensure(resize.scales.iter().all(|scale| scale.is_finite() && *scale > 0.0), || {
        format!("the scales {:?} must be positive", resize.scales)
    })?;
    let empty = x.shape.contains(&0) && !resize.shape.contains(&0);
    args.require(0, !empty, || format!("not empty, to become {:?}", resize.shape))?;
    if resize.coordinates == Coordinates::CropAndResize {
        let valid = resize.roi.len() == 2 * rank && resize.roi.iter().all(|bound| bound.is_finite());
        args.ensure(valid, || format!("the region {:?} must have {} finite bounds", resize.roi, 2 * rank))?;
    }
    if resize.antialias {
        let small = x
            .shape
            .iter()
            .zip(&resize.scales)
            .any(|(&n, &scale)| f64::from(scale) * (n.max(1) as f64) < 1e-3);
        args.ensure(!small, || format!("the scales {:?} shrink {x} to nothing", resize.scales))?;
    }
    Ok(TensorType::new(x.element, resize.shape.clone()))
}
