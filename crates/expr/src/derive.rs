//! Symbolic derivatives, under the conventions of [`crate::tape`].

use std::collections::HashMap;

use crate::node::{BinaryOp, Expr, Node, UnaryOp};
use crate::symbol::Symbol;

impl Expr {
    /// The derivative by `symbol`, which is treated as real.
    pub fn derivative(&self, symbol: &Symbol) -> Expr {
        Derive { symbol, memo: HashMap::new() }.of(self)
    }
}

struct Derive<'a> {
    symbol: &'a Symbol,
    memo: HashMap<Expr, Expr>,
}

fn is_zero(e: &Expr) -> bool {
    e.as_int() == Some(0)
}

/// A product that is zero when a factor is, even if the other is real and might be infinite.
fn times(a: Expr, b: Expr) -> Expr {
    if is_zero(&a) || is_zero(&b) {
        Expr::int(0)
    } else if a.as_int() == Some(1) {
        b
    } else if b.as_int() == Some(1) {
        a
    } else {
        a * b
    }
}

fn plus(a: Expr, b: Expr) -> Expr {
    match (is_zero(&a), is_zero(&b)) {
        (true, _) => b,
        (_, true) => a,
        _ => a + b,
    }
}

impl Derive<'_> {
    fn of(&mut self, e: &Expr) -> Expr {
        match e.node() {
            Node::Int(_) | Node::Real(_) | Node::Bool(_) => return Expr::int(0),
            Node::Sym(s) => return Expr::int(i64::from(s == self.symbol)),
            _ => {}
        }
        if let Some(done) = self.memo.get(e) {
            return done.clone();
        }
        let out = match e.node() {
            Node::Unary(op, a) => self.unary(*op, a, e),
            Node::Binary(op, a, b) => self.binary(*op, a, b, e),
            Node::Select(c, a, b) => Expr::select(c.clone(), self.of(a), self.of(b)),
            _ => Expr::int(0),
        };
        self.memo.insert(e.clone(), out.clone());
        out
    }

    fn unary(&mut self, op: UnaryOp, a: &Expr, e: &Expr) -> Expr {
        let da = self.of(a);
        if is_zero(&da) || op == UnaryOp::Not {
            return Expr::int(0);
        }
        let zero = Expr::int(0);
        match op {
            UnaryOp::Not => zero,
            UnaryOp::Log => da.div(a),
            UnaryOp::Exp => times(e.clone(), da),
            UnaryOp::Sqrt => times(Expr::real(0.5).div(e), da),
            UnaryOp::Abs => Expr::select(
                zero.lt(a),
                da.clone(),
                Expr::select(a.lt(&zero), times(Expr::int(-1), da), Expr::int(0)),
            ),
        }
    }

    fn binary(&mut self, op: BinaryOp, a: &Expr, b: &Expr, e: &Expr) -> Expr {
        let (da, db) = (self.of(a), self.of(b));
        if is_zero(&da) && is_zero(&db) {
            return Expr::int(0);
        }
        let minus = |x: Expr| times(Expr::int(-1), x);
        match op {
            BinaryOp::Add => plus(da, db),
            BinaryOp::Mul => plus(times(b.clone(), da), times(a.clone(), db)),
            BinaryOp::Div | BinaryOp::FloorDiv | BinaryOp::CeilDiv => {
                let by_a = if is_zero(&da) { da } else { da.div(b) };
                plus(by_a, minus(times(db, a.div(b).div(b))))
            }
            BinaryOp::Mod => plus(da, minus(times(db, a.floor_div(b)))),
            BinaryOp::Min => Expr::select(a.le(b), da, db),
            BinaryOp::Max => Expr::select(b.le(a), da, db),
            BinaryOp::Pow => {
                let zero = Expr::int(0);
                let power = Expr::binary(BinaryOp::Pow, a.clone(), b.clone() - 1);
                let by_a = Expr::select(b.eq_expr(&zero), zero.clone(), b.clone() * power);
                let by_b = Expr::select(zero.lt(a), e.clone() * Expr::unary(UnaryOp::Log, a.clone()), zero);
                plus(times(by_a, da), times(by_b, db))
            }
            BinaryOp::Lt | BinaryOp::Le | BinaryOp::Eq | BinaryOp::Ne | BinaryOp::And | BinaryOp::Or => {
                Expr::int(0)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn derivatives_read_as_in_a_textbook() {
        for (e, d) in [
            ("x * x * 3 + x * y + 7", "x * 6 + y"),
            ("y * 2", "0"),
            ("exp(x * 2)", "exp(x * 2) * 2"),
            ("log(x)", "1 / x"),
            ("x // 4", "0.25"),
            ("y // x", "y / x / x * -1"),
            ("y % x", "y // x * -1"),
            ("min(x, y)", "select(x <= y, 1, 0)"),
            ("select(x < y, x * 2, y)", "select(x < y, 2, 0)"),
            ("pow(x, 2)", "pow(x, 1) * 2"),
        ] {
            let e = Expr::parse(e).unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(e.derivative(&Symbol::var("x")).to_string(), d, "{e}");
        }
    }
}
