//! Data movement, indexing and elementwise operators against values worked out by hand.

use talweg_tensor::op::{Binary, PadMode, ScatterReduction, SliceAxis, Unary};
use talweg_tensor::{ElementType, Op, OpError, Tensor};

use crate::{one, try_one};

fn counting(shape: &[usize]) -> Tensor {
    Tensor::new(shape, (0..shape.iter().product::<usize>() as i32).collect())
}

#[test]
fn transposes() {
    let y = one(Op::Transpose { perm: vec![2, 0, 1] }, &[&counting(&[2, 2, 3])]);
    assert_eq!(y.shape(), [3, 2, 2]);
    assert_eq!(y.values::<i32>().as_ref(), [0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11]);
}

#[test]
fn slices_go_both_ways() {
    let axes = vec![SliceAxis { begin: 1, step: -1, count: 2 }, SliceAxis { begin: 0, step: 2, count: 2 }];
    let y = one(Op::Slice { axes }, &[&counting(&[2, 4])]);
    assert_eq!(y.values::<i32>().as_ref(), [4, 6, 0, 2]);
}

#[test]
fn slices_outside_are_errors() {
    let axes = vec![SliceAxis { begin: 1, step: i64::MAX, count: 3 }];
    let error = try_one(Op::Slice { axes }, &[&counting(&[4])]).unwrap_err();
    assert!(error.to_string().contains("reaches outside of axis 0 of i32[4]"), "{error}");
}

#[test]
fn concat_tile_and_expand() {
    let (a, b) = (counting(&[2, 1]), counting(&[2, 2]));
    let y = one(Op::Concat { axis: 1 }, &[&a, &b]);
    assert_eq!(y.values::<i32>().as_ref(), [0, 0, 1, 1, 2, 3]);
    let y = one(Op::Tile { repeats: vec![2, 2] }, &[&a]);
    assert_eq!((y.shape(), y.values::<i32>().as_ref()), (&[4, 2][..], &[0, 0, 1, 1, 0, 0, 1, 1][..]));
    let y = one(Op::Expand { shape: vec![2, 2, 2] }, &[&a]);
    assert_eq!(y.values::<i32>().as_ref(), [0, 0, 1, 1, 0, 0, 1, 1]);
}

#[test]
fn pads_in_every_mode() {
    let pad = |mode| {
        let op = Op::Pad { begin: vec![2], end: vec![3], mode };
        one(op, &[&Tensor::new([3], vec![1i64, 2, 3])]).to_i64()
    };
    assert_eq!(pad(PadMode::Constant), [0, 0, 1, 2, 3, 0, 0, 0]);
    assert_eq!(pad(PadMode::Edge), [1, 1, 1, 2, 3, 3, 3, 3]);
    assert_eq!(pad(PadMode::Reflect), [3, 2, 1, 2, 3, 2, 1, 2]);
    assert_eq!(pad(PadMode::Wrap), [2, 3, 1, 2, 3, 1, 2, 3]);
}

#[test]
fn negative_pads_cut() {
    let op = Op::Pad { begin: vec![-1, 1], end: vec![0, -2], mode: PadMode::Constant };
    let y = one(op, &[&counting(&[2, 3]), &Tensor::new([1], vec![9i32])]);
    assert_eq!((y.shape(), y.values::<i32>().as_ref()), (&[1, 2][..], &[9, 3][..]));
}

#[test]
fn triangles() {
    let x = Tensor::new([3, 3], vec![1u8; 9]);
    let y = one(Op::Trilu { upper: true, k: 1 }, &[&x]);
    assert_eq!(y.to_i64(), [0, 1, 1, 0, 0, 1, 0, 0, 0]);
    let y = one(Op::Trilu { upper: false, k: -1 }, &[&x]);
    assert_eq!(y.to_i64(), [0, 0, 0, 1, 0, 0, 1, 1, 0]);
    let y = one(Op::Trilu { upper: false, k: i64::MAX }, &[&x]);
    assert_eq!(y.to_i64(), [1; 9]);
}

#[test]
fn gathers_slices_elements_and_tuples() {
    let x = counting(&[2, 3]);
    let y = one(Op::Gather { axis: 1 }, &[&x, &Tensor::new([2], vec![-1i64, 0])]);
    assert_eq!(y.to_i64(), [2, 0, 5, 3]);
    let y = one(Op::GatherElements { axis: 1 }, &[&x, &Tensor::new([2, 2], vec![2i32, 0, -2, 1])]);
    assert_eq!(y.to_i64(), [2, 0, 4, 4]);
    let y = one(Op::GatherElements { axis: 0 }, &[&x, &Tensor::new([1, 3], vec![1i32, 0, 1])]);
    assert_eq!(y.to_i64(), [3, 1, 5]);
    let y = one(Op::GatherNd { batch_dims: 0 }, &[&x, &Tensor::new([2, 1], vec![1i64, 0])]);
    assert_eq!((y.shape(), y.to_i64()), (&[2, 3][..], vec![3, 4, 5, 0, 1, 2]));
    let y = one(Op::GatherNd { batch_dims: 1 }, &[&x, &Tensor::new([2, 1], vec![1i64, 2])]);
    assert_eq!((y.shape(), y.to_i64()), (&[2][..], vec![1, 5]));
}

