//! Recurrent layers: `LSTM`, `GRU`, `RNN`.

use talweg_tensor::Op;
use talweg_tensor::op::{Activation, Direction, Recurrent, Unary};

use super::{Entry, entry};
use crate::call::{Call, Outputs, size};
use crate::error::Failure;

pub(super) const ENTRIES: &[Entry] = &[
    entry("GRU", 7, |call| recurrent(call, &["Sigmoid", "Tanh"], 6, 2, Op::Gru)),
    entry("LSTM", 7, |call| recurrent(call, &["Sigmoid", "Tanh", "Tanh"], 8, 3, Op::Lstm)),
    entry("RNN", 7, |call| recurrent(call, &["Tanh"], 6, 2, Op::Rnn)),
];

fn recurrent(
    call: &mut Call,
    defaults: &[&str],
    inputs: usize,
    outputs: usize,
    op: fn(Recurrent) -> Op,
) -> Outputs {
    let direction = match call.text_or("direction", "forward")?.as_str() {
        "forward" => Direction::Forward,
        "reverse" => Direction::Reverse,
        "bidirectional" => Direction::Bidirectional,
        other => return Err(Failure::invalid(format!("`direction` is `{other}`"))),
    };
    let directions = if direction == Direction::Bidirectional { 2 } else { 1 };
    let recurrence = call.shape(call.input(2)?);
    let hidden = match call.int("hidden_size")? {
        Some(hidden) => size(hidden, "`hidden_size`")?,
        None => recurrence.last().copied().unwrap_or(0),
    };
    let names = match call.texts("activations")? {
        Some(names) => names,
        None => defaults.repeat(directions).iter().map(|name| name.to_string()).collect(),
    };
    if names.len() != defaults.len() * directions {
        return Err(Failure::invalid(format!(
            "{} activations for {} functions",
            names.len(),
            defaults.len() * directions
        )));
    }
    let layer = Recurrent {
        hidden,
        direction,
        activations: activations(call, &names)?,
        clip: call.float("clip")?,
        batch_first: call.flag("layout", false)?,
        linear_before_reset: call.flag("linear_before_reset", false)?,
        input_forget: call.flag("input_forget", false)?,
    };
    let given: Vec<_> = (0..inputs.min(call.inputs.len()).max(3)).map(|i| call.optional(i)).collect();
    let wanted = (0..outputs).rev().find(|&i| call.wants(i)).map_or(1, |last| last + 1);
    call.builder.emit(op(layer), &given, wanted)
}

/// Activation functions by name; those with parameters take them from the lists in order.
fn activations(call: &Call, names: &[String]) -> Result<Vec<Activation>, Failure> {
    let mut alphas = call.floats("activation_alpha")?.unwrap_or_default().into_iter();
    let mut betas = call.floats("activation_beta")?.unwrap_or_default().into_iter();
    let mut list = Vec::with_capacity(names.len());
    for name in names {
        let mut alpha = |default: f32| alphas.next().unwrap_or(default);
        let mut beta = |default: f32| betas.next().unwrap_or(default);
        list.push(match name.to_ascii_lowercase().as_str() {
            "relu" => Activation::Unary(Unary::Relu),
            "tanh" => Activation::Unary(Unary::Tanh),
            "sigmoid" => Activation::Unary(Unary::Sigmoid),
            "softsign" => Activation::Unary(Unary::Softsign),
            "softplus" => Activation::Unary(Unary::Softplus),
            "affine" => Activation::Affine { alpha: alpha(1.0), beta: beta(0.0) },
            "scaledtanh" => Activation::ScaledTanh { alpha: alpha(1.0), beta: beta(1.0) },
            "leakyrelu" => Activation::Unary(Unary::LeakyRelu { alpha: alpha(0.01) }),
            "thresholdedrelu" => Activation::Unary(Unary::ThresholdedRelu { alpha: alpha(1.0) }),
            "hardsigmoid" => Activation::Unary(Unary::HardSigmoid { alpha: alpha(0.2), beta: beta(0.5) }),
            "elu" => Activation::Unary(Unary::Elu { alpha: alpha(1.0) }),
            _ => return Err(Failure::invalid(format!("there is no activation `{name}`"))),
        });
    }
    Ok(list)
}
