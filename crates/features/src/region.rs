//! How much of a buffer some loops touch.
//!
//! The loops from a level inwards run over full tiles while the outer ones stand at zero. An index then covers
//! `sum(|coefficient| * (extent - 1)) + 1` values. Quotients and remainders, which fused loops leave in indices, cover
//! the quotient of the span and at most the divisor. Several accesses cover the box around all of them; no box is
//! larger than its buffer.

use talweg_expr::{BinaryOp, Expr, Node, Ranges, Symbol};

use crate::formula::{
    abs, add, at_zero, is_nonzero, is_zero, larger, mul, number, one, product, real, scale, zero,
};
use crate::site::{Site, Touched, shape};

/// A summand of an index: `coefficient * atom`, the coefficient free of loop variables.
#[derive(Clone, Debug)]
struct Term {
    coefficient: Expr,
    atom: Expr,
}

/// The steps a loop variable takes: its extent less one, or nothing when it stands still.
type Steps<'a> = &'a dyn Fn(&Symbol) -> Option<Expr>;

/// Whether a loop's iterations reach different elements of a buffer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Moves {
    /// Its variable does not occur.
    Never,
    /// Whenever it runs more than once.
    Always,
    /// When the formula is not zero.
    When(Expr),
}

/// Touched elements of every buffer of a store, level by level.
pub(crate) struct Regions {
    /// `elements[t][k]`: elements of touched buffer `t` that loop `k` and those inside it reach; the last entry is one
    /// run of the store.
    elements: Vec<Vec<Expr>>,
    /// The box of each touched buffer under all loops.
    boxes: Vec<Vec<Expr>>,
    /// `bytes[k]`: bytes of all touched buffers.
    bytes: Vec<Expr>,
}

impl Regions {
    pub fn of(site: &Site<'_>) -> Regions {
        let depth = site.depth();
        let mut boxes = Vec::new();
        let mut elements: Vec<Vec<Expr>> = Vec::new();
        for t in &site.touched {
            let shape = shape(site.nest, t.buffer);
            let indices = Indices::of(t, site);
            let at = |level: usize| {
                indices.cover(&shape, &|v| {
                    site.loops[level..].iter().find(|l| l.var == *v).map(|l| l.steps.clone())
                })
            };
            boxes.push(at(0));
            elements.push((0..=depth).map(|level| product(&at(level))).collect());
        }
        let bytes = (0..=depth)
            .map(|level| {
                site.touched
                    .iter()
                    .zip(&elements)
                    .fold(zero(), |sum, (t, e)| add(&sum, &scale(&e[level], site.element_bytes(t.buffer))))
            })
            .collect();
        Regions { elements, boxes, bytes }
    }

    /// Elements of a buffer that are reached when only some loops run.
    pub fn elements_over(site: &Site<'_>, touched: &Touched, vars: &[Symbol]) -> Expr {
        let steps =
            |v: &Symbol| site.loops.iter().find(|l| l.var == *v && vars.contains(v)).map(|l| l.steps.clone());
        product(&Indices::of(touched, site).cover(&shape(site.nest, touched.buffer), &steps))
    }

    pub fn elements(&self, touched: usize, level: usize) -> &Expr {
        &self.elements[touched][level]
    }

    pub fn cover(&self, touched: usize) -> &[Expr] {
        &self.boxes[touched]
    }

    /// Bytes of all buffers that loop `level` and those inside it touch.
    pub fn bytes(&self, level: usize) -> &Expr {
        &self.bytes[level]
    }
}

/// The indices of all accesses to a buffer, as summands.
struct Indices {
    /// For each dimension, the distinct accesses: where they start, and their summands.
    dims: Vec<Vec<(Expr, Vec<Term>)>>,
}

impl Indices {
    fn of(touched: &Touched, site: &Site<'_>) -> Indices {
        let rank = touched.accesses.first().map_or(0, Vec::len);
        let mut dims = vec![Vec::new(); rank];
        for access in &touched.accesses {
            for (dim, index) in dims.iter_mut().zip(access) {
                dim.push((at_zero(index), sorted_terms(index, site)));
            }
        }
        Indices { dims }
    }

    /// The extents of the box that is reached.
    fn cover(&self, shape: &[Expr], steps: Steps<'_>) -> Vec<Expr> {
        self.dims
            .iter()
            .zip(shape)
            .map(|(accesses, extent)| {
                let spans: Vec<Expr> = accesses.iter().map(|(_, terms)| sum_spans(terms, steps)).collect();
                let first = &accesses[0].0;
                let span = if accesses.iter().all(|(start, _)| start == first) {
                    spans.iter().skip(1).fold(spans[0].clone(), |a, b| larger(&a, b))
                } else {
                    let ends = accesses.iter().zip(&spans).map(|((start, _), s)| add(&real(start), s));
                    let end = ends.reduce(|a, b| a.max(&b)).unwrap_or_else(zero);
                    let starts = accesses.iter().map(|(start, _)| real(start));
                    let start = starts.reduce(|a, b| a.min(&b)).unwrap_or_else(zero);
                    add(&end, &scale(&start, -1.0))
                };
                if is_zero(&span) { one() } else { add(&span, &one()).min(extent) }
            })
            .collect()
    }
}

