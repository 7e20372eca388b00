//! Linear integer inequalities over atoms, and a goal-directed proof search (Fourier-Motzkin from the goal backwards).
//!
//! An atom is a variable, or a term that is not linear: a quotient, a minimum, a product of variables. Atoms are
//! eliminated innermost first. To prove `goal >= 0`, a known `fact >= 0` that holds the goal's innermost atom with the
//! same sign is subtracted so often that the atom vanishes; it then suffices to prove the rest.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;

use talweg_expr::{BinaryOp, Expr, Node};

use super::prove::Domain;

/// An atom with its place in the order of elimination.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Atom {
    /// How deep its innermost variable is bound.
    depth: usize,
    term: Expr,
}

impl Ord for Atom {
    fn cmp(&self, other: &Atom) -> Ordering {
        let key = |a: &Atom| (a.depth, a.term.height());
        key(self).cmp(&key(other)).then_with(|| self.term.order(&other.term))
    }
}

impl PartialOrd for Atom {
    fn partial_cmp(&self, other: &Atom) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Steps a proof may take before it counts as failed.
const BUDGET: usize = 2000;
/// Facts derived from conditions before the proof starts.
const MAX_FACTS: usize = 64;

/// `constant + sum(coefficient * atom)`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Linear {
    constant: i128,
    terms: BTreeMap<Atom, i128>,
}

impl Linear {
    fn innermost(&self) -> Option<(&Atom, i128)> {
        self.terms.last_key_value().map(|(a, c)| (a, *c))
    }

    /// `self + other * by`; `None` on overflow.
    fn plus(mut self, other: &Linear, by: i128) -> Option<Linear> {
        self.constant = self.constant.checked_add(other.constant.checked_mul(by)?)?;
        for (atom, c) in &other.terms {
            let sum = self.terms.get(atom).unwrap_or(&0).checked_add(c.checked_mul(by)?)?;
            if sum == 0 {
                self.terms.remove(atom);
            } else {
                self.terms.insert(atom.clone(), sum);
            }
        }
        Some(self)
    }

    fn shifted(mut self, by: i128) -> Linear {
        self.constant = self.constant.saturating_add(by);
        self
    }

    /// Divides by what all coefficients have in common; `self >= 0` stays the same statement about integers.
    fn reduced(mut self) -> Linear {
        let common = self.terms.values().fold(0, |g, c| gcd(g, c.unsigned_abs()));
        if common > 1 {
            let common = common as i128;
            self.terms.values_mut().for_each(|c| *c /= common);
            self.constant = self.constant.div_euclid(common);
        }
        self
    }

    /// `(self * scale + slack) + other * by`, chosen so that the atom with coefficients `c` and `d` vanishes.
    fn eliminate(&self, c: i128, other: &Linear, d: i128, subtract: bool) -> Option<Linear> {
        let common = gcd(c.unsigned_abs(), d.unsigned_abs()) as i128;
        let (scale, by) = (d.abs() / common, c.abs() / common);
        let scaled = Linear::default().plus(self, scale)?;
        if subtract {
            // For an integer goal, `goal >= 0` and `scale * goal + scale - 1 >= 0` say the same.
            Some(scaled.shifted(scale - 1).plus(other, -by)?.reduced())
        } else {
            Some(scaled.plus(other, by)?.reduced())
        }
    }
}

fn gcd(mut a: u128, mut b: u128) -> u128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// A proof search in one domain, under conditions that hold.
pub(super) struct Prover<'a> {
    domain: &'a Domain,
    known: Vec<Linear>,
    /// The conditions contradict each other or the domain: nothing runs here.
    contradiction: bool,
    /// Goals that were given up, outside any case.
    failed: HashSet<Linear>,
    facts: HashMap<Expr, Rc<Vec<Linear>>>,
    budget: usize,
}

