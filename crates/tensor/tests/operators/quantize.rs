//! Quantisation and the choice of boxes.

use talweg_tensor::op::Quantize;
use talweg_tensor::{ElementType, Op, Tensor};

use crate::{one, try_one};

#[test]
fn one_scale_for_all() {
    let op = Op::Quantize(Quantize { axis: 1, block: 0, to: ElementType::U8 });
    let x = Tensor::new([6], vec![0.0f32, 2.0, 3.0, 1000.0, -254.0, -1000.0]);
    let y = one(op, &[&x, &Tensor::new([], vec![2.0f32]), &Tensor::new([], vec![128u8])]);
    assert_eq!(y.element(), ElementType::U8);
    assert_eq!(y.to_i64(), [128, 129, 130, 255, 1, 0]);
}

#[test]
fn a_scale_for_each_position() {
    let op = Op::Dequantize(Quantize { axis: 0, block: 0, to: ElementType::F32 });
    let x = Tensor::new([2, 2], vec![3i8, -128, 0, 127]);
    let y = one(op, &[&x, &Tensor::new([2], vec![2.0f32, 0.5]), &Tensor::new([2], vec![1i8, -1])]);
    assert_eq!(y.to_f64(), [4.0, -258.0, 0.5, 64.0]);
}

#[test]
fn a_scale_for_each_block() {
    let op = Op::Dequantize(Quantize { axis: 1, block: 2, to: ElementType::F32 });
    let x = Tensor::new([2, 3], vec![1u8, 2, 3, 4, 5, 6]);
    let y = one(op, &[&x, &Tensor::new([2, 2], vec![1.0f32, 10.0, 100.0, 1000.0])]);
    assert_eq!(y.to_f64(), [1.0, 2.0, 30.0, 400.0, 500.0, 6000.0]);
}

#[test]
fn scales_that_do_not_fit_are_errors() {
    let op = Op::Dequantize(Quantize { axis: 1, block: 0, to: ElementType::F32 });
    let x = Tensor::new([2, 3], vec![0u8; 6]);
    let error = try_one(op, &[&x, &Tensor::new([2], vec![1.0f32; 2])]).unwrap_err();
    assert_eq!(error.to_string(), "Dequantize: input 1 must be of shape [3], but it is f32[2]");
}

#[test]
fn overlapping_boxes_are_dropped() {
    let boxes = [
        [0.0f32, 0.0, 1.0, 1.0],
        [0.0, 0.1, 1.0, 1.1],
        [1.0, 0.9, 0.0, -0.1],
        [0.0, 10.0, 1.0, 11.0],
        [0.0, 10.1, 1.0, 11.1],
        [0.0, 100.0, 1.0, 101.0],
    ];
    let boxes = Tensor::new([1, 6, 4], boxes.concat());
    let scores = Tensor::new([1, 1, 6], vec![0.9f32, 0.75, 0.6, 0.95, 0.5, 0.3]);
    let kept = |max_per_class, score_threshold| {
        let op =
            Op::NonMaxSuppression { center_point: false, max_per_class, iou_threshold: 0.5, score_threshold };
        one(op, &[&boxes, &scores])
    };
    let y = kept(3, None);
    assert_eq!((y.shape(), y.to_i64()), (&[3, 3][..], vec![0, 0, 3, 0, 0, 0, 0, 0, 5]));
    assert_eq!(kept(3, Some(0.4)).to_i64(), [0, 0, 3, 0, 0, 0]);
    assert_eq!(kept(0, None).shape(), [0, 3]);
}
