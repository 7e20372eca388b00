//! Layer norm and RMS norm along the last axis.

use talweg_expr::Expr;
use talweg_ir::{Dag, MathOp, Reducer, Scalar, TensorId};

use crate::error::OpError;
use crate::typing::{
    accumulator, axes, axis_names, convert, expect_extent, fresh, need_float, read_as, shape_of,
    shape_with_rank,
};

/// ```text
/// sum[i]   = sum[j] X[i, j]
/// mean[i]  = sum[i] * (1 / n)
/// sqdev[i] = sum[j] (X[i, j] - mean[i]) * (X[i, j] - mean[i])
/// rstd[i]  = rsqrt(sqdev[i] * (1 / n) + eps)
/// Y[i, j]  = (X[i, j] - mean[i]) * rstd[i] * scale[j] + bias[j]
/// ```
/// Half floats are computed in f32 and rounded once. `scale` and `bias` have one element for each column.
pub fn layer_norm(
    dag: &mut Dag,
    x: TensorId,
    scale: Option<TensorId>,
    bias: Option<TensorId>,
    eps: f64,
) -> Result<TensorId, OpError> {
    let rows = Rows::of(dag, x, [scale, bias], "layernorm")?;
    let (all, row_axes, last) = rows.axes();
    let (inverse, acc, row) = (rows.inverse(), rows.acc, rows.rank - 1);

    let name = fresh(dag, "sum");
    let sum = dag.reduce(&name, &row_axes, Reducer::Sum, &last, |at, red| rows.read(&[at, red].concat()));
    let name = fresh(dag, "mean");
    let mean = dag.compute(&name, &row_axes, |at| Scalar::Read(sum, at.to_vec()) * inverse.clone());
    let centred = |at: &[Expr]| rows.read(at) - Scalar::Read(mean, at[..row].to_vec());
    let name = fresh(dag, "sqdev");
    let sqdev = dag.reduce(&name, &row_axes, Reducer::Sum, &last, |at, red| {
        let deviation = centred(&[at, red].concat());
        deviation.clone() * deviation
    });
    let name = fresh(dag, "rstd");
    let rstd = dag.compute(&name, &row_axes, |at| {
        let variance = Scalar::Read(sqdev, at.to_vec()) * inverse;
        Scalar::unary(MathOp::Rsqrt, variance + Scalar::Float(eps, acc))
    });
    let scale = scale.map(|t| (t, dag.tensor(t).dtype));
    let bias = bias.map(|t| (t, dag.tensor(t).dtype));
    let name = fresh(dag, "Y");
    Ok(dag.compute(&name, &all, |at| {
        let mut value = centred(at) * Scalar::Read(rstd, at[..row].to_vec());
        if let Some((t, dtype)) = scale {
            value = value * read_as(t, vec![at[row].clone()], dtype, acc);
        }
        if let Some((t, dtype)) = bias {
            value = value + read_as(t, vec![at[row].clone()], dtype, acc);
        }
        convert(value, acc, rows.dtype)
    }))
}

/// ```text
/// sqsum[i] = sum[j] X[i, j] * X[i, j]
/// rstd[i]  = rsqrt(sqsum[i] * (1 / n) + eps)
/// Y[i, j]  = X[i, j] * rstd[i] * scale[j]
/// ```
pub fn rms_norm(dag: &mut Dag, x: TensorId, scale: Option<TensorId>, eps: f64) -> Result<TensorId, OpError> {
    let rows = Rows::of(dag, x, [scale, None], "rmsnorm")?;
    let (all, row_axes, last) = rows.axes();
    let (inverse, acc, row) = (rows.inverse(), rows.acc, rows.rank - 1);
    let name = fresh(dag, "sqsum");
    let sqsum = dag.reduce(&name, &row_axes, Reducer::Sum, &last, |at, red| {
        let value = rows.read(&[at, red].concat());
        value.clone() * value
    });
    let name = fresh(dag, "rstd");
    let rstd = dag.compute(&name, &row_axes, |at| {
        let mean = Scalar::Read(sqsum, at.to_vec()) * inverse;
        Scalar::unary(MathOp::Rsqrt, mean + Scalar::Float(eps, acc))
    });
    let scale = scale.map(|t| (t, dag.tensor(t).dtype));
    let name = fresh(dag, "Y");
    Ok(dag.compute(&name, &all, |at| {
        let mut value = rows.read(at) * Scalar::Read(rstd, at[..row].to_vec());
        if let Some((t, dtype)) = scale {
            value = value * read_as(t, vec![at[row].clone()], dtype, acc);
        }
        convert(value, acc, rows.dtype)
    }))
}

/// The input of a norm, seen as rows.
struct Rows {
    x: TensorId,
    names: Vec<String>,
    shape: Vec<i64>,
    rank: usize,
    dtype: talweg_ir::DType,
    acc: talweg_ir::DType,
}

/// Axes with their extents, as the DAG's builder wants them.
type Axes<'a> = Vec<(&'a str, i64)>;

impl Rows {
    fn of(
        dag: &Dag,
        x: TensorId,
        parameters: [Option<TensorId>; 2],
        operator: &'static str,
    ) -> Result<Rows, OpError> {
        let shape = shape_of(dag, x, operator)?;
        let Some(n) = shape.last().copied() else {
            let tensor = dag.tensor(x).name.clone();
            return Err(OpError::Rank { operator, tensor, expected: 1, found: 0 });
        };
        let dtype = dag.tensor(x).dtype;
        need_float(operator, dtype)?;
        for t in parameters.into_iter().flatten() {
            let found = shape_with_rank(dag, t, 1, operator)?[0];
            expect_extent(dag, t, operator, "the number of columns", n, found)?;
        }
        let (names, rank) = (axis_names(dag, x), shape.len());
        Ok(Rows { x, names, shape, rank, dtype, acc: accumulator(dtype) })
    }

    fn axes(&self) -> (Axes<'_>, Axes<'_>, Axes<'_>) {
        let all = axes(&self.names, &self.shape);
        let (rows, last) = all.split_at(self.rank - 1);
        (all.clone(), rows.to_vec(), last.to_vec())
    }

    fn inverse(&self) -> Scalar {
        Scalar::Float(1.0 / self.shape[self.rank - 1] as f64, self.acc)
    }

    fn read(&self, at: &[Expr]) -> Scalar {
        convert(Scalar::Read(self.x, at.to_vec()), self.dtype, self.acc)
    }
}
