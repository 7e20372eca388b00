//! Running loop nests: results, and every fault they can have.

use std::slice::from_ref;

use talweg_expr::{Expr, Symbol};
use talweg_ir::{
    ArithOp, Array, Buffer, DType, Dag, InterpError, Loop, LoopKind, MathOp, Nest, Pack, Reducer, Role,
    RunOptions, Scalar, Stmt, TensorId, eval_dag, run_nest, run_nest_with,
};

fn buffer(name: &str, dtype: DType, shape: &[i64], role: Role) -> Buffer {
    Buffer { name: name.into(), dtype, shape: shape.iter().map(|e| Expr::int(*e)).collect(), role }
}

fn nest(buffers: Vec<Buffer>, body: Vec<Stmt>) -> Nest {
    Nest { name: "test".into(), buffers, packs: vec![], body }
}

fn each(kind: LoopKind, var: &str, extent: impl Into<Expr>, body: Vec<Stmt>) -> Stmt {
    Stmt::For(Loop { var: Symbol::var(var), extent: extent.into(), kind, body })
}

fn serial(var: &str, extent: impl Into<Expr>, body: Vec<Stmt>) -> Stmt {
    each(LoopKind::Serial, var, extent, body)
}

fn parallel(var: &str, extent: i64, body: Vec<Stmt>) -> Stmt {
    each(LoopKind::Parallel, var, extent, body)
}

fn v(name: &str) -> Expr {
    Expr::var(name)
}

fn read(b: u32, indices: &[Expr]) -> Scalar {
    Scalar::Read(TensorId(b), indices.to_vec())
}

fn store(b: u32, indices: &[Expr], value: Scalar) -> Stmt {
    Stmt::Store { buffer: TensorId(b), indices: indices.to_vec(), value, update: None }
}

fn update(b: u32, indices: &[Expr], reducer: Reducer, value: Scalar) -> Stmt {
    Stmt::Store { buffer: TensorId(b), indices: indices.to_vec(), value, update: Some(reducer) }
}

fn zeros(b: u32, dtype: DType, shape: &[usize]) -> (TensorId, Array) {
    (TensorId(b), Array::zeros(dtype, shape))
}

fn floats(a: &Array) -> Vec<f64> {
    (0..a.len()).map(|at| a.get_f64(at)).collect()
}

fn ints(a: &Array) -> Vec<i64> {
    (0..a.len()).map(|at| a.get_i64(at)).collect()
}

