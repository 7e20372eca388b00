//! Functions of one, two and three elements as scalars.

use talweg_ir::{ArithOp, DType, MathOp, Scalar};
use talweg_ops::Activation;
use talweg_tensor::Op;
use talweg_tensor::op::{Binary, Unary};

use super::dtype_of;

/// The number of operands of an elementwise operator; `None` for any other.
pub(crate) fn arity(op: &Op) -> Option<usize> {
    match op {
        Op::Unary(_) | Op::Cast { .. } => Some(1),
        Op::Binary(_) => Some(2),
        Op::Where => Some(3),
        _ => None,
    }
}

/// How often the operand of an operator occurs in its result, at most.
pub(crate) fn uses(op: &Op) -> usize {
    match op {
        Op::Unary(Unary::Mish | Unary::Asinh | Unary::Atan | Unary::Asin | Unary::Acos) => 6,
        Op::Unary(Unary::Gelu { tanh: true }) => 4,
        Op::Unary(
            Unary::Elu { .. }
            | Unary::Celu { .. }
            | Unary::Selu { .. }
            | Unary::Softplus
            | Unary::Sign
            | Unary::Shrink { .. },
        ) => 3,
        Op::Unary(Unary::Relu | Unary::Sigmoid | Unary::Clip { .. }) | Op::Cast { .. } => 1,
        Op::Unary(_) => 2,
        _ => 1,
    }
}

/// An elementwise operator of operands of the given types; `None` when scalars cannot say it. Half floats are computed
/// in f32 and rounded after every operator.
pub(crate) fn combine(op: &Op, operands: Vec<Scalar>, types: &[DType], result: DType) -> Option<Scalar> {
    let widen = |value: Scalar, d: DType| if is_half(d) { value.cast(DType::F32) } else { value };
    let wide = |d: DType| if is_half(d) { DType::F32 } else { d };
    let mut operands = operands.into_iter().zip(types).map(|(v, d)| (widen(v, *d), wide(*d)));
    let mut next = || operands.next();
    let (value, computed) = match op {
        Op::Unary(f) => {
            let (x, d) = next()?;
            (unary(*f, x, d)?, if predicate(*f) { DType::Bool } else { d })
        }
        Op::Binary(f) => {
            let ((a, d), (b, e)) = (next()?, next()?);
            let b = if d == e { b } else { (*f == Binary::Pow && d.is_float()).then(|| b.cast(d))? };
            (binary(*f, a, b, d)?, if f.is_comparison() { DType::Bool } else { d })
        }
        Op::Where => {
            let ((c, _), (a, d), (b, _)) = (next()?, next()?, next()?);
            (Scalar::select(c, a, b), d)
        }
        Op::Cast { to } => {
            let (x, from) = next()?;
            let to = wide(dtype_of(*to)?);
            (cast(x, from, to), to)
        }
        _ => return None,
    };
    Some(if computed == result { value } else { value.cast(result) })
}

fn is_half(dtype: DType) -> bool {
    matches!(dtype, DType::F16 | DType::BF16)
}

fn predicate(f: Unary) -> bool {
    matches!(f, Unary::IsNan | Unary::IsInf { .. })
}

fn cast(x: Scalar, from: DType, to: DType) -> Scalar {
    match to {
        _ if from == to => x,
        DType::Bool => Scalar::binary(ArithOp::Ne, x, Scalar::constant(0.0, from)),
        _ => x.cast(to),
    }
}

