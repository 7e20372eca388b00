//! The loops around the store as a whole: 3 features.

use talweg_expr::Expr;
use talweg_ir::LoopKind;
use talweg_target::Target;

use crate::formula::{ceil_quotient, log_constant, log_feature, mul, one};
use crate::site::Site;

/// Product of all loops, their number, and the size of the unrolled body.
///
/// Ansor's third feature is the limit given to the compiler for unrolling on its own. Here every unrolled loop is
/// named in the schedule, and what the limit stood for is known: the instructions the store becomes, that is the
/// product of unrolled extents and of whole vectors in vectorised ones.
pub(crate) fn features(site: &Site<'_>, target: &Target) -> Vec<Expr> {
    let lanes = target.lanes(site.element_bytes(site.buffer) as u32);
    let mut body = one();
    for l in &site.loops {
        match l.kind {
            LoopKind::Unroll => body = mul(&body, &l.extent),
            LoopKind::Vectorize => {
                body = mul(&body, &ceil_quotient(&l.extent, &Expr::real(f64::from(lanes))));
            }
            _ => {}
        }
    }
    vec![log_feature(site.iterations()), log_constant(site.depth() as f64), log_feature(&body)]
}