/// A tiled matmul with a tail, a local accumulator tile and packed weights, against the tensor expression.
#[test]
fn tiled_matmul_equals_its_expression() {
    let (m, n, k) = (5i64, 7i64, 6i64);
    let mut dag = Dag::new("matmul");
    let a = dag.input("a", DType::F32, &[m, k]);
    let b = dag.constant("b", DType::F32, &[k, n]);
    let c = dag.reduce("c", &[("i", m), ("j", n)], Reducer::Sum, &[("k", k)], |s, r| {
        Scalar::Read(a, vec![s[0].clone(), r[0].clone()]) * Scalar::Read(b, vec![r[0].clone(), s[1].clone()])
    });
    dag.mark_output(c);
    let (x, y) = (Array::random(DType::F32, &[5, 6], 1), Array::random(DType::F32, &[6, 7], 2));
    let want = eval_dag(&dag, &[(a, x.clone()), (b, y.clone())]).unwrap().remove(0).1;

    let rows = Expr::min(&(Expr::int(m) - v("io") * 2), 2);
    let cols = Expr::min(&(Expr::int(n) - v("jo") * 4), 4);
    let tile = [v("ii"), v("ji")];
    let point = [v("io") * 2 + v("ii"), v("jo") * 4 + v("ji")];
    let product = read(0, &[point[0].clone(), v("k")]) * read(2, &[v("jo"), v("k"), v("ji")]);
    let unroll =
        |body| each(LoopKind::Unroll, "ii", rows.clone(), vec![each(LoopKind::Vectorize, "ji", 4, body)]);
    let back = serial("ji", cols, vec![store(3, &point, read(4, &tile))]);
    let body = vec![
        Stmt::Alloc(TensorId(4)),
        unroll(vec![store(4, &tile, Scalar::f32(0.0))]),
        serial("k", k, vec![unroll(vec![update(4, &tile, Reducer::Sum, product)])]),
        serial("ii", rows.clone(), vec![back]),
    ];
    let axes: Vec<Symbol> = ["p", "q", "r"].map(Symbol::var).to_vec();
    let mut program = nest(
        vec![
            buffer("a", DType::F32, &[m, k], Role::Input),
            buffer("b", DType::F32, &[k, n], Role::Const),
            buffer("packed", DType::F32, &[2, k, 4], Role::Packed),
            buffer("c", DType::F32, &[m, n], Role::Output),
            buffer("tile", DType::F32, &[2, 4], Role::Local),
        ],
        vec![parallel("io", 3, vec![serial("jo", 2, body)])],
    );
    program.packs = vec![Pack {
        packed: TensorId(2),
        source: TensorId(1),
        axes,
        indices: vec![v("q"), v("p") * 4 + v("r")],
    }];
    let mut args = vec![(TensorId(0), x.clone()), (TensorId(1), y), zeros(3, DType::F32, &[5, 7])];
    run_nest(&program, &mut args).unwrap();
    let difference = talweg_ir::compare(&want, &args[2].1);
    assert!(difference.within(1e-6), "{difference}");
    assert_eq!(args[0].1, x);

    // With the packed array instead of the constant, the result is the same.
    let packed = talweg_ir::run_pack(&program, &program.packs[0], &args[1].1).unwrap();
    let mut again = vec![(TensorId(0), x), (TensorId(2), packed), zeros(3, DType::F32, &[5, 7])];
    run_nest(&program, &mut again).unwrap();
    assert_eq!(again[2].1, args[2].1);
}

#[test]
fn updates_round_at_every_store() {
    // 2048 + 1 = 2048 in f16, so adding ones one by one gets stuck.
    let ones = serial("i", 10, vec![update(0, &[], Reducer::Sum, Scalar::Float(1.0, DType::F16))]);
    let program = nest(
        vec![buffer("o", DType::F16, &[], Role::Output)],
        vec![store(0, &[], Scalar::Float(2048.0, DType::F16)), ones],
    );
    let mut args = [zeros(0, DType::F16, &[])];
    run_nest(&program, &mut args).unwrap();
    assert_eq!(floats(&args[0].1), [2048.0]);
}

#[test]
fn updates_use_every_reducer_and_wrap() {
    for (reducer, want) in [(Reducer::Sum, -56), (Reducer::Prod, 16), (Reducer::Max, 100), (Reducer::Min, 99)]
    {
        let value = if reducer == Reducer::Min { 99 } else { 100 };
        let program = nest(
            vec![buffer("o", DType::I8, &[], Role::Output)],
            vec![
                store(0, &[], Scalar::Int(100, DType::I8)),
                update(0, &[], reducer, Scalar::Int(value, DType::I8)),
            ],
        );
        let mut args = [zeros(0, DType::I8, &[])];
        run_nest(&program, &mut args).unwrap();
        assert_eq!(ints(&args[0].1), [want], "{reducer:?}");
    }
}

