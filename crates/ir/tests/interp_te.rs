//! The meaning of tensor expressions, by small cases computed by hand.

use talweg_expr::Expr;
use talweg_ir::{
    ArithOp, Array, DType, Dag, EvalOptions, InterpError, MathOp, Reducer, Scalar, TensorId, compare,
    eval_dag, eval_dag_all, eval_dag_with,
};

fn f32s(values: &[f32]) -> Array {
    Array::from_f32(DType::F32, &[values.len()], values).unwrap()
}

fn read(t: TensorId, indices: &[Expr]) -> Scalar {
    Scalar::Read(t, indices.to_vec())
}

/// Evaluates an elementwise function of two vectors.
fn map2(a: Array, b: Array, f: impl FnOnce(Scalar, Scalar) -> Scalar) -> Result<Array, InterpError> {
    let mut dag = Dag::new("map");
    let n = a.len() as i64;
    let x = dag.input("x", a.dtype(), &[n]);
    let y = dag.input("y", b.dtype(), &[n]);
    let z = dag.compute("z", &[("i", n)], |v| f(read(x, v), read(y, v)));
    dag.mark_output(z);
    let mut out = eval_dag(&dag, &[(x, a), (y, b)])?;
    Ok(out.remove(0).1)
}

fn floats(a: &Array) -> Vec<f64> {
    (0..a.len()).map(|at| a.get_f64(at)).collect()
}

fn ints(a: &Array) -> Vec<i64> {
    (0..a.len()).map(|at| a.get_i64(at)).collect()
}

#[test]
fn unary_functions_of_floats() {
    let x = [-1.5f32, -0.5, 0.5, 2.5];
    type Function = (MathOp, fn(f64) -> f64);
    let cases: [Function; 14] = [
        (MathOp::Neg, |v| -v),
        (MathOp::Abs, f64::abs),
        (MathOp::Exp, f64::exp),
        (MathOp::Log, f64::ln),
        (MathOp::Sqrt, f64::sqrt),
        (MathOp::Rsqrt, |v| 1.0 / v.sqrt()),
        (MathOp::Tanh, f64::tanh),
        (MathOp::Sigmoid, |v| 1.0 / (1.0 + (-v).exp())),
        (MathOp::Sin, f64::sin),
        (MathOp::Cos, f64::cos),
        (MathOp::Floor, f64::floor),
        (MathOp::Ceil, f64::ceil),
        (MathOp::Round, f64::round_ties_even),
        (MathOp::Erf, |v| {
            let erf = [
                (0.5, 0.520_499_877_813_046_5),
                (1.5, 0.966_105_146_475_310_7),
                (2.5, 0.999_593_047_982_555),
            ];
            erf.iter().find(|(x, _)| *x == v.abs()).map_or(f64::NAN, |(_, y)| y * v.signum())
        }),
    ];
    for (op, expected) in cases {
        let got = map2(f32s(&x), f32s(&x), |a, _| Scalar::unary(op, a)).unwrap();
        let want = f32s(&x.map(|v| expected(f64::from(v)) as f32));
        assert!(compare(&want, &got).within(0.0), "{op:?}: {}", compare(&want, &got));
    }
}

