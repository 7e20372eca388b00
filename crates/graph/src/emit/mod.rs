//! From operators to tensor expressions: every operator that a loop nest can say becomes computes of a [`Dag`].
//!
//! Values inside a task are not stored: elementwise operators and movements of elements are read through their index
//! expressions, so that a chain of them is one compute. What reduces is a compute of its own.
//!
//! | file | holds |
//! |---|---|
//! | `elementwise` | functions of one, two and three elements |
//! | `movement` | transpose, reshape, slice, concat, pad, ...: index expressions |
//! | `reshape` | indices of one shape as indices of another |
//! | `contraction` | matrix products and einsum |
//! | `conv` | convolutions and transposed convolutions, channels last |
//! | `pool` | pooling, channels last |
//! | `reduce` | reductions over any axes |
//! | `rows` | softmax and normalisation |
//! | `lrn` | local response normalisation |
//! | `attention` | scores, softmax and weighted sum in one task |
//! | `task` | a whole task: prologue, anchor, epilogue |

mod attention;
pub(crate) mod contraction;
pub(crate) mod conv;
pub(crate) mod elementwise;
mod lrn;
pub(crate) mod movement;
pub(crate) mod pool;
mod reduce;
pub(crate) mod reshape;
mod rows;
pub(crate) mod task;

use std::collections::{BTreeMap, BTreeSet};

use talweg_expr::{Expr, Ranges};
use talweg_ir::{Axis, Compute, DType, Dag, Reducer, Reduction, Scalar, TensorId};
use talweg_ops::{OpError, default_axis_names};
use talweg_tensor::ElementType;

use crate::forks::Derived;
use crate::graph::{Graph, Node, NodeId, ValueId};

/// Why an operator is not emitted; the caller falls back to smaller tasks and then to plain code.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub(crate) enum EmitError {
    /// The operator library refused.
    #[error("{0}")]
    Op(#[from] OpError),
    /// Tensor expressions cannot say it.
    #[error("no loop nest says {0}")]
    Unsupported(String),
}

/// The element type of a kernel, when kernels have it.
pub(crate) fn dtype_of(element: ElementType) -> Option<DType> {
    Some(match element {
        ElementType::F32 => DType::F32,
        ElementType::F16 => DType::F16,
        ElementType::BF16 => DType::BF16,
        ElementType::I8 => DType::I8,
        ElementType::U8 => DType::U8,
        ElementType::I32 => DType::I32,
        ElementType::I64 => DType::I64,
        ElementType::Bool => DType::Bool,
        _ => return None,
    })
}

/// What every task of a network shares.
pub(crate) struct Network<'g> {
    pub graph: &'g Graph,
    /// For every value, the node that writes it.
    pub producers: &'g [Option<NodeId>],
    /// Weights laid out for kernels, for the nodes that have them.
    pub weights: &'g BTreeMap<NodeId, ValueId>,
    /// Weights that other algorithms than the direct one read, for the nodes that have such algorithms.
    pub derived: &'g BTreeMap<NodeId, Vec<Derived>>,
    /// Movements that every reader reads through.
    pub seen_through: &'g BTreeSet<NodeId>,
}

/// One task under construction.
pub(crate) struct Emitter<'g> {
    network: &'g Network<'g>,
    /// Nodes computed inside the task.
    inside: &'g BTreeSet<NodeId>,
    /// Extents of one are dropped from given tensors and stages.
    squeeze: bool,
    dag: Dag,
    /// Values the task reads, with their tensors.
    given: Vec<(ValueId, TensorId)>,
    /// Values stored as stages of their own.
    stages: BTreeMap<ValueId, TensorId>,
}

/// A stage's axes, the indices of the value it stands for, and what is known about the axes.
pub(crate) struct Site {
    pub axes: Vec<Axis>,
    pub index: Vec<Expr>,
    pub ranges: Ranges,
}

