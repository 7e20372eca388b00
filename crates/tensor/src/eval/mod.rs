//! The reference meaning of every operator.
//!
//! Integers are exact and wrap around. `f32` sums are accumulated in `f64`, half precision computes in `f32` or wider
//! and rounds once. Inputs are checked by [`infer`](crate::infer::infer) first, so that what follows takes element
//! types, ranks and extents for granted; only what depends on elements, such as indices, is checked here.
//!
//! | module | holds |
//! |---|---|
//! | `unary`, `binary`, `cast` | functions of elements, with broadcasting |
//! | `movement`, `pad` | reshaping, transposing, cutting, joining, padding |
//! | `indexing` | gathering and scattering by indices |
//! | `gemm`, `linear`, `einsum` | matrix products and sums of products |
//! | `window`, `conv`, `conv_transpose`, `pool` | windows over images |
//! | `reduce`, `along`, `norm` | reductions, operators along an axis, normalisations |
//! | `resize`, `recurrent`, `quantize`, `boxes` | what their names say |

mod along;
mod binary;
mod boxes;
mod cast;
mod conv;
mod conv_transpose;
mod einsum;
mod gemm;
mod indexing;
mod linear;
mod movement;
mod norm;
mod pad;
mod pool;
mod quantize;
mod recurrent;
mod reduce;
mod resize;
mod unary;
mod window;

use crate::error::OpError;
use crate::infer::{checked_bytes, infer};
use crate::op::Op;
use crate::tensor::{Tensor, TensorType};

/// An operator with inputs that fit it, and the types of its results.
struct Call<'a> {
    op: &'a Op,
    inputs: &'a [Option<&'a Tensor>],
    outputs: &'a [TensorType],
}

impl<'a> Call<'a> {
    /// A required input.
    fn get(&self, input: usize) -> Result<&'a Tensor, OpError> {
        self.maybe(input).ok_or_else(|| OpError::Missing { op: self.op.name(), input })
    }

    /// An optional input.
    fn maybe(&self, input: usize) -> Option<&'a Tensor> {
        self.inputs.get(input).copied().flatten()
    }

    /// The type of the first result.
    fn output(&self) -> &'a TensorType {
        &self.outputs[0]
    }

    /// The indices in an input, counted from the front and checked against the extent.
    fn indices(&self, input: usize, extent: usize) -> Result<Vec<usize>, OpError> {
        self.get(input)?.to_i64().into_iter().map(|i| self.index(input, i, extent)).collect()
    }

    /// An index that may count from the end, counted from the front.
    fn index(&self, input: usize, index: i64, extent: usize) -> Result<usize, OpError> {
        let positive = if index < 0 { index.wrapping_add(extent as i64) } else { index };
        match usize::try_from(positive) {
            Ok(positive) if positive < extent => Ok(positive),
            _ => Err(OpError::value(
                self.op,
                input,
                format!("indices of an axis with {extent} elements"),
                index.to_string(),
            )),
        }
    }
}

