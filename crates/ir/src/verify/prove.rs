//! Proving that indices stay in bounds: by intervals, then by linear inequalities, then by trying all points.

use std::collections::BTreeSet;

use talweg_expr::{BinaryOp, Expr, Node, Ranges, Symbol, Ty, UnaryOp};

use super::linear::Prover;

/// So many points are tried one by one when nothing else decides.
const MAX_POINTS: usize = 100_000;
/// Alternatives of conditions that are told apart.
const MAX_CASES: usize = 16;

/// What is known about whether an index is in bounds.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Verdict {
    Proved,
    /// Knobs are involved, and it is not true for all their values.
    Open,
    /// It is not: here.
    Refuted {
        at: String,
        value: i64,
    },
    Unknown,
}

/// The variables in scope with their extents, and the conditions that hold.
#[derive(Clone, Debug, Default)]
pub(super) struct Domain {
    /// Outermost first.
    vars: Vec<(Symbol, Expr)>,
    conditions: Vec<Expr>,
    ranges: Ranges,
}

impl Domain {
    /// Adds a variable inside all others, running from 0 to below its extent.
    pub fn bind(&mut self, var: &Symbol, extent: &Expr) {
        let hi = extent.bounds(&self.ranges).hi.min(1e18);
        self.ranges.set(var, 0, (hi as i64).saturating_sub(1));
        self.vars.push((var.clone(), extent.clone()));
    }

    /// Adds a condition, or its negation.
    pub fn assume(&mut self, condition: &Expr, holds: bool) {
        if condition.ty() != Ty::Bool {
            return;
        }
        let condition = if holds { condition.clone() } else { negation(condition) };
        self.conjuncts(&condition);
    }

    fn conjuncts(&mut self, e: &Expr) {
        match e.node() {
            Node::Binary(BinaryOp::And, a, b) => {
                self.conjuncts(a);
                self.conjuncts(b);
            }
            Node::Unary(UnaryOp::Not, a)
                if matches!(a.node(), Node::Binary(BinaryOp::And | BinaryOp::Or, ..)) =>
            {
                self.conjuncts(&negation(a));
            }
            _ => self.conditions.push(e.clone()),
        }
    }

    /// Whether a variable is in scope.
    pub fn binds(&self, s: &Symbol) -> bool {
        self.extent(s).is_some()
    }

    pub fn extent(&self, s: &Symbol) -> Option<&Expr> {
        self.vars.iter().rev().find(|(v, _)| v == s).map(|(_, e)| e)
    }

    pub fn extents(&self) -> impl Iterator<Item = &Expr> {
        self.vars.iter().map(|(_, e)| e)
    }

    /// The variables with their extents, outermost first.
    pub fn vars(&self) -> &[(Symbol, Expr)] {
        &self.vars
    }

    pub fn conditions(&self) -> &[Expr] {
        &self.conditions
    }

    pub fn ranges(&self) -> &Ranges {
        &self.ranges
    }

    /// How deep the innermost variable of an expression is bound; 0 when it has none.
    pub fn depth(&self, e: &Expr) -> usize {
        self.vars.iter().rposition(|(v, _)| e.mentions(v)).map_or(0, |at| at + 1)
    }

    /// Whether an expression, or the extents of its variables, mention knobs.
    pub fn involves_knobs(&self, e: &Expr) -> bool {
        self.closure(e.symbols()).iter().any(Symbol::is_knob)
    }

    /// Symbols with all symbols their extents depend on.
    pub fn closure(&self, mut symbols: BTreeSet<Symbol>) -> BTreeSet<Symbol> {
        for (v, extent) in self.vars.iter().rev() {
            if symbols.contains(v) {
                symbols.extend(extent.symbols());
            }
        }
        symbols
    }

    /// Whether `0 <= index < extent` at every point.
    pub fn within(&self, index: &Expr, extent: &Expr) -> Verdict {
        let above = extent.clone() - 1 - index;
        let goals: Vec<&Expr> =
            [index, &above].into_iter().filter(|g| g.bounds(&self.ranges).lo < 0.0).collect();
        if goals.is_empty() || self.cases().iter().all(|c| proves(self, c, &goals)) {
            return Verdict::Proved;
        }
        let mut symbols = index.symbols();
        symbols.extend(extent.symbols());
        let wide = self.with_conditions(&symbols);
        if wide.iter().any(Symbol::is_knob) {
            return Verdict::Open;
        }
        match self.try_all(&wide, index, extent) {
            Some(verdict) => verdict,
            None => match self.try_all(&self.closure(symbols), index, extent) {
                Some(Verdict::Proved) => Verdict::Proved,
                _ => Verdict::Unknown,
            },
        }
    }

