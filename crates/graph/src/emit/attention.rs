//! Attention as one task.

use talweg_expr::{Expr, Ranges};
use talweg_ir::{Axis, DType, MathOp, Reducer, Scalar, TensorId};

use super::contraction::{Product, contiguous};
use super::task::Anchor;
use super::{EmitError, Emitter, Site, broadcast_index, ranges_of};
use crate::attention::Attention;
use crate::graph::{Node, ValueId};

/// Stages over the axes of one matrix of a batch.
struct Matrices {
    batch: Vec<Expr>,
    axes: Vec<Axis>,
}

impl Matrices {
    /// The axes of the batch with these behind, and what is known about them.
    fn with(&self, behind: &[&Axis]) -> (Vec<Axis>, Ranges) {
        let axes: Vec<Axis> = self.axes.iter().chain(behind.iter().copied()).cloned().collect();
        let ranges = ranges_of(&axes);
        (axes, ranges)
    }

    /// The indices of an operand that may be broadcast along the batch.
    fn index(&self, shape: &[usize], behind: [&Axis; 2]) -> Vec<Expr> {
        let all: Vec<Expr> = self.batch.iter().cloned().chain(behind.map(Axis::var)).collect();
        broadcast_index(&all[all.len() - shape.len()..], shape)
    }
}