#[test]
fn conditions_selects_and_operations() {
    let i = v("i");
    let clipped = Scalar::select(
        Scalar::predicate(i.lt(&Expr::int(3))),
        read(0, from_ref(&i)),
        Scalar::unary(MathOp::Sqrt, Scalar::f32(16.0)),
    );
    let positive = Scalar::binary(ArithOp::Lt, Scalar::f32(0.0), clipped.clone());
    let program = nest(
        vec![
            buffer("x", DType::F32, &[3], Role::Input),
            buffer("y", DType::F32, &[5], Role::Output),
            buffer("z", DType::I32, &[5], Role::Output),
        ],
        vec![serial(
            "i",
            5,
            vec![
                store(1, from_ref(&i), clipped),
                Stmt::If {
                    condition: i.rem(2).eq_expr(&Expr::int(0)),
                    then: vec![store(2, from_ref(&i), positive.cast(DType::I32))],
                    otherwise: vec![store(2, from_ref(&i), Scalar::Index(i.clone() * -1, DType::I32))],
                },
            ],
        )],
    );
    let x = Array::from_f32(DType::F32, &[3], &[-1.0, 2.0, 3.0]).unwrap();
    let mut args = [(TensorId(0), x), zeros(1, DType::F32, &[5]), zeros(2, DType::I32, &[5])];
    run_nest(&program, &mut args).unwrap();
    assert_eq!(floats(&args[1].1), [-1.0, 2.0, 3.0, 4.0, 4.0]);
    assert_eq!(ints(&args[2].1), [0, -1, 1, -3, 1]);
}

#[test]
fn loops_without_iterations_do_nothing() {
    let body = vec![store(0, &[Expr::int(99)], Scalar::f32(0.0))];
    let program = nest(
        vec![buffer("o", DType::F32, &[1], Role::Output)],
        vec![
            store(0, &[Expr::int(0)], Scalar::f32(1.0)),
            serial("i", 3, vec![serial("j", v("i") - 2, body.clone()), serial("l", 0, body)]),
        ],
    );
    let mut args = [zeros(0, DType::F32, &[1])];
    run_nest(&program, &mut args).unwrap();
    assert_eq!(floats(&args[0].1), [1.0]);
}

#[test]
fn uninitialised_elements_are_found() {
    for role in [Role::Local, Role::Temp, Role::Output] {
        let mut body = vec![
            serial("i", 3, vec![store(1, &[v("i")], Scalar::f32(1.0))]),
            serial("j", 4, vec![store(0, &[v("j")], read(1, &[v("j")]))]),
        ];
        if role == Role::Local {
            body.insert(0, Stmt::Alloc(TensorId(1)));
        }
        let program = nest(
            vec![buffer("o", DType::F32, &[4], Role::Output), buffer("t", DType::F32, &[4], role)],
            body,
        );
        let mut args = vec![zeros(0, DType::F32, &[4])];
        if role == Role::Output {
            args.push(zeros(1, DType::F32, &[4]));
        }
        let want =
            InterpError::Uninitialised { place: "store to `o`".into(), buffer: "t".into(), index: vec![3] };
        assert_eq!(run_nest(&program, &mut args), Err(want), "{role:?}");
        // Without checks, the poison shows.
        run_nest_with(&program, &mut args, &RunOptions { check: false }).unwrap();
        assert!(args[0].1.get_f64(3).is_nan());
    }
}

#[test]
fn an_update_reads_what_it_updates() {
    let program = nest(
        vec![buffer("o", DType::F32, &[1], Role::Output)],
        vec![update(0, &[Expr::int(0)], Reducer::Sum, Scalar::f32(1.0))],
    );
    let error = run_nest(&program, &mut [zeros(0, DType::F32, &[1])]).unwrap_err();
    assert!(error.to_string().contains("read of uninitialised element `o`[0]"), "{error}");
}

