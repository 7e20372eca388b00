//! Tensor expressions: what to compute, as a DAG of tensors, without saying how.
//!
//! ```text
//! dag dense {
//!   input A: f32[64, 32]
//!   const B: f32[32, 16]
//!   compute C: f32[i=64, j=16] = sum[k=32] A[i, k] * B[k, j]
//!   output D: f32[i=64, j=16] = max(C[i, j], 0.0)
//! }
//! ```

use talweg_expr::{Expr, Symbol};

use crate::dtype::DType;
use crate::scalar::{ArithOp, Reducer, Scalar, TensorId};

/// A DAG of tensors. Every compute reads only tensors that stand before it.
#[derive(Clone, Debug, PartialEq)]
pub struct Dag {
    /// What the DAG computes, for people.
    pub name: String,
    /// Tensors in topological order.
    pub tensors: Vec<Tensor>,
}

/// One tensor: given or computed.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// Unique in its DAG.
    pub name: String,
    /// Element type.
    pub dtype: DType,
    /// Extents; equal to the axes' extents for computed tensors. Constants, unless a schedule put knobs in.
    pub shape: Vec<Expr>,
    /// Where its values come from.
    pub source: Source,
    /// Whether the caller wants it.
    pub output: bool,
}

/// Where a tensor's values come from.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// The caller, at run time.
    Input,
    /// Known when the program is built (weights), so its layout may be changed ahead of time.
    Const,
    /// Computed from others.
    Compute(Compute),
}

/// `T[axes] = body`, or `T[axes] = reducer over the reduction axes of body`.
#[derive(Clone, Debug, PartialEq)]
pub struct Compute {
    /// One axis for each dimension.
    pub axes: Vec<Axis>,
    /// The reduction, when there is one. It is always outermost: what follows it is a tensor of its own.
    pub reduction: Option<Reduction>,
    /// The value at one point of axes and reduction axes.
    pub body: Scalar,
}

/// A reduction and the axes it runs over.
#[derive(Clone, Debug, PartialEq)]
pub struct Reduction {
    /// How values combine.
    pub reducer: Reducer,
    /// What it runs over.
    pub axes: Vec<Axis>,
}

/// A named range `0..extent`.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// The variable; its name is unique within one compute.
    pub symbol: Symbol,
    /// How many values it takes.
    pub extent: Expr,
}

impl Axis {
    /// An axis of constant extent.
    pub fn new(name: &str, extent: i64) -> Axis {
        Axis { symbol: Symbol::var(name), extent: Expr::int(extent) }
    }

    /// The variable as an expression.
    pub fn var(&self) -> Expr {
        Expr::sym(&self.symbol)
    }
}

impl Tensor {
    /// The compute, when the tensor is computed.
    pub fn compute(&self) -> Option<&Compute> {
        match &self.source {
            Source::Compute(c) => Some(c),
            _ => None,
        }
    }

    /// The extents as numbers; `None` while knobs are open.
    pub fn const_shape(&self) -> Option<Vec<i64>> {
        self.shape.iter().map(Expr::as_int).collect()
    }
}

impl Compute {
    /// Reduction axes, none when there is no reduction.
    pub fn reduce_axes(&self) -> &[Axis] {
        self.reduction.as_ref().map_or(&[], |r| &r.axes)
    }
}

impl Dag {
    /// An empty DAG.
    pub fn new(name: &str) -> Dag {
        Dag { name: name.to_string(), tensors: Vec::new() }
    }

    /// The tensor behind an id.
    pub fn tensor(&self, id: TensorId) -> &Tensor {
        &self.tensors[id.index()]
    }

    /// Looks a tensor up by name.
    pub fn find(&self, name: &str) -> Option<TensorId> {
        self.tensors.iter().position(|t| t.name == name).map(|at| TensorId(at as u32))
    }

    /// All ids in topological order.
    pub fn ids(&self) -> impl Iterator<Item = TensorId> + use<> {
        (0..self.tensors.len() as u32).map(TensorId)
    }

    /// The arithmetic of all stages: at every point one for each function, arithmetic operator and reduction step.
    /// Conversions, selections and index arithmetic are free.
    pub fn arithmetic(&self) -> f64 {
        let mut total = 0.0;
        for tensor in &self.tensors {
            let Some(compute) = tensor.compute() else {
                continue;
            };
            let mut operations = usize::from(compute.reduction.is_some());
            compute.body.visit(&mut |s| {
                operations += usize::from(matches!(s, Scalar::Unary(..) | Scalar::Binary(..)));
            });
            let extents = compute.axes.iter().chain(compute.reduce_axes());
            let points: f64 = extents.map(|axis| axis.extent.as_int().unwrap_or(1) as f64).product();
            total += points * operations as f64;
        }
        total
    }

