//! Small networks of each kind: what the rules make of them, what is fused, and that the meaning stays.

mod support;

use support::{check, program_text};
use talweg_graph::testing::Builder;
use talweg_graph::{Program, ValueId, Work};
use talweg_tensor::Op;
use talweg_tensor::op::{
    Binary, Conv, ConvTranspose, Layout, Pool, PoolKind, Reduce, ReduceKind, SliceAxis, Unary,
};

fn conv(stride: usize, pad: usize, groups: usize) -> Op {
    Op::Conv(Conv {
        strides: vec![stride; 2],
        dilations: vec![1; 2],
        begin: vec![pad; 2],
        end: vec![pad; 2],
        groups,
        layout: Layout::ChannelsFirst,
    })
}

fn binary(b: &mut Builder, f: Binary, x: ValueId, y: ValueId) -> ValueId {
    b.op(Op::Binary(f), &[x, y])
}

fn unary(b: &mut Builder, f: Unary, x: ValueId) -> ValueId {
    b.op(Op::Unary(f), &[x])
}

/// The kinds of the steps, in order.
fn steps(program: &Program) -> Vec<String> {
    let kinds = program.steps.iter().map(|s| match &s.work {
        Work::Kernel(task) => program.tasks[*task].dag.name.clone(),
        Work::Plain(op) => format!("plain {}", op.name()),
        Work::View => "view".to_string(),
    });
    kinds.collect()
}

#[test]
fn a_residual_network_has_no_transposes_inside() {
    let mut b = Builder::new("residual");
    let x = b.input(&[1, 3, 9, 9]);
    let w = b.weights(&[8, 3, 3, 3], 1);
    let c1 = b.op(conv(2, 1, 1), &[x, w]);
    let (scale, shift) = (b.weights(&[1, 8, 1, 1], 2), b.weights(&[1, 8, 1, 1], 3));
    let scaled = binary(&mut b, Binary::Mul, c1, scale);
    let normal = binary(&mut b, Binary::Add, scaled, shift);
    let r1 = unary(&mut b, Unary::Relu, normal);
    let (w2, bias) = (b.weights(&[8, 1, 3, 3], 4), b.weights(&[8], 5));
    let c2 = b.op(conv(1, 1, 8), &[r1, w2, bias]);
    let clip = unary(&mut b, Unary::Clip { min: Some(0.0), max: Some(6.0) }, c2);
    let w3 = b.weights(&[8, 8, 1, 1], 6);
    let c3 = b.op(conv(1, 0, 1), &[clip, w3]);
    let sum = binary(&mut b, Binary::Add, c3, r1);
    let mean = b.op(Op::Reduce(Reduce { kind: ReduceKind::Mean, axes: vec![2, 3], keep: true }), &[sum]);
    let flat = b.op(Op::Reshape { shape: vec![1, 8] }, &[mean]);
    let (w4, b4) = (b.weights(&[8, 5], 7), b.weights(&[5], 8));
    let logits = b.op(Op::MatMul, &[flat, w4]);
    let out = binary(&mut b, Binary::Add, logits, b4);
    let program = check(&b.finish(&[out]));
    let text = format!("{}{}", program.graph, program_text(&program));
    assert_eq!(steps(&program), ["conv", "conv", "conv", "reduce", "matmul"], "{text}");
}

#[test]
fn grouped_and_three_dimensional_convolutions_and_pooling() {
    let mut b = Builder::new("groups");
    let x = b.input(&[2, 4, 5, 6]);
    let w = b.weights(&[6, 2, 3, 3], 1);
    let c = b.op(conv(1, 1, 2), &[x, w]);
    let pool = |kind, ceil| {
        Op::Pool(Pool {
            kind,
            window: vec![3, 2],
            strides: vec![2, 2],
            dilations: vec![1, 1],
            begin: vec![1, 0],
            end: vec![1, 0],
            ceil,
            column_major: false,
            layout: Layout::ChannelsFirst,
        })
    };
    let max = b.op(pool(PoolKind::Max, true), &[c]);
    let mean = b.op(pool(PoolKind::Average { count_pad: false }, false), &[c]);
    let product = b.op(Op::Concat { axis: 1 }, &[max, mean]);
    let volume = b.op(Op::Reshape { shape: vec![2, 12, 3, 3, 1] }, &[product]);
    let w3 = b.weights(&[3, 12, 2, 2, 1], 2);
    let cube = Op::Conv(Conv {
        strides: vec![1; 3],
        dilations: vec![1; 3],
        begin: vec![0, 1, 0],
        end: vec![1, 0, 0],
        groups: 1,
        layout: Layout::ChannelsFirst,
    });
    let out = b.op(cube, &[volume, w3]);
    let program = check(&b.finish(&[out]));
    assert!(program.steps.iter().all(|s| !matches!(s.work, Work::Plain(_))), "{}", program_text(&program));
}

