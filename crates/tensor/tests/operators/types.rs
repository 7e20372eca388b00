//! The types that are inferred are those that evaluation gives, for random shapes and element types.

use proptest::prelude::*;
use talweg_tensor::op::{
    Activation, ArgReduce, Binary, Conv, ConvTranspose, Coordinates, Direction, Layout, NearestRule, PadMode,
    Pool, PoolKind, Quantize, Recurrent, Reduce, ReduceKind, Resize, ResizeMode, ScatterReduction, SliceAxis,
    Unary,
};
use talweg_tensor::{ElementType, Op, Tensor, TensorType, evaluate, infer};

fn extents(rank: std::ops::Range<usize>) -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(0usize..5, rank)
}

/// Values that are valid indices into everything that is not empty.
fn zeros(ty: TensorType) -> Tensor {
    Tensor::from_f64(ty.element, ty.shape.clone(), vec![0.0; ty.len()])
}

fn varied(ty: TensorType) -> Tensor {
    let count = ty.len();
    Tensor::from_f64(ty.element, ty.shape, (0..count).map(|i| (i * 7 % 11) as f64 - 5.0))
}

/// Evaluates, and checks that inference gives the types found.
fn agree(op: &Op, inputs: &[Option<&Tensor>]) -> Result<(), TestCaseError> {
    let types: Vec<Option<&TensorType>> = inputs.iter().map(|t| t.map(Tensor::ty)).collect();
    match (infer(op, &types), evaluate(op, inputs)) {
        (Ok(types), Ok(values)) => {
            let found: Vec<TensorType> = values.iter().map(|v| v.ty().clone()).collect();
            prop_assert_eq!(types, found);
            for value in &values {
                prop_assert_eq!(value.bytes().len(), value.ty().bytes());
            }
        }
        (Err(a), Err(b)) => prop_assert_eq!(a, b),
        (Ok(_), Err(error)) => prop_assert!(false, "{op:?}: inferred but {error}"),
        (Err(error), Ok(_)) => prop_assert!(false, "{op:?}: evaluated but {error}"),
    }
    Ok(())
}

fn element() -> impl Strategy<Value = ElementType> {
    prop::sample::select(&ElementType::ALL[..])
}

