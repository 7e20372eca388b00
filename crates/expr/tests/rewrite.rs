//! Rewriting keeps values: every rule on random points, and whole formulas.

mod common;

use common::{any_expr, integer, symbols};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use talweg_expr::rules::{Fact, RULES};
use talweg_expr::{Expr, Interval, Ranges, Rewriter, Symbol};

/// Numbers that make conditions true now and then: truth values, small whole numbers, others.
fn value() -> impl Strategy<Value = f64> {
    prop_oneof![
        3 => prop::sample::select(vec![0.0, 1.0]),
        4 => (-6i64..=12).prop_map(|v| v as f64),
        3 => -3.0f64..9.0,
    ]
}

fn close(a: f64, b: f64) -> bool {
    a == b || (a - b).abs() <= 1e-9 * (1.0 + a.abs().max(b.abs()))
}

#[test]
fn every_rule_is_sound_on_random_points() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let points = prop::collection::vec(value(), 5);
    for rule in RULES {
        let mut tried = 0;
        for _ in 0..4000 {
            let point = points.new_tree(&mut runner).expect("a point").current();
            let at = |name: &str| "abcde".find(&name[1..]).map(|k| point[k]);
            let fact = |name: &str| {
                let v = at(name).unwrap_or(f64::NAN);
                Fact { interval: Interval::point(v), whole: v.fract() == 0.0 }
            };
            if !rule.when.iter().all(|c| c.holds(&fact)) {
                continue;
            }
            let (from, to) = rule.sides(&at).unwrap_or_else(|| panic!("{} is not well formed", rule.name));
            if !from.is_finite() {
                continue;
            }
            tried += 1;
            assert!(close(from, to), "{} at {point:?}: {from} became {to}", rule.name);
        }
        assert!(tried >= 50, "{} was tried on {tried} points only", rule.name);
    }
}

#[test]
fn rules_have_names_of_their_own() {
    let names: std::collections::BTreeSet<_> = RULES.iter().map(|r| r.name).collect();
    assert_eq!(names.len(), RULES.len());
}

fn at(point: &[i64]) -> impl Fn(&Symbol) -> Option<f64> + '_ {
    |s| common::position(s).map(|k| point[k] as f64)
}

fn ranges() -> Ranges {
    let mut out = Ranges::new();
    for (k, s) in symbols().iter().enumerate() {
        if k < 3 { out.set(s, -30, 30) } else { out.set(s, 1, 12) }
    }
    out
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn integer_formulas_keep_their_values(
        raws in prop::collection::vec(integer(), 1..4),
        points in prop::collection::vec(common::point(), 12),
    ) {
        let formulas: Vec<Expr> = raws.iter().map(|r| r.build()).collect();
        let (new, report) = Rewriter::new(ranges()).rewrite(&formulas);
        prop_assert_eq!(new.len(), formulas.len());
        for point in &points {
            for (raw, e) in raws.iter().zip(&new) {
                let Some(want) = raw.eval(point) else { continue };
                if want.abs() > 1 << 40 { continue; }
                let found = e.eval_real(&at(point)).expect("all symbols have values");
                prop_assert!(close(found, want as f64), "{raw:?}\nbecame {e}\nat {point:?}: {found}, not {want}\n{report:?}");
            }
        }
    }

    #[test]
    fn real_formulas_keep_their_values(raw in any_expr(), points in prop::collection::vec(common::point(), 12)) {
        let e = raw.build();
        let (new, _) = Rewriter::new(ranges()).rewrite(std::slice::from_ref(&e));
        for point in &points {
            let reals: Vec<f64> = point.iter().map(|v| *v as f64).collect();
            let want = raw.eval_real(&reals);
            let found = new[0].eval_real(&at(point)).expect("all symbols have values");
            // Large numbers cancel differently; jumps at rounding errors say nothing.
            if want.is_finite() && want.abs() < 1e4 && !common::jumps(&raw) {
                prop_assert!(close(found, want), "{e}\nbecame {}\nat {point:?}: {found}, not {want}", new[0]);
            }
        }
    }
}

#[test]
fn what_feature_formulas_repeat_is_found() {
    let mut ranges = Ranges::new();
    let (t, u) = (Symbol::knob("t"), Symbol::knob("u"));
    ranges.set(&t, 1, 56);
    ranges.set(&u, 1, 8);
    for (from, to) in [
        ("min($t, 56) * 1.0 + -1.0 + 1.0", "$t"),
        ("max(ceildiv(56, $t), 1) * 1.0", "ceildiv(56, $t)"),
        ("min(min($t, 56) * 1.0 + -1.0 + 1.0, min($t, 56) * 1.0)", "$t"),
        ("log($t * 1.0) + log($u * 1.0)", "log($t * $u)"),
        (
            "select(1.0 < $t * 1.0, select(1.0 < $t * 1.0, $u * 2.0, 3.0), 4.0)",
            "select(1.0 < $t, $u * 2.0, 4.0)",
        ),
        ("ceildiv(ceildiv(56, $t), $u)", "ceildiv(56.0, $t * $u)"),
        ("($t * 3.0 + $t * $u * 1.0) / ($t * 1.0)", "$u + 3.0"),
    ] {
        let e = Expr::parse(from).unwrap_or_else(|e| panic!("{from}: {e}"));
        let (new, report) = Rewriter::new(ranges.clone()).rewrite(&[e]);
        let want = Expr::parse(to).unwrap_or_else(|e| panic!("{to}: {e}"));
        assert!(report.after <= report.before);
        let size = |e: &Expr| e.to_string().len();
        assert!(size(&new[0]) <= size(&want) + 2, "{from}\nbecame {}\nnot {to}", new[0]);
    }
}
