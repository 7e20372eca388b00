//! What is computed for one element: reads, arithmetic and math functions over index expressions.
//! Tensor expressions and loop nests share this language.

use std::ops::{Add, Div, Mul, Neg, Sub};
use std::sync::Arc;

use talweg_expr::{Expr, Symbol, Ty};

use crate::dtype::DType;

/// A tensor of a [`crate::te::Dag`], or a buffer of a [`crate::nest::Nest`]: the position in its owner's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TensorId(pub u32);

impl TensorId {
    /// The position in the owner's table.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Functions of one operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum MathOp {
    Neg,
    Abs,
    Exp,
    Log,
    Sqrt,
    /// One over the square root.
    Rsqrt,
    Tanh,
    /// `1 / (1 + exp(-x))`.
    Sigmoid,
    Erf,
    Sin,
    Cos,
    Floor,
    Ceil,
    /// To the nearest integer, ties to even.
    Round,
    /// Logical negation of a truth value.
    Not,
}

/// Functions of two operands of one type; comparisons give a truth value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum ArithOp {
    Add,
    Sub,
    Mul,
    /// Real quotient for floats; truncated towards zero for integers, and 0 when the divisor is 0.
    Div,
    /// Remainder with the sign of the dividend; 0 when an integer divisor is 0.
    Rem,
    Max,
    Min,
    Pow,
    Lt,
    Le,
    Eq,
    Ne,
    And,
    Or,
}

impl ArithOp {
    /// True when the result is a truth value.
    pub fn is_predicate(self) -> bool {
        matches!(self, ArithOp::Lt | ArithOp::Le | ArithOp::Eq | ArithOp::Ne | ArithOp::And | ArithOp::Or)
    }
}

/// How a reduction combines values, and what it starts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reducer {
    /// Sum, from 0.
    Sum,
    /// Product, from 1.
    Prod,
    /// Maximum, from the smallest value (minus infinity for floats).
    Max,
    /// Minimum, from the largest value (infinity for floats).
    Min,
}

impl Reducer {
    /// The operator that combines two values.
    pub fn op(self) -> ArithOp {
        match self {
            Reducer::Sum => ArithOp::Add,
            Reducer::Prod => ArithOp::Mul,
            Reducer::Max => ArithOp::Max,
            Reducer::Min => ArithOp::Min,
        }
    }

    /// The neutral value the reduction starts from.
    pub fn identity(self, dtype: DType) -> Scalar {
        let int_range = match dtype {
            DType::I8 => (i64::from(i8::MIN), i64::from(i8::MAX)),
            DType::U8 => (0, i64::from(u8::MAX)),
            DType::I32 => (i64::from(i32::MIN), i64::from(i32::MAX)),
            DType::Bool => (0, 1),
            _ => (i64::MIN, i64::MAX),
        };
        let (float, int) = match self {
            Reducer::Sum => (0.0, 0),
            Reducer::Prod => (1.0, 1),
            Reducer::Max => (f64::NEG_INFINITY, int_range.0),
            Reducer::Min => (f64::INFINITY, int_range.1),
        };
        if dtype.is_float() { Scalar::Float(float, dtype) } else { Scalar::Int(int, dtype) }
    }
}

/// The value of one element.
#[derive(Clone, Debug, PartialEq)]
pub enum Scalar {
    /// A floating-point constant of a float type.
    Float(f64, DType),
    /// A constant of an integer type or `Bool` (0 or 1).
    Int(i64, DType),
    /// An index expression used as a value: integer expressions of an integer or float type, truth expressions of
    /// type `Bool`.
    Index(Expr, DType),
    /// An element of a tensor.
    Read(TensorId, Vec<Expr>),
    /// A function of one operand; `Not` takes and gives `Bool`, the others keep the type.
    Unary(MathOp, Arc<Scalar>),
    /// A function of two operands of one type.
    Binary(ArithOp, Arc<Scalar>, Arc<Scalar>),
    /// `select(condition, then, otherwise)`. When the condition is a `Scalar::Index`, it guards: reads of the side not
    /// chosen are not performed and may be out of bounds.
    Select(Arc<Scalar>, Arc<Scalar>, Arc<Scalar>),
    /// Conversion; floats to integers truncate towards zero and saturate.
    Cast(DType, Arc<Scalar>),
}

impl Scalar {
    /// An f32 constant.
    pub fn f32(value: f64) -> Scalar {
        Scalar::Float(value, DType::F32)
    }

    /// A constant of any type; truncated for integer types.
    pub fn constant(value: f64, dtype: DType) -> Scalar {
        if dtype.is_float() { Scalar::Float(value, dtype) } else { Scalar::Int(value as i64, dtype) }
    }

    /// A truth value that guards: an index predicate.
    pub fn predicate(condition: Expr) -> Scalar {
        Scalar::Index(condition, DType::Bool)
    }

    /// A function of one operand.
    pub fn unary(op: MathOp, a: Scalar) -> Scalar {
        Scalar::Unary(op, Arc::new(a))
    }

