//! P3 for smooth formulas: they are finite, their gradients are finite differences, and narrow widths give exact values.

mod common;

use common::{NAMES, integer, symbols};
use proptest::prelude::*;
use talweg_expr::{Expr, Ranges, Scratch, Smoother, Symbol, Tape};

fn width() -> Symbol {
    Symbol::var("width")
}

/// Everything is at least 1, as knobs are.
fn ranges() -> Ranges {
    let mut out = Ranges::new();
    symbols().iter().for_each(|s| out.set(s, 1, 30));
    out
}

fn smooth_tape(e: &Expr) -> (Expr, Tape) {
    let smooth = Smoother::new(ranges(), &width()).smooth(e);
    let mut inputs = symbols();
    inputs.push(width());
    let tape = Tape::new(std::slice::from_ref(&smooth), &inputs).expect("all symbols are inputs");
    (smooth, tape)
}

fn value(tape: &Tape, point: &[f64], width: f64) -> f64 {
    let mut at = point.to_vec();
    at.push(width);
    let mut out = [0.0];
    tape.eval(&at, 1, &mut out, &mut Scratch::new());
    out[0]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn gradients_are_finite_differences(
        raw in integer(),
        point in prop::collection::vec(1.0f64..30.0, NAMES.len()),
        width in prop::sample::select(vec![1.0, 0.5, 0.2]),
    ) {
        let e = raw.build();
        if divides_by_few(&e) {
            return Ok(());
        }
        let (smooth, tape) = smooth_tape(&e);
        let mut at = point.clone();
        at.push(width);
        let (mut out, mut grad) = ([0.0], [0.0; NAMES.len() + 1]);
        tape.gradient(&at, 1, &[1.0], &mut out, &mut grad, &mut Scratch::new());
        prop_assert!(out[0].is_finite() && grad.iter().all(|g| g.is_finite()), "{e}\n{smooth}\n{at:?}");
        if out[0].abs() > 1e6 || grad.iter().any(|g| g.abs() > 1e6) {
            return Ok(());
        }
        for k in 0..NAMES.len() {
            let slope = |h: f64| {
                let (mut up, mut down) = (point.clone(), point.clone());
                up[k] += h;
                down[k] -= h;
                (value(&tape, &up, width) - value(&tape, &down, width)) / (2.0 * h)
            };
            let (coarse, fine) = (slope(2e-5), slope(1e-5));
            // Where the slope itself changes from one step to the other, second derivatives are large.
            let bound = 1e-4 * (1.0 + fine.abs() + grad[k].abs() + out[0].abs()) + 3.0 * (coarse - fine).abs();
            prop_assert!((grad[k] - fine).abs() <= bound, "d {e} / d {k} at {at:?}: {} {fine}", grad[k]);
        }
    }

    #[test]
    fn narrow_widths_give_exact_values_at_whole_points(
        raw in integer(),
        point in prop::collection::vec(1i64..=30, NAMES.len()),
    ) {
        let e = raw.build();
        let Some(want) = raw.eval(&point) else { return Ok(()) };
        let (_, tape) = smooth_tape(&e);
        let reals: Vec<f64> = point.iter().map(|v| *v as f64).collect();
        let found = value(&tape, &reals, 1e-7);
        // What is rounded must be exact to begin with: a multiple that smoothing has moved a little is none any more,
        // and two numbers are not equal any more.
        if want.abs() < 1000 && !divides_by_few(&e) && !rounds_smooth_parts(&e) {
            prop_assert!((found - want as f64).abs() < 0.05 * (1.0 + want.abs() as f64), "{e} at {point:?}: {found}, not {want}");
        }
    }
}

/// Whether a divisor may be zero or negative, which is guarded.
fn divides_by_few(e: &Expr) -> bool {
    use talweg_expr::{BinaryOp, Node};
    match e.node() {
        Node::Unary(_, a) => divides_by_few(a),
        Node::Binary(op, a, b) => {
            let divides = matches!(op, BinaryOp::FloorDiv | BinaryOp::CeilDiv | BinaryOp::Mod);
            (divides && b.bounds(&ranges()).lo < 1.0) || divides_by_few(a) || divides_by_few(b)
        }
        Node::Select(c, a, b) => divides_by_few(c) || divides_by_few(a) || divides_by_few(b),
        _ => false,
    }
}

/// Whether something is rounded, or asked to be equal, that smoothing changes.
fn rounds_smooth_parts(e: &Expr) -> bool {
    use talweg_expr::{BinaryOp, Node};
    match e.node() {
        Node::Unary(_, a) => rounds_smooth_parts(a),
        Node::Binary(op, a, b) => {
            use BinaryOp::{CeilDiv, Eq, FloorDiv, Mod, Ne};
            let rounds = matches!(op, FloorDiv | CeilDiv | Mod | Eq | Ne);
            let smooths = |e: &Expr| Smoother::new(ranges(), &width()).smooth(e).mentions(&width());
            (rounds && (smooths(a) || smooths(b))) || rounds_smooth_parts(a) || rounds_smooth_parts(b)
        }
        Node::Select(c, a, b) => rounds_smooth_parts(c) || rounds_smooth_parts(a) || rounds_smooth_parts(b),
        _ => false,
    }
}

#[test]
fn flags_counts_and_tiles_read_as_expected() {
    let eval = |text: &str, k: f64, width: f64| {
        let e = Expr::parse(text).unwrap_or_else(|e| panic!("{text}: {e}"));
        let mut point = vec![1.0; NAMES.len()];
        point[3] = k;
        value(&smooth_tape(&e).1, &point, width)
    };
    // A loop of one iteration is told from one of two, even when not narrow.
    assert!(
        eval("select(1 < $k, 1.0, 0.0)", 1.0, 0.2) < 0.1 && eval("select(1 < $k, 1.0, 0.0)", 2.0, 0.2) > 0.85
    );
    // Exact multiples are exact at any width; otherwise wide is the real quotient and narrow the ceiling.
    assert!((eval("ceildiv(56, $k)", 7.0, 0.7) - 8.0).abs() < 1e-2);
    assert!((eval("ceildiv(56, $k)", 10.0, 1.0) - 5.6).abs() < 1e-2);
    assert!((eval("ceildiv(56, $k)", 10.0, 0.01) - 6.0).abs() < 0.05);
    // The rounding of large quotients is left out while it is not narrow.
    assert!((eval("ceildiv(5600, $k)", 19.0, 0.2) - 5600.0 / 19.0).abs() < 0.01);
    assert!((eval("log(1.0 + select(1 < $k, 1000000, 1) * 1.0)", 1.0, 0.1) - 2f64.ln()).abs() < 0.5);
}
