//! Whether the iterations of a parallel loop store to different elements.
//!
//! The loop is written down twice, the copy's variables with a prime, under the condition that the copy is a later
//! iteration. The stores never meet when some index provably differs. Quotients of the loop variable (from fused loops)
//! only grow with it, so each either differs, or is the same in both; these cases are proved separately.

use std::collections::{BTreeMap, BTreeSet};

use talweg_expr::{BinaryOp, Expr, Node, Symbol};

use super::linear::Prover;
use super::prove::Domain;

/// So many stores are tried one by one when there is no proof.
const MAX_POINTS: usize = 20_000;
/// Quotients that are told apart.
const MAX_QUOTIENTS: usize = 4;

/// Looks for two iterations of the variable bound at `at` that store to one element; `None` when there provably are
/// none, or none was found.
pub(super) fn collision(domain: &Domain, at: usize, indices: &[Expr]) -> Option<String> {
    if indices.iter().any(|e| domain.involves_knobs(e)) || Twin::new(domain, at, indices).proves_distinct() {
        return None;
    }
    Search::new(domain, at, indices).run(&mut Vec::new()).err()
}

/// Two iterations side by side, the second one later.
struct Twin {
    domain: Domain,
    /// The indices of both iterations, dimension by dimension.
    indices: Vec<(Expr, Expr)>,
    quotients: Vec<(Expr, Expr)>,
}

impl Twin {
    fn new(domain: &Domain, at: usize, indices: &[Expr]) -> Twin {
        let inner: BTreeSet<&Symbol> = domain.vars()[at..].iter().map(|(v, _)| v).collect();
        let primed = |s: &Symbol| inner.contains(s).then(|| Symbol::var(format!("{}'", s.name())));
        let copy = |e: &Expr| e.subst(&|s| primed(s).map(|p| Expr::sym(&p)));
        let mut twin = Domain::default();
        for (v, extent) in domain.vars() {
            twin.bind(v, extent);
            if let Some(p) = primed(v) {
                twin.bind(&p, &copy(extent));
            }
        }
        for c in domain.conditions() {
            twin.assume(c, true);
            twin.assume(&copy(c), true);
        }
        let var = Expr::sym(&domain.vars()[at].0);
        twin.assume(&var.lt(&copy(&var)), true);
        let mut quotients = Vec::new();
        for e in indices {
            collect_quotients(e, &domain.vars()[at].0, &mut quotients);
        }
        quotients.truncate(MAX_QUOTIENTS);
        Twin {
            domain: twin,
            indices: indices.iter().map(|e| (e.clone(), copy(e))).collect(),
            quotients: quotients.into_iter().map(|q| (q.clone(), copy(&q))).collect(),
        }
    }

    fn proves_distinct(&self) -> bool {
        let mut prover = Prover::new(&self.domain, self.domain.conditions());
        let differs = |prover: &mut Prover<'_>, (a, b): &(Expr, Expr)| {
            prover.never_negative(&(b.clone() - a - 1)) || prover.never_negative(&(a.clone() - b - 1))
        };
        if self.indices.iter().any(|pair| differs(&mut prover, pair)) {
            return true;
        }
        let Some(((q, later), rest)) = self.quotients.split_first() else { return false };
        prover.never_negative(&(later.clone() - q))
            && [q.lt(later), q.eq_expr(later)].iter().all(|case| {
                let mut domain = self.domain.clone();
                domain.assume(case, true);
                Twin { domain, indices: self.indices.clone(), quotients: rest.to_vec() }.proves_distinct()
            })
    }
}

/// The quotients that mention a variable, largest divisor first.
fn collect_quotients(e: &Expr, var: &Symbol, out: &mut Vec<Expr>) {
    match e.node() {
        Node::Binary(op, a, b) => {
            let quotient = match op {
                BinaryOp::FloorDiv => Some(e.clone()),
                BinaryOp::Mod => Some(a.floor_div(b)),
                _ => None,
            };
            if let Some(q) = quotient.filter(|q| q.mentions(var))
                && !out.contains(&q)
            {
                out.push(q);
                out.sort_by_key(|q| std::cmp::Reverse(divisor(q)));
            }
            collect_quotients(a, var, out);
            collect_quotients(b, var, out);
        }
        Node::Unary(_, a) => collect_quotients(a, var, out),
        Node::Select(c, a, b) => {
            for x in [c, a, b] {
                collect_quotients(x, var, out);
            }
        }
        _ => {}
    }
}

fn divisor(e: &Expr) -> i64 {
    match e.node() {
        Node::Binary(BinaryOp::FloorDiv, _, b) => b.as_int().unwrap_or(0),
        _ => 0,
    }
}

