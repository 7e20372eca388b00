//! Fetching the next panel of packed constants while the current one is in use.
//!
//! A panel that several rows of tiles pass over is read from memory during the first pass only, which then waits for
//! it, while the other passes leave the memory idle. So every pass fetches its share of the panel behind this one:
//!
//! ```text
//! for panel { for row { for k { ... P[panel, k, lanes] ... } } }
//! ->
//! for panel { for row { for k { prefetch P[panel + 1, share of (row, k)]; ... P[panel, k, lanes] ... } } }
//! ```
//!
//! Behind the last panel addresses lie outside the buffer, which a prefetch may name.

use talweg_expr::Expr;
use talweg_ir::{Role, TensorId};

use crate::emitter::{Emit, Emitter};
use crate::linear::Linear;
use crate::plan::{BufferPlan, For, Kind, Step};

/// Bytes that one prefetch brings.
const LINE: i64 = 64;
/// Constants below this many bytes stay in a cache anyway.
const WORTHWHILE: i64 = 128 << 10;
/// Prefetches in one iteration, at most; where a pass would need more, it is too short to hide them.
const MOST_LINES: i64 = 8;

/// A hint that an element will be read soon.
pub struct Prefetch {
    pub buffer: TensorId,
    pub address: Linear,
}

/// A loop around the current statement.
struct Around {
    var: Expr,
    extent: Option<i64>,
    serial: bool,
}

/// Adds the prefetches that a plan profits from.
pub fn add_prefetches(steps: &mut [Step], buffers: &[BufferPlan]) {
    visit(steps, buffers, &mut Vec::new());
}

fn visit(steps: &mut [Step], buffers: &[BufferPlan], around: &mut Vec<Around>) {
    for step in steps {
        match step {
            Step::For(l) => {
                let serial = l.kind == Kind::Serial && l.repeat == 1;
                around.push(Around { var: l.var.clone(), extent: l.extent.as_int(), serial });
                if serial && !l.effects.control {
                    let added: Vec<Step> = panels_read(l, buffers)
                        .into_iter()
                        .flat_map(|(buffer, read)| next_panel(buffer, buffers, &read, l, around))
                        .map(Step::Prefetch)
                        .collect();
                    l.body.splice(0..0, added);
                } else {
                    visit(&mut l.body, buffers, around);
                }
                around.pop();
            }
            Step::If(i) => {
                visit(&mut i.then, buffers, around);
                visit(&mut i.otherwise, buffers, around);
            }
            Step::Store(_) | Step::Alloc(_) | Step::Prefetch(_) => {}
        }
    }
}

/// Large packed constants that a loop reads at one place each.
fn panels_read(l: &For, buffers: &[BufferPlan]) -> Vec<(TensorId, Linear)> {
    let mut found: Vec<(TensorId, Linear)> = Vec::new();
    let mut elsewhere = Vec::new();
    reads(&l.body, &mut |id, address| {
        let buffer = &buffers[id.index()];
        if buffer.role != Role::Packed || buffer.elements * (buffer.dtype.bytes() as i64) < WORTHWHILE {
            return;
        }
        match found.iter().find(|(known, _)| *known == id) {
            Some((_, known)) if known != address => elsewhere.push(id),
            Some(_) => {}
            None => found.push((id, address.clone())),
        }
    });
    found.retain(|(id, _)| !elsewhere.contains(id));
    found
}

fn reads(steps: &[Step], f: &mut dyn FnMut(TensorId, &Linear)) {
    for step in steps {
        match step {
            Step::For(l) => reads(&l.body, f),
            Step::If(i) => {
                reads(&i.then, f);
                reads(&i.otherwise, f);
            }
            Step::Store(s) => s.value.visit_reads(f),
            Step::Alloc(_) | Step::Prefetch(_) => {}
        }
    }
}

/// What the variable of a loop does to an address.
enum Motion {
    /// Nothing.
    Still,
    /// Moves it by so many elements.
    By(i64),
    /// Something else.
    Other,
}

fn motion(address: &Linear, var: &Expr) -> Motion {
    let Some(symbol) = var.as_sym() else { return Motion::Other };
    let mut moving = address.terms.iter().filter(|(t, _)| t.mentions(symbol));
    match (moving.next(), moving.next()) {
        (None, _) => Motion::Still,
        (Some((t, c)), None) if t == var && *c > 0 => Motion::By(*c),
        _ => Motion::Other,
    }
}

