//! Functions of one and two tensors, with broadcasting.

use talweg_expr::Expr;
use talweg_ir::{ArithOp, DType, Dag, Scalar, TensorId};

use crate::activation::Activation;
use crate::error::OpError;
use crate::typing::{axes, axis_names, convert, default_axis_names, fresh, shape_of};

/// `Y[..] = f(X[..])`.
pub fn unary(dag: &mut Dag, f: Activation, x: TensorId) -> Result<TensorId, OpError> {
    let shape = shape_of(dag, x, "unary")?;
    let dtype = dag.tensor(x).dtype;
    if !f.accepts(dtype) {
        let accepted =
            if f.accepts(DType::Bool) { "bool" } else { "f32, f16 or bf16 (or a conversion before)" };
        return Err(OpError::Type { operator: format!("`{f}`"), dtype, accepted });
    }
    let compute = compute_type(dtype);
    let names = axis_names(dag, x);
    let name = fresh(dag, "Y");
    Ok(dag.compute(&name, &axes(&names, &shape), |at| {
        let value = convert(Scalar::Read(x, at.to_vec()), dtype, compute);
        convert(f.apply(value, compute), compute, dtype)
    }))
}

/// `Y[..] = A[..] op B[..]`, shapes aligned from the last axis and extents of 1 repeated. Comparisons give `bool`.
pub fn binary(dag: &mut Dag, op: ArithOp, a: TensorId, b: TensorId) -> Result<TensorId, OpError> {
    let (left, right) = (shape_of(dag, a, "binary")?, shape_of(dag, b, "binary")?);
    let dtype = dag.tensor(a).dtype;
    if dag.tensor(b).dtype != dtype {
        let operator = format!("`{op:?}` of {dtype} and another type");
        return Err(OpError::Type { operator, dtype: dag.tensor(b).dtype, accepted: "one type for both" });
    }
    if matches!(op, ArithOp::And | ArithOp::Or) != (dtype == DType::Bool) {
        let accepted = if dtype == DType::Bool { "a number type" } else { "bool" };
        return Err(OpError::Type { operator: format!("`{op:?}`"), dtype, accepted });
    }
    let shape = broadcast_shape(&left, &right)?;
    let compute = compute_type(dtype);
    let names = if left == shape {
        axis_names(dag, a)
    } else if right == shape {
        axis_names(dag, b)
    } else {
        default_axis_names(shape.len())
    };
    let vars: Vec<Expr> = names.iter().map(|n| Expr::var(n)).collect();
    let read_a = convert(broadcast_read(a, &left, &vars, &shape, "binary")?, dtype, compute);
    let read_b = convert(broadcast_read(b, &right, &vars, &shape, "binary")?, dtype, compute);
    let value = Scalar::binary(op, read_a, read_b);
    let value = if op.is_predicate() { value } else { convert(value, compute, dtype) };
    let name = fresh(dag, "Y");
    Ok(dag.compute(&name, &axes(&names, &shape), |_| value))
}

/// `Y[..] = X[..]` converted to another type.
pub fn cast(dag: &mut Dag, x: TensorId, dtype: DType) -> Result<TensorId, OpError> {
    let shape = shape_of(dag, x, "cast")?;
    let from = dag.tensor(x).dtype;
    if from == dtype {
        return Ok(x);
    }
    let names = axis_names(dag, x);
    let name = fresh(dag, "Y");
    Ok(dag.compute(&name, &axes(&names, &shape), |at| Scalar::Read(x, at.to_vec()).cast(dtype)))
}

/// The type values are computed in: f32 for half floats.
fn compute_type(dtype: DType) -> DType {
    if dtype.is_float() { DType::F32 } else { dtype }
}

/// The shape two shapes broadcast to.
pub fn broadcast_shape(left: &[i64], right: &[i64]) -> Result<Vec<i64>, OpError> {
    let rank = left.len().max(right.len());
    let extent =
        |shape: &[i64], d: usize| if d + shape.len() < rank { 1 } else { shape[d + shape.len() - rank] };
    (0..rank)
        .map(|d| match (extent(left, d), extent(right, d)) {
            (a, b) if a == b => Ok(a),
            (1, b) => Ok(b),
            (a, 1) => Ok(a),
            _ => Err(OpError::Broadcast { operator: "binary", left: left.to_vec(), right: right.to_vec() }),
        })
        .collect()
}

/// Reads a tensor of shape `shape` at `indices` into `target`, which it must broadcast to.
pub(crate) fn broadcast_read(
    id: TensorId,
    shape: &[i64],
    indices: &[Expr],
    target: &[i64],
    operator: &'static str,
) -> Result<Scalar, OpError> {
    let fail = || OpError::Broadcast { operator, left: target.to_vec(), right: shape.to_vec() };
    let skip = target.len().checked_sub(shape.len()).ok_or_else(fail)?;
    let mut read = Vec::new();
    for (d, extent) in shape.iter().enumerate() {
        read.push(match *extent {
            e if e == target[skip + d] => indices[skip + d].clone(),
            1 => Expr::int(0),
            _ => return Err(fail()),
        });
    }
    Ok(Scalar::Read(id, read))
}
