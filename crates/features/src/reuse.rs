//! Where a store meets a buffer's elements again.

use talweg_expr::Expr;

use crate::formula::{add, indicator, is_zero, one, zero};
use crate::region::{Moves, Regions, moves};
use crate::site::Site;

/// How a buffer's elements are used again.
pub(crate) struct Reuse {
    /// One when a loop of the store comes back to them.
    pub by_loop: Expr,
    /// One when no loop does, but another statement.
    pub by_statement: Expr,
    /// One when nothing does.
    pub none: Expr,
    /// Iterations in between.
    pub iterations: Expr,
    /// Bytes touched in between.
    pub bytes: Expr,
    /// How often.
    pub count: Expr,
    /// What a use counts for: the count, or one half without reuse.
    pub divisor: Expr,
}

/// The reuse of touched buffer `touched` by store number `at`.
///
/// The innermost loop that runs more than once without moving the accesses decides. Without one, the statement that
/// touches the buffer too and shares the most loops does (the nearest of several): in between lie both statements
/// inside the shared loops, and the count is the number of such statements.
pub(crate) fn of(sites: &[Site<'_>], regions: &[Regions], at: usize, touched: usize) -> Reuse {
    let (site, region) = (&sites[at], &regions[at]);
    let t = &site.touched[touched];
    let others: Vec<usize> = (0..sites.len())
        .filter(|o| *o != at && sites[*o].touched.iter().any(|u| u.buffer == t.buffer))
        .collect();
    let nearest = others
        .iter()
        .copied()
        .max_by_key(|o| (site.shared_loops(&sites[*o]), std::cmp::Reverse(o.abs_diff(at))));
    let (mut iterations, mut bytes, mut count, mut divisor) = match nearest {
        Some(o) => {
            let shared = site.shared_loops(&sites[o]);
            let count = Expr::real(others.len() as f64);
            (
                add(&site.inside[shared], &sites[o].inside[shared]),
                add(region.bytes(shared), regions[o].bytes(shared)),
                count.clone(),
                count,
            )
        }
        None => (zero(), zero(), zero(), Expr::real(0.5)),
    };
    let mut found = Expr::bool(false);
    for (level, l) in site.loops.iter().enumerate() {
        let repeats = one().lt(&l.extent);
        let stays = match moves(site, t, level) {
            Moves::Always => continue,
            Moves::Never => repeats,
            Moves::When(span) => repeats.and(&span.le(&zero())),
        };
        found = found.or(&stays);
        let choose =
            |then: &Expr, otherwise: &Expr| Expr::select(stays.clone(), then.clone(), otherwise.clone());
        iterations = choose(&site.inside[level + 1], &iterations);
        bytes = choose(region.bytes(level + 1), &bytes);
        count = choose(&l.extent, &count);
        divisor = choose(&l.extent, &divisor);
    }
    let by_loop = indicator(&found);
    let rest = Expr::select(found, zero(), one());
    let (by_statement, none) = if nearest.is_some() { (rest, zero()) } else { (zero(), rest) };
    debug_assert!(!is_zero(&divisor));
    Reuse { by_loop, by_statement, none, iterations, bytes, count, divisor }
}