impl<'a> Prover<'a> {
    /// Knows the domain's variables, that every loop around runs, and the conditions given.
    pub fn new(domain: &'a Domain, conditions: &[Expr]) -> Prover<'a> {
        let mut prover = Prover {
            domain,
            known: Vec::new(),
            contradiction: false,
            failed: HashSet::new(),
            facts: HashMap::new(),
            budget: 0,
        };
        for extent in domain.extents() {
            let runs = prover.linear(extent).map(|l| l.shifted(-1));
            prover.learn(runs);
        }
        for c in conditions {
            for fact in prover.facts_of_condition(c) {
                prover.learn(Some(fact));
            }
        }
        prover.saturate();
        prover
    }

    /// Whether an integer expression is provably never negative.
    pub fn never_negative(&mut self, e: &Expr) -> bool {
        self.budget = BUDGET;
        match self.linear(e) {
            _ if self.contradiction => true,
            Some(goal) => self.prove(goal.reduced(), &mut Vec::new()),
            None => false,
        }
    }

    fn learn(&mut self, fact: Option<Linear>) {
        let Some(fact) = fact.map(Linear::reduced) else { return };
        if fact.terms.is_empty() {
            self.contradiction |= fact.constant < 0;
        } else if !self.known.contains(&fact) && self.known.len() < MAX_FACTS {
            self.known.push(fact);
        }
    }

    /// Derives facts about outer atoms from facts about inner ones.
    fn saturate(&mut self) {
        let mut at = 0;
        while at < self.known.len() {
            let fact = self.known[at].clone();
            at += 1;
            let Some((atom, c)) = fact.innermost() else { continue };
            for other in self.facts_of_atom(atom).iter() {
                let d = other.terms.get(atom).copied().unwrap_or(0);
                if d.signum() == -c.signum() {
                    self.learn(fact.eliminate(c, other, d, false));
                }
            }
        }
    }

    fn prove(&mut self, goal: Linear, cases: &mut Vec<Linear>) -> bool {
        let Some((atom, c)) = goal.innermost() else { return goal.constant >= 0 };
        if self.budget == 0 || (cases.is_empty() && self.failed.contains(&goal)) {
            return false;
        }
        self.budget -= 1;
        let proved = self.prove_by_facts(&goal, atom, c, cases) || self.prove_by_cases(&goal, atom, c, cases);
        if !proved && cases.is_empty() {
            self.failed.insert(goal);
        }
        proved
    }

    fn prove_by_facts(&mut self, goal: &Linear, atom: &Atom, c: i128, cases: &mut Vec<Linear>) -> bool {
        let usable = |f: &&Linear| f.innermost().is_some_and(|(a, _)| a == atom);
        let learnt: Vec<Linear> = self.known.iter().chain(cases.iter()).filter(usable).cloned().collect();
        let always = self.facts_of_atom(atom);
        always.iter().chain(&learnt).any(|fact| {
            let d = fact.terms.get(atom).copied().unwrap_or(0);
            d.signum() == c.signum()
                && goal.eliminate(c, fact, d, true).is_some_and(|rest| self.prove(rest, cases))
        })
    }

    fn prove_by_cases(&mut self, goal: &Linear, atom: &Atom, c: i128, cases: &mut Vec<Linear>) -> bool {
        match atom.term.node() {
            Node::Binary(op @ (BinaryOp::Min | BinaryOp::Max), a, b) if (*op == BinaryOp::Min) == (c > 0) => {
                let smaller =
                    |x: &Expr, y: &Expr| if *op == BinaryOp::Min { y.clone() - x } else { x.clone() - y };
                self.case(goal, atom, a, &[smaller(a, b)], cases)
                    && self.case(goal, atom, b, &[smaller(b, a)], cases)
            }
            Node::Select(_, a, b) => {
                self.case(goal, atom, a, &[], cases) && self.case(goal, atom, b, &[], cases)
            }
            _ => false,
        }
    }

    /// Proves the goal with an atom replaced by what it is in one case, where `facts` hold too.
    fn case(
        &mut self,
        goal: &Linear,
        atom: &Atom,
        is: &Expr,
        facts: &[Expr],
        cases: &mut Vec<Linear>,
    ) -> bool {
        let mut rest = goal.clone();
        let c = rest.terms.remove(atom).unwrap_or(0);
        let Some(rest) = self.linear(is).and_then(|l| rest.plus(&l, c)) else { return false };
        let before = cases.len();
        cases.extend(facts.iter().filter_map(|f| self.linear(f)).map(Linear::reduced));
        let proved = self.prove(rest.reduced(), cases);
        cases.truncate(before);
        proved
    }

    fn atom(&self, e: &Expr) -> Linear {
        let atom = Atom { depth: self.domain.depth(e), term: e.clone() };
        Linear { constant: 0, terms: BTreeMap::from([(atom, 1)]) }
    }

    /// The expression as a linear form; `None` on overflow.
    fn linear(&self, e: &Expr) -> Option<Linear> {
        match e.node() {
            Node::Int(v) => Some(Linear { constant: i128::from(*v), terms: BTreeMap::new() }),
            Node::Binary(BinaryOp::Add, a, b) => self.linear(a)?.plus(&self.linear(b)?, 1),
            Node::Binary(BinaryOp::Mul, a, b) if b.as_int().is_some() => {
                Linear::default().plus(&self.linear(a)?, i128::from(b.as_int()?))
            }
            // A remainder is what the quotient leaves.
            Node::Binary(BinaryOp::Mod, a, b) if b.as_int().is_some_and(|s| s > 0) => {
                let quotient = self.linear(&a.floor_div(b))?;
                self.linear(a)?.plus(&quotient, -i128::from(b.as_int()?))
            }
            _ => Some(self.atom(e)),
        }
    }

    /// What is always true of an atom; of facts that differ in the constant only, the strongest.
    fn facts_of_atom(&mut self, atom: &Atom) -> Rc<Vec<Linear>> {
        if let Some(facts) = self.facts.get(&atom.term) {
            return facts.clone();
        }
        let mut out: Vec<Linear> = Vec::new();
        for fact in self.all_facts_of_atom(atom).into_iter().map(Linear::reduced) {
            match out.iter_mut().find(|f| f.terms == fact.terms) {
                Some(f) => f.constant = f.constant.min(fact.constant),
                None => out.push(fact),
            }
        }
        let out = Rc::new(out);
        self.facts.insert(atom.term.clone(), out.clone());
        out
    }

    fn all_facts_of_atom(&self, atom: &Atom) -> Vec<Linear> {
        let e = &atom.term;
        let this = self.atom(e);
        let minus = |l: Linear, other: &Linear, by: i128| l.plus(other, -by);
        let mut out: Vec<Option<Linear>> = Vec::new();
        match e.node() {
            Node::Sym(s) => {
                if let Some(extent) = self.domain.extent(s) {
                    out.push(Some(this.clone()));
                    out.push(self.linear(extent).and_then(|l| minus(l.shifted(-1), &this, 1)));
                }
            }
            Node::Binary(op @ (BinaryOp::FloorDiv | BinaryOp::CeilDiv), a, b) => {
                if let (Some(s), Some(a)) = (b.as_int().filter(|s| *s > 0), self.linear(a)) {
                    let s = i128::from(s);
                    let (up, down) = if *op == BinaryOp::FloorDiv { (0, s - 1) } else { (s - 1, 0) };
                    out.push(minus(a.clone().shifted(up), &this, s));
                    out.push(
                        Linear::default()
                            .plus(&this, s)
                            .and_then(|l| minus(l, &a, 1))
                            .map(|l| l.shifted(down)),
                    );
                }
            }
            Node::Binary(BinaryOp::Min, a, b) => {
                out.extend([a, b].map(|x| self.linear(x).and_then(|l| minus(l, &this, 1))));
            }
            Node::Binary(BinaryOp::Max, a, b) => {
                out.extend([a, b].map(|x| self.linear(x).and_then(|l| minus(this.clone(), &l, 1))));
            }
            _ => {}
        }
        let range = e.bounds(self.domain.ranges());
        let exact = |v: f64| v.abs() < 9e15;
        if exact(range.lo) {
            out.push(Some(this.clone().shifted(-(range.lo as i128))));
        }
        if exact(range.hi) {
            out.push(Linear::default().plus(&this, -1).map(|l| l.shifted(range.hi as i128)));
        }
        out.into_iter().flatten().collect()
    }

    /// The inequalities that a comparison states.
    fn facts_of_condition(&self, c: &Expr) -> Vec<Linear> {
        let Node::Binary(op, a, b) = c.node() else { return Vec::new() };
        let difference =
            |x: &Expr, y: &Expr| self.linear(x).zip(self.linear(y)).and_then(|(x, y)| x.plus(&y, -1));
        let facts = match op {
            BinaryOp::Lt => vec![difference(b, a).map(|l| l.shifted(-1))],
            BinaryOp::Le => vec![difference(b, a)],
            BinaryOp::Eq => vec![difference(a, b), difference(b, a)],
            _ => Vec::new(),
        };
        facts.into_iter().flatten().collect()
    }
}
