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
//! | `linear` | matrix products and sums of products |
//! | `window` | convolutions and pooling |
//! | `reduce`, `norm` | reductions, operators along an axis, normalisations |
//! | `resize`, `recurrent`, `quantize`, `boxes` | what their names say |

mod args;
mod boxes;
mod elementwise;
mod indexing;
mod linear;
mod movement;
mod norm;
mod quantize;
mod recurrent;
mod reduce;
mod resize;
mod window;

use crate::error::OpError;
use crate::op::Op;
use crate::tensor::TensorType;

pub(crate) use args::checked_bytes;
use args::{Args, Kind};
pub(crate) use recurrent::Cell;

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
        Op::MatMul => vec![linear::matmul(&args)?],
        Op::MatMulInteger => vec![linear::matmul_integer(&args)?],
        Op::Einsum { equation } => vec![linear::einsum(&args, equation)?],
        Op::Conv(conv) => vec![window::conv(&args, conv)?],
        Op::ConvInteger(conv) => vec![window::conv_integer(&args, conv)?],
        Op::ConvTranspose(conv) => vec![window::conv_transpose(&args, conv)?],
        Op::Pool(pool) => window::pool(&args, pool)?,
        Op::Reduce(reduce) => vec![reduce::reduce(&args, reduce)?],
        Op::ArgReduce(reduce) => vec![reduce::arg_reduce(&args, reduce)?],
        Op::TopK { axis, k, .. } => reduce::top_k(&args, *axis, *k)?,
        Op::CumSum { axis, .. } => vec![reduce::along(&args, *axis, Kind::Number)?],
        Op::Softmax { axis, .. } => vec![reduce::along(&args, *axis, Kind::Float)?],
        Op::Hardmax { axis } => vec![reduce::along(&args, *axis, Kind::Float)?],
        Op::LayerNorm { axis, .. } => norm::layer(&args, *axis)?,
        Op::RmsNorm { axis, .. } => vec![norm::rms(&args, *axis)?],
        Op::Lrn { size, .. } => vec![norm::lrn(&args, *size)?],
        Op::Resize(resize) => vec![resize::resize(&args, resize)?],
        Op::Lstm(layer) | Op::Gru(layer) | Op::Rnn(layer) => recurrent::recurrent(&args, op, layer)?,
        Op::Quantize(quantize) => vec![quantize::quantize(&args, quantize)?],
        Op::Dequantize(quantize) => vec![quantize::dequantize(&args, quantize)?],
        Op::NonMaxSuppression { .. } => return boxes::non_max_suppression(&args),
    };
    args.check_outputs(&outputs)?;
    Ok(outputs)
}
