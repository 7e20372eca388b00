//! Violations that text cannot express: ids without a tensor, and shapes that disagree with the axes.

use talweg_expr::Expr;
use talweg_ir::{
    Buffer, DType, Dag, Nest, Pack, Role, Rule, Scalar, Stmt, TensorId, Violation, verify_dag, verify_nest,
};

fn rules(result: Result<(), Vec<Violation>>) -> Vec<Rule> {
    result.err().unwrap_or_default().iter().map(|v| v.rule).collect()
}

#[test]
fn ids_without_a_tensor_are_reported_and_printed() {
    let mut dag = Dag::new("d");
    let a = dag.input("A", DType::F32, &[4]);
    let b = dag.compute("B", &[("i", 4)], |v| Scalar::Read(a, vec![v[0].clone()]));
    dag.mark_output(b);
    assert_eq!(verify_dag(&dag), Ok(()));
    if let talweg_ir::Source::Compute(c) = &mut dag.tensors[1].source {
        c.body = Scalar::Read(TensorId(7), vec![Expr::var("i")]) + Scalar::f32(1.0);
    }
    assert_eq!(rules(verify_dag(&dag)), [Rule::Reference]);
    assert!(dag.to_string().contains("?7[i] + 1.0"));

    let nest = Nest {
        name: "n".into(),
        buffers: vec![Buffer {
            name: "C".into(),
            dtype: DType::F32,
            shape: vec![Expr::int(4)],
            role: Role::Output,
        }],
        packs: vec![Pack { packed: TensorId(3), source: TensorId(4), axes: vec![], indices: vec![] }],
        body: vec![
            Stmt::Alloc(TensorId(9)),
            Stmt::Store {
                buffer: TensorId(9),
                indices: vec![],
                value: Scalar::Read(TensorId(8), vec![]),
                update: None,
            },
        ],
    };
    assert_eq!(rules(verify_nest(&nest)), [Rule::Reference; 4]);
}

#[test]
fn a_shape_must_be_the_extents_of_the_axes() {
    let mut dag = Dag::new("d");
    let a = dag.compute("A", &[("i", 4)], |_| Scalar::f32(1.0));
    dag.mark_output(a);
    dag.tensors[0].shape = vec![Expr::int(5)];
    assert_eq!(rules(verify_dag(&dag)), [Rule::Axes]);
}

#[test]
fn constants_have_their_own_types() {
    for (value, legal) in [
        (Scalar::Int(1, DType::F32), false),
        (Scalar::Int(255, DType::U8), true),
        (Scalar::Int(-1, DType::U8), false),
        (Scalar::Int(2, DType::Bool), false),
        (Scalar::Float(f64::NEG_INFINITY, DType::BF16), true),
    ] {
        let mut dag = Dag::new("d");
        let a = dag.compute("A", &[("i", 4)], |_| value.clone());
        dag.mark_output(a);
        let expected: &[Rule] = if legal { &[] } else { &[Rule::Type] };
        assert_eq!(rules(verify_dag(&dag)), expected, "{value:?}");
    }
}
