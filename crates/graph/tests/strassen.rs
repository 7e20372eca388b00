//! Strassen's scheme: computes what the direct product does, with everything that may follow it, within the error it
//! claims; products that have no halves, or no constant weights, have no choice.

mod support;

use support::{assert_default_schedule, program_text};
use talweg_graph::reference::{difference, outputs, run_graph, run_program};
use talweg_graph::testing::{Builder, random_inputs};
use talweg_graph::{Algorithm, Fork, Graph, PartitionOptions, Program, optimise, partition};
use talweg_tensor::Op;
use talweg_tensor::op::{Binary, Unary};

fn cut(graph: &Graph) -> Program {
    let mut optimised = graph.clone();
    optimise(&mut optimised).unwrap();
    partition(optimised, &PartitionOptions::default()).unwrap()
}

fn position(fork: &Fork) -> usize {
    fork.ways.iter().position(|way| way.algorithm == Algorithm::Strassen).expect("the scheme applies")
}

#[track_caller]
fn check(graph: &Graph) {
    // As it is cut, by the direct algorithm.
    support::check(graph);
    let inputs = random_inputs(graph, 5);
    let expected = outputs(graph, &run_graph(graph, &inputs).unwrap()).unwrap();
    let program = cut(graph);
    assert_eq!(program.forks.len(), 1, "{}", program_text(&program));
    let mut chosen = program.clone();
    chosen.choose(&position);
    assert_eq!(chosen.forks[0].chosen().algorithm, Algorithm::Strassen);
    assert_eq!(chosen.tasks.len(), program.tasks.len(), "{}", program_text(&chosen));
    let found = outputs(&chosen.graph, &run_program(&chosen, &inputs).unwrap()).unwrap();
    let error = difference(&expected[0], &found[0]);
    assert!(error <= Algorithm::Strassen.expected_error(), "error {error}\n{}", program_text(&chosen));
    chosen.tasks.iter().for_each(|task| assert_default_schedule(&task.dag));
    chosen.choose(&|_| 0);
    assert_eq!(program_text(&chosen), program_text(&program));
}

/// A product with bias, a residual and an activation.
fn network(leading: &[usize], depth: usize, columns: usize) -> Graph {
    let mut b = Builder::new("strassen");
    let shape: Vec<usize> = leading.iter().copied().chain([depth]).collect();
    let x = b.input(&shape);
    let (w, bias) = (b.weights(&[depth, columns], 3), b.weights(&[columns], 4));
    let y = b.op(Op::MatMul, &[x, w]);
    let y = b.op(Op::Binary(Binary::Add), &[y, bias]);
    let shape: Vec<usize> = leading.iter().copied().chain([columns]).collect();
    let residual = b.input(&shape);
    let y = b.op(Op::Binary(Binary::Add), &[y, residual]);
    let y = b.op(Op::Unary(Unary::Relu), &[y]);
    b.finish(&[y])
}

#[test]
fn even_extents_of_all_kinds() {
    for (rows, depth, columns) in [(16, 64, 64), (50, 96, 130), (100, 66, 70), (18, 258, 64)] {
        check(&network(&[rows], depth, columns));
        check(&network(&[1, rows], depth, columns));
    }
}

#[test]
fn nothing_before_and_nothing_behind() {
    let mut b = Builder::new("alone");
    let x = b.input(&[32, 64]);
    let w = b.weights(&[64, 96], 1);
    let y = b.op(Op::MatMul, &[x, w]);
    check(&b.finish(&[y]));
}

#[test]
fn something_before_and_a_shape_behind() {
    let mut b = Builder::new("heads");
    let x = b.input(&[1, 20, 64]);
    let w = b.weights(&[64, 96], 1);
    let y = b.op(Op::Unary(Unary::Sigmoid), &[x]);
    let y = b.op(Op::MatMul, &[y, w]);
    let y = b.op(Op::Reshape { shape: vec![1, 20, 6, 16] }, &[y]);
    check(&b.finish(&[y]));
}

#[test]
fn other_products_have_no_choice() {
    let products: [(&[usize], [usize; 2]); 5] = [
        (&[17, 64], [64, 64]),
        (&[8, 64], [64, 64]),
        (&[32, 65], [65, 64]),
        (&[32, 64], [64, 65]),
        (&[32, 64], [64, 32]),
    ];
    for (left, right) in products {
        let mut b = Builder::new("others");
        let x = b.input(left);
        let w = b.weights(&right, 1);
        let y = b.op(Op::MatMul, &[x, w]);
        assert!(cut(&b.finish(&[y])).forks.is_empty(), "{left:?} {right:?}");
    }
    let mut b = Builder::new("activations");
    let (x, y) = (b.input(&[32, 64]), b.input(&[64, 64]));
    let y = b.op(Op::MatMul, &[x, y]);
    assert!(cut(&b.finish(&[y])).forks.is_empty());
}
