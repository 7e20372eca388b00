//! AutoTVM's relation ("curve") features: for each buffer, how reuse, touched elements and outer iterations go
//! together over the loops, sampled at fixed thresholds so that the length does not depend on the number of loops.
//!
//! Along the loops around its deepest access (the first of several), a buffer has three curves of logarithms: elements
//! touched by a loop and those inside it (count), accesses for each of them (reuse), and the product of the loop and
//! those outside it (topdown). For a pair of curves and each of [`SAMPLES`] thresholds `b`, two values are taken over
//! the loops: the largest second coordinate where the first is below `b`, and how far below `b` the largest first
//! coordinate is. A loop that does not exist contributes a point at the origin.

use talweg_expr::Expr;
use talweg_ir::{Nest, TensorId};

use crate::formula::{add, divide, log_feature, scale, zero};
use crate::region::Regions;
use crate::site::Site;

/// Thresholds of each pair of curves.
pub const SAMPLES: usize = 20;

/// Between two thresholds, in powers of two. The first is one step above zero.
pub const SPACING: f64 = 1.5;

/// Features of one buffer: four pairs, two values at each threshold.
pub const RELATION_WIDTH: usize = 4 * 2 * SAMPLES;

/// The relation features of one buffer.
#[derive(Clone, Debug)]
pub struct BufferFeatures {
    /// The buffer.
    pub buffer: TensorId,
    /// [`RELATION_WIDTH`] formulas: count to reuse, reuse to count, count to topdown, topdown to count; for each
    /// threshold the value and the distance.
    pub values: Vec<Expr>,
}

/// The relation features of every buffer the body touches, in the order of the nest's buffers.
pub fn relations(nest: &Nest) -> Vec<BufferFeatures> {
    let sites = Site::all(nest);
    let regions: Vec<Regions> = sites.iter().map(Regions::of).collect();
    let mut out = Vec::new();
    for buffer in nest.ids() {
        let place = |s: &Site<'_>| s.touched.iter().position(|t| t.buffer == buffer);
        let mut deepest: Option<(usize, usize)> = None;
        for (at, s) in sites.iter().enumerate() {
            if let Some(touched) = place(s)
                && deepest.is_none_or(|(d, _)| s.depth() > sites[d].depth())
            {
                deepest = Some((at, touched));
            }
        }
        if let Some((at, touched)) = deepest {
            let values = curves(&sites[at], &regions[at], touched);
            out.push(BufferFeatures { buffer, values });
        }
    }
    out
}

fn curves(site: &Site<'_>, region: &Regions, touched: usize) -> Vec<Expr> {
    let levels = 0..site.depth();
    let elements = |level: usize| region.elements(touched, level);
    let count: Vec<Expr> = levels.clone().map(|l| log_feature(elements(l))).collect();
    let reuse: Vec<Expr> =
        levels.clone().map(|l| log_feature(&divide(&site.inside[l], elements(l)))).collect();
    let topdown: Vec<Expr> = levels.map(|l| log_feature(&site.outside[l + 1])).collect();
    let mut out = Vec::new();
    for (first, second) in [(&count, &reuse), (&reuse, &count), (&count, &topdown), (&topdown, &count)] {
        for k in 1..=SAMPLES {
            let threshold = Expr::real(k as f64 * SPACING);
            let (mut value, mut nearest) = (zero(), zero());
            for (x, y) in first.iter().zip(second) {
                let below = x.lt(&threshold);
                value = value.max(Expr::select(below.clone(), y.clone(), zero()));
                nearest = nearest.max(Expr::select(below, x.clone(), zero()));
            }
            out.push(value);
            out.push(add(&threshold, &scale(&nearest, -1.0)));
        }
    }
    out
}
