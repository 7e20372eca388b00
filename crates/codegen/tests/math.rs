//! The accuracy of math functions, over dense sweeps of f32 operands, against f64.

mod support;

use std::f64::consts::FRAC_2_SQRT_PI;

use support::{execute, nest, targets};
use talweg_codegen::{Options, compile};
use talweg_ir::{Array, DType, TensorId};

/// Runs `expression` of `X[i]` (and `Y[i]`) on every target.
fn run(expression: &str, x: &[f32], y: &[f32], mut each: impl FnMut(&str, &[f32])) {
    let n = x.len();
    let nest = nest(&format!(
        "nest sweep {{ input X: f32[{n}] input Y: f32[{n}] output Z: f32[{n}]
           for o in 0..{} {{ vectorize i in 0..16 {{ Z[o * 16 + i] = {expression} }} }}
           for t in 0..{} {{ Z[t + {}] = {} }} }}",
        n / 16,
        n % 16,
        n / 16 * 16,
        expression.replace("o * 16 + i", &format!("t + {}", n / 16 * 16)),
    ));
    for target in targets() {
        let compiled = compile(&nest, &target, &Options::default()).expect("compiles");
        let array = |v: &[f32]| Array::from_f32(DType::F32, &[n], v).expect("an array");
        let mut args = vec![
            (TensorId(0), array(x)),
            (TensorId(1), array(y)),
            (TensorId(2), Array::zeros(DType::F32, &[n])),
        ];
        execute(&compiled, &mut args, 1);
        each(target.isa.name(), args[2].1.as_f32().expect("floats"));
    }
}

/// The distance in units in the last place of the exact value; results below the smallest normal number may be 0.
fn ulps(exact: f64, got: f32) -> f64 {
    let rounded = exact as f32;
    if rounded.is_nan() || rounded.is_infinite() {
        let same = rounded.is_nan() == got.is_nan() && (got.is_nan() || rounded == got);
        return if same { 0.0 } else { f64::INFINITY };
    }
    if exact.abs() < f64::from(f32::MIN_POSITIVE) {
        return if got.abs() <= f32::MIN_POSITIVE { 0.0 } else { f64::INFINITY };
    }
    let unit = 2f64.powi(exact.abs().log2().floor() as i32 - 23);
    (f64::from(got) - exact).abs() / unit
}

/// Every 1024th float of both signs between two magnitudes, and the special values.
fn sweep(smallest: f32, largest: f32) -> Vec<f32> {
    let magnitudes = (smallest.to_bits()..=largest.to_bits()).step_by(1021).map(f32::from_bits);
    let mut all: Vec<f32> = magnitudes.flat_map(|v| [v, -v]).collect();
    all.extend([0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, -f32::NAN, f32::MAX, f32::MIN]);
    all.extend([f32::from_bits(0x7fc0_0001), f32::from_bits(1), f32::MIN_POSITIVE, 1.0, -1.0]);
    all
}

fn worst(function: &str, xs: &[f32], exact: impl Fn(f64) -> f64, bound: f64) {
    run(&format!("{function}(X[o * 16 + i])"), xs, xs, |isa, got| {
        let (mut worst, mut at) = (0.0, 0);
        for (i, (x, g)) in xs.iter().zip(got).enumerate() {
            let e = ulps(exact(f64::from(*x)), *g);
            if e > worst || e.is_nan() {
                (worst, at) = (e, i);
            }
        }
        let (x, g) = (xs[at], got[at]);
        let e = exact(f64::from(x));
        println!("{function} on {isa}: {worst:.2} ulp at {x:e}");
        assert!(worst <= bound, "{function}({x:e}) on {isa}: got {g:e}, exact {e:e}: {worst} ulp");
    });
}

#[test]
fn exponential() {
    worst("exp", &sweep(1e-10, 120.0), f64::exp, 1.0);
    let dense: Vec<f32> = (0..400_000).map(|i| -88.0 + i as f32 * 4.425e-4).collect();
    worst("exp", &dense, f64::exp, 1.0);
}

#[test]
fn logarithm() {
    worst("log", &sweep(1e-44, f32::MAX), f64::ln, 1.0);
    let near_one: Vec<f32> = (0..400_000).map(|i| 0.5 + i as f32 * 5e-6).collect();
    worst("log", &near_one, f64::ln, 1.0);
}

