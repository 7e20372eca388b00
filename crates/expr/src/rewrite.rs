//! Simplification by equality saturation: all forms the rules of [`crate::rules`] find are kept side by side in an
//! e-graph, and the cheapest is taken out at the end.
//!
//! The search ends after a number of rounds or nodes, so that the same formulas give the same result on every machine; a
//! limit of time exists for formulas that none of the limits fits. The result is never worse than what was given: if the
//! new formulas take more operators together, the old ones are kept.

use std::collections::HashMap;
use std::time::Duration;

use egg::{
    Analysis, Applier, DidMerge, EGraph, ENodeOrVar, Id, Language, Pattern, PatternAst, Rewrite, Runner,
    StopReason, Subst, Symbol as Name, Var, define_language,
};

use crate::bounds::{Interval, Ranges, combine, map};
use crate::node::{BinaryOp, Expr, Node, Ty, UnaryOp};
use crate::rules::{Condition, Fact, RULES, Rule};
use crate::symbol::Symbol;

/// A number by its bits, so that equality is exact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Number(u64);

impl Number {
    fn of(v: f64) -> Number {
        // Zeros of both signs are one number.
        Number(if v == 0.0 { 0 } else { v.to_bits() })
    }

    fn value(self) -> f64 {
        f64::from_bits(self.0)
    }
}

impl std::fmt::Display for Number {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.value())
    }
}

impl std::str::FromStr for Number {
    type Err = std::num::ParseFloatError;

    fn from_str(text: &str) -> Result<Number, Self::Err> {
        text.parse().map(Number::of)
    }
}

/// A symbol by its place in the rewriter's list; `s3` in text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Leaf(u32);

impl std::fmt::Display for Leaf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "s{}", self.0)
    }
}

impl std::str::FromStr for Leaf {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Leaf, Self::Err> {
        text.strip_prefix('s').unwrap_or("?").parse().map(Leaf)
    }
}

define_language! {
    /// Expressions as the e-graph holds them: without types, truth values as numbers.
    enum Term {
        "+" = Add([Id; 2]),
        "*" = Mul([Id; 2]),
        "/" = Div([Id; 2]),
        "floordiv" = FloorDiv([Id; 2]),
        "ceildiv" = CeilDiv([Id; 2]),
        "mod" = Mod([Id; 2]),
        "min" = Min([Id; 2]),
        "max" = Max([Id; 2]),
        "pow" = Pow([Id; 2]),
        "lt" = Lt([Id; 2]),
        "le" = Le([Id; 2]),
        "eq" = Eq([Id; 2]),
        "ne" = Ne([Id; 2]),
        "and" = And([Id; 2]),
        "or" = Or([Id; 2]),
        "not" = Not([Id; 1]),
        "log" = Log([Id; 1]),
        "exp" = Exp([Id; 1]),
        "sqrt" = Sqrt([Id; 1]),
        "abs" = Abs([Id; 1]),
        "select" = Select([Id; 3]),
        Number(Number),
        Leaf(Leaf),
    }
}

/// What an operator of an e-node is in an expression.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Unary(UnaryOp),
    Binary(BinaryOp),
    Select,
    Number(f64),
    Leaf(usize),
}

impl Term {
    fn kind(&self) -> Kind {
        use BinaryOp as B;
        match self {
            Term::Add(_) => Kind::Binary(B::Add),
            Term::Mul(_) => Kind::Binary(B::Mul),
            Term::Div(_) => Kind::Binary(B::Div),
            Term::FloorDiv(_) => Kind::Binary(B::FloorDiv),
            Term::CeilDiv(_) => Kind::Binary(B::CeilDiv),
            Term::Mod(_) => Kind::Binary(B::Mod),
            Term::Min(_) => Kind::Binary(B::Min),
            Term::Max(_) => Kind::Binary(B::Max),
            Term::Pow(_) => Kind::Binary(B::Pow),
            Term::Lt(_) => Kind::Binary(B::Lt),
            Term::Le(_) => Kind::Binary(B::Le),
            Term::Eq(_) => Kind::Binary(B::Eq),
            Term::Ne(_) => Kind::Binary(B::Ne),
            Term::And(_) => Kind::Binary(B::And),
            Term::Or(_) => Kind::Binary(B::Or),
            Term::Not(_) => Kind::Unary(UnaryOp::Not),
            Term::Log(_) => Kind::Unary(UnaryOp::Log),
            Term::Exp(_) => Kind::Unary(UnaryOp::Exp),
            Term::Sqrt(_) => Kind::Unary(UnaryOp::Sqrt),
            Term::Abs(_) => Kind::Unary(UnaryOp::Abs),
            Term::Select(_) => Kind::Select,
            Term::Number(v) => Kind::Number(v.value()),
            Term::Leaf(at) => Kind::Leaf(at.0 as usize),
        }
    }

