//! Fused epilogues: bias, scale, residual, activations in a row, as one elementwise stage.

use std::fmt;

use talweg_ir::{ArithOp, DType, Dag, Scalar, TensorId};

use crate::activation::Activation;
use crate::elementwise::broadcast_read;
use crate::error::OpError;
use crate::typing::{axes, axis_names, convert, fresh, result_type, shape_of};
use crate::view::View;

/// One link of a chain, as named in text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ChainOp {
    /// Adds a constant for each channel (the last axis).
    Bias,
    /// Multiplies by a constant for each channel.
    Scale,
    /// Adds an input of the same shape.
    Residual,
    /// Combines with an input of the same shape.
    Binary(ArithOp),
    /// A function of the value.
    Unary(Activation),
}

/// The binary links and their names.
const BINARY: [(&str, ArithOp); 6] = [
    ("add", ArithOp::Add),
    ("sub", ArithOp::Sub),
    ("mul", ArithOp::Mul),
    ("div", ArithOp::Div),
    ("max", ArithOp::Max),
    ("min", ArithOp::Min),
];

impl ChainOp {
    /// The names of all links.
    pub fn names() -> Vec<&'static str> {
        let mut out = vec!["bias", "scale", "residual"];
        out.extend(BINARY.iter().map(|(n, _)| *n));
        out.extend(Activation::ALL.iter().map(|(n, _)| *n));
        out
    }

    /// Reads one link.
    pub fn parse(text: &str) -> Option<ChainOp> {
        match text {
            "bias" => Some(ChainOp::Bias),
            "scale" => Some(ChainOp::Scale),
            "residual" => Some(ChainOp::Residual),
            _ => match BINARY.iter().find(|(n, _)| *n == text) {
                Some((_, op)) => Some(ChainOp::Binary(*op)),
                None => Activation::parse(text).map(ChainOp::Unary),
            },
        }
    }

    /// The operator that combines the value with the second operand, when there is one.
    pub fn arithmetic(self) -> Option<ArithOp> {
        match self {
            ChainOp::Bias | ChainOp::Residual => Some(ArithOp::Add),
            ChainOp::Scale => Some(ArithOp::Mul),
            ChainOp::Binary(op) => Some(op),
            ChainOp::Unary(_) => None,
        }
    }
}

impl fmt::Display for ChainOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ChainOp::Bias => f.write_str("bias"),
            ChainOp::Scale => f.write_str("scale"),
            ChainOp::Residual => f.write_str("residual"),
            ChainOp::Binary(op) => {
                f.write_str(BINARY.iter().find(|(_, o)| o == op).map_or("pow", |(n, _)| n))
            }
            ChainOp::Unary(a) => write!(f, "{a}"),
        }
    }
}

/// A link together with the tensor it combines with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// What happens.
    pub op: ChainOp,
    /// The second operand; broadcast to the value's logical shape.
    pub operand: Option<TensorId>,
}

/// A stage is cut when its body would hold more nodes than this, since functions that use their operand twice would
/// let it grow exponentially.
const MAX_NODES: usize = 160;

/// Declares the tensors a chain needs: `bias` and `scale` as constants of one element for each channel, the others as
/// inputs of the value's shape. `dtype` is the type of the operator's inputs.
pub fn declare(dag: &mut Dag, value: &View, chain: &[ChainOp], dtype: DType) -> Vec<Step> {
    let dtype = result_type(dtype);
    chain
        .iter()
        .map(|op| {
            let operand = match op {
                ChainOp::Bias | ChainOp::Scale => {
                    let name = fresh(dag, &op.to_string());
                    Some(dag.constant(&name, dtype, value.channels()))
                }
                ChainOp::Residual | ChainOp::Binary(_) => {
                    let name = fresh(dag, &op.to_string());
                    Some(dag.input(&name, dtype, &value.shape))
                }
                ChainOp::Unary(_) => None,
            };
            Step { op: *op, operand }
        })
        .collect()
}

/// Applies a chain to every element in a stage `Y` and converts to `output`; returns the value itself when there is
/// nothing to do. Half floats are computed in f32 and rounded once at the end.
///
/// ```text
/// Y[n, oh, ow, f] = max(conv[n, oh, ow, f] + bias[f], 0.0)
/// ```
pub fn apply(dag: &mut Dag, value: &View, steps: &[Step], output: DType) -> Result<View, OpError> {
    let stored = dag.tensor(value.tensor).dtype;
    if steps.is_empty() && stored == output {
        return Ok(value.clone());
    }
    let compute = if stored.is_float() { DType::F32 } else { stored };
    let names = axis_names(dag, value.tensor);
    let extents = value.extents().to_vec();
    let vars: Vec<_> = names.iter().map(|n| talweg_expr::Expr::var(n)).collect();
    let logical = value.indices(&vars);
    let mut current = value.clone();
    let mut body = convert(Scalar::Read(current.tensor, vars.clone()), stored, compute);
    for step in steps {
        body = match (step.op, step.op.arithmetic(), step.operand) {
            (ChainOp::Unary(f), _, None) => {
                if !f.accepts(compute) {
                    let operator = format!("`{f}`");
                    return Err(OpError::Type { operator, dtype: compute, accepted: "f32, f16 or bf16" });
                }
                if f.uses() > 1 && node_count(&body) * f.uses() > MAX_NODES {
                    let name = fresh(dag, "chain");
                    let cut = body;
                    current = current.of(dag.compute(&name, &axes(&names, &extents), |_| cut));
                    body = Scalar::Read(current.tensor, vars.clone());
                }
                f.apply(body, compute)
            }
            (_, Some(op), Some(operand)) => {
                let shape = shape_of(dag, operand, "chain")?;
                let read = broadcast_read(operand, &shape, &logical, &value.shape, "chain")?;
                Scalar::binary(op, body, convert(read, dag.tensor(operand).dtype, compute))
            }
            (op, Some(_), None) => {
                let problem = "needs a second tensor; give it one";
                return Err(OpError::Operand { step: op.to_string(), problem });
            }
            (op, ..) => {
                let problem = "takes no second tensor; leave it out";
                return Err(OpError::Operand { step: op.to_string(), problem });
            }
        };
    }
    let name = fresh(dag, "Y");
    let body = convert(body, compute, output);
    let out = dag.compute(&name, &axes(&names, &extents), |_| body);
    Ok(value.of(out))
}

fn node_count(value: &Scalar) -> usize {
    let mut count = 0;
    value.visit(&mut |_| count += 1);
    count
}