#[test]
fn binary_functions_of_floats() {
    let (a, b) = ([5.5f32, -5.5, 2.0], [2.0f32, 2.0, -3.0]);
    let cases = [
        (ArithOp::Add, [7.5, -3.5, -1.0]),
        (ArithOp::Sub, [3.5, -7.5, 5.0]),
        (ArithOp::Mul, [11.0, -11.0, -6.0]),
        (ArithOp::Div, [2.75, -2.75, -2.0 / 3.0]),
        (ArithOp::Rem, [1.5, -1.5, 2.0]),
        (ArithOp::Max, [5.5, 2.0, 2.0]),
        (ArithOp::Min, [2.0, -5.5, -3.0]),
        (ArithOp::Pow, [30.25, 30.25, 0.125]),
    ];
    for (op, want) in cases {
        let got = map2(f32s(&a), f32s(&b), |a, b| Scalar::binary(op, a, b)).unwrap();
        assert_eq!(got, f32s(&want), "{op:?}");
    }
    let predicates = [
        (ArithOp::Lt, [0, 1, 0]),
        (ArithOp::Le, [0, 1, 0]),
        (ArithOp::Eq, [0, 0, 0]),
        (ArithOp::Ne, [1, 1, 1]),
    ];
    for (op, want) in predicates {
        let got = map2(f32s(&a), f32s(&b), |a, b| Scalar::binary(op, a, b)).unwrap();
        assert_eq!((got.dtype(), ints(&got)), (DType::Bool, want.to_vec()), "{op:?}");
    }
}

#[test]
fn integers_wrap_at_their_width() {
    let i8s = |v: &[i64]| Array::from_i64(DType::I8, &[v.len()], v).unwrap();
    let cases = [
        (ArithOp::Add, [-56, -128, 7]),
        (ArithOp::Sub, [0, -126, -3]),
        (ArithOp::Mul, [16, 127, 10]),
        (ArithOp::Div, [1, 127, 0]),
        (ArithOp::Rem, [0, 0, 2]),
        (ArithOp::Pow, [0, 0, 32]),
    ];
    for (op, want) in cases {
        let got = map2(i8s(&[100, -127, 2]), i8s(&[100, -1, 5]), |a, b| Scalar::binary(op, a, b)).unwrap();
        assert_eq!(ints(&got), want, "{op:?}");
    }
    // Wrapping happens before the next operation sees the value.
    let got = map2(i8s(&[100]), i8s(&[100]), |a, b| (a + b.clone()) / b).unwrap();
    assert_eq!(ints(&got), [0]);
    let u8s = |v: &[i64]| Array::from_i64(DType::U8, &[v.len()], v).unwrap();
    let got = map2(u8s(&[3, 250]), u8s(&[5, 10]), |a, b| (a - b.clone()).max(b)).unwrap();
    assert_eq!(ints(&got), [254, 240]);
    let i32s = |v: &[i64]| Array::from_i64(DType::I32, &[v.len()], v).unwrap();
    let got = map2(i32s(&[i64::from(i32::MAX)]), i32s(&[1]), |a, b| a + b).unwrap();
    assert_eq!(ints(&got), [i64::from(i32::MIN)]);
    let i64s = |v: &[i64]| Array::from_i64(DType::I64, &[v.len()], v).unwrap();
    let got = map2(i64s(&[i64::MAX, 7]), i64s(&[1, 0]), |a, b| (a.clone() + b.clone()) + a / b).unwrap();
    assert_eq!(ints(&got), [i64::MIN.wrapping_add(i64::MAX), 7]);
    let got = map2(i8s(&[-128, 5]), i8s(&[0, 0]), |a, _| Scalar::unary(MathOp::Abs, a)).unwrap();
    assert_eq!(ints(&got), [-128, 5]);
}

