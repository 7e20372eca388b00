//! Integer sums seen as constant + coefficient * monomial, and affine decomposition by variables.

use crate::node::{BinaryOp, Expr, Node};
use crate::symbol::Symbol;

/// An integer sum: `constant + sum(coefficient * monomial)`, monomials sorted, distinct and without constant factor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sum {
    pub constant: i64,
    pub terms: Vec<(Expr, i64)>,
}

impl Sum {
    /// Reads the canonical form back from an expression built by [`crate::build`].
    pub fn of(e: &Expr) -> Sum {
        let mut sum = Sum::default();
        sum.collect(e);
        sum
    }

    fn collect(&mut self, e: &Expr) {
        match e.node() {
            Node::Int(v) => self.constant = self.constant.wrapping_add(*v),
            Node::Bool(v) => self.constant = self.constant.wrapping_add(i64::from(*v)),
            Node::Binary(BinaryOp::Add, a, b) => {
                self.collect(a);
                self.collect(b);
            }
            Node::Binary(BinaryOp::Mul, a, b) => match b.node() {
                Node::Int(c) => self.push(a.clone(), *c),
                _ => self.push(e.clone(), 1),
            },
            _ => self.push(e.clone(), 1),
        }
    }

    /// Adds `coefficient * monomial`.
    pub fn push(&mut self, monomial: Expr, coefficient: i64) {
        match self.terms.binary_search_by(|(t, _)| t.order(&monomial)) {
            Ok(at) => {
                self.terms[at].1 = self.terms[at].1.wrapping_add(coefficient);
                if self.terms[at].1 == 0 {
                    self.terms.remove(at);
                }
            }
            Err(at) if coefficient != 0 => self.terms.insert(at, (monomial, coefficient)),
            Err(_) => {}
        }
    }

    /// Adds another sum, scaled.
    pub fn add_scaled(&mut self, other: &Sum, scale: i64) {
        self.constant = self.constant.wrapping_add(other.constant.wrapping_mul(scale));
        for (t, c) in &other.terms {
            self.push(t.clone(), c.wrapping_mul(scale));
        }
    }

    /// The expression in canonical form: terms in order, `monomial * coefficient`, constant last.
    pub fn build(&self) -> Expr {
        let mut out: Option<Expr> = None;
        for (t, c) in &self.terms {
            let term = if *c == 1 {
                t.clone()
            } else {
                Expr::intern(Node::Binary(BinaryOp::Mul, t.clone(), Expr::int(*c)))
            };
            out = Some(match out {
                None => term,
                Some(acc) => Expr::intern(Node::Binary(BinaryOp::Add, acc, term)),
            });
        }
        match out {
            None => Expr::int(self.constant),
            Some(acc) if self.constant == 0 => acc,
            Some(acc) => Expr::intern(Node::Binary(BinaryOp::Add, acc, Expr::int(self.constant))),
        }
    }
}

/// The factors of a monomial, sorted.
pub(crate) fn factors(e: &Expr, out: &mut Vec<Expr>) {
    match e.node() {
        Node::Binary(BinaryOp::Mul, a, b) => {
            factors(a, out);
            factors(b, out);
        }
        _ => out.push(e.clone()),
    }
}

/// How many terms an integer expression would have if all its products of sums were multiplied out.
pub(crate) fn weight(e: &Expr) -> usize {
    match e.node() {
        Node::Binary(BinaryOp::Add, a, b) => weight(a).saturating_add(weight(b)),
        Node::Binary(BinaryOp::Mul, a, b) => weight(a).saturating_mul(weight(b)),
        _ => 1,
    }
}

/// The product of factors in canonical order; 1 when there are none. Sums come first, the heaviest leading, so that
/// every prefix of a product that was too large to multiply out is too large itself.
pub(crate) fn product(mut parts: Vec<Expr>) -> Expr {
    parts.sort_by(|a, b| weight(b).cmp(&weight(a)).then_with(|| a.order(b)));
    parts
        .into_iter()
        .reduce(|a, b| Expr::intern(Node::Binary(BinaryOp::Mul, a, b)))
        .unwrap_or_else(|| Expr::int(1))
}

/// An expression as `rest + sum(coefficient * variable)`, where neither coefficients nor rest hold the variables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Affine {
    /// One coefficient for each variable asked for, zero when it does not occur.
    pub coefficients: Vec<Expr>,
    /// What is left.
    pub rest: Expr,
}

impl Expr {
    /// Splits an integer expression by `vars`; `None` when it is not affine in them.
    pub fn affine(&self, vars: &[Symbol]) -> Option<Affine> {
        let mut coefficients = vec![Expr::int(0); vars.len()];
        let mut rest = Expr::int(0);
        let sum = Sum::of(self);
        rest = rest + sum.constant;
        for (term, c) in &sum.terms {
            if !vars.iter().any(|v| term.mentions(v)) {
                rest = rest + term.clone() * *c;
                continue;
            }
            let mut parts = Vec::new();
            factors(term, &mut parts);
            let mut found = None;
            let mut others = Vec::new();
            for p in parts {
                match p.node() {
                    Node::Sym(s) if found.is_none() && vars.contains(s) => {
                        found = vars.iter().position(|v| v == s);
                    }
                    _ if vars.iter().any(|v| p.mentions(v)) => return None,
                    _ => others.push(p),
                }
            }
            let at = found?;
            let coefficient = others.into_iter().fold(Expr::int(*c), |a, b| a * b);
            coefficients[at] = coefficients[at].clone() + coefficient;
        }
        Some(Affine { coefficients, rest })
    }
}
