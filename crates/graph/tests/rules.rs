//! Each rule on the smallest graph it applies to: the operators before and after. The meaning is compared as well.

mod support;

use support::check;
use talweg_graph::testing::Builder;
use talweg_graph::{Graph, ValueId};
use talweg_tensor::op::{Binary, Conv, Layout, PadMode, Reduce, ReduceKind, Unary};
use talweg_tensor::{Op, Tensor};

/// The operators of a graph that `build` makes, before and after rewriting.
#[track_caller]
fn rewrites(build: impl FnOnce(&mut Builder) -> ValueId, before: &str, after: &str) {
    let mut b = Builder::new("rule");
    let out = build(&mut b);
    let graph = b.finish(&[out]);
    let names = |g: &Graph| g.nodes.iter().map(|n| n.op.name()).collect::<Vec<_>>().join(" ");
    assert_eq!(names(&graph), before);
    let program = check(&graph);
    assert_eq!(names(&program.graph), after, "{}", program.graph);
}

fn conv(pad: usize) -> Op {
    Op::Conv(Conv {
        strides: vec![1; 2],
        dilations: vec![1; 2],
        begin: vec![pad; 2],
        end: vec![pad; 2],
        groups: 1,
        layout: Layout::ChannelsFirst,
    })
}

#[test]
fn fold_constants() {
    rewrites(
        |b| {
            let (x, c, d) = (b.input(&[3]), b.scalar(2.0), b.weights(&[3], 1));
            let folded = b.op(Op::Binary(Binary::Max), &[c, d]);
            b.op(Op::Binary(Binary::Max), &[x, folded])
        },
        "Max Max",
        "Max",
    );
}

#[test]
fn cancel_identity() {
    rewrites(
        |b| {
            let (x, zero, one) = (b.input(&[2, 3]), b.scalar(0.0), b.scalar(1.0));
            let sum = b.op(Op::Binary(Binary::Add), &[zero, x]);
            let product = b.op(Op::Binary(Binary::Mul), &[sum, one]);
            let same = b.op(Op::Reshape { shape: vec![2, 3] }, &[product]);
            b.op(Op::Unary(Unary::Exp), &[same])
        },
        "Add Mul Reshape Exp",
        "Exp",
    );
}

#[test]
fn an_output_keeps_its_name_and_an_input_too() {
    let mut b = Builder::new("interface");
    let x = b.input(&[2]);
    let out = b.op(Op::Unary(Unary::Identity), &[x]);
    let program = check(&b.finish(&[out]));
    assert_eq!(program.graph.value(program.graph.inputs[0]).name, "x0");
    assert_eq!(program.graph.value(program.graph.outputs[0]).name, "v0");
}

#[test]
fn common_subexpressions() {
    rewrites(
        |b| {
            let x = b.input(&[3]);
            let (a, c) = (b.op(Op::Unary(Unary::Exp), &[x]), b.op(Op::Unary(Unary::Exp), &[x]));
            b.op(Op::Binary(Binary::Add), &[a, c])
        },
        "Exp Exp Add",
        "Exp Add",
    );
}

#[test]
fn merge_movements() {
    rewrites(
        |b| {
            let x = b.input(&[2, 3, 4]);
            let turned = b.op(Op::Transpose { perm: vec![1, 2, 0] }, &[x]);
            let again = b.op(Op::Transpose { perm: vec![1, 2, 0] }, &[turned]);
            let back = b.op(Op::Transpose { perm: vec![1, 2, 0] }, &[again]);
            let flat = b.op(Op::Reshape { shape: vec![6, 4] }, &[back]);
            b.op(Op::Reshape { shape: vec![24] }, &[flat])
        },
        "Transpose Transpose Transpose Reshape Reshape",
        "Reshape",
    );
}

#[test]
fn transpose_as_reshape() {
    rewrites(
        |b| {
            let x = b.input(&[1, 5, 1, 3]);
            b.op(Op::Transpose { perm: vec![1, 0, 3, 2] }, &[x])
        },
        "Transpose",
        "Reshape",
    );
}

#[test]
fn gather_as_slice() {
    rewrites(
        |b| {
            let x = b.input(&[3, 4]);
            let index = b.graph.add_constant("index", Tensor::new([], vec![-2i64]));
            b.op(Op::Gather { axis: 0 }, &[x, index])
        },
        "Gather",
        "Slice Reshape",
    );
}

#[test]
fn div_by_constant_and_merge_scales() {
    rewrites(
        |b| {
            let (x, two, c) = (b.input(&[3]), b.scalar(3.0), b.weights(&[3], 1));
            let half = b.op(Op::Binary(Binary::Div), &[x, two]);
            b.op(Op::Binary(Binary::Mul), &[half, c])
        },
        "Div Mul",
        "Mul",
    );
}

#[test]
fn square() {
    rewrites(
        |b| {
            let (x, two) = (b.input(&[3]), b.scalar(2.0));
            b.op(Op::Binary(Binary::Pow), &[x, two])
        },
        "Pow",
        "Mul",
    );
}