fn unary(f: Unary, x: Scalar, d: DType) -> Option<Scalar> {
    let math = |op: MathOp, x: Scalar| Scalar::unary(op, x);
    match (f, d) {
        (Unary::Identity, _) => return Some(x),
        (Unary::Not, DType::Bool) => return Some(math(MathOp::Not, x)),
        (_, DType::Bool) => return None,
        _ => {}
    }
    let c = |v: f64| Scalar::constant(v, d);
    // Functions of any number.
    match f {
        Unary::Abs => return Some(if d == DType::U8 { x } else { math(MathOp::Abs, x) }),
        Unary::Neg => return Some(math(MathOp::Neg, x)),
        Unary::Relu => return Some(x.max(c(0.0))),
        Unary::Sign => {
            let negative = select(ArithOp::Lt, x.clone(), c(0.0), c(-1.0), c(0.0));
            // A NaN is neither, and stays what it is for floats.
            let positive = select(ArithOp::Lt, c(0.0), x.clone(), c(1.0), negative);
            return (d != DType::U8).then_some(positive);
        }
        Unary::Clip { min, max } => {
            let exact =
                |v: f64| d.is_float() || (v.fract() == 0.0 && v.abs() < 2f64.powi(31) && in_range(v, d));
            if !min.is_none_or(exact) || !max.is_none_or(exact) {
                return None;
            }
            let x = min.map_or(x.clone(), |v| x.max(c(v)));
            return Some(max.map_or(x.clone(), |v| x.min(c(v))));
        }
        _ => {}
    }
    if d != DType::F32 {
        return None;
    }
    Some(match f {
        Unary::Reciprocal => c(1.0) / x,
        Unary::Sqrt => math(MathOp::Sqrt, x),
        Unary::Exp => math(MathOp::Exp, x),
        Unary::Log => math(MathOp::Log, x),
        Unary::Ceil => math(MathOp::Ceil, x),
        Unary::Floor => math(MathOp::Floor, x),
        Unary::Round => math(MathOp::Round, x),
        Unary::Sin => math(MathOp::Sin, x),
        Unary::Cos => math(MathOp::Cos, x),
        Unary::Tan => math(MathOp::Sin, x.clone()) / math(MathOp::Cos, x),
        Unary::Sinh => (math(MathOp::Exp, x.clone()) - math(MathOp::Exp, -x)) * c(0.5),
        Unary::Cosh => (math(MathOp::Exp, x.clone()) + math(MathOp::Exp, -x)) * c(0.5),
        Unary::Tanh => math(MathOp::Tanh, x),
        Unary::Erf => math(MathOp::Erf, x),
        Unary::Sigmoid => math(MathOp::Sigmoid, x),
        Unary::Softplus => {
            // max(x, 0) + log(1 + exp(-|x|)), which does not overflow.
            let small = math(MathOp::Exp, -math(MathOp::Abs, x.clone()));
            x.max(c(0.0)) + math(MathOp::Log, small + c(1.0))
        }
        Unary::Softsign => x.clone() / (math(MathOp::Abs, x) + c(1.0)),
        Unary::Mish => {
            let softplus = unary(Unary::Softplus, x.clone(), d)?;
            x * math(MathOp::Tanh, softplus)
        }
        Unary::HardSwish => Activation::HardSwish.apply(x, d),
        Unary::LeakyRelu { alpha } => Activation::LeakyRelu(f64::from(alpha)).apply(x, d),
        Unary::ThresholdedRelu { alpha } => {
            let alpha = c(f64::from(alpha));
            select(ArithOp::Lt, alpha, x.clone(), x, c(0.0))
        }
        Unary::Elu { alpha } => Activation::Elu(f64::from(alpha)).apply(x, d),
        Unary::Celu { alpha } => {
            let alpha = f64::from(alpha);
            let below = (math(MathOp::Exp, x.clone() * c(1.0 / alpha)) - c(1.0)) * c(alpha);
            select(ArithOp::Lt, c(0.0), x.clone(), x, below)
        }
        Unary::Selu { alpha, gamma } => {
            let below = (math(MathOp::Exp, x.clone()) - c(1.0)) * c(f64::from(alpha));
            select(ArithOp::Lt, c(0.0), x.clone(), x, below) * c(f64::from(gamma))
        }
        Unary::HardSigmoid { alpha, beta } => {
            (x * c(f64::from(alpha)) + c(f64::from(beta))).max(c(0.0)).min(c(1.0))
        }
        Unary::Gelu { tanh: false } => Activation::Gelu.apply(x, d),
        Unary::Gelu { tanh: true } => Activation::GeluTanh.apply(x, d),
        Unary::Swish { alpha: 1.0 } => Activation::Silu.apply(x, d),
        Unary::Swish { alpha } => x.clone() * math(MathOp::Sigmoid, x * c(f64::from(alpha))),
        Unary::Shrink { bias, lambda } => {
            let (bias, lambda) = (f64::from(bias), f64::from(lambda));
            let above = select(ArithOp::Lt, c(lambda), x.clone(), x.clone() - c(bias), c(0.0));
            select(ArithOp::Lt, x.clone(), c(-lambda), x + c(bias), above)
        }
        Unary::IsNan => Scalar::binary(ArithOp::Ne, x.clone(), x),
        // Without a polynomial of their own these lose too many digits near zero.
        _ => return None,
    })
}

fn in_range(value: f64, dtype: DType) -> bool {
    match dtype {
        DType::I8 => (-128.0..=127.0).contains(&value),
        DType::U8 => (0.0..=255.0).contains(&value),
        _ => true,
    }
}

fn select(op: ArithOp, a: Scalar, b: Scalar, then: Scalar, otherwise: Scalar) -> Scalar {
    Scalar::select(Scalar::binary(op, a, b), then, otherwise)
}

fn binary(f: Binary, a: Scalar, b: Scalar, d: DType) -> Option<Scalar> {
    let is_bool = d == DType::Bool;
    let number = |op: ArithOp, a: Scalar, b: Scalar| (!is_bool).then(|| Scalar::binary(op, a, b));
    match f {
        Binary::Add => number(ArithOp::Add, a, b),
        Binary::Sub => number(ArithOp::Sub, a, b),
        Binary::Mul => number(ArithOp::Mul, a, b),
        Binary::Div => number(ArithOp::Div, a, b),
        Binary::Max => number(ArithOp::Max, a, b),
        Binary::Min => number(ArithOp::Min, a, b),
        Binary::Mod { truncated: true } => number(ArithOp::Rem, a, b),
        Binary::Mod { truncated: false } if d.is_int() => {
            let rest = Scalar::binary(ArithOp::Rem, a, b.clone());
            Some(Scalar::binary(ArithOp::Rem, rest + b.clone(), b))
        }
        Binary::Pow => d.is_float().then(|| Scalar::binary(ArithOp::Pow, a, b)),
        Binary::And => is_bool.then(|| Scalar::binary(ArithOp::And, a, b)),
        Binary::Or => is_bool.then(|| Scalar::binary(ArithOp::Or, a, b)),
        Binary::Xor => is_bool.then(|| Scalar::binary(ArithOp::Ne, a, b)),
        Binary::Equal => Some(Scalar::binary(ArithOp::Eq, a, b)),
        Binary::Less => number(ArithOp::Lt, a, b),
        Binary::LessOrEqual => number(ArithOp::Le, a, b),
        Binary::Greater => number(ArithOp::Lt, b, a),
        Binary::GreaterOrEqual => number(ArithOp::Le, b, a),
        Binary::PRelu => {
            let zero = Scalar::constant(0.0, d);
            (!is_bool).then(|| select(ArithOp::Lt, a.clone(), zero, a.clone() * b, a))
        }
        _ => None,
    }
}