#[test]
fn sigmoid() {
    worst("sigmoid", &sweep(1e-10, 120.0), |x| 1.0 / (1.0 + (-x).exp()), 3.0);
}

#[test]
fn hyperbolic_tangent() {
    worst("tanh", &sweep(1e-30, 100.0), f64::tanh, 6.0);
    let dense: Vec<f32> = (0..400_000).map(|i| -10.0 + i as f32 * 5e-5).collect();
    worst("tanh", &dense, f64::tanh, 6.0);
}

#[test]
fn error_function() {
    worst("erf", &sweep(1e-30, 100.0), erf, 7.0);
    let dense: Vec<f32> = (0..400_000).map(|i| -5.0 + i as f32 * 2.5e-5).collect();
    worst("erf", &dense, erf, 7.0);
}

#[test]
fn sine_and_cosine() {
    let mut xs = sweep(1e-10, 1e9);
    xs.retain(|x| !(1.1e9..f32::INFINITY).contains(&x.abs()));
    worst("sin", &xs, f64::sin, 1.0);
    worst("cos", &xs, f64::cos, 1.0);
}

#[test]
fn roots_and_rounding() {
    let xs = sweep(1e-37, 1e30);
    worst("sqrt", &xs, f64::sqrt, 0.51);
    worst("rsqrt", &xs, |x| 1.0 / x.sqrt(), 1.5);
    worst("floor", &xs, f64::floor, 0.0);
    worst("ceil", &xs, f64::ceil, 0.0);
    worst("round", &xs, f64::round_ties_even, 0.0);
    worst("abs", &xs, f64::abs, 0.0);
}

#[test]
fn powers() {
    let bases = [
        0.0f32,
        -0.0,
        0.3,
        1.0,
        1.5,
        7.25,
        -2.0,
        -0.5,
        1e-20,
        1e30,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
    ];
    let exponents =
        [0.0f32, 0.5, 1.0, 2.0, 3.0, -1.0, -2.5, 0.1, 13.0, -3.0, 31.7, f32::INFINITY, f32::NEG_INFINITY];
    let mut pairs: Vec<(f32, f32)> = bases.iter().flat_map(|b| exponents.map(|e| (*b, e))).collect();
    pairs.extend((1..100_000).map(|i| (i as f32 * 1e-3, (i % 977) as f32 * 0.02 - 10.0)));
    let (xs, ys): (Vec<f32>, Vec<f32>) = pairs.iter().copied().unzip();
    run("pow(X[o * 16 + i], Y[o * 16 + i])", &xs, &ys, |isa, got| {
        for ((x, y), g) in pairs.iter().zip(got) {
            let exact = f64::from(*x).powf(f64::from(*y));
            let e = ulps(exact, *g);
            assert!(e <= 1.0, "pow({x:e}, {y:e}) on {isa}: got {g:e}, exact {exact:e}");
        }
    });
    for (text, exact) in [("2.0", 2.0), ("0.5", 0.5), ("-1.0", -1.0), ("3.0", 3.0), ("2.5", 2.5)] {
        run(&format!("pow(X[o * 16 + i], {text})"), &xs[200..1000], &ys[200..1000], |isa, got| {
            for (x, g) in xs[200..1000].iter().zip(got) {
                let e = ulps(f64::from(*x).powf(exact), *g);
                assert!(e <= 1.5, "pow({x:e}, {text}) on {isa}: got {g:e}");
            }
        });
    }
}

/// The error function: its series near zero, the continued fraction of the complement farther out.
fn erf(x: f64) -> f64 {
    let a = x.abs();
    if x.is_nan() || a > 6.0 {
        return if x.is_nan() { x } else { x.signum() };
    }
    let gauss = (-a * a).exp();
    let value = if a < 2.5 {
        let (mut term, mut sum, mut odd) = (a, a, 3.0);
        while term > sum * 1e-17 {
            term *= 2.0 * a * a / odd;
            sum += term;
            odd += 2.0;
        }
        FRAC_2_SQRT_PI * gauss * sum
    } else {
        let tail = (1..60).rev().fold(a, |tail, n| a + f64::from(n) / 2.0 / tail);
        1.0 - gauss * FRAC_2_SQRT_PI / 2.0 / tail
    };
    value.copysign(x)
}
