//! Matrix products, plain and batched.

use talweg_ir::{Dag, Reducer, TensorId};

use crate::error::OpError;
use crate::typing::{accumulator, expect_extent, fresh, read_as, shape_with_rank};

/// `matmul[i, j] = sum[k] A[i, k] * B[k, j]`, or `B[j, k]` when `transposed`.
///
/// Half floats accumulate in f32 and bytes in i32; the result has the accumulator's type.
pub fn matmul(dag: &mut Dag, a: TensorId, b: TensorId, transposed: bool) -> Result<TensorId, OpError> {
    let operator = "matmul";
    let left = shape_with_rank(dag, a, 2, operator)?;
    let right = shape_with_rank(dag, b, 2, operator)?;
    let (inner, columns) = if transposed { (right[1], right[0]) } else { (right[0], right[1]) };
    expect_extent(dag, b, operator, "the reduction extent", left[1], inner)?;
    let (ta, tb) = (dag.tensor(a).dtype, dag.tensor(b).dtype);
    let acc = accumulator(ta);
    let name = fresh(dag, operator);
    Ok(dag.reduce(&name, &[("i", left[0]), ("j", columns)], Reducer::Sum, &[("k", inner)], |at, over| {
        let (i, j, k) = (at[0].clone(), at[1].clone(), over[0].clone());
        let rhs = if transposed { vec![j, k.clone()] } else { vec![k.clone(), j] };
        read_as(a, vec![i, k], ta, acc) * read_as(b, rhs, tb, acc)
    }))
}

/// `matmul[b, i, j] = sum[k] A[b, i, k] * B[b, k, j]`, or `B[b, j, k]` when `transposed`.
pub fn batch_matmul(dag: &mut Dag, a: TensorId, b: TensorId, transposed: bool) -> Result<TensorId, OpError> {
    let operator = "bmm";
    let left = shape_with_rank(dag, a, 3, operator)?;
    let right = shape_with_rank(dag, b, 3, operator)?;
    let (inner, columns) = if transposed { (right[2], right[1]) } else { (right[1], right[2]) };
    expect_extent(dag, b, operator, "the batch", left[0], right[0])?;
    expect_extent(dag, b, operator, "the reduction extent", left[2], inner)?;
    let (ta, tb) = (dag.tensor(a).dtype, dag.tensor(b).dtype);
    let acc = accumulator(ta);
    let name = fresh(dag, "matmul");
    let axes = [("b", left[0]), ("i", left[1]), ("j", columns)];
    Ok(dag.reduce(&name, &axes, Reducer::Sum, &[("k", inner)], |at, over| {
        let (n, i, j, k) = (at[0].clone(), at[1].clone(), at[2].clone(), over[0].clone());
        let rhs = if transposed { vec![n.clone(), j, k.clone()] } else { vec![n.clone(), k.clone(), j] };
        read_as(a, vec![n, i, k], ta, acc) * read_as(b, rhs, tb, acc)
    }))
}
