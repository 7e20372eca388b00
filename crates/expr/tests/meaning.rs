//! Building, simplifying, substituting and decomposing keep the meaning of an expression.

mod common;

use common::{Raw, any_expr, integer, point, position, symbol, symbols};
use proptest::prelude::*;
use talweg_expr::{Expr, Ranges};

fn eval(e: &Expr, at: &[i64]) -> Option<i64> {
    e.eval(&|s| position(s).map(|k| at[k]))
}

/// Whether the crate's value is the mirror's. Numbers beyond 2^50 are left out: the crate works on 64 bits.
fn agrees(raw: &Raw, e: &Expr, at: &[i64]) -> Result<(), TestCaseError> {
    if let Some(expected) = raw.eval(at).filter(|v| v.abs() < 1 << 50) {
        if let Some(found) = eval(e, at) {
            prop_assert_eq!(i128::from(found), expected, "{:?}\nbuilt as {}\nat {:?}", raw, e, at);
        } else {
            prop_assert!(overflows(raw, at), "{:?}\nbuilt as {}\nat {:?} has no value", raw, e, at);
        }
    }
    Ok(())
}

/// Whether some part of the tree is undefined or too large at the point, as parts that a `select` or a cancellation
/// hides may be.
fn overflows(raw: &Raw, at: &[i64]) -> bool {
    let small = raw.eval(at).is_some_and(|v| v.abs() < 1 << 40);
    let below = match raw {
        Raw::Unary(_, a) => overflows(a, at),
        Raw::Binary(_, a, b) => overflows(a, at) || overflows(b, at),
        Raw::Select(c, a, b) => overflows(c, at) || overflows(a, at) || overflows(b, at),
        _ => false,
    };
    !small || below
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn constructors_preserve_meaning(raw in integer(), at in prop::collection::vec(point(), 8)) {
        let e = raw.build();
        for at in &at {
            agrees(&raw, &e, at)?;
        }
    }

    #[test]
    fn constructors_preserve_real_meaning(raw in any_expr(), at in point()) {
        let at: Vec<f64> = at.iter().map(|v| *v as f64).collect();
        let e = raw.build();
        let found = e.eval_real(&|s| position(s).map(|k| at[k]));
        let expected = raw.eval_real(&at);
        if expected.is_finite() && settled(&raw, &at) {
            let found = found.unwrap_or(f64::NAN);
            let bound = 1e-9 * expected.abs().max(1.0);
            prop_assert!((found - expected).abs() <= bound, "{raw:?}\nbuilt as {e}\nat {at:?}: {found} {expected}");
        }
    }

    #[test]
    fn simplification_preserves_meaning(
        raw in integer(),
        ranges in prop::collection::vec((-20i64..=20, 0i64..=12), 5),
        picks in prop::collection::vec(prop::collection::vec(0.0f64..1.0, 5), 8),
    ) {
        let (known, low) = declare(&ranges);
        let e = raw.build();
        let simple = e.simplify(&known);
        for pick in &picks {
            agrees(&raw, &simple, &inside(&ranges, &low, pick))?;
        }
    }

    #[test]
    fn bounds_contain_the_value(
        raw in integer(),
        ranges in prop::collection::vec((-20i64..=20, 0i64..=12), 5),
        unknown in prop::collection::vec(any::<bool>(), 5),
        picks in prop::collection::vec(prop::collection::vec(0.0f64..1.0, 5), 8),
    ) {
        let (known, low) = declare(&ranges);
        let mut partly = known.clone();
        for (s, _) in symbols().iter().zip(&unknown).filter(|(_, unknown)| **unknown) {
            partly.remove(s);
        }
        let e = raw.build();
        for ranges_known in [&known, &partly] {
            let bounds = e.bounds(ranges_known);
            let simple = e.simplify(ranges_known);
            for pick in &picks {
                let at = inside(&ranges, &low, pick);
                agrees(&raw, &simple, &at)?;
                if let Some(v) = eval(&e, &at) {
                    let v = v as f64;
                    prop_assert!(bounds.lo <= v && v <= bounds.hi, "{e} at {at:?} is {v}, outside {bounds:?}");
                }
            }
        }
    }

    #[test]
    fn bounds_contain_real_values(raw in any_expr(), at in point()) {
        let mut known = Ranges::new();
        for (s, v) in symbols().iter().zip(&at) {
            known.set(s, if s.is_knob() { 1 } else { v - 3 }, v + 2);
        }
        let e = raw.build();
        let (bounds, at) = (e.bounds(&known), at.iter().map(|v| *v as f64).collect::<Vec<_>>());
        let v = e.eval_real(&|s| position(s).map(|k| at[k])).unwrap_or(f64::NAN);
        if v.is_finite() && settled(&raw, &at) {
            let slack = 1e-9 * v.abs().max(1.0);
            prop_assert!(bounds.lo - slack <= v && v <= bounds.hi + slack, "{e} at {at:?} is {v}, {bounds:?}");
        }
    }

    #[test]
    fn affine_parts_recombine(raw in integer(), at in point()) {
        let e = raw.build();
        let vars = [symbol(0), symbol(2)];
        if let Some(parts) = e.affine(&vars) {
            let mut again = parts.rest.clone();
            prop_assert!(!vars.iter().any(|v| parts.rest.mentions(v)));
            for (v, c) in vars.iter().zip(&parts.coefficients) {
                prop_assert!(!vars.iter().any(|v| c.mentions(v)));
                again = again + c.clone() * Expr::sym(v);
            }
            if let (Some(a), Some(b)) = (eval(&e, &at), eval(&again, &at)) {
                prop_assert_eq!(a, b, "{} against {}", e, again);
            }
        }
    }

    #[test]
    fn substitution_is_composition(
        raw in integer(),
        by in prop::collection::vec(integer(), 3),
        at in point(),
    ) {
        let inner: Vec<Expr> = by.iter().map(Raw::build).collect();
        let e = raw.build();
        let composed = e.subst(&|s| position(s).filter(|k| *k < 3).map(|k| inner[k].clone()));
        let values: Option<Vec<i64>> = inner.iter().map(|e| eval(e, &at)).collect();
        if let Some(mut values) = values.filter(|v| v.iter().all(|v| v.abs() < 1 << 20)) {
            values.extend(&at[3..]);
            if let (Some(a), Some(b)) = (eval(&e, &values), eval(&composed, &at)) {
                prop_assert_eq!(a, b, "{} with {:?} is {}", e, inner, composed);
            }
        }
    }

    #[test]
    fn printed_expressions_parse_to_themselves(raw in any_expr()) {
        let e = raw.build();
        let text = e.to_string();
        match Expr::parse(&text) {
            Ok(again) => prop_assert!(again == e, "{text}\nparsed as\n{again}"),
            Err(error) => prop_assert!(false, "{text}\n{error}"),
        }
    }

    #[test]
    fn no_text_makes_the_parser_panic(text in "[a-c0-9$().,+*/%<>=!&|\" #\nemin-]{0,40}") {
        if let Ok(e) = Expr::parse(&text) {
            prop_assert!(Expr::parse(&e.to_string()).is_ok(), "{text:?} parsed as {e}");
        }
    }
}