#[test]
fn pad_scale_and_bias_belong_to_the_convolution() {
    rewrites(
        |b| {
            let (x, w) = (b.input(&[1, 2, 4, 4]), b.weights(&[3, 2, 3, 3], 1));
            let pad = Op::Pad { begin: vec![0, 0, 1, 0], end: vec![0, 0, 0, 1], mode: PadMode::Constant };
            let padded = b.op(pad, &[x]);
            let image = b.op(conv(1), &[padded, w]);
            let (c, d) = (b.weights(&[3, 1, 1], 2), b.weights(&[1, 3, 1, 1], 3));
            let scaled = b.op(Op::Binary(Binary::Mul), &[image, c]);
            b.op(Op::Binary(Binary::Sub), &[scaled, d])
        },
        "Pad Conv Mul Sub",
        "Transpose Conv Transpose",
    );
}

#[test]
fn hoist_scale() {
    rewrites(
        |b| {
            let (x, y, c) = (b.input(&[2, 6]), b.input(&[3, 5]), b.scalar(0.25));
            let scaled = b.op(Op::Binary(Binary::Mul), &[x, c]);
            let moved = b.op(Op::Reshape { shape: vec![4, 3] }, &[scaled]);
            b.op(Op::MatMul, &[moved, y])
        },
        "Mul Reshape MatMul",
        "Reshape MatMul Mul",
    );
}

#[test]
fn scale_into_the_weights_of_a_product() {
    rewrites(
        |b| {
            let (x, w, c) = (b.input(&[2, 4]), b.weights(&[4, 3], 1), b.weights(&[3], 2));
            let product = b.op(Op::MatMul, &[x, w]);
            b.op(Op::Binary(Binary::Mul), &[product, c])
        },
        "MatMul Mul",
        "MatMul",
    );
}

#[test]
fn transposes_sink_to_the_end() {
    rewrites(
        |b| {
            let x = b.input(&[1, 2, 4, 4]);
            let (w, v) = (b.weights(&[3, 2, 3, 3], 1), b.weights(&[2, 6, 1, 1], 2));
            let a = b.op(conv(1), &[x, w]);
            let relu = b.op(Op::Unary(Unary::Relu), &[a]);
            let c = b.weights(&[3, 1, 1], 3);
            let clipped = b.op(Op::Binary(Binary::Max), &[relu, c]);
            let joined = b.op(Op::Concat { axis: 1 }, &[relu, clipped]);
            let d = b.op(conv(0), &[joined, v]);
            b.op(Op::Reduce(Reduce { kind: ReduceKind::Mean, axes: vec![2, 3], keep: false }), &[d])
        },
        "Conv Relu Max Concat Conv Reduce",
        "Transpose Conv Relu Max Concat Conv Reduce",
    );
}

/// Heads of a projection, with or without a bias.
fn heads(b: &mut Builder, x: ValueId, width: usize, bias: bool, seed: u64) -> ValueId {
    let w = b.weights(&[6, width], seed);
    let mut y = b.op(Op::MatMul, &[x, w]);
    if bias {
        let bias = b.weights(&[width], seed + 1);
        y = b.op(Op::Binary(Binary::Add), &[y, bias]);
    }
    b.op(Op::Reshape { shape: vec![5, width / 2, 2] }, &[y])
}

#[test]
fn merge_products_whose_columns_are_taken_apart() {
    rewrites(
        |b| {
            let x = b.input(&[5, 6]);
            let (q, k) = (heads(b, x, 4, true, 1), heads(b, x, 4, false, 3));
            let k = b.op(Op::Transpose { perm: vec![0, 2, 1] }, &[k]);
            b.op(Op::MatMul, &[q, k])
        },
        "MatMul Add Reshape MatMul Reshape Transpose MatMul",
        "MatMul Add Slice Reshape Slice Reshape Transpose MatMul",
    );
}

#[test]
fn products_that_are_finished_in_one_pass_stay_apart() {
    rewrites(
        |b| {
            let x = b.input(&[5, 6]);
            let (up, gate) = (b.weights(&[6, 8], 1), b.weights(&[6, 8], 2));
            let (u, g) = (b.op(Op::MatMul, &[x, up]), b.op(Op::MatMul, &[x, gate]));
            let g = b.op(Op::Unary(Unary::Sigmoid), &[g]);
            b.op(Op::Binary(Binary::Mul), &[g, u])
        },
        "MatMul MatMul Sigmoid Mul",
        "MatMul MatMul Sigmoid Mul",
    );
}

#[test]
fn a_product_that_is_given_out_stays_whole() {
    let mut b = Builder::new("whole");
    let x = b.input(&[5, 6]);
    let (v, w) = (b.weights(&[6, 4], 1), b.weights(&[6, 4], 2));
    let (y, z) = (b.op(Op::MatMul, &[x, v]), b.op(Op::MatMul, &[x, w]));
    let turned = b.op(Op::Transpose { perm: vec![1, 0] }, &[z]);
    let product = b.op(Op::MatMul, &[y, turned]);
    let program = check(&b.finish(&[y, product]));
    let products = program.graph.nodes.iter().filter(|n| n.op == Op::MatMul).count();
    assert_eq!(products, 3, "{}", program.graph);
}
