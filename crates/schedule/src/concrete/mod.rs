//! From a lowered nest to one that code generation takes: knobs substituted, expressions simplified under the loops'
//! ranges, loops of one iteration gone, tails of vectorised and unrolled loops specialised.

mod simplify;
mod tails;

use talweg_expr::{Expr, Symbol};
use talweg_ir::Nest;

use crate::error::ScheduleError;

/// The largest value of a knob; the smallest is 1.
pub const MAX_KNOB: i64 = 1 << 20;

/// Substitutes knobs and makes the nest ready for code generation.
///
/// Every knob needs a value from 1 to [`MAX_KNOB`]: a tile of no iterations would compute nothing.
pub fn concretize(nest: &Nest, knobs: &dyn Fn(&Symbol) -> Option<i64>) -> Result<Nest, ScheduleError> {
    let mut wrong = None;
    let substituted = nest.map_exprs(&mut |e| {
        let value = |s: &Symbol| if s.is_knob() { knobs(s) } else { None };
        for s in e.symbols().into_iter().filter(Symbol::is_knob) {
            let knob = || s.name().to_string();
            match value(&s) {
                Some(1..=MAX_KNOB) => {}
                Some(value) => drop(wrong.get_or_insert(ScheduleError::KnobRange { knob: knob(), value })),
                None => drop(wrong.get_or_insert(ScheduleError::OpenKnob(knob()))),
            }
        }
        e.subst(&|s| value(s).map(Expr::int))
    });
    if let Some(e) = wrong {
        return Err(e);
    }
    let plain = simplify::nest(&substituted);
    Ok(simplify::nest(&tails::specialise(&plain)))
}
