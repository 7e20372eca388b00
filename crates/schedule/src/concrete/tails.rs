//! Tails: vectorised and unrolled loops get constant extents, by one copy of the code for each extent they can have.
//!
//! ```text
//! for i.0 in 0..171 { unroll i.1 in 0..min(6, 1024 - i.0*6) { S } }
//! ->
//! for i.0 in 0..171 {
//!   if min(6, 1024 - i.0*6) == 6 { unroll i.1 in 0..6 { S } } else { unroll i.1 in 0..4 { S } } }
//! ```
//!
//! The choice is made where the extent becomes known, which is outside the loops of the register tile, so inner loops
//! have no branches. When there are too many extents to copy the code for, the loop runs serially instead.

use std::collections::BTreeSet;

use talweg_expr::{Expr, Symbol};
use talweg_ir::{Loop, LoopKind, Nest, Stmt, TensorId};

/// At most this many copies are made at one place.
const MAX_COPIES: usize = 12;
/// Extents are found by trying at most this many combinations of the loops around.
const MAX_POINTS: usize = 1 << 18;

/// Specialises every vectorised and unrolled loop of a concrete nest whose extent varies.
pub(super) fn specialise(nest: &Nest) -> Nest {
    let mut out = nest.clone();
    let mut pass = Pass { path: Vec::new(), next: 0 };
    out.body = pass.block(nest.body.clone());
    out
}

struct Pass {
    /// Loops around the current block with their extents.
    path: Vec<(Symbol, Expr)>,
    /// Copies made so far, to keep loop names unique.
    next: usize,
}

impl Pass {
    fn block(&mut self, mut stmts: Vec<Stmt>) -> Vec<Stmt> {
        // Extents that vary but are known in this block, and the statements from the first to the last that has one.
        loop {
            let known: BTreeSet<Symbol> = self.path.iter().map(|(v, _)| v.clone()).collect();
            let mut found: Option<Expr> = None;
            let (mut first, mut last) = (usize::MAX, 0);
            for (at, s) in stmts.iter().enumerate() {
                let mut here = Vec::new();
                varying(s, &known, &mut here);
                if found.is_none() {
                    found = here.first().cloned();
                }
                if found.as_ref().is_some_and(|f| here.contains(f)) {
                    first = first.min(at);
                    last = last.max(at);
                }
            }
            let Some(extent) = found else { break };
            let values = self.values(&extent);
            match values {
                Some(values) if values.len() <= MAX_COPIES => {
                    // Buffers that only live for these statements are allocated in each copy.
                    while first > 0
                        && matches!(stmts[first - 1], Stmt::Alloc(b) if !used(&stmts[last + 1..], b))
                    {
                        first -= 1;
                    }
                    // Those that are used afterwards are allocated before.
                    let lives_on = |s: &Stmt| matches!(s, Stmt::Alloc(b) if used(&stmts[last + 1..], *b));
                    let (allocs, body): (Vec<Stmt>, Vec<Stmt>) =
                        stmts[first..=last].iter().cloned().partition(lives_on);
                    let chosen = self.choose(&extent, &values, &body);
                    stmts.splice(first..=last, allocs.into_iter().chain(chosen));
                }
                _ => stmts = stmts.iter().map(|s| demote(s, &extent)).collect(),
            }
        }
        stmts.into_iter().map(|s| self.statement(s)).collect()
    }

    fn statement(&mut self, stmt: Stmt) -> Stmt {
        match stmt {
            Stmt::For(mut l) => {
                self.path.push((l.var.clone(), l.extent.clone()));
                l.body = self.block(std::mem::take(&mut l.body));
                self.path.pop();
                Stmt::For(l)
            }
            Stmt::If { condition, then, otherwise } => {
                Stmt::If { condition, then: self.block(then), otherwise: self.block(otherwise) }
            }
            other => other,
        }
    }

    /// A chain of conditions with one copy of the body for each value, largest first.
    fn choose(&mut self, extent: &Expr, values: &[i64], body: &[Stmt]) -> Vec<Stmt> {
        let Some((value, rest)) = values.split_last() else { return Vec::new() };
        let copy: Vec<Stmt> = body.iter().map(|s| fix(s, extent, *value)).collect();
        // Loops of no iterations are removed by simplification; what stands beside them still runs.
        if rest.is_empty() {
            return copy;
        }
        self.next += 1;
        let tag = format!("t{}", self.next);
        let others: Vec<Stmt> = body.iter().map(|s| renamed(s, &tag)).collect();
        vec![Stmt::If {
            condition: extent.eq_expr(&Expr::int(*value)),
            then: copy,
            otherwise: self.choose(extent, rest, &others),
        }]
    }