#[test]
fn a_generator_begins_with_a_matrix_product() {
    let transposed = |stride, pad| {
        Op::ConvTranspose(ConvTranspose {
            strides: vec![stride; 2],
            dilations: vec![1; 2],
            begin: vec![pad; 2],
            end: vec![pad; 2],
            groups: 1,
            layout: Layout::ChannelsFirst,
        })
    };
    let mut b = Builder::new("generator");
    let x = b.input(&[1, 10, 1, 1]);
    let (w, bias) = (b.weights(&[10, 6, 4, 4], 1), b.weights(&[6], 2));
    let c = b.op(transposed(1, 0), &[x, w, bias]);
    let r = unary(&mut b, Unary::Relu, c);
    let w2 = b.weights(&[6, 3, 4, 4], 3);
    let c2 = b.op(transposed(2, 1), &[r, w2]);
    let out = unary(&mut b, Unary::Tanh, c2);
    let program = check(&b.finish(&[out]));
    let text = format!("{}{}", program.graph, program_text(&program));
    assert_eq!(steps(&program), ["matmul", "view", "conv_transpose", "elementwise"], "{text}");
}

#[test]
fn attention_reads_heads_in_place() {
    let (tokens, heads, width) = (6, 3, 4);
    let all = heads * width;
    let mut b = Builder::new("attention");
    let x = b.input(&[1, tokens, all]);
    let mask = b.weights(&[1, 1, tokens, tokens], 9);
    let mut project = |seed: u64, perm: Vec<usize>| {
        let (w, bias) = (b.weights(&[all, all], seed), b.weights(&[all], seed + 10));
        let product = b.op(Op::MatMul, &[x, w]);
        let sum = b.op(Op::Binary(Binary::Add), &[bias, product]);
        let split = b.op(Op::Reshape { shape: vec![1, tokens, heads, width] }, &[sum]);
        b.op(Op::Transpose { perm }, &[split])
    };
    let q = project(1, vec![0, 2, 1, 3]);
    let k = project(2, vec![0, 2, 3, 1]);
    let v = project(3, vec![0, 2, 1, 3]);
    let scores = b.op(Op::MatMul, &[q, k]);
    let eighth = b.scalar(0.125);
    let scaled = binary(&mut b, Binary::Mul, scores, eighth);
    let masked = binary(&mut b, Binary::Add, scaled, mask);
    let weights = b.op(Op::Softmax { axis: 3, log: false }, &[masked]);
    let context = b.op(Op::MatMul, &[weights, v]);
    let back = b.op(Op::Transpose { perm: vec![0, 2, 1, 3] }, &[context]);
    let merged = b.op(Op::Reshape { shape: vec![1, tokens, all] }, &[back]);
    let w = b.weights(&[all, all], 4);
    let projected = b.op(Op::MatMul, &[merged, w]);
    let sum = binary(&mut b, Binary::Add, x, projected);
    let (scale, bias) = (b.weights(&[all], 5), b.weights(&[all], 6));
    let out = b.op(Op::LayerNorm { axis: 2, epsilon: 1e-5 }, &[sum, scale, bias]);
    let program = check(&b.finish(&[out]));
    let text = format!("{}{}", program.graph, program_text(&program));
    assert_eq!(steps(&program), ["matmul", "attention", "matmul", "layer_norm"], "{text}");
    assert!(!text.contains("//") && !text.contains('%'), "{text}");
}

#[test]
fn norms_and_activations_are_recognised() {
    let mut b = Builder::new("patterns");
    let x = b.input(&[1, 5, 8]);
    let (two, eps, one) = (b.scalar(2.0), b.scalar(1e-5), b.scalar(1.0));
    let mean = || Op::Reduce(Reduce { kind: ReduceKind::Mean, axes: vec![2], keep: true });
    // RMS norm.
    let squares = binary(&mut b, Binary::Pow, x, two);
    let m = b.op(mean(), &[squares]);
    let raised = binary(&mut b, Binary::Add, m, eps);
    let root = unary(&mut b, Unary::Sqrt, raised);
    let inverse = binary(&mut b, Binary::Div, one, root);
    let normal = binary(&mut b, Binary::Mul, x, inverse);
    let w = b.weights(&[8], 1);
    let rms = binary(&mut b, Binary::Mul, normal, w);
    // Layer norm.
    let m = b.op(mean(), &[rms]);
    let d = binary(&mut b, Binary::Sub, rms, m);
    let squares = binary(&mut b, Binary::Pow, d, two);
    let variance = b.op(mean(), &[squares]);
    let raised = binary(&mut b, Binary::Add, variance, eps);
    let root = unary(&mut b, Unary::Sqrt, raised);
    let normal = binary(&mut b, Binary::Div, d, root);
    let (w, bias) = (b.weights(&[8], 2), b.weights(&[8], 3));
    let scaled = binary(&mut b, Binary::Mul, normal, w);
    let layer = binary(&mut b, Binary::Add, scaled, bias);
    // Gelu, then silu.
    let (root_two, half) = (b.scalar(std::f32::consts::SQRT_2), b.scalar(0.5));
    let divided = binary(&mut b, Binary::Div, layer, root_two);
    let erf = unary(&mut b, Unary::Erf, divided);
    let gate = binary(&mut b, Binary::Add, erf, one);
    let product = binary(&mut b, Binary::Mul, layer, gate);
    let gelu = binary(&mut b, Binary::Mul, product, half);
    let sigmoid = unary(&mut b, Unary::Sigmoid, gelu);
    let out = binary(&mut b, Binary::Mul, gelu, sigmoid);
    let program = check(&b.finish(&[out]));
    let names: Vec<String> = program.graph.nodes.iter().map(|n| n.op.name()).collect();
    assert_eq!(names, ["RmsNorm", "LayerNorm", "Gelu", "Swish"], "{}", program.graph);
    assert_eq!(steps(&program), ["rms_norm", "layer_norm"], "{}", program_text(&program));
}

