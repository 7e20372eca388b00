//! Scalars and index expressions compiled to nodes over numbered variables.

use talweg_expr::{BinaryOp, Expr, Node as ExprNode, Symbol, Ty, UnaryOp};

use super::InterpError;
use super::value::{round, takes_int, wrap};
use crate::dtype::DType;
use crate::scalar::{ArithOp, MathOp, Scalar, TensorId};

/// `constant + sum(coefficient * variable)`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Linear {
    pub constant: i64,
    pub terms: Vec<(usize, i64)>,
}

impl Linear {
    /// The value for variables.
    #[inline]
    pub fn at(&self, slots: &[i64]) -> i64 {
        self.terms.iter().fold(self.constant, |sum, (slot, c)| sum.wrapping_add(c.wrapping_mul(slots[*slot])))
    }

    /// The coefficient of a variable.
    #[inline]
    pub fn coefficient(&self, slot: usize) -> i64 {
        self.terms.iter().find(|(s, _)| *s == slot).map_or(0, |(_, c)| *c)
    }

    fn add_scaled(&mut self, other: &Linear, scale: i64) {
        self.constant = self.constant.wrapping_add(other.constant.wrapping_mul(scale));
        for (slot, c) in &other.terms {
            let c = c.wrapping_mul(scale);
            match self.terms.iter_mut().find(|(s, _)| s == slot) {
                Some((_, mine)) => *mine = mine.wrapping_add(c),
                None => self.terms.push((*slot, c)),
            }
        }
        self.terms.retain(|(_, c)| *c != 0);
    }

    /// Smallest and largest value when every variable runs over `0..extent`.
    fn range(&self, extents: &[i64]) -> (i128, i128) {
        let start = i128::from(self.constant);
        self.terms.iter().fold((start, start), |(lo, hi), (slot, c)| {
            let end = i128::from(*c) * i128::from((extents[*slot] - 1).max(0));
            (lo + end.min(0), hi + end.max(0))
        })
    }
}

/// One operation; operands are positions of earlier nodes.
#[derive(Clone, Debug)]
pub(crate) enum Node {
    Float(f64),
    Int(i64),
    /// An affine index expression.
    Linear(Linear),
    /// Comparison of an affine index expression with zero.
    LinearCompare(BinaryOp, Linear),
    /// Operator of index expressions; `expr` for messages.
    Index(BinaryOp, usize, usize, Expr),
    IndexNot(usize),
    IndexAbs(usize, Expr),
    Read(Box<Read>),
    UnaryFloat(MathOp, usize),
    UnaryInt(MathOp, usize, DType),
    BinaryFloat(ArithOp, usize, usize),
    BinaryInt(ArithOp, usize, usize, DType),
    /// A predicate on floats.
    CompareFloat(ArithOp, usize, usize),
    /// `guards`: only the chosen side is evaluated.
    Select {
        condition: usize,
        then: usize,
        otherwise: usize,
        guards: bool,
    },
    /// Conversions.
    Round(usize, DType),
    ToInt(usize, DType),
    ToFloat(usize, DType),
    Wrap(usize, DType),
}

/// A read of one element.
#[derive(Clone, Debug)]
pub(crate) struct Read {
    pub tensor: TensorId,
    /// The index in each dimension.
    pub dims: Vec<usize>,
    /// The flat position, when all indices are affine and the extents are known.
    pub affine: Option<AffineAccess>,
}

/// A flat affine position and the dimensions that may be out of range somewhere in the iteration space.
#[derive(Clone, Debug)]
pub(crate) struct AffineAccess {
    pub offset: Linear,
    pub checks: Vec<(Linear, i64)>,
}

/// A tensor as the compiler of programs sees it; `shape` is `None` when it is known only at run time.
#[derive(Clone, Debug)]
pub(crate) struct Operand {
    pub name: String,
    pub dtype: DType,
    pub rank: usize,
    pub shape: Option<Vec<i64>>,
}

/// Compiles scalars and index expressions of one compute or statement.
pub(crate) struct Compiler<'a> {
    /// For messages.
    pub place: String,
    /// The variables in scope; a variable's slot is its position.
    pub vars: &'a [Symbol],
    /// Extents of the variables, when the iteration space is a box.
    pub extents: Option<&'a [i64]>,
    /// Tensors that may be read.
    pub operands: &'a [Operand],
    /// The result.
    pub nodes: Vec<Node>,
}

