//! Movements of elements as index expressions: what stands at an index of the result, read from the operand.

use talweg_expr::{Expr, Ranges};
use talweg_ir::{DType, Scalar};
use talweg_tensor::Op;
use talweg_tensor::op::PadMode;

use super::{EmitError, Emitter, broadcast_index, reshape};
use crate::graph::{Node, ValueId};

/// Inputs of a concatenation beyond which selecting among them costs more than plain copies.
const MAX_PARTS: usize = 16;

/// Whether kernels can say a movement; `Gather` and its kin depend on data.
pub(crate) fn is_movement(op: &Op) -> bool {
    matches!(
        op,
        Op::Reshape { .. }
            | Op::Transpose { .. }
            | Op::Slice { .. }
            | Op::Expand { .. }
            | Op::Tile { .. }
            | Op::Concat { .. }
            | Op::Pad { .. }
            | Op::Trilu { .. }
    )
}

impl Emitter<'_> {
    /// The element that a movement puts at an index.
    pub(super) fn moved(
        &mut self,
        node: &Node,
        index: Vec<Expr>,
        ranges: &Ranges,
    ) -> Result<Scalar, EmitError> {
        let unsupported = || EmitError::Unsupported(node.op.name());
        let x = node.inputs.first().copied().flatten().ok_or_else(unsupported)?;
        let shape = self.shape(x);
        match &node.op {
            Op::Reshape { .. } => {
                let from = self.shape(node.outputs[0]);
                let at = reshape::reindex(&index, from, shape, ranges).ok_or_else(unsupported)?;
                self.at(x, at, ranges)
            }
            Op::Transpose { perm } => {
                let mut at = index.clone();
                for (i, p) in perm.iter().enumerate() {
                    at[*p] = index[i].clone();
                }
                self.at(x, at, ranges)
            }
            Op::Slice { axes } => {
                let at = index.iter().zip(axes);
                let at = at.map(|(i, s)| i.clone() * s.step + s.begin as i64).collect();
                self.at(x, at, ranges)
            }
            Op::Expand { .. } => {
                let at = broadcast_index(&index, shape);
                self.at(x, at, ranges)
            }
            Op::Tile { .. } => {
                let at = index.iter().zip(shape);
                let at = at.map(|(i, e)| i.rem(*e as i64).simplify(ranges)).collect();
                self.at(x, at, ranges)
            }
            Op::Concat { axis } => self.concatenated(node, *axis, index, ranges),
            Op::Pad { begin, end, mode } => {
                let value = match node.inputs.get(1).copied().flatten() {
                    Some(value) => self.at(value, vec![Expr::int(0); self.shape(value).len()], ranges)?,
                    None => Scalar::constant(0.0, self.dtype(x)?),
                };
                self.padded(x, (begin, end, *mode), index, value, ranges)
            }
            Op::Trilu { upper, k } => {
                let zero = Scalar::constant(0.0, self.dtype(x)?);
                let [.., row, column] = index.as_slice() else { return Err(unsupported()) };
                let kept =
                    if *upper { (row.clone() + *k).le(column) } else { column.le(&(row.clone() + *k)) };
                let value = self.at(x, index, ranges)?;
                Ok(choose(kept.simplify(ranges), value, zero))
            }
            _ => Err(unsupported()),
        }
    }

    fn concatenated(
        &mut self,
        node: &Node,
        axis: usize,
        index: Vec<Expr>,
        ranges: &Ranges,
    ) -> Result<Scalar, EmitError> {
        let parts: Vec<ValueId> = node.reads().filter(|v| self.shape(*v)[axis] > 0).collect();
        if parts.is_empty() || parts.len() > MAX_PARTS {
            return Err(EmitError::Unsupported(format!("Concat of {} parts", parts.len())));
        }
        let mut first = 0i64;
        let mut pieces = Vec::new();
        for part in parts {
            let end = first + self.shape(part)[axis] as i64;
            let inside = index[axis].lt(&Expr::int(end)).simplify(ranges);
            let mut at = index.clone();
            at[axis] = (at[axis].clone() - first).simplify(ranges);
            pieces.push((inside, self.at(part, at, ranges)?));
            first = end;
        }
        let (_, mut value) = pieces.pop().expect("at least one part");
        while let Some((inside, piece)) = pieces.pop() {
            value = choose(inside, piece, value);
        }
        Ok(value)
    }

    fn padded(
        &mut self,
        x: ValueId,
        (begin, end, mode): (&[i64], &[i64], PadMode),
        index: Vec<Expr>,
        value: Scalar,
        ranges: &Ranges,
    ) -> Result<Scalar, EmitError> {
        let shape = self.shape(x);
        let mut inside = Expr::bool(true);
        let mut at = Vec::new();
        for (d, i) in index.iter().enumerate() {
            let extent = shape[d] as i64;
            let shifted = i.clone() - begin[d];
            let (before, after) = (begin[d] > 0, end[d] > 0);
            at.push(match mode {
                PadMode::Constant => {
                    if before {
                        inside = inside.and(&Expr::int(begin[d]).le(i));
                    }
                    if after {
                        inside = inside.and(&i.lt(&Expr::int(begin[d] + extent)));
                    }
                    shifted
                }
                _ if !before && !after => shifted,
                PadMode::Edge => shifted.max(0).min(extent - 1),
                PadMode::Wrap => shifted.rem(extent),
                PadMode::Reflect => {
                    let mirrored = Expr::max(&shifted, -shifted.clone());
                    let over = mirrored.clone() - (extent - 1);
                    -Expr::max(&over, -over.clone()) + (extent - 1)
                }
            });
        }
        let read = self.at(x, at, ranges)?;
        Ok(choose(inside.simplify(ranges), read, value))
    }
}

/// A guarded choice; a condition that is known needs no choice.
fn choose(condition: Expr, then: Scalar, otherwise: Scalar) -> Scalar {
    match condition.as_bool() {
        Some(true) => then,
        Some(false) => otherwise,
        None => Scalar::select(Scalar::Index(condition, DType::Bool), then, otherwise),
    }
}
