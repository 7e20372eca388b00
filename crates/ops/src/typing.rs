//! Element types through an operator, and small helpers every operator needs: shapes, fresh names, typed reads.

use talweg_expr::Expr;
use talweg_ir::{DType, Dag, Scalar, TensorId};

use crate::error::OpError;

/// The type sums are accumulated in: f32 for half floats, i32 for bytes.
pub(crate) fn accumulator(dtype: DType) -> DType {
    match dtype {
        DType::F16 | DType::BF16 => DType::F32,
        DType::I8 | DType::U8 | DType::Bool => DType::I32,
        other => other,
    }
}

/// The type results are handed out in: floats keep theirs, integers stay accumulated.
pub(crate) fn result_type(dtype: DType) -> DType {
    if dtype.is_float() { dtype } else { accumulator(dtype) }
}

/// The extents of a tensor as numbers.
pub(crate) fn shape_of(dag: &Dag, id: TensorId, operator: &'static str) -> Result<Vec<i64>, OpError> {
    let tensor = dag.tensor(id);
    tensor.const_shape().ok_or_else(|| OpError::Symbolic { operator, tensor: tensor.name.clone() })
}

/// The shape of a tensor that must have a given number of axes.
pub(crate) fn shape_with_rank(
    dag: &Dag,
    id: TensorId,
    rank: usize,
    operator: &'static str,
) -> Result<Vec<i64>, OpError> {
    let shape = shape_of(dag, id, operator)?;
    if shape.len() == rank {
        return Ok(shape);
    }
    Err(OpError::Rank { operator, tensor: dag.tensor(id).name.clone(), expected: rank, found: shape.len() })
}

/// Checks one extent of a tensor.
pub(crate) fn expect_extent(
    dag: &Dag,
    id: TensorId,
    operator: &'static str,
    what: &str,
    expected: i64,
    found: i64,
) -> Result<(), OpError> {
    if expected == found {
        return Ok(());
    }
    let tensor = dag.tensor(id).name.clone();
    Err(OpError::Extent { operator, tensor, what: what.to_string(), expected, found })
}

/// `base`, or `base2`, `base3`, ... when the DAG has that name already.
pub(crate) fn fresh(dag: &Dag, base: &str) -> String {
    if dag.find(base).is_none() {
        return base.to_string();
    }
    let mut at = 2;
    while dag.find(&format!("{base}{at}")).is_some() {
        at += 1;
    }
    format!("{base}{at}")
}

/// Converts a value unless it has the type already.
pub(crate) fn convert(value: Scalar, from: DType, to: DType) -> Scalar {
    if from == to { value } else { value.cast(to) }
}

/// Names for the axes of a stage shaped like `id`: those of its compute, or the usual ones for its rank.
pub(crate) fn axis_names(dag: &Dag, id: TensorId) -> Vec<String> {
    let tensor = dag.tensor(id);
    match tensor.compute() {
        Some(c) => c.axes.iter().map(|a| a.symbol.name().to_string()).collect(),
        None => default_axis_names(tensor.shape.len()),
    }
}

/// The usual axis names for a rank: matrices `i, j`, channels-last images `n, h, w, c`.
pub fn default_axis_names(rank: usize) -> Vec<String> {
    let known: &[&str] = match rank {
        1 => &["i"],
        2 => &["i", "j"],
        3 => &["b", "i", "j"],
        4 => &["n", "h", "w", "c"],
        5 => &["n", "d", "h", "w", "c"],
        _ => &[],
    };
    if known.is_empty() {
        return (0..rank).map(|d| format!("i{d}")).collect();
    }
    known.iter().map(|n| (*n).to_string()).collect()
}

/// Pairs names with extents, as the DAG's builder wants them.
pub(crate) fn axes<'a>(names: &'a [String], extents: &[i64]) -> Vec<(&'a str, i64)> {
    names.iter().map(String::as_str).zip(extents.iter().copied()).collect()
}

/// A read converted to a type.
pub(crate) fn read_as(id: TensorId, indices: Vec<Expr>, from: DType, to: DType) -> Scalar {
    convert(Scalar::Read(id, indices), from, to)
}

/// Refuses element types that are not floats.
pub(crate) fn need_float(operator: &str, dtype: DType) -> Result<(), OpError> {
    if dtype.is_float() {
        return Ok(());
    }
    Err(OpError::Type { operator: operator.to_string(), dtype, accepted: "f32, f16 or bf16" })
}