    fn unary(op: UnaryOp, a: Id) -> Term {
        match op {
            UnaryOp::Not => Term::Not([a]),
            UnaryOp::Log => Term::Log([a]),
            UnaryOp::Exp => Term::Exp([a]),
            UnaryOp::Sqrt => Term::Sqrt([a]),
            UnaryOp::Abs => Term::Abs([a]),
        }
    }

    fn binary(op: BinaryOp, a: Id, b: Id) -> Term {
        let ab = [a, b];
        match op {
            BinaryOp::Add => Term::Add(ab),
            BinaryOp::Mul => Term::Mul(ab),
            BinaryOp::Div => Term::Div(ab),
            BinaryOp::FloorDiv => Term::FloorDiv(ab),
            BinaryOp::CeilDiv => Term::CeilDiv(ab),
            BinaryOp::Mod => Term::Mod(ab),
            BinaryOp::Min => Term::Min(ab),
            BinaryOp::Max => Term::Max(ab),
            BinaryOp::Pow => Term::Pow(ab),
            BinaryOp::Lt => Term::Lt(ab),
            BinaryOp::Le => Term::Le(ab),
            BinaryOp::Eq => Term::Eq(ab),
            BinaryOp::Ne => Term::Ne(ab),
            BinaryOp::And => Term::And(ab),
            BinaryOp::Or => Term::Or(ab),
        }
    }
}

/// Bounds and wholeness of every class.
#[derive(Clone, Default)]
struct Facts {
    symbols: Vec<Fact>,
}

/// Bounds that improve by less are taken as they are, so that rounding does not go on for ever.
const PROGRESS: f64 = 1e-9;

impl Analysis<Term> for Facts {
    type Data = Fact;

    fn make(egraph: &mut EGraph<Term, Facts>, node: &Term, _: Id) -> Fact {
        let of = |k: usize| egraph[node.children()[k]].data;
        match node.kind() {
            Kind::Number(v) => Fact { interval: Interval::point(v), whole: v.fract() == 0.0 },
            Kind::Leaf(at) => egraph.analysis.symbols[at],
            Kind::Unary(op) => {
                let a = of(0);
                let whole = op == UnaryOp::Not || (op == UnaryOp::Abs && a.whole);
                Fact { interval: known(map(op, a.interval)), whole }
            }
            Kind::Select => {
                let (c, a, b) = (of(0).interval, of(1), of(2));
                let interval = if c.lo > 0.0 || c.hi < 0.0 {
                    a.interval
                } else if c.lo == 0.0 && c.hi == 0.0 {
                    b.interval
                } else {
                    a.interval.union(b.interval)
                };
                Fact { interval, whole: a.whole && b.whole }
            }
            Kind::Binary(op) => {
                let (a, b) = (of(0), of(1));
                use BinaryOp::{Add, Div, Max, Min, Mod, Mul, Pow};
                let whole = match op {
                    Add | Mul | Min | Max | Mod => a.whole && b.whole,
                    Div | Pow => false,
                    _ => true,
                };
                let interval = match op {
                    // A remainder of real numbers may come close to its divisor.
                    Mod if !whole => match b.interval.lo > 0.0 {
                        true => Interval::new(0.0, b.interval.hi),
                        false => Interval::ALL,
                    },
                    // Conditions are whether a number is not zero.
                    BinaryOp::And | BinaryOp::Or if !(is_truth(&a) && is_truth(&b)) => {
                        Interval::new(0.0, 1.0)
                    }
                    _ => combine(op, a.interval, b.interval),
                };
                Fact { interval: known(interval), whole }
            }
        }
    }

