//! Machine code of attention in one task: the compiled network computes what the graph means, on one thread and on two.

use std::sync::Arc;

use talweg_artifact::{BuildOptions, Choice, build};
use talweg_graph::reference::{difference, outputs, run_graph};
use talweg_graph::testing::{Builder, random_inputs};
use talweg_graph::{PartitionOptions, optimise, partition};
use talweg_runtime::model::{Model, Session, SessionOptions};
use talweg_target::Target;
use talweg_tensor::op::Binary;
use talweg_tensor::{Op, Tensor};

/// Compiles the attention of one layer, projections included, and compares its result with the graph's. A causal mask
/// hides later tokens from earlier ones.
#[track_caller]
fn check(tokens: usize, heads: usize, width: usize, causal: bool) {
    let all = heads * width;
    let mut b = Builder::new("attention");
    let x = b.input(&[1, tokens, 24]);
    let mut project = |seed: u64, perm: Vec<usize>| {
        let (w, bias) = (b.weights(&[24, all], seed), b.weights(&[all], seed + 10));
        let product = b.op(Op::MatMul, &[x, w]);
        let sum = b.op(Op::Binary(Binary::Add), &[product, bias]);
        let split = b.op(Op::Reshape { shape: vec![1, tokens, heads, width] }, &[sum]);
        b.op(Op::Transpose { perm }, &[split])
    };
    let (q, k) = (project(1, vec![0, 2, 1, 3]), project(2, vec![0, 2, 3, 1]));
    let v = project(3, vec![0, 2, 1, 3]);
    let scores = b.op(Op::MatMul, &[q, k]);
    let factor = b.scalar(0.25);
    let mut scaled = b.op(Op::Binary(Binary::Mul), &[scores, factor]);
    if causal {
        let hidden = |at: usize| if at % tokens > at / tokens { f32::NEG_INFINITY } else { 0.0 };
        let mask = Tensor::new([tokens, tokens], (0..tokens * tokens).map(hidden).collect());
        let mask = b.graph.add_constant("mask", mask);
        scaled = b.op(Op::Binary(Binary::Add), &[scaled, mask]);
    }
    let weights = b.op(Op::Softmax { axis: 3, log: false }, &[scaled]);
    let y = b.op(Op::MatMul, &[weights, v]);
    let y = b.op(Op::Transpose { perm: vec![0, 2, 1, 3] }, &[y]);
    let y = b.op(Op::Reshape { shape: vec![1, tokens, all] }, &[y]);
    let graph = b.finish(&[y]);
    let inputs = random_inputs(&graph, 3);
    let expected = outputs(&graph, &run_graph(&graph, &inputs).unwrap()).unwrap();

    let mut optimised = graph.clone();
    optimise(&mut optimised).unwrap();
    let program = partition(optimised, &PartitionOptions::default()).unwrap();
    let names: Vec<&str> = program.tasks.iter().map(|task| task.dag.name.as_str()).collect();
    assert_eq!(names, ["matmul", "attention"]);
    let options = BuildOptions { target: Target::host(), jobs: 2 };
    let bytes = build(&program, &options, &|_| Choice::Default).unwrap().to_bytes().unwrap();
    let model = Arc::new(Model::from_bytes(&bytes).unwrap());
    for threads in [1, 2] {
        let mut session = Session::new(model.clone(), &SessionOptions { threads, pin: false }).unwrap();
        let found = session.run(&inputs).unwrap();
        let error = difference(&expected[0], &found[0]);
        assert!(error <= 1e-5, "{tokens} tokens, {heads} heads of {width}: error {error}");
    }
}

#[test]
fn heads_of_common_sizes() {
    check(128, 4, 64, false);
    check(50, 3, 64, false);
}

#[test]
fn sizes_that_fill_no_vector_and_masks() {
    check(100, 2, 128, true);
    check(33, 5, 20, true);
    check(7, 1, 9, false);
}
