//! The buffers a store touches: 18 features each, for five of them.
//!
//! The stored buffer comes first, the others in order of occurrence; further ones are left out. (Ansor sorts by
//! traffic, which depends on the knobs; a fixed order lets each place keep its meaning.) Missing buffers are zeros.

use talweg_expr::Expr;
use talweg_target::Target;

use crate::formula::{ceil_quotient, divide, flag, is_nonzero, is_zero, log_feature, mul, one, scale, zero};
use crate::names::{BUFFER_WIDTH, BUFFERS};
use crate::region::{Regions, stride};
use crate::reuse;
use crate::site::{Site, shape};

/// The features of all buffers of store number `at`.
pub(crate) fn features(sites: &[Site<'_>], regions: &[Regions], at: usize, target: &Target) -> Vec<Expr> {
    let mut out = Vec::new();
    for touched in 0..sites[at].touched.len().min(BUFFERS) {
        out.extend(buffer(sites, regions, at, touched, target));
    }
    out.resize(BUFFERS * BUFFER_WIDTH, zero());
    out
}

fn buffer(sites: &[Site<'_>], regions: &[Regions], at: usize, touched: usize, target: &Target) -> Vec<Expr> {
    let site = &sites[at];
    let t = &site.touched[touched];
    let element = site.element_bytes(t.buffer);
    let bytes = scale(site.iterations(), element);
    let unique_bytes = scale(regions[at].elements(touched, 0), element);
    let (stride, trips) = innermost(site, touched);
    let line = f64::from(target.line);
    let share = scale(&stride, element / line).min(one());
    let lines = mul(&trips, &share).max(one());
    let unique_lines = unique_lines(site, &regions[at], touched, line);
    let r = reuse::of(sites, regions, at, touched);
    let mut out = vec![flag(t.read && !t.written), flag(t.written && !t.read), flag(t.read && t.written)];
    let traffic = [bytes, unique_bytes, lines, unique_lines];
    out.extend(traffic.iter().map(log_feature));
    out.extend([r.by_loop, r.by_statement, r.none]);
    out.extend([&r.iterations, &r.bytes, &r.count].map(log_feature));
    out.extend(traffic.iter().map(|x| log_feature(&divide(x, &r.divisor))));
    out.push(log_feature(&stride));
    out
}

/// The stride of the innermost loop that runs more than once and steps through the buffer, and how often that loop
/// and those around it run. Both are zero when no loop does.
fn innermost(site: &Site<'_>, touched: usize) -> (Expr, Expr) {
    let (mut found, mut trips) = (zero(), zero());
    for (level, l) in site.loops.iter().enumerate() {
        let step = stride(site, &site.touched[touched], level);
        if is_zero(&step) {
            continue;
        }
        let mut steps = one().lt(&l.extent);
        if !is_nonzero(&step) {
            steps = steps.and(&zero().lt(&step));
        }
        trips = Expr::select(steps.clone(), site.outside[level + 1].clone(), trips);
        found = Expr::select(steps, step, found);
    }
    (found, trips)
}

/// Lines under the box of a buffer: contiguous runs, each rounded up to whole lines. A run goes on over outer
/// dimensions as long as the inner ones are covered whole.
fn unique_lines(site: &Site<'_>, region: &Regions, touched: usize, line: f64) -> Expr {
    let buffer = site.touched[touched].buffer;
    let shape = shape(site.nest, buffer);
    let (mut run, mut rows) = (one(), one());
    let mut whole = Expr::bool(true);
    for (cover, extent) in region.cover(touched).iter().zip(&shape).rev() {
        run = mul(&run, &Expr::select(whole.clone(), cover.clone(), one()));
        rows = mul(&rows, &Expr::select(whole.clone(), one(), cover.clone()));
        whole = whole.and(&extent.le(cover));
    }
    mul(&rows, &ceil_quotient(&scale(&run, site.element_bytes(buffer)), &Expr::real(line)))
}
