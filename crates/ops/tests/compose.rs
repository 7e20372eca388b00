//! Operators used as a library: broadcasting, reductions over any axes, composition, and typed errors.

use talweg_ir::interp::eval_dag;
use talweg_ir::verify::verify_dag;
use talweg_ir::{ArithOp, Array, DType, Dag, MathOp, TensorId};
use talweg_ops::chain::{apply, declare};
use talweg_ops::conv::conv;
use talweg_ops::elementwise::{binary, cast, unary};
use talweg_ops::pad::pad;
use talweg_ops::reduce::{ReduceOp, reduce};
use talweg_ops::softmax::softmax;
use talweg_ops::{Activation, ChainOp, OpError, Step, View, Window};

/// Evaluates one output on given integers.
fn evaluate(dag: &mut Dag, out: TensorId, given: &[(TensorId, Vec<i64>)]) -> Vec<i64> {
    dag.mark_output(out);
    assert_eq!(verify_dag(dag), Ok(()));
    let arrays: Vec<(TensorId, Array)> = given
        .iter()
        .map(|(id, values)| {
            let t = dag.tensor(*id);
            let shape: Vec<usize> = t.const_shape().expect("constant").iter().map(|e| *e as usize).collect();
            (*id, Array::from_i64(t.dtype, &shape, values).expect("as many values as elements"))
        })
        .collect();
    let result = eval_dag(dag, &arrays).expect("evaluates");
    let (_, array) = &result[0];
    (0..array.len()).map(|i| array.get_i64(i)).collect()
}

#[test]
fn binary_broadcasts_both_ways() {
    let mut dag = Dag::new("broadcast");
    let a = dag.input("A", DType::I32, &[2, 1]);
    let b = dag.input("B", DType::I32, &[3]);
    let y = binary(&mut dag, ArithOp::Sub, a, b).expect("broadcasts");
    assert_eq!(dag.tensor(y).const_shape(), Some(vec![2, 3]));
    let got = evaluate(&mut dag, y, &[(a, vec![10, 20]), (b, vec![1, 2, 3])]);
    assert_eq!(got, [9, 8, 7, 19, 18, 17]);
}

#[test]
fn comparisons_give_truth_values() {
    let mut dag = Dag::new("less");
    let a = dag.input("A", DType::F32, &[3]);
    let b = dag.input("B", DType::F32, &[1]);
    let y = binary(&mut dag, ArithOp::Lt, a, b).expect("compares");
    let z = unary(&mut dag, Activation::Math(MathOp::Not), y).expect("negates");
    let w = cast(&mut dag, z, DType::I32).expect("converts");
    assert_eq!(evaluate(&mut dag, w, &[(a, vec![1, 2, 3]), (b, vec![2])]), [0, 1, 1]);
}

#[test]
fn reductions_drop_or_keep_any_axes() {
    let values: Vec<i64> = (0..24).collect();
    for (over, keep, shape, expected) in [
        (vec![1], false, vec![2, 4], vec![12, 15, 18, 21, 48, 51, 54, 57]),
        (vec![0, 2], false, vec![3], vec![60, 92, 124]),
        (vec![2, 0], true, vec![1, 3, 1], vec![60, 92, 124]),
        (vec![0, 1, 2], false, vec![], vec![276]),
    ] {
        let mut dag = Dag::new("reduce");
        let x = dag.input("X", DType::I32, &[2, 3, 4]);
        let y = reduce(&mut dag, x, ReduceOp::Sum, &over, keep).expect("reduces");
        assert_eq!(dag.tensor(y).const_shape(), Some(shape));
        assert_eq!(evaluate(&mut dag, y, &[(x, values.clone())]), expected);
    }
    let mut dag = Dag::new("mean");
    let x = dag.input("X", DType::I32, &[2, 2]);
    let y = reduce(&mut dag, x, ReduceOp::Mean, &[1], false).expect("reduces");
    assert_eq!(evaluate(&mut dag, y, &[(x, vec![1, 2, -1, -2])]), [1, -1]);
}