    fn merge(&mut self, a: &mut Fact, b: Fact) -> DidMerge {
        let mut differs = false;
        let better = |from: f64, to: f64| (to - from).abs() > PROGRESS * (1.0 + from.abs().min(to.abs()));
        if b.interval.lo > a.interval.lo && better(a.interval.lo, b.interval.lo) {
            a.interval.lo = b.interval.lo;
            differs = true;
        }
        if b.interval.hi < a.interval.hi && better(a.interval.hi, b.interval.hi) {
            a.interval.hi = b.interval.hi;
            differs = true;
        }
        if b.whole && !a.whole {
            a.whole = true;
            differs = true;
        }
        DidMerge(differs, *a != b)
    }

    fn modify(egraph: &mut EGraph<Term, Facts>, id: Id) {
        let Interval { lo, hi } = egraph[id].data.interval;
        if lo == hi && lo.is_finite() {
            let number = egraph.add(Term::Number(Number::of(lo)));
            egraph.union(id, number);
        }
    }
}

fn known(i: Interval) -> Interval {
    if i.lo.is_nan() || i.hi.is_nan() { Interval::ALL } else { i }
}

fn is_truth(f: &Fact) -> bool {
    f.whole && f.interval.lo >= 0.0 && f.interval.hi <= 1.0
}

/// A right side that is put in only where the conditions are known to hold.
struct When {
    to: Pattern<Term>,
    conditions: &'static [Condition],
}

impl Applier<Term, Facts> for When {
    fn apply_one(
        &self,
        egraph: &mut EGraph<Term, Facts>,
        class: Id,
        subst: &Subst,
        ast: Option<&PatternAst<Term>>,
        rule: Name,
    ) -> Vec<Id> {
        let unknown = Fact { interval: Interval::ALL, whole: false };
        let of = |name: &str| {
            let var = name.parse::<Var>().ok();
            var.and_then(|v| subst.get(v)).map_or(unknown, |id| egraph[*id].data)
        };
        if self.conditions.iter().all(|c| c.holds(&of)) {
            self.to.apply_one(egraph, class, subst, ast, rule)
        } else {
            Vec::new()
        }
    }

    fn vars(&self) -> Vec<Var> {
        Applier::<Term, Facts>::vars(&self.to)
    }
}

impl Rule {
    fn compile(&self) -> Option<Rewrite<Term, Facts>> {
        let from: Pattern<Term> = self.from.parse().ok()?;
        let to: Pattern<Term> = self.to.parse().ok()?;
        Rewrite::new(self.name, from, When { to, conditions: self.when }).ok()
    }

    /// The values of both sides at a point, or `None` when the rule is not well formed or a variable has no value. For
    /// tests of soundness.
    pub fn sides(&self, at: &dyn Fn(&str) -> Option<f64>) -> Option<(f64, f64)> {
        let value = |text: &str| -> Option<f64> {
            let pattern: Pattern<Term> = text.parse().ok()?;
            let mut values: Vec<f64> = Vec::new();
            for node in pattern.ast.as_ref() {
                let v = match node {
                    ENodeOrVar::Var(v) => at(&v.to_string())?,
                    ENodeOrVar::ENode(node) => {
                        let of = |k: usize| Expr::real(values[usize::from(node.children()[k])]);
                        let e = match node.kind() {
                            Kind::Number(v) => Expr::real(v),
                            Kind::Leaf(_) => return None,
                            Kind::Unary(op) => Expr::intern(Node::Unary(op, of(0))),
                            Kind::Binary(op) => Expr::intern(Node::Binary(op, of(0), of(1))),
                            Kind::Select => Expr::intern(Node::Select(of(0), of(1), of(2))),
                        };
                        e.eval_real(&|_| None)?
                    }
                };
                values.push(v);
            }
            values.last().copied()
        };
        Some((value(self.from)?, value(self.to)?))
    }
}

/// What a rewriting did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RewriteReport {
    /// Operators of all formulas together, shared ones counted once: before and after.
    pub before: usize,
    /// After.
    pub after: usize,
    /// Rounds of all rules.
    pub rounds: usize,
    /// Nodes of the e-graph at the end.
    pub nodes: usize,
    /// Whether the limit of time ended the search, and the result is not reproducible.
    pub timed_out: bool,
}

