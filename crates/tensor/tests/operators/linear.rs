//! Matrix products and sums of products.

use talweg_tensor::{ElementType, Op, Tensor};

use crate::{assert_close, one, try_one, wave};

#[test]
fn vectors_and_batches_follow_numpy() {
    let shape = |a: &[usize], b: &[usize]| one(Op::MatMul, &[&wave(a), &wave(b)]).shape().to_vec();
    assert_eq!(shape(&[3], &[3]), []);
    assert_eq!(shape(&[3], &[3, 2]), [2]);
    assert_eq!(shape(&[2, 3], &[3]), [2]);
    assert_eq!(shape(&[4, 1, 2, 3], &[5, 3, 6]), [4, 5, 2, 6]);
    assert_eq!(shape(&[3], &[5, 3, 6]), [5, 6]);
    assert_eq!(shape(&[5, 2, 3], &[3]), [5, 2]);
}

#[test]
fn batched_products_agree_with_the_definition() {
    let (m, k, n) = (6, 7, 150);
    let (a, b) = (wave(&[2, 1, m, k]), wave(&[3, k, n]));
    let y = one(Op::MatMul, &[&a, &b]);
    assert_eq!(y.shape(), [2, 3, m, n]);
    let (a, b, y) = (a.to_f64(), b.to_f64(), y.to_f64());
    for (at, &value) in y.iter().enumerate() {
        let (j, i, p, q) = (at % n, at / n % m, at / n / m % 3, at / n / m / 3);
        let expected: f64 = (0..k).map(|l| a[(q * m + i) * k + l] * b[(p * k + l) * n + j]).sum();
        assert!((value - expected).abs() < 1e-6, "{at}: {value} instead of {expected}");
    }
}

#[test]
fn products_of_integers_wrap() {
    let a = Tensor::new([1, 2], vec![i32::MAX, 1]);
    let b = Tensor::new([2, 1], vec![2i32, 5]);
    assert_eq!(one(Op::MatMul, &[&a, &b]).to_i64(), [3]);
    let half = one(Op::Cast { to: ElementType::F16 }, &[&wave(&[4, 4])]);
    assert_eq!(one(Op::MatMul, &[&half, &half]).element(), ElementType::F16);
}

#[test]
fn depths_that_differ_are_errors() {
    let error = try_one(Op::MatMul, &[&wave(&[2, 3]), &wave(&[4, 2])]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "MatMul: input 1 must be of extent 3 on axis 0, the depth of f32[2,3], but it is f32[4,2]"
    );
}

#[test]
fn integer_products_with_zero_points() {
    let a = Tensor::new([2, 2], vec![11u8, 7, 3, 10]);
    let b = Tensor::new([2, 2], vec![1i8, 4, 2, -5]);
    let y =
        one(Op::MatMulInteger, &[&a, &b, &Tensor::new([2], vec![1u8, 2]), &Tensor::new([2], vec![0i8, 1])]);
    assert_eq!(y.to_i64(), [22, -6, 17, -45]);
    let y = one(Op::MatMulInteger, &[&a, &b]);
    assert_eq!(y.to_i64(), [25, 9, 23, -38]);
}

fn einsum(equation: &str, inputs: &[&Tensor]) -> Tensor {
    one(Op::Einsum { equation: equation.into() }, inputs)
}

#[test]
fn sums_of_products() {
    let y = einsum("...ij,jk,ik->k...", &[&wave(&[2, 2, 3]), &wave(&[3, 2]), &wave(&[2, 2])]);
    assert_close(&y, &[2, 2], &[-1.498047, -0.080078, 2.111328, -2.597656]);
    let square = Tensor::new([3, 3], (0..9i64).collect());
    assert_eq!(einsum("ii->i", &[&square]).to_i64(), [0, 4, 8]);
    assert_eq!(einsum("ii->", &[&square]).to_i64(), [12]);
    assert_eq!(einsum("ij->ji", &[&square]).to_i64(), [0, 3, 6, 1, 4, 7, 2, 5, 8]);
    assert_eq!(einsum("ij->j", &[&square]).to_i64(), [9, 12, 15]);
    let row = Tensor::new([3], vec![1i64, 2, 3]);
    assert_eq!(einsum("i,j->ij", &[&row, &row]).to_i64(), [1, 2, 3, 2, 4, 6, 3, 6, 9]);
    assert_eq!(einsum("i,j->", &[&row, &row]).to_i64(), [36]);
    assert_eq!(einsum("i, i -> ", &[&row, &row]).to_i64(), [14]);
}

#[test]
fn products_by_subscripts_are_matrix_products() {
    let (a, b) = (wave(&[2, 3, 4]), wave(&[2, 4, 5]));
    let expected = one(Op::MatMul, &[&a, &b]).to_f64();
    assert_close(&einsum("bij,bjk->bik", &[&a, &b]), &[2, 3, 5], &expected);
    assert_close(&einsum("...ij,...jk->...ik", &[&a, &b]), &[2, 3, 5], &expected);
}

#[test]
fn malformed_equations_are_errors() {
    let x = wave(&[2, 3]);
    let message =
        |equation: &str| try_one(Op::Einsum { equation: equation.into() }, &[&x]).unwrap_err().to_string();
    assert!(message("ij").contains("has no arrow"));
    assert!(message("ijk->i").contains("does not fit input 0 of shape [2, 3]"));
    assert!(message("ii->i").contains("is 3, before 2"));
    assert!(message("ij->k").contains("repeated or unknown"));
    assert!(message("i1->i").contains("other than letters"));
    assert!(message("ij,jk->ik").contains("2 terms for 1 inputs"));
}
