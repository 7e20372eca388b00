//! Activation functions and other functions of one value.

use std::fmt;

use talweg_ir::{ArithOp, DType, MathOp, Scalar};

/// A function of one value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Activation {
    /// `max(x, 0)`.
    Relu,
    /// `min(max(x, 0), 6)`.
    Relu6,
    /// `x / 2 * (1 + erf(x / sqrt 2))`.
    Gelu,
    /// The tanh approximation of gelu.
    GeluTanh,
    /// `x * sigmoid(x)`.
    Silu,
    /// `1 / (1 + exp(-x))`.
    Sigmoid,
    /// Hyperbolic tangent.
    Tanh,
    /// `x * min(max(x + 3, 0), 6) / 6`.
    HardSwish,
    /// `min(max(x / 6 + 1 / 2, 0), 1)`.
    HardSigmoid,
    /// `x` above 0, `alpha * (exp(x) - 1)` below.
    Elu(f64),
    /// `x` above 0, `alpha * x` below.
    LeakyRelu(f64),
    /// `x * x`.
    Square,
    /// A function the scalar language has itself.
    Math(MathOp),
}

/// Slope of `elu` when none is given.
const ELU_ALPHA: f64 = 1.0;
/// Slope of `leaky_relu` when none is given.
const LEAKY_ALPHA: f64 = 0.01;

impl Activation {
    /// All functions with their names; those with a slope carry its default.
    pub const ALL: [(&'static str, Activation); 24] = [
        ("relu", Activation::Relu),
        ("relu6", Activation::Relu6),
        ("gelu", Activation::Gelu),
        ("gelu_tanh", Activation::GeluTanh),
        ("silu", Activation::Silu),
        ("sigmoid", Activation::Sigmoid),
        ("tanh", Activation::Tanh),
        ("hardswish", Activation::HardSwish),
        ("hardsigmoid", Activation::HardSigmoid),
        ("elu", Activation::Elu(ELU_ALPHA)),
        ("leaky_relu", Activation::LeakyRelu(LEAKY_ALPHA)),
        ("square", Activation::Square),
        ("neg", Activation::Math(MathOp::Neg)),
        ("abs", Activation::Math(MathOp::Abs)),
        ("exp", Activation::Math(MathOp::Exp)),
        ("log", Activation::Math(MathOp::Log)),
        ("sqrt", Activation::Math(MathOp::Sqrt)),
        ("rsqrt", Activation::Math(MathOp::Rsqrt)),
        ("erf", Activation::Math(MathOp::Erf)),
        ("sin", Activation::Math(MathOp::Sin)),
        ("cos", Activation::Math(MathOp::Cos)),
        ("floor", Activation::Math(MathOp::Floor)),
        ("ceil", Activation::Math(MathOp::Ceil)),
        ("round", Activation::Math(MathOp::Round)),
    ];

    /// The name used in text, without a slope.
    pub fn name(self) -> &'static str {
        let same = |a: Activation| std::mem::discriminant(&a) == std::mem::discriminant(&self);
        Activation::ALL
            .into_iter()
            .find(|(_, a)| match (a, self) {
                (Activation::Math(p), Activation::Math(q)) => *p == q,
                _ => same(*a),
            })
            .map_or("not", |(name, _)| name)
    }

    /// Reads `name` or, for the functions with a slope, `name(slope)`.
    pub fn parse(text: &str) -> Option<Activation> {
        let Some((name, rest)) = text.split_once('(') else {
            return Activation::ALL.into_iter().find(|(n, _)| *n == text).map(|(_, a)| a);
        };
        let slope: f64 = rest.strip_suffix(')')?.trim().parse().ok()?;
        if !slope.is_finite() {
            return None;
        }
        match name {
            "elu" => Some(Activation::Elu(slope)),
            "leaky_relu" => Some(Activation::LeakyRelu(slope)),
            _ => None,
        }
    }

    /// Whether the function makes sense on integers.
    pub fn accepts(self, dtype: DType) -> bool {
        let integral = matches!(
            self,
            Activation::Relu
                | Activation::Relu6
                | Activation::Square
                | Activation::Math(MathOp::Neg | MathOp::Abs)
        );
        match self {
            Activation::Math(MathOp::Not) => dtype == DType::Bool,
            _ => dtype.is_float() || (integral && dtype.is_int()),
        }
    }

    /// How often the operand occurs in the result.
    pub(crate) fn uses(self) -> usize {
        match self {
            Activation::GeluTanh => 4,
            Activation::Elu(_) => 3,
            Activation::Gelu
            | Activation::Silu
            | Activation::HardSwish
            | Activation::LeakyRelu(_)
            | Activation::Square => 2,
            _ => 1,
        }
    }

    /// The function of a value of type `dtype`, which it must accept.
    pub fn apply(self, x: Scalar, dtype: DType) -> Scalar {
        let c = |v: f64| Scalar::constant(v, dtype);
        match self {
            Activation::Relu => x.max(c(0.0)),
            Activation::Relu6 => x.max(c(0.0)).min(c(6.0)),
            Activation::Gelu => {
                let half = x.clone() * c(0.5);
                let erf = Scalar::unary(MathOp::Erf, x * c(std::f64::consts::FRAC_1_SQRT_2));
                half * (erf + c(1.0))
            }
            Activation::GeluTanh => {
                let cubic = x.clone() * x.clone() * c(0.044_715) + c(1.0);
                let root = (2.0 / std::f64::consts::PI).sqrt();
                let tanh = Scalar::unary(MathOp::Tanh, x.clone() * c(root) * cubic);
                x * c(0.5) * (tanh + c(1.0))
            }
            Activation::Silu => x.clone() * Scalar::unary(MathOp::Sigmoid, x),
            Activation::Sigmoid => Scalar::unary(MathOp::Sigmoid, x),
            Activation::Tanh => Scalar::unary(MathOp::Tanh, x),
            Activation::HardSwish => {
                let gate = (x.clone() + c(3.0)).max(c(0.0)).min(c(6.0));
                x * gate * c(1.0 / 6.0)
            }
            Activation::HardSigmoid => (x * c(1.0 / 6.0) + c(0.5)).max(c(0.0)).min(c(1.0)),
            Activation::Elu(alpha) => {
                let below = (Scalar::unary(MathOp::Exp, x.clone()) - c(1.0)) * c(alpha);
                Scalar::select(Scalar::binary(ArithOp::Lt, c(0.0), x.clone()), x, below)
            }
            Activation::LeakyRelu(alpha) if (0.0..=1.0).contains(&alpha) => x.clone().max(x * c(alpha)),
            Activation::LeakyRelu(alpha) => {
                Scalar::select(Scalar::binary(ArithOp::Lt, c(0.0), x.clone()), x.clone(), x * c(alpha))
            }
            Activation::Square => x.clone() * x,
            Activation::Math(op) => Scalar::unary(op, x),
        }
    }
}

impl fmt::Display for Activation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        match self {
            Activation::Elu(a) if *a != ELU_ALPHA => write!(f, "({a})"),
            Activation::LeakyRelu(a) if *a != LEAKY_ALPHA => write!(f, "({a})"),
            _ => Ok(()),
        }
    }
}