impl Compiler<'_> {
    fn push(&mut self, node: Node) -> usize {
        self.nodes.push(node);
        self.nodes.len() - 1
    }

    fn ill_typed(&self, what: impl Into<String>) -> InterpError {
        InterpError::IllTyped { place: self.place.clone(), what: what.into() }
    }

    fn undefined(&self, e: &Expr) -> InterpError {
        InterpError::Undefined { place: self.place.clone(), expr: e.to_string() }
    }

    /// The affine form of an integer expression with constant coefficients.
    pub fn linear(&self, e: &Expr) -> Option<Linear> {
        if e.ty() != Ty::Int {
            return None;
        }
        let affine = e.affine(self.vars)?;
        let mut terms = Vec::new();
        for (slot, c) in affine.coefficients.iter().enumerate() {
            match c.as_int()? {
                0 => {}
                c => terms.push((slot, c)),
            }
        }
        let out = Linear { constant: affine.rest.as_int()?, terms };
        // Without known ranges overflow is only possible for absurd constants; with them it is excluded here.
        const LIMIT: i128 = 1 << 62;
        let (lo, hi) = self.extents.map_or((0, 0), |x| out.range(x));
        (lo > -LIMIT && hi < LIMIT).then_some(out)
    }

    /// Compiles an integer or truth expression; the node's value is an integer.
    pub fn index(&mut self, e: &Expr) -> Result<usize, InterpError> {
        if let Some(linear) = self.linear(e) {
            let node =
                if linear.terms.is_empty() { Node::Int(linear.constant) } else { Node::Linear(linear) };
            return Ok(self.push(node));
        }
        match e.node() {
            ExprNode::Int(v) => Ok(self.push(Node::Int(*v))),
            ExprNode::Bool(v) => Ok(self.push(Node::Int(i64::from(*v)))),
            ExprNode::Sym(s) => match self.vars.iter().position(|v| v == s) {
                Some(slot) => Ok(self.push(Node::Linear(Linear { constant: 0, terms: vec![(slot, 1)] }))),
                None => Err(InterpError::Open { place: self.place.clone(), symbol: s.clone() }),
            },
            ExprNode::Unary(UnaryOp::Not, a) => {
                let a = self.index(a)?;
                Ok(self.push(Node::IndexNot(a)))
            }
            ExprNode::Unary(UnaryOp::Abs, a) => {
                let a = self.index(a)?;
                Ok(self.push(Node::IndexAbs(a, e.clone())))
            }
            ExprNode::Binary(BinaryOp::Div | BinaryOp::Pow, ..) | ExprNode::Real(_) | ExprNode::Unary(..) => {
                Err(self.undefined(e))
            }
            ExprNode::Binary(op @ (BinaryOp::Lt | BinaryOp::Le | BinaryOp::Eq | BinaryOp::Ne), a, b)
                if self.linear(a).is_some() && self.linear(b).is_some() =>
            {
                let (mut left, right) =
                    (self.linear(a).unwrap_or_default(), self.linear(b).unwrap_or_default());
                left.add_scaled(&right, -1);
                Ok(self.push(Node::LinearCompare(*op, left)))
            }
            ExprNode::Binary(op, a, b) => {
                let a = self.index(a)?;
                let b = self.index(b)?;
                Ok(self.push(Node::Index(*op, a, b, e.clone())))
            }
            ExprNode::Select(c, a, b) => {
                let condition = self.index(c)?;
                let then = self.index(a)?;
                let otherwise = self.index(b)?;
                Ok(self.push(Node::Select { condition, then, otherwise, guards: true }))
            }
        }
    }

    /// Compiles a scalar; gives its node and type.
    pub fn scalar(&mut self, s: &Scalar) -> Result<(usize, DType), InterpError> {
        match s {
            Scalar::Float(v, d) if d.is_float() => Ok((self.push(Node::Float(round(*v, *d))), *d)),
            Scalar::Float(v, d) => Err(self.ill_typed(format!("float constant {v} of type {d}"))),
            Scalar::Int(v, d) if !d.is_float() => Ok((self.push(Node::Int(wrap(*v, *d))), *d)),
            Scalar::Int(v, d) => Err(self.ill_typed(format!("integer constant {v} of type {d}"))),
            Scalar::Index(e, d) => {
                let value = self.index(e)?;
                if e.ty() == Ty::Bool {
                    return Ok((value, DType::Bool));
                }
                Ok((self.convert(value, DType::I64, *d), *d))
            }
            Scalar::Read(t, indices) => self.read(*t, indices),
            Scalar::Unary(op, a) => {
                let (a, d) = self.scalar(a)?;
                if *op == MathOp::Not && d != DType::Bool {
                    return Err(
                        self.ill_typed(format!("`not` of a value of type {d}; it takes truth values"))
                    );
                }
                if d.is_float() {
                    return Ok((self.push(Node::UnaryFloat(*op, a)), d));
                }
                if !takes_int(*op) {
                    let what = format!("{op:?} of a value of type {d}; cast it to a float type first");
                    return Err(self.ill_typed(what));
                }
                Ok((self.push(Node::UnaryInt(*op, a, d)), d))
            }
            Scalar::Binary(op, a, b) => self.binary(*op, a, b),
            Scalar::Select(c, a, b) => {
                let guards = matches!(**c, Scalar::Index(..));
                let (condition, dc) = self.scalar(c)?;
                let (then, da) = self.scalar(a)?;
                let (otherwise, db) = self.scalar(b)?;
                if dc != DType::Bool || da != db {
                    let what =
                        format!("select of types {dc}, {da}, {db}; it takes a bool and two of one type");
                    return Err(self.ill_typed(what));
                }
                Ok((self.push(Node::Select { condition, then, otherwise, guards }), da))
            }
            Scalar::Cast(to, a) => {
                let (a, from) = self.scalar(a)?;
                Ok((self.convert(a, from, *to), *to))
            }
        }
    }

    fn convert(&mut self, value: usize, from: DType, to: DType) -> usize {
        match (from.is_float(), to.is_float()) {
            _ if from == to => value,
            (true, true) => self.push(Node::Round(value, to)),
            (true, false) => self.push(Node::ToInt(value, to)),
            (false, true) => self.push(Node::ToFloat(value, to)),
            (false, false) if to == DType::I64 => value,
            (false, false) => self.push(Node::Wrap(value, to)),
        }
    }

    fn binary(&mut self, op: ArithOp, a: &Scalar, b: &Scalar) -> Result<(usize, DType), InterpError> {
        let (a, d) = self.scalar(a)?;
        let (b, db) = self.scalar(b)?;
        if d != db {
            return Err(self.ill_typed(format!("{op:?} of types {d} and {db}; cast one of them")));
        }
        if matches!(op, ArithOp::And | ArithOp::Or) && d != DType::Bool {
            return Err(self.ill_typed(format!("{op:?} of values of type {d}; it takes truth values")));
        }
        let result = if op.is_predicate() { DType::Bool } else { d };
        let node = match (d.is_float(), op.is_predicate()) {
            (true, true) => Node::CompareFloat(op, a, b),
            (true, false) => Node::BinaryFloat(op, a, b),
            (false, _) => Node::BinaryInt(op, a, b, result),
        };
        Ok((self.push(node), result))
    }

    fn read(&mut self, tensor: TensorId, indices: &[Expr]) -> Result<(usize, DType), InterpError> {
        let operands = self.operands;
        let Some(operand) = operands.get(tensor.index()) else {
            let what = format!("reads tensor {}, which does not stand before it", tensor.0);
            return Err(InterpError::BadAccess { place: self.place.clone(), what });
        };
        let dims = self.indices(operand, indices)?;
        let mut affine = None;
        if let (Some(shape), Some(extents)) = (&operand.shape, self.extents)
            && let Some(linears) = indices.iter().map(|e| self.linear(e)).collect::<Option<Vec<_>>>()
        {
            let mut access = AffineAccess { offset: Linear::default(), checks: Vec::new() };
            let mut stride = 1i64;
            for (linear, extent) in linears.into_iter().zip(shape).rev() {
                access.offset.add_scaled(&linear, stride);
                stride = stride.saturating_mul(*extent);
                let (lo, hi) = linear.range(extents);
                if lo < 0 || hi >= i128::from(*extent) {
                    access.checks.push((linear, *extent));
                }
            }
            affine = Some(access);
        }
        Ok((self.push(Node::Read(Box::new(Read { tensor, dims, affine }))), operand.dtype))
    }

    /// Compiles the indices of an access.
    pub fn indices(&mut self, operand: &Operand, indices: &[Expr]) -> Result<Vec<usize>, InterpError> {
        if indices.len() != operand.rank {
            let what = format!(
                "`{}` has {} dimensions but is accessed with {} indices",
                operand.name,
                operand.rank,
                indices.len()
            );
            return Err(InterpError::BadAccess { place: self.place.clone(), what });
        }
        indices.iter().map(|e| self.index(e)).collect()
    }
}
