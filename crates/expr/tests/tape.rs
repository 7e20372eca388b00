//! Tapes mean what expressions mean, and their gradients are derivatives (P3).

mod common;

use common::{Raw, any_expr, point, position, smooth, symbols};
use proptest::prelude::*;
use talweg_expr::{Expr, Node, Scratch, Symbol, Tape};

fn tape(outputs: &[Expr]) -> Tape {
    Tape::new(outputs, &symbols()).unwrap_or_else(|e| panic!("{e}"))
}

fn value(e: &Expr, at: &[f64]) -> f64 {
    e.eval_real(&|s: &Symbol| position(s).map(|k| at[k])).unwrap_or(f64::NAN)
}

fn close(a: f64, b: f64, relative: f64) -> bool {
    a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= relative * a.abs().max(b.abs()).max(1.0)
}

/// Points of whole numbers and of halves.
fn points(count: usize) -> impl Strategy<Value = Vec<Vec<f64>>> {
    prop::collection::vec((point(), any::<bool>()), 1..count).prop_map(|all| {
        all.into_iter()
            .map(|(p, half)| p.into_iter().map(|v| v as f64 + if half { 0.5 } else { 0.0 }).collect())
            .collect()
    })
}

/// Whether the rounding of an exponential or logarithm decides a comparison, as in `exp(log(m)) < m`: the tape rounds
/// them in its own way. The value is then another one right beside the point.
fn jumps(e: &Expr, at: &[f64]) -> bool {
    let (text, expected) = (e.to_string(), value(e, at));
    let is_rounded = ["exp(", "log(", "pow("].iter().any(|name| text.contains(name));
    is_rounded
        && (0..24).any(|step| {
            let beside: Vec<f64> = at.iter().map(|x| x * (1.0 + f64::from(step - 12) * 1e-15)).collect();
            !close(value(e, &beside), expected, 1e-9)
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_tape_evaluates_as_its_expressions_do(
        raws in prop::collection::vec(any_expr(), 1..5),
        at in points(150),
    ) {
        let outputs: Vec<Expr> = raws.iter().map(Raw::build).collect();
        let flat: Vec<f64> = at.concat();
        let mut out = vec![0.0; at.len() * outputs.len()];
        tape(&outputs).eval(&flat, at.len(), &mut out, &mut Scratch::new());
        for (p, at) in at.iter().enumerate() {
            for (o, e) in outputs.iter().enumerate() {
                let (found, expected) = (out[p * outputs.len() + o], value(e, at));
                prop_assert!(
                    close(found, expected, 1e-12) || jumps(e, at),
                    "{e} at {at:?}: tape {found}, expression {expected}"
                );
            }
        }
    }

    #[test]
    fn gradients_are_symbolic_derivatives(
        raws in prop::collection::vec(any_expr(), 1..4),
        at in points(70),
        seeds in prop::collection::vec(-2.0f64..2.0, 3),
    ) {
        let outputs: Vec<Expr> = raws.iter().map(Raw::build).collect();
        let width = symbols().len();
        let flat: Vec<f64> = at.concat();
        let n = at.len();
        let seed: Vec<f64> = (0..n).flat_map(|_| seeds[..outputs.len()].to_vec()).collect();
        let (mut out, mut grad) = (vec![0.0; n * outputs.len()], vec![0.0; n * width]);
        let tape = tape(&outputs);
        tape.gradient(&flat, n, &seed, &mut out, &mut grad, &mut Scratch::new());
        let mut plain = vec![0.0; n * outputs.len()];
        tape.eval(&flat, n, &mut plain, &mut Scratch::new());
        prop_assert!(out.iter().zip(&plain).all(|(a, b)| a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan())));
        for (k, symbol) in symbols().iter().enumerate() {
            let derivatives: Vec<Expr> = outputs.iter().map(|e| e.derivative(symbol)).collect();
            for (p, at) in at.iter().enumerate() {
                // Parts that are very large or undefined say nothing about the rules; the rest bound the rounding.
                let size = derivatives.iter().chain(&outputs).map(|d| largest_part(d, at)).fold(1.0, worst);
                if size < 1e4 {
                    let expected: f64 = derivatives.iter().zip(&seeds).map(|(d, s)| s * value(d, at)).sum();
                    let found = grad[p * width + k];
                    // At the edge of a root or power the chain rule multiplies zero by infinity, which the symbolic
                    // derivative may have simplified away.
                    prop_assert!(
                        found.is_nan() || (found - expected).abs() <= 1e-11 * size * size,
                        "d {outputs:?} / d {symbol} = {derivatives:?}\nat {at:?}: tape {found}, symbolic {expected}"
                    );
                }
            }
        }
    }

    #[test]
    fn gradients_are_finite_differences(raw in smooth(), at in prop::collection::vec(0.3f64..2.0, 5)) {
        let e = raw.build();
        let tape = tape(std::slice::from_ref(&e));
        let (mut out, mut grad) = ([0.0], [0.0; 5]);
        let mut scratch = Scratch::new();
        tape.gradient(&at, 1, &[1.0], &mut out, &mut grad, &mut scratch);
        if out[0].abs() > 1e6 || grad.iter().any(|g| g.abs() > 1e6) {
            return Ok(());
        }
        for k in 0..5 {
            // Two step sizes give an estimate without the leading error, and show where the estimate is poor.
            let slope = |h: f64| {
                let (mut up, mut down) = (at.clone(), at.clone());
                up[k] += h;
                down[k] -= h;
                (value(&e, &up) - value(&e, &down)) / (2.0 * h)
            };
            let (coarse, fine) = (slope(2e-4), slope(1e-4));
            let expected = (4.0 * fine - coarse) / 3.0;
            let bound = 1e-5 * expected.abs().max(out[0].abs()).max(1.0) + (coarse - fine).abs();
            prop_assert!((grad[k] - expected).abs() <= bound, "d {e} / d {k} at {at:?}: {} {expected}", grad[k]);
        }
    }
}

/// The larger of two sizes; an undefined one is larger than all.
fn worst(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() { f64::INFINITY } else { a.max(b) }
}

/// The largest absolute value of any part of the expression at the point.
fn largest_part(e: &Expr, at: &[f64]) -> f64 {
    let below = match e.node() {
        Node::Unary(_, a) => largest_part(a, at),
        Node::Binary(_, a, b) => worst(largest_part(a, at), largest_part(b, at)),
        Node::Select(c, a, b) => worst(largest_part(c, at), worst(largest_part(a, at), largest_part(b, at))),
        _ => 0.0,
    };
    worst(below, value(e, at).abs())
}
