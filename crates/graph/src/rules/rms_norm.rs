//! Root mean square normalisation as exporters write it.
//!
//! ```text
//! r = Sqrt(Add(ReduceMean(Mul(x, x)), epsilon))
//! Mul(Mul(x, Div(1, r)), w)   or   Mul(Div(x, r), w)   ->   RmsNorm(x, w)
//! ```

use talweg_tensor::Op;
use talweg_tensor::op::{Binary, ReduceKind, Unary};

use crate::graph::{NodeId, ValueId};
use crate::rewrite::{Context, Edit, node};

pub(super) fn apply(context: &mut Context<'_>, id: NodeId) -> Option<Edit> {
    let matched = context.node(id);
    let output = matched.outputs[0];
    let (a, b) = context.operands(output, Binary::Mul)?;
    let (normal, scale) = [(a, b), (b, a)].into_iter().find(|(_, w)| context.constant(*w).is_some())?;
    let (x, axis, epsilon) = normalised(context, normal)?;
    let columns: usize = context.shape(x)[axis..].iter().product();
    let fits = context.shape(scale) == &context.shape(x)[axis..] && context.graph.ty(scale).len() == columns;
    (fits && context.shape(x) == context.shape(output)).then(|| {
        let op = Op::RmsNorm { axis, epsilon: epsilon as f32 };
        Edit::Nodes(vec![node(matched.name.clone(), op, &[x, scale], output)])
    })
}

/// `x` divided by the root of its mean square: `x`, the first axis of the mean, and the epsilon.
fn normalised(context: &Context<'_>, value: ValueId) -> Option<(ValueId, usize, f64)> {
    let (x, root) = match context.operands(value, Binary::Div) {
        Some((x, root)) => (x, root),
        None => {
            let (a, b) = context.operands(value, Binary::Mul)?;
            [(a, b), (b, a)].into_iter().find_map(|(x, inverse)| {
                let root = match context.operand(inverse, Unary::Reciprocal) {
                    Some(root) => root,
                    None => {
                        let (one, root) = context.operands(inverse, Binary::Div)?;
                        (context.scalar(one) == Some(1.0)).then_some(root)?
                    }
                };
                Some((x, root))
            })?
        }
    };
    let raised = context.operand(root, Unary::Sqrt)?;
    let sum = context.producer(raised).filter(|n| n.op == Op::Binary(Binary::Add))?;
    let (mean, epsilon) = context.with_constant(sum)?;
    let epsilon = context.scalar(epsilon)?;
    let (squares, axis) = context.row_mean(mean)?;
    let of_x = context.operands(squares, Binary::Mul) == Some((x, x));
    (of_x && context.is_f32(x)).then_some((x, axis, epsilon))
}

impl Context<'_> {
    /// The operand of a mean over the last axes that keeps them, and the first of these axes.
    pub fn row_mean(&self, value: ValueId) -> Option<(ValueId, usize)> {
        let producer = self.producer(value)?;
        let Op::Reduce(reduce) = &producer.op else { return None };
        let x = producer.inputs.first().copied().flatten()?;
        let rank = self.shape(x).len();
        let first = *reduce.axes.first()?;
        let last_axes = reduce.axes.iter().copied().eq(first..rank);
        (reduce.kind == ReduceKind::Mean && reduce.keep && last_axes).then_some((x, first))
    }

    /// The operands of the binary operator that writes a value.
    pub fn operands(&self, value: ValueId, f: Binary) -> Option<(ValueId, ValueId)> {
        let producer = self.producer(value).filter(|n| n.op == Op::Binary(f))?;
        match producer.inputs[..] {
            [Some(a), Some(b)] => Some((a, b)),
            _ => None,
        }
    }

    /// The operand of the unary operator that writes a value.
    pub fn operand(&self, value: ValueId, f: Unary) -> Option<ValueId> {
        self.producer(value).filter(|n| n.op == Op::Unary(f))?.inputs.first().copied().flatten()
    }

    /// What a value is a constant multiple of.
    pub fn scaled_by(&self, value: ValueId, factor: f64) -> Option<ValueId> {
        self.with_scalar(value, Binary::Mul, factor)
    }

    /// What a value is a constant more than.
    pub fn raised_by(&self, value: ValueId, summand: f64) -> Option<ValueId> {
        self.with_scalar(value, Binary::Add, summand)
    }

    fn with_scalar(&self, value: ValueId, f: Binary, expected: f64) -> Option<ValueId> {
        let producer = self.producer(value).filter(|n| n.op == Op::Binary(f))?;
        let (x, c) = self.with_constant(producer)?;
        self.scalar(c).filter(|v| (v - expected).abs() <= 1e-6 * expected.abs()).map(|_| x)
    }
}