/// Summands ordered from the innermost loop outwards, so that the sums of neighbouring levels share their beginnings.
fn sorted_terms(index: &Expr, site: &Site<'_>) -> Vec<Term> {
    let mut out = terms(index);
    let outermost = |t: &Term| site.loops.iter().position(|l| t.atom.mentions(&l.var));
    out.sort_by_key(|t| std::cmp::Reverse(outermost(t)));
    out
}

fn has_variable(e: &Expr) -> bool {
    e.symbols().iter().any(|s| !s.is_knob())
}

/// Splits a sum into summands with distinct atoms; what holds no loop variable is dropped.
///
/// Where some summand falls, others may cancel it at some values of the knobs: then whatever a quotient's divisor
/// divides is taken out of the quotient, under the condition that it does.
fn terms(e: &Expr) -> Vec<Term> {
    let plain = collect(e);
    let quotient = |t: &Term| matches!(t.atom.node(), Node::Binary(BinaryOp::FloorDiv, ..));
    if !(plain.iter().any(quotient) && plain.iter().any(|t| may_fall(&t.coefficient))) {
        return plain;
    }
    let mut out = Vec::new();
    for t in plain {
        let Node::Binary(BinaryOp::FloorDiv, x, q) = t.atom.node() else {
            merge(&mut out, t);
            continue;
        };
        let by = at_zero(q);
        let mut rest = at_zero(x);
        for inner in collect(x) {
            let whole = inner.coefficient.rem(&by).eq_expr(&Expr::int(0));
            let taken = inner.coefficient.floor_div(&by) * &t.coefficient;
            let coefficient = Expr::select(whole.clone(), taken, Expr::int(0));
            rest = rest + Expr::select(whole, Expr::int(0), inner.coefficient) * &inner.atom;
            merge(&mut out, Term { coefficient, atom: inner.atom });
        }
        let atom = rest.floor_div(q);
        if has_variable(&atom) {
            for part in collect(&atom) {
                merge(&mut out, Term { coefficient: part.coefficient * &t.coefficient, atom: part.atom });
            }
        }
    }
    out
}

fn merge(terms: &mut Vec<Term>, new: Term) {
    match terms.iter_mut().find(|t| t.atom == new.atom) {
        Some(t) => t.coefficient = t.coefficient.clone() + new.coefficient,
        None => terms.push(new),
    }
}

/// The summands as they are written.
fn collect(e: &Expr) -> Vec<Term> {
    let mut addends = Vec::new();
    flatten(BinaryOp::Add, e, &mut addends);
    let mut out: Vec<Term> = Vec::new();
    for addend in addends {
        let mut factors = Vec::new();
        flatten(BinaryOp::Mul, &addend, &mut factors);
        let (moving, fixed): (Vec<Expr>, Vec<Expr>) = factors.into_iter().partition(has_variable);
        let coefficient = fixed.into_iter().fold(Expr::int(1), |p, f| p * f);
        let Some(atom) = moving.into_iter().reduce(|a, b| a * b) else { continue };
        merge(&mut out, Term { coefficient, atom });
    }
    out
}

fn flatten(op: BinaryOp, e: &Expr, out: &mut Vec<Expr>) {
    match e.node() {
        Node::Binary(o, a, b) if *o == op => {
            flatten(op, a, out);
            flatten(op, b, out);
        }
        _ => out.push(e.clone()),
    }
}

fn sum_spans(terms: &[Term], steps: Steps<'_>) -> Expr {
    terms.iter().fold(zero(), |sum, t| add(&sum, &mul(&abs(&t.coefficient), &span(&t.atom, steps))))
}

/// The largest less the smallest value of an expression while loop variables take their steps.
fn span(e: &Expr, steps: Steps<'_>) -> Expr {
    match e.node() {
        Node::Int(_) | Node::Real(_) | Node::Bool(_) => zero(),
        Node::Sym(s) => steps(s).unwrap_or_else(zero),
        Node::Unary(_, a) => span(a, steps),
        Node::Binary(BinaryOp::Add, ..) => sum_spans(&terms(e), steps),
        Node::Binary(BinaryOp::Mul, ..) => {
            let mut factors = Vec::new();
            flatten(BinaryOp::Mul, e, &mut factors);
            let (moving, fixed): (Vec<Expr>, Vec<Expr>) = factors.into_iter().partition(has_variable);
            let spans: Vec<Expr> = moving.iter().map(|f| span(f, steps)).collect();
            let size = match spans.as_slice() {
                [one] => one.clone(),
                several => add(
                    &product(&several.iter().map(|s| add(s, &one())).collect::<Vec<_>>()),
                    &Expr::real(-1.0),
                ),
            };
            fixed.iter().fold(size, |p, f| mul(&p, &abs(f)))
        }
        Node::Binary(op @ (BinaryOp::FloorDiv | BinaryOp::CeilDiv), a, b) => {
            quotient_span(*op, &span(a, steps), a, &at_zero(b), steps)
        }
        Node::Binary(BinaryOp::Mod, a, b) => {
            let by = at_zero(b);
            let gone = |c: &Expr| c.rem(&by).eq_expr(&Expr::int(0));
            let sum = span_without(a, &gone, true, steps);
            if is_zero(&sum) { sum } else { sum.min(by - 1) }
        }
        Node::Binary(BinaryOp::Min | BinaryOp::Max, a, b) | Node::Select(_, a, b) => {
            larger(&span(a, steps), &span(b, steps))
        }
        Node::Binary(_, a, b) => {
            let moving = larger(&span(a, steps), &span(b, steps));
            if is_zero(&moving) { moving } else { one() }
        }
    }
}

