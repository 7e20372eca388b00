//! The types of an operator's results, from the types of its inputs.
//!
//! Everything that evaluation takes for granted is checked here: how many inputs there are, their element types,
//! ranks and extents, that attributes fit them, and that no value is larger than the address space. Models arrive
//! here as they are, so nothing may overflow or index before it is checked.
//!
//! | module | holds |
//! |---|---|
//! | `args` | access to inputs with errors that name them |
//! | `elementwise` | functions of elements, with broadcasting |
//! | `movement` | reshaping, transposing, cutting, joining, padding |
//! | `indexing` | gathering and scattering by indices |

mod args;
mod elementwise;
mod indexing;
mod movement;

use crate::error::OpError;
use crate::op::Op;
use crate::tensor::TensorType;

use args::Args;

/// The types of all results the operator has; a caller may use fewer.
///
/// Absent optional inputs are `None`. Operators whose extents depend on the data give [`OpError::DataDependent`] once
/// their inputs are checked.
pub fn infer(op: &Op, inputs: &[Option<&TensorType>]) -> Result<Vec<TensorType>, OpError> {
    let args = Args::new(op, inputs)?;
    let outputs = match op {
        Op::Unary(unary) => vec![elementwise::unary(&args, *unary)?],
        Op::Binary(binary) => vec![elementwise::binary(&args, *binary)?],
        Op::Where => vec![elementwise::select(&args)?],
        Op::Cast { to } => vec![elementwise::cast(&args, *to)?],
        Op::Reshape { shape } => vec![movement::reshape(&args, shape)?],
        Op::Transpose { perm } => vec![movement::transpose(&args, perm)?],
        Op::Concat { axis } => vec![movement::concat(&args, *axis)?],
        Op::Slice { axes } => vec![movement::slice(&args, axes)?],
        Op::Expand { shape } => vec![movement::expand(&args, shape)?],
        Op::Tile { repeats } => vec![movement::tile(&args, repeats)?],
        Op::Pad { begin, end, mode } => vec![movement::pad(&args, begin, end, *mode)?],
        Op::Trilu { .. } => vec![movement::trilu(&args)?],
        Op::Gather { axis } => vec![indexing::gather(&args, *axis)?],
        Op::GatherElements { axis } => vec![indexing::gather_elements(&args, *axis)?],
        Op::GatherNd { batch_dims } => vec![indexing::gather_nd(&args, *batch_dims)?],
        Op::ScatterNd { .. } => vec![indexing::scatter_nd(&args)?],
        Op::ScatterElements { axis, .. } => vec![indexing::scatter_elements(&args, *axis)?],
        Op::OneHot { axis, depth } => vec![indexing::one_hot(&args, *axis, *depth)?],
        Op::NonZero => return indexing::non_zero(&args),
        Op::Compress { axis } => return indexing::compress(&args, *axis),
        _ => return Err(args.attribute("the operator has no types yet")),
    };
    args.check_outputs(&outputs)?;
    Ok(outputs)
}
