//! Substitution, free symbols, and evaluation at one point.

use std::collections::{BTreeSet, HashMap, HashSet};

use crate::node::{BinaryOp, Expr, Node, UnaryOp};
use crate::symbol::Symbol;

impl Expr {
    /// Replaces symbols; the result is simplified as it is rebuilt.
    pub fn subst(&self, by: &dyn Fn(&Symbol) -> Option<Expr>) -> Expr {
        let mut memo = HashMap::new();
        self.subst_in(by, &mut memo)
    }

    /// Like [`Expr::subst`], sharing the memo between several expressions under one substitution.
    pub fn subst_in(&self, by: &dyn Fn(&Symbol) -> Option<Expr>, memo: &mut HashMap<Expr, Expr>) -> Expr {
        match self.node() {
            Node::Int(_) | Node::Real(_) | Node::Bool(_) => return self.clone(),
            Node::Sym(s) => return by(s).unwrap_or_else(|| self.clone()),
            _ => {}
        }
        if let Some(done) = memo.get(self) {
            return done.clone();
        }
        let out = match self.node() {
            Node::Unary(op, a) => Expr::unary(*op, a.subst_in(by, memo)),
            Node::Binary(op, a, b) => Expr::binary(*op, a.subst_in(by, memo), b.subst_in(by, memo)),
            Node::Select(c, a, b) => {
                Expr::select(c.subst_in(by, memo), a.subst_in(by, memo), b.subst_in(by, memo))
            }
            _ => self.clone(),
        };
        memo.insert(self.clone(), out.clone());
        out
    }

    /// All symbols of the expression, in order.
    pub fn symbols(&self) -> BTreeSet<Symbol> {
        let mut out = BTreeSet::new();
        self.any_node(&mut |e| {
            if let Node::Sym(s) = e.node() {
                out.insert(s.clone());
            }
            false
        });
        out
    }

    /// Whether some node of the expression passes a test; every distinct node is asked at most once.
    fn any_node(&self, test: &mut dyn FnMut(&Expr) -> bool) -> bool {
        let mut seen = HashSet::new();
        let mut stack = vec![self];
        while let Some(e) = stack.pop() {
            if e.height() > 0 && !seen.insert(e) {
                continue;
            }
            if test(e) {
                return true;
            }
            match e.node() {
                Node::Unary(_, a) => stack.push(a),
                Node::Binary(_, a, b) => stack.extend([b, a]),
                Node::Select(c, a, b) => stack.extend([b, a, c]),
                _ => {}
            }
        }
        false
    }

    /// Calls `f` on every occurrence of a symbol.
    pub fn visit_symbols(&self, f: &mut dyn FnMut(&Symbol)) {
        match self.node() {
            Node::Sym(s) => f(s),
            Node::Unary(_, a) => a.visit_symbols(f),
            Node::Binary(_, a, b) => {
                a.visit_symbols(f);
                b.visit_symbols(f);
            }
            Node::Select(c, a, b) => {
                c.visit_symbols(f);
                a.visit_symbols(f);
                b.visit_symbols(f);
            }
            _ => {}
        }
    }

    /// Whether the symbol occurs.
    pub fn mentions(&self, symbol: &Symbol) -> bool {
        match self.node() {
            Node::Sym(s) => s == symbol,
            Node::Int(_) | Node::Real(_) | Node::Bool(_) => false,
            _ => self.any_node(&mut |e| matches!(e.node(), Node::Sym(s) if s == symbol)),
        }
    }

    /// The value of an integer or truth expression, or `None` when a symbol has no value, a divisor is zero, a number
    /// leaves 64 bits, or the expression is real.
    pub fn eval(&self, at: &dyn Fn(&Symbol) -> Option<i64>) -> Option<i64> {
        self.eval_in(at, &mut Memo::of(self))
    }

    fn eval_in(&self, at: &dyn Fn(&Symbol) -> Option<i64>, memo: &mut Memo<i64>) -> Option<i64> {
        match self.node() {
            Node::Int(v) => return Some(*v),
            Node::Bool(v) => return Some(i64::from(*v)),
            Node::Real(_) => return None,
            Node::Sym(s) => return at(s),
            _ => {}
        }
        if let Some(done) = memo.get(self) {
            return done;
        }
        let mut of = |e: &Expr| e.eval_in(at, memo);
        let value = match self.node() {
            Node::Unary(UnaryOp::Not, a) => of(a).map(|a| i64::from(a == 0)),
            Node::Unary(UnaryOp::Abs, a) => of(a).and_then(i64::checked_abs),
            Node::Binary(op, a, b) => of(a).and_then(|a| fold_int(*op, a, of(b)?)),
            Node::Select(c, a, b) => of(c).and_then(|c| if c != 0 { of(a) } else { of(b) }),
            _ => None,
        };
        memo.set(self, value);
        value
    }

