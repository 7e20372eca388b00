//! Matrix products and sums of products.

use super::args::{Args, Kind};
use crate::einsum::Subscripts;
use crate::element::ElementType;
use crate::error::OpError;
use crate::tensor::TensorType;

pub(super) fn matmul(args: &Args) -> Result<TensorType, OpError> {
    args.arity(2, 2)?;
    let a = args.kind(0, Kind::Number)?;
    args.element(1, a.element)?;
    Ok(TensorType::new(a.element, product_shape(args)?))
}

/// numpy's rules: a vector on the left is a row, on the right a column, and leading axes broadcast.
fn product_shape(args: &Args) -> Result<Vec<usize>, OpError> {
    let (a, b) = (args.get(0)?, args.get(1)?);
    args.require(0, !a.shape.is_empty(), || "of rank 1 or more")?;
    args.require(1, !b.shape.is_empty(), || "of rank 1 or more")?;
    let depth = a.shape[a.shape.len() - 1];
    let at = b.shape.len().saturating_sub(2);
    args.require(1, b.shape[at] == depth, || format!("of extent {depth} on axis {at}, the depth of {a}"))?;
    let (a_batch, b_batch) = (&a.shape[..a.shape.len().saturating_sub(2)], &b.shape[..at]);
    let rank = a_batch.len().max(b_batch.len());
    let mut shape = Vec::with_capacity(rank + 2);
    for i in 0..rank {
        let extent = |batch: &[usize]| (i + batch.len()).checked_sub(rank).map_or(1, |k| batch[k]);
        let (x, y) = (extent(a_batch), extent(b_batch));
        args.require(1, x == y || x == 1 || y == 1, || format!("of a batch that broadcasts with {a}"))?;
        shape.push(if x == 1 { y } else { x });
    }
    if a.shape.len() > 1 {
        shape.push(a.shape[a.shape.len() - 2]);
    }
    if b.shape.len() > 1 {
        shape.push(b.shape[b.shape.len() - 1]);
    }
    Ok(shape)
}

pub(super) fn matmul_integer(args: &Args) -> Result<TensorType, OpError> {
    args.arity(2, 4)?;
    for input in 0..4 {
        if let Some(ty) = args.maybe(input) {
            args.require(
                input,
                matches!(ty.element, ElementType::I8 | ElementType::U8),
                || "of type i8 or u8",
            )?;
        }
    }
    let shape = product_shape(args)?;
    let (a, b) = (args.get(0)?, args.get(1)?);
    args.element(2, a.element)?;
    args.element(3, b.element)?;
    if let Some(zero) = args.maybe(2) {
        let rows = &a.shape[..a.shape.len() - 1];
        let fits = zero.len() == 1 || zero.shape == rows || zero.shape == [rows, &[1]].concat();
        args.require(2, fits, || "a scalar or one value for each row of input 0")?;
    }
    if let Some(zero) = args.maybe(3) {
        let columns = b.shape[b.shape.len() - 1];
        let (lead, rank) = (b.shape.len().saturating_sub(2), b.shape.len());
        let each = rank >= 2
            && (zero.shape == [columns] || zero.shape == [&b.shape[..lead], &[1, columns]].concat());
        args.require(3, zero.len() == 1 || each, || "a scalar or one value for each column of input 1")?;
    }
    Ok(TensorType::new(ElementType::I32, shape))
}

pub(super) fn einsum(args: &Args, equation: &str) -> Result<TensorType, OpError> {
    args.arity(args.count().max(1), usize::MAX)?;
    let first = args.kind(0, Kind::Number)?;
    let mut shapes = Vec::with_capacity(args.count());
    for i in 0..args.count() {
        args.element(i, first.element)?;
        shapes.push(args.get(i)?.shape.as_slice());
    }
    let subscripts = Subscripts::new(equation, &shapes).map_err(|what| args.attribute(what))?;
    Ok(TensorType::new(first.element, subscripts.shape(&subscripts.output)))
}
