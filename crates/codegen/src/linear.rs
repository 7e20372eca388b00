//! Integer sums split into constant + coefficient * term: the form in which addresses are kept.

use talweg_expr::{BinaryOp, Expr, Node};

/// `constant + sum(coefficient * term)`; a term is a loop variable or an expression that is not a sum.
/// Terms are distinct and ordered by hash, so equal sums are equal values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Linear {
    pub constant: i64,
    pub terms: Vec<(Expr, i64)>,
}

impl Linear {
    /// Splits an integer expression.
    pub fn of(e: &Expr) -> Linear {
        let mut out = Linear::default();
        out.add_expr(e, 1);
        out
    }

    /// Adds `scale * e`.
    pub fn add_expr(&mut self, e: &Expr, scale: i64) {
        match e.node() {
            Node::Int(v) => self.constant = self.constant.wrapping_add(v.wrapping_mul(scale)),
            Node::Binary(BinaryOp::Add, a, b) => {
                self.add_expr(a, scale);
                self.add_expr(b, scale);
            }
            Node::Binary(BinaryOp::Mul, a, b) => match (a.as_int(), b.as_int()) {
                (_, Some(c)) => self.add_expr(a, scale.wrapping_mul(c)),
                (Some(c), _) => self.add_expr(b, scale.wrapping_mul(c)),
                _ => self.add_term(e, scale),
            },
            _ => self.add_term(e, scale),
        }
    }

    /// Adds `coefficient * term`.
    pub fn add_term(&mut self, term: &Expr, coefficient: i64) {
        let key = |e: &Expr| e.stable_hash();
        let mut at = self.terms.partition_point(|(t, _)| key(t) < key(term));
        while at < self.terms.len() && key(&self.terms[at].0) == key(term) {
            if self.terms[at].0 == *term {
                self.terms[at].1 = self.terms[at].1.wrapping_add(coefficient);
                if self.terms[at].1 == 0 {
                    self.terms.remove(at);
                }
                return;
            }
            at += 1;
        }
        if coefficient != 0 {
            self.terms.insert(at, (term.clone(), coefficient));
        }
    }

    /// The flattened position of an element of a row-major array.
    pub fn flatten(indices: &[Expr], strides: &[i64]) -> Linear {
        let mut out = Linear::default();
        for (index, stride) in indices.iter().zip(strides) {
            out.add_expr(index, *stride);
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_canonical() {
        let (i, j) = (Expr::var("i"), Expr::var("j"));
        let a = Linear::flatten(&[i.clone() + 1, j.clone() * 2], &[10, 1]);
        let b = Linear::of(&(j * 2 + i * 10 + 10));
        assert_eq!(a, b);
        assert_eq!(a.constant, 10);
    }

    #[test]
    fn cancelled_terms_vanish() {
        let i = Expr::var("i");
        let mut a = Linear::of(&i);
        a.add_expr(&i, -1);
        assert_eq!(a, Linear::default());
    }
}