impl Site {
    /// Axes that are the dimensions of a shape themselves; those of extent one are left out when `squeeze`.
    pub fn of_shape(shape: &[usize], squeeze: bool) -> Site {
        let kept = |extent: usize| !squeeze || extent != 1;
        let names = default_axis_names(shape.iter().filter(|e| kept(**e)).count());
        let mut names = names.iter();
        let mut axes = Vec::new();
        let mut index = Vec::new();
        for &extent in shape {
            let name = if kept(extent) { names.next() } else { None };
            let axis = name.map(|name| Axis::new(name, extent as i64));
            index.push(axis.as_ref().map_or(Expr::int(0), Axis::var));
            axes.extend(axis);
        }
        Site::new(axes, index)
    }

    /// A site from its axes; a value always has at least one.
    pub fn new(mut axes: Vec<Axis>, index: Vec<Expr>) -> Site {
        if axes.is_empty() {
            axes.push(Axis::new("i", 1));
        }
        let ranges = ranges_of(&axes);
        Site { axes, index, ranges }
    }

    /// The axes as expressions.
    pub fn vars(&self) -> Vec<Expr> {
        self.axes.iter().map(Axis::var).collect()
    }
}

/// Ranges of axes.
pub(crate) fn ranges_of(axes: &[Axis]) -> Ranges {
    let mut ranges = Ranges::new();
    for axis in axes {
        if let Some(extent) = axis.extent.as_int() {
            ranges.set(&axis.symbol, 0, extent - 1);
        }
    }
    ranges
}

impl<'g> Emitter<'g> {
    pub fn new(network: &'g Network<'g>, inside: &'g BTreeSet<NodeId>, name: &str, squeeze: bool) -> Self {
        let (given, stages) = (Vec::new(), BTreeMap::new());
        Emitter { network, inside, squeeze, dag: Dag::new(name), given, stages }
    }

