//! Max, average and global average pooling, channels last.

use talweg_expr::Expr;
use talweg_ir::{DType, Dag, Reducer, Scalar, TensorId};

use crate::conv::{reached_after, window_axes};
use crate::error::OpError;
use crate::pad::pad_spatial;
use crate::reduce::{ReduceOp, reduce};
use crate::typing::{accumulator, axes, convert, fresh, result_type, shape_of, shape_with_rank};
use crate::window::{Window, check_rank};

/// How a window becomes one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PoolKind {
    /// The largest element; padding never wins.
    Max,
    /// The sum divided by the number of elements: all taps when padding counts, else those inside the input.
    Average {
        /// Whether padding counts as elements of value zero.
        count_padding: bool,
    },
}

/// `pool[n, oh, ow, c] = max[kh, kw] X.pad[n, oh * s + kh * d, ow * s + kw * d, c]`; averages sum and then divide in a
/// stage `Y`.
pub fn pool(dag: &mut Dag, x: TensorId, kind: PoolKind, windows: &[Window]) -> Result<TensorId, OpError> {
    let operator = "pool";
    let rank = windows.len();
    check_rank(operator, rank)?;
    let input = shape_with_rank(dag, x, rank + 2, operator)?;
    let dtype = dag.tensor(x).dtype;
    let mut outputs = Vec::new();
    let mut sides = Vec::new();
    for (d, w) in windows.iter().enumerate() {
        let out = w.output(operator, d, input[d + 1])?;
        let padding = w.before.max(w.after);
        if padding >= w.span() && padding > 0 {
            return Err(OpError::PaddingTooLarge { operator, axis: d, padding, kernel: w.span() });
        }
        outputs.push(out);
        sides.push((w.before, reached_after(w, input[d + 1], out)));
    }
    let (reducer, acc) = match kind {
        PoolKind::Max => (Reducer::Max, dtype),
        PoolKind::Average { .. } => (Reducer::Sum, accumulator(dtype)),
    };
    let padded = pad_spatial(dag, x, &sides, reducer.identity(dtype))?;
    let (mut names, mut over_names) = window_axes(rank);
    names.push("c".to_string());
    over_names.pop();
    let mut extents = vec![input[0]];
    extents.extend(&outputs);
    extents.push(input[rank + 1]);
    let over: Vec<i64> = windows.iter().map(|w| w.kernel).collect();
    let name = fresh(dag, operator);
    let pooled = dag.reduce(&name, &axes(&names, &extents), reducer, &axes(&over_names, &over), |at, red| {
        let mut read = vec![at[0].clone()];
        for (d, w) in windows.iter().enumerate() {
            read.push(at[d + 1].clone() * w.stride + red[d].clone() * w.dilation);
        }
        read.push(at[rank + 1].clone());
        convert(Scalar::Read(padded, read), dtype, acc)
    });
    let PoolKind::Average { count_padding } = kind else {
        return Ok(pooled);
    };
    let unpadded = sides.iter().all(|s| *s == (0, 0));
    let taps: i64 = over.iter().product();
    let result = result_type(dtype);
    let name = fresh(dag, "Y");
    Ok(dag.compute(&name, &axes(&names, &extents), |at| {
        let sum = Scalar::Read(pooled, at.to_vec());
        let mean = if count_padding || unpadded {
            divide_by(sum, taps, acc)
        } else {
            let mut count = Expr::int(1);
            for (d, w) in windows.iter().enumerate() {
                count = count * taps_inside(w, &at[d + 1], input[d + 1]);
            }
            sum / Scalar::Index(count, acc)
        };
        convert(mean, acc, result)
    }))
}

fn divide_by(sum: Scalar, count: i64, dtype: DType) -> Scalar {
    if dtype.is_float() {
        sum * Scalar::Float(1.0 / count as f64, dtype)
    } else {
        sum / Scalar::Int(count, dtype)
    }
}

/// How many taps of the window at output `o` lie inside the input; at least 1, so that it can divide.
fn taps_inside(w: &Window, o: &Expr, input: i64) -> Expr {
    let start = o.clone() * w.stride - w.before;
    let first = Expr::max(&(-start.clone()).ceil_div(w.dilation), 0);
    let end = Expr::min(&(-start + input).ceil_div(w.dilation), w.kernel);
    Expr::max(&(end - first), 1)
}

/// `Y[n, c]`: the mean over all spatial axes.
pub fn global_average_pool(dag: &mut Dag, x: TensorId) -> Result<TensorId, OpError> {
    let rank = shape_of(dag, x, "global_avgpool")?.len();
    check_rank("global_avgpool", rank.saturating_sub(2))?;
    let spatial: Vec<usize> = (1..rank - 1).collect();
    reduce(dag, x, ReduceOp::Mean, &spatial, false)
}
