//! The Gaussian error linear unit, by the error function or by `tanh`, however its halves are arranged.
//!
//! ```text
//! Mul(Mul(x, Add(Erf(Mul(x, 0.7071)), 1)), 0.5)                              ->   Gelu(x)
//! Mul(Mul(x, 0.5), Add(Tanh(Mul(Add(x, Mul(x^3, 0.0447)), 0.7979)), 1))      ->   Gelu(x, tanh)
//! ```

use talweg_tensor::Op;
use talweg_tensor::op::{Binary, Unary};

use crate::graph::{NodeId, ValueId};
use crate::rewrite::{Context, Edit, node};

pub(super) fn apply(context: &mut Context<'_>, id: NodeId) -> Option<Edit> {
    let matched = context.node(id);
    let output = matched.outputs[0];
    let pairs = orders(context.operands(output, Binary::Mul)?);
    let found = pairs.into_iter().find_map(|(a, b)| {
        // Halved last, or `x` halved first, or the other factor.
        if let Some(product) = context.scaled_by(output, 0.5) {
            let pairs = orders(context.operands(product, Binary::Mul)?);
            return pairs.into_iter().find_map(|(x, e)| gate(context, x, e).map(|tanh| (x, tanh)));
        }
        let x = context.scaled_by(a, 0.5);
        x.and_then(|x| gate(context, x, b).map(|tanh| (x, tanh)))
            .or_else(|| context.scaled_by(b, 0.5).and_then(|e| gate(context, a, e)).map(|tanh| (a, tanh)))
    });
    let (x, tanh) = found?;
    (context.is_f32(x) && context.shape(x) == context.shape(output)).then(|| {
        let op = Op::Unary(Unary::Gelu { tanh });
        Edit::Nodes(vec![node(matched.name.clone(), op, &[x], output)])
    })
}

fn orders((a, b): (ValueId, ValueId)) -> [(ValueId, ValueId); 2] {
    [(a, b), (b, a)]
}

/// Whether `gate` is `1 + erf(x / sqrt 2)` (false) or `1 + tanh(...)` (true).
fn gate(context: &Context<'_>, x: ValueId, gate: ValueId) -> Option<bool> {
    let inner = context.raised_by(gate, 1.0)?;
    if let Some(scaled) = context.operand(inner, Unary::Erf) {
        let source = context.scaled_by(scaled, std::f64::consts::FRAC_1_SQRT_2)?;
        return (source == x).then_some(false);
    }
    let scaled = context.operand(inner, Unary::Tanh)?;
    let sum = context.scaled_by(scaled, (2.0 / std::f64::consts::PI).sqrt())?;
    let cubic = orders(context.operands(sum, Binary::Add)?).into_iter().find(|(a, _)| *a == x)?.1;
    let cube = context.scaled_by(cubic, 0.044_715)?;
    let is_power = context.operands(cube, Binary::Pow).is_some_and(|(base, exponent)| {
        base == x && context.constant(exponent).is_some_and(|t| t.len() == 1 && t.to_f64()[0] == 3.0)
    });
    let is_product = context.operands(cube, Binary::Mul).is_some_and(|pair| {
        orders(pair)
            .into_iter()
            .any(|(a, square)| a == x && context.operands(square, Binary::Mul) == Some((x, x)))
    });
    (is_power || is_product).then_some(true)
}