    /// The symbols together with those of every condition that says something about them.
    fn with_conditions(&self, symbols: &BTreeSet<Symbol>) -> BTreeSet<Symbol> {
        let mut wide = self.closure(symbols.clone());
        loop {
            let before = wide.len();
            for c in &self.conditions {
                let mentioned = c.symbols();
                if !mentioned.is_disjoint(&wide) {
                    wide.extend(mentioned);
                }
            }
            wide = self.closure(wide);
            if wide.len() == before {
                return wide;
            }
        }
    }

    /// The conditions as alternatives, each a list of conditions that hold together.
    fn cases(&self) -> Vec<Vec<Expr>> {
        let mut cases = vec![Vec::new()];
        for c in &self.conditions {
            let mut parts = Vec::new();
            disjuncts(c, &mut parts);
            if cases.len() * parts.len() > MAX_CASES {
                continue;
            }
            cases = cases
                .iter()
                .flat_map(|case: &Vec<Expr>| {
                    parts.iter().map(|p| {
                        let mut with = Domain { conditions: case.clone(), ..Domain::default() };
                        with.conjuncts(p);
                        with.conditions
                    })
                })
                .collect();
        }
        cases
    }

    /// Tries every point over the symbols given; `None` when there are too many.
    fn try_all(&self, symbols: &BTreeSet<Symbol>, index: &Expr, extent: &Expr) -> Option<Verdict> {
        let vars: Vec<&(Symbol, Expr)> = self.vars.iter().filter(|(v, _)| symbols.contains(v)).collect();
        let conditions: Vec<&Expr> =
            self.conditions.iter().filter(|c| c.symbols().is_subset(symbols)).collect();
        let mut search = Points { vars, conditions, index, extent, values: Vec::new(), left: MAX_POINTS };
        search.run()
    }
}

fn proves(domain: &Domain, conditions: &[Expr], goals: &[&Expr]) -> bool {
    let mut prover = Prover::new(domain, conditions);
    goals.iter().all(|g| prover.never_negative(g))
}

/// The negation, pushed down to comparisons.
fn negation(e: &Expr) -> Expr {
    match e.node() {
        Node::Binary(BinaryOp::And, a, b) => negation(a).or(&negation(b)),
        Node::Binary(BinaryOp::Or, a, b) => negation(a).and(&negation(b)),
        _ => Expr::unary(UnaryOp::Not, e.clone()),
    }
}

fn disjuncts(e: &Expr, out: &mut Vec<Expr>) {
    match e.node() {
        Node::Binary(BinaryOp::Or, a, b) => {
            disjuncts(a, out);
            disjuncts(b, out);
        }
        Node::Binary(BinaryOp::Ne, a, b) if a.ty() == Ty::Int && b.ty() == Ty::Int => {
            out.extend([a.lt(b), b.lt(a)]);
        }
        _ => out.push(e.clone()),
    }
}

/// A walk over all points of some variables.
struct Points<'a> {
    vars: Vec<&'a (Symbol, Expr)>,
    conditions: Vec<&'a Expr>,
    index: &'a Expr,
    extent: &'a Expr,
    values: Vec<i64>,
    left: usize,
}

