//! Convolutions and pooling.

use talweg_tensor::op::{Conv, ConvTranspose, Layout, Pool, PoolKind};
use talweg_tensor::{ElementType, Op, Tensor};

use crate::{all, assert_close, one, try_one, wave};

fn conv(layout: Layout) -> Conv {
    Conv { strides: vec![2, 1], dilations: vec![1, 1], begin: vec![1, 0], end: vec![0, 1], groups: 2, layout }
}

const CONV: [f64; 72] = [
    -1.0, -1.859375, -0.75, -4.078125, 0.96875, -0.890625, 0.84375, -0.484375, 1.234375, 1.90625, 1.703125,
    -2.21875, -4.140625, -0.90625, -1.8125, 1.421875, -0.796875, 0.40625, 0.828125, -1.078125, 2.625,
    -1.140625, 3.96875, -1.078125, -0.671875, -1.96875, 1.5, 0.3125, 1.25, 0.71875, -2.171875, -2.859375,
    0.375, -3.984375, 1.046875, -1.4375, 0.875, -3.21875, -0.90625, -2.96875, -3.3125, 0.171875, 2.859375,
    -1.703125, 0.609375, -1.375, 0.21875, 0.78125, -0.1875, -0.1875, -1.109375, 0.21875, -1.28125, -2.921875,
    3.484375, 0.140625, -0.015625, -0.625, -3.421875, 4.0, 2.125, -0.609375, -0.53125, 1.828125, -2.984375,
    0.546875, 0.765625, -1.359375, -1.046875, -1.46875, -0.03125, -0.390625,
];

#[test]
fn convolution_in_groups() {
    let y = one(
        Op::Conv(conv(Layout::ChannelsFirst)),
        &[&wave(&[2, 4, 4, 3]), &wave(&[6, 2, 2, 2]), &wave(&[6])],
    );
    assert_close(&y, &[2, 6, 2, 3], &CONV);
}

#[test]
fn convolution_with_channels_last() {
    let x = one(Op::Transpose { perm: vec![0, 2, 3, 1] }, &[&wave(&[2, 4, 4, 3])]);
    let y = one(Op::Conv(conv(Layout::ChannelsLast)), &[&x, &wave(&[6, 2, 2, 2]), &wave(&[6])]);
    assert_eq!(y.shape(), [2, 2, 3, 6]);
    let y = one(Op::Transpose { perm: vec![0, 3, 1, 2] }, &[&y]);
    assert_close(&y, &[2, 6, 2, 3], &CONV);
}

#[test]
fn dilated_convolution_of_one_axis() {
    let op = Op::Conv(Conv {
        strides: vec![1],
        dilations: vec![2],
        begin: vec![2],
        end: vec![0],
        groups: 1,
        layout: Layout::ChannelsFirst,
    });
    let x = Tensor::new([1, 1, 4], vec![1i32, 2, 3, 4]);
    let w = Tensor::new([1, 1, 2], vec![10i32, 1]);
    assert_eq!(one(op, &[&x, &w]).to_i64(), [1, 2, 13, 24]);
}

#[test]
fn windows_that_do_not_fit_are_errors() {
    let op = Op::Conv(conv(Layout::ChannelsFirst));
    let error = try_one(op, &[&wave(&[1, 4, 4, 3]), &wave(&[6, 2, 9, 2])]).unwrap_err();
    assert!(error.to_string().contains("does not fit into spatial axis 0, 5 with padding"), "{error}");
    let op = Op::Conv(conv(Layout::ChannelsFirst));
    let error = try_one(op, &[&wave(&[1, 3, 4, 3]), &wave(&[6, 2, 2, 2])]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "Conv: input 1 must be filters of 3 channels, in 2 groups, but it is f32[6,2,2,2]"
    );
}

#[test]
fn integer_convolution_pads_with_the_zero_point() {
    let op = Op::ConvInteger(Conv {
        strides: vec![1],
        dilations: vec![1],
        begin: vec![1],
        end: vec![0],
        groups: 1,
        layout: Layout::ChannelsFirst,
    });
    let x = Tensor::new([1, 1, 3], vec![3u8, 5, 2]);
    let w = Tensor::new([2, 1, 2], vec![1u8, 2, 3, 4]);
    let zeros = (Tensor::new([], vec![2u8]), Tensor::new([2], vec![0u8, 1]));
    let y = one(op, &[&x, &w, &zeros.0, &zeros.1]);
    assert_eq!(y.element(), ElementType::I32);
    assert_eq!(y.to_i64(), [2, 7, 3, 3, 11, 6]);
}

/// Every element of the input adds its window to the result, by the definition.
fn naive_transpose(x: &Tensor, w: &Tensor, bias: &Tensor, op: &ConvTranspose, shape: &[usize]) -> Vec<f64> {
    let (xs, ws) = (x.shape(), w.shape());
    let (xv, wv, bv) = (x.to_f64(), w.to_f64(), bias.to_f64());
    let plane = shape[2] * shape[3];
    let mut out: Vec<f64> = (0..shape[0] * shape[1] * plane).map(|i| bv[i / plane % shape[1]]).collect();
    let per = xs[1] / op.groups;
    for n in 0..xs[0] {
        for c in 0..xs[1] {
            for (h, v) in (0..xs[2]).flat_map(|h| (0..xs[3]).map(move |v| (h, v))) {
                for f in 0..ws[1] {
                    for (p, q) in (0..ws[2]).flat_map(|p| (0..ws[3]).map(move |q| (p, q))) {
                        let row = (h * op.strides[0] + p * op.dilations[0]) as i64 - op.begin[0];
                        let column = (v * op.strides[1] + q * op.dilations[1]) as i64 - op.begin[1];
                        if (0..shape[2] as i64).contains(&row) && (0..shape[3] as i64).contains(&column) {
                            let filter = c / per * ws[1] + f;
                            let at =
                                (n * shape[1] + filter) * plane + row as usize * shape[3] + column as usize;
                            out[at] += xv[((n * xs[1] + c) * xs[2] + h) * xs[3] + v]
                                * wv[((c * ws[1] + f) * ws[2] + p) * ws[3] + q];
                        }
                    }
                }
            }
        }
    }
    out
}