/// The smallest value of a sum: falling summands start from their far end.
fn smallest(e: &Expr, steps: Steps<'_>) -> Expr {
    terms(e)
        .iter()
        .filter(|t| may_fall(&t.coefficient))
        .fold(at_zero(e), |start, t| add(&start, &mul(&t.coefficient.min(0), &span(&t.atom, steps))))
}

fn may_fall(coefficient: &Expr) -> bool {
    coefficient.bounds(&Ranges::new()).lo < 0.0
}

/// The span of a rounded quotient: where the dividend starts decides whether it crosses one more multiple.
fn quotient_span(op: BinaryOp, span: &Expr, dividend: &Expr, by: &Expr, steps: Steps<'_>) -> Expr {
    let start = smallest(dividend, steps);
    if is_zero(span) {
        zero()
    } else if is_zero(&start) {
        Expr::binary(op, real(span), by.clone())
    } else {
        let rounded = |e: &Expr| real(&Expr::binary(op, real(e), by.clone()));
        add(&rounded(&add(span, &start)), &scale(&rounded(&start), -1.0))
    }
}

/// The span of what a remainder is taken of, without the summands that leave no remainder: `gone` tells by their
/// coefficients. A summand of a quotient leaves it when its coefficient is divisible. With `unit`, summands count as
/// they are, and one is gone only where the divisor is one, which leaves no remainder anyway.
fn span_without(e: &Expr, gone: &dyn Fn(&Expr) -> Expr, unit: bool, steps: Steps<'_>) -> Expr {
    terms(e).iter().fold(zero(), |sum, Term { coefficient, atom }| {
        let single = number(coefficient) == Some(1.0);
        let size = match atom.node() {
            Node::Binary(BinaryOp::FloorDiv, x, q) => {
                let q = at_zero(q);
                let through = |c: &Expr| {
                    let whole = c.rem(&q).eq_expr(&Expr::int(0));
                    whole.and(&gone(&(c.floor_div(&q) * coefficient)))
                };
                let inner = span_without(x, &through, unit && single, steps);
                quotient_span(BinaryOp::FloorDiv, &inner, x, &q, steps)
            }
            _ => span(atom, steps),
        };
        let part = mul(&abs(coefficient), &size);
        let stays = is_zero(&part) || (unit && single);
        let part = if stays { part } else { Expr::select(gone(coefficient), zero(), part) };
        add(&sum, &part)
    })
}

/// Whether loop `level` of a store moves its accesses to a buffer.
pub(crate) fn moves(site: &Site<'_>, touched: &Touched, level: usize) -> Moves {
    let l = &site.loops[level];
    let mut alone = zero();
    for index in touched.accesses.iter().flatten().filter(|e| e.mentions(&l.var)) {
        let terms = terms(index);
        if terms.iter().any(|t| t.atom.as_sym() == Some(&l.var) && is_nonzero(&t.coefficient)) {
            return Moves::Always;
        }
        alone = add(&alone, &sum_spans(&terms, &|v| (*v == l.var).then(|| l.steps.clone())));
    }
    match number(&alone) {
        Some(0.0) => Moves::Never,
        Some(_) => Moves::Always,
        None => Moves::When(alone),
    }
}

/// How many elements apart the first two iterations of loop `level` are in a buffer, by the first access to it.
pub(crate) fn stride(site: &Site<'_>, touched: &Touched, level: usize) -> Expr {
    let Some(access) = touched.accesses.first() else { return zero() };
    let var = &site.loops[level].var;
    let shape: Vec<Expr> = site.nest.buffer(touched.buffer).shape.iter().map(at_zero).collect();
    let mut row = Expr::int(1);
    let mut distance = Expr::int(0);
    for (index, extent) in access.iter().zip(&shape).rev() {
        if index.mentions(var) {
            let second = index.subst(&|s| match s {
                s if s == var => Some(Expr::int(1)),
                s if s.is_knob() => None,
                _ => Some(Expr::int(0)),
            });
            distance = distance + (second - at_zero(index)) * &row;
        }
        row = row * extent;
    }
    real(&abs(&distance))
}
