//! Reductions over any axes.

use talweg_ir::{Dag, Reducer, Scalar, TensorId};

use crate::error::OpError;
use crate::typing::{accumulator, axes, axis_names, convert, fresh, result_type, shape_of};

/// What a reduction computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum ReduceOp {
    Sum,
    Mean,
    Max,
    Min,
    Prod,
}

impl ReduceOp {
    /// All reductions with their names.
    pub const ALL: [(&'static str, ReduceOp); 5] = [
        ("sum", ReduceOp::Sum),
        ("mean", ReduceOp::Mean),
        ("max", ReduceOp::Max),
        ("min", ReduceOp::Min),
        ("prod", ReduceOp::Prod),
    ];

    fn name(self) -> &'static str {
        ReduceOp::ALL.iter().find(|(_, op)| *op == self).map_or("sum", |(n, _)| n)
    }
}

/// Reduces `x` over `over` (distinct axes); they disappear, or stay with extent 1 when `keep`.
/// Over no axes at all, the result is `x` itself.
///
/// Sums, means and products of half floats accumulate in f32 and are rounded once; those of bytes are i32. A mean of
/// integers truncates towards zero.
///
/// ```text
/// sum[i] = sum[j] X[i, j]
/// Y[i]   = sum[i] * (1 / n)      (mean only)
/// ```
pub fn reduce(
    dag: &mut Dag,
    x: TensorId,
    op: ReduceOp,
    over: &[usize],
    keep: bool,
) -> Result<TensorId, OpError> {
    let operator = "reduce";
    let shape = shape_of(dag, x, operator)?;
    for (at, d) in over.iter().enumerate() {
        if *d >= shape.len() || over[..at].contains(d) {
            let what = "an axis to reduce (each may be named once)".to_string();
            return Err(OpError::Range {
                operator,
                what,
                found: *d as i64,
                min: 0,
                max: shape.len() as i64 - 1,
            });
        }
    }
    let dtype = dag.tensor(x).dtype;
    if over.is_empty() {
        return Ok(x);
    }
    let (reducer, acc) = match op {
        ReduceOp::Sum | ReduceOp::Mean => (Reducer::Sum, accumulator(dtype)),
        ReduceOp::Prod => (Reducer::Prod, accumulator(dtype)),
        ReduceOp::Max => (Reducer::Max, dtype),
        ReduceOp::Min => (Reducer::Min, dtype),
    };
    let input_names = axis_names(dag, x);
    let (mut names, mut extents) = (Vec::new(), Vec::new());
    let (mut over_names, mut over_extents) = (Vec::new(), Vec::new());
    for (d, extent) in shape.iter().enumerate() {
        if over.contains(&d) {
            over_names.push(input_names[d].clone());
            over_extents.push(*extent);
            if keep {
                names.push(format!("{}1", input_names[d]));
                extents.push(1);
            }
        } else {
            names.push(input_names[d].clone());
            extents.push(*extent);
        }
    }
    let stage = if op == ReduceOp::Mean { "sum" } else { op.name() };
    let name = fresh(dag, stage);
    let out =
        dag.reduce(&name, &axes(&names, &extents), reducer, &axes(&over_names, &over_extents), |at, red| {
            let (mut kept, mut reduced) = (at.iter(), red.iter());
            let mut read = Vec::new();
            for d in 0..shape.len() {
                let source = if over.contains(&d) {
                    if keep {
                        kept.next();
                    }
                    reduced.next()
                } else {
                    kept.next()
                };
                read.extend(source.cloned());
            }
            convert(Scalar::Read(x, read), dtype, acc)
        });
    let result = if acc == dtype { dtype } else { result_type(dtype) };
    if op != ReduceOp::Mean && acc == result {
        return Ok(out);
    }
    let count = over_extents.iter().fold(1_i64, |n, e| n.saturating_mul(*e));
    let name = fresh(dag, "Y");
    Ok(dag.compute(&name, &axes(&names, &extents), |at| {
        let value = Scalar::Read(out, at.to_vec());
        let value = match op {
            ReduceOp::Mean if acc.is_float() => value * Scalar::Float(1.0 / count as f64, acc),
            ReduceOp::Mean => value / Scalar::Int(count, acc),
            _ => value,
        };
        convert(value, acc, result)
    }))
}