impl Emitter<'_> {
    /// ```text
    /// scores[b, i, j] = sum[k] Q[b, i, k] * K[b, k, j]
    /// x[b, i, j]      = scaled and masked scores
    /// max[b, i]       = max[j] x[b, i, j]
    /// exp[b, i, j]    = exp(x[b, i, j] - max[b, i])
    /// sum[b, i]       = sum[j] exp[b, i, j]
    /// inv[b, i]       = 1 / sum[b, i]
    /// matmul[b, i, d] = sum[j] exp[b, i, j] * V[b, j, d]
    /// Y[b, i, d]      = matmul[b, i, d] * inv[b, i]
    /// ```
    /// Dividing the weighted sums instead of the weights takes `d` divisions a row instead of `j`. Operands that are not
    /// read as they lie in memory are stored first, in the order they are read in.
    pub(super) fn attention(
        &mut self,
        node: &Node,
        attention: &Attention,
        order: &[usize],
    ) -> Result<Anchor, EmitError> {
        let nodes = &self.graph().nodes;
        let scores_node = &nodes[attention.scores.index()];
        let missing = || EmitError::Unsupported("attention without operands".into());
        let operand = |node: &Node, at: usize| node.inputs.get(at).copied().flatten().ok_or_else(missing);
        let (q, k, v) = (operand(scores_node, 0)?, operand(scores_node, 1)?, operand(node, 1)?);
        for value in [q, k, v] {
            if self.dtype(value)? != DType::F32 {
                return Err(EmitError::Unsupported("attention of other types than f32".into()));
            }
        }
        let product = Product::of(self.shape(q), self.shape(k)).ok_or_else(missing)?;
        let weighted =
            Product::of(&self.graph().ty(operand(node, 0)?).shape, self.shape(v)).ok_or_else(missing)?;
        let (Some(rows), Some(keys), Some(width)) = (product.rows, product.columns, weighted.columns) else {
            return Err(missing());
        };
        let dims = product.axes();
        let batch = &dims[..product.batch.len()];
        let matrices = Matrices {
            batch: batch.iter().map(|d| d.as_ref().map_or(Expr::int(0), |(n, _)| Expr::var(n))).collect(),
            axes: batch.iter().flatten().map(|(n, e)| Axis::new(n, *e as i64)).collect(),
        };
        let (i, j) = (Axis::new("i", rows as i64), Axis::new("j", keys as i64));
        let (c, d) = (Axis::new("k", product.depth as i64), Axis::new("d", width as i64));

        let query = self.laid_out(&matrices, q, [&i, &c], "q")?;
        let key = self.laid_out(&matrices, k, [&c, &j], "t")?;
        let (axes, ranges) = matrices.with(&[&i, &j]);
        let scores = self.push("scores", axes.clone(), Some((Reducer::Sum, vec![c])), query * key);
        let index: Vec<Expr> = matrices.batch.iter().cloned().chain([i.var(), j.var()]).collect();
        let site = Site { axes: axes.clone(), index, ranges };
        let scaled =
            self.epilogue(Anchor::stage(scores, site), scores_node.outputs[0], &attention.between)?;
        let vars = scaled.site.vars();
        let x = self.stage("x", scaled);
        let (row_axes, _) = matrices.with(&[&i]);
        let row: Vec<Expr> = row_axes.iter().map(Axis::var).collect();
        let read = |tensor: TensorId, index: &[Expr]| Scalar::Read(tensor, index.to_vec());
        let over = || vec![j.clone()];
        let max = self.push("max", row_axes.clone(), Some((Reducer::Max, over())), read(x, &vars));
        let shifted = read(x, &vars) - read(max, &row);
        let exp = self.push("exp", axes, None, Scalar::unary(MathOp::Exp, shifted));
        let sum = self.push("sum", row_axes.clone(), Some((Reducer::Sum, over())), read(exp, &vars));
        let inv = self.push("inv", row_axes, None, Scalar::f32(1.0) / read(sum, &row));

        let value = self.laid_out(&matrices, v, [&j, &d], "v")?;
        let (natural, ranges) = matrices.with(&[&i, &d]);
        let axes: Vec<Axis> = order.iter().filter_map(|at| natural.get(*at).cloned()).collect();
        if axes.len() != natural.len() {
            return Err(missing());
        }
        let body = read(exp, &vars) * value;
        let tensor = self.push("matmul", axes.clone(), Some((Reducer::Sum, over())), body);
        let index: Vec<Expr> = matrices.batch.iter().cloned().chain([i.var(), d.var()]).collect();
        let site = Site { axes, index, ranges };
        let value = Scalar::Read(tensor, site.vars()) * read(inv, &row);
        Ok(Anchor { value, site })
    }

    /// An operand of a product at two axes: read as it is where it is a tensor that runs along the last, stored before
    /// otherwise. What is computed and then transposed is stored twice, as each is fast in an order of its own.
    fn laid_out(
        &mut self,
        matrices: &Matrices,
        value: ValueId,
        behind: [&Axis; 2],
        name: &str,
    ) -> Result<Scalar, EmitError> {
        let index = matrices.index(self.shape(value), behind);
        let (axes, ranges) = matrices.with(&behind);
        let mut found = self.at(value, index, &ranges)?;
        let is_read = matches!(found, Scalar::Read(..));
        let streams = runs_along(&found, behind[1]);
        if is_read
            && (name == "q" || streams && contiguous(&found, behind[1].symbol.name()) && whole(&found, &axes))
        {
            return Ok(found);
        }
        if !is_read && !streams && runs_along(&found, behind[0]) {
            let (turned, _) = matrices.with(&[behind[1], behind[0]]);
            let vars: Vec<Expr> = turned.iter().map(Axis::var).collect();
            let stage = self.push(&format!("{name}.rows"), turned, None, found);
            found = Scalar::Read(stage, vars);
        }
        let vars: Vec<Expr> = axes.iter().map(Axis::var).collect();
        let stage = self.push(name, axes, None, found);
        Ok(Scalar::Read(stage, vars))
    }
}

/// Whether some tensor is read along an axis in its last dimension.
fn runs_along(value: &Scalar, axis: &Axis) -> bool {
    let last = |index: &Vec<Expr>| index.last().is_some_and(|e| e.mentions(&axis.symbol));
    value.reads().iter().any(|(_, index)| last(index))
}

/// Whether a read tensor has nothing but the elements of these axes, so that they lie side by side.
fn whole(value: &Scalar, axes: &[Axis]) -> bool {
    let dimensions = |index: &[Expr]| index.iter().filter(|e| e.as_int().is_none()).count();
    matches!(value, Scalar::Read(_, index) if dimensions(index) == axes.len())
}
