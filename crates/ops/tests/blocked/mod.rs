//! Convolutions of activations in blocks of channels against naive loops, and against channels last.

use crate::naive::{Grid, Run, exact};

/// One element of an activation of two spatial axes, zero outside.
fn pixel(x: &Grid, block: i64, image: i64, (h, w): (i64, i64), channel: i64) -> f64 {
    if block == 0 {
        x.or_zero(&[image, h, w, channel])
    } else {
        x.or_zero(&[image, channel / block, h, w, channel % block])
    }
}

/// Image, pixel and channel of an index into an activation.
fn place(index: &[i64], block: i64) -> (i64, (i64, i64), i64) {
    match *index {
        [n, outer, h, w, inner] => (n, (h, w), outer * block + inner),
        [n, h, w, c] => (n, (h, w), c),
        _ => panic!("{index:?} is no index of an image"),
    }
}

#[test]
fn conv2d_reads_and_writes_blocks() {
    for (from, to) in [(3, 4), (3, 0), (0, 4), (6, 8), (1, 1)] {
        let text = format!("conv2d:n=2,h=7,w=9,c=6,f=8,k=3,s=2,dil=2,p=2,block={from},fblock={to},dtype=i32");
        let run = Run::of(&text);
        let (x, w) = (run.tensor("X"), run.tensor("W"));
        assert_eq!(run.output.shape.len(), if to == 0 { 4 } else { 5 }, "{text}");
        exact(&run, |i| {
            let (n, (oh, ow), f) = place(i, to);
            let mut sum = 0.0;
            for kh in 0..3 {
                for kw in 0..3 {
                    for c in 0..6 {
                        let at = (oh * 2 + kh * 2 - 2, ow * 2 + kw * 2 - 2);
                        sum += pixel(&x, from, n, at, c) * w.at(&[kh, kw, c, f]);
                    }
                }
            }
            sum
        });
    }
}

#[test]
fn epilogues_find_their_channels_in_blocks() {
    let run =
        Run::of("conv2d:h=5,w=4,c=6,f=8,k=1,block=2,fblock=4,epilogue=bias+scale+relu+residual,dtype=i32");
    let (x, w) = (run.tensor("X"), run.tensor("W"));
    let (bias, scale, residual) = (run.tensor("bias"), run.tensor("scale"), run.tensor("residual"));
    assert_eq!(bias.shape, [2, 1, 1, 4]);
    exact(&run, |i| {
        let (n, at, f) = place(i, 4);
        let sum: f64 = (0..6).map(|c| pixel(&x, 2, n, at, c) * w.at(&[0, 0, c, f])).sum();
        let channel = [f / 4, 0, 0, f % 4];
        ((sum + bias.at(&channel)) * scale.at(&channel)).max(0.0) + residual.at(i)
    });
}

#[test]
fn depthwise_keeps_channels_of_blocks_apart() {
    let run = Run::of("depthwise:n=2,h=8,w=7,c=6,k=3,s=2,p=1,block=3,epilogue=bias,dtype=i32");
    let (x, w, bias) = (run.tensor("X"), run.tensor("W"), run.tensor("bias"));
    exact(&run, |i| {
        let (n, (oh, ow), c) = place(i, 3);
        let mut sum = bias.at(&[i[1], 0, 0, i[4]]);
        for kh in 0..3 {
            for kw in 0..3 {
                sum += pixel(&x, 3, n, (oh * 2 + kh - 1, ow * 2 + kw - 1), c) * w.at(&[kh, kw, c]);
            }
        }
        sum
    });
}

#[test]
fn other_ranks_have_blocks_too() {
    let run = Run::of("conv3d:d=4,h=5,w=6,c=4,f=6,k=3,s=2,p=1,block=2,fblock=3,dtype=i32");
    let (x, w) = (run.tensor("X"), run.tensor("W"));
    exact(&run, |i| {
        let mut sum = 0.0;
        for kd in 0..3 {
            for kh in 0..3 {
                for kw in 0..3 {
                    for c in 0..4 {
                        let at = [i[2] * 2 + kd - 1, i[3] * 2 + kh - 1, i[4] * 2 + kw - 1];
                        let read = x.or_zero(&[i[0], c / 2, at[0], at[1], at[2], c % 2]);
                        sum += read * w.at(&[kd, kh, kw, c, i[1] * 3 + i[5]]);
                    }
                }
            }
        }
        sum
    });
    let run = Run::of("conv1d:w=9,c=4,f=6,k=3,block=2,fblock=0,dtype=i32");
    let (x, w) = (run.tensor("X"), run.tensor("W"));
    exact(&run, |i| {
        let tap = |k: i64| (0..4).map(move |c| (k, c));
        let taps = (0..3).flat_map(tap);
        taps.map(|(k, c)| x.at(&[i[0], c / 2, i[1] + k, c % 2]) * w.at(&[k, c, i[2]])).sum()
    });
}
