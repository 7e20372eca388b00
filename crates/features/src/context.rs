//! AutoTVM's context features: one vector for every loop.

use talweg_expr::{Expr, Symbol};
use talweg_ir::{LoopKind, Nest, ThreadAxis};

use crate::formula::{divide, flag, log_constant, log_feature, product, zero};
use crate::region::{Regions, stride};
use crate::site::Site;

/// Buffers described for one loop.
const BUFFERS: usize = 5;

/// Features of one buffer of a loop.
const BUFFER_WIDTH: usize = 5;

/// Features of one loop.
pub const CONTEXT_WIDTH: usize = 3 + 11 + 3 + BUFFERS * BUFFER_WIDTH;

/// The context features of one loop.
#[derive(Clone, Debug)]
pub struct LoopFeatures {
    /// The loop's variable.
    pub var: Symbol,
    /// [`CONTEXT_WIDTH`] formulas, `log2(x + 1)` unless flags: length, level (outermost is one), product of the outer
    /// extents; the kind, one of serial, parallel, vectorise, unroll and the seven thread axes; float additions,
    /// multiplications and divisions in one run of the body of the loop's first deepest store (a multiply-add is one
    /// of each); and for five buffers stride, elements touched by the loop and those inside it, accesses for each of
    /// them, and the same two with only the loops bound to GPU threads.
    pub values: Vec<Expr>,
}

/// The context features of every loop that stores something, outer loops before inner ones, in program order.
pub fn context(nest: &Nest) -> Vec<LoopFeatures> {
    let sites = Site::all(nest);
    let regions: Vec<Regions> = sites.iter().map(Regions::of).collect();
    let mut vars: Vec<Symbol> = Vec::new();
    for l in sites.iter().flat_map(|s| &s.loops) {
        if !vars.contains(&l.var) {
            vars.push(l.var.clone());
        }
    }
    vars.into_iter().map(|var| LoopFeatures { values: of_loop(&sites, &regions, &var), var }).collect()
}

fn of_loop(sites: &[Site<'_>], regions: &[Regions], var: &Symbol) -> Vec<Expr> {
    // Stores inside the loop, deepest first; equal ones stay in program order.
    let mut inside: Vec<(usize, usize)> = sites
        .iter()
        .enumerate()
        .filter_map(|(at, s)| Some((at, s.loops.iter().position(|l| l.var == *var)?)))
        .collect();
    inside.sort_by_key(|(at, _)| std::cmp::Reverse(sites[*at].depth()));
    let (first, level) = inside[0];
    let site = &sites[first];
    let l = &site.loops[level];
    let mut out =
        vec![log_feature(&l.extent), log_constant((level + 1) as f64), log_feature(&site.outside[level])];
    out.extend(kinds().map(|k| flag(l.kind == k)));
    let [multiply_add, add, mul, div, ..] = site.ops.float;
    out.extend([multiply_add + add, multiply_add + mul, div].map(log_constant));
    let mut seen = Vec::new();
    for (at, level) in inside {
        for (k, t) in sites[at].touched.iter().enumerate() {
            if seen.len() < BUFFERS && !seen.contains(&t.buffer) {
                seen.push(t.buffer);
                out.extend(buffer(&sites[at], &regions[at], level, k));
            }
        }
    }
    out.resize(CONTEXT_WIDTH, zero());
    out
}

fn kinds() -> impl Iterator<Item = LoopKind> {
    [LoopKind::Serial, LoopKind::Parallel, LoopKind::Vectorize, LoopKind::Unroll]
        .into_iter()
        .chain(ThreadAxis::ALL.map(LoopKind::Bind))
}

fn buffer(site: &Site<'_>, region: &Regions, level: usize, touched: usize) -> Vec<Expr> {
    let count = region.elements(touched, level);
    let is_thread = |kind: LoopKind| matches!(kind, LoopKind::Bind(_));
    let (thread_count, thread_reuse) = if site.loops[level..].iter().any(|l| is_thread(l.kind)) {
        let only: Vec<Symbol> =
            site.loops[level..].iter().filter(|l| is_thread(l.kind)).map(|l| l.var.clone()).collect();
        let count = Regions::elements_over(site, &site.touched[touched], &only);
        let threads = product(site.loops[level..].iter().filter(|l| is_thread(l.kind)).map(|l| &l.extent));
        let reuse = divide(&threads, &count);
        (count, reuse)
    } else {
        (zero(), zero())
    };
    let reuse = divide(&site.inside[level], count);
    [&stride(site, &site.touched[touched], level), count, &reuse, &thread_count, &thread_reuse]
        .map(log_feature)
        .to_vec()
}
