//! Reductions over any axes.

use talweg_expr::Expr;
use talweg_ir::{Axis, DType, MathOp, Reducer, Scalar};
use talweg_ops::default_axis_names;
use talweg_tensor::op::{Reduce, ReduceKind};

use super::task::Anchor;
use super::{EmitError, Emitter, Site, ranges_of};
use crate::graph::Node;

impl Emitter<'_> {
    /// ```text
    /// sum[i] = sum[j] f(X[i, j])
    /// Y[i]   = g(sum[i])
    /// ```
    pub(super) fn reduce(&mut self, node: &Node, reduce: &Reduce) -> Result<Anchor, EmitError> {
        let unsupported = || EmitError::Unsupported(format!("Reduce {:?}", reduce.kind));
        let x = node.inputs[0].ok_or_else(unsupported)?;
        let shape = self.shape(x);
        let dtype = self.dtype(x)?;
        let extremes = matches!(reduce.kind, ReduceKind::Max | ReduceKind::Min);
        if dtype != DType::F32 && !(extremes && dtype.is_int()) {
            return Err(unsupported());
        }
        // The axes of the input; a reduction axis may be one wide, but some axis must be there to reduce.
        let wide = |d: &usize| shape[*d] != 1;
        let names = default_axis_names(shape.len());
        let axis = |d: usize| Axis::new(&names[d], shape[d] as i64);
        let kept: Vec<usize> = (0..shape.len()).filter(|d| !reduce.axes.contains(d)).collect();
        let axes: Vec<Axis> = kept.iter().copied().filter(wide).map(axis).collect();
        let over: Vec<Axis> = reduce.axes.iter().copied().filter(wide).map(axis).collect();
        let read: Vec<Expr> =
            (0..shape.len()).map(|d| if wide(&d) { Expr::var(&names[d]) } else { Expr::int(0) }).collect();
        let index: Vec<Expr> = (0..shape.len())
            .filter(|d| reduce.keep || !reduce.axes.contains(d))
            .map(|d| if reduce.axes.contains(&d) { Expr::int(0) } else { read[d].clone() })
            .collect();
        let site = Site::new(axes, index);
        let all: Vec<Axis> = site.axes.iter().chain(&over).cloned().collect();
        let ranges = ranges_of(&all);
        let count: i64 = over.iter().filter_map(|a| a.extent.as_int()).product();
        let c = |v: f64| Scalar::constant(v, dtype);
        let value = self.at(x, read.clone(), &ranges)?;
        let (reducer, name, body) = match reduce.kind {
            ReduceKind::Sum | ReduceKind::Mean | ReduceKind::LogSum => (Reducer::Sum, "sum", value),
            ReduceKind::Prod => (Reducer::Prod, "prod", value),
            ReduceKind::Max => (Reducer::Max, "max", value),
            ReduceKind::Min => (Reducer::Min, "min", value),
            ReduceKind::L1 => (Reducer::Sum, "sum", Scalar::unary(MathOp::Abs, value)),
            ReduceKind::L2 | ReduceKind::SumSquare => (Reducer::Sum, "sum", value.clone() * value),
            ReduceKind::LogSumExp => return Err(unsupported()),
        };
        let result = if over.is_empty() {
            body
        } else {
            let tensor = self.push(name, site.axes.clone(), Some((reducer, over)), body);
            Scalar::Read(tensor, site.vars())
        };
        let value = match reduce.kind {
            ReduceKind::Mean if count != 1 => result * c(1.0 / count as f64),
            ReduceKind::L2 => Scalar::unary(MathOp::Sqrt, result),
            ReduceKind::LogSum => Scalar::unary(MathOp::Log, result),
            _ => result,
        };
        Ok(Anchor { value, site })
    }
}
