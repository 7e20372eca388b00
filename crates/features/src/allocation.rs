//! The memory of the stored buffer: 4 features.

use talweg_expr::Expr;

use crate::formula::{log_feature, mul, product, scale};
use crate::site::{Site, shape};

/// Size in bytes, elements times the loops around the allocation, those loops' product, and the product of the loops
/// between allocation and store. Only `Local` buffers are allocated inside loops; whoever provides the others does so
/// outside of all.
pub(crate) fn features(site: &Site<'_>) -> Vec<Expr> {
    let elements = product(&shape(site.nest, site.buffer));
    let around = &site.outside[site.allocated];
    [
        scale(&elements, site.element_bytes(site.buffer)),
        mul(&elements, around),
        around.clone(),
        site.inside[site.allocated].clone(),
    ]
    .iter()
    .map(log_feature)
    .collect()
}