    /// Every value an extent takes over the loops around, in increasing order; 0 stands for all that run nothing.
    fn values(&self, extent: &Expr) -> Option<Vec<i64>> {
        let mut needed: BTreeSet<Symbol> = extent.symbols();
        let mut loops: Vec<&(Symbol, Expr)> = Vec::new();
        for entry in self.path.iter().rev() {
            if needed.contains(&entry.0) {
                needed.extend(entry.1.symbols());
                loops.insert(0, entry);
            }
        }
        let mut out = BTreeSet::new();
        let mut points = 0;
        visit(&loops, &mut Vec::new(), &mut |at| {
            points += 1;
            if let Some(v) = extent.eval(at) {
                out.insert(v.max(0));
            }
            points <= MAX_POINTS
        })?;
        Some(out.into_iter().collect())
    }
}

/// The value of a loop variable at a point.
type At<'a> = &'a dyn Fn(&Symbol) -> Option<i64>;

/// Calls `f` at every point of a loop nest; `None` when `f` says to stop or an extent cannot be evaluated.
fn visit(
    loops: &[&(Symbol, Expr)],
    at: &mut Vec<(Symbol, i64)>,
    f: &mut dyn FnMut(At<'_>) -> bool,
) -> Option<()> {
    let lookup = |s: &Symbol, at: &[(Symbol, i64)]| at.iter().find(|(n, _)| n == s).map(|(_, v)| *v);
    let Some(((var, extent), rest)) = loops.split_first().map(|(l, r)| (*l, r)) else {
        return f(&|s| lookup(s, at)).then_some(());
    };
    let n = extent.eval(&|s| lookup(s, at))?;
    for v in 0..n {
        at.push((var.clone(), v));
        let more = visit(rest, at, f);
        at.pop();
        more?;
    }
    Some(())
}

/// Extents of vectorised and unrolled loops below a statement that are not constant but known from `known`.
fn varying(stmt: &Stmt, known: &BTreeSet<Symbol>, out: &mut Vec<Expr>) {
    match stmt {
        Stmt::For(l) => {
            if matches!(l.kind, LoopKind::Vectorize | LoopKind::Unroll)
                && l.extent.as_int().is_none()
                && l.extent.symbols().is_subset(known)
                && !out.contains(&l.extent)
            {
                out.push(l.extent.clone());
            }
            l.body.iter().for_each(|s| varying(s, known, out));
        }
        Stmt::If { then, otherwise, .. } => {
            then.iter().chain(otherwise).for_each(|s| varying(s, known, out));
        }
        _ => {}
    }
}

fn map_loops(stmt: &Stmt, f: &dyn Fn(&mut Loop)) -> Stmt {
    let mut out = stmt.clone();
    match &mut out {
        Stmt::For(l) => {
            f(l);
            l.body = l.body.iter().map(|s| map_loops(s, f)).collect();
        }
        Stmt::If { then, otherwise, .. } => {
            *then = then.iter().map(|s| map_loops(s, f)).collect();
            *otherwise = otherwise.iter().map(|s| map_loops(s, f)).collect();
        }
        _ => {}
    }
    out
}

/// Every loop of this extent, of whatever kind, runs exactly `value` times.
fn fix(stmt: &Stmt, extent: &Expr, value: i64) -> Stmt {
    map_loops(stmt, &|l| {
        if l.extent == *extent {
            l.extent = Expr::int(value);
        }
    })
}

/// Loops of this extent run serially.
fn demote(stmt: &Stmt, extent: &Expr) -> Stmt {
    map_loops(stmt, &|l| {
        if l.extent == *extent && matches!(l.kind, LoopKind::Vectorize | LoopKind::Unroll) {
            l.kind = LoopKind::Serial;
        }
    })
}

/// Gives every loop below a statement a new name.
fn renamed(stmt: &Stmt, tag: &str) -> Stmt {
    let mut bound = BTreeSet::new();
    fn collect(stmt: &Stmt, out: &mut BTreeSet<Symbol>) {
        match stmt {
            Stmt::For(l) => {
                out.insert(l.var.clone());
                l.body.iter().for_each(|s| collect(s, out));
            }
            Stmt::If { then, otherwise, .. } => then.iter().chain(otherwise).for_each(|s| collect(s, out)),
            _ => {}
        }
    }
    collect(stmt, &mut bound);
    let fresh = |s: &Symbol| Symbol::var(format!("{}.{tag}", s.name()));
    let out = stmt.map_exprs(&mut |e| e.subst(&|s| bound.contains(s).then(|| Expr::sym(&fresh(s)))));
    map_loops(&out, &|l| l.var = fresh(&l.var))
}

/// Whether a buffer occurs in statements.
fn used(stmts: &[Stmt], buffer: TensorId) -> bool {
    stmts.iter().any(|s| match s {
        Stmt::For(l) => used(&l.body, buffer),
        Stmt::If { then, otherwise, .. } => used(then, buffer) || used(otherwise, buffer),
        Stmt::Store { buffer: b, value, .. } => {
            *b == buffer || value.reads().iter().any(|(t, _)| *t == buffer)
        }
        Stmt::Alloc(b) => *b == buffer,
    })
}
