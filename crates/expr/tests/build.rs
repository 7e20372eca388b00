//! What the constructors decide, by example; one test for each rule that was once wrong.

use std::collections::HashSet;

use talweg_expr::{BinaryOp, Expr, Ranges, Symbol, UnaryOp};

fn parse(text: &str) -> Expr {
    Expr::parse(text).unwrap_or_else(|e| panic!("{text}: {e}"))
}

fn becomes(from: &str, to: &str) {
    assert_eq!(parse(from).to_string(), to, "{from}");
}

/// `v0 + v1 + ...`
fn long_sum(prefix: &str, terms: usize) -> Expr {
    (0..terms).fold(Expr::int(0), |sum, k| sum + Expr::var(&format!("{prefix}{k}")))
}

#[test]
fn integer_arithmetic_is_canonical() {
    becomes("(x + 1) * (x - 1)", "x * x + -1");
    becomes("(x * 8 + 5) // 4", "x * 2 + 1");
    becomes("(x * 8 + y - 3) % 4", "(y + 1) % 4");
    becomes("ceildiv(x * 4 + 1, 4)", "x + 1");
    becomes("x // 3 // 5", "x // 15");
    becomes("(x * $t + y) // $t", "x + y // $t");
    becomes("(x * $t * 6 + $t * 2 + y) % ($t * 2)", "y % ($t * 2)");
    becomes("max(x + 1, x)", "x + 1");
    becomes("x + 2 < x + 3", "true");
}

#[test]
fn min_and_max_of_owned_operands_are_expressions() {
    let (x, y) = (Expr::var("x"), Expr::var("y"));
    assert_eq!((x.clone() + 1).max(y.clone() * 2).to_string(), "max(x + 1, y * 2)");
    assert_eq!(x.min(y).to_string(), "min(x, y)");
}

#[test]
fn constants_of_nested_min_and_max_merge_from_either_side() {
    becomes("min(3, min(x, 2))", "min(x, 2)");
    becomes("max(max(2, x), 3)", "max(x, 3)");
    becomes("min(x, min(x, y))", "min(x, y)");
    becomes("max(max(x, y), y)", "max(x, y)");
}

#[test]
fn long_sums_cancel_and_constants_distribute_over_them() {
    let sum = long_sum("v", 40);
    assert_eq!(sum.clone() - &sum, Expr::int(0));
    assert_eq!(sum.clone() * 1, sum);
    assert_eq!(sum.clone() * 3 - sum.clone() * 2, sum);
}

#[test]
fn products_too_large_to_multiply_out_have_one_form() {
    let (a, b, x) = (long_sum("a", 13), long_sum("b", 3), Expr::var("x"));
    let left = (a.clone() * &b) * &x * 5;
    assert_eq!(left, x.clone() * 5 * (b.clone() * &a));
    assert_eq!(Expr::parse(&left.to_string()), Ok(left.clone()));
    let square = left.clone() * &left;
    assert_eq!(Expr::parse(&square.to_string()), Ok(square));
    assert_eq!(left.floor_div(5), a * &b * x);
}

#[test]
fn rounding_a_real_by_one_is_not_nothing() {
    for (text, at_half) in [("(x + 0.25) // 1", 0.0), ("(x + 0.25) % 1", 0.75), ("ceildiv(x + 0.25, 1)", 1.0)]
    {
        assert_eq!(parse(text).eval_real(&|_| Some(0.5)), Some(at_half), "{text}");
    }
}

#[test]
fn a_number_as_a_truth_value_is_whether_it_is_not_zero() {
    let x = Expr::var("x");
    let not = |e: Expr| Expr::unary(UnaryOp::Not, e);
    assert_eq!(not(not(x.clone())).eval(&|_| Some(5)), Some(1));
    assert_eq!(x.and(&Expr::bool(true)).eval(&|_| Some(5)), Some(1));
    assert_eq!(x.or(&x).eval(&|_| Some(5)), Some(1));
    assert_eq!(Expr::select(Expr::int(2), x.clone(), Expr::int(0)), x);
    becomes("true + 3 + 2", "6");
}

#[test]
fn numbers_at_the_edge_of_64_bits_do_not_panic() {
    let (x, k, min) = (Expr::var("x"), Expr::knob("k"), Expr::int(i64::MIN));
    let scaled = x.clone() * &k * i64::MIN;
    assert_eq!(scaled.floor_div(k.clone() * -1).ty(), x.ty());
    assert_eq!(x.floor_div(1i64 << 40).floor_div(1i64 << 40).eval(&|_| Some(7)), Some(0));
    assert_eq!((x.clone() + i64::MAX).max(x.clone() - 2).eval(&|_| Some(-5)), Some(i64::MAX - 5));
    for op in [BinaryOp::FloorDiv, BinaryOp::CeilDiv, BinaryOp::Mod, BinaryOp::Mul, BinaryOp::Add] {
        for by in [-1, 0, 1, i64::MIN, i64::MAX] {
            let e = Expr::binary(op, min.clone(), Expr::int(by));
            assert_eq!(Expr::parse(&e.to_string()), Ok(e));
        }
    }
}

#[test]
fn the_remainder_of_a_real_may_come_close_to_its_divisor() {
    let mut ranges = Ranges::new();
    ranges.set(&Symbol::var("x"), 0, 20);
    let e = parse("(x + 0.75) % 4");
    let bounds = e.bounds(&ranges);
    let at_three = e.eval_real(&|_| Some(3.0)).unwrap_or(f64::NAN);
    assert_eq!(at_three, 3.75);
    assert!(bounds.lo <= at_three && at_three <= bounds.hi, "{bounds:?}");
}

#[test]
fn every_nan_is_the_same_constant() {
    assert_eq!(Expr::real(f64::NAN), Expr::real(-f64::NAN));
    assert_eq!(parse("0.0 / 0.0"), parse("nan"));
}

#[test]
fn shared_parts_are_visited_once() {
    // As a tree this has 2^200 leaves.
    let mut e = Expr::var("x");
    for k in 0..200 {
        let y = Expr::var(&format!("y{k}"));
        e = Expr::select(y.lt(&e), e.floor_div(y.max(1)), e.clone());
    }
    let mut ranges = Ranges::new();
    ranges.set(&Symbol::var("x"), 0, 9);
    assert_eq!(e.symbols().len(), 201);
    assert!(!e.mentions(&Symbol::knob("k")));
    assert_eq!(e.eval(&|_| Some(1)), Some(1));
    assert_eq!(e.eval_real(&|_| Some(1.0)), Some(1.0));
    assert_eq!((e.bounds(&ranges).lo, e.bounds(&ranges).hi), (0.0, 9.0));
    assert_eq!(e.simplify(&ranges).symbols(), e.symbols());
    let distinct: HashSet<Expr> = [e.clone(), e].into_iter().collect();
    assert_eq!(distinct.len(), 1);
}
