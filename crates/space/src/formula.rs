//! Constraints compiled to short programs over knob positions: candidates are checked millions of times.

use talweg_expr::subst::fold_int;
use talweg_expr::{BinaryOp, Expr, Node, Symbol};

use crate::knob::Constraint;

#[derive(Clone, Debug, PartialEq)]
enum Op {
    Const(i64),
    Knob(usize),
    Binary(BinaryOp),
    /// An expression without a program, evaluated as it is.
    Other(Expr),
}

/// One side of a constraint.
#[derive(Clone, Debug, PartialEq)]
struct Formula(Vec<Op>);

/// A constraint ready to be checked against a list of values.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Check {
    lhs: Formula,
    rhs: Formula,
}

impl Check {
    pub fn new(constraint: &Constraint, knobs: &[Symbol]) -> Check {
        Check { lhs: Formula::new(&constraint.lhs, knobs), rhs: Formula::new(&constraint.rhs, knobs) }
    }

    /// How much the limit is exceeded, as a ratio minus one; 0 when it holds, infinite when a side has no value.
    pub fn excess(&self, values: &[i64], knobs: &[Symbol]) -> f64 {
        match (self.lhs.eval(values, knobs), self.rhs.eval(values, knobs)) {
            (Some(l), Some(r)) if l <= r => 0.0,
            (Some(l), Some(r)) => (l as f64 / (r as f64).max(1.0) - 1.0).max(1e-9),
            _ => f64::INFINITY,
        }
    }

    pub fn holds(&self, values: &[i64], knobs: &[Symbol]) -> bool {
        matches!((self.lhs.eval(values, knobs), self.rhs.eval(values, knobs)), (Some(l), Some(r)) if l <= r)
    }
}

impl Formula {
    fn new(e: &Expr, knobs: &[Symbol]) -> Formula {
        let mut out = Vec::new();
        compile(e, knobs, &mut out);
        Formula(out)
    }

    fn eval(&self, values: &[i64], knobs: &[Symbol]) -> Option<i64> {
        let mut stack: [i64; STACK] = [0; STACK];
        let mut top = 0;
        for op in &self.0 {
            let v = match op {
                Op::Const(v) => *v,
                Op::Knob(at) => values[*at],
                Op::Binary(op) => {
                    top -= 2;
                    fold_int(*op, stack[top], stack[top + 1])?
                }
                Op::Other(e) => {
                    e.eval(&|s| knobs.iter().position(|k| k == s).and_then(|at| values.get(at).copied()))?
                }
            };
            stack[top] = v;
            top += 1;
        }
        Some(stack[0])
    }
}

/// Operands a program may hold at once; deeper expressions are evaluated as they are.
const STACK: usize = 32;

fn compile(e: &Expr, knobs: &[Symbol], out: &mut Vec<Op>) {
    match e.node() {
        Node::Int(v) => out.push(Op::Const(*v)),
        Node::Sym(s) => match knobs.iter().position(|k| k == s) {
            Some(at) => out.push(Op::Knob(at)),
            None => out.push(Op::Other(e.clone())),
        },
        Node::Binary(op, a, b) if (e.height() as usize) < STACK - 1 => {
            compile(a, knobs, out);
            compile(b, knobs, out);
            out.push(Op::Binary(*op));
        }
        _ => out.push(Op::Other(e.clone())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_agree_with_expressions() {
        let knobs = [Symbol::knob("a"), Symbol::knob("b")];
        let (a, b) = (Expr::sym(&knobs[0]), Expr::sym(&knobs[1]));
        let lhs = a.clone() * &b + Expr::int(100).ceil_div(&a) * Expr::int(50).rem(&b).min(1);
        let rhs = Expr::select(a.lt(&b), Expr::int(90), b.max(40) * 2);
        let constraint = Constraint::new("test", lhs, rhs);
        let check = Check::new(&constraint, &knobs);
        let mut held = 0;
        for x in 1..40 {
            for y in 1..40 {
                let at = |s: &Symbol| Some(if *s == knobs[0] { x } else { y });
                assert_eq!(check.holds(&[x, y], &knobs), constraint.holds(&at), "{x} {y}");
                assert_eq!(check.excess(&[x, y], &knobs), constraint.excess(&at), "{x} {y}");
                held += usize::from(constraint.holds(&at));
            }
        }
        assert!(held > 100 && held < 39 * 39);
    }
}