/// All results of the operator for the given inputs; absent optional inputs are `None`.
pub fn evaluate(op: &Op, inputs: &[Option<&Tensor>]) -> Result<Vec<Tensor>, OpError> {
    let types: Vec<Option<&TensorType>> = inputs.iter().map(|input| input.map(Tensor::ty)).collect();
    let outputs = match infer(op, &types) {
        Err(OpError::DataDependent { .. }) => Vec::new(),
        outputs => outputs?,
    };
    for (i, ty) in outputs.iter().enumerate() {
        check_size(op, &format!("output {i}"), ty)?;
    }
    if !outputs.is_empty() && outputs.iter().all(TensorType::is_empty) {
        return Ok(outputs.iter().map(empty).collect());
    }
    let call = Call { op, inputs, outputs: &outputs };
    let one = |tensor: Tensor| vec![tensor];
    match op {
        Op::Unary(unary) => unary::evaluate(&call, *unary).map(one),
        Op::Binary(binary) => binary::evaluate(&call, *binary).map(one),
        Op::Where => binary::select(&call).map(one),
        Op::Cast { to } => cast::evaluate(&call, *to).map(one),
        Op::Reshape { shape } => Ok(one(call.get(0)?.reshaped(shape.clone()))),
        Op::Transpose { perm } => movement::transpose(&call, perm).map(one),
        Op::Concat { axis } => movement::concat(&call, *axis).map(one),
        Op::Slice { axes } => movement::slice(&call, axes).map(one),
        Op::Expand { .. } => movement::expand(&call).map(one),
        Op::Tile { repeats } => movement::tile(&call, repeats).map(one),
        Op::Pad { begin, end, mode } => pad::evaluate(&call, begin, end, *mode).map(one),
        Op::Trilu { upper, k } => movement::trilu(&call, *upper, *k).map(one),
        Op::Gather { axis } => indexing::gather(&call, *axis).map(one),
        Op::GatherElements { axis } => indexing::gather_elements(&call, *axis).map(one),
        Op::GatherNd { batch_dims } => indexing::gather_nd(&call, *batch_dims).map(one),
        Op::ScatterNd { reduction } => indexing::scatter_nd(&call, *reduction).map(one),
        Op::ScatterElements { axis, reduction } => {
            indexing::scatter_elements(&call, *axis, *reduction).map(one)
        }
        Op::OneHot { axis, depth } => indexing::one_hot(&call, *axis, *depth).map(one),
        Op::NonZero => indexing::non_zero(&call).map(one),
        Op::Compress { axis } => indexing::compress(&call, *axis).map(one),
        Op::MatMul => linear::matmul(&call).map(one),
        Op::MatMulInteger => linear::matmul_integer(&call).map(one),
        Op::Einsum { equation } => einsum::evaluate(&call, equation).map(one),
        Op::Conv(conv) => conv::conv(&call, conv).map(one),
        Op::ConvInteger(conv) => conv::conv_integer(&call, conv).map(one),
        Op::ConvTranspose(conv) => conv_transpose::evaluate(&call, conv).map(one),
        Op::Pool(pool) => pool::evaluate(&call, pool),
        Op::Reduce(reduce) => reduce::reduce(&call, reduce).map(one),
        Op::ArgReduce(reduce) => along::arg_reduce(&call, reduce).map(one),
        Op::TopK { axis, k, largest } => along::top_k(&call, *axis, *k, *largest),
        Op::CumSum { axis, exclusive, reverse } => {
            along::cum_sum(&call, *axis, *exclusive, *reverse).map(one)
        }
        Op::Softmax { axis, log } => along::softmax(&call, *axis, *log).map(one),
        Op::Hardmax { axis } => along::hardmax(&call, *axis).map(one),
        Op::LayerNorm { axis, epsilon } => norm::layer(&call, *axis, *epsilon),
        Op::RmsNorm { axis, epsilon } => norm::rms(&call, *axis, *epsilon).map(one),
        Op::Lrn { size, alpha, beta, bias } => norm::lrn(&call, *size, [*alpha, *beta, *bias]).map(one),
        Op::Resize(resize) => resize::evaluate(&call, resize).map(one),
        Op::Lstm(layer) | Op::Gru(layer) | Op::Rnn(layer) => recurrent::evaluate(&call, layer),
        Op::Quantize(quantize) => quantize::quantize(&call, quantize).map(one),
        Op::Dequantize(quantize) => quantize::dequantize(&call, quantize).map(one),
        Op::NonMaxSuppression { center_point, max_per_class, iou_threshold, score_threshold } => {
            let limits = boxes::Limits {
                center_point: *center_point,
                max_per_class: *max_per_class,
                iou: f64::from(*iou_threshold),
                score: score_threshold.map(f64::from),
            };
            boxes::non_max_suppression(&call, &limits).map(one)
        }
    }
}

/// Asks whether the memory for a value can be had, which is an error rather than the end of the process.
fn check_size(op: &Op, which: &str, ty: &TensorType) -> Result<(), OpError> {
    let mut probe: Vec<u8> = Vec::new();
    match checked_bytes(ty).map(|bytes| probe.try_reserve_exact(bytes)) {
        Some(Ok(())) => Ok(()),
        _ => Err(OpError::TooLarge { op: op.name(), which: which.to_string(), shape: ty.shape.clone() }),
    }
}

/// A tensor without elements.
fn empty(ty: &TensorType) -> Tensor {
    Tensor::from_f64(ty.element, ty.shape.clone(), [])
}