#[test]
fn locals_begin_undefined_and_end_with_their_block() {
    let local = |body: Vec<Stmt>| {
        nest(
            vec![buffer("o", DType::I32, &[4], Role::Output), buffer("l", DType::I32, &[1], Role::Local)],
            body,
        )
    };
    let zero = Expr::int(0);
    let first = Stmt::If {
        condition: v("i").eq_expr(&zero),
        then: vec![store(1, from_ref(&zero), Scalar::Int(1, DType::I32))],
        otherwise: vec![],
    };
    let copy = store(0, &[v("i")], read(1, from_ref(&zero)));
    let args = || [zeros(0, DType::I32, &[4])];
    // Written in the first iteration only; each iteration has a new buffer.
    let program = local(vec![serial("i", 4, vec![Stmt::Alloc(TensorId(1)), first.clone(), copy.clone()])]);
    assert!(matches!(run_nest(&program, &mut args()), Err(InterpError::Uninitialised { .. })));
    // Allocated once around the loop, it keeps its value.
    let program = local(vec![Stmt::Alloc(TensorId(1)), serial("i", 4, vec![first.clone(), copy.clone()])]);
    assert_eq!(run_nest(&program, &mut args()), Ok(()));
    // Used after its block, or never allocated.
    let program = local(vec![
        serial("j", 1, vec![Stmt::Alloc(TensorId(1)), store(1, from_ref(&zero), Scalar::Int(1, DType::I32))]),
        serial("i", 4, vec![copy]),
    ]);
    assert!(matches!(run_nest(&program, &mut args()), Err(InterpError::NotAllocated { .. })));
    assert!(matches!(run_nest(&local(vec![first]), &mut args()), Err(InterpError::Open { .. })));
}

