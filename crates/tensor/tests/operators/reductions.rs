//! Reductions, operators along an axis and normalisations.

use std::f64::consts::LN_2;

use talweg_tensor::op::{ArgReduce, Reduce, ReduceKind};
use talweg_tensor::{ElementType, Op, Tensor};

use crate::{all, assert_close, one, try_one, wave};

fn reduce(kind: ReduceKind, axes: &[usize], keep: bool, x: &Tensor) -> Tensor {
    one(Op::Reduce(Reduce { kind, axes: axes.to_vec(), keep }), &[x])
}

#[test]
fn every_kind() {
    let x = Tensor::new([2, 3], vec![1.0f32, -2.0, 3.0, 0.5, 4.0, 2.0]);
    let check = |kind, expected: [f64; 2]| assert_close(&reduce(kind, &[1], false, &x), &[2], &expected);
    check(ReduceKind::Sum, [2.0, 6.5]);
    check(ReduceKind::Mean, [0.666667, 2.166667]);
    check(ReduceKind::Prod, [-6.0, 4.0]);
    check(ReduceKind::Max, [3.0, 4.0]);
    check(ReduceKind::Min, [-2.0, 0.5]);
    check(ReduceKind::L1, [6.0, 6.5]);
    check(ReduceKind::L2, [3.741657, 4.5]);
    check(ReduceKind::SumSquare, [14.0, 20.25]);
    check(ReduceKind::LogSum, [LN_2, 1.871802]);
    check(ReduceKind::LogSumExp, [3.132845, 4.153178]);
}

#[test]
fn axes_in_the_middle_and_none() {
    let x = Tensor::new([2, 2, 2], (0..8i32).collect());
    let y = reduce(ReduceKind::Sum, &[1], true, &x);
    assert_eq!((y.shape(), y.to_i64()), (&[2, 1, 2][..], vec![2, 4, 10, 12]));
    assert_eq!(reduce(ReduceKind::Max, &[0, 2], false, &x).to_i64(), [5, 7]);
    assert_eq!(reduce(ReduceKind::SumSquare, &[], false, &x).to_i64(), [0, 1, 4, 9, 16, 25, 36, 49]);
}

#[test]
fn integers_and_truth_values() {
    let x = Tensor::new([2], vec![i64::MAX, i64::MAX - 2]);
    assert_eq!(reduce(ReduceKind::Mean, &[0], false, &x).to_i64(), [i64::MAX - 1]);
    assert_eq!(reduce(ReduceKind::Sum, &[0], false, &x).to_i64(), [-4]);
    let x = Tensor::new([2], vec![-5i8, 2]);
    assert_eq!(reduce(ReduceKind::Mean, &[0], false, &x).to_i64(), [-1]);
    let truths = Tensor::from_bools([2], [true, false]);
    assert_eq!(reduce(ReduceKind::Max, &[0], false, &truths).to_i64(), [1]);
    assert_eq!(reduce(ReduceKind::Min, &[0], false, &truths).to_i64(), [0]);
    let nothing = Tensor::from_bools([0], []);
    assert_eq!(reduce(ReduceKind::Min, &[0], false, &nothing).to_i64(), [1]);
}

#[test]
fn nothing_reduces_to_the_neutral_element() {
    let x = Tensor::new([2, 0], Vec::<f32>::new());
    assert_eq!(reduce(ReduceKind::Sum, &[1], false, &x).to_f64(), [0.0; 2]);
    assert_eq!(reduce(ReduceKind::Prod, &[1], false, &x).to_f64(), [1.0; 2]);
    assert_eq!(reduce(ReduceKind::Max, &[1], false, &x).to_f64(), [f64::NEG_INFINITY; 2]);
}

#[test]
fn large_exponents_do_not_overflow() {
    let x = Tensor::new([2], vec![1000.0f32, 1000.0]);
    assert_close(&reduce(ReduceKind::LogSumExp, &[0], false, &x), &[], &[1000.693147]);
    assert_close(&one(Op::Softmax { axis: 0, log: false }, &[&x]), &[2], &[0.5, 0.5]);
    assert_close(&one(Op::Softmax { axis: 0, log: true }, &[&x]), &[2], &[-LN_2, -LN_2]);
}

#[test]
fn softmax_along_an_axis_that_is_not_the_last() {
    let x = Tensor::new([2, 2], vec![0.0f32, 1.0, 1.0, 1.0]);
    assert_close(&one(Op::Softmax { axis: 0, log: false }, &[&x]), &[2, 2], &[0.268941, 0.5, 0.731059, 0.5]);
    assert_eq!(one(Op::Hardmax { axis: 0 }, &[&x]).to_f64(), [0.0, 1.0, 1.0, 0.0]);
}