#[test]
fn casts_truncate_saturate_and_round() {
    let x = f32s(&[300.7, -300.7, -2.9, f32::NAN]);
    for (to, want) in [
        (DType::I8, vec![127, -128, -2, 0]),
        (DType::U8, vec![255, 0, 0, 0]),
        (DType::I32, vec![300, -300, -2, 0]),
        (DType::I64, vec![300, -300, -2, 0]),
        (DType::Bool, vec![1, 1, 1, 1]),
    ] {
        let got = map2(x.clone(), x.clone(), |a, _| a.cast(to)).unwrap();
        assert_eq!(ints(&got), want, "{to}");
    }
    let big = Array::from_i64(DType::I32, &[3], &[300, -1, 1 << 24 | 1]).unwrap();
    let got = map2(big.clone(), big.clone(), |a, _| a.cast(DType::U8)).unwrap();
    assert_eq!(ints(&got), [44, 255, 1]);
    let got = map2(big.clone(), big, |a, _| a.cast(DType::F32)).unwrap();
    assert_eq!(floats(&got), [300.0, -1.0, 16_777_216.0]);
    // 1 + 2^-11 lies half way between two f16, 1 + 2^-8 half way between two bf16: ties go to even.
    let x = f32s(&[1.0 + 1.0 / 2048.0, 1.0 + 3.0 / 2048.0, 1.0 + 1.0 / 256.0]);
    let got = map2(x.clone(), x.clone(), |a, _| a.cast(DType::F16).cast(DType::F32)).unwrap();
    assert_eq!(floats(&got), [1.0, 1.0 + 2.0 / 1024.0, 1.0 + 1.0 / 256.0]);
    let got = map2(x.clone(), x, |a, _| a.cast(DType::BF16).cast(DType::F32)).unwrap();
    assert_eq!(floats(&got), [1.0, 1.0, 1.0]);
}

#[test]
fn sixteen_bit_floats_round_when_stored() {
    for (dtype, unit) in [(DType::F16, 2048.0f32), (DType::BF16, 256.0)] {
        let a = Array::from_f32(dtype, &[1], &[unit]).unwrap();
        let one = Array::from_f32(dtype, &[1], &[1.0]).unwrap();
        // unit + 1 is not representable, but (unit + 1) - unit is computed without rounding between.
        let got = map2(a.clone(), one.clone(), |a, b| a + b).unwrap();
        assert_eq!((got.dtype(), floats(&got)), (dtype, vec![f64::from(unit)]));
        let got = map2(a, one, |a, b| (a.clone() + b) - a).unwrap();
        assert_eq!(floats(&got), [1.0]);
    }
}

#[test]
fn logic_and_plain_select() {
    let bools = |v: &[i64]| Array::from_i64(DType::Bool, &[v.len()], v).unwrap();
    let (a, b) = (bools(&[0, 0, 1, 1]), bools(&[0, 1, 0, 1]));
    let logic = |op| ints(&map2(a.clone(), b.clone(), |a, b| Scalar::binary(op, a, b)).unwrap());
    assert_eq!(logic(ArithOp::And), [0, 0, 0, 1]);
    assert_eq!(logic(ArithOp::Or), [0, 1, 1, 1]);
    assert_eq!(logic(ArithOp::Add), [0, 1, 1, 1]);
    let got = map2(a.clone(), b.clone(), |a, _| Scalar::unary(MathOp::Not, a)).unwrap();
    assert_eq!(ints(&got), [1, 1, 0, 0]);
    let got =
        map2(a.clone(), b.clone(), |a, b| Scalar::select(a, b.cast(DType::F32), Scalar::f32(-1.0))).unwrap();
    assert_eq!(floats(&got), [-1.0, -1.0, 0.0, 1.0]);
    let wrong = map2(a, b, |a, _| Scalar::select(a, Scalar::f32(1.0), Scalar::Int(1, DType::I32)));
    assert!(matches!(wrong, Err(InterpError::IllTyped { .. })), "{wrong:?}");
}

#[test]
fn index_expressions_as_values() {
    let mut dag = Dag::new("iota");
    let a = dag.compute("a", &[("i", 6)], |v| Scalar::Index(v[0].clone() * 2 - 3, DType::F32));
    let b =
        dag.compute("b", &[("i", 6)], |v| Scalar::Index(v[0].floor_div(2) * 100 + v[0].rem(4), DType::U8));
    let c = dag.compute("c", &[("i", 6)], |v| {
        Scalar::predicate(Expr::int(2).le(&v[0]).and(&v[0].lt(&Expr::int(4))))
    });
    let d = dag.compute("d", &[("i", 6)], |v| {
        Scalar::Index(Expr::select(v[0].lt(&Expr::int(3)), v[0].clone() * -1, v[0].clone()), DType::I32)
    });
    for t in [a, b, c, d] {
        dag.mark_output(t);
    }
    let out = eval_dag(&dag, &[]).unwrap();
    assert_eq!(floats(&out[0].1), [-3.0, -1.0, 1.0, 3.0, 5.0, 7.0]);
    assert_eq!(ints(&out[1].1), [0, 1, 102, 103, 200, 201]);
    assert_eq!(ints(&out[2].1), [0, 0, 1, 1, 0, 0]);
    assert_eq!(ints(&out[3].1), [0, -1, -2, 3, 4, 5]);
}

