//! Appending operators to the graph, with shape inference and constant folding on the way.

use talweg_graph::{Graph, Node, ValueId};
use talweg_tensor::op::{Binary, Reduce, ReduceKind, SliceAxis, Unary};
use talweg_tensor::{ElementType, Op, OpError, Tensor, TensorType, evaluate, infer};

use crate::error::{Failure, ImportError};

/// Results of at most this size are always folded.
const SMALL_BYTES: usize = 4096;
/// Nodes of the model that are visited, at most: loops are unrolled and functions inlined.
const NODE_LIMIT: usize = 200_000;
/// Elements of one value, at most.
const ELEMENT_LIMIT: usize = 1 << 40;
/// Multiplications a folded matrix product or convolution may take.
const WORK_LIMIT: usize = 1 << 31;

/// The graph under construction.
pub(crate) struct Builder {
    /// The graph.
    pub(crate) graph: Graph,
    /// The name of the model's node that is being translated.
    node: String,
    /// Values made for it so far.
    made: usize,
    /// Nodes visited so far.
    visited: usize,
    /// Bytes that larger folded results may still take.
    fold_bytes: usize,
}

impl Builder {
    /// A builder that may fold `fold_bytes` in all, results of a few elements aside.
    pub(crate) fn new(name: &str, fold_bytes: usize) -> Builder {
        Builder { graph: Graph::new(name), node: String::new(), made: 0, visited: 0, fold_bytes }
    }

    /// Announces the node that is translated next.
    pub(crate) fn start_node(&mut self, name: &str) -> Result<(), ImportError> {
        self.visited += 1;
        if self.visited > NODE_LIMIT {
            return Err(ImportError::Limit(format!(
                "more than {NODE_LIMIT} nodes once loops are unrolled and functions are inlined"
            )));
        }
        self.node = name.to_string();
        self.made = 0;
        Ok(())
    }

    pub(crate) fn ty(&self, value: ValueId) -> &TensorType {
        self.graph.ty(value)
    }

    pub(crate) fn shape(&self, value: ValueId) -> Vec<usize> {
        self.ty(value).shape.clone()
    }

    pub(crate) fn rank(&self, value: ValueId) -> usize {
        self.ty(value).shape.len()
    }

    pub(crate) fn element(&self, value: ValueId) -> ElementType {
        self.ty(value).element
    }

    /// The value's elements, if they are known.
    pub(crate) fn known(&self, value: ValueId) -> Option<&Tensor> {
        self.graph.constant(value)
    }

    fn fresh_name(&mut self) -> String {
        self.made += 1;
        format!("{}.{}", self.node, self.made)
    }

    /// A new constant.
    pub(crate) fn constant(&mut self, tensor: Tensor) -> ValueId {
        let name = self.fresh_name();
        self.graph.add_constant(name, tensor)
    }

    /// A scalar constant of the element type of `like`.
    pub(crate) fn scalar_like(&mut self, like: ValueId, value: f64) -> ValueId {
        let element = self.element(like);
        self.scalar(element, value)
    }

    /// A scalar constant.
    pub(crate) fn scalar(&mut self, element: ElementType, value: f64) -> ValueId {
        self.constant(Tensor::from_f64(element, [], [value]))
    }

    /// A constant of 64-bit integers along one axis.
    pub(crate) fn ints(&mut self, values: Vec<i64>) -> ValueId {
        self.constant(Tensor::new([values.len()], values))
    }

    /// `value` everywhere in `shape`: a constant, or if that would be large, a scalar that is broadcast.
    pub(crate) fn filled(&mut self, value: Tensor, shape: Vec<usize>) -> Result<ValueId, Failure> {
        let scalar = self.constant(value);
        let scalar = self.reshape(scalar, vec![])?;
        self.one(Op::Expand { shape }, &[scalar])
    }