#[test]
fn indices_outside_are_errors() {
    let error =
        try_one(Op::Gather { axis: 0 }, &[&counting(&[2]), &Tensor::new([1], vec![2i64])]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "Gather: input 1 holds 2, but its elements must be indices of an axis with 2 elements"
    );
    let far = Tensor::new([1], vec![i64::MIN]);
    assert!(matches!(
        try_one(Op::Gather { axis: 0 }, &[&counting(&[2]), &far]),
        Err(OpError::Value { input: 1, .. })
    ));
}

#[test]
fn scatters() {
    let x = Tensor::new([4], vec![1.0f32, 2.0, 3.0, 4.0]);
    let indices = Tensor::new([3, 1], vec![1i64, 3, 1]);
    let updates = Tensor::new([3], vec![10.0f32, 20.0, 30.0]);
    let nd = |reduction| one(Op::ScatterNd { reduction }, &[&x, &indices, &updates]).to_f64();
    assert_eq!(nd(ScatterReduction::Replace), [1.0, 30.0, 3.0, 20.0]);
    assert_eq!(nd(ScatterReduction::Add), [1.0, 42.0, 3.0, 24.0]);
    assert_eq!(nd(ScatterReduction::Mul), [1.0, 600.0, 3.0, 80.0]);
    assert_eq!(nd(ScatterReduction::Min), [1.0, 2.0, 3.0, 4.0]);
    assert_eq!(nd(ScatterReduction::Max), [1.0, 30.0, 3.0, 20.0]);
    let y = one(
        Op::ScatterElements { axis: 1, reduction: ScatterReduction::Replace },
        &[&counting(&[2, 3]), &Tensor::new([2, 1], vec![2i64, -3]), &Tensor::new([2, 1], vec![-1i32, -2])],
    );
    assert_eq!(y.to_i64(), [0, 1, -1, -2, 4, 5]);
}

#[test]
fn one_hot_ignores_what_is_outside() {
    let indices = Tensor::new([3], vec![0i64, -1, 7]);
    let y = one(Op::OneHot { axis: 0, depth: 2 }, &[&indices, &Tensor::new([2], vec![2.0f32, 5.0])]);
    assert_eq!((y.shape(), y.to_f64()), (&[2, 3][..], vec![5.0, 2.0, 2.0, 2.0, 5.0, 2.0]));
}

#[test]
fn extents_that_depend_on_the_data() {
    let x = Tensor::new([2, 2], vec![1i32, 0, 2, 3]);
    let y = one(Op::NonZero, &[&x]);
    assert_eq!((y.shape(), y.to_i64()), (&[2, 3][..], vec![0, 1, 1, 0, 0, 1]));
    let keep = Tensor::from_bools([2], [false, true]);
    let y = one(Op::Compress { axis: Some(1) }, &[&x, &keep]);
    assert_eq!((y.shape(), y.to_i64()), (&[2, 1][..], vec![0, 3]));
    let y = one(Op::Compress { axis: None }, &[&x, &keep]);
    assert_eq!(y.to_i64(), [0]);
}

#[test]
fn where_and_comparisons_broadcast() {
    let a = Tensor::new([2, 1], vec![1i64, 5]);
    let b = Tensor::new([3], vec![0i64, 3, 6]);
    let less = one(Op::Binary(Binary::Less), &[&a, &b]);
    assert_eq!(less.element(), ElementType::Bool);
    assert_eq!(less.to_i64(), [0, 1, 1, 0, 0, 1]);
    assert_eq!(one(Op::Where, &[&less, &a, &b]).to_i64(), [0, 1, 1, 0, 3, 5]);
}

#[test]
fn arithmetic_of_integers_is_exact() {
    let big = Tensor::new([1], vec![(1i64 << 62) + 1]);
    let two = Tensor::new([1], vec![2i64]);
    assert_eq!(one(Op::Binary(Binary::Add), &[&big, &two]).to_i64(), [(1 << 62) + 3]);
    assert_eq!(one(Op::Binary(Binary::Mul), &[&big, &two]).to_i64(), [i64::MIN + 2]);
    assert_eq!(one(Op::Binary(Binary::Pow), &[&two, &Tensor::new([1], vec![10i32])]).to_i64(), [1024]);
    assert_eq!(one(Op::Binary(Binary::Div), &[&Tensor::new([1], vec![-7i64]), &two]).to_i64(), [-3]);
    let wide = Tensor::new([2], vec![8i32, 40]);
    let x = Tensor::new([2], vec![-256i32, -1]);
    assert_eq!(one(Op::Binary(Binary::ShiftRight), &[&x, &wide]).to_i64(), [-1, -1]);
    assert_eq!(one(Op::Binary(Binary::ShiftLeft), &[&x, &wide]).to_i64(), [-65536, 0]);
}