#[test]
fn reductions_of_all_kinds() {
    let data = [3.0f32, -2.0, 0.5, 4.0, -1.0, 2.0];
    for (reducer, want) in [
        (Reducer::Sum, [1.5, 5.0]),
        (Reducer::Prod, [-3.0, -8.0]),
        (Reducer::Max, [3.0, 4.0]),
        (Reducer::Min, [-2.0, -1.0]),
    ] {
        for dtype in [DType::F32, DType::F16, DType::BF16] {
            let mut dag = Dag::new("reduce");
            let x = dag.input("x", dtype, &[2, 3]);
            let y = dag.reduce("y", &[("i", 2)], reducer, &[("k", 3)], |i, k| {
                read(x, &[i[0].clone(), k[0].clone()])
            });
            let z = dag.reduce("z", &[], reducer, &[("i", 2), ("k", 3)], |_, k| read(x, k));
            dag.mark_output(y);
            dag.mark_output(z);
            let out = eval_dag(&dag, &[(x, Array::from_f32(dtype, &[2, 3], &data).unwrap())]).unwrap();
            assert_eq!(floats(&out[0].1), want, "{reducer:?} {dtype}");
            let all = match reducer {
                Reducer::Sum => want[0] + want[1],
                Reducer::Prod => want[0] * want[1],
                Reducer::Max => 4.0,
                Reducer::Min => -2.0,
            };
            assert_eq!((out[1].1.shape(), floats(&out[1].1)), (&[][..], vec![all]));
        }
    }
}

#[test]
fn empty_reductions_and_integer_reductions() {
    for (reducer, float, int) in [
        (Reducer::Sum, 0.0, 0),
        (Reducer::Prod, 1.0, 1),
        (Reducer::Max, f64::NEG_INFINITY, -128),
        (Reducer::Min, f64::INFINITY, 127),
    ] {
        let mut dag = Dag::new("empty");
        let x = dag.reduce("x", &[("i", 2)], reducer, &[("k", 0)], |_, _| Scalar::f32(5.0));
        let y = dag.reduce("y", &[("i", 2)], reducer, &[("k", 0)], |_, _| Scalar::Int(5, DType::I8));
        dag.mark_output(x);
        dag.mark_output(y);
        let out = eval_dag(&dag, &[]).unwrap();
        assert_eq!(floats(&out[0].1), [float; 2]);
        assert_eq!(ints(&out[1].1), [int; 2]);
    }
    let mut dag = Dag::new("wrapping");
    let s = dag.reduce("s", &[("i", 1)], Reducer::Sum, &[("k", 3)], |_, _| Scalar::Int(100, DType::I8));
    let p = dag.reduce("p", &[("i", 1)], Reducer::Prod, &[("k", 1000)], |_, _| Scalar::Int(3, DType::U8));
    let b = dag.reduce("b", &[("i", 1)], Reducer::Sum, &[("k", 256)], |_, _| Scalar::Int(1, DType::Bool));
    for t in [s, p, b] {
        dag.mark_output(t);
    }
    let out = eval_dag(&dag, &[]).unwrap();
    assert_eq!(ints(&out[0].1), [44]);
    assert_eq!(ints(&out[1].1), [i64::from((0..1000).fold(1u8, |p, _| p.wrapping_mul(3)))]);
    assert_eq!(ints(&out[2].1), [1]);
}