/// Tries stores one by one, and remembers who stored where.
struct Search<'a> {
    vars: Vec<&'a (Symbol, Expr)>,
    /// Position of the parallel variable in `vars`.
    parallel: usize,
    conditions: &'a [Expr],
    indices: &'a [Expr],
    stored: BTreeMap<Vec<i64>, i64>,
    left: usize,
}

impl<'a> Search<'a> {
    fn new(domain: &'a Domain, at: usize, indices: &'a [Expr]) -> Search<'a> {
        // A loop that no index and no condition depends on, and that certainly runs, need not be walked.
        let mut needed: BTreeSet<Symbol> = domain.conditions().iter().flat_map(Expr::symbols).collect();
        needed.extend(indices.iter().flat_map(Expr::symbols));
        needed.insert(domain.vars()[at].0.clone());
        let runs = |e: &Expr| e.as_int().is_some_and(|n| n > 0);
        needed.extend(domain.vars().iter().filter(|(_, e)| !runs(e)).map(|(v, _)| v.clone()));
        let needed = domain.closure(needed);
        let vars: Vec<_> = domain.vars().iter().filter(|(v, _)| needed.contains(v)).collect();
        let parallel = vars.iter().position(|(v, _)| *v == domain.vars()[at].0).unwrap_or(0);
        Search {
            vars,
            parallel,
            conditions: domain.conditions(),
            indices,
            stored: BTreeMap::new(),
            left: MAX_POINTS,
        }
    }

    fn eval(&self, e: &Expr, values: &[i64]) -> Option<i64> {
        e.eval(&|s| self.vars.iter().zip(values).rev().find(|((v, _), _)| v == s).map(|(_, x)| *x))
    }

    /// Walks on from the values chosen so far; the error is a collision.
    fn run(&mut self, values: &mut Vec<i64>) -> Result<(), String> {
        let Some((_, extent)) = self.vars.get(values.len()) else { return self.store(values) };
        for v in 0..self.eval(extent, values).unwrap_or(0) {
            if self.left == 0 {
                return Ok(());
            }
            self.left -= 1;
            values.push(v);
            let found = self.run(values);
            values.pop();
            found?;
        }
        Ok(())
    }

    fn store(&mut self, values: &[i64]) -> Result<(), String> {
        if self.conditions.iter().any(|c| self.eval(c, values) != Some(1)) {
            return Ok(());
        }
        let element: Option<Vec<i64>> = self.indices.iter().map(|e| self.eval(e, values)).collect();
        let Some(element) = element else { return Ok(()) };
        let iteration = values[self.parallel];
        // Iterations of the loops outside run one after the other.
        let key: Vec<i64> = values[..self.parallel].iter().chain(&element).copied().collect();
        let first = *self.stored.entry(key).or_insert(iteration);
        if first == iteration {
            return Ok(());
        }
        let (var, _) = self.vars[self.parallel];
        let element: Vec<String> = element.iter().map(i64::to_string).collect();
        Err(format!("{var}={first} and {var}={iteration} both store to element [{}]", element.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn twin(vars: &[(&str, &str)], indices: &[&str]) -> bool {
        let parse = |t: &str| Expr::parse(t).unwrap_or_else(|e| panic!("{t}: {e}"));
        let mut domain = Domain::default();
        for (v, extent) in vars {
            domain.bind(&Symbol::var(v), &parse(extent));
        }
        let indices: Vec<Expr> = indices.iter().map(|t| parse(t)).collect();
        Twin::new(&domain, 0, &indices).proves_distinct()
    }

    #[test]
    fn tiles_of_fused_loops_are_told_apart() {
        let tile = [("f", "171000 * 16"), ("i", "min(6, 1025999 - f // 16 * 6)"), ("j", "64")];
        assert!(twin(&tile, &["f // 16 * 6 + i", "f % 16 * 64 + j"]));
        assert!(!twin(&tile, &["f // 16 * 5 + i", "f % 16 * 64 + j"]));
        assert!(!twin(&tile, &["f // 16 * 6 + i", "f % 16 * 63 + j"]));
        let three = [("f", "40 * 30 * 20"), ("k", "4")];
        assert!(twin(&three, &["f // 600", "f // 20 % 30", "f % 20 * 4 + k"]));
        assert!(!twin(&three, &["f // 600", "f // 20 % 30", "f % 19 * 4 + k"]));
        assert!(twin(&[("p", "1000000"), ("i", "8")], &["7999999 - p * 8 - i"]));
    }
}
