//! Depthwise and pointwise convolutions as one task: it computes what both do, takes the place of both steps, and is
//! offered only where nobody else needs what lies between.

mod support;

use support::{TOLERANCE, assert_default_schedule, program_text};
use talweg_graph::reference::{difference, outputs, run_graph, run_program};
use talweg_graph::testing::{Builder, random_inputs};
use talweg_graph::{Algorithm, Graph, PartitionOptions, Program, Task, ValueId, Work, optimise, partition};
use talweg_tensor::Op;
use talweg_tensor::op::{Binary, Conv, Layout, Unary};

fn conv(stride: usize, pad: usize, groups: usize) -> Op {
    let (begin, end) = (vec![pad; 2], vec![pad; 2]);
    let (strides, dilations) = (vec![stride; 2], vec![1; 2]);
    Op::Conv(Conv { strides, dilations, begin, end, groups, layout: Layout::ChannelsFirst })
}

/// A depthwise convolution with an activation and a pointwise one behind it; the value between them, too.
fn pair(
    b: &mut Builder,
    x: ValueId,
    channels: usize,
    filters: usize,
    stride: usize,
    pad: usize,
) -> (ValueId, ValueId) {
    let (w, bias) = (b.weights(&[channels, 1, 3, 3], 3), b.weights(&[channels], 4));
    let deep = b.op(conv(stride, pad, channels), &[x, w, bias]);
    let between = b.op(Op::Unary(Unary::Relu), &[deep]);
    let (w, bias) = (b.weights(&[filters, channels, 1, 1], 5), b.weights(&[filters], 6));
    (between, b.op(conv(1, 0, 1), &[between, w, bias]))
}

fn cut(graph: &Graph) -> Program {
    let mut optimised = graph.clone();
    optimise(&mut optimised).unwrap();
    partition(optimised, &PartitionOptions::default()).unwrap()
}

#[track_caller]
fn check(channels: usize, filters: usize, [height, width]: [usize; 2], stride: usize, pad: usize) {
    let mut b = Builder::new("separable");
    let x = b.input(&[1, channels, height, width]);
    let (_, y) = pair(&mut b, x, channels, filters, stride, pad);
    let shape = b.graph.ty(y).shape.clone();
    let residual = b.input(&shape);
    let y = b.op(Op::Binary(Binary::Add), &[y, residual]);
    let graph = b.finish(&[y]);
    support::check(&graph);
    let inputs = random_inputs(&graph, 5);
    let expected = outputs(&graph, &run_graph(&graph, &inputs).unwrap()).unwrap();
    let program = cut(&graph);
    assert_eq!(program.forks.len(), 1, "{}", program_text(&program));
    let mut joined = program.clone();
    joined.choose(&|fork| fork.ways.len() - 1);
    assert_eq!(joined.forks[0].chosen().algorithm, Algorithm::Separable);
    assert_eq!(joined.steps.len() + 1, program.steps.len(), "{}", program_text(&joined));
    let step = joined.steps.iter().find(|step| step.nodes.len() > 2).expect("the step stands for both");
    assert!(step.nodes.contains(&"n0".to_string()) && step.nodes.contains(&"n2".to_string()), "{step:?}");
    let found = outputs(&joined.graph, &run_program(&joined, &inputs).unwrap()).unwrap();
    let error = difference(&expected[0], &found[0]);
    assert!(error <= TOLERANCE, "error {error}\n{}", program_text(&joined));
    joined.tasks.iter().for_each(|task| assert_default_schedule(&task.dag));
    // What is not chosen can still be measured, and be taken again.
    let others: Vec<String> = joined.alternatives().into_iter().map(|task| task.dag.name).collect();
    assert_eq!(others, ["conv", "conv"]);
    joined.choose(&|_| 0);
    assert_eq!(program_text(&joined), program_text(&program));
}

#[test]
fn strides_paddings_and_tails() {
    check(16, 24, [8, 8], 1, 1);
    check(24, 16, [9, 7], 2, 1);
    check(19, 37, [7, 11], 1, 0);
    check(33, 5, [5, 6], 1, 2);
    check(3, 1, [4, 4], 1, 1);
}

#[test]
fn a_value_that_others_need_is_stored() {
    let mut b = Builder::new("needed");
    let x = b.input(&[1, 16, 8, 8]);
    let (between, y) = pair(&mut b, x, 16, 8, 1, 1);
    assert!(cut(&b.finish(&[y, between])).forks.is_empty());
}

#[test]
fn pairs_one_behind_the_other_are_chosen_apart() {
    let mut b = Builder::new("two");
    let x = b.input(&[1, 16, 8, 8]);
    let (_, y) = pair(&mut b, x, 16, 24, 1, 1);
    let (_, y) = pair(&mut b, y, 24, 16, 2, 1);
    let graph = b.finish(&[y]);
    let inputs = random_inputs(&graph, 5);
    let expected = outputs(&graph, &run_graph(&graph, &inputs).unwrap()).unwrap();
    let program = cut(&graph);
    assert_eq!(program.forks.len(), 2);
    // Every kernel belongs to one step; both pairs are two tasks or one.
    let ways = program.ways_of_steps();
    let kernels = program.steps.iter().filter(|step| matches!(step.work, Work::Kernel(_))).count();
    assert_eq!(ways.iter().map(|ways| ways[0].len()).sum::<usize>(), kernels);
    let sizes = |ways: &Vec<Vec<&Task>>| ways.iter().map(Vec::len).collect::<Vec<_>>();
    let forked: Vec<Vec<usize>> = ways.iter().filter(|ways| ways.len() > 1).map(sizes).collect();
    assert_eq!(forked, [[2, 1], [2, 1]]);
    for taken in [[0, 1], [1, 0], [1, 1]] {
        let mut chosen = program.clone();
        let second = program.forks[1].step;
        chosen.choose(&|fork| taken[usize::from(fork.step == second)]);
        assert_eq!(chosen.steps.len() + taken.iter().sum::<usize>(), program.steps.len());
        let found = outputs(&chosen.graph, &run_program(&chosen, &inputs).unwrap()).unwrap();
        let error = difference(&expected[0], &found[0]);
        assert!(error <= TOLERANCE, "{taken:?}: error {error}\n{}", program_text(&chosen));
    }
}
