//! Losses: `NegativeLogLikelihoodLoss`, `SoftmaxCrossEntropyLoss`.

use talweg_graph::ValueId;
use talweg_tensor::op::{Binary, ReduceKind, Unary};
use talweg_tensor::{Op, Tensor};

use super::{Entry, entry};
use crate::call::{Call, Outputs};
use crate::error::Failure;

pub(super) const ENTRIES: &[Entry] = &[
    entry("NegativeLogLikelihoodLoss", 12, negative_log_likelihood),
    entry("SoftmaxCrossEntropyLoss", 12, softmax_cross_entropy),
];

fn negative_log_likelihood(call: &mut Call) -> Outputs {
    let x = call.input(0)?;
    Ok(vec![loss(call, x)?])
}

fn softmax_cross_entropy(call: &mut Call) -> Outputs {
    let x = call.input(0)?;
    let log = call.builder.one(Op::Softmax { axis: 1, log: true }, &[x])?;
    Ok(vec![loss(call, log)?, log])
}

/// Minus the logarithm of the target's probability, weighted, with one target ignored; reduced as the model says.
fn loss(call: &mut Call, log: ValueId) -> Result<ValueId, Failure> {
    let target = call.input(1)?;
    let shape = call.shape(log);
    if shape.len() < 2 {
        return Err(Failure::invalid(format!("the input has the shape {shape:?}, which has no classes")));
    }
    let mut column = call.shape(target);
    column.insert(1.min(column.len()), 1);
    let zero = call.builder.scalar_like(log, 0.0);
    let ignored = match call.int("ignore_index")? {
        None => None,
        Some(index) => {
            let index = call.builder.scalar_like(target, index as f64);
            Some(call.builder.binary(Binary::Equal, target, index)?)
        }
    };
    let class = match ignored {
        None => target,
        Some(ignored) => {
            let first = call.builder.scalar_like(target, 0.0);
            call.builder.select(ignored, first, target)?
        }
    };
    let at = call.builder.reshape(class, column)?;
    let picked = call.builder.one(Op::GatherElements { axis: 1 }, &[log, at])?;
    let picked = call.builder.reshape(picked, call.builder.shape(target))?;
    let mut result = call.builder.unary(Unary::Neg, picked)?;
    let mut weights = match call.optional(2) {
        Some(weights) => Some(call.builder.one(Op::Gather { axis: 0 }, &[weights, class])?),
        None => None,
    };
    if let Some(ignored) = ignored {
        let plain = match weights {
            Some(weights) => weights,
            None => {
                let one = Tensor::from_f64(call.element(log), [], [1.0]);
                let shape = call.shape(target);
                call.builder.filled(one, shape)?
            }
        };
        weights = Some(call.builder.select(ignored, zero, plain)?);
    }
    if let Some(weights) = weights {
        result = call.builder.mul(result, weights)?;
    }
    let axes: Vec<usize> = (0..call.rank(result)).collect();
    match call.text_or("reduction", "mean")?.as_str() {
        "none" => Ok(result),
        "sum" => call.builder.reduce(ReduceKind::Sum, result, axes, false),
        "mean" => match weights {
            None => call.builder.reduce(ReduceKind::Mean, result, axes, false),
            Some(weights) => {
                let sum = call.builder.reduce(ReduceKind::Sum, result, axes.clone(), false)?;
                let total = call.builder.reduce(ReduceKind::Sum, weights, axes, false)?;
                call.builder.div(sum, total)
            }
        },
        other => Err(Failure::invalid(format!("`reduction` is `{other}`"))),
    }
}