#[test]
fn casts() {
    let x = Tensor::new([4], vec![-1.9f32, 0.0, f32::NAN, 300.0]);
    assert_eq!(one(Op::Cast { to: ElementType::I32 }, &[&x]).to_i64(), [-1, 0, 0, 300]);
    assert_eq!(one(Op::Cast { to: ElementType::Bool }, &[&x]).to_i64(), [1, 0, 1, 1]);
    let wrapped = one(Op::Cast { to: ElementType::I8 }, &[&Tensor::new([1], vec![384i64])]);
    assert_eq!(wrapped.to_i64(), [-128]);
}

#[test]
fn unary_functions_at_known_points() {
    let x = Tensor::new([4], vec![-2.0f64, -0.5, 0.0, 3.0]);
    let check = |unary, expected: [f64; 4]| {
        let y = one(Op::Unary(unary), &[&x]).to_f64();
        for (y, e) in y.iter().zip(expected) {
            assert!((y - e).abs() < 1e-6, "{unary:?}: {y} instead of {e}");
        }
    };
    check(Unary::Relu, [0.0, 0.0, 0.0, 3.0]);
    check(Unary::Sign, [-1.0, -1.0, 0.0, 1.0]);
    check(Unary::Round, [-2.0, 0.0, 0.0, 3.0]);
    check(Unary::Erf, [-0.9953222650, -0.5204998778, 0.0, 0.9999779095]);
    check(Unary::Sigmoid, [0.1192029220, 0.3775406688, 0.5, 0.9525741268]);
    check(Unary::Softplus, [0.1269280110, 0.4740769842, std::f64::consts::LN_2, 3.0485873516]);
    check(Unary::Mish, [-0.2525014772, -0.2207437747, 0.0, 2.9865350050]);
    check(Unary::HardSwish, [-0.3333333333, -0.2083333333, 0.0, 3.0]);
    check(Unary::Gelu { tanh: false }, [-0.0455002639, -0.1542687694, 0.0, 2.9959503059]);
    check(Unary::Gelu { tanh: true }, [-0.0454023059, -0.1542859725, 0.0, 2.9963626079]);
    check(Unary::Elu { alpha: 2.0 }, [-1.7293294335, -0.7869386806, 0.0, 3.0]);
    check(Unary::Celu { alpha: 2.0 }, [-1.2642411177, -0.4423984339, 0.0, 3.0]);
    check(Unary::Selu { alpha: 2.0, gamma: 3.0 }, [-5.1879883006, -2.3608160417, 0.0, 9.0]);
    check(Unary::LeakyRelu { alpha: 0.5 }, [-1.0, -0.25, 0.0, 3.0]);
    check(Unary::ThresholdedRelu { alpha: -1.0 }, [0.0, -0.5, 0.0, 3.0]);
    check(Unary::HardSigmoid { alpha: 0.25, beta: 0.5 }, [0.0, 0.375, 0.5, 1.0]);
    check(Unary::Shrink { bias: 0.5, lambda: 1.0 }, [-1.5, 0.0, 0.0, 2.5]);
    check(Unary::Swish { alpha: 1.0 }, [-0.2384058440, -0.1887703344, 0.0, 2.8577223804]);
    check(Unary::Clip { min: Some(-1.0), max: Some(2.0) }, [-1.0, -0.5, 0.0, 2.0]);
}

#[test]
fn unary_functions_of_integers() {
    let x = Tensor::new([3], vec![i8::MIN, -1, 5]);
    assert_eq!(one(Op::Unary(Unary::Abs), &[&x]).to_i64(), [-128, 1, 5]);
    assert_eq!(one(Op::Unary(Unary::Neg), &[&x]).to_i64(), [-128, 1, -5]);
    assert_eq!(one(Op::Unary(Unary::BitNot), &[&x]).to_i64(), [127, 0, -6]);
    assert_eq!(one(Op::Unary(Unary::Clip { min: Some(0.0), max: None }), &[&x]).to_i64(), [0, 0, 5]);
}

#[test]
fn errors_name_operator_and_input() {
    let (f, i) = (Tensor::new([2], vec![1.0f32; 2]), Tensor::new([2], vec![1i64; 2]));
    let message = |op, inputs: &[&Tensor]| try_one(op, inputs).unwrap_err().to_string();
    assert_eq!(
        message(Op::Binary(Binary::Add), &[&f, &i]),
        "Add: input 1 must be of type f32, but it is i64[2]"
    );
    assert_eq!(message(Op::Binary(Binary::Add), &[&f]), "Add takes 2 inputs, but 1 were given");
    assert_eq!(
        message(Op::Unary(Unary::Exp), &[&i]),
        "Exp: input 0 must be of a floating-point type, but it is i64[2]"
    );
    assert_eq!(
        message(Op::Binary(Binary::Mul), &[&f, &Tensor::new([3], vec![1.0f32; 3])]),
        "Mul: input 1 must be of a shape that broadcasts with [2], but it is f32[3]"
    );
    assert_eq!(
        message(Op::Expand { shape: vec![1 << 40, 1 << 40] }, &[&Tensor::new([1], vec![0u8])]),
        "Expand: output 0 of shape [1099511627776, 1099511627776] is too large"
    );
}