/// Rows of any length, so that several blocks of lanes and every remainder occur.
#[test]
fn padding_guards_reads() {
    for n in [1, 2, 3, 255, 256, 257, 600] {
        let mut dag = Dag::new("pad");
        let x = dag.input("x", DType::F32, &[n]);
        let padded = dag.compute("p", &[("i", n + 3)], |v| {
            let inside = Expr::int(1).le(&v[0]).and(&v[0].lt(&Expr::int(n + 1)));
            Scalar::select(Scalar::predicate(inside), read(x, &[v[0].clone() - 1]), Scalar::f32(-9.0))
        });
        dag.mark_output(padded);
        let data = Array::random(DType::F32, &[n as usize], 7);
        let out = eval_dag(&dag, &[(x, data.clone())]).unwrap();
        let mut want = vec![-9.0];
        want.extend(floats(&data));
        want.extend([-9.0, -9.0]);
        assert_eq!(floats(&out[0].1), want, "n = {n}");
    }
}

#[test]
fn guards_nest_and_protect_division() {
    let mut dag = Dag::new("transposed");
    let x = dag.input("x", DType::I32, &[5]);
    // Only multiples of three that fall inside are read; other lanes hold indices far outside.
    let y = dag.compute("y", &[("i", 300)], |v| {
        let i = &v[0];
        let hit = i.rem(3).eq_expr(&Expr::int(0));
        let low = i.floor_div(3).lt(&Expr::int(5));
        let inner =
            Scalar::select(Scalar::predicate(low), read(x, &[i.floor_div(3)]), Scalar::Int(-1, DType::I32));
        Scalar::select(Scalar::predicate(hit), inner, Scalar::Int(0, DType::I32))
    });
    let z = dag.compute("z", &[("i", 4), ("j", 4)], |v| {
        let quotient = Scalar::Index(v[0].floor_div(&v[1]), DType::I32);
        Scalar::select(Scalar::predicate(Expr::int(0).lt(&v[1])), quotient, Scalar::Int(-7, DType::I32))
    });
    dag.mark_output(y);
    dag.mark_output(z);
    let out =
        eval_dag(&dag, &[(x, Array::from_i64(DType::I32, &[5], &[10, 11, 12, 13, 14]).unwrap())]).unwrap();
    let want: Vec<i64> = (0..300)
        .map(|i| {
            if i % 3 != 0 {
                0
            } else if i / 3 < 5 {
                10 + i / 3
            } else {
                -1
            }
        })
        .collect();
    assert_eq!(ints(&out[0].1), want);
    let want: Vec<i64> = (0..16).map(|p: i64| (p / 4).checked_div(p % 4).unwrap_or(-7)).collect();
    assert_eq!(ints(&out[1].1), want);
}

#[test]
fn out_of_bounds_reads_are_errors() {
    for (shift, index) in [(1, 4), (-2, -2)] {
        let mut dag = Dag::new("bad");
        let x = dag.input("x", DType::F32, &[2, 4]);
        let y = dag.compute("y", &[("i", 2), ("j", 4)], |v| read(x, &[v[0].clone(), v[1].clone() + shift]));
        dag.mark_output(y);
        let error = eval_dag(&dag, &[(x, Array::random(DType::F32, &[2, 4], 1))]).unwrap_err();
        let want = InterpError::OutOfBounds {
            place: "compute `y`".into(),
            tensor: "x".into(),
            index: vec![0, index],
            shape: vec![2, 4],
        };
        assert_eq!(error, want);
    }
    // A condition that is not an index expression does not guard.
    let mut dag = Dag::new("unguarded");
    let x = dag.input("x", DType::F32, &[4]);
    let y = dag.compute("y", &[("i", 5)], |v| {
        let c = Scalar::Index(v[0].clone(), DType::I32);
        let c = Scalar::binary(ArithOp::Lt, c, Scalar::Int(4, DType::I32));
        Scalar::select(c, read(x, v), Scalar::f32(0.0))
    });
    dag.mark_output(y);
    let error = eval_dag(&dag, &[(x, Array::zeros(DType::F32, &[4]))]).unwrap_err();
    assert!(error.to_string().contains("`x`[4]"), "{error}");
}

