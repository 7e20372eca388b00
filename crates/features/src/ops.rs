//! Operations of one element.

use talweg_ir::{ArithOp, DType, MathOp, Nest, Reducer, Scalar};

/// Kinds of arithmetic operations, in the order of the features.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A product that is added: one instruction.
    MultiplyAdd,
    AddSub,
    Mul,
    DivMod,
    /// Comparisons, `min` and `max`.
    Compare,
    /// Functions that are computed by series or tables.
    Math,
    /// Conversions, rounding and absolute values.
    Other,
}

/// How many operations of each kind one evaluation takes.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Ops {
    pub float: [f64; 7],
    pub int: [f64; 7],
    pub boolean: f64,
    pub select: f64,
}

impl Ops {
    /// The operations of `buffer = value` or `buffer = update(buffer, value)`.
    pub fn of(nest: &Nest, value: &Scalar, update: Option<Reducer>) -> Ops {
        let of = |t| nest.buffer(t).dtype;
        let mut ops = Ops::default();
        let dtype = value.dtype(&of);
        match (update.map(Reducer::op), value) {
            (Some(ArithOp::Add), Scalar::Binary(ArithOp::Mul, a, b)) => {
                ops.count(Kind::MultiplyAdd, dtype);
                ops.visit(a, &of);
                ops.visit(b, &of);
            }
            (combine, _) => {
                if let Some(op) = combine {
                    ops.count(binary_kind(op), dtype);
                }
                ops.visit(value, &of);
            }
        }
        ops
    }

    /// Arithmetic operations, a multiply-add as two.
    pub fn arithmetic(&self) -> f64 {
        let of = |counts: &[f64; 7]| counts.iter().sum::<f64>() + counts[Kind::MultiplyAdd as usize];
        of(&self.float) + of(&self.int)
    }

    fn count(&mut self, kind: Kind, dtype: DType) {
        if dtype.is_float() {
            self.float[kind as usize] += 1.0;
        } else if dtype.is_int() {
            self.int[kind as usize] += 1.0;
        } else {
            self.boolean += 1.0;
        }
    }

    fn visit(&mut self, value: &Scalar, of: &dyn Fn(talweg_ir::TensorId) -> DType) {
        match value {
            Scalar::Float(..) | Scalar::Int(..) | Scalar::Read(..) => {}
            Scalar::Index(..) => {
                if value.dtype(of) == DType::Bool {
                    self.boolean += 1.0;
                }
            }
            Scalar::Unary(op, a) => {
                let dtype = a.dtype(of);
                match op {
                    MathOp::Not => self.boolean += 1.0,
                    MathOp::Neg => self.count(Kind::AddSub, dtype),
                    MathOp::Abs | MathOp::Floor | MathOp::Ceil | MathOp::Round => {
                        self.count(Kind::Other, dtype);
                    }
                    _ => self.count(Kind::Math, dtype),
                }
                self.visit(a, of);
            }
            Scalar::Binary(op @ (ArithOp::Add | ArithOp::Sub), a, b) => {
                let dtype = a.dtype(of);
                let product = |s: &Scalar| match s {
                    Scalar::Binary(ArithOp::Mul, x, y) => Some((x.clone(), y.clone())),
                    _ => None,
                };
                let (parts, other) = match (product(a), product(b)) {
                    (Some(parts), _) => (parts, b),
                    (_, Some(parts)) => (parts, a),
                    _ => {
                        self.count(binary_kind(*op), dtype);
                        self.visit(a, of);
                        return self.visit(b, of);
                    }
                };
                self.count(Kind::MultiplyAdd, dtype);
                self.visit(&parts.0, of);
                self.visit(&parts.1, of);
                self.visit(other, of);
            }
            Scalar::Binary(op, a, b) => {
                match op {
                    ArithOp::And | ArithOp::Or => self.boolean += 1.0,
                    _ => self.count(binary_kind(*op), a.dtype(of)),
                }
                self.visit(a, of);
                self.visit(b, of);
            }
            Scalar::Select(c, a, b) => {
                self.select += 1.0;
                self.visit(c, of);
                self.visit(a, of);
                self.visit(b, of);
            }
            Scalar::Cast(dtype, a) => {
                self.count(Kind::Other, *dtype);
                self.visit(a, of);
            }
        }
    }
}

fn binary_kind(op: ArithOp) -> Kind {
    match op {
        ArithOp::Add | ArithOp::Sub => Kind::AddSub,
        ArithOp::Mul => Kind::Mul,
        ArithOp::Div | ArithOp::Rem => Kind::DivMod,
        ArithOp::Pow => Kind::Math,
        _ => Kind::Compare,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ops(buffers: &str, store: &str) -> Ops {
        let text = format!("nest t {{\n{buffers}\n for i in 0..8 {{ {store} }}\n}}");
        let nest = Nest::parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        let talweg_ir::Stmt::For(l) = &nest.body[0] else { panic!("a loop") };
        let talweg_ir::Stmt::Store { value, update, .. } = &l.body[0] else { panic!("a store") };
        Ops::of(&nest, value, *update)
    }

    const FLOATS: &str = "input A: f32[8] \n input B: f32[8] \n output C: f32[8]";

    #[test]
    fn an_added_product_is_one_operation() {
        let update = ops(FLOATS, "C[i] += A[i] * B[i]");
        assert_eq!(update.float, [1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
        assert_eq!(update.arithmetic(), 2.0);
        let plain = ops(FLOATS, "C[i] = A[i] * B[i] + A[i] / B[i]");
        assert_eq!(plain.float, [1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0]);
    }

    #[test]
    fn guards_are_boolean_and_maxima_compare() {
        let ops = ops(FLOATS, "C[i] = select(guard(1 <= i), max(A[i], exp(B[i])), 0.0)");
        assert_eq!((ops.select, ops.boolean), (1.0, 1.0));
        assert_eq!(ops.float, [0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 0.0]);
    }
}