impl Points<'_> {
    fn eval(&self, e: &Expr) -> Option<i64> {
        e.eval(&|s| {
            let at = self.vars[..self.values.len()].iter().rposition(|(v, _)| v == s)?;
            Some(self.values[at])
        })
    }

    fn run(&mut self) -> Option<Verdict> {
        let Some((_, extent)) = self.vars.get(self.values.len()) else { return self.check() };
        let extent = self.eval(extent)?;
        for v in 0..extent {
            self.left = self.left.checked_sub(1)?;
            self.values.push(v);
            let verdict = self.run();
            self.values.pop();
            if verdict != Some(Verdict::Proved) {
                return verdict;
            }
        }
        Some(Verdict::Proved)
    }

    fn check(&self) -> Option<Verdict> {
        for c in &self.conditions {
            if self.eval(c)? == 0 {
                return Some(Verdict::Proved);
            }
        }
        let (value, extent) = (self.eval(self.index)?, self.eval(self.extent)?);
        if 0 <= value && value < extent {
            return Some(Verdict::Proved);
        }
        let at: Vec<String> =
            self.vars.iter().zip(&self.values).map(|((v, _), x)| format!("{v}={x}")).collect();
        let at = if at.is_empty() { "every point".into() } else { at.join(", ") };
        Some(Verdict::Refuted { at, value })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn expr(text: &str) -> Expr {
        Expr::parse(text).unwrap_or_else(|e| panic!("{text}: {e}"))
    }

    fn domain(vars: &[(&str, &str)], conditions: &[&str]) -> Domain {
        let mut out = Domain::default();
        for (v, extent) in vars {
            out.bind(&Symbol::var(v), &expr(extent));
        }
        for c in conditions {
            out.assume(&expr(c), true);
        }
        out
    }

    fn proved(domain: &Domain, index: &str, extent: i64) -> bool {
        let index = expr(index);
        let above = Expr::int(extent - 1) - &index;
        domain.cases().iter().all(|c| proves(domain, c, &[&index, &above]))
    }

    #[test]
    fn tails_of_any_size_are_proved_without_trying_points() {
        let tiles = domain(
            &[
                ("i0", "ceildiv(1000003, 96)"),
                ("i1", "ceildiv(min(96, 1000003 - i0 * 96), 7)"),
                ("i2", "min(7, min(96, 1000003 - i0 * 96) - i1 * 7)"),
            ],
            &[],
        );
        assert!(proved(&tiles, "i0 * 96 + i1 * 7 + i2", 1_000_003));
        assert!(!proved(&tiles, "i0 * 96 + i1 * 7 + i2", 1_000_002));
        let fused = domain(&[("f", "171000 * 16"), ("i", "min(6, 1025999 - f // 16 * 6)")], &[]);
        assert!(proved(&fused, "f // 16 * 6 + i", 1_025_999));
        assert!(proved(&fused, "f % 16 * 64", 961));
        assert!(!proved(&fused, "f % 16 * 64", 960));
    }

    #[test]
    fn conditions_are_used_also_through_inner_variables() {
        let d = domain(&[("i", "1000000"), ("j", "1000000")], &["i + j < 500", "3 <= i || 7 <= j"]);
        assert!(proved(&d, "i + j - 3", 497));
        assert!(proved(&d, "i", 500));
        assert!(!proved(&d, "i + j - 4", 497));
        let d = domain(&[("i", "1000000"), ("j", "1000000")], &["i != 0", "j < 9 && 8 < j || i <= j"]);
        assert!(proved(&d, "i - 1", 999_999));
        assert!(proved(&d, "j - 1", 999_999));
    }

    /// Expressions over three variables as loop bounds and strides make them.
    fn indices() -> impl Strategy<Value = Expr> {
        let leaf = prop_oneof![
            (-9i64..10).prop_map(Expr::int),
            prop::sample::select(vec!["a", "b", "c"]).prop_map(Expr::var),
        ];
        leaf.prop_recursive(4, 16, 2, |inner| {
            prop_oneof![
                (inner.clone(), inner.clone()).prop_map(|(x, y)| x + y),
                (inner.clone(), -4i64..5).prop_map(|(x, k)| x * k),
                (inner.clone(), inner.clone()).prop_map(|(x, y)| x * y),
                (inner.clone(), 1i64..6).prop_map(|(x, k)| x.floor_div(k)),
                (inner.clone(), 1i64..6).prop_map(|(x, k)| x.ceil_div(k)),
                (inner.clone(), 1i64..6).prop_map(|(x, k)| x.rem(k)),
                (inner.clone(), inner.clone()).prop_map(|(x, y)| x.min(y)),
                (inner.clone(), inner.clone()).prop_map(|(x, y)| x.max(y)),
                (inner.clone(), inner.clone(), inner).prop_map(|(x, y, z)| Expr::select(x.lt(&y), z, y)),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

        /// What is proved is true at every point.
        #[test]
        fn proofs_are_sound(
            index in indices(),
            inner in indices(),
            low in indices(),
            high in indices(),
            extent in 1i64..20,
            or in any::<bool>(),
        ) {
            let mut d = domain(&[("a", "5"), ("b", "4")], &[]);
            let inner = inner.subst(&|s| (s.name() == "c").then(|| Expr::var("b")));
            d.bind(&Symbol::var("c"), &inner.min(6));
            let first = low.le(&Expr::var("c"));
            let second = Expr::var("a").lt(&high);
            d.assume(&if or { first.or(&second) } else { first.and(&second) }, true);
            let above = Expr::int(extent - 1) - &index;
            let proved = d.cases().iter().all(|c| proves(&d, c, &[&index, &above]));
            let truth = d.try_all(&index_symbols(), &index, &Expr::int(extent));
            if proved {
                prop_assert_eq!(truth, Some(Verdict::Proved), "{} in {}", index, extent);
            }
        }
    }

    fn index_symbols() -> BTreeSet<Symbol> {
        ["a", "b", "c"].map(Symbol::var).into_iter().collect()
    }
}
