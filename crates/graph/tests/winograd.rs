//! Winograd's algorithm: computes what the direct one does for sizes that are no multiple of the tile, all paddings and
//! channel tails, of transposed convolutions too, within the error it claims; choosing it renumbers the tasks.

mod support;

use support::{assert_default_schedule, program_text};
use talweg_graph::reference::{difference, outputs, run_graph, run_program};
use talweg_graph::testing::{Builder, random_inputs};
use talweg_graph::{Algorithm, Fork, Graph, PartitionOptions, Program, optimise, partition};
use talweg_tensor::Op;
use talweg_tensor::op::{Binary, Conv, ConvTranspose, Layout, Unary};

fn conv(begin: &[usize], end: &[usize]) -> Op {
    let rank = begin.len();
    Op::Conv(Conv {
        strides: vec![1; rank],
        dilations: vec![1; rank],
        begin: begin.to_vec(),
        end: end.to_vec(),
        groups: 1,
        layout: Layout::ChannelsFirst,
    })
}

/// A transposed convolution with stride two; less is cut at its end where outputs are padded.
fn transposed(begin: i64, end: i64) -> Op {
    Op::ConvTranspose(ConvTranspose {
        strides: vec![2; 2],
        dilations: vec![1; 2],
        begin: vec![begin; 2],
        end: vec![end; 2],
        groups: 1,
        layout: Layout::ChannelsFirst,
    })
}

/// A convolution with bias, a residual and an activation.
fn network(
    channels: usize,
    filters: usize,
    kernel: &[usize],
    extents: &[usize],
    begin: &[usize],
    end: &[usize],
) -> Graph {
    let weights: Vec<usize> = [filters, channels].iter().chain(kernel).copied().collect();
    network_of(conv(begin, end), &weights, (channels, filters), extents)
}

/// The same with a transposed convolution.
fn transposed_network(
    op: Op,
    (channels, filters): (usize, usize),
    kernel: usize,
    extents: &[usize],
) -> Graph {
    network_of(op, &[channels, filters, kernel, kernel], (channels, filters), extents)
}

fn network_of(op: Op, weights: &[usize], (channels, filters): (usize, usize), extents: &[usize]) -> Graph {
    let mut b = Builder::new("winograd");
    let shape: Vec<usize> = [1, channels].iter().chain(extents).copied().collect();
    let x = b.input(&shape);
    let (w, bias) = (b.weights(weights, 3), b.weights(&[filters], 4));
    let c = b.op(op, &[x, w, bias]);
    let residual = b.graph.ty(c).shape.clone();
    let r = b.input(&residual);
    let sum = b.op(Op::Binary(Binary::Add), &[c, r]);
    let y = b.op(Op::Unary(Unary::Relu), &[sum]);
    b.finish(&[y])
}

fn cut(graph: &Graph) -> Program {
    let mut optimised = graph.clone();
    optimise(&mut optimised).unwrap();
    partition(optimised, &PartitionOptions::default()).unwrap()
}

fn position(fork: &Fork, algorithm: Algorithm) -> usize {
    fork.ways.iter().position(|way| way.algorithm == algorithm).expect("the algorithm applies")
}

#[track_caller]
fn check(graph: &Graph) {
    // As it is cut, by the direct algorithm.
    support::check(graph);
    let inputs = random_inputs(graph, 5);
    let expected = outputs(graph, &run_graph(graph, &inputs).unwrap()).unwrap();
    let program = cut(graph);
    assert_eq!(program.forks.len(), 1, "{}", program_text(&program));
    for tile in [2, 4] {
        let algorithm = Algorithm::Winograd { tile };
        let mut chosen = program.clone();
        chosen.choose(&|fork| position(fork, algorithm));
        assert_eq!(chosen.forks[0].chosen().algorithm, algorithm);
        assert_eq!(chosen.tasks.len(), program.tasks.len(), "{}", program_text(&chosen));
        let found = outputs(&chosen.graph, &run_program(&chosen, &inputs).unwrap()).unwrap();
        let error = difference(&expected[0], &found[0]);
        assert!(error <= algorithm.expected_error(), "{algorithm}: error {error}\n{}", program_text(&chosen));
        chosen.tasks.iter().for_each(|task| assert_default_schedule(&task.dag));
    }
}

