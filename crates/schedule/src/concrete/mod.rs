//! From a lowered nest to one that code generation takes: knobs substituted, expressions simplified under the loops'
//! ranges, loops of one iteration gone, tails of vectorised and unrolled loops specialised.

mod simplify;
mod tails;

use talweg_expr::{Expr, Symbol};
use talweg_ir::Nest;

use crate::error::ScheduleError;

/// Substitutes knobs and makes the nest ready for code generation.
pub fn concretize(nest: &Nest, knobs: &dyn Fn(&Symbol) -> Option<i64>) -> Result<Nest, ScheduleError> {
    let mut open = None;
    let substituted = nest.map_exprs(&mut |e| {
        let e = e.subst(&|s| if s.is_knob() { knobs(s).map(Expr::int) } else { None });
        if let Some(s) = e.symbols().into_iter().find(Symbol::is_knob) {
            open.get_or_insert(s);
        }
        e
    });
    if let Some(s) = open {
        return Err(ScheduleError::OpenKnob(s.name().to_string()));
    }
    let plain = simplify::nest(&substituted);
    Ok(simplify::nest(&tails::specialise(&plain)))
}
