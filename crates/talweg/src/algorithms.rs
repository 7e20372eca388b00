//! Which algorithm each convolution and each matrix product of a network uses, and whether a convolution is one kernel with
//! the one before: by measured times where tuning has some, by an estimate where it has none, and never an algorithm whose
//! expected error is above what the user accepts.

use std::collections::BTreeMap;

use talweg_graph::{Algorithm, Fork, Task, Way};
use talweg_ir::{Dag, Source, Tensor};
use talweg_target::Target;

/// The error of a single operator, relative to the scale of its result, that is accepted unless the user says
/// otherwise.
pub const DEFAULT_MAX_ERROR: f64 = 1e-4;

/// Share of the peak that contractions of the direct algorithm reach by the default schedule.
const DIRECT_EFFICIENCY: f64 = 0.7;
/// Share of the peak that a depthwise and a pointwise convolution in one kernel reach.
const JOINED_EFFICIENCY: f64 = 0.62;
/// Share of the peak that the products of transformed tiles reach.
const PRODUCT_EFFICIENCY: f64 = 0.65;
/// Share of the peak that products with constant weights reach, which are fetched meanwhile.
const STREAMED_EFFICIENCY: f64 = 0.9;
/// Bytes that a core moves per cycle where the data of a stage does not stay in its second cache level.
const FAR_BYTES: f64 = 4.0;
/// Bytes that a core moves per cycle within its second cache level.
const NEAR_BYTES: f64 = 16.0;
/// An algorithm replaces the direct one, or one that was measured, only when it is estimated to take this share of its time
/// or less.
const WORTHWHILE: f64 = 0.9;
/// The same for Strassen's scheme, whose inner loops are those of the direct product.
const WORTHWHILE_SCHEME: f64 = 0.95;

/// The position of the fastest way whose error is accepted. `seconds` knows the measured times of tasks; ways that were
/// not measured are judged by their estimate, scaled by how far a measurement is from its own: the direct way's, or that of
/// the fastest where the direct one was not measured. Two steps become one only by measurement: the gain is small, and lost
/// where blocks of rows do not share well among the threads.
pub fn pick(fork: &Fork, target: &Target, max_error: f64, seconds: &dyn Fn(&Task) -> Option<f64>) -> usize {
    if fork.ways.is_empty() {
        return 0;
    }
    let estimated = |at: usize| estimate(fork, &fork.ways[at], target);
    let accepted = |at: &usize| *at == 0 || fork.ways[*at].algorithm.expected_error() <= max_error;
    let ways = || (0..fork.ways.len()).filter(accepted);
    let times: BTreeMap<usize, f64> =
        ways().filter_map(|at| Some((at, measured(fork, at, seconds)?))).collect();
    let fastest = times.iter().map(|(at, time)| (*at, *time)).min_by(|a, b| a.1.total_cmp(&b.1));
    let known = times.get(&0).map(|time| (0, *time)).or(fastest);
    let scale = known.map_or(1.0, |(at, time)| time / estimated(at));
    let first = fastest.unwrap_or_else(|| (0, estimated(0)));
    let is_open = |at: &usize| {
        *at != first.0 && !times.contains_key(at) && fork.ways[*at].algorithm != Algorithm::Separable
    };
    let others = ways().filter(is_open);
    let others = others.map(|at| (at, estimated(at) * scale / worthwhile(fork.ways[at].algorithm)));
    others.fold(first, |best, next| if next.1 < best.1 { next } else { best }).0
}

/// The measured time of a way, with that of the step before where the other ways do that too.
fn measured(fork: &Fork, way: usize, seconds: &dyn Fn(&Task) -> Option<f64>) -> Option<f64> {
    let before = fork.before.iter().filter(|_| way == 0).map(|before| &before.task);
    before.chain([&fork.ways[way].task]).map(seconds).sum()
}

fn worthwhile(algorithm: Algorithm) -> f64 {
    if algorithm == Algorithm::Strassen { WORTHWHILE_SCHEME } else { WORTHWHILE }
}

/// Whether a step is a matrix product, which Strassen's scheme could do.
pub fn is_product(fork: &Fork) -> bool {
    fork.ways.iter().any(|way| way.algorithm == Algorithm::Strassen)
}