#[test]
fn padding_surrounds() {
    let mut dag = Dag::new("pad");
    let x = dag.input("X", DType::I32, &[2, 2]);
    let none = pad(&mut dag, x, &[0, 0], &[0, 0], talweg_ir::Scalar::Int(0, DType::I32)).expect("nothing");
    assert_eq!(none, x);
    let y = pad(&mut dag, x, &[0, 1], &[1, 0], talweg_ir::Scalar::Int(-1, DType::I32)).expect("pads");
    assert_eq!(evaluate(&mut dag, y, &[(x, vec![1, 2, 3, 4])]), [-1, 1, 2, -1, 3, 4, -1, -1, -1]);
}

#[test]
fn operators_compose_with_fresh_names() {
    let mut dag = Dag::new("two layers");
    let x = dag.input("X", DType::I32, &[1, 4, 4, 2]);
    let w = dag.constant("W", DType::I32, &[3, 3, 2, 2]);
    let window = [Window::new(3).padding(1, 1); 2];
    let first = conv(&mut dag, x, w, &window, 1).expect("first");
    let second = conv(&mut dag, first.tensor, w, &window, 1).expect("second");
    let steps = declare(&mut dag, &second, &[ChainOp::Bias, ChainOp::Unary(Activation::Relu)], DType::I32);
    let y = apply(&mut dag, &second, &steps, DType::I32).expect("epilogue");
    dag.mark_output(y.tensor);
    assert_eq!(verify_dag(&dag), Ok(()));
    let names: Vec<&str> = dag.tensors.iter().map(|t| t.name.as_str()).collect();
    assert_eq!(names, ["X", "W", "X.pad", "conv", "conv.pad", "conv2", "bias", "Y"]);
}

#[test]
fn wrong_shapes_and_types_are_typed_errors() {
    let mut dag = Dag::new("errors");
    let image = dag.input("X", DType::F32, &[1, 8, 8, 4]);
    let ints = dag.input("I", DType::I32, &[3, 5]);
    let weights = dag.constant("W", DType::F32, &[3, 3, 5, 4]);
    let before = dag.clone();
    let window = [Window::new(3); 2];
    let text = |e: OpError| e.to_string();

    let e = conv(&mut dag, image, weights, &window, 1).expect_err("channels differ");
    assert!(text(e).contains("the number of input channels of a group is 5 in `W` but must be 4"));
    let e = conv(&mut dag, ints, weights, &window, 1).expect_err("rank");
    assert!(matches!(e, OpError::Rank { expected: 4, found: 2, .. }));
    let e = conv(&mut dag, image, weights, &[Window::new(0); 2], 0).expect_err("groups");
    assert!(matches!(e, OpError::Groups { groups: 0, .. }));
    let e = conv(&mut dag, image, weights, &[], 1).expect_err("no window");
    assert!(text(e).contains("number of spatial axes is 0 but must be from 1 to 3"));
    let e = softmax(&mut dag, ints).expect_err("integers");
    assert!(text(e).contains("softmax is not defined for i32; use f32, f16 or bf16"));
    let e = binary(&mut dag, ArithOp::Add, image, ints).expect_err("types differ");
    assert!(matches!(e, OpError::Type { dtype: DType::I32, .. }));
    let e = reduce(&mut dag, ints, ReduceOp::Sum, &[2], false).expect_err("no such axis");
    assert!(matches!(e, OpError::Range { found: 2, max: 1, .. }));
    let e = reduce(&mut dag, ints, ReduceOp::Sum, &[1, 1], false).expect_err("axis twice");
    assert!(text(e).contains("each may be named once"));
    let view = View::plain(&dag, ints).expect("a view");
    let step = Step { op: ChainOp::Bias, operand: None };
    let e = apply(&mut dag, &view, &[step], DType::I32).expect_err("no operand");
    assert_eq!(text(e), "step `bias` needs a second tensor; give it one");
    let step = Step { op: ChainOp::Bias, operand: Some(image) };
    let e = apply(&mut dag, &view, &[step], DType::I32).expect_err("no broadcast");
    assert!(matches!(e, OpError::Broadcast { .. }));
    assert_eq!(dag, before, "a refused operator leaves nothing behind");
}