/// Rewrites formulas to cheaper equal ones.
#[derive(Clone, Debug)]
pub struct Rewriter {
    /// What is known of the symbols.
    pub ranges: Ranges,
    /// Whether symbols take whole values only.
    pub whole: bool,
    /// Rounds of all rules, at most.
    pub rounds: usize,
    /// Nodes of the e-graph for each operator of the formulas, about, at most.
    pub growth: usize,
    /// When to give up.
    pub time: Duration,
    /// What an operator costs.
    pub cost: fn(&Node) -> f64,
}

/// Operators as a tape evaluates them.
pub fn plain_cost(node: &Node) -> f64 {
    match node {
        Node::Unary(UnaryOp::Log | UnaryOp::Exp, _) => 4.0,
        Node::Binary(BinaryOp::Pow, ..) => 20.0,
        Node::Unary(UnaryOp::Sqrt, _) | Node::Binary(BinaryOp::Div, ..) => 2.0,
        Node::Binary(BinaryOp::FloorDiv | BinaryOp::CeilDiv | BinaryOp::Mod, ..) => 3.0,
        _ => 1.0,
    }
}

/// Operators as they are when smoothed, see [`crate::smooth`].
pub fn smooth_cost(node: &Node) -> f64 {
    match node {
        Node::Binary(BinaryOp::FloorDiv | BinaryOp::CeilDiv, ..) => 16.0,
        Node::Binary(BinaryOp::Mod, ..) => 18.0,
        Node::Binary(BinaryOp::Min | BinaryOp::Max, ..) => 12.0,
        Node::Binary(BinaryOp::Lt | BinaryOp::Le, ..) => 12.0,
        Node::Binary(BinaryOp::Eq | BinaryOp::Ne, ..) => 10.0,
        Node::Binary(BinaryOp::Or, ..) => 4.0,
        Node::Select(..) => 12.0,
        _ => plain_cost(node),
    }
}

impl Rewriter {
    /// Rewrites under known ranges of the symbols, which take whole values.
    pub fn new(ranges: Ranges) -> Rewriter {
        Rewriter { ranges, whole: true, rounds: 6, growth: 5, time: Duration::from_secs(1), cost: plain_cost }
    }

    /// Equal formulas that cost less together, or the ones given. Values agree wherever the symbols are in their ranges,
    /// to within rounding; types may change from integer to real.
    pub fn rewrite(&self, formulas: &[Expr]) -> (Vec<Expr>, RewriteReport) {
        let mut symbols: Vec<Symbol> = Vec::new();
        for e in formulas {
            symbols.extend(e.symbols());
        }
        symbols.sort();
        symbols.dedup();
        let facts =
            symbols.iter().map(|s| Fact { interval: self.ranges.get(s), whole: self.whole }).collect();
        let mut egraph = EGraph::new(Facts { symbols: facts });
        let mut ids = HashMap::new();
        let roots: Vec<Id> = formulas.iter().map(|e| insert(e, &symbols, &mut egraph, &mut ids)).collect();
        let rules: Vec<Rewrite<Term, Facts>> = RULES.iter().filter_map(Rule::compile).collect();
        let size = egraph.total_size();
        let runner = Runner::<Term, Facts>::new(Facts::default())
            .with_egraph(egraph)
            .with_iter_limit(self.rounds)
            .with_node_limit(size.saturating_mul(self.growth) + 500)
            .with_time_limit(self.time)
            .run(&rules);
        let mut extraction = Extraction::new(&runner.egraph, &symbols, self.cost);
        extraction.refine(&roots, self.cost);
        let new = extraction.take_all(&roots);
        let old_cost = total(formulas, self.cost);
        let is_better = total(&new, self.cost) < old_cost;
        let out = if is_better { new } else { formulas.to_vec() };
        let report = RewriteReport {
            before: total(formulas, |_| 1.0) as usize,
            after: total(&out, |_| 1.0) as usize,
            rounds: runner.iterations.len(),
            nodes: runner.egraph.total_size(),
            timed_out: matches!(runner.stop_reason, Some(StopReason::TimeLimit(_))),
        };
        (out, report)
    }
}