    fn graph(&self) -> &'g Graph {
        self.network.graph
    }

    fn shape(&self, value: ValueId) -> &'g [usize] {
        &self.graph().ty(value).shape
    }

    fn dtype(&self, value: ValueId) -> Result<DType, EmitError> {
        let element = self.graph().ty(value).element;
        dtype_of(element).ok_or_else(|| EmitError::Unsupported(format!("elements of type {element}")))
    }

    /// The node inside the task that computes a value, if there is one.
    fn computed(&self, value: ValueId) -> Option<(NodeId, &'g Node)> {
        let id = self.network.producers[value.index()]?;
        let inside = self.inside.contains(&id) || self.network.seen_through.contains(&id);
        inside.then(|| (id, &self.graph().nodes[id.index()]))
    }

    /// A name that no tensor of the task has yet.
    fn fresh(&self, base: &str) -> String {
        if self.dag.find(base).is_none() {
            return base.to_string();
        }
        let mut at = 1;
        while self.dag.find(&format!("{base}{at}")).is_some() {
            at += 1;
        }
        format!("{base}{at}")
    }

    /// The tensor of a value the task is given.
    fn given(&mut self, value: ValueId) -> Result<TensorId, EmitError> {
        if let Some((_, tensor)) = self.given.iter().find(|(v, _)| *v == value) {
            return Ok(*tensor);
        }
        let dtype = self.dtype(value)?;
        let shape = self.stored_shape(value);
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

    /// The shape a value has in memory: extents of one left out when the task squeezes.
    fn stored_shape(&self, value: ValueId) -> Vec<i64> {
        let shape = self.shape(value).iter().map(|e| *e as i64);
        let kept: Vec<i64> = shape.filter(|e| !self.squeeze || *e != 1).collect();
        if kept.is_empty() { vec![1] } else { kept }
    }

    /// Reads a stored tensor at the indices of its value.
    fn read_stored(&self, value: ValueId, tensor: TensorId, index: Vec<Expr>) -> Scalar {
        let shape = self.shape(value);
        let kept = index.into_iter().zip(shape).filter(|(_, e)| !self.squeeze || **e != 1);
        let mut kept: Vec<Expr> = kept.map(|(i, _)| i).collect();
        if kept.is_empty() {
            kept.push(Expr::int(0));
        }
        Scalar::Read(tensor, kept)
    }

    /// The element of a value at indices: computed in place, or read.
    pub fn at(&mut self, value: ValueId, index: Vec<Expr>, ranges: &Ranges) -> Result<Scalar, EmitError> {
        if let Some(literal) = self.literal(value)? {
            return Ok(literal);
        }
        if let Some(tensor) = self.stages.get(&value) {
            return Ok(self.read_stored(value, *tensor, index));
        }
        if let Some((_, node)) = self.computed(value) {
            return self.apply(node, index, ranges);
        }
        let tensor = self.given(value)?;
        Ok(self.read_stored(value, tensor, index))
    }

    /// A constant of one element, as a literal.
    fn literal(&self, value: ValueId) -> Result<Option<Scalar>, EmitError> {
        match self.graph().constant(value) {
            Some(tensor) if tensor.len() == 1 => {
                let dtype = self.dtype(value)?;
                Ok(Some(if dtype.is_float() {
                    Scalar::Float(tensor.to_f64()[0], dtype)
                } else {
                    Scalar::Int(tensor.to_i64()[0], dtype)
                }))
            }
            _ => Ok(None),
        }
    }

    /// The element that an elementwise operator or a movement gives at indices.
    fn apply(&mut self, node: &Node, index: Vec<Expr>, ranges: &Ranges) -> Result<Scalar, EmitError> {
        match elementwise::arity(&node.op) {
            Some(_) => {
                let operands = self.operands(node, &index, ranges)?;
                self.combine(node, operands)
            }
            None => self.moved(node, index, ranges),
        }
    }

    /// The operands of an elementwise operator at the indices of its result.
    fn operands(&mut self, node: &Node, index: &[Expr], ranges: &Ranges) -> Result<Vec<Scalar>, EmitError> {
        let mut operands = Vec::new();
        for input in node.reads() {
            let at = broadcast_index(index, self.shape(input));
            operands.push(self.at(input, at, ranges)?);
        }
        Ok(operands)
    }

    /// An elementwise operator of operands.
    fn combine(&self, node: &Node, operands: Vec<Scalar>) -> Result<Scalar, EmitError> {
        let mut types = Vec::new();
        for input in node.reads() {
            types.push(self.dtype(input)?);
        }
        let result = self.dtype(node.outputs[0])?;
        elementwise::combine(&node.op, operands, &types, result)
            .ok_or_else(|| EmitError::Unsupported(format!("{} of {types:?}", node.op.name())))
    }

    /// Stores a value as a stage over its own dimensions and gives the stage; a given value stays as it is.
    fn store(&mut self, value: ValueId, name: &str) -> Result<TensorId, EmitError> {
        if let Some(tensor) = self.stages.get(&value) {
            return Ok(*tensor);
        }
        if self.computed(value).is_none() {
            return self.given(value);
        }
        let site = Site::of_shape(self.shape(value), self.squeeze);
        let body = self.at(value, site.index.clone(), &site.ranges)?;
        let tensor = self.push(name, site.axes, None, body);
        self.stages.insert(value, tensor);
        Ok(tensor)
    }

    /// Appends a compute.
    fn push(
        &mut self,
        name: &str,
        axes: Vec<Axis>,
        over: Option<(Reducer, Vec<Axis>)>,
        body: Scalar,
    ) -> TensorId {
        let name = self.fresh(name);
        let reduction = over.map(|(reducer, axes)| Reduction { reducer, axes });
        self.dag.push_compute(&name, Compute { axes, reduction, body })
    }
}

/// The indices of an operand that is broadcast to a result.
pub(crate) fn broadcast_index(index: &[Expr], shape: &[usize]) -> Vec<Expr> {
    let skip = index.len() - shape.len();
    let at = shape.iter().zip(&index[skip..]);
    at.map(|(extent, i)| if *extent == 1 { Expr::int(0) } else { i.clone() }).collect()
}

/// Nodes of a scalar.
pub(crate) fn node_count(value: &Scalar) -> usize {
    let mut count = 0;
    value.visit(&mut |_| count += 1);
    count
}