    /// A function of two operands.
    pub fn binary(op: ArithOp, a: Scalar, b: Scalar) -> Scalar {
        Scalar::Binary(op, Arc::new(a), Arc::new(b))
    }

    /// `select(condition, then, otherwise)`.
    pub fn select(c: Scalar, a: Scalar, b: Scalar) -> Scalar {
        Scalar::Select(Arc::new(c), Arc::new(a), Arc::new(b))
    }

    /// Conversion to another type.
    pub fn cast(self, dtype: DType) -> Scalar {
        Scalar::Cast(dtype, Arc::new(self))
    }

    /// Larger of two.
    pub fn max(self, other: Scalar) -> Scalar {
        Scalar::binary(ArithOp::Max, self, other)
    }

    /// Smaller of two.
    pub fn min(self, other: Scalar) -> Scalar {
        Scalar::binary(ArithOp::Min, self, other)
    }

    /// The type of the value, given the types of the tensors read.
    pub fn dtype(&self, of: &dyn Fn(TensorId) -> DType) -> DType {
        match self {
            Scalar::Float(_, d) | Scalar::Int(_, d) | Scalar::Cast(d, _) => *d,
            Scalar::Index(e, d) => {
                if e.ty() == Ty::Bool {
                    DType::Bool
                } else {
                    *d
                }
            }
            Scalar::Read(t, _) => of(*t),
            Scalar::Unary(_, a) => a.dtype(of),
            Scalar::Binary(op, a, _) => {
                if op.is_predicate() {
                    DType::Bool
                } else {
                    a.dtype(of)
                }
            }
            Scalar::Select(_, a, _) => a.dtype(of),
        }
    }

    /// Calls `f` on every node, parents first.
    pub fn visit(&self, f: &mut dyn FnMut(&Scalar)) {
        f(self);
        match self {
            Scalar::Unary(_, a) | Scalar::Cast(_, a) => a.visit(f),
            Scalar::Binary(_, a, b) => {
                a.visit(f);
                b.visit(f);
            }
            Scalar::Select(c, a, b) => {
                c.visit(f);
                a.visit(f);
                b.visit(f);
            }
            _ => {}
        }
    }

    /// Every read, in order of occurrence.
    pub fn reads(&self) -> Vec<(TensorId, Vec<Expr>)> {
        let mut out = Vec::new();
        self.visit(&mut |s| {
            if let Scalar::Read(t, idx) = s {
                out.push((*t, idx.clone()));
            }
        });
        out
    }

    /// Rebuilds the value: `index` rewrites index expressions, `read` replaces reads (after their indices were
    /// rewritten).
    pub fn map(
        &self,
        index: &mut dyn FnMut(&Expr) -> Expr,
        read: &mut dyn FnMut(TensorId, Vec<Expr>) -> Scalar,
    ) -> Scalar {
        match self {
            Scalar::Float(..) | Scalar::Int(..) => self.clone(),
            Scalar::Index(e, d) => Scalar::Index(index(e), *d),
            Scalar::Read(t, idx) => {
                let idx = idx.iter().map(&mut *index).collect();
                read(*t, idx)
            }
            Scalar::Unary(op, a) => Scalar::unary(*op, a.map(index, read)),
            Scalar::Binary(op, a, b) => {
                let a = a.map(index, read);
                Scalar::binary(*op, a, b.map(index, read))
            }
            Scalar::Select(c, a, b) => {
                let c = c.map(index, read);
                if let Scalar::Index(e, _) = &c
                    && let Some(v) = e.as_bool()
                {
                    return if v { a.map(index, read) } else { b.map(index, read) };
                }
                let a = a.map(index, read);
                Scalar::select(c, a, b.map(index, read))
            }
            Scalar::Cast(d, a) => a.map(index, read).cast(*d),
        }
    }

    /// Substitutes symbols in every index expression.
    pub fn subst(&self, by: &dyn Fn(&Symbol) -> Option<Expr>) -> Scalar {
        self.map(&mut |e| e.subst(by), &mut Scalar::Read)
    }
}

impl Add for Scalar {
    type Output = Scalar;
    fn add(self, rhs: Scalar) -> Scalar {
        Scalar::binary(ArithOp::Add, self, rhs)
    }
}

impl Sub for Scalar {
    type Output = Scalar;
    fn sub(self, rhs: Scalar) -> Scalar {
        Scalar::binary(ArithOp::Sub, self, rhs)
    }
}

impl Mul for Scalar {
    type Output = Scalar;
    fn mul(self, rhs: Scalar) -> Scalar {
        Scalar::binary(ArithOp::Mul, self, rhs)
    }
}

impl Div for Scalar {
    type Output = Scalar;
    fn div(self, rhs: Scalar) -> Scalar {
        Scalar::binary(ArithOp::Div, self, rhs)
    }
}

impl Neg for Scalar {
    type Output = Scalar;
    fn neg(self) -> Scalar {
        Scalar::unary(MathOp::Neg, self)
    }
}