/// The cost of all formulas together, every distinct operator counted once.
fn total(formulas: &[Expr], cost: fn(&Node) -> f64) -> f64 {
    let mut seen = std::collections::HashSet::new();
    let mut stack: Vec<&Expr> = formulas.iter().collect();
    let mut sum = 0.0;
    while let Some(e) = stack.pop() {
        if e.height() == 0 || !seen.insert(e) {
            continue;
        }
        sum += cost(e.node());
        match e.node() {
            Node::Unary(_, a) => stack.push(a),
            Node::Binary(_, a, b) => stack.extend([a, b]),
            Node::Select(c, a, b) => stack.extend([c, a, b]),
            _ => {}
        }
    }
    sum
}

fn insert(e: &Expr, symbols: &[Symbol], egraph: &mut EGraph<Term, Facts>, ids: &mut HashMap<Expr, Id>) -> Id {
    if let Some(id) = ids.get(e) {
        return *id;
    }
    let mut of = |e: &Expr| insert(e, symbols, egraph, ids);
    let term = match e.node() {
        Node::Int(v) => Term::Number(Number::of(*v as f64)),
        Node::Real(v) => Term::Number(Number::of(f64::from_bits(*v))),
        Node::Bool(v) => Term::Number(Number::of(f64::from(u8::from(*v)))),
        Node::Sym(s) => Term::Leaf(Leaf(symbols.binary_search(s).unwrap_or(0) as u32)),
        Node::Unary(op, a) => Term::unary(*op, of(a)),
        Node::Binary(op, a, b) => {
            let a = of(a);
            Term::binary(*op, a, of(b))
        }
        Node::Select(c, a, b) => {
            let (c, a) = (of(c), of(a));
            Term::Select([c, a, of(b)])
        }
    };
    let id = egraph.add(term);
    ids.insert(e.clone(), id);
    id
}

/// Takes the cheapest expressions out of an e-graph.
///
/// What operands cost as trees gives an order of all classes; a node whose operands come earlier than its class can be
/// chosen without making a cycle. Among those, choices are improved by sharing a class's cost between its users.
struct Extraction<'a> {
    egraph: &'a EGraph<Term, Facts>,
    symbols: &'a [Symbol],
    /// Every class with its nodes and their weights, and what it costs as a tree; cheaper ones first.
    classes: Vec<Class<'a>>,
    /// The node chosen for each class.
    chosen: HashMap<Id, &'a Term>,
}

/// A class: what it costs as a tree, and its nodes with their weights.
type Class<'a> = (Id, f64, Vec<(f64, &'a Term)>);

/// Improvements of an extraction.
const REFINEMENTS: usize = 5;

/// The expression of a node whose operands are known.
fn build(node: &Term, symbols: &[Symbol], operand: &dyn Fn(Id) -> Expr) -> Expr {
    let of = |k: usize| operand(node.children()[k]);
    // Nodes are taken as they are: constructors would multiply out what was factored.
    let raw = |op: BinaryOp, a: Expr, b: Expr| {
        let swap = matches!(op, BinaryOp::Add | BinaryOp::Mul | BinaryOp::Min | BinaryOp::Max)
            && b.order(&a).is_lt();
        let (a, b) = if swap { (b, a) } else { (a, b) };
        Expr::intern(Node::Binary(op, a, b))
    };
    match node.kind() {
        Kind::Number(v) => Expr::real(v),
        Kind::Leaf(at) => Expr::sym(&symbols[at]),
        Kind::Unary(op) => Expr::intern(Node::Unary(op, of(0))),
        Kind::Binary(op) => raw(op, of(0), of(1)),
        Kind::Select => Expr::intern(Node::Select(condition(of(0)), of(1), of(2))),
    }
}

/// A number as a condition.
fn condition(e: Expr) -> Expr {
    if e.ty() == Ty::Bool { e } else { Expr::intern(Node::Binary(BinaryOp::Ne, e, Expr::real(0.0))) }
}

