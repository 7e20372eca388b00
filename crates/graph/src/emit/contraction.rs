//! Matrix products with any batch, and einsum: sums of products over named axes.

use talweg_expr::Expr;
use talweg_ir::{Axis, DType, Reducer, Scalar, TensorId};
use talweg_ops::strassen as ops_strassen;
use talweg_tensor::{ElementType, Op, TensorType};

use super::task::Anchor;
use super::{EmitError, Emitter, Site, broadcast_index, ranges_of};
use crate::forks::Algorithm;
use crate::graph::{Graph, Node, NodeId, ValueId};

/// The dimensions of a matrix product: operands seen as at least matrices.
pub(crate) struct Product {
    /// Extents of the batch.
    pub batch: Vec<usize>,
    /// Rows, when the first operand has them.
    pub rows: Option<usize>,
    /// Columns, when the second operand has them.
    pub columns: Option<usize>,
    /// The extent summed over.
    pub depth: usize,
}

impl Product {
    pub fn of(a: &[usize], b: &[usize]) -> Option<Product> {
        let (rows, depth, batch_a) = match a {
            [k] => (None, *k, &[][..]),
            [batch @ .., m, k] => (Some(*m), *k, batch),
            [] => return None,
        };
        let (columns, batch_b) = match b {
            [_] => (None, &[][..]),
            [batch @ .., _, n] => (Some(*n), batch),
            [] => return None,
        };
        let rank = batch_a.len().max(batch_b.len());
        let extent = |s: &[usize], d: usize| (d + s.len()).checked_sub(rank).map_or(1, |at| s[at]);
        let batch = (0..rank).map(|d| extent(batch_a, d).max(extent(batch_b, d))).collect();
        Some(Product { batch, rows, columns, depth })
    }

    /// The result's dimensions as axes, one for each dimension: `None` for those of extent one that no axis stands for.
    /// Rows and columns always have an axis.
    pub fn axes(&self) -> Vec<Option<(String, usize)>> {
        let wide = self.batch.iter().filter(|e| **e != 1).count();
        let mut seen = 0;
        let mut out: Vec<Option<(String, usize)>> = Vec::new();
        for &extent in &self.batch {
            out.push((extent != 1).then(|| {
                seen += 1;
                (if wide == 1 { "b".to_string() } else { format!("b{}", seen - 1) }, extent)
            }));
        }
        out.extend(self.rows.map(|m| Some(("i".to_string(), m))));
        out.extend(self.columns.map(|n| Some(("j".to_string(), n))));
        out
    }
}

/// The weights of a product that Strassen's scheme applies to, and the type of their combinations: `[7, k / 2, n / 2]`.
/// `None` when it does not apply, or the product is too small to gain by it.
pub(crate) fn strassen_weights(graph: &Graph, node: &Node) -> Option<(ValueId, TensorType)> {
    if node.op != Op::MatMul {
        return None;
    }
    let (a, b) = (node.inputs[0]?, node.inputs[1]?);
    let [depth, columns] = graph.constant(b)?.shape()[..] else { return None };
    let left = &graph.ty(a).shape;
    let rows = left[..left.len().checked_sub(1)?].iter().product::<usize>();
    let is_float = [a, b].iter().all(|v| graph.ty(*v).element == ElementType::F32);
    let applies = ops_strassen::applies(rows as i64, columns as i64, depth as i64);
    let large = rows >= FEWEST_ROWS && columns.min(depth) >= FEWEST_COLUMNS;
    let shape = vec![ops_strassen::PRODUCTS, depth / 2, columns / 2];
    (is_float && applies && large).then_some((b, TensorType { element: ElementType::F32, shape }))
}

/// With fewer rows a product waits for its weights, of which Strassen's scheme has more.
const FEWEST_ROWS: usize = 16;
/// With fewer columns, or less depth, the sums cost more than the multiplications they save.
const FEWEST_COLUMNS: usize = 64;