/// The share of the next panel that an iteration of the innermost loop `l` fetches; nothing when the loops around the
/// read do not have the form of passes over panels.
fn next_panel(
    buffer: TensorId,
    buffers: &[BufferPlan],
    read: &Linear,
    l: &For,
    around: &[Around],
) -> Vec<Prefetch> {
    share(buffer, buffers, read, l, around).unwrap_or_default()
}

fn share(
    buffer: TensorId,
    buffers: &[BufferPlan],
    read: &Linear,
    l: &For,
    around: &[Around],
) -> Option<Vec<Prefetch>> {
    // The loops that run along a panel, from the innermost outwards, then those that pass over it again.
    let mut outwards = around.iter().rev().peekable();
    let mut along = Vec::new();
    while let Some(a) = outwards.next_if(|a| !matches!(motion(read, &a.var), Motion::Still)) {
        match (motion(read, &a.var), a.extent) {
            (Motion::By(c), Some(extent)) if a.serial => along.push((&a.var, c, extent)),
            _ => return None,
        }
    }
    let mut passes = 1;
    let mut pass = Expr::int(0);
    while let Some(a) =
        outwards.next_if(|a| a.serial && a.extent.is_some() && matches!(motion(read, &a.var), Motion::Still))
    {
        pass = pass + a.var.clone() * passes;
        passes *= a.extent?;
    }
    let step = along.first()?.1;
    if passes < 2 || along.iter().any(|(_, c, _)| c % step != 0) {
        return None;
    }
    // What is left belongs to the panels; the nearest one lies behind this one.
    let inner: Vec<&Expr> = along.iter().map(|(v, ..)| *v).collect();
    let mut tile = Vec::new();
    unrolled(&l.body, &mut tile);
    let is = |t: &Expr, vars: &[&Expr]| vars.contains(&t);
    let tile: Vec<&Expr> = tile.iter().collect();
    let outer: Vec<(Expr, i64)> =
        read.terms.iter().filter(|(t, _)| !is(t, &inner) && !is(t, &tile)).cloned().collect();
    let mentions_tile = |t: &Expr| tile.iter().any(|v| v.as_sym().is_some_and(|s| t.mentions(s)));
    if outer.iter().any(|(t, c)| mentions_tile(t) || *c <= 0) {
        return None;
    }
    let next = outer.iter().map(|(_, c)| *c).min()?;
    let span = along.iter().map(|(_, c, extent)| c * (extent - 1)).sum::<i64>() + step;
    if span > next || span * 2 <= next {
        return None;
    }
    let each = (step + passes - 1) / passes;
    let bytes = buffers[buffer.index()].dtype.bytes() as i64;
    let lines = (each * bytes + LINE - 1) / LINE;
    if lines > MOST_LINES {
        return None;
    }
    // More passes than are needed begin again.
    let needed = (step + each - 1) / each;
    let pass = if needed < passes { pass.rem(needed) } else { pass };
    let mut address = Linear { constant: read.constant + next, terms: Vec::new() };
    outer.iter().for_each(|(t, c)| address.add_term(t, *c));
    along.iter().for_each(|(v, c, _)| address.add_term(v, c / step * each));
    address.add_expr(&pass, span / step * each);
    let at = |line: i64| Linear { constant: address.constant + line * LINE / bytes, ..address.clone() };
    Some((0..lines).map(|line| Prefetch { buffer, address: at(line) }).collect())
}

/// The variables of loops inside a body.
fn unrolled(steps: &[Step], out: &mut Vec<Expr>) {
    for step in steps {
        match step {
            Step::For(l) => {
                out.push(l.var.clone());
                unrolled(&l.body, out);
            }
            Step::If(i) => {
                unrolled(&i.then, out);
                unrolled(&i.otherwise, out);
            }
            Step::Store(_) | Step::Alloc(_) | Step::Prefetch(_) => {}
        }
    }
}

impl<'c> Emitter<'c, '_> {
    /// Emits a prefetch into the second cache level.
    pub fn prefetch(&mut self, p: &Prefetch) -> Emit<()> {
        let address = self.env.address(&p.address);
        let bytes = self.plan.buffer(p.buffer).dtype.bytes() as i64;
        let pointer = self.pointer(p.buffer, &address.terms)?;
        let at = self.o.offset(pointer, self.o.int(address.constant * bytes));
        self.o.prefetch(at);
        Ok(())
    }
}
