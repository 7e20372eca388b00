//! Arithmetic intensity along the loops: 10 features.
//!
//! Each level of the nest, from one run of the store to all loops, performs some operations on some bytes. Seen over
//! the logarithm of the operations, the logarithm of operations per byte is a curve; it is sampled at 10 %, 20 %, ...
//! 100 % of the logarithm of all operations, with straight lines between levels. (Over the operations themselves,
//! nearly all samples would lie in the outermost loop.)

use talweg_expr::Expr;

use crate::formula::{add, divide, log_feature, log2, mul, scale, zero};
use crate::names::INTENSITY_WIDTH;
use crate::region::Regions;
use crate::site::Site;

/// The samples; zeros for a store that only moves data.
pub(crate) fn features(site: &Site<'_>, region: &Regions) -> Vec<Expr> {
    let ops = site.ops.arithmetic();
    if ops == 0.0 {
        return vec![zero(); INTENSITY_WIDTH];
    }
    let depth = site.depth();
    let intensity =
        |level: usize| log_feature(&divide(&scale(&site.inside[level], ops), region.bytes(level)));
    // Segments of the curve: where they begin, how wide they are, how steeply they rise.
    let mut segments = Vec::new();
    let start = intensity(depth);
    let (mut from, mut height) = (Expr::real(ops.log2()), start.clone());
    for level in (0..depth).rev() {
        let width = log2(&site.loops[level].extent);
        let next = intensity(level);
        // A loop of one iteration has no width and no rise.
        let slope = divide(&add(&next, &scale(&height, -1.0)), &width.max(Expr::real(1e-9)));
        let to = add(&from, &width);
        segments.push((from, width, slope));
        (from, height) = (to, next);
    }
    let total = from;
    (1..=INTENSITY_WIDTH)
        .map(|k| {
            let at = scale(&total, k as f64 / INTENSITY_WIDTH as f64);
            segments.iter().fold(start.clone(), |sum, (from, width, slope)| {
                let inside = add(&at, &scale(from, -1.0)).max(zero()).min(width);
                add(&sum, &mul(slope, &inside))
            })
        })
        .collect()
}