    /// The multiply-adds that no schedule does without: the steps of all sums whose body multiplies. Bodies with guards are
    /// left out, since a schedule may pass over what a guard excludes.
    pub fn multiply_adds(&self) -> f64 {
        let sums = self.tensors.iter().filter_map(Tensor::compute).filter(|compute| {
            let (mut multiplies, mut is_guarded) = (false, false);
            compute.body.visit(&mut |s| {
                multiplies |= matches!(s, Scalar::Binary(ArithOp::Mul, ..));
                is_guarded |= matches!(s, Scalar::Select(..));
            });
            let sums = compute.reduction.as_ref().is_some_and(|r| r.reducer == Reducer::Sum);
            sums && multiplies && !is_guarded
        });
        let points = |compute: &Compute| -> f64 {
            let extents = compute.axes.iter().chain(compute.reduce_axes());
            extents.map(|axis| axis.extent.as_int().unwrap_or(1) as f64).product()
        };
        sums.map(points).sum()
    }

    /// Bytes that must move between memory and the program: every input, constant and output once.
    pub fn moved_bytes(&self) -> f64 {
        let moved = self.tensors.iter().filter(|t| t.output || !matches!(t.source, Source::Compute(_)));
        let elements =
            |t: &Tensor| t.const_shape().unwrap_or_default().iter().map(|e| *e as f64).product::<f64>();
        moved.map(|t| elements(t) * t.dtype.bytes() as f64).sum()
    }

    /// Who reads a tensor.
    pub fn consumers(&self, id: TensorId) -> Vec<TensorId> {
        self.ids()
            .filter(|c| {
                self.tensor(*c).compute().is_some_and(|c| c.body.reads().iter().any(|(t, _)| *t == id))
            })
            .collect()
    }

    fn push(&mut self, name: &str, dtype: DType, shape: Vec<Expr>, source: Source) -> TensorId {
        self.tensors.push(Tensor { name: name.to_string(), dtype, shape, source, output: false });
        TensorId(self.tensors.len() as u32 - 1)
    }

    /// Adds a tensor given at run time.
    pub fn input(&mut self, name: &str, dtype: DType, shape: &[i64]) -> TensorId {
        self.push(name, dtype, shape.iter().map(|e| Expr::int(*e)).collect(), Source::Input)
    }

    /// Adds a tensor known at build time.
    pub fn constant(&mut self, name: &str, dtype: DType, shape: &[i64]) -> TensorId {
        self.push(name, dtype, shape.iter().map(|e| Expr::int(*e)).collect(), Source::Const)
    }

    /// Adds `name[axes] = body(axes)`.
    pub fn compute(
        &mut self,
        name: &str,
        axes: &[(&str, i64)],
        body: impl FnOnce(&[Expr]) -> Scalar,
    ) -> TensorId {
        let axes: Vec<Axis> = axes.iter().map(|(n, e)| Axis::new(n, *e)).collect();
        let vars: Vec<Expr> = axes.iter().map(Axis::var).collect();
        let body = body(&vars);
        self.push_compute(name, Compute { axes, reduction: None, body })
    }

    /// Adds `name[axes] = reducer over `over` of body(axes, over)`.
    pub fn reduce(
        &mut self,
        name: &str,
        axes: &[(&str, i64)],
        reducer: Reducer,
        over: &[(&str, i64)],
        body: impl FnOnce(&[Expr], &[Expr]) -> Scalar,
    ) -> TensorId {
        let axes: Vec<Axis> = axes.iter().map(|(n, e)| Axis::new(n, *e)).collect();
        let over: Vec<Axis> = over.iter().map(|(n, e)| Axis::new(n, *e)).collect();
        let vars: Vec<Expr> = axes.iter().map(Axis::var).collect();
        let reds: Vec<Expr> = over.iter().map(Axis::var).collect();
        let body = body(&vars, &reds);
        self.push_compute(name, Compute { axes, reduction: Some(Reduction { reducer, axes: over }), body })
    }

    /// Adds a computed tensor; its type is the body's.
    pub fn push_compute(&mut self, name: &str, compute: Compute) -> TensorId {
        let dtype = compute.body.dtype(&|t| self.tensor(t).dtype);
        let shape = compute.axes.iter().map(|a| a.extent.clone()).collect();
        self.push(name, dtype, shape, Source::Compute(compute))
    }

    /// Marks a tensor as wanted by the caller.
    pub fn mark_output(&mut self, id: TensorId) {
        self.tensors[id.index()].output = true;
    }
}