impl Emitter<'_> {
    /// A product by Strassen's scheme, see [`talweg_ops::strassen`]; only for one matrix whose result is in the usual order.
    pub(super) fn strassen(&mut self, id: NodeId, node: &Node, order: &[usize]) -> Result<Anchor, EmitError> {
        let unsupported = || EmitError::Unsupported("a product by Strassen's scheme".into());
        let derived = self.network.derived.get(&id);
        let derived = derived.and_then(|all| all.iter().find(|d| d.algorithm == Algorithm::Strassen));
        let (Some(derived), Some(a)) = (derived, node.inputs[0]) else { return Err(unsupported()) };
        let leading = self.shape(node.outputs[0]);
        let [batch @ .., _, _] = leading else { return Err(unsupported()) };
        if order != [0, 1] || batch.iter().any(|extent| *extent != 1) {
            return Err(unsupported());
        }
        let ones = batch.len();
        let a = self.store(a, "x")?;
        // The value becomes a constant when the algorithm is chosen.
        let shape = self.stored_shape(derived.value);
        let u = self.dag.constant(&self.fresh("w0"), DType::F32, &shape);
        self.given.push((derived.value, u));
        let view = ops_strassen::strassen(&mut self.dag, a, u)?;
        let mut anchor = self.viewed(&view);
        anchor.site.index.splice(0..0, vec![Expr::int(0); ones]);
        Ok(anchor)
    }

    /// ```text
    /// matmul[b, i, j] = sum[k] A[b, i, k] * B[b, k, j]
    /// ```
    /// The axes come in `order` (positions among the axes that exist), so that a transpose behind it costs nothing. An
    /// operand B that is not contiguous along `j` is stored transposed first.
    pub(super) fn matmul(&mut self, node: &Node, order: &[usize]) -> Result<Anchor, EmitError> {
        let (Some(a), Some(b)) = (node.inputs[0], node.inputs[1]) else {
            return Err(EmitError::Unsupported("MatMul without operands".into()));
        };
        for operand in [a, b] {
            if self.dtype(operand)? != DType::F32 {
                return Err(EmitError::Unsupported("MatMul of other types than f32".into()));
            }
        }
        let product = Product::of(self.shape(a), self.shape(b))
            .ok_or_else(|| EmitError::Unsupported("MatMul of scalars".into()))?;
        let dims = product.axes();
        let index: Vec<Expr> =
            dims.iter().map(|d| d.as_ref().map_or(Expr::int(0), |(n, _)| Expr::var(n))).collect();
        let natural: Vec<Axis> =
            dims.iter().flatten().map(|(n, extent)| Axis::new(n, *extent as i64)).collect();
        let axes: Vec<Axis> = order.iter().map(|at| natural[*at].clone()).collect();
        let k = Axis::new("k", product.depth as i64);
        let batch = &index[..product.batch.len()];
        let (row, column) = (product.rows.map(|_| Expr::var("i")), product.columns.map(|_| Expr::var("j")));
        let left: Vec<Expr> = batch.iter().cloned().chain(row).chain(std::iter::once(k.var())).collect();
        let right: Vec<Expr> =
            batch.iter().cloned().chain(std::iter::once(k.var())).chain(column.clone()).collect();
        let mut all = natural.clone();
        all.push(k.clone());
        let ranges = ranges_of(&all);
        let last =
            |index: &[Expr], shape: &[usize]| broadcast_index(&index[index.len() - shape.len()..], shape);
        let x = self.at(a, last(&left, self.shape(a)), &ranges)?;
        let at = last(&right, self.shape(b));
        let mut y = self.at(b, at.clone(), &ranges)?;
        if column.is_some() && !contiguous(&y, "j") {
            let stored = self.store_transposed(b)?;
            y = self.read_stored(b, stored, at);
        }
        let tensor = self.push("matmul", axes.clone(), Some((Reducer::Sum, vec![k])), x * y);
        Ok(Anchor::stage(tensor, Site::new(axes, index)))
    }

    /// Stores the second operand of a product over its own dimensions.
    fn store_transposed(&mut self, value: ValueId) -> Result<TensorId, EmitError> {
        let shape = self.shape(value);
        let names: Vec<String> = match shape.iter().filter(|e| **e != 1).count() {
            2 => ["k", "j"].map(String::from).to_vec(),
            3 => ["b", "k", "j"].map(String::from).to_vec(),
            n => (0..n).map(|d| format!("t{d}")).collect(),
        };
        let mut names = names.iter();
        let mut axes = Vec::new();
        let mut index = Vec::new();
        for extent in shape {
            let axis = (*extent != 1).then(|| names.next()).flatten();
            let axis = axis.map(|n| Axis::new(n, *extent as i64));
            index.push(axis.as_ref().map_or(Expr::int(0), Axis::var));
            axes.extend(axis);
        }
        let site = Site::new(axes, index);
        let body = self.at(value, site.index.clone(), &site.ranges)?;
        Ok(self.push("t", site.axes, None, body))
    }

    /// A sum of products by subscripts, each operand read at its letters.
    pub(super) fn einsum(&mut self, node: &Node, equation: &str) -> Result<Anchor, EmitError> {
        let unsupported = || EmitError::Unsupported(format!("Einsum `{equation}`"));
        let text: String = equation.chars().filter(|c| !c.is_whitespace()).collect();
        let (operands, result) = text.split_once("->").ok_or_else(unsupported)?;
        if text.contains('.') || self.dtype(node.outputs[0])? != DType::F32 {
            return Err(unsupported());
        }
        let mut letters: Vec<(char, usize)> = Vec::new();
        let inputs: Vec<ValueId> = node.reads().collect();
        let operands: Vec<&str> = operands.split(',').collect();
        if operands.len() != inputs.len() {
            return Err(unsupported());
        }
        for (subscripts, value) in operands.iter().zip(&inputs) {
            if subscripts.chars().count() != self.shape(*value).len() {
                return Err(unsupported());
            }
            for (c, extent) in subscripts.chars().zip(self.shape(*value)) {
                match letters.iter_mut().find(|(l, _)| *l == c) {
                    Some((_, e)) => *e = (*e).max(*extent),
                    None => letters.push((c, *extent)),
                }
            }
        }
        let axis = |c: &char, e: &usize| Axis::new(&format!("e{c}"), *e as i64);
        let mut axes = Vec::new();
        for c in result.chars() {
            let (_, extent) = letters.iter().find(|(l, _)| *l == c).ok_or_else(unsupported)?;
            axes.push(axis(&c, extent));
        }
        let over: Vec<Axis> =
            letters.iter().filter(|(c, _)| !result.contains(*c)).map(|(c, e)| axis(c, e)).collect();
        let all: Vec<Axis> = axes.iter().chain(&over).cloned().collect();
        let ranges = ranges_of(&all);
        let mut body: Option<Scalar> = None;
        for (subscripts, value) in operands.iter().zip(&inputs) {
            let index: Vec<Expr> = subscripts.chars().map(|c| Expr::var(&format!("e{c}"))).collect();
            let index = broadcast_index(&index, self.shape(*value));
            let read = self.at(*value, index, &ranges)?;
            body = Some(match body {
                Some(product) => product * read,
                None => read,
            });
        }
        let index = axes.iter().map(Axis::var).collect();
        let site = Site::new(axes, index);
        let body = body.ok_or_else(unsupported)?;
        if over.is_empty() {
            return Ok(Anchor { value: body, site });
        }
        let tensor = self.push("einsum", site.axes.clone(), Some((Reducer::Sum, over)), body);
        Ok(Anchor::stage(tensor, site))
    }
}

/// Whether all reads that vary along `axis` have it, as it is, in their last index only.
pub(super) fn contiguous(value: &Scalar, axis: &str) -> bool {
    let symbol = talweg_expr::Symbol::var(axis);
    value.reads().iter().all(|(_, index)| {
        let Some((last, others)) = index.split_last() else { return true };
        if others.iter().any(|e| e.mentions(&symbol)) {
            return false;
        }
        !last.mentions(&symbol)
            || last.affine(std::slice::from_ref(&symbol)).is_some_and(|a| a.coefficients == [Expr::int(1)])
    }) && !has_compute(value)
}

/// Whether a value is more than a read.
fn has_compute(value: &Scalar) -> bool {
    !matches!(value, Scalar::Read(..))
}
