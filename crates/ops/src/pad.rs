//! Padding as a stage of its own.

use talweg_expr::Expr;
use talweg_ir::{Dag, Scalar, TensorId};

use crate::error::OpError;
use crate::typing::{axes, axis_names, fresh, shape_of};
use crate::window::MAX_EXTENT;

/// Adds `before[d]` and `after[d]` elements of `value` around every axis; returns `x` itself when there is nothing to
/// add.
///
/// ```text
/// X.pad[n, h, w, c] = select(p <= h && h < H + p && ..., X[n, h - p, w - p, c], value)
/// ```
pub fn pad(
    dag: &mut Dag,
    x: TensorId,
    before: &[i64],
    after: &[i64],
    value: Scalar,
) -> Result<TensorId, OpError> {
    let operator = "pad";
    let shape = shape_of(dag, x, operator)?;
    for side in [before, after] {
        if side.len() != shape.len() {
            let tensor = dag.tensor(x).name.clone();
            return Err(OpError::Rank { operator, tensor, expected: side.len(), found: shape.len() });
        }
        if let Some(found) = side.iter().copied().find(|p| !(0..=MAX_EXTENT).contains(p)) {
            let what = "the padding".to_string();
            return Err(OpError::Range { operator, what, found, min: 0, max: MAX_EXTENT });
        }
    }
    if before.iter().chain(after).all(|p| *p == 0) {
        return Ok(x);
    }
    let extents: Vec<i64> = (0..shape.len()).map(|d| before[d] + shape[d] + after[d]).collect();
    let names = axis_names(dag, x);
    let name = fresh(dag, &format!("{}.pad", dag.tensor(x).name));
    Ok(dag.compute(&name, &axes(&names, &extents), |at| {
        let mut inside = Expr::bool(true);
        let mut indices = Vec::new();
        for (d, v) in at.iter().enumerate() {
            if before[d] > 0 {
                inside = inside.and(&Expr::int(before[d]).le(v));
            }
            if after[d] > 0 {
                inside = inside.and(&v.lt(&Expr::int(before[d] + shape[d])));
            }
            indices.push(v.clone() - before[d]);
        }
        Scalar::select(Scalar::predicate(inside), Scalar::Read(x, indices), value)
    }))
}

/// Pads the spatial axes of a tensor: those before the last one.
pub(crate) fn pad_spatial(
    dag: &mut Dag,
    x: TensorId,
    sides: &[(i64, i64)],
    value: Scalar,
) -> Result<TensorId, OpError> {
    let outer = dag.tensor(x).shape.len().saturating_sub(sides.len() + 1);
    let widen = |pick: &dyn Fn(&(i64, i64)) -> i64| -> Vec<i64> {
        std::iter::repeat_n(0, outer).chain(sides.iter().map(pick)).chain(std::iter::once(0)).collect()
    };
    pad(dag, x, &widen(&|s| s.0), &widen(&|s| s.1), value)
}