    /// Applies an operator: folded if all inputs are constants and the results are of reasonable size.
    pub(crate) fn emit(
        &mut self,
        op: Op,
        inputs: &[Option<ValueId>],
        outputs: usize,
    ) -> Result<Vec<ValueId>, Failure> {
        let constants: Option<Vec<Option<&Tensor>>> = inputs
            .iter()
            .map(|input| match input {
                Some(id) => self.graph.constant(*id).map(Some),
                None => Some(None),
            })
            .collect();
        let types: Vec<Option<&TensorType>> = inputs.iter().map(|i| i.map(|id| self.graph.ty(id))).collect();
        let mut types = match infer(&op, &types) {
            Ok(types) => types,
            Err(OpError::DataDependent { op: name }) => match constants {
                Some(constants) => {
                    let results = evaluate(&op, &constants)?;
                    return Ok(results.into_iter().take(outputs).map(|t| self.constant(t)).collect());
                }
                None => return Err(Failure::data_dependent(format!("the shape of the result of {name}"))),
            },
            Err(error) => return Err(error.into()),
        };
        types.truncate(outputs);
        let mut bytes = 0usize;
        for ty in &types {
            let len = ty.shape.iter().try_fold(1usize, |len, &extent| len.checked_mul(extent));
            let len = len.filter(|&len| len <= ELEMENT_LIMIT).ok_or_else(|| {
                Failure::invalid(format!("the result has the shape {:?}, which is too large", ty.shape))
            })?;
            bytes = bytes.saturating_add(len.saturating_mul(ty.element.bytes()));
        }
        if let Some(constants) = constants {
            let free = bytes <= SMALL_BYTES;
            if (free || bytes <= self.fold_bytes) && work(&op, &constants, &types) <= WORK_LIMIT {
                let results = evaluate(&op, &constants)?;
                if !free {
                    self.fold_bytes -= bytes;
                }
                return Ok(results.into_iter().take(outputs).map(|t| self.constant(t)).collect());
            }
        }
        let written: Vec<ValueId> = types
            .into_iter()
            .map(|ty| {
                let name = self.fresh_name();
                self.graph.add_value(name, ty)
            })
            .collect();
        self.graph.add_node(Node {
            name: self.node.clone(),
            op,
            inputs: inputs.to_vec(),
            outputs: written.clone(),
        });
        Ok(written)
    }

    /// Applies an operator of which only the first result is used.
    pub(crate) fn one(&mut self, op: Op, inputs: &[ValueId]) -> Result<ValueId, Failure> {
        let inputs: Vec<Option<ValueId>> = inputs.iter().copied().map(Some).collect();
        self.one_of(op, &inputs)
    }

    /// As [`Builder::one`], with optional inputs.
    pub(crate) fn one_of(&mut self, op: Op, inputs: &[Option<ValueId>]) -> Result<ValueId, Failure> {
        let name = op.name();
        let results = self.emit(op, inputs, 1)?;
        results.first().copied().ok_or_else(|| Failure::invalid(format!("{name} has no result")))
    }

    pub(crate) fn unary(&mut self, f: Unary, x: ValueId) -> Result<ValueId, Failure> {
        self.one(Op::Unary(f), &[x])
    }

    pub(crate) fn binary(&mut self, f: Binary, a: ValueId, b: ValueId) -> Result<ValueId, Failure> {
        self.one(Op::Binary(f), &[a, b])
    }

    pub(crate) fn add(&mut self, a: ValueId, b: ValueId) -> Result<ValueId, Failure> {
        self.binary(Binary::Add, a, b)
    }

    pub(crate) fn sub(&mut self, a: ValueId, b: ValueId) -> Result<ValueId, Failure> {
        self.binary(Binary::Sub, a, b)
    }

    pub(crate) fn mul(&mut self, a: ValueId, b: ValueId) -> Result<ValueId, Failure> {
        self.binary(Binary::Mul, a, b)
    }

    pub(crate) fn div(&mut self, a: ValueId, b: ValueId) -> Result<ValueId, Failure> {
        self.binary(Binary::Div, a, b)
    }

    /// `x * factor`, or `x` itself if the factor is one.
    pub(crate) fn scaled(&mut self, x: ValueId, factor: f64) -> Result<ValueId, Failure> {
        if factor == 1.0 {
            return Ok(x);
        }
        let factor = self.scalar_like(x, factor);
        self.mul(x, factor)
    }

    pub(crate) fn cast(&mut self, x: ValueId, to: ElementType) -> Result<ValueId, Failure> {
        if self.element(x) == to { Ok(x) } else { self.one(Op::Cast { to }, &[x]) }
    }

