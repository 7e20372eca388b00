//! Convolutions in one to three dimensions, channels last.

use talweg_ir::{Dag, Reducer, Scalar, TensorId};

use crate::error::OpError;
use crate::pad::pad_spatial;
use crate::typing::{accumulator, axes, expect_extent, fresh, read_as, shape_with_rank};
use crate::view::View;
use crate::window::{Window, check_rank, spatial_letters};

/// `conv[n, oh, ow, f] = sum[kh, kw, c] X.pad[n, oh * s + kh * d, ow * s + kw * d, c] * W[kh, kw, c, f]`.
///
/// One window for each spatial axis. Weights are `[kh, kw, c / groups, f]`. With `groups > 1` the tensor computed is
/// `[n, oh, ow, g, ff]`, whose bytes are those of `[n, oh, ow, f]` with `f = g * (f / groups) + ff`:
///
/// ```text
/// conv[n, oh, ow, g, ff] = sum[kh, kw, c] X[n, .., .., g * cpg + c] * W[kh, kw, c, g * fpg + ff]
/// ```
///
/// Padding is a stage of its own, absent when there is none. The result has the accumulator's type.
pub fn conv(
    dag: &mut Dag,
    x: TensorId,
    w: TensorId,
    windows: &[Window],
    groups: i64,
) -> Result<View, OpError> {
    let operator = "conv";
    let rank = windows.len();
    check_rank(operator, rank)?;
    let input = shape_with_rank(dag, x, rank + 2, operator)?;
    let weights = shape_with_rank(dag, w, rank + 2, operator)?;
    let (channels, filters) = (input[rank + 1], weights[rank + 1]);
    for (what, extent) in [("input channels", channels), ("output channels", filters)] {
        if groups < 1 || extent % groups != 0 {
            return Err(OpError::Groups { operator, groups, what, extent });
        }
    }
    let (cpg, fpg) = (channels / groups, filters / groups);
    expect_extent(dag, w, operator, "the number of input channels of a group", cpg, weights[rank])?;
    check_kernel(dag, w, operator, windows, &weights)?;
    let (padded, outputs) = slide(dag, x, operator, windows, &input[1..=rank])?;

    let (mut names, over_names) = window_axes(rank);
    let mut extents = vec![input[0]];
    extents.extend(&outputs);
    let mut over: Vec<i64> = windows.iter().map(|w| w.kernel).collect();
    over.push(cpg);
    if groups == 1 {
        names.push("f".to_string());
        extents.push(filters);
    } else {
        names.extend(["g".to_string(), "ff".to_string()]);
        extents.extend([groups, fpg]);
    }
    let (tx, tw) = (dag.tensor(padded).dtype, dag.tensor(w).dtype);
    let acc = accumulator(tx);
    let name = fresh(dag, operator);
    let out =
        dag.reduce(&name, &axes(&names, &extents), Reducer::Sum, &axes(&over_names, &over), |at, red| {
            let mut read = vec![at[0].clone()];
            for (d, w) in windows.iter().enumerate() {
                read.push(at[d + 1].clone() * w.stride + red[d].clone() * w.dilation);
            }
            let c = red[rank].clone();
            let mut taps: Vec<_> = red[..rank].to_vec();
            taps.push(c.clone());
            if groups == 1 {
                read.push(c);
                taps.push(at[rank + 1].clone());
            } else {
                let g = at[rank + 1].clone();
                read.push(g.clone() * cpg + c);
                taps.push(g * fpg + at[rank + 2].clone());
            }
            read_as(padded, read, tx, acc) * read_as(w, taps, tw, acc)
        });
    let mut parts = vec![1; rank + 2];
    if groups > 1 {
        parts[rank + 1] = 2;
    }
    View::merged(dag, out, parts)
}

/// `conv[n, oh, ow, c] = sum[kh, kw] X.pad[n, oh * s + kh * d, ow * s + kw * d, c] * W[kh, kw, c]`: every channel has
/// its own filter.
pub fn depthwise(dag: &mut Dag, x: TensorId, w: TensorId, windows: &[Window]) -> Result<TensorId, OpError> {
    let operator = "depthwise";
    let rank = windows.len();
    check_rank(operator, rank)?;
    let input = shape_with_rank(dag, x, rank + 2, operator)?;
    let weights = shape_with_rank(dag, w, rank + 1, operator)?;
    expect_extent(dag, w, operator, "the number of channels", input[rank + 1], weights[rank])?;
    check_kernel(dag, w, operator, windows, &weights)?;
    let (padded, outputs) = slide(dag, x, operator, windows, &input[1..=rank])?;

    let (mut names, mut over_names) = window_axes(rank);
    names.push("c".to_string());
    over_names.pop();
    let mut extents = vec![input[0]];
    extents.extend(&outputs);
    extents.push(input[rank + 1]);
    let over: Vec<i64> = windows.iter().map(|w| w.kernel).collect();
    let (tx, tw) = (dag.tensor(padded).dtype, dag.tensor(w).dtype);
    let acc = accumulator(tx);
    let name = fresh(dag, "conv");
    Ok(dag.reduce(&name, &axes(&names, &extents), Reducer::Sum, &axes(&over_names, &over), |at, red| {
        let mut read = vec![at[0].clone()];
        for (d, w) in windows.iter().enumerate() {
            read.push(at[d + 1].clone() * w.stride + red[d].clone() * w.dilation);
        }
        read.push(at[rank + 1].clone());
        let mut taps = red.to_vec();
        taps.push(at[rank + 1].clone());
        read_as(padded, read, tx, acc) * read_as(w, taps, tw, acc)
    }))
}

/// Names of the axes `n, oh, ow` and of the reduction axes `kh, kw, c` for a rank.
pub(crate) fn window_axes(rank: usize) -> (Vec<String>, Vec<String>) {
    let letters = spatial_letters(rank);
    let mut names = vec!["n".to_string()];
    names.extend(letters.iter().map(|l| format!("o{l}")));
    let mut over: Vec<String> = letters.iter().map(|l| format!("k{l}")).collect();
    over.push("c".to_string());
    (names, over)
}

/// Checks that the leading extents of the weights are the windows' kernels.
pub(crate) fn check_kernel(
    dag: &Dag,
    w: TensorId,
    operator: &'static str,
    windows: &[Window],
    weights: &[i64],
) -> Result<(), OpError> {
    for (d, window) in windows.iter().enumerate() {
        let what = format!("the kernel extent along spatial axis {d}");
        expect_extent(dag, w, operator, &what, window.kernel, weights[d])?;
    }
    Ok(())
}

/// Output extents, and the padded input with just as much padding as the windows reach.
pub(crate) fn slide(
    dag: &mut Dag,
    x: TensorId,
    operator: &'static str,
    windows: &[Window],
    spatial: &[i64],
) -> Result<(TensorId, Vec<i64>), OpError> {
    let mut outputs = Vec::new();
    let mut sides = Vec::new();
    for (d, (w, input)) in windows.iter().zip(spatial).enumerate() {
        let out = w.output(operator, d, *input)?;
        outputs.push(out);
        sides.push((w.before, reached_after(w, *input, out)));
    }
    let zero = Scalar::constant(0.0, dag.tensor(x).dtype);
    Ok((pad_spatial(dag, x, &sides, zero)?, outputs))
}

/// How much of the padding behind the input the last window reaches.
pub(crate) fn reached_after(w: &Window, input: i64, output: i64) -> i64 {
    let end = (output - 1) * w.stride + w.span();
    (end - w.before - input).clamp(0, w.after)
}