#[test]
fn sizes_that_are_no_multiple_of_the_tile() {
    for (height, width) in [(8, 8), (7, 9), (14, 5), (6, 11)] {
        check(&network(16, 16, &[3, 3], &[height, width], &[1, 1], &[1, 1]));
    }
}

#[test]
fn paddings_of_all_kinds() {
    for (begin, end) in [([0, 0], [0, 0]), ([1, 0], [0, 1]), ([2, 1], [0, 2])] {
        check(&network(8, 16, &[3, 3], &[9, 8], &begin, &end));
    }
}

#[test]
fn channels_that_are_no_multiple_of_a_vector() {
    for (channels, filters) in [(8, 24), (19, 9), (33, 40)] {
        check(&network(channels, filters, &[3, 3], &[8, 6], &[1, 1], &[1, 1]));
    }
}

#[test]
fn three_dimensions_with_any_depth() {
    check(&network(16, 16, &[3, 3, 3], &[3, 8, 6], &[1, 1, 1], &[1, 1, 1]));
    check(&network(8, 16, &[1, 3, 3], &[2, 7, 6], &[0, 1, 1], &[0, 1, 1]));
    check(&network(8, 8, &[2, 3, 3], &[4, 6, 5], &[1, 0, 1], &[0, 1, 1]));
}

#[test]
fn transposed_convolutions_by_their_phases() {
    for (height, width) in [(4, 4), (5, 7), (8, 6), (9, 4)] {
        check(&transposed_network(transposed(1, 1), (16, 16), 4, &[height, width]));
    }
    for (channels, filters) in [(8, 24), (19, 9)] {
        check(&transposed_network(transposed(1, 1), (channels, filters), 4, &[4, 6]));
    }
}

#[test]
fn transposed_convolutions_with_other_ends() {
    // Outputs of an odd extent, three taps, and output padding with either.
    for (kernel, end) in [(4, 0), (4, 2), (4, 3), (3, 1), (3, 0), (3, 2)] {
        check(&transposed_network(transposed(1, end), (8, 8), kernel, &[6, 5]));
    }
}

#[test]
fn other_transposed_convolutions_have_no_choice() {
    for (begin, kernel, channels) in [(0, 4, 8), (2, 4, 8), (1, 5, 8), (1, 2, 8), (1, 4, 4)] {
        let graph = transposed_network(transposed(begin, 1), (channels, 8), kernel, &[6, 6]);
        assert!(cut(&graph).forks.is_empty(), "{begin} {kernel} {channels}");
    }
}

#[test]
fn other_convolutions_have_no_choice() {
    let mut b = Builder::new("others");
    let x = b.input(&[1, 16, 8, 8]);
    let pointwise = b.weights(&[16, 16, 1, 1], 1);
    let y = b.op(conv(&[0, 0], &[0, 0]), &[x, pointwise]);
    let strided = b.weights(&[16, 16, 3, 3], 2);
    let mut op = conv(&[1, 1], &[1, 1]);
    if let Op::Conv(conv) = &mut op {
        conv.strides = vec![2, 2];
    }
    let y = b.op(op, &[y, strided]);
    let few = b.weights(&[4, 16, 3, 3], 3);
    let y = b.op(conv(&[1, 1], &[1, 1]), &[y, few]);
    assert!(cut(&b.finish(&[y])).forks.is_empty());
}

#[test]
fn choosing_shares_tasks_and_can_be_taken_back() {
    let mut b = Builder::new("four");
    let mut y = b.input(&[1, 16, 8, 8]);
    for seed in 1..=4 {
        let w = b.weights(&[16, 16, 3, 3], seed);
        y = b.op(conv(&[1, 1], &[1, 1]), &[y, w]);
    }
    let mut program = cut(&b.finish(&[y]));
    assert_eq!(program.forks.len(), 4);
    let direct = program_text(&program);
    // The first changes the layout of its input; the others are the same task.
    let most_uses = |program: &Program| {
        let convs = program.tasks.iter().filter(|t| t.dag.name.starts_with("conv"));
        convs.map(|t| t.uses).max()
    };
    assert_eq!(most_uses(&program), Some(3), "{direct}");
    let others = program.alternatives().len();
    program.choose(&|fork| position(fork, Algorithm::Winograd { tile: 4 }));
    assert_eq!(most_uses(&program), Some(3), "{}", program_text(&program));
    assert_eq!(program.alternatives().len(), others);
    program.choose(&|_| 0);
    assert_eq!(program_text(&program), direct);
}
