//! Which box of a producer the body of a loop needs.

use std::collections::BTreeSet;

use talweg_expr::{Expr, Symbol};
use talweg_ir::TensorId;

use super::place::Placement;
use crate::state::{IterId, Schedule};

/// For each axis of `producer`, the first element and the number of elements read inside `leaf` of `target`.
///
/// An index is affine in the parts that vary inside the loop; its smallest value gives the first element, the spread
/// the count. Several reads are united when their first elements differ by constants. Where an index is not affine
/// (or reads cannot be united) the whole axis is taken.
pub(super) fn of(
    schedule: &Schedule,
    placement: &Placement,
    producer: TensorId,
    target: TensorId,
    leaf: IterId,
) -> Vec<(Expr, Expr)> {
    let fixed: BTreeSet<Symbol> = placement.path(schedule, target, leaf).into_iter().collect();
    let axes = &schedule.compute(producer).axes;
    let mut boxes: Vec<Option<(Expr, Expr)>> = vec![None; axes.len()];
    let mut whole = vec![false; axes.len()];
    for reader in schedule.readers(producer) {
        let placed = placement.stage(reader);
        let absolute =
            |s: &Symbol| placed.axes().find(|a| a.symbol == *s).map(super::place::PlacedAxis::absolute);
        for (tensor, indices) in schedule.compute(reader).body.reads() {
            if tensor != producer {
                continue;
            }
            for (at, index) in indices.iter().enumerate() {
                let read = index.subst(&absolute);
                match span(placement, &fixed, &read) {
                    Some(span) => match boxes[at].take() {
                        None => boxes[at] = Some(span),
                        Some(old) => match unite(placement, &old, &span) {
                            Some(both) => boxes[at] = Some(both),
                            None => whole[at] = true,
                        },
                    },
                    None => whole[at] = true,
                }
            }
        }
    }
    let everything = |extent: &Expr| (Expr::int(0), extent.clone());
    axes.iter()
        .zip(boxes)
        .zip(whole)
        .map(|((axis, found), whole)| match found {
            Some((base, count)) if !whole => {
                let base = base.simplify(&placement.ranges);
                // Reads before the first element are guarded by their reader; computing starts at the first.
                let base = if base.bounds(&placement.ranges).lo < 0.0 { base.max(0) } else { base };
                let count = count.min(&axis.extent).simplify(&placement.ranges);
                if count == axis.extent { everything(&axis.extent) } else { (base, count) }
            }
            _ => everything(&axis.extent),
        })
        .collect()
}

/// First value and number of values an index takes while the parts outside `fixed` vary.
fn span(placement: &Placement, fixed: &BTreeSet<Symbol>, read: &Expr) -> Option<(Expr, Expr)> {
    let mut free = Vec::new();
    for s in read.symbols() {
        let Some(part) = placement.parts.get(&s) else { continue };
        if !part.loops.is_subset(fixed) {
            free.push(s);
        }
    }
    // Quotients and remainders of tiles become affine once it is known how far each part runs.
    let affine = read.affine(&free).or_else(|| read.simplify(&placement.ranges).affine(&free))?;
    let (mut base, mut count) = (affine.rest, Expr::int(1));
    for (s, c) in free.iter().zip(affine.coefficients) {
        let last = placement.parts[s].extent.clone() - 1;
        let b = c.bounds(&placement.ranges);
        if b.lo >= 0.0 {
            count = count + last * c;
        } else if b.hi <= 0.0 {
            base = base + last.clone() * &c;
            count = count - last * c;
        } else {
            return None;
        }
    }
    Some((base, count))
}

/// The smallest box around two, when their distance is known; loops of one iteration do not count.
fn unite(placement: &Placement, a: &(Expr, Expr), b: &(Expr, Expr)) -> Option<(Expr, Expr)> {
    let distance = (b.0.clone() - &a.0).simplify(&placement.ranges).as_int()?;
    let base = if distance >= 0 { a.0.clone() } else { b.0.clone() };
    let end_a = a.1.clone() + (-distance).max(0);
    let end_b = b.1.clone() + distance.max(0);
    Some((base, end_a.max(end_b)))
}