#[test]
fn patches_become_tokens_without_a_copy() {
    let mut b = Builder::new("patches");
    let x = b.input(&[1, 3, 8, 8]);
    let (w, bias) = (b.weights(&[6, 3, 4, 4], 1), b.weights(&[6], 2));
    let patches = b.op(conv(4, 0, 1), &[x, w, bias]);
    let flat = b.op(Op::Reshape { shape: vec![1, 6, 4] }, &[patches]);
    let tokens = b.op(Op::Transpose { perm: vec![0, 2, 1] }, &[flat]);
    let class = b.weights(&[1, 1, 6], 3);
    let joined = b.op(Op::Concat { axis: 1 }, &[class, tokens]);
    let place = b.weights(&[1, 5, 6], 4);
    let out = binary(&mut b, Binary::Add, joined, place);
    let program = check(&b.finish(&[out]));
    let text = format!("{}{}", program.graph, program_text(&program));
    assert_eq!(steps(&program), ["elementwise", "conv", "elementwise"], "{text}");
}

#[test]
fn plain_operators_stay_plain() {
    let mut b = Builder::new("plain");
    let x = b.input(&[4, 6]);
    let sorted = b.op(Op::CumSum { axis: 1, exclusive: false, reverse: false }, &[x]);
    let whole = SliceAxis { begin: 0, step: 1, count: 4 };
    let odd = b.op(Op::Slice { axes: vec![whole, SliceAxis { begin: 5, step: -2, count: 3 }] }, &[sorted]);
    let out = unary(&mut b, Unary::Neg, odd);
    let program = check(&b.finish(&[out]));
    assert_eq!(steps(&program), ["plain CumSum", "elementwise"], "{}", program_text(&program));
}

#[test]
fn reductions_of_every_kind() {
    use ReduceKind::{L1, L2, LogSum, LogSumExp, Max, Mean, Min, Prod, Sum, SumSquare};
    for kind in [Sum, Mean, Prod, Max, Min, L1, L2, SumSquare, LogSum, LogSumExp] {
        for (axes, keep) in [(vec![0], true), (vec![1, 2], false), (vec![2], true), (vec![0, 2], false)] {
            let mut b = Builder::new("reduce");
            let x = b.input(&[3, 4, 5]);
            let positive = unary(&mut b, Unary::Exp, x);
            let reduced = b.op(Op::Reduce(Reduce { kind, axes, keep }), &[positive]);
            let out = unary(&mut b, Unary::Neg, reduced);
            check(&b.finish(&[out]));
        }
    }
}

#[test]
fn softmax_along_any_axis_lrn_and_einsum() {
    for axis in 0..3 {
        for log in [false, true] {
            let mut b = Builder::new("softmax");
            let x = b.input(&[3, 4, 5]);
            let two = b.scalar(2.0);
            let doubled = binary(&mut b, Binary::Mul, x, two);
            let out = b.op(Op::Softmax { axis, log }, &[doubled]);
            let program = check(&b.finish(&[out]));
            assert_eq!(steps(&program), ["softmax"]);
        }
    }
    let mut b = Builder::new("lrn");
    let x = b.input(&[1, 5, 3, 3]);
    let out = b.op(Op::Lrn { size: 3, alpha: 0.1, beta: 0.75, bias: 1.0 }, &[x]);
    assert_eq!(steps(&check(&b.finish(&[out]))), ["lrn"]);
    let mut b = Builder::new("einsum");
    let (x, y) = (b.input(&[2, 3, 4]), b.input(&[2, 5, 4]));
    let out = b.op(Op::Einsum { equation: "bij,bkj->bik".into() }, &[x, y]);
    assert_eq!(steps(&check(&b.finish(&[out]))), ["einsum"]);
}

#[test]
fn matrix_products_of_any_rank() {
    let shapes: [(&[usize], &[usize]); 7] = [
        (&[3, 4], &[4, 5]),
        (&[4], &[4, 5]),
        (&[3, 4], &[4]),
        (&[2, 3, 4], &[4, 5]),
        (&[2, 1, 3, 4], &[6, 4, 5]),
        (&[2, 3, 4], &[2, 4, 5]),
        (&[4], &[4]),
    ];
    for (left, right) in shapes {
        let mut b = Builder::new("product");
        let (x, y) = (b.input(left), b.input(right));
        let out = b.op(Op::MatMul, &[x, y]);
        assert_eq!(steps(&check(&b.finish(&[out]))), ["matmul"], "{left:?} {right:?}");
    }
}
