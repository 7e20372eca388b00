//! Machine code of products by Strassen's scheme: the compiled network computes what the graph means, on one thread, on
//! all cores, and on more.

use std::sync::Arc;

use talweg_artifact::{BuildOptions, Choice, build};
use talweg_graph::reference::{difference, outputs, run_graph};
use talweg_graph::testing::{Builder, random_inputs};
use talweg_graph::{Algorithm, PartitionOptions, optimise, partition};
use talweg_runtime::model::{Model, Session, SessionOptions};
use talweg_target::Target;
use talweg_tensor::Op;
use talweg_tensor::op::{Binary, Unary};

/// Compiles a product with a bias, and an activation if there is one, and compares its result with the graph's.
#[track_caller]
fn check(rows: usize, columns: usize, depth: usize, activation: Option<Unary>) {
    let mut b = Builder::new("strassen");
    let x = b.input(&[1, rows, depth]);
    let (w, bias) = (b.weights(&[depth, columns], 1), b.weights(&[columns], 2));
    let y = b.op(Op::MatMul, &[x, w]);
    let mut y = b.op(Op::Binary(Binary::Add), &[y, bias]);
    if let Some(activation) = activation {
        y = b.op(Op::Unary(activation), &[y]);
    }
    let graph = b.finish(&[y]);
    let inputs = random_inputs(&graph, 3);
    let expected = outputs(&graph, &run_graph(&graph, &inputs).unwrap()).unwrap();

    let algorithm = Algorithm::Strassen;
    let mut optimised = graph.clone();
    optimise(&mut optimised).unwrap();
    let mut program = partition(optimised, &PartitionOptions::default()).unwrap();
    program.choose(&|fork| fork.ways.iter().position(|way| way.algorithm == algorithm).unwrap_or(0));
    assert_eq!(program.forks[0].chosen().algorithm, algorithm);
    let options = BuildOptions { target: Target::host(), jobs: 2 };
    let artefact = build(&program, &options, &|_| Choice::Default).unwrap();
    // The weights as they were are not kept.
    let bytes = artefact.weights_bytes() as usize;
    assert!(bytes < 8 * depth * columns + (1 << 16), "{bytes} bytes of weights");
    let model = Arc::new(Model::from_bytes(&artefact.to_bytes().unwrap()).unwrap());
    let cores = options.target.cores as usize;
    for threads in [1, cores, cores + 3] {
        let mut session = Session::new(model.clone(), &SessionOptions { threads, pin: false }).unwrap();
        let found = session.run(&inputs).unwrap();
        let error = difference(&expected[0], &found[0]);
        assert!(error <= algorithm.expected_error(), "{rows}x{columns}x{depth}: error {error}");
    }
}

#[test]
fn whole_tiles() {
    check(64, 192, 128, Some(Unary::Relu));
    check(128, 256, 64, None);
}

#[test]
fn tails_of_rows_columns_and_depth() {
    check(50, 130, 66, Some(Unary::Sigmoid));
    check(18, 70, 250, None);
    check(100, 344, 128, Some(Unary::Relu));
}

#[test]
fn rows_in_several_blocks() {
    check(2050, 96, 64, Some(Unary::Relu));
}