#[test]
fn transposed_convolution_in_both_layouts() {
    let mut op = ConvTranspose {
        strides: vec![2, 1],
        dilations: vec![1, 2],
        begin: vec![0, 1],
        end: vec![-1, 0],
        groups: 2,
        layout: Layout::ChannelsFirst,
    };
    let (x, w, bias) = (wave(&[2, 4, 2, 3]), wave(&[4, 3, 2, 3]), wave(&[6]));
    let shape = [2, 6, 5, 6];
    let expected = naive_transpose(&x, &w, &bias, &op, &shape);
    assert_close(&one(Op::ConvTranspose(op.clone()), &[&x, &w, &bias]), &shape, &expected);
    op.layout = Layout::ChannelsLast;
    let last = one(Op::Transpose { perm: vec![0, 2, 3, 1] }, &[&x]);
    let y = one(Op::ConvTranspose(op), &[&last, &w, &bias]);
    assert_close(&one(Op::Transpose { perm: vec![0, 3, 1, 2] }, &[&y]), &shape, &expected);
}

fn pool(kind: PoolKind, window: [usize; 2], strides: [usize; 2]) -> Pool {
    Pool {
        kind,
        window: window.to_vec(),
        strides: strides.to_vec(),
        dilations: vec![1, 1],
        begin: vec![0, 0],
        end: vec![0, 0],
        ceil: false,
        column_major: false,
        layout: Layout::ChannelsFirst,
    }
}

#[test]
fn largest_elements_and_where_they_are() {
    let mut op = Pool { begin: vec![1, 0], end: vec![1, 1], ..pool(PoolKind::Max, [3, 2], [2, 2]) };
    let values = [0.5, 1.125, 0.0, 0.75, 1.375, 0.25, 1.0, -0.125, 0.5, 1.25, 0.125, 0.75];
    let numbers = [6.0, 8.0, 9.0, 16.0, 18.0, 19.0, 26.0, 27.0, 29.0, 36.0, 37.0, 39.0];
    let x = wave(&[1, 2, 4, 5]);
    let y = all(Op::Pool(op.clone()), &[&x]).unwrap();
    assert_close(&y[0], &[1, 2, 2, 3], &values);
    assert_close(&y[1], &[1, 2, 2, 3], &numbers);
    op.layout = Layout::ChannelsLast;
    let last = one(Op::Transpose { perm: vec![0, 2, 3, 1] }, &[&x]);
    let y = all(Op::Pool(op.clone()), &[&last]).unwrap();
    let back = |t| one(Op::Transpose { perm: vec![0, 3, 1, 2] }, &[t]);
    assert_close(&back(&y[0]), &[1, 2, 2, 3], &values);
    assert_close(&back(&y[1]), &[1, 2, 2, 3], &numbers);
    op.layout = Layout::ChannelsFirst;
    op.column_major = true;
    let y = all(Op::Pool(op), &[&x]).unwrap();
    let columns_first = numbers.map(|n| {
        let (plane, at) = (n as usize / 20, n as usize % 20);
        (plane * 20 + at % 5 * 4 + at / 5) as f64
    });
    assert_close(&y[1], &[1, 2, 2, 3], &columns_first);
}

#[test]
fn windows_rounded_up() {
    let op = Pool { ceil: true, dilations: vec![1, 2], ..pool(PoolKind::Max, [2, 2], [3, 3]) };
    let y = all(Op::Pool(op), &[&wave(&[1, 2, 4, 5])]).unwrap();
    assert_close(&y[0], &[1, 2, 2, 2], &[-0.625, 1.125, -0.375, 1.375, -0.125, -1.25, 0.125, -1.0]);
    assert_close(&y[1], &[1, 2, 2, 2], &[7.0, 8.0, 17.0, 18.0, 27.0, 28.0, 37.0, 38.0]);
}

#[test]
fn means_with_and_without_padding() {
    let average = |count_pad, ceil| {
        let kind = PoolKind::Average { count_pad };
        let op = Pool { begin: vec![1, 1], end: vec![1, 1], ceil, ..pool(kind, [3, 3], [2, 2]) };
        one(Op::Pool(op), &[&wave(&[1, 2, 4, 5])])
    };
    assert_close(
        &average(false, false),
        &[1, 2, 2, 3],
        &[-0.4375, 0.270833, 0.5, -0.25, 0.458333, 0.6875, 0.0625, -0.1875, -0.4375, 0.25, 0.0, -0.25],
    );
    assert_close(
        &average(true, true),
        &[1, 2, 3, 3],
        &[
            -0.194444, 0.180556, 0.222222, -0.166667, 0.458333, 0.458333, -0.041667, 0.291667, 0.270833,
            0.027778, -0.125, -0.194444, 0.166667, 0.0, -0.166667, 0.125, 0.0625, -0.041667,
        ],
    );
}

#[test]
fn norms() {
    let y = one(Op::Pool(pool(PoolKind::Lp { p: 3 }, [2, 2], [2, 2])), &[&wave(&[1, 2, 4, 5])]);
    let expected = [1.678681, 1.456506, 1.456506, 1.678681, 1.403007, 1.659518, 1.553077, 1.343643];
    assert_close(&y, &[1, 2, 2, 2], &expected);
}