impl<'a> Extraction<'a> {
    fn new(egraph: &'a EGraph<Term, Facts>, symbols: &'a [Symbol], cost: fn(&Node) -> f64) -> Extraction<'a> {
        let dummy = Expr::real(0.0);
        let weight = |node: &Term| match node.kind() {
            Kind::Number(_) | Kind::Leaf(_) => 0.01,
            _ => cost(build(node, symbols, &|_| dummy.clone()).node()),
        };
        let mut classes: Vec<Class<'a>> = egraph
            .classes()
            .map(|c| (c.id, f64::INFINITY, c.nodes.iter().map(|n| (weight(n), n)).collect()))
            .collect();
        classes.sort_by_key(|c| c.0);
        let mut tree: HashMap<Id, f64> = HashMap::new();
        let mut chosen = HashMap::new();
        let mut changed = true;
        while changed {
            changed = false;
            for (id, best, nodes) in &mut classes {
                for (weight, node) in nodes.iter() {
                    let operands =
                        node.children().iter().map(|c| tree.get(c).copied().unwrap_or(f64::INFINITY));
                    let sum = weight + operands.sum::<f64>();
                    // Shared operands make sums astronomic; a class still costs more than its operands.
                    if sum < *best * (1.0 - 1e-12) {
                        *best = sum;
                        tree.insert(*id, sum);
                        chosen.insert(*id, *node);
                        changed = true;
                    }
                }
            }
        }
        classes.sort_by(|a, b| a.1.total_cmp(&b.1).then(a.0.cmp(&b.0)));
        Extraction { egraph, symbols, classes, chosen }
    }

    /// Chooses anew with the cost of every class shared between the users it has now, as often as that helps.
    fn refine(&mut self, roots: &[Id], cost: fn(&Node) -> f64) {
        let rank: HashMap<Id, usize> = self.classes.iter().enumerate().map(|(k, c)| (c.0, k)).collect();
        let mut best = total(&self.take_all(roots), cost);
        for _ in 0..REFINEMENTS {
            let users = self.users(roots);
            let mut shared: HashMap<Id, f64> = HashMap::new();
            let mut chosen = HashMap::new();
            for (k, (id, _, nodes)) in self.classes.iter().enumerate() {
                let mut least = f64::INFINITY;
                for (weight, node) in nodes {
                    if node.children().iter().any(|c| rank[c] >= k) {
                        continue;
                    }
                    let sum = weight + node.children().iter().map(|c| shared[c]).sum::<f64>();
                    if sum < least {
                        least = sum;
                        chosen.insert(*id, *node);
                    }
                }
                let count = users.get(id).copied().unwrap_or(0).max(1);
                shared.insert(*id, least / f64::from(count));
            }
            let before = std::mem::replace(&mut self.chosen, chosen);
            let now = total(&self.take_all(roots), cost);
            if now >= best {
                self.chosen = before;
                break;
            }
            best = now;
        }
    }

    /// How many chosen nodes below the roots use each class.
    fn users(&self, roots: &[Id]) -> HashMap<Id, u32> {
        let mut count: HashMap<Id, u32> = HashMap::new();
        let mut stack: Vec<Id> = Vec::new();
        let visit = |id: Id, count: &mut HashMap<Id, u32>, stack: &mut Vec<Id>| {
            let seen = count.entry(id).or_insert(0);
            *seen += 1;
            if *seen == 1 {
                stack.push(id);
            }
        };
        roots.iter().for_each(|r| visit(self.egraph.find(*r), &mut count, &mut stack));
        while let Some(id) = stack.pop() {
            let Some(node) = self.chosen.get(&id) else { continue };
            node.children().iter().for_each(|c| visit(*c, &mut count, &mut stack));
        }
        count
    }

    fn take_all(&self, roots: &[Id]) -> Vec<Expr> {
        let mut taken = HashMap::new();
        roots.iter().map(|id| self.take(*id, &mut taken)).collect()
    }

    fn take(&self, id: Id, taken: &mut HashMap<Id, Expr>) -> Expr {
        let id = self.egraph.find(id);
        if let Some(done) = taken.get(&id) {
            return done.clone();
        }
        let Some(node) = self.chosen.get(&id) else { return Expr::real(f64::NAN) };
        let operands: HashMap<Id, Expr> =
            node.children().iter().map(|c| (*c, self.take(*c, taken))).collect();
        let out = build(node, self.symbols, &|c| operands[&c].clone());
        taken.insert(id, out.clone());
        out
    }
}