    /// The value as a real number; truth values are 0 and 1.
    pub fn eval_real(&self, at: &dyn Fn(&Symbol) -> Option<f64>) -> Option<f64> {
        self.eval_real_in(at, &mut Memo::of(self))
    }

    fn eval_real_in(&self, at: &dyn Fn(&Symbol) -> Option<f64>, memo: &mut Memo<f64>) -> Option<f64> {
        match self.node() {
            Node::Int(v) => return Some(*v as f64),
            Node::Bool(v) => return Some(f64::from(u8::from(*v))),
            Node::Real(v) => return Some(f64::from_bits(*v)),
            Node::Sym(s) => return at(s),
            _ => {}
        }
        if let Some(done) = memo.get(self) {
            return done;
        }
        let mut of = |e: &Expr| e.eval_real_in(at, memo);
        let value = match self.node() {
            Node::Unary(op, a) => of(a).map(|a| fold_unary_real(*op, a)),
            Node::Binary(op, a, b) => of(a).and_then(|a| Some(fold_real(*op, a, of(b)?))),
            Node::Select(c, a, b) => of(c).and_then(|c| if c != 0.0 { of(a) } else { of(b) }),
            _ => None,
        };
        memo.set(self, value);
        value
    }
}

/// Values of shared parts. Low expressions go without: their parts are cheaper to evaluate than to look up.
struct Memo<T>(Option<HashMap<Expr, Option<T>>>);

impl<T: Copy> Memo<T> {
    fn of(e: &Expr) -> Memo<T> {
        Memo((e.height() > 24).then(HashMap::new))
    }

    fn get(&self, e: &Expr) -> Option<Option<T>> {
        self.0.as_ref().and_then(|m| m.get(e)).copied()
    }

    fn set(&mut self, e: &Expr, value: Option<T>) {
        if let Some(m) = &mut self.0 {
            m.insert(e.clone(), value);
        }
    }
}

/// Integer meaning of an operator; `None` on overflow, division by zero, or a real-valued operator.
#[inline]
pub fn fold_int(op: BinaryOp, a: i64, b: i64) -> Option<i64> {
    Some(match op {
        BinaryOp::Add => a.checked_add(b)?,
        BinaryOp::Mul => a.checked_mul(b)?,
        BinaryOp::FloorDiv => floor_div(a, b)?,
        BinaryOp::CeilDiv => floor_div(a.checked_neg()?, b)?.checked_neg()?,
        BinaryOp::Mod => a.checked_sub(floor_div(a, b)?.checked_mul(b)?)?,
        BinaryOp::Min => a.min(b),
        BinaryOp::Max => a.max(b),
        BinaryOp::Lt => i64::from(a < b),
        BinaryOp::Le => i64::from(a <= b),
        BinaryOp::Eq => i64::from(a == b),
        BinaryOp::Ne => i64::from(a != b),
        BinaryOp::And => i64::from(a != 0 && b != 0),
        BinaryOp::Or => i64::from(a != 0 || b != 0),
        BinaryOp::Div | BinaryOp::Pow => return None,
    })
}

#[inline]
fn floor_div(a: i64, b: i64) -> Option<i64> {
    let q = a.checked_div(b)?;
    Some(if a % b != 0 && ((a < 0) != (b < 0)) { q - 1 } else { q })
}

/// Real meaning of an operator.
pub fn fold_real(op: BinaryOp, a: f64, b: f64) -> f64 {
    let truth = |v: bool| f64::from(u8::from(v));
    match op {
        BinaryOp::Add => a + b,
        BinaryOp::Mul => a * b,
        BinaryOp::Div => a / b,
        BinaryOp::FloorDiv => (a / b).floor(),
        BinaryOp::CeilDiv => (a / b).ceil(),
        BinaryOp::Mod => a - b * (a / b).floor(),
        BinaryOp::Min => a.min(b),
        BinaryOp::Max => a.max(b),
        BinaryOp::Pow => a.powf(b),
        BinaryOp::Lt => truth(a < b),
        BinaryOp::Le => truth(a <= b),
        BinaryOp::Eq => truth(a == b),
        BinaryOp::Ne => truth(a != b),
        BinaryOp::And => truth(a != 0.0 && b != 0.0),
        BinaryOp::Or => truth(a != 0.0 || b != 0.0),
    }
}

/// Real meaning of an operator of one operand.
pub fn fold_unary_real(op: UnaryOp, a: f64) -> f64 {
    match op {
        UnaryOp::Not => f64::from(u8::from(a == 0.0)),
        UnaryOp::Log => a.ln(),
        UnaryOp::Exp => a.exp(),
        UnaryOp::Sqrt => a.sqrt(),
        UnaryOp::Abs => a.abs(),
    }
}