/// Cycles of one core that a way takes, for comparisons among the ways of one step: multiply-adds at a share of the
/// peak, and what passes through memory between the stages, and from the step before where another way does that too.
pub fn estimate(fork: &Fork, way: &Way, target: &Target) -> f64 {
    let dag = &way.task.dag;
    let peak = f64::from(target.vector_bits) / 32.0 * f64::from(target.fma_ports.max(1));
    let compute = dag.multiply_adds() / peak;
    let weights = weight_bytes(dag) / FAR_BYTES;
    let passed = |bytes: f64| 2.0 * bytes / if bytes < target.l2 as f64 { NEAR_BYTES } else { FAR_BYTES };
    match (way.algorithm, &fork.before) {
        (Algorithm::Direct, Some(before)) => {
            let first = &before.task.dag;
            let written: f64 = first.tensors.iter().filter(|t| t.output).map(bytes).sum();
            let all = compute + first.multiply_adds() / peak;
            all / DIRECT_EFFICIENCY + passed(written) + weights + weight_bytes(first) / FAR_BYTES
        }
        (Algorithm::Direct, None) if is_product(fork) => (compute / STREAMED_EFFICIENCY).max(weights),
        // Every core makes the left operand's sums for itself.
        (Algorithm::Strassen, _) => {
            let sums = f64::from(target.cores.max(1)) * passed(summed_bytes(dag));
            (compute / STREAMED_EFFICIENCY).max(weights) + sums
        }
        (Algorithm::Direct, None) => compute / DIRECT_EFFICIENCY + weights,
        (Algorithm::Separable, _) => compute / JOINED_EFFICIENCY + weights,
        (Algorithm::Winograd { .. }, _) => {
            compute / PRODUCT_EFFICIENCY + passed(between_bytes(dag)) + weights
        }
    }
}

fn bytes(tensor: &Tensor) -> f64 {
    let elements: f64 = tensor.const_shape().unwrap_or_default().iter().map(|e| *e as f64).product();
    elements * tensor.dtype.bytes() as f64
}

/// Bytes of the reductions and of the computed tensors they read.
fn between_bytes(dag: &Dag) -> f64 {
    let mut total = 0.0;
    for tensor in &dag.tensors {
        let Some(compute) = tensor.compute().filter(|c| c.reduction.is_some()) else { continue };
        let read = compute.body.reads().into_iter().map(|(t, _)| dag.tensor(t));
        total += bytes(tensor) + read.filter(|t| t.compute().is_some()).map(bytes).sum::<f64>();
    }
    total
}

/// Bytes of the computed tensors that reductions read.
fn summed_bytes(dag: &Dag) -> f64 {
    let reductions = dag.tensors.iter().filter_map(Tensor::compute).filter(|c| c.reduction.is_some());
    let read = reductions.flat_map(|c| c.body.reads()).map(|(t, _)| dag.tensor(t));
    read.filter(|t| t.compute().is_some()).map(bytes).sum()
}

