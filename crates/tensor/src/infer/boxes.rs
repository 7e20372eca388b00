//! Choosing boxes.

use super::args::{Args, Kind};
use crate::error::OpError;
use crate::tensor::TensorType;

/// Checks the inputs; the number of boxes kept depends on the data. Inputs from the third on are attributes here.
pub(super) fn non_max_suppression(args: &Args) -> Result<Vec<TensorType>, OpError> {
    args.arity(2, 5)?;
    let boxes = args.kind(0, Kind::Float)?;
    let scores = args.kind(1, Kind::Float)?;
    args.require(0, boxes.shape.len() == 3 && boxes.shape[2] == 4, || "of shape [batch, boxes, 4]")?;
    let fits =
        scores.shape.len() == 3 && scores.shape[0] == boxes.shape[0] && scores.shape[2] == boxes.shape[1];
    args.require(1, fits, || format!("of shape [{}, classes, {}]", boxes.shape[0], boxes.shape[1]))?;
    Err(args.data_dependent())
}
