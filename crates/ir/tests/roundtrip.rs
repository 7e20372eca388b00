//! Random dags and nests print to text that parses to the same thing.

use proptest::collection::vec;
use proptest::prelude::*;
use talweg_expr::{BinaryOp, Expr, Symbol, UnaryOp};
use talweg_ir::{
    ArithOp, Axis, Buffer, Compute, DType, Dag, Loop, LoopKind, MathOp, Nest, Pack, Reducer, Reduction, Role,
    Scalar, Source, Stmt, Tensor, TensorId, ThreadAxis,
};

/// Names that are taken for granted, and names that need care.
const NAMES: [&str; 12] =
    ["A", "B.p", "x_1", "conv/1", "max", "sum", "f32", "a \"b\" \\ \n\té", "cast.f16", "index.x", "in", "3d"];

fn int_expr() -> BoxedStrategy<Expr> {
    let leaf = prop_oneof![
        any::<i8>().prop_map(|v| Expr::int(i64::from(v))),
        any::<i64>().prop_map(Expr::int),
        prop::sample::select(vec!["i", "j", "k.inner", "max"]).prop_map(Expr::var),
        prop::sample::select(vec!["t0", "t1"]).prop_map(Expr::knob),
    ];
    let ops = [
        BinaryOp::Add,
        BinaryOp::Mul,
        BinaryOp::FloorDiv,
        BinaryOp::CeilDiv,
        BinaryOp::Mod,
        BinaryOp::Min,
        BinaryOp::Max,
    ];
    leaf.prop_recursive(3, 16, 2, move |inner| {
        (prop::sample::select(ops.to_vec()), inner.clone(), inner)
            .prop_map(|(op, a, b)| Expr::binary(op, a, b))
    })
    .boxed()
}

fn truth_expr() -> BoxedStrategy<Expr> {
    let compare = [BinaryOp::Lt, BinaryOp::Le, BinaryOp::Eq, BinaryOp::Ne];
    (prop::sample::select(compare.to_vec()), int_expr(), int_expr())
        .prop_map(|(op, a, b)| Expr::binary(op, a, b))
        .prop_recursive(2, 8, 2, |inner| {
            prop_oneof![
                (inner.clone(), inner.clone()).prop_map(|(a, b)| a.and(&b)),
                (inner.clone(), inner.clone()).prop_map(|(a, b)| a.or(&b)),
                inner.prop_map(|a| Expr::unary(UnaryOp::Not, a)),
            ]
        })
        .boxed()
}

fn dtype() -> impl Strategy<Value = DType> + Clone {
    prop::sample::select(DType::ALL.to_vec())
}

fn literal() -> BoxedStrategy<Scalar> {
    let special = prop::sample::select(vec![f64::INFINITY, f64::NEG_INFINITY, f64::NAN, -0.0, 5e-324, 1e300]);
    let float = prop_oneof![any::<f64>(), special, (-4i8..4).prop_map(f64::from)];
    prop_oneof![
        (float.clone(), prop::sample::select(vec![DType::F32, DType::F16, DType::BF16]))
            .prop_map(|(v, d)| Scalar::Float(v, d)),
        float.prop_map(Scalar::f32),
        (any::<i64>(), dtype().prop_filter("an integer type", |d| !d.is_float()))
            .prop_map(|(v, d)| Scalar::Int(v, d)),
        any::<bool>().prop_map(|v| Scalar::Int(i64::from(v), DType::Bool)),
    ]
    .boxed()
}

