//! Machine code of a depthwise and a pointwise convolution in one kernel: the compiled network computes what the graph
//! means, on one thread, on all cores, and on more.

use std::sync::Arc;

use talweg_artifact::{BuildOptions, Choice, build};
use talweg_graph::reference::{difference, outputs, run_graph};
use talweg_graph::testing::{Builder, random_inputs};
use talweg_graph::{Algorithm, PartitionOptions, optimise, partition};
use talweg_runtime::model::{Model, Session, SessionOptions};
use talweg_target::Target;
use talweg_tensor::Op;
use talweg_tensor::op::{Conv, Layout, Unary};

/// The largest error of sums in another order.
const TOLERANCE: f64 = 1e-5;

#[track_caller]
fn check(channels: usize, filters: usize, [height, width]: [usize; 2], stride: usize) {
    let mut b = Builder::new("separable");
    let x = b.input(&[1, channels, height, width]);
    let conv = |stride: usize, pad: usize, groups: usize| {
        let (begin, end) = (vec![pad; 2], vec![pad; 2]);
        let (strides, dilations) = (vec![stride; 2], vec![1; 2]);
        Op::Conv(Conv { strides, dilations, begin, end, groups, layout: Layout::ChannelsFirst })
    };
    let (w, bias) = (b.weights(&[channels, 1, 3, 3], 1), b.weights(&[channels], 2));
    let y = b.op(conv(stride, 1, channels), &[x, w, bias]);
    let y = b.op(Op::Unary(Unary::Relu), &[y]);
    let (w, bias) = (b.weights(&[filters, channels, 1, 1], 3), b.weights(&[filters], 4));
    let y = b.op(conv(1, 0, 1), &[y, w, bias]);
    let graph = b.finish(&[y]);
    let inputs = random_inputs(&graph, 3);
    let expected = outputs(&graph, &run_graph(&graph, &inputs).unwrap()).unwrap();

    let mut optimised = graph.clone();
    optimise(&mut optimised).unwrap();
    let mut program = partition(optimised, &PartitionOptions::default()).unwrap();
    program.choose(&|fork| fork.ways.len() - 1);
    assert_eq!(program.forks[0].chosen().algorithm, Algorithm::Separable);
    let options = BuildOptions { target: Target::host(), jobs: 2 };
    let artefact = build(&program, &options, &|_| Choice::Default).unwrap();
    let model = Arc::new(Model::from_bytes(&artefact.to_bytes().unwrap()).unwrap());
    let cores = options.target.cores as usize;
    for threads in [1, cores, cores + 3] {
        let mut session = Session::new(model.clone(), &SessionOptions { threads, pin: false }).unwrap();
        let found = session.run(&inputs).unwrap();
        let error = difference(&expected[0], &found[0]);
        assert!(
            error <= TOLERANCE,
            "{channels} to {filters} over {height}x{width}, {threads} threads: {error}"
        );
    }
}

#[test]
fn whole_blocks_and_tails() {
    check(32, 16, [28, 28], 1);
    check(96, 24, [28, 28], 2);
    check(40, 72, [13, 10], 1);
    check(17, 19, [7, 7], 2);
    check(144, 32, [14, 14], 1);
}
