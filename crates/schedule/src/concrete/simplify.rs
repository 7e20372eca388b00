//! Simplification of a concrete nest: expressions under the ranges of the loops around them, empty loops and decided
//! conditions removed, loops of one iteration replaced by their body.

use talweg_expr::{Expr, Ranges};
use talweg_ir::{Loop, Nest, Stmt};

/// Simplifies every statement.
pub(super) fn nest(nest: &Nest) -> Nest {
    let mut out = nest.clone();
    for b in &mut out.buffers {
        b.shape = b.shape.iter().map(|e| e.simplify(&Ranges::new())).collect();
    }
    out.body = block(&nest.body, &mut Ranges::new());
    out
}

fn block(stmts: &[Stmt], ranges: &mut Ranges) -> Vec<Stmt> {
    stmts.iter().flat_map(|s| statement(s, ranges)).collect()
}

fn statement(stmt: &Stmt, ranges: &mut Ranges) -> Vec<Stmt> {
    match stmt {
        Stmt::For(l) => {
            let extent = l.extent.simplify(ranges);
            let most = extent.bounds(ranges).hi;
            if most < 1.0 {
                return Vec::new();
            }
            if extent.as_int() == Some(1) {
                let zero = |e: &Expr| e.subst(&|s| (*s == l.var).then(|| Expr::int(0)));
                let body: Vec<Stmt> = l.body.iter().map(|s| s.map_exprs(&mut |e| zero(e))).collect();
                return block(&body, ranges);
            }
            let hi = if most.is_finite() { most as i64 - 1 } else { i64::MAX };
            ranges.set(&l.var, 0, hi);
            let body = block(&l.body, ranges);
            ranges.remove(&l.var);
            if body.is_empty() {
                return Vec::new();
            }
            vec![Stmt::For(Loop { var: l.var.clone(), extent, kind: l.kind, body })]
        }
        Stmt::If { condition, then, otherwise } => {
            let condition = condition.simplify(ranges);
            match condition.as_bool() {
                Some(true) => block(then, ranges),
                Some(false) => block(otherwise, ranges),
                None => {
                    let (then, otherwise) = (block(then, ranges), block(otherwise, ranges));
                    if then.is_empty() && otherwise.is_empty() {
                        return Vec::new();
                    }
                    vec![Stmt::If { condition, then, otherwise }]
                }
            }
        }
        Stmt::Store { .. } => vec![stmt.map_exprs(&mut |e| e.simplify(ranges))],
        Stmt::Alloc(_) => vec![stmt.clone()],
    }
}