/// Values that read tensors with ids below `tensors`.
fn scalar(tensors: u32) -> BoxedStrategy<Scalar> {
    use ArithOp::*;
    use MathOp::{Abs, Ceil, Cos, Erf, Exp, Floor, Log, Neg, Not, Round, Rsqrt, Sigmoid, Sin, Sqrt, Tanh};
    let unary = [Neg, Neg, Abs, Exp, Log, Sqrt, Rsqrt, Tanh, Sigmoid, Erf, Sin, Cos, Floor, Ceil, Round, Not]
        .to_vec();
    let binary = [Add, Sub, Mul, Div, Rem, Max, Min, Pow, Lt, Le, Eq, Ne, And, Or].to_vec();
    let leaf = prop_oneof![
        literal(),
        (int_expr(), dtype()).prop_map(|(e, d)| Scalar::Index(e, d)),
        (truth_expr(), dtype()).prop_map(|(e, d)| Scalar::Index(e, d)),
        (0..tensors, vec(int_expr(), 0..3)).prop_map(|(t, idx)| Scalar::Read(TensorId(t), idx)),
    ];
    leaf.prop_recursive(5, 24, 3, move |inner| {
        prop_oneof![
            (prop::sample::select(unary.clone()), inner.clone()).prop_map(|(op, a)| Scalar::unary(op, a)),
            (prop::sample::select(binary.clone()), inner.clone(), inner.clone())
                .prop_map(|(op, a, b)| Scalar::binary(op, a, b)),
            (inner.clone(), inner.clone(), inner.clone()).prop_map(|(c, a, b)| Scalar::select(c, a, b)),
            (dtype(), inner).prop_map(|(d, a)| a.cast(d)),
        ]
    })
    .boxed()
}

fn reducer() -> impl Strategy<Value = Reducer> + Clone {
    prop::sample::select(vec![Reducer::Sum, Reducer::Prod, Reducer::Max, Reducer::Min])
}

fn axes(names: &'static [&'static str]) -> impl Strategy<Value = Vec<Axis>> {
    vec(int_expr(), 0..=names.len()).prop_map(move |extents| {
        extents.into_iter().zip(names).map(|(extent, n)| Axis { symbol: Symbol::var(n), extent }).collect()
    })
}

fn tensor(at: usize, count: u32) -> impl Strategy<Value = Tensor> {
    let source = prop_oneof![
        vec(int_expr(), 0..3).prop_map(|shape| (shape, Source::Input)),
        vec(int_expr(), 0..3).prop_map(|shape| (shape, Source::Const)),
        (axes(&["i", "j"]), prop::option::of((reducer(), axes(&["k.inner", "max"]))), scalar(count))
            .prop_map(|(axes, reduction, body)| {
                let shape = axes.iter().map(|a| a.extent.clone()).collect();
                let reduction = reduction.map(|(reducer, axes)| Reduction { reducer, axes });
                (shape, Source::Compute(Compute { axes, reduction, body }))
            }),
    ];
    (dtype(), source, any::<bool>()).prop_map(move |(dtype, (shape, source), output)| Tensor {
        name: NAMES[at].into(),
        dtype,
        shape,
        source,
        output,
    })
}

fn dag() -> impl Strategy<Value = Dag> {
    (1..6usize, prop::sample::select(NAMES.to_vec()))
        .prop_flat_map(|(count, name)| {
            let tensors: Vec<_> = (0..count).map(|at| tensor(at * 2, count as u32)).collect();
            (Just(name), tensors)
        })
        .prop_map(|(name, tensors)| Dag { name: name.into(), tensors })
}

fn stmt(count: u32) -> BoxedStrategy<Stmt> {
    let mut kinds = vec![LoopKind::Serial, LoopKind::Parallel, LoopKind::Vectorize, LoopKind::Unroll];
    kinds.extend(ThreadAxis::ALL.map(LoopKind::Bind));
    let leaf = prop_oneof![
        (0..count).prop_map(|b| Stmt::Alloc(TensorId(b))),
        (0..count, vec(int_expr(), 0..3), scalar(count), prop::option::of(reducer())).prop_map(
            |(b, indices, value, update)| Stmt::Store { buffer: TensorId(b), indices, value, update }
        ),
    ];
    leaf.prop_recursive(3, 10, 3, move |inner| {
        let body = vec(inner, 0..3);
        prop_oneof![
            (prop::sample::select(kinds.clone()), int_expr(), body.clone()).prop_map(
                |(kind, extent, body)| { Stmt::For(Loop { var: Symbol::var("i"), extent, kind, body }) }
            ),
            (truth_expr(), body.clone(), body).prop_map(|(condition, then, otherwise)| Stmt::If {
                condition,
                then,
                otherwise
            }),
        ]
    })
    .boxed()
}

