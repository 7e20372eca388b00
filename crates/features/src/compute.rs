//! What a store computes and how its loops run: 57 features.

use talweg_expr::Expr;
use talweg_ir::{LoopKind, ThreadAxis};

use crate::formula::{flag, log_constant, log_feature, product, scale, zero};
use crate::site::{Level, Site};

/// Operation counts, annotations, and GPU axes.
pub(crate) fn features(site: &Site<'_>) -> Vec<Expr> {
    let ops = &site.ops;
    let counts = ops.float.iter().chain(&ops.int).chain([&ops.boolean, &ops.select]);
    let mut out: Vec<Expr> = counts.map(|c| log_feature(&scale(site.iterations(), *c))).collect();
    for kind in [LoopKind::Vectorize, LoopKind::Unroll, LoopKind::Parallel] {
        out.extend(annotation(site, kind));
    }
    let bound = |axis: ThreadAxis| site.loops.iter().filter(move |l| l.kind == LoopKind::Bind(axis));
    out.push(flag(ThreadAxis::ALL.into_iter().any(|a| bound(a).next().is_some())));
    out.extend(ThreadAxis::ALL.map(|a| log_feature(&product(bound(a).map(|l| &l.extent)))));
    out
}

/// Number of loops of a kind, their product, the innermost one's length (both zero when there is none), and where
/// they are.
fn annotation(site: &Site<'_>, kind: LoopKind) -> Vec<Expr> {
    let loops: Vec<&Level> = site.loops.iter().filter(|l| l.kind == kind).collect();
    let mut out = vec![log_constant(loops.len() as f64)];
    match loops.last() {
        Some(innermost) => {
            out.push(log_feature(&product(loops.iter().map(|l| &l.extent))));
            out.push(log_feature(&innermost.extent));
        }
        None => out.extend([zero(), zero()]),
    }
    let at = position(site, kind);
    out.extend((0..8).map(|p| flag(p == at)));
    out
}

/// None, inner / middle / outer among the loops over space, the same among those over a reduction, or mixed. The
/// innermost loop of the kind speaks for all; a single loop is inner.
fn position(site: &Site<'_>, kind: LoopKind) -> usize {
    let mut place = 0;
    for reduces in [false, true] {
        let class: Vec<&Level> = site.loops.iter().filter(|l| l.reduces == reduces).collect();
        let Some(at) = class.iter().rposition(|l| l.kind == kind) else { continue };
        let which = match at {
            _ if at + 1 == class.len() => 1,
            0 => 3,
            _ => 2,
        };
        place = if place == 0 { which + 3 * usize::from(reduces) } else { 7 };
    }
    place
}
