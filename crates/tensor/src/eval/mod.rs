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

mod binary;
mod cast;
mod indexing;
mod movement;
mod pad;
mod unary;

use crate::error::OpError;
use crate::infer::infer;
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
    check_memory(op, &outputs)?;
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
        _ => Err(OpError::DataDependent { op: op.name() }),
    }
}

/// Asks whether the memory for the results can be had, which is an error rather than the end of the process.
fn check_memory(op: &Op, outputs: &[TensorType]) -> Result<(), OpError> {
    for (i, ty) in outputs.iter().enumerate() {
        let mut probe: Vec<u8> = Vec::new();
        if probe.try_reserve_exact(ty.bytes()).is_err() {
            let which = format!("output {i}");
            return Err(OpError::TooLarge { op: op.name(), which, shape: ty.shape.clone() });
        }
    }
    Ok(())
}

/// A tensor without elements.
fn empty(ty: &TensorType) -> Tensor {
    Tensor::from_f64(ty.element, ty.shape.clone(), [])
}
