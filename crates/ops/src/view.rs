//! A computed tensor and the shape the caller sees.
//!
//! Grouped convolutions compute `[n, oh, ow, g, ff]` and transposed ones `[n, y, ph, x, pw, f]`: row-major, these are
//! the same bytes as `[n, oh, ow, f]`, and all accesses stay affine. A view remembers how the axes of the tensor make
//! up the logical indices.

use talweg_expr::Expr;
use talweg_ir::{Dag, TensorId};

use crate::error::OpError;
use crate::typing::shape_of;

/// A tensor whose row-major bytes are those of a logical shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// The computed tensor.
    pub tensor: TensorId,
    /// The shape the caller sees; as many elements as the tensor, in the same order.
    pub shape: Vec<i64>,
    /// For each logical axis, how many consecutive axes of the tensor make it up.
    parts: Vec<usize>,
    /// The tensor's own extents.
    extents: Vec<i64>,
    /// The shape of a tensor with one element for each channel, as it is broadcast to the logical shape.
    channels: Vec<i64>,
}

impl View {
    /// A tensor seen as it is.
    pub fn plain(dag: &Dag, tensor: TensorId) -> Result<View, OpError> {
        let shape = shape_of(dag, tensor, "view")?;
        let channels = vec![shape.last().copied().unwrap_or(1)];
        Ok(View { tensor, parts: vec![1; shape.len()], extents: shape.clone(), shape, channels })
    }

    /// A tensor whose channels lie in blocks: `[n, blocks, .., block]`.
    pub(crate) fn blocked(dag: &Dag, tensor: TensorId) -> Result<View, OpError> {
        let plain = View::plain(dag, tensor)?;
        let last = plain.shape.len() - 1;
        let channels = plain.shape.iter().enumerate().skip(1);
        let channels = channels.map(|(at, e)| if at == 1 || at == last { *e } else { 1 }).collect();
        Ok(View { channels, ..plain })
    }

    /// Each logical axis made up of the next `parts[i]` axes of the tensor, slowest first.
    pub(crate) fn merged(dag: &Dag, tensor: TensorId, parts: Vec<usize>) -> Result<View, OpError> {
        let extents = shape_of(dag, tensor, "view")?;
        let mut at = 0;
        let mut shape = Vec::new();
        for count in &parts {
            shape.push(extents[at..at + count].iter().product());
            at += count;
        }
        let channels = vec![shape.last().copied().unwrap_or(1)];
        Ok(View { tensor, shape, parts, extents, channels })
    }

    /// The same view of another tensor with the same axes.
    pub(crate) fn of(&self, tensor: TensorId) -> View {
        View { tensor, ..self.clone() }
    }

    /// Logical indices from the axes of the tensor; affine.
    pub fn indices(&self, axes: &[Expr]) -> Vec<Expr> {
        let mut at = 0;
        let mut out = Vec::new();
        for count in &self.parts {
            let mut index = Expr::int(0);
            for (extent, axis) in self.extents.iter().zip(axes).skip(at).take(*count) {
                index = index * *extent + axis.clone();
            }
            out.push(index);
            at += count;
        }
        out
    }

    /// The shape of a tensor with one element for each channel, as it is broadcast to the logical shape.
    pub fn channels(&self) -> &[i64] {
        &self.channels
    }

    /// The tensor's own extents.
    pub fn extents(&self) -> &[i64] {
        &self.extents
    }
}
