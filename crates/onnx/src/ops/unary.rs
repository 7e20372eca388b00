//! Functions of one element: arithmetic, activations, `Cast` and `Clip`.

use talweg_tensor::op::{Binary, Unary};

use super::{Entry, entry};
use crate::call::{Call, Outputs};
use crate::error::Failure;

pub(super) const ENTRIES: &[Entry] = &[
    entry("Abs", 6, |call| apply(call, Unary::Abs)),
    entry("Acos", 7, |call| apply(call, Unary::Acos)),
    entry("Acosh", 9, |call| apply(call, Unary::Acosh)),
    entry("Asin", 7, |call| apply(call, Unary::Asin)),
    entry("Asinh", 9, |call| apply(call, Unary::Asinh)),
    entry("Atan", 7, |call| apply(call, Unary::Atan)),
    entry("Atanh", 9, |call| apply(call, Unary::Atanh)),
    entry("BitwiseNot", 18, |call| apply(call, Unary::BitNot)),
    entry("Ceil", 6, |call| apply(call, Unary::Ceil)),
    entry("Cos", 7, |call| apply(call, Unary::Cos)),
    entry("Cosh", 9, |call| apply(call, Unary::Cosh)),
    entry("Erf", 9, |call| apply(call, Unary::Erf)),
    entry("Exp", 6, |call| apply(call, Unary::Exp)),
    entry("Floor", 6, |call| apply(call, Unary::Floor)),
    entry("HardSwish", 14, |call| apply(call, Unary::HardSwish)),
    entry("IsNaN", 9, |call| apply(call, Unary::IsNan)),
    entry("Log", 6, |call| apply(call, Unary::Log)),
    entry("Mish", 18, |call| apply(call, Unary::Mish)),
    entry("Neg", 6, |call| apply(call, Unary::Neg)),
    entry("Not", 1, |call| apply(call, Unary::Not)),
    entry("Reciprocal", 6, |call| apply(call, Unary::Reciprocal)),
    entry("Relu", 6, |call| apply(call, Unary::Relu)),
    entry("Round", 11, |call| apply(call, Unary::Round)),
    entry("Sigmoid", 6, |call| apply(call, Unary::Sigmoid)),
    entry("Sign", 9, |call| apply(call, Unary::Sign)),
    entry("Sin", 7, |call| apply(call, Unary::Sin)),
    entry("Sinh", 9, |call| apply(call, Unary::Sinh)),
    entry("Softplus", 1, |call| apply(call, Unary::Softplus)),
    entry("Softsign", 1, |call| apply(call, Unary::Softsign)),
    entry("Sqrt", 6, |call| apply(call, Unary::Sqrt)),
    entry("Tan", 7, |call| apply(call, Unary::Tan)),
    entry("Tanh", 6, |call| apply(call, Unary::Tanh)),
    entry("Celu", 12, celu),
    entry("Elu", 6, elu),
    entry("Gelu", 20, gelu),
    entry("HardSigmoid", 6, hard_sigmoid),
    entry("IsInf", 10, is_inf),
    entry("LeakyRelu", 6, leaky_relu),
    entry("Selu", 6, selu),
    entry("Shrink", 9, shrink),
    entry("Swish", 24, swish),
    entry("SwiGLU", 28, swi_glu),
    entry("ThresholdedRelu", 10, thresholded_relu),
    entry("Identity", 1, identity),
    entry("Dropout", 7, dropout),
    entry("Cast", 6, cast),
    entry("CastLike", 15, cast_like),
    entry("Clip", 6, clip),
];

fn apply(call: &mut Call, f: Unary) -> Outputs {
    let x = call.input(0)?;
    Ok(vec![call.builder.unary(f, x)?])
}

fn celu(call: &mut Call) -> Outputs {
    let alpha = call.float_or("alpha", 1.0)?;
    apply(call, Unary::Celu { alpha })
}

fn elu(call: &mut Call) -> Outputs {
    let alpha = call.float_or("alpha", 1.0)?;
    apply(call, Unary::Elu { alpha })
}

fn gelu(call: &mut Call) -> Outputs {
    let tanh = match call.text_or("approximate", "none")?.as_str() {
        "none" => false,
        "tanh" => true,
        other => return Err(Failure::invalid(format!("`approximate` is `{other}`"))),
    };
    apply(call, Unary::Gelu { tanh })
}

fn hard_sigmoid(call: &mut Call) -> Outputs {
    let (alpha, beta) = (call.float_or("alpha", 0.2)?, call.float_or("beta", 0.5)?);
    apply(call, Unary::HardSigmoid { alpha, beta })
}

