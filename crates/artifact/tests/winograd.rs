//! Machine code of convolutions by Winograd's algorithm: the compiled network computes what the graph means, on one
//! thread, on all cores, and on more.

use std::sync::Arc;

use talweg_artifact::{BuildOptions, Choice, build};
use talweg_graph::reference::{difference, outputs, run_graph};
use talweg_graph::testing::{Builder, random_inputs};
use talweg_graph::{Algorithm, PartitionOptions, optimise, partition};
use talweg_runtime::model::{Model, Session, SessionOptions};
use talweg_target::Target;
use talweg_tensor::Op;
use talweg_tensor::op::{Conv, ConvTranspose, Layout, Unary};

/// A convolution with an activation.
#[track_caller]
fn check(channels: usize, filters: usize, extents: &[usize], tile: i64) {
    let rank = extents.len();
    let mut weights = vec![filters, channels];
    weights.extend(vec![3; rank]);
    let op = Conv {
        strides: vec![1; rank],
        dilations: vec![1; rank],
        begin: vec![1; rank],
        end: vec![1; rank],
        groups: 1,
        layout: Layout::ChannelsFirst,
    };
    check_op(Op::Conv(op), &weights, (channels, filters), extents, tile);
}

/// A transposed convolution with an activation.
#[track_caller]
fn check_transposed(channels: usize, filters: usize, extents: &[usize], tile: i64) {
    let op = ConvTranspose {
        strides: vec![2; 2],
        dilations: vec![1; 2],
        begin: vec![1; 2],
        end: vec![1; 2],
        groups: 1,
        layout: Layout::ChannelsFirst,
    };
    check_op(Op::ConvTranspose(op), &[channels, filters, 4, 4], (channels, filters), extents, tile);
}

/// Compiles an operator with an activation by an algorithm and compares its result with the graph's.
#[track_caller]
fn check_op(op: Op, weights: &[usize], (channels, filters): (usize, usize), extents: &[usize], tile: i64) {
    let mut b = Builder::new("winograd");
    let shape: Vec<usize> = [1, channels].iter().chain(extents).copied().collect();
    let x = b.input(&shape);
    let (w, bias) = (b.weights(weights, 1), b.weights(&[filters], 2));
    let y = b.op(op, &[x, w, bias]);
    let y = b.op(Op::Unary(Unary::Relu), &[y]);
    let graph = b.finish(&[y]);
    let inputs = random_inputs(&graph, 3);
    let expected = outputs(&graph, &run_graph(&graph, &inputs).unwrap()).unwrap();

    let algorithm = Algorithm::Winograd { tile };
    let mut optimised = graph.clone();
    optimise(&mut optimised).unwrap();
    let mut program = partition(optimised, &PartitionOptions::default()).unwrap();
    program.choose(&|fork| fork.ways.iter().position(|way| way.algorithm == algorithm).unwrap_or(0));
    assert_eq!(program.forks[0].chosen().algorithm, algorithm);
    let options = BuildOptions { target: Target::host(), jobs: 2 };
    let artefact = build(&program, &options, &|_| Choice::Default).unwrap();
    let (arena, bound) = (artefact.manifest.arena_bytes, artefact.arena_bound);
    assert!(10 * arena <= 13 * bound, "an arena of {arena} bytes, {bound} would do");
    let model = Arc::new(Model::from_bytes(&artefact.to_bytes().unwrap()).unwrap());
    let cores = options.target.cores as usize;
    for threads in [1, cores, cores + 3] {
        let mut session = Session::new(model.clone(), &SessionOptions { threads, pin: false }).unwrap();
        // The stages between the transforms are part of the arena, but for threads nobody planned with.
        assert_eq!(session.memory_bytes() as u64 > arena, threads > cores);
        let found = session.run(&inputs).unwrap();
        let error = difference(&expected[0], &found[0]);
        assert!(error <= algorithm.expected_error(), "{algorithm}, {shape:?}: error {error}");
    }
}

#[test]
fn two_dimensions() {
    for tile in [2, 4] {
        check(32, 64, &[16, 16], tile);
        check(40, 24, &[13, 10], tile);
        check(16, 48, &[7, 7], tile);
    }
}

#[test]
fn three_dimensions() {
    for tile in [2, 4] {
        check(32, 32, &[4, 12, 12], tile);
        check(16, 24, &[2, 7, 9], tile);
    }
}

#[test]
fn transposed_by_phases() {
    for tile in [2, 4] {
        check_transposed(32, 64, &[8, 8], tile);
        check_transposed(40, 24, &[13, 10], tile);
        check_transposed(16, 48, &[4, 5], tile);
    }
}
