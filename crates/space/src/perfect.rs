//! The part of a space whose tiles divide their loops.
//!
//! ```text
//! for i in 50, tiles 1 x 2 x 8      before: legal, the last tile is smaller
//!                                   after:  illegal, 16 does not divide 50
//! ```

use talweg_expr::Expr;

use crate::knob::{Constraint, KnobRole};
use crate::sketch::Sketch;
use crate::space::Space;

impl Space {
    /// Only candidates whose tiles divide their loops. Loops that not even the smallest tiles divide, such as those
    /// shorter than a vector, are left as they are.
    pub fn perfect(mut self) -> Space {
        for sketch in &mut self.sketches {
            let constraints = whole_tiles(sketch);
            sketch.restrict(constraints);
        }
        self
    }
}

/// For each tiled loop: all its tiles together divide it.
fn whole_tiles(sketch: &Sketch) -> Vec<Constraint> {
    let mut loops: Vec<((&str, &str), i64, Expr)> = Vec::new();
    for knob in &sketch.knobs {
        let (key, extent) = match &knob.role {
            KnobRole::Tile { stage, axis, extent, .. } | KnobRole::Unroll { stage, axis, extent } => {
                ((stage.as_str(), axis.as_str()), *extent)
            }
            KnobRole::Choice { .. } => continue,
        };
        let size = Expr::sym(&knob.symbol);
        match loops.iter_mut().find(|(of, ..)| *of == key) {
            Some((.., product)) => *product = product.clone() * size,
            None => loops.push((key, extent, size)),
        }
    }
    let whole = |((stage, axis), extent, product): ((&str, &str), i64, Expr)| {
        let covered = Expr::int(extent).ceil_div(&product) * product;
        Constraint::without_slope(format!("whole tiles of {stage}.{axis}"), covered, extent)
    };
    loops.into_iter().map(whole).collect()
}