fn is_inf(call: &mut Call) -> Outputs {
    let (negative, positive) = (call.flag("detect_negative", true)?, call.flag("detect_positive", true)?);
    apply(call, Unary::IsInf { negative, positive })
}

fn leaky_relu(call: &mut Call) -> Outputs {
    let alpha = call.float_or("alpha", 0.01)?;
    apply(call, Unary::LeakyRelu { alpha })
}

fn selu(call: &mut Call) -> Outputs {
    let alpha = call.float_or("alpha", 1.673_263_2)?;
    let gamma = call.float_or("gamma", 1.050_701)?;
    apply(call, Unary::Selu { alpha, gamma })
}

fn shrink(call: &mut Call) -> Outputs {
    let (bias, lambda) = (call.float_or("bias", 0.0)?, call.float_or("lambd", 0.5)?);
    apply(call, Unary::Shrink { bias, lambda })
}

fn swish(call: &mut Call) -> Outputs {
    let alpha = call.float_or("alpha", 1.0)?;
    apply(call, Unary::Swish { alpha })
}

fn swi_glu(call: &mut Call) -> Outputs {
    let alpha = call.float_or("alpha", 1.0)?;
    let (gate, value) = (call.input(0)?, call.input(1)?);
    let gate = call.builder.unary(Unary::Swish { alpha }, gate)?;
    Ok(vec![call.builder.mul(gate, value)?])
}

fn thresholded_relu(call: &mut Call) -> Outputs {
    let alpha = call.float_or("alpha", 1.0)?;
    apply(call, Unary::ThresholdedRelu { alpha })
}

fn identity(call: &mut Call) -> Outputs {
    Ok(vec![call.input(0)?])
}

/// Does nothing in inference; the mask is all true.
fn dropout(call: &mut Call) -> Outputs {
    let x = call.input(0)?;
    if let Some(training) = call.known(2, "the training mode")?
        && training.to_f64().first().is_some_and(|&on| on != 0.0)
    {
        let ratio = call.known(1, "the ratio")?.map_or(0.5, |r| r.to_f64().first().copied().unwrap_or(0.5));
        if ratio != 0.0 {
            return Err(Failure::unsupported(
                "dropout in training mode is random",
                "export the model for inference",
            ));
        }
    }
    let mut outputs = vec![x];
    if call.wants(1) {
        let shape = call.shape(x);
        let mask = if call.opset >= 10 {
            talweg_tensor::Tensor::from_bools([], [true])
        } else {
            talweg_tensor::Tensor::from_f64(call.element(x), [], [1.0])
        };
        outputs.push(call.builder.filled(mask, shape)?);
    }
    Ok(outputs)
}

fn cast(call: &mut Call) -> Outputs {
    let x = call.input(0)?;
    let to = call.element_attribute("to")?.ok_or_else(|| Failure::invalid("attribute `to` is missing"))?;
    Ok(vec![call.builder.cast(x, to)?])
}

fn cast_like(call: &mut Call) -> Outputs {
    let (x, like) = (call.input(0)?, call.input(1)?);
    let to = call.element(like);
    Ok(vec![call.builder.cast(x, to)?])
}

/// Bounds are attributes before operator set 11, then inputs, which need not be constants.
fn clip(call: &mut Call) -> Outputs {
    let x = call.input(0)?;
    let element = call.element(x);
    if call.opset < 11 {
        let (min, max) = (call.float("min")?.map(f64::from), call.float("max")?.map(f64::from));
        return Ok(vec![call.builder.unary(Unary::Clip { min, max }, x)?]);
    }
    let exact = |value: f64| element.is_float() || value.abs() <= 9_007_199_254_740_992.0;
    let bound = |index: usize| match call.optional(index) {
        None => Some(None),
        Some(id) => {
            let tensor = call.builder.known(id).filter(|tensor| tensor.len() == 1)?;
            let value = tensor.to_f64()[0];
            exact(value).then_some(Some(value))
        }
    };
    if let (Some(min), Some(max)) = (bound(1), bound(2)) {
        if min.is_none() && max.is_none() {
            return Ok(vec![x]);
        }
        return Ok(vec![call.builder.unary(Unary::Clip { min, max }, x)?]);
    }
    let mut y = x;
    for (index, f) in [(1, Binary::Max), (2, Binary::Min)] {
        if let Some(bound) = call.optional(index) {
            let bound = call.builder.reshape(bound, vec![])?;
            y = call.builder.binary(f, y, bound)?;
        }
    }
    Ok(vec![y])
}