#[test]
fn bad_programs_are_errors() {
    let mut dag = Dag::new("bad");
    let x = dag.input("x", DType::F32, &[4]);
    let none = eval_dag(&dag, &[]).unwrap_err();
    assert_eq!(none, InterpError::Missing { name: "x".into() });
    let wrong = eval_dag(&dag, &[(x, Array::zeros(DType::F32, &[5]))]).unwrap_err();
    assert!(matches!(wrong, InterpError::WrongArgument { .. }), "{wrong}");
    let given = [(x, Array::zeros(DType::F32, &[4]))];
    let check = |body: Scalar| {
        let mut dag = dag.clone();
        let y = dag.compute("y", &[("i", 4)], |_| body);
        dag.mark_output(y);
        eval_dag(&dag, &given).unwrap_err()
    };
    let i = Expr::var("i");
    let e = check(read(x, &[i.clone() * &Expr::knob("t")]));
    assert!(matches!(&e, InterpError::Open { symbol, .. } if symbol.is_knob()), "{e}");
    let e = check(read(x, &[i.clone(), i.clone()]));
    assert!(matches!(e, InterpError::BadAccess { .. }), "{e}");
    let e = check(read(x, std::slice::from_ref(&i)) + Scalar::Int(1, DType::I32));
    assert!(matches!(e, InterpError::IllTyped { .. }), "{e}");
    let e = check(read(x, &[Expr::int(3).floor_div(&i)]));
    assert!(matches!(e, InterpError::Undefined { .. }), "{e}");
    let mut later = dag.clone();
    later.push_compute("z", dag_compute_reading(TensorId(1)));
    assert!(matches!(eval_dag(&later, &given), Err(InterpError::BadAccess { .. })));
}

fn dag_compute_reading(t: TensorId) -> talweg_ir::Compute {
    let body = Scalar::select(Scalar::predicate(Expr::bool(true)), Scalar::f32(0.0), read(t, &[]));
    talweg_ir::Compute { axes: vec![], reduction: None, body }
}

/// Straightforward loops in f64 for `C[i, j] = sum A * B` with any storage order.
fn matmul_by_hand(a: &[f32], b: &[f32], (m, n, k): (usize, usize, usize), ta: bool, tb: bool) -> Vec<f32> {
    let mut out = Vec::new();
    for i in 0..m {
        for j in 0..n {
            let term = |p: usize| {
                let x = if ta { a[p * m + i] } else { a[i * k + p] };
                let y = if tb { b[j * k + p] } else { b[p * n + j] };
                f64::from(x) * f64::from(y)
            };
            out.push((0..k).map(term).sum::<f64>() as f32);
        }
    }
    out
}

#[test]
fn products_in_every_storage_order() {
    let (m, n, k) = (5usize, 300usize, 13usize);
    for (ta, tb) in [(false, false), (true, false), (false, true), (true, true)] {
        let mut dag = Dag::new("matmul");
        let (am, bm) = ([m as i64, k as i64], [k as i64, n as i64]);
        let a = dag.input("a", DType::F32, &if ta { [am[1], am[0]] } else { am });
        let b = dag.constant("b", DType::F32, &if tb { [bm[1], bm[0]] } else { bm });
        let c =
            dag.reduce("c", &[("i", m as i64), ("j", n as i64)], Reducer::Sum, &[("k", k as i64)], |s, r| {
                let (i, j, k) = (s[0].clone(), s[1].clone(), r[0].clone());
                let x = read(a, &if ta { [k.clone(), i] } else { [i, k.clone()] });
                x * read(b, &if tb { [j, k] } else { [k, j] })
            });
        dag.mark_output(c);
        let shape =
            |id| dag.tensor(id).const_shape().unwrap().iter().map(|e| *e as usize).collect::<Vec<_>>();
        let x = Array::random(DType::F32, &shape(a), 1);
        let y = Array::random(DType::F32, &shape(b), 2);
        let want = matmul_by_hand(x.as_f32().unwrap(), y.as_f32().unwrap(), (m, n, k), ta, tb);
        let inputs = [(a, x), (b, y)];
        for threads in [1, 3] {
            let out = eval_dag_with(&dag, &inputs, &EvalOptions { threads }).unwrap();
            assert_eq!(out[0].1.as_f32().unwrap(), want, "{ta} {tb}");
        }
    }
}

