//! Random small graphs keep their meaning through rewriting and cutting.

mod support;

use proptest::prelude::*;
use support::check;
use talweg_graph::testing::Builder;
use talweg_graph::{Graph, ValueId};
use talweg_tensor::Op;
use talweg_tensor::op::{Binary, Conv, Layout, Pool, PoolKind, Reduce, ReduceKind, SliceAxis, Unary};

/// Adds one operator, chosen by a number, that the last value can take.
fn grow(b: &mut Builder, values: &[ValueId], choice: u8, seed: u64) -> ValueId {
    let x = values[values.len() - 1];
    let shape = b.graph.ty(x).shape.clone();
    let rank = shape.len();
    let last = shape.last().copied().unwrap_or(1);
    let image = rank == 4 && shape[2] >= 2 && shape[3] >= 2;
    match choice % 16 {
        0 => b.op(Op::Unary(Unary::Relu), &[x]),
        1 => b.op(Op::Unary(Unary::Tanh), &[x]),
        2 => {
            let c = b.weights(&[last], seed);
            b.op(Op::Binary(Binary::Mul), &[x, c])
        }
        3 => {
            let earlier = values.iter().copied().find(|v| b.graph.ty(*v).shape == shape).unwrap_or(x);
            b.op(Op::Binary(Binary::Add), &[x, earlier])
        }
        4 => {
            let perm = (0..rank).map(|d| (d + 1 + seed as usize % rank.max(1)) % rank).collect();
            b.op(Op::Transpose { perm }, &[x])
        }
        5 => {
            let total: usize = shape.iter().product();
            let shape = match (seed % 3, total.is_multiple_of(4)) {
                (0, true) => vec![4, total / 4],
                (1, true) => vec![1, 2, total / 4, 2],
                _ => vec![1, total],
            };
            b.op(Op::Reshape { shape }, &[x])
        }
        6 => {
            let axes = vec![seed as usize % rank];
            let kind = if seed.is_multiple_of(2) { ReduceKind::Mean } else { ReduceKind::Max };
            b.op(Op::Reduce(Reduce { kind, axes, keep: true }), &[x])
        }
        7 => b.op(Op::Softmax { axis: seed as usize % rank, log: false }, &[x]),
        8 if rank >= 2 => {
            let w = b.weights(&[last, 3], seed);
            b.op(Op::MatMul, &[x, w])
        }
        9 => {
            let scale = b.weights(&[last], seed);
            b.op(Op::LayerNorm { axis: rank - 1, epsilon: 1e-3 }, &[x, scale])
        }
        10 | 11 if image => {
            let channels = shape[1];
            let groups = if choice.is_multiple_of(2) { channels } else { 1 };
            let filters = if groups == 1 { 3 } else { channels };
            let w = b.weights(&[filters, channels / groups, 2, 2], seed);
            let conv = Conv {
                strides: vec![1 + seed as usize % 2, 1],
                dilations: vec![1; 2],
                begin: vec![1, 0],
                end: vec![0, 1],
                groups,
                layout: Layout::ChannelsFirst,
            };
            b.op(Op::Conv(conv), &[x, w])
        }
        12 if image => {
            let pool = Pool {
                kind: if seed.is_multiple_of(2) {
                    PoolKind::Max
                } else {
                    PoolKind::Average { count_pad: false }
                },
                window: vec![2, 2],
                strides: vec![1, 2],
                dilations: vec![1; 2],
                begin: vec![0, 1],
                end: vec![1, 0],
                ceil: false,
                column_major: false,
                layout: Layout::ChannelsFirst,
            };
            b.op(Op::Pool(pool), &[x])
        }
        13 => b.op(Op::Concat { axis: seed as usize % rank }, &[x, x]),
        14 => {
            let whole = |e: &usize| SliceAxis { begin: 0, step: 1, count: *e };
            let mut axes: Vec<SliceAxis> = shape.iter().map(whole).collect();
            let d = seed as usize % rank;
            axes[d] = SliceAxis { begin: shape[d] - 1, step: -1, count: shape[d].div_ceil(2) };
            b.op(Op::Slice { axes }, &[x])
        }
        _ => {
            let c = b.scalar(0.5 + seed as f32 / 300.0);
            b.op(Op::Binary(Binary::Mul), &[x, c])
        }
    }
}

fn graph(choices: &[(u8, u8)], extra: bool) -> Graph {
    let mut b = Builder::new("random");
    let mut values = vec![b.input(&[1, 3, 4, 4])];
    for (choice, seed) in choices {
        let value = grow(&mut b, &values, *choice, u64::from(*seed));
        if b.graph.ty(value).len() > 4096 {
            break;
        }
        values.push(value);
    }
    let end = values[values.len() - 1];
    let end = b.op(Op::Unary(Unary::Sigmoid), &[end]);
    let mut outputs = vec![end];
    if extra && values.len() > 2 {
        outputs.push(values[values.len() / 2]);
    }
    b.finish(&outputs)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn meaning_stays(choices in prop::collection::vec(any::<(u8, u8)>(), 1..9), extra in any::<bool>()) {
        check(&graph(&choices, extra));
    }
}
