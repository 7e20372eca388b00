//! Local response normalisation across channels.

use talweg_expr::Expr;
use talweg_ir::{ArithOp, Axis, DType, Reducer, Scalar};

use super::task::Anchor;
use super::{EmitError, Emitter, Site};
use crate::graph::Node;

impl Emitter<'_> {
    /// ```text
    /// sum[n, c, h, w] = sum[t] select(0 <= c + t - lo < C, X[n, c + t - lo, h, w]^2, 0)
    /// Y[n, c, h, w]   = X[n, c, h, w] / (bias + alpha / size * sum[n, c, h, w])^beta
    /// ```
    pub(super) fn lrn(
        &mut self,
        node: &Node,
        size: usize,
        [alpha, beta, bias]: [f32; 3],
    ) -> Result<Anchor, EmitError> {
        let unsupported = || EmitError::Unsupported("Lrn of this type".into());
        let value = node.inputs[0].ok_or_else(unsupported)?;
        let shape = self.shape(value);
        if self.dtype(value)? != DType::F32 || shape.len() < 2 || size == 0 {
            return Err(unsupported());
        }
        let x = self.store(value, "x")?;
        let site = Site::of_shape(shape, false);
        let tap = Axis::new("t", size as i64);
        let before = (size as i64 - 1) / 2;
        let channel = site.index[1].clone() + tap.var() - before;
        let inside = Expr::int(0).le(&channel).and(&channel.lt(&Expr::int(shape[1] as i64)));
        let mut at = site.index.clone();
        at[1] = channel;
        let read = Scalar::Read(x, at);
        let body = Scalar::select(Scalar::predicate(inside), read.clone() * read, Scalar::f32(0.0));
        let sum = self.push("sum", site.axes.clone(), Some((Reducer::Sum, vec![tap])), body);
        let sum = Scalar::Read(sum, site.vars()) * Scalar::f32(f64::from(alpha) / size as f64);
        let base = sum + Scalar::f32(f64::from(bias));
        let power = Scalar::binary(ArithOp::Pow, base, Scalar::f32(f64::from(beta)));
        let value = Scalar::Read(x, site.vars()) / power;
        Ok(Anchor { value, site })
    }
}