fn weight_bytes(dag: &Dag) -> f64 {
    dag.tensors.iter().filter(|t| t.source == Source::Const).map(bytes).sum()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use talweg_graph::testing::Builder;
    use talweg_graph::{PartitionOptions, Program, optimise, partition};
    use talweg_tensor::Op;
    use talweg_tensor::op::{Conv, Layout};

    use super::*;
    use crate::network::Network;

    fn conv(groups: usize, pad: usize) -> Op {
        let (begin, end) = (vec![pad; 2], vec![pad; 2]);
        let (strides, dilations) = (vec![1; 2], vec![1; 2]);
        Op::Conv(Conv { strides, dilations, begin, end, groups, layout: Layout::ChannelsFirst })
    }

    /// A 3x3 convolution.
    fn convolution() -> Program {
        let mut b = Builder::new("convolution");
        let x = b.input(&[1, 128, 64, 64]);
        let w = b.weights(&[128, 128, 3, 3], 1);
        let y = b.op(conv(1, 1), &[x, w]);
        let mut graph = b.finish(&[y]);
        optimise(&mut graph).expect("legal");
        partition(graph, &PartitionOptions::default()).expect("legal")
    }

    /// A depthwise convolution with a pointwise one behind it.
    fn pair() -> Program {
        let mut b = Builder::new("pair");
        let x = b.input(&[1, 32, 16, 16]);
        let (deep, point) = (b.weights(&[32, 1, 3, 3], 1), b.weights(&[16, 32, 1, 1], 2));
        let y = b.op(conv(32, 1), &[x, deep]);
        let y = b.op(conv(1, 0), &[y, point]);
        let mut graph = b.finish(&[y]);
        optimise(&mut graph).expect("legal");
        partition(graph, &PartitionOptions::default()).expect("legal")
    }

    /// A product with constant weights.
    fn product(rows: usize, columns: usize, depth: usize) -> Program {
        let mut b = Builder::new("product");
        let x = b.input(&[rows, depth]);
        let w = b.weights(&[depth, columns], 1);
        let y = b.op(Op::MatMul, &[x, w]);
        partition(b.finish(&[y]), &PartitionOptions::default()).expect("legal")
    }

    #[test]
    fn strassen_is_taken_where_it_is_faster_and_accurate_enough() {
        let mut target = Target::named("avx512").expect("known");
        (target.l2, target.l3, target.cores) = (1 << 20, 32 << 20, 2);
        let chosen = |program: &Program, max_error: f64, times: [Option<f64>; 2]| {
            let [direct, other] = times;
            let seconds = |task: &Task| if task.dag.name == "matmul" { direct } else { other };
            pick(&program.forks[0], &target, max_error, &seconds)
        };
        let wide = product(128, 3072, 768);
        assert_eq!(chosen(&wide, 1e-4, [None, None]), 1);
        assert_eq!(chosen(&wide, 0.0, [None, None]), 0);
        assert_eq!(chosen(&wide, 0.0, [Some(2.0), Some(1.0)]), 0);
        assert_eq!(chosen(&wide, 1e-4, [Some(1.0), Some(1.1)]), 0);
        // Few rows wait for their weights, and few columns do not make up for the sums, unless measured otherwise.
        let few_rows = product(32, 768, 768);
        let few_columns = product(128, 128, 1024);
        for program in [few_rows, few_columns] {
            assert_eq!(chosen(&program, 1e-4, [None, None]), 0);
            assert_eq!(chosen(&program, 1e-4, [Some(1.0), Some(0.9)]), 1);
        }
    }

    #[test]
    fn two_steps_become_one_only_by_measurement() {
        let program = pair();
        let target = Target::named("avx512").expect("known");
        let fork = &program.forks[0];
        let chosen = |times: [Option<f64>; 3]| {
            let before = fork.before.as_ref().map(|b| b.task.text.clone());
            let [first, second, both] = times;
            pick(fork, &target, 0.0, &|task| match task.dag.name.as_str() {
                "separable" => both,
                _ if Some(&task.text) == before.as_ref() => first,
                _ => second,
            })
        };
        assert_eq!(chosen([None, None, None]), 0);
        assert_eq!(chosen([Some(1.0), Some(2.0), None]), 0);
        assert_eq!(chosen([Some(1.0), None, Some(0.5)]), 1, "the other half is unknown");
        assert_eq!(chosen([Some(1.0), Some(2.0), Some(3.1)]), 0);
        assert_eq!(chosen([Some(1.0), Some(2.0), Some(2.9)]), 1);
    }

    #[test]
    fn what_was_measured_is_taken_where_the_direct_way_was_not() {
        let target = Target::named("avx512").expect("known");
        let program = convolution();
        let fork = &program.forks[0];
        let at = |tile: i64| fork.ways.iter().position(|way| way.algorithm == Algorithm::Winograd { tile });
        let [Some(small), Some(large)] = [2, 4].map(at) else { panic!("both apply") };
        let chosen = |times: &[(usize, f64)], max_error: f64| {
            let known = |task: &Task| times.iter().find(|(at, _)| fork.ways[*at].task.text == task.text);
            pick(fork, &target, max_error, &|task| known(task).map(|(_, seconds)| *seconds))
        };
        assert_eq!(chosen(&[], 1e-2), large, "by the estimate");
        assert_eq!(chosen(&[(small, 1.0), (large, 1.1)], 1e-2), small);
        assert_eq!(chosen(&[(large, 1.0), (small, 1.1)], 1e-2), large);
        assert_eq!(chosen(&[(small, 1.0), (large, 0.9)], 0.0), 0, "they are not accurate enough");
        // What was not measured is judged by how far the measured one is from its estimate.
        assert_eq!(chosen(&[(small, 1.0)], 1e-2), large);
    }

    #[test]
    fn steps_in_one_kernel_are_measured_beside_the_same_apart() {
        let program = pair();
        let target = Target::named("avx512").expect("known");
        let mut network = Network { imported: program.graph.clone(), program, max_error: 1e-4 };
        for taken in [0, 1] {
            network.program.choose(&|_| taken);
            let others = network.contenders(&target).into_iter().map(|(task, _)| task.text);
            let own = network.program.tasks.iter().map(|task| task.text.clone());
            let tuned: BTreeSet<String> = own.chain(others).collect();
            let ways = network.program.ways_of_steps();
            let missing = ways.iter().flatten().flatten().filter(|task| !tuned.contains(&task.text));
            assert_eq!(missing.count(), 0, "when way {taken} is taken");
        }
    }
}
