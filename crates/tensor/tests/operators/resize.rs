//! Interpolation, against the ONNX reference.

use talweg_tensor::op::{Coordinates, NearestRule, Resize, ResizeMode};
use talweg_tensor::{Op, Tensor};

use crate::{assert_close, one, wave};

/// A resize of a 4x4 image by scales.
fn scaled(mode: ResizeMode, coordinates: Coordinates, scales: [f32; 2]) -> Resize {
    let shape = scales.map(|scale| (4.0 * scale).floor() as usize);
    Resize {
        mode,
        coordinates,
        shape: vec![1, 1, shape[0], shape[1]],
        scales: vec![1.0, 1.0, scales[0], scales[1]],
        roi: vec![],
        extrapolation: 0.0,
        antialias: false,
        exclude_outside: false,
    }
}

/// A resize of a 4x4 image to a size.
fn sized(mode: ResizeMode, coordinates: Coordinates, size: [usize; 2]) -> Resize {
    let scales = size.map(|extent| extent as f32 / 4.0);
    Resize { shape: vec![1, 1, size[0], size[1]], ..scaled(mode, coordinates, scales) }
}

fn check(resize: Resize, expected: &[f64]) {
    let shape = resize.shape.clone();
    assert_close(&one(Op::Resize(resize), &[&wave(&[1, 1, 4, 4])]), &shape, expected);
}

#[test]
fn nearest() {
    check(
        scaled(ResizeMode::Nearest(NearestRule::RoundPreferFloor), Coordinates::HalfPixel, [1.6, 0.6]),
        &[-1.375, -0.75, -1.375, -0.75, -0.125, 0.5, 1.125, -1.125, 1.125, -1.125, -0.5, 0.125],
    );
    check(
        sized(ResizeMode::Nearest(NearestRule::Ceil), Coordinates::Asymmetric, [7, 3]),
        &[
            -1.375, -0.75, 1.0, -0.125, 0.5, -0.625, 1.125, -1.125, 0.625, 1.125, -1.125, 0.625, -0.5, 0.125,
            -1.0, -0.5, 0.125, -1.0, -0.5, 0.125, -1.0,
        ],
    );
}

#[test]
fn nearest_keeps_every_type_and_exact_quotients() {
    let resize = Resize {
        mode: ResizeMode::Nearest(NearestRule::Floor),
        coordinates: Coordinates::Asymmetric,
        shape: vec![4],
        scales: vec![4.0 / 6.0],
        roi: vec![],
        extrapolation: 0.0,
        antialias: false,
        exclude_outside: false,
    };
    let y = one(Op::Resize(resize), &[&Tensor::new([6], vec![0i64, 1, 2, 3, 4, i64::MAX])]);
    assert_eq!(y.to_i64(), [0, 1, 3, 4]);
}

#[test]
fn linear() {
    let linear = ResizeMode::Linear;
    check(
        scaled(linear, Coordinates::HalfPixel, [0.6, 1.6]),
        &[
            -0.958333, -0.611979, -0.177083, -0.28125, -0.085938, 0.408854, 1.125, 0.632812, -0.070313,
            -0.773437, -0.578125, 0.515625,
        ],
    );
    check(
        scaled(linear, Coordinates::AlignCorners, [0.6, 1.6]),
        &[
            -1.375, -0.402778, 0.25, -0.375, -0.361111, 0.611111, 0.892857, 0.496032, 0.053571, -0.571429,
            -0.64881, 0.095238,
        ],
    );
    check(sized(linear, Coordinates::PytorchHalfPixel, [3, 1]), &[-1.166667, 0.5, -0.229167]);
    check(
        scaled(linear, Coordinates::HalfPixelSymmetric, [0.6, 0.6]),
        &[-0.652778, 0.027778, 0.472222, -0.444444],
    );
}

#[test]
fn cubic() {
    let resize = scaled(ResizeMode::Cubic { a: -0.75 }, Coordinates::HalfPixel, [0.8, 1.5]);
    check(
        resize,
        &[
            -1.383035, -0.457869, 0.179448, -0.586717, 0.032789, 0.940656, 0.711411, -0.341848, -1.050471,
            -0.188054, -0.041758, -0.264664, 0.105991, 0.648199, 0.753534, -0.24023, -0.505529, -0.323305,
        ],
    );
    let resize = Resize {
        exclude_outside: true,
        ..scaled(ResizeMode::Cubic { a: -0.5 }, Coordinates::HalfPixel, [0.8, 1.5])
    };
    check(
        resize,
        &[
            -1.38294, -0.516357, 0.201748, -0.603055, 0.103818, 0.96034, 0.566271, -0.27473, -0.957571,
            -0.145965, -0.082283, -0.254645, 0.020408, 0.535447, 0.797578, -0.180354, -0.460271, -0.430729,
        ],
    );
}

#[test]
fn wider_filters_when_shrinking() {
    let smooth = |mode| Resize { antialias: true, ..scaled(mode, Coordinates::HalfPixel, [0.6, 0.6]) };
    check(smooth(ResizeMode::Linear), &[-0.654297, -0.121528, 0.303819, -0.273148]);
    check(smooth(ResizeMode::Cubic { a: -0.75 }), &[-0.706944, -0.107504, 0.338379, -0.361874]);
}

#[test]
fn regions_beyond_the_image() {
    let resize = Resize {
        roi: vec![0.0, 0.0, 0.4, 0.6, 1.0, 1.0, 1.2, 1.7],
        extrapolation: 10.0,
        ..sized(ResizeMode::Linear, Coordinates::CropAndResize, [3, 3])
    };
    check(resize, &[-0.06, 10.0, 10.0, -0.4, 10.0, 10.0, 10.0, 10.0, 10.0]);
}