#[test]
fn races_are_found() {
    let int = |v| Scalar::Int(v, DType::I32);
    let run = |body: Vec<Stmt>| {
        let program = nest(
            vec![buffer("o", DType::I32, &[8], Role::Output), buffer("t", DType::I32, &[8], Role::Temp)],
            body,
        );
        run_nest(&program, &mut [zeros(0, DType::I32, &[8])])
    };
    let fill = serial("z", 8, vec![store(1, &[v("z")], int(0))]);
    let (i, j) = (v("i"), v("j"));

    // Two iterations write one element.
    let error = run(vec![parallel("i", 4, vec![store(0, &[i.floor_div(2)], int(1))])]).unwrap_err();
    let text = "store to `o`: race on `o`[0]: written by iteration 0 and written by iteration 1 of parallel loop `i`";
    assert!(error.to_string().starts_with(text), "{error}");

    // One reads what another wrote, in either order.
    let shifted = |d: i64| {
        let body =
            vec![store(1, &[i.clone() + 1], int(1)), store(0, from_ref(&i), read(1, &[i.clone() + 1 + d]))];
        run(vec![fill.clone(), parallel("i", 6, body)])
    };
    assert_eq!(shifted(0), Ok(()));
    for (d, first, second) in [(-1, "written", "read"), (1, "read", "written")] {
        match shifted(d) {
            Err(InterpError::Race(r)) => assert_eq!((r.first, r.second, r.var.name()), (first, second, "i")),
            other => panic!("{other:?}"),
        }
    }

    // A reader other than the last one is remembered.
    let readers = vec![store(0, from_ref(&i), read(1, &[Expr::int(7)]))];
    let last = Stmt::If {
        condition: i.eq_expr(&Expr::int(3)),
        then: vec![store(1, &[Expr::int(7)], int(1))],
        otherwise: vec![],
    };
    assert_eq!(run(vec![fill.clone(), parallel("i", 4, readers.clone())]), Ok(()));
    let all = [readers, vec![last]].concat();
    assert!(matches!(run(vec![fill.clone(), parallel("i", 4, all)]), Err(InterpError::Race(_))));

    // Two executions of a loop do not race with each other, nor do nested iterations of one outer iteration with
    // what that iteration does before and after.
    let inner = parallel("j", 2, vec![update(1, &[i.clone() * 2 + &j], Reducer::Sum, int(1))]);
    let after = store(0, from_ref(&i), read(1, &[i.clone() * 2 + 1]));
    let before = store(1, &[i.clone() * 2], int(5));
    assert_eq!(run(vec![fill.clone(), parallel("i", 4, vec![before, inner.clone(), after.clone()])]), Ok(()));
    let again = parallel("i", 4, vec![inner.clone(), after]);
    assert_eq!(run(vec![fill.clone(), again.clone(), again]), Ok(()));

    // Nested iterations of different outer iterations do.
    let clash = parallel("j", 2, vec![store(1, &[i.clone() + &j], int(1))]);
    match run(vec![fill, parallel("i", 4, vec![clash])]) {
        Err(InterpError::Race(r)) => {
            assert_eq!((r.var.name(), r.first_iteration, r.second_iteration), ("i", 0, 1))
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn bad_programs_are_errors() {
    let run = |body: Vec<Stmt>| {
        let buffers = vec![
            buffer("x", DType::F32, &[2, 3], Role::Input),
            buffer("o", DType::F32, &[2, 3], Role::Output),
        ];
        let mut args = [(TensorId(0), Array::random(DType::F32, &[2, 3], 1)), zeros(1, DType::F32, &[2, 3])];
        let result = run_nest(&nest(buffers, body), &mut args);
        assert_eq!(args[0].1, Array::random(DType::F32, &[2, 3], 1), "arguments come back");
        result.unwrap_err()
    };
    let (zero, i) = (Expr::int(0), v("i"));
    let e = run(vec![serial("i", 4, vec![store(1, &[zero.clone(), i.clone()], Scalar::f32(0.0))])]);
    let want = InterpError::OutOfBounds {
        place: "store to `o`".into(),
        tensor: "o".into(),
        index: vec![0, 3],
        shape: vec![2, 3],
    };
    assert_eq!(e, want);
    let e = run(vec![store(1, &[zero.clone(), zero.clone()], read(0, &[Expr::int(-1), zero.clone()]))]);
    assert!(e.to_string().contains("`x`[-1, 0]"), "{e}");
    let e = run(vec![store(0, &[zero.clone(), zero.clone()], Scalar::f32(0.0))]);
    assert!(matches!(e, InterpError::ReadOnly { .. }), "{e}");
    let e = run(vec![serial("i", Expr::knob("t"), vec![])]);
    assert!(matches!(e, InterpError::Open { .. }), "{e}");
    let e = run(vec![serial("i", 2, vec![]), store(1, &[zero.clone(), i.clone()], Scalar::f32(0.0))]);
    assert!(matches!(e, InterpError::Open { .. }), "{e}");
    let e = run(vec![store(1, from_ref(&zero), Scalar::f32(0.0))]);
    assert!(matches!(e, InterpError::BadAccess { .. }), "{e}");
    let e = run(vec![store(1, &[zero.clone(), zero.clone()], Scalar::Int(0, DType::I32))]);
    assert!(matches!(e, InterpError::IllTyped { .. }), "{e}");
    let e = run(vec![store(9, &[], Scalar::f32(0.0))]);
    assert!(matches!(e, InterpError::BadAccess { .. }), "{e}");
    let e = run(vec![Stmt::Alloc(TensorId(1))]);
    assert!(matches!(e, InterpError::BadAccess { .. }), "{e}");
    let quotient = Expr::int(1).floor_div(&i);
    let e = run(vec![serial("i", 2, vec![store(1, &[zero.clone(), quotient], Scalar::f32(0.0))])]);
    assert!(matches!(e, InterpError::Undefined { .. }), "{e}");
}

#[test]
fn bad_arguments_are_errors() {
    let program = nest(
        vec![buffer("o", DType::F32, &[2], Role::Output), buffer("t", DType::F32, &[2], Role::Temp)],
        vec![],
    );
    assert_eq!(run_nest(&program, &mut []), Err(InterpError::Missing { name: "o".into() }));
    let e = run_nest(&program, &mut [zeros(0, DType::F32, &[3])]).unwrap_err();
    assert!(matches!(e, InterpError::WrongArgument { .. }), "{e}");
    let twice = &mut [zeros(0, DType::F32, &[2]), zeros(0, DType::F32, &[2])];
    assert!(matches!(run_nest(&program, twice), Err(InterpError::BadAccess { .. })));
    let temp = &mut [zeros(0, DType::F32, &[2]), zeros(1, DType::F32, &[2])];
    assert!(matches!(run_nest(&program, temp), Err(InterpError::BadAccess { .. })));
}
