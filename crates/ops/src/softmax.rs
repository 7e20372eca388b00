//! Softmax along the last axis.

use talweg_ir::{Dag, MathOp, Reducer, Scalar, TensorId};

use crate::error::OpError;
use crate::typing::{accumulator, axes, axis_names, convert, fresh, need_float, shape_of};

/// ```text
/// max[i]    = max[j] X[i, j]
/// exp[i, j] = exp(X[i, j] - max[i])
/// sum[i]    = sum[j] exp[i, j]
/// inv[i]    = 1 / sum[i]
/// Y[i, j]   = exp[i, j] * inv[i]
/// ```
/// One division a row instead of one an element. Half floats are computed in f32 and rounded once.
pub fn softmax(dag: &mut Dag, x: TensorId) -> Result<TensorId, OpError> {
    let operator = "softmax";
    let shape = shape_of(dag, x, operator)?;
    let Some((n, rows)) = shape.split_last() else {
        let tensor = dag.tensor(x).name.clone();
        return Err(OpError::Rank { operator, tensor, expected: 1, found: 0 });
    };
    let dtype = dag.tensor(x).dtype;
    need_float(operator, dtype)?;
    let acc = accumulator(dtype);
    let names = axis_names(dag, x);
    let all = axes(&names, &shape);
    let (row_axes, last) = (axes(&names[..rows.len()], rows), [(names[rows.len()].as_str(), *n)]);
    let full = |at: &[talweg_expr::Expr], red: &[talweg_expr::Expr]| [at, red].concat();
    let row = rows.len();

    let name = fresh(dag, "max");
    let max = dag.reduce(&name, &row_axes, Reducer::Max, &last, |at, red| {
        convert(Scalar::Read(x, full(at, red)), dtype, acc)
    });
    let name = fresh(dag, "exp");
    let exp = dag.compute(&name, &all, |at| {
        let value = convert(Scalar::Read(x, at.to_vec()), dtype, acc);
        Scalar::unary(MathOp::Exp, value - Scalar::Read(max, at[..row].to_vec()))
    });
    let name = fresh(dag, "sum");
    let sum = dag.reduce(&name, &row_axes, Reducer::Sum, &last, |at, red| Scalar::Read(exp, full(at, red)));
    let name = fresh(dag, "inv");
    let inv = dag.compute(&name, &row_axes, |at| Scalar::Float(1.0, acc) / Scalar::Read(sum, at.to_vec()));
    let name = fresh(dag, "Y");
    Ok(dag.compute(&name, &all, |at| {
        let value = Scalar::Read(exp, at.to_vec()) * Scalar::Read(inv, at[..row].to_vec());
        convert(value, acc, dtype)
    }))
}
