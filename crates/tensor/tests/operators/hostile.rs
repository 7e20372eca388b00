//! Types and attributes that no network has: errors, never a panic and never memory without end.

use proptest::prelude::*;
use talweg_tensor::op::{
    ArgReduce, Binary, Conv, ConvTranspose, Coordinates, Layout, PadMode, Pool, PoolKind, Quantize, Reduce,
    ReduceKind, Resize, ResizeMode, ScatterReduction, SliceAxis, Unary,
};
use talweg_tensor::{ElementType, Op, OpError, TensorType, infer};

const EXTENTS: [usize; 9] = [0, 1, 2, 3, 1 << 31, 1 << 32, 1 << 62, (1 << 63) + 1, usize::MAX];

fn extent() -> impl Strategy<Value = usize> + Clone {
    prop::sample::select(&EXTENTS[..])
}

fn extents(count: usize) -> impl Strategy<Value = Vec<usize>> + Clone {
    prop::collection::vec(extent(), count)
}

fn signed(count: usize) -> impl Strategy<Value = Vec<i64>> {
    prop::collection::vec(prop::sample::select(vec![i64::MIN, -3, -1, 0, 1, 2, 1 << 40, i64::MAX]), count)
}

fn ty() -> impl Strategy<Value = TensorType> {
    let element = prop::sample::select(&ElementType::ALL[..]);
    (element, prop::collection::vec(extent(), 0..5))
        .prop_map(|(element, shape)| TensorType::new(element, shape))
}

fn op() -> impl Strategy<Value = Op> {
    let axis = prop::sample::select(vec![0usize, 1, 2, usize::MAX]);
    let conv = (extents(2), extents(2), extents(2), extents(2), extent());
    let movement = prop_oneof![
        extents(3).prop_map(|shape| Op::Reshape { shape }),
        extents(3).prop_map(|perm| Op::Transpose { perm }),
        axis.clone().prop_map(|axis| Op::Concat { axis }),
        (extents(2), signed(2), extents(2)).prop_map(|(begin, step, count)| Op::Slice {
            axes: (0..2).map(|i| SliceAxis { begin: begin[i], step: step[i], count: count[i] }).collect()
        }),
        extents(3).prop_map(|shape| Op::Expand { shape }),
        extents(2).prop_map(|repeats| Op::Tile { repeats }),
        (signed(2), signed(2)).prop_map(|(begin, end)| Op::Pad { begin, end, mode: PadMode::Reflect }),
        axis.clone().prop_map(|axis| Op::Gather { axis }),
        axis.clone().prop_map(|batch_dims| Op::GatherNd { batch_dims }),
        axis.clone().prop_map(|axis| Op::ScatterElements { axis, reduction: ScatterReduction::Add }),
        (axis.clone(), extent()).prop_map(|(axis, depth)| Op::OneHot { axis, depth }),
        extents(2).prop_map(|shape| Op::Resize(Resize {
            mode: ResizeMode::Linear,
            coordinates: Coordinates::HalfPixel,
            scales: vec![1.0; shape.len()],
            shape,
            roi: vec![],
            extrapolation: 0.0,
            antialias: true,
            exclude_outside: false,
        })),
    ];
    let computing = prop_oneof![
        Just(Op::Unary(Unary::Abs)),
        Just(Op::Binary(Binary::Add)),
        Just(Op::MatMul),
        Just(Op::MatMulInteger),
        Just(Op::Where),
        Just(Op::Einsum { equation: "a...,...b->ab".into() }),
        conv.clone().prop_map(|(strides, dilations, begin, end, groups)| Op::Conv(Conv {
            strides,
            dilations,
            begin,
            end,
            groups,
            layout: Layout::ChannelsFirst
        })),
        (extents(2), extents(2), signed(2), signed(2), extent()).prop_map(
            |(strides, dilations, begin, end, groups)| Op::ConvTranspose(ConvTranspose {
                strides,
                dilations,
                begin,
                end,
                groups,
                layout: Layout::ChannelsLast
            })
        ),
        (conv, extents(2), any::<bool>()).prop_map(|((strides, dilations, begin, end, _), window, ceil)| {
            let (column_major, layout) = (false, Layout::ChannelsLast);
            Op::Pool(Pool {
                kind: PoolKind::Max,
                window,
                strides,
                dilations,
                begin,
                end,
                ceil,
                column_major,
                layout,
            })
        }),
        extents(2).prop_map(|axes| Op::Reduce(Reduce { kind: ReduceKind::Sum, axes, keep: false })),
        axis.clone().prop_map(|axis| Op::ArgReduce(ArgReduce {
            largest: true,
            axis,
            keep: false,
            last: false
        })),
        (axis.clone(), extent()).prop_map(|(axis, k)| Op::TopK { axis, k, largest: true }),
        axis.clone().prop_map(|axis| Op::LayerNorm { axis, epsilon: 0.0 }),
        (axis, extent()).prop_map(|(axis, block)| Op::Dequantize(Quantize {
            axis,
            block,
            to: ElementType::F32
        })),
    ];
    prop_oneof![movement, computing]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4096, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn types_are_inferred_or_refused(op in op(), types in prop::collection::vec(prop::option::weighted(0.9, ty()), 0..5)) {
        let inputs: Vec<Option<&TensorType>> = types.iter().map(Option::as_ref).collect();
        if let Ok(outputs) = infer(&op, &inputs) {
            prop_assert!(!outputs.is_empty());
            for output in outputs {
                let mut size = output.element.bytes();
                for extent in &output.shape {
                    let next = size.checked_mul((*extent).max(1));
                    prop_assert!(next.is_some_and(|next| next <= isize::MAX as usize), "{output} is too large");
                    size = next.unwrap();
                }
            }
        }
    }
}

#[test]
fn extents_that_depend_on_the_data_are_refused() {
    let ty = TensorType::new(ElementType::F32, [2, 3]);
    let error = infer(&Op::NonZero, &[Some(&ty)]).unwrap_err();
    assert_eq!(error, OpError::DataDependent { op: "NonZero".into() });
    assert!(error.to_string().contains("depend on the data"));
}

#[test]
fn absent_inputs_are_named() {
    let ty = TensorType::new(ElementType::F32, [2, 3]);
    let error = infer(&Op::MatMul, &[None, Some(&ty)]).unwrap_err();
    assert_eq!(error.to_string(), "MatMul: input 0 is absent, but it is not optional");
    let error = infer(&Op::Where, &[]).unwrap_err();
    assert_eq!(error.to_string(), "Where takes 3 inputs, but 0 were given");
}