fn nest() -> impl Strategy<Value = Nest> {
    let roles = vec![Role::Input, Role::Const, Role::Packed, Role::Output, Role::Temp, Role::Local];
    let buffers = vec((dtype(), vec(int_expr(), 0..3), prop::sample::select(roles)), 1..NAMES.len());
    buffers
        .prop_flat_map(|buffers| {
            let count = buffers.len() as u32;
            let packs = vec((0..count, 0..count, 0..3usize, vec(int_expr(), 0..3)), 0..3);
            (Just(buffers), packs, vec(stmt(count), 0..4))
        })
        .prop_map(|(buffers, packs, body)| Nest {
            name: "n".into(),
            buffers: buffers
                .into_iter()
                .zip(NAMES)
                .map(|((dtype, shape, role), name)| Buffer { name: name.into(), dtype, shape, role })
                .collect(),
            packs: packs
                .into_iter()
                .map(|(packed, source, rank, indices)| Pack {
                    packed: TensorId(packed),
                    source: TensorId(source),
                    axes: ["a", "b.0", "min"][..rank].iter().map(Symbol::var).collect(),
                    indices,
                })
                .collect(),
            body,
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    // Structures are compared by their debug text, in which a NaN equals itself and -0.0 is not 0.0.
    #[test]
    fn dags(dag in dag()) {
        let text = dag.to_string();
        let back = Dag::parse(&text).map_err(|e| TestCaseError::fail(format!("{e}\n{text}")))?;
        prop_assert_eq!(format!("{dag:?}"), format!("{back:?}"));
        prop_assert_eq!(text, back.to_string());
    }

    #[test]
    fn nests(nest in nest()) {
        let text = nest.to_string();
        let back = Nest::parse(&text).map_err(|e| TestCaseError::fail(format!("{e}\n{text}")))?;
        prop_assert_eq!(format!("{nest:?}"), format!("{back:?}"));
        prop_assert_eq!(text, back.to_string());
    }

    #[test]
    fn any_text_is_parsed_or_refused(
        words in vec(
            prop::sample::select(vec![
                "dag", "nest", "d", "{", "}", "input", "output", "compute", "A", ":", "f32", "[", "]", "i", "=",
                "4", "1.0", "sum", "max", "(", ")", ",", "-", "+", "for", "in", "0", "..", "if", "else", "alloc",
                "guard", "select", "$t", "\"", "cast.f16", "§",
            ]),
            0..40,
        )
    ) {
        let text = words.join(" ");
        for (ok, printed) in [
            (Dag::parse(&text).is_ok(), Dag::parse(&text).map(|d| d.to_string())),
            (Nest::parse(&text).is_ok(), Nest::parse(&text).map(|n| n.to_string())),
        ] {
            match printed {
                Ok(_) => prop_assert!(ok),
                Err(e) => prop_assert!(e.line >= 1 && e.column >= 1 && !e.message.is_empty()),
            }
        }
    }
}

#[test]
fn deep_nesting_is_refused_and_does_not_overflow() {
    let deep = |open: &str, close: &str| {
        format!("dag d {{ output B: f32[] = {}1.0{} }}", open.repeat(100_000), close.repeat(100_000))
    };
    for text in [deep("(", ")"), deep("exp(", ")"), deep("-", ""), deep("1.0 + ", "")] {
        let error = Dag::parse(&text).expect_err("too deep");
        assert!(error.message.contains("nested deeper"), "{error}");
    }
    let loops = format!("nest n {{ {} }}", "for i in 0..2 {".repeat(100_000));
    let error = Nest::parse(&loops).expect_err("too deep");
    assert!(error.message.contains("nested deeper"), "{error}");
}