    pub(crate) fn reshape(&mut self, x: ValueId, shape: Vec<usize>) -> Result<ValueId, Failure> {
        if self.ty(x).shape == shape { Ok(x) } else { self.one(Op::Reshape { shape }, &[x]) }
    }

    pub(crate) fn transpose(&mut self, x: ValueId, perm: Vec<usize>) -> Result<ValueId, Failure> {
        if perm.iter().enumerate().all(|(i, &p)| i == p) && perm.len() == self.rank(x) {
            return Ok(x);
        }
        self.one(Op::Transpose { perm }, &[x])
    }

    pub(crate) fn expand(&mut self, x: ValueId, shape: Vec<usize>) -> Result<ValueId, Failure> {
        if self.ty(x).shape == shape { Ok(x) } else { self.one(Op::Expand { shape }, &[x]) }
    }

    pub(crate) fn matmul(&mut self, a: ValueId, b: ValueId) -> Result<ValueId, Failure> {
        self.one(Op::MatMul, &[a, b])
    }

    pub(crate) fn select(&mut self, condition: ValueId, a: ValueId, b: ValueId) -> Result<ValueId, Failure> {
        self.one(Op::Where, &[condition, a, b])
    }

    /// The inputs along `axis`; a single one is itself.
    pub(crate) fn concat(&mut self, parts: &[ValueId], axis: usize) -> Result<ValueId, Failure> {
        match parts {
            [single] => Ok(*single),
            _ => self.one(Op::Concat { axis }, parts),
        }
    }

    /// A contiguous part of one axis.
    pub(crate) fn part(
        &mut self,
        x: ValueId,
        axis: usize,
        begin: usize,
        count: usize,
    ) -> Result<ValueId, Failure> {
        let shape = self.shape(x);
        if begin == 0 && shape.get(axis) == Some(&count) {
            return Ok(x);
        }
        let whole = |&extent: &usize| SliceAxis { begin: 0, step: 1, count: extent };
        let mut axes: Vec<SliceAxis> = shape.iter().map(whole).collect();
        let slot = axes.get_mut(axis).ok_or_else(|| Failure::invalid(format!("there is no axis {axis}")))?;
        *slot = SliceAxis { begin, step: 1, count };
        self.one(Op::Slice { axes }, &[x])
    }

    /// A reduction; `axes` ascending. Over no axes only the function of single elements is left.
    pub(crate) fn reduce(
        &mut self,
        kind: ReduceKind,
        x: ValueId,
        axes: Vec<usize>,
        keep: bool,
    ) -> Result<ValueId, Failure> {
        if !axes.is_empty() {
            return self.one(Op::Reduce(Reduce { kind, axes, keep }), &[x]);
        }
        match kind {
            ReduceKind::L1 | ReduceKind::L2 => self.unary(Unary::Abs, x),
            ReduceKind::SumSquare => self.mul(x, x),
            ReduceKind::LogSum => self.unary(Unary::Log, x),
            _ => Ok(x),
        }
    }
}

/// Multiplications that evaluating an operator takes, roughly.
fn work(op: &Op, inputs: &[Option<&Tensor>], outputs: &[TensorType]) -> usize {
    let first = inputs.iter().flatten().map(|t| t.len()).max().unwrap_or(0);
    let result = outputs.iter().map(TensorType::len).max().unwrap_or(0);
    match op {
        Op::MatMul | Op::MatMulInteger => {
            let depth = inputs.first().copied().flatten().and_then(|t| t.shape().last().copied());
            result.saturating_mul(depth.unwrap_or(1))
        }
        Op::Conv(_) | Op::ConvInteger(_) | Op::ConvTranspose(_) | Op::Einsum { .. } => {
            let per_filter = inputs
                .get(1)
                .copied()
                .flatten()
                .map_or(first, |w| w.len() / w.shape().first().copied().unwrap_or(1).max(1));
            result.max(first).saturating_mul(per_filter.max(1))
        }
        Op::Pool(pool) => result.saturating_mul(pool.window.iter().product::<usize>().max(1)),
        _ => result.max(first),
    }
}

impl From<OpError> for Failure {
    fn from(error: OpError) -> Failure {
        Failure::Invalid(error.to_string())
    }
}
