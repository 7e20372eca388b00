//! Softmax and normalisation: several passes over a row, one task.

use talweg_expr::Expr;
use talweg_ir::{Axis, DType, MathOp, Reducer, Scalar, TensorId};
use talweg_ops::{View, default_axis_names, norm};

use super::task::Anchor;
use super::{EmitError, Emitter, Site, reshape};
use crate::graph::{Node, ValueId};

impl Emitter<'_> {
    /// A value as rows of the elements from dimension `axis` on: a tensor `[rows..., n]`, and its place. Rows along
    /// several dimensions are one axis when nothing needs their single indices.
    fn rows(&mut self, value: ValueId, axis: usize, flat: bool) -> Result<(TensorId, Site), EmitError> {
        let shape = self.shape(value);
        let n: usize = shape[axis..].iter().product();
        let wide: Vec<usize> = shape[..axis].iter().copied().filter(|e| *e != 1).collect();
        let computed = self.computed(value).is_some();
        let mut dims = match wide.as_slice() {
            [] => vec![1],
            many if many.len() > 1 && !computed && flat => vec![many.iter().product()],
            rows => rows.to_vec(),
        };
        dims.push(n);
        let axes: Vec<Axis> = default_axis_names(dims.len())
            .iter()
            .zip(&dims)
            .map(|(name, e)| Axis::new(name, *e as i64))
            .collect();
        let mut site = Site::new(axes, Vec::new());
        let unsupported = || EmitError::Unsupported("rows of this shape".into());
        site.index = reshape::reindex(&site.vars(), &dims, shape, &site.ranges).ok_or_else(unsupported)?;
        let tensor = if computed {
            let body = self.at(value, site.index.clone(), &site.ranges)?;
            self.push("x", site.axes.clone(), None, body)
        } else {
            self.given_as(value, &dims)?
        };
        Ok((tensor, site))
    }

    /// A given value under another shape of the same elements.
    fn given_as(&mut self, value: ValueId, shape: &[usize]) -> Result<TensorId, EmitError> {
        let dtype = self.dtype(value)?;
        let shape: Vec<i64> = shape.iter().map(|e| *e as i64).collect();
        let constant = self.graph().constant(value).is_some();
        let name = self.fresh(if constant { "w0" } else { "x0" });
        let tensor = if constant {
            self.dag.constant(&name, dtype, &shape)
        } else {
            self.dag.input(&name, dtype, &shape)
        };
        self.given.push((value, tensor));
        Ok(tensor)
    }

    /// ```text
    /// max[i]    = max[j] X[i, j]
    /// exp[i, j] = exp(X[i, j] - max[i])
    /// sum[i]    = sum[j] exp[i, j]
    /// inv[i]    = 1 / sum[i]
    /// Y[i, j]   = exp[i, j] * inv[i]      or, of the logarithm, X[i, j] - max[i] - log(sum[i])
    /// ```
    pub(super) fn softmax(
        &mut self,
        node: &Node,
        axis: usize,
        log: bool,
        flat: bool,
    ) -> Result<Anchor, EmitError> {
        let value = node.inputs[0].ok_or_else(|| EmitError::Unsupported("Softmax of nothing".into()))?;
        if self.dtype(value)? != DType::F32 {
            return Err(EmitError::Unsupported("Softmax of other types than f32".into()));
        }
        let shape = self.shape(value);
        let last = shape[axis + 1..].iter().all(|e| *e == 1);
        let (x, site, along) = if last {
            let (x, site) = self.rows(value, axis, flat)?;
            let along = site.axes.len() - 1;
            (x, site, along)
        } else {
            // The axes of the whole value, extents of one included, so that positions stay what they are.
            let site = Site::of_shape(shape, false);
            let body = self.at(value, site.index.clone(), &site.ranges)?;
            let x = self.push("x", site.axes.clone(), None, body);
            (x, site, axis)
        };
        let without = |at: &[Expr]| -> Vec<Expr> {
            at.iter().enumerate().filter(|(d, _)| *d != along).map(|(_, e)| e.clone()).collect()
        };
        let mut row_axes = site.axes.clone();
        let row = row_axes.remove(along);
        let vars = site.vars();
        let over = || vec![row.clone()];
        let read_x = || Scalar::Read(x, vars.clone());
        let max = self.push("max", row_axes.clone(), Some((Reducer::Max, over())), read_x());
        let shifted = || read_x() - Scalar::Read(max, without(&vars));
        let exp = self.push("exp", site.axes.clone(), None, Scalar::unary(MathOp::Exp, shifted()));
        let exponential = Scalar::Read(exp, vars.clone());
        let sum = self.push("sum", row_axes.clone(), Some((Reducer::Sum, over())), exponential.clone());
        let sum = Scalar::Read(sum, without(&vars));
        let value = if log {
            let log = self.push("log", row_axes, None, Scalar::unary(MathOp::Log, sum));
            shifted() - Scalar::Read(log, without(&vars))
        } else {
            let inv = self.push("inv", row_axes, None, Scalar::f32(1.0) / sum);
            exponential * Scalar::Read(inv, without(&vars))
        };
        Ok(Anchor { value, site })
    }

    /// Layer norm, or RMS norm when not `centred`; see [`talweg_ops::norm`].
    pub(super) fn norm(
        &mut self,
        node: &Node,
        (axis, epsilon, centred): (usize, f32, bool),
        flat: bool,
    ) -> Result<Anchor, EmitError> {
        let value = node.inputs[0].ok_or_else(|| EmitError::Unsupported("a norm of nothing".into()))?;
        let columns: usize = self.shape(value)[axis..].iter().product();
        let mut parameters = [None; 2];
        for (at, parameter) in parameters.iter_mut().enumerate() {
            let Some(given) = node.inputs.get(at + 1).copied().flatten() else { continue };
            if self.graph().ty(given).len() != columns || self.dtype(given)? != DType::F32 {
                return Err(EmitError::Unsupported("a norm with parameters of another shape".into()));
            }
            *parameter = Some(given);
        }
        let (x, site) = self.rows(value, axis, flat)?;
        let mut tensors = [None; 2];
        for (tensor, parameter) in tensors.iter_mut().zip(parameters) {
            if let Some(parameter) = parameter {
                *tensor = Some(self.given_as(parameter, &[columns])?);
            }
        }
        let epsilon = f64::from(epsilon);
        let out = if centred {
            norm::layer_norm(&mut self.dag, x, tensors[0], tensors[1], epsilon)?
        } else {
            norm::rms_norm(&mut self.dag, x, tensors[0], epsilon)?
        };
        let view = View::plain(&self.dag, out)?;
        let anchor = self.unfinished(&view);
        Ok(Anchor { site: Site::new(anchor.site.axes, site.index), value: anchor.value })
    }
}