#[test]
fn positions_of_extremes() {
    let x = Tensor::new([2, 3], vec![3i32, 1, 3, 0, 0, 2]);
    let arg = |largest, axis, keep, last| one(Op::ArgReduce(ArgReduce { largest, axis, keep, last }), &[&x]);
    assert_eq!(arg(true, 1, false, false).to_i64(), [0, 2]);
    assert_eq!(arg(true, 1, true, true).to_i64(), [2, 2]);
    assert_eq!(arg(false, 1, false, false).to_i64(), [1, 0]);
    assert_eq!(arg(false, 1, false, true).to_i64(), [1, 1]);
    assert_eq!(arg(true, 0, false, false).to_i64(), [0, 0, 0]);
    assert_eq!(arg(true, 1, true, false).shape(), [2, 1]);
}

#[test]
fn the_largest_few() {
    let x = Tensor::new([2, 4], vec![1.0f32, 4.0, 4.0, 2.0, -1.0, f32::NAN, 0.0, -3.0]);
    let y = all(Op::TopK { axis: 1, k: 2, largest: true }, &[&x]).unwrap();
    assert_eq!(y[1].to_i64(), [1, 2, 1, 2]);
    assert_eq!(y[0].to_f64()[..2], [4.0, 4.0]);
    let y = all(Op::TopK { axis: 1, k: 3, largest: false }, &[&x]).unwrap();
    assert_eq!(y[1].to_i64(), [0, 3, 1, 3, 0, 2]);
    let y = all(Op::TopK { axis: 0, k: 1, largest: false }, &[&x]).unwrap();
    assert_eq!((y[1].shape(), y[1].to_i64()), (&[1, 4][..], vec![1, 0, 1, 1]));
    let error = try_one(Op::TopK { axis: 0, k: 3, largest: true }, &[&x]).unwrap_err();
    assert!(error.to_string().contains("3 elements or more on axis 0"), "{error}");
}

#[test]
fn running_sums() {
    let x = Tensor::new([2, 3], vec![1i32, 2, 3, 4, 5, 6]);
    let sum = |axis, exclusive, reverse| one(Op::CumSum { axis, exclusive, reverse }, &[&x]).to_i64();
    assert_eq!(sum(1, false, false), [1, 3, 6, 4, 9, 15]);
    assert_eq!(sum(1, true, false), [0, 1, 3, 0, 4, 9]);
    assert_eq!(sum(1, false, true), [6, 5, 3, 15, 11, 6]);
    assert_eq!(sum(1, true, true), [5, 3, 0, 11, 6, 0]);
    assert_eq!(sum(0, false, false), [1, 2, 3, 5, 7, 9]);
}

#[test]
fn normalisations() {
    let y =
        all(Op::LayerNorm { axis: 1, epsilon: 0.01 }, &[&wave(&[2, 3]), &wave(&[3]), &wave(&[3])]).unwrap();
    assert_close(&y[0], &[2, 3], &[0.11419, 0.866647, -0.578992, -3.049133, 0.375, 0.163163]);
    assert_close(&y[1], &[2, 1], &[-0.583333, -0.125]);
    assert_close(&y[2], &[2, 1], &[1.36806, 1.082268]);
    let x = Tensor::new([1, 2], vec![3.0f32, 4.0]);
    let y = one(Op::RmsNorm { axis: 1, epsilon: 0.0 }, &[&x, &Tensor::new([2], vec![1.0f32, 2.0])]);
    assert_close(&y, &[1, 2], &[0.848528, 2.262742]);
    let y = one(Op::Lrn { size: 3, alpha: 0.5, beta: 0.75, bias: 2.0 }, &[&wave(&[1, 5, 2, 1])]);
    assert_close(
        &y,
        &[1, 5, 2, 1],
        &[-0.711123, 0.208297, -0.387571, 0.510571, -0.070697, -0.630194, 0.271694, -0.331887, 0.611841, 0.0],
    );
    let half = one(Op::Cast { to: ElementType::F16 }, &[&wave(&[2, 3])]);
    let scale = one(Op::Cast { to: ElementType::F16 }, &[&wave(&[3])]);
    let y = all(Op::LayerNorm { axis: 1, epsilon: 0.01 }, &[&half, &scale]).unwrap();
    assert_eq!((y[0].element(), y[1].element()), (ElementType::F16, ElementType::F32));
}
