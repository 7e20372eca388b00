//! Elementwise chains and movements of elements: one task each, nothing materialised in between.

mod support;

use support::{check, program_text};
use talweg_graph::testing::Builder;
use talweg_tensor::Op;
use talweg_tensor::op::{Binary, PadMode, SliceAxis, Unary};

#[test]
fn a_chain_is_one_task() {
    let mut b = Builder::new("chain");
    let (x, y) = (b.input(&[4, 6]), b.input(&[6]));
    let sum = b.op(Op::Binary(Binary::Add), &[x, y]);
    let relu = b.op(Op::Unary(Unary::Relu), &[sum]);
    let two = b.scalar(2.0);
    let out = b.op(Op::Binary(Binary::Div), &[relu, two]);
    let program = check(&b.finish(&[out]));
    assert_eq!(program.steps.len(), 1);
    assert_eq!(
        program.tasks[0].text.trim(),
        "dag elementwise {\n  input x0: f32[4, 6]\n  input x01: f32[6]\n  \
         output Y: f32[i=4, j=6] = max(x0[i, j] + x01[j], 0.0) * 0.5\n}"
    );
}

#[test]
fn rotary_is_one_task_without_divisions() {
    let mut b = Builder::new("rotary");
    let x = b.input(&[1, 5, 24]);
    let (cos, sin) = (b.weights(&[1, 1, 5, 8], 1), b.weights(&[1, 1, 5, 8], 2));
    let heads = b.op(Op::Reshape { shape: vec![1, 5, 3, 8] }, &[x]);
    let q = b.op(Op::Transpose { perm: vec![0, 2, 1, 3] }, &[heads]);
    let half = |begin: usize| {
        let whole = |count| SliceAxis { begin: 0, step: 1, count };
        Op::Slice { axes: vec![whole(1), whole(3), whole(5), SliceAxis { begin, step: 1, count: 4 }] }
    };
    let high = b.op(half(4), &[q]);
    let negative = b.op(Op::Unary(Unary::Neg), &[high]);
    let low = b.op(half(0), &[q]);
    let turned = b.op(Op::Concat { axis: 3 }, &[negative, low]);
    let a = b.op(Op::Binary(Binary::Mul), &[q, cos]);
    let c = b.op(Op::Binary(Binary::Mul), &[turned, sin]);
    let out = b.op(Op::Binary(Binary::Add), &[a, c]);
    let program = check(&b.finish(&[out]));
    let text = program_text(&program);
    assert!(!text.contains("//") && !text.contains('%'), "{text}");
    assert_eq!(program.tasks.len(), 1, "{text}");
}

#[test]
fn movements_compose() {
    for mode in [PadMode::Constant, PadMode::Edge, PadMode::Reflect, PadMode::Wrap] {
        let mut b = Builder::new("movements");
        let x = b.input(&[3, 4]);
        let padded = b.op(Op::Pad { begin: vec![1, 0], end: vec![1, 2], mode }, &[x]);
        let tiled = b.op(Op::Tile { repeats: vec![2, 1] }, &[padded]);
        let turned = b.op(Op::Transpose { perm: vec![1, 0] }, &[tiled]);
        let triangle = b.op(Op::Trilu { upper: true, k: 1 }, &[turned]);
        let flat = b.op(Op::Reshape { shape: vec![60] }, &[triangle]);
        let out = b.op(Op::Unary(Unary::Exp), &[flat]);
        let program = check(&b.finish(&[out]));
        assert_eq!(program.steps.len(), 1, "{mode:?}: {}", program_text(&program));
    }
}

#[test]
fn a_reshape_by_itself_is_a_view() {
    let mut b = Builder::new("view");
    let x = b.input(&[2, 6]);
    let out = b.op(Op::Reshape { shape: vec![3, 4] }, &[x]);
    let program = check(&b.finish(&[out]));
    assert!(program_text(&program).starts_with("v0 = view(x0)"), "{}", program_text(&program));
    assert!(program.tasks.is_empty());
}

#[test]
fn every_function_keeps_its_meaning() {
    let functions = [
        Unary::Abs,
        Unary::Neg,
        Unary::Sign,
        Unary::Exp,
        Unary::Ceil,
        Unary::Floor,
        Unary::Round,
        Unary::Sin,
        Unary::Cos,
        Unary::Tan,
        Unary::Asin,
        Unary::Acos,
        Unary::Atan,
        Unary::Sinh,
        Unary::Cosh,
        Unary::Tanh,
        Unary::Asinh,
        Unary::Atanh,
        Unary::Erf,
        Unary::Relu,
        Unary::Sigmoid,
        Unary::Softplus,
        Unary::Softsign,
        Unary::Mish,
        Unary::HardSwish,
        Unary::LeakyRelu { alpha: 0.1 },
        Unary::ThresholdedRelu { alpha: 0.2 },
        Unary::Elu { alpha: 0.7 },
        Unary::Celu { alpha: 0.7 },
        Unary::Selu { alpha: 1.6, gamma: 1.05 },
        Unary::HardSigmoid { alpha: 0.2, beta: 0.5 },
        Unary::Gelu { tanh: false },
        Unary::Gelu { tanh: true },
        Unary::Swish { alpha: 1.0 },
        Unary::Swish { alpha: 1.7 },
        Unary::Shrink { bias: 0.1, lambda: 0.3 },
        Unary::Clip { min: Some(-0.5), max: Some(0.25) },
    ];
    for f in functions {
        let mut b = Builder::new("function");
        let x = b.input(&[3, 5]);
        let out = b.op(Op::Unary(f), &[x]);
        check(&b.finish(&[out]));
    }
}

#[test]
fn a_value_used_twice_is_computed_once() {
    let mut b = Builder::new("diamond");
    let x = b.input(&[4, 8]);
    let mut value = x;
    for _ in 0..6 {
        let mish = b.op(Op::Unary(Unary::Mish), &[value]);
        value = b.op(Op::Binary(Binary::Add), &[mish, value]);
    }
    let program = check(&b.finish(&[value]));
    assert!(program.tasks[0].text.len() < 4000, "{}", program_text(&program));
}