#[test]
fn padded_convolution_in_both_layouts() {
    let (h, w, c, f) = (6i64, 7i64, 3i64, 4i64);
    for channels_last in [true, false] {
        let mut dag = Dag::new("conv");
        let order = |y: Expr, x: Expr, c: Expr| if channels_last { vec![y, x, c] } else { vec![c, y, x] };
        let x = dag.input("x", DType::F32, &if channels_last { [h, w, c] } else { [c, h, w] });
        let k = dag.constant("k", DType::F32, &[3, 3, c, f]);
        let axes =
            if channels_last { [("y", h), ("x", w), ("f", f)] } else { [("f", f), ("y", h), ("x", w)] };
        let y = dag.reduce("out", &axes, Reducer::Sum, &[("r", 3), ("s", 3), ("c", c)], |o, r| {
            let (oy, ox, of) = if channels_last { (&o[0], &o[1], &o[2]) } else { (&o[1], &o[2], &o[0]) };
            let (iy, ix) = (oy.clone() + &r[0] - 1, ox.clone() + &r[1] - 1);
            let zero = Expr::int(0);
            let rows = zero.le(&iy).and(&iy.lt(&Expr::int(h)));
            let inside = rows.and(&zero.le(&ix).and(&ix.lt(&Expr::int(w))));
            let pixel = read(x, &order(iy, ix, r[2].clone()));
            let padded = Scalar::select(Scalar::predicate(inside), pixel, Scalar::f32(0.0));
            padded * read(k, &[r[0].clone(), r[1].clone(), r[2].clone(), of.clone()])
        });
        dag.mark_output(y);
        let image = Array::random(DType::F32, &[h as usize, w as usize, c as usize], 3);
        let kernel = Array::random(DType::F32, &[3, 3, c as usize, f as usize], 4);
        let at =
            |y: i64, x: i64, ch: i64| if channels_last { (y * w + x) * c + ch } else { (ch * h + y) * w + x };
        let mut stored =
            Array::zeros(DType::F32, &if channels_last { [h, w, c] } else { [c, h, w] }.map(|e| e as usize));
        let mut want = vec![0.0f32; (h * w * f) as usize];
        for oy in 0..h {
            for ox in 0..w {
                for ch in 0..c {
                    stored.set_f64(at(oy, ox, ch) as usize, image.get_f64(((oy * w + ox) * c + ch) as usize));
                }
                for of in 0..f {
                    let mut sum = 0.0;
                    for (r, s, ch) in (0..9 * c).map(|p| (p / c / 3, p / c % 3, p % c)) {
                        let (iy, ix) = (oy + r - 1, ox + s - 1);
                        if (0..h).contains(&iy) && (0..w).contains(&ix) {
                            sum += image.get_f64(((iy * w + ix) * c + ch) as usize)
                                * kernel.get_f64((((r * 3 + s) * c + ch) * f + of) as usize);
                        }
                    }
                    let place = if channels_last { (oy * w + ox) * f + of } else { (of * h + oy) * w + ox };
                    want[place as usize] = sum as f32;
                }
            }
        }
        let out = eval_dag(&dag, &[(x, stored), (k, kernel)]).unwrap();
        assert_eq!(out[0].1.as_f32().unwrap(), want, "channels last: {channels_last}");
    }
}