fn layout() -> impl Strategy<Value = Layout> {
    prop::sample::select(&[Layout::ChannelsFirst, Layout::ChannelsLast][..])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn elementwise(element in element(), shape in extents(0..4), drop in 0usize..3, ones in any::<[bool; 4]>(), to in element()) {
        let x = varied(TensorType::new(element, shape.clone()));
        let mut other: Vec<usize> = shape[drop.min(shape.len())..].to_vec();
        for (extent, one) in other.iter_mut().zip(ones) {
            *extent = if one { 1 } else { *extent };
        }
        let y = varied(TensorType::new(element, other));
        for unary in [Unary::Identity, Unary::Neg, Unary::Exp, Unary::Not, Unary::IsNan, Unary::BitNot,
            Unary::Clip { min: Some(-1.0), max: None }, Unary::Gelu { tanh: true }] {
            agree(&Op::Unary(unary), &[Some(&x)])?;
        }
        for binary in [Binary::Add, Binary::Div, Binary::Mod { truncated: false }, Binary::Pow, Binary::Max,
            Binary::And, Binary::BitXor, Binary::ShiftLeft, Binary::Equal, Binary::Less, Binary::PRelu] {
            agree(&Op::Binary(binary), &[Some(&x), Some(&y)])?;
        }
        agree(&Op::Cast { to }, &[Some(&x)])?;
        let condition = varied(TensorType::new(ElementType::Bool, shape));
        agree(&Op::Where, &[Some(&condition), Some(&y), Some(&x)])?;
    }

    #[test]
    fn movement(element in element(), shape in extents(1..4), seed in any::<u32>()) {
        let ty = TensorType::new(element, shape.clone());
        let x = varied(ty.clone());
        let rank = shape.len();
        let pick = |i: usize, modulus: usize| (seed as usize >> (3 * i)) % modulus;
        let axis = pick(0, rank);
        let mut perm: Vec<usize> = (0..rank).collect();
        perm.rotate_left(axis);
        agree(&Op::Transpose { perm }, &[Some(&x)])?;
        agree(&Op::Reshape { shape: vec![x.len()] }, &[Some(&x)])?;
        agree(&Op::Concat { axis }, &[Some(&x), Some(&x), Some(&x)])?;
        let axes: Vec<SliceAxis> = shape.iter().enumerate().map(|(i, &extent)| {
            let count = pick(i, extent + 1);
            if pick(i, 2) == 0 { SliceAxis { begin: extent - count, step: 1, count } }
            else { SliceAxis { begin: extent.saturating_sub(1), step: -1, count } }
        }).collect();
        agree(&Op::Slice { axes }, &[Some(&x)])?;
        agree(&Op::Expand { shape: [&[2], &shape[..]].concat() }, &[Some(&x)])?;
        agree(&Op::Tile { repeats: (0..rank).map(|i| pick(i, 3)).collect() }, &[Some(&x)])?;
        for mode in [PadMode::Constant, PadMode::Edge, PadMode::Reflect, PadMode::Wrap] {
            let begin = (0..rank).map(|i| pick(i, 5) as i64 - 2).collect();
            let end = (0..rank).map(|i| pick(i + 2, 7) as i64 - 2).collect();
            agree(&Op::Pad { begin, end, mode }, &[Some(&x)])?;
        }
        agree(&Op::Trilu { upper: pick(0, 2) == 0, k: pick(1, 5) as i64 - 2 }, &[Some(&x)])?;
        agree(&Op::CumSum { axis, exclusive: true, reverse: false }, &[Some(&x)])?;
        let nearest = Resize {
            mode: ResizeMode::Nearest(NearestRule::Floor),
            coordinates: Coordinates::HalfPixel,
            shape: shape.iter().map(|extent| extent * 2).collect(),
            scales: vec![2.0; rank],
            roi: vec![],
            extrapolation: 0.0,
            antialias: false,
            exclude_outside: false,
        };
        agree(&Op::Resize(nearest.clone()), &[Some(&x)])?;
        agree(&Op::Resize(Resize { mode: ResizeMode::Linear, ..nearest }), &[Some(&x)])?;
        if !x.is_empty() {
            let index = |shape: &[usize]| zeros(TensorType::new(ElementType::I64, shape));
            agree(&Op::Gather { axis }, &[Some(&x), Some(&index(&[2, 2]))])?;
            agree(&Op::GatherElements { axis }, &[Some(&x), Some(&index(&shape))])?;
            agree(&Op::GatherNd { batch_dims: 0 }, &[Some(&x), Some(&index(&[3, rank]))])?;
            let reduction = ScatterReduction::Max;
            agree(&Op::ScatterElements { axis, reduction }, &[Some(&x), Some(&index(&shape)), Some(&x)])?;
            let updates = varied(TensorType::new(element, [&[3], &shape[1..]].concat()));
            agree(&Op::ScatterNd { reduction }, &[Some(&x), Some(&index(&[3, 1])), Some(&updates)])?;
            let choice = varied(TensorType::new(element, [2]));
            agree(&Op::OneHot { axis, depth: 3 }, &[Some(&index(&shape)), Some(&choice)])?;
        }
    }

    #[test]
    fn reductions(element in element(), shape in extents(1..4), axes in any::<[bool; 4]>(), keep in any::<bool>()) {
        let x = varied(TensorType::new(element, shape.clone()));
        let axes: Vec<usize> = (0..shape.len()).filter(|&axis| axes[axis]).collect();
        for kind in [ReduceKind::Sum, ReduceKind::Mean, ReduceKind::Prod, ReduceKind::Max, ReduceKind::Min,
            ReduceKind::L1, ReduceKind::L2, ReduceKind::SumSquare, ReduceKind::LogSum, ReduceKind::LogSumExp] {
            agree(&Op::Reduce(Reduce { kind, axes: axes.clone(), keep }), &[Some(&x)])?;
        }
        let axis = axes.first().copied().unwrap_or(0);
        agree(&Op::ArgReduce(ArgReduce { largest: keep, axis, keep, last: keep }), &[Some(&x)])?;
        agree(&Op::TopK { axis, k: 2, largest: keep }, &[Some(&x)])?;
        agree(&Op::Softmax { axis, log: keep }, &[Some(&x)])?;
        agree(&Op::Hardmax { axis }, &[Some(&x)])?;
        agree(&Op::Lrn { size: 3, alpha: 0.1, beta: 0.5, bias: 1.0 }, &[Some(&x)])?;
        let scale = varied(TensorType::new(element, &shape[axis..]));
        agree(&Op::LayerNorm { axis, epsilon: 1e-5 }, &[Some(&x), Some(&scale), Some(&scale)])?;
        agree(&Op::RmsNorm { axis, epsilon: 1e-5 }, &[Some(&x), Some(&scale)])?;
    }

    #[test]
    fn products(element in element(), batch in extents(0..3), m in 0usize..5, k in 0usize..5, n in 0usize..5) {
        let a = varied(TensorType::new(element, [&batch[..], &[m, k]].concat()));
        let b = varied(TensorType::new(element, [k, n]));
        agree(&Op::MatMul, &[Some(&a), Some(&b)])?;
        agree(&Op::MatMulInteger, &[Some(&a), Some(&b)])?;
        agree(&Op::Einsum { equation: "...mk,kn->n...m".into() }, &[Some(&a), Some(&b)])?;
    }

    #[test]
    fn windows(
        element in element(), layout in layout(), batch in 0usize..3, groups in 1usize..3, channels in 0usize..3,
        filters in 0usize..3, spatial in prop::collection::vec(0usize..7, 2), window in prop::collection::vec(1usize..4, 2),
        strides in prop::collection::vec(1usize..4, 2), dilations in prop::collection::vec(1usize..3, 2),
        pads in prop::collection::vec(0usize..3, 4), ceil in any::<bool>(), column_major in any::<bool>(),
    ) {
        let shape = match layout {
            Layout::ChannelsFirst => [&[batch, channels * groups], &spatial[..]].concat(),
            Layout::ChannelsLast => [&[batch], &spatial[..], &[channels * groups]].concat(),
        };
        let x = varied(TensorType::new(element, shape));
        let w = varied(TensorType::new(element, [filters * groups, channels, window[0], window[1]]));
        let bias = varied(TensorType::new(element, [filters * groups]));
        let (begin, end) = (pads[..2].to_vec(), pads[2..].to_vec());
        let conv = Conv {
            strides: strides.clone(), dilations: dilations.clone(), begin: begin.clone(), end: end.clone(), groups, layout,
        };
        agree(&Op::Conv(conv.clone()), &[Some(&x), Some(&w), Some(&bias)])?;
        agree(&Op::ConvInteger(conv), &[Some(&x), Some(&w)])?;
        let w = varied(TensorType::new(element, [channels * groups, filters, window[0], window[1]]));
        let signed = |pads: &[usize]| pads.iter().map(|&pad| pad as i64 - 1).collect();
        let (cut_before, cut_after) = (signed(&begin), signed(&end));
        agree(&Op::ConvTranspose(ConvTranspose {
            strides: strides.clone(), dilations: dilations.clone(), begin: cut_before, end: cut_after, groups, layout,
        }), &[Some(&x), Some(&w), Some(&bias)])?;
        for kind in [PoolKind::Max, PoolKind::Average { count_pad: true }, PoolKind::Average { count_pad: false }, PoolKind::Lp { p: 2 }] {
            agree(&Op::Pool(Pool {
                kind, window: window.clone(), strides: strides.clone(), dilations: dilations.clone(),
                begin: begin.clone(), end: end.clone(), ceil, column_major, layout,
            }), &[Some(&x)])?;
        }
    }

    #[test]
    fn layers(element in element(), time in 0usize..4, batch in 0usize..3, inputs in 0usize..3, hidden in 0usize..3,
        both in any::<bool>(), batch_first in any::<bool>()) {
        let directions = if both { 2 } else { 1 };
        let x = if batch_first { [batch, time, inputs] } else { [time, batch, inputs] };
        let x = varied(TensorType::new(element, x));
        for (gates, activations) in [(4, 3), (3, 2), (1, 1)] {
            let w = varied(TensorType::new(element, [directions, gates * hidden, inputs]));
            let r = varied(TensorType::new(element, [directions, gates * hidden, hidden]));
            let layer = Recurrent {
                hidden,
                direction: if both { Direction::Bidirectional } else { Direction::Reverse },
                activations: vec![Activation::Unary(Unary::Tanh); directions * activations],
                clip: Some(1.0),
                batch_first,
                linear_before_reset: both,
                input_forget: both,
            };
            let op = match gates { 4 => Op::Lstm(layer), 3 => Op::Gru(layer), _ => Op::Rnn(layer) };
            agree(&op, &[Some(&x), Some(&w), Some(&r)])?;
        }
    }

    #[test]
    fn quantisation(element in element(), to in element(), shape in extents(0..4), axis in 0usize..4, block in 0usize..4) {
        let x = varied(TensorType::new(element, shape.clone()));
        let scale = match (shape.get(axis), block) {
            (None, _) => vec![],
            (Some(&extent), 0) => vec![extent],
            (Some(&extent), block) => {
                let mut shape = shape.clone();
                shape[axis] = extent.div_ceil(block);
                shape
            }
        };
        let scale = varied(TensorType::new(ElementType::F32, scale));
        agree(&Op::Quantize(Quantize { axis, block, to }), &[Some(&x), Some(&scale)])?;
        let float = varied(TensorType::new(ElementType::F32, shape.clone()));
        for to in [ElementType::I8, ElementType::U8, ElementType::I16, ElementType::U16] {
            agree(&Op::Quantize(Quantize { axis, block, to }), &[Some(&float), Some(&scale)])?;
            let x = varied(TensorType::new(to, shape.clone()));
            let op = Op::Dequantize(Quantize { axis, block, to: ElementType::BF16 });
            agree(&op, &[Some(&x), Some(&scale)])?;
        }
        agree(&Op::Dequantize(Quantize { axis, block, to }), &[Some(&x), Some(&scale)])?;
    }
}