/// Whether a real evaluation is far from every jump, so that rounding cannot choose another side, and every part is
/// finite.
fn settled(raw: &Raw, at: &[f64]) -> bool {
    use talweg_expr::BinaryOp::{CeilDiv, Eq, FloorDiv, Le, Lt, Mod, Ne};
    let value = raw.eval_real(at);
    let here = value.is_finite() && value.abs() < 1e12;
    here && match raw {
        Raw::Unary(_, a) => settled(a, at),
        Raw::Select(c, a, b) => settled(c, at) && settled(a, at) && settled(b, at),
        Raw::Binary(op, a, b) => {
            let (x, y) = (a.eval_real(at), b.eval_real(at));
            let apart = match op {
                FloorDiv | CeilDiv | Mod => {
                    let q = x / y;
                    y.abs() > 1e-3 && ((q - q.round()).abs() > 1e-6 || (x.fract() == 0.0 && y.fract() == 0.0))
                }
                Lt | Le | Eq | Ne => x == y || (x - y).abs() > 1e-6 * x.abs().max(y.abs()),
                _ => true,
            };
            apart && settled(a, at) && settled(b, at)
        }
        _ => true,
    }
}

/// Ranges of all symbols (knobs moved to be positive) and their lower ends.
fn declare(ranges: &[(i64, i64)]) -> (Ranges, Vec<i64>) {
    let mut known = Ranges::new();
    let mut low = Vec::new();
    for (k, (lo, length)) in ranges.iter().enumerate() {
        let lo = if k < 3 { *lo } else { lo.abs() + 1 };
        known.set(&symbols()[k], lo, lo + length);
        low.push(lo);
    }
    (known, low)
}

fn inside(ranges: &[(i64, i64)], low: &[i64], pick: &[f64]) -> Vec<i64> {
    (0..low.len()).map(|k| low[k] + (pick[k] * (ranges[k].1 + 1) as f64) as i64).collect()
}