#[test]
fn long_reductions_to_a_scalar() {
    let n = 1000usize;
    let mut dag = Dag::new("dot");
    let x = dag.input("x", DType::F32, &[n as i64]);
    let y = dag.input("y", DType::I32, &[n as i64]);
    let dot = dag.reduce("dot", &[], Reducer::Sum, &[("k", n as i64)], |_, k| {
        read(x, k) * read(y, k).cast(DType::F32)
    });
    let top = dag.reduce("top", &[], Reducer::Max, &[("k", n as i64)], |_, k| read(y, k));
    dag.mark_output(dot);
    dag.mark_output(top);
    let (a, b) = (Array::random(DType::F32, &[n], 5), Array::random(DType::I32, &[n], 6));
    let want: f64 = (0..n).map(|i| a.get_f64(i) * b.get_f64(i)).sum();
    let out = eval_dag(&dag, &[(x, a), (y, b)]).unwrap();
    assert_eq!(out[0].1.as_f32().unwrap(), [want as f32]);
    assert_eq!(ints(&out[1].1), [8]);
}

#[test]
fn results_do_not_depend_on_threads() {
    let mut dag = Dag::new("chain");
    let x = dag.input("x", DType::F32, &[64, 700]);
    let m = dag.reduce("m", &[("i", 64)], Reducer::Max, &[("k", 700)], |i, k| {
        read(x, &[i[0].clone(), k[0].clone()])
    });
    let e = dag.compute("e", &[("i", 64), ("j", 700)], |v| {
        Scalar::unary(MathOp::Exp, read(x, v) - read(m, &v[..1]))
    });
    let s = dag.reduce("s", &[("i", 64), ("j", 700)], Reducer::Sum, &[("k", 20)], |v, k| {
        read(e, &[v[0].clone(), k[0].clone()]) + read(e, v)
    });
    dag.mark_output(s);
    let inputs = [(x, Array::random(DType::F32, &[64, 700], 9))];
    let one = eval_dag_all(&dag, &inputs, &EvalOptions { threads: 1 }).unwrap();
    let many = eval_dag_all(&dag, &inputs, &EvalOptions { threads: 4 }).unwrap();
    assert_eq!(one.len(), 4);
    assert_eq!(one, many);
}

#[test]
fn integer_products_wrap_like_single_operations() {
    for (da, db, scale) in
        [(DType::I8, DType::I8, 15), (DType::U8, DType::I8, 15), (DType::I32, DType::I32, 99_991_111)]
    {
        let mut dag = Dag::new("matmul");
        let a = dag.input("a", da, &[3, 40]);
        let b = dag.input("b", db, &[40, 270]);
        let c = dag.reduce("c", &[("i", 3), ("j", 270)], Reducer::Sum, &[("k", 40)], |s, r| {
            let x = read(a, &[s[0].clone(), r[0].clone()]).cast(DType::I32);
            x * read(b, &[r[0].clone(), s[1].clone()]).cast(DType::I32)
        });
        dag.mark_output(c);
        let scaled = |dtype, shape: &[usize], seed| {
            let values = ints(&Array::random(dtype, shape, seed));
            Array::from_i64(dtype, shape, &values.iter().map(|v| v * scale).collect::<Vec<_>>()).unwrap()
        };
        let (x, y) = (scaled(da, &[3, 40], 1), scaled(db, &[40, 270], 2));
        let element = |i: usize, j: usize| {
            let term = |k: usize| (x.get_i64(i * 40 + k) as i32).wrapping_mul(y.get_i64(k * 270 + j) as i32);
            i64::from((0..40).fold(0i32, |sum, k| sum.wrapping_add(term(k))))
        };
        let want: Vec<i64> = (0..3 * 270).map(|at| element(at / 270, at % 270)).collect();
        let out = eval_dag(&dag, &[(a, x.clone()), (b, y.clone())]).unwrap();
        assert_eq!(ints(&out[0].1), want, "{da} {db}");
    }
}
