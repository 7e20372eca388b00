//! Convolutions of activations whose channels lie in blocks: `[n, c / b, h, w, b]` instead of `[n, h, w, c]`.
//!
//! Neighbouring pixels of a block are neighbours in memory, `b` elements apart, however many channels there are. Input and
//! output have a [`Channels`] each, so a convolution may also change from one to the other. Weights are those of the
//! channels-last convolution; `pack` lays them out for either.

use talweg_expr::Expr;
use talweg_ir::{Dag, Reducer, TensorId};

use crate::conv::{check_kernel, slide, window_axes};
use crate::error::OpError;
use crate::typing::{accumulator, axes, expect_extent, fresh, read_as, shape_with_rank};
use crate::view::View;
use crate::window::{Window, check_rank};

/// Where the channels of an activation lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Channels {
    /// Innermost, all of them: `[n, h, w, c]`.
    Last,
    /// In blocks of so many, innermost, with the pixels between a block's channels and the blocks: `[n, c / b, h, w, b]`.
    Blocks(i64),
}

impl Channels {
    /// A number in a spec: the block, or 0 for channels last.
    pub fn from_block(block: i64) -> Channels {
        if block == 0 { Channels::Last } else { Channels::Blocks(block) }
    }

    /// The shape of an activation, its outermost axes being `batch`.
    pub fn shape(self, batch: i64, pixels: &[i64], channels: i64) -> Vec<i64> {
        let mut out = vec![batch];
        if let Channels::Blocks(block) = self {
            out.push(channels / block);
        }
        out.extend(pixels);
        out.push(if let Channels::Blocks(block) = self { block } else { channels });
        out
    }

    /// Refuses blocks that do not divide the channels.
    pub fn check(self, operator: &'static str, what: &'static str, channels: i64) -> Result<(), OpError> {
        match self {
            Channels::Blocks(block) if block < 1 || channels % block != 0 => {
                Err(OpError::Block { operator, block, what, extent: channels })
            }
            _ => Ok(()),
        }
    }

    /// Axes of the tensor before the pixels.
    fn before(self) -> usize {
        if self == Channels::Last { 1 } else { 2 }
    }

    /// How many channels a tensor of such a shape has.
    fn count(self, shape: &[i64]) -> i64 {
        let inner = shape.last().copied().unwrap_or(1);
        if self == Channels::Last { inner } else { shape[1] * inner }
    }

    /// Names and extents of the axes that channels are counted by, slowest first.
    fn axes(self, name: &str, channels: i64) -> Vec<(String, i64)> {
        match self {
            Channels::Last => vec![(name.to_string(), channels)],
            Channels::Blocks(block) => {
                vec![(format!("{name}o"), channels / block), (format!("{name}i"), block)]
            }
        }
    }

    /// The channel at a place along those axes.
    fn channel(self, at: &[Expr]) -> Expr {
        match (self, at) {
            (Channels::Blocks(block), [outer, inner]) => outer.clone() * block + inner.clone(),
            _ => at.last().cloned().unwrap_or_else(|| Expr::int(0)),
        }
    }

    /// Where the tensor is read for an image, pixels, and a place along the axes of the channels.
    fn indices(self, image: &Expr, pixels: Vec<Expr>, at: &[Expr]) -> Vec<Expr> {
        let (outer, inner) = at.split_at(at.len() - 1);
        let mut out = vec![image.clone()];
        out.extend(outer.iter().cloned());
        out.extend(pixels);
        out.extend(inner.iter().cloned());
        out
    }

    /// The names `n, oh, ow` with those of the channels' axes in their places.
    fn place(self, image: &[String], mut channels: Vec<String>) -> Vec<String> {
        let inner = channels.split_off(channels.len() - 1);
        let (batch, pixels) = image.split_at(1);
        [batch.to_vec(), channels, pixels.to_vec(), inner].concat()
    }

    fn view(self, dag: &Dag, tensor: TensorId) -> Result<View, OpError> {
        if self == Channels::Last { View::plain(dag, tensor) } else { View::blocked(dag, tensor) }
    }
}

/// ```text
/// conv[n, fo, oh, ow, fi] = sum[co, kh, kw, ci] X.pad[n, co, oh * s + kh * d, ow * s + kw * d, ci]
///                                               * W[kh, kw, co * b + ci, fo * b + fi]
/// ```
///
/// Weights are `[kh, kw, c, f]`. Where an activation has its channels last it has one axis `c` or `f` for them. Padding is
/// a stage of its own, absent when there is none. The result has the accumulator's type.
pub fn conv_blocked(
    dag: &mut Dag,
    x: TensorId,
    w: TensorId,
    windows: &[Window],
    (from, to): (Channels, Channels),
) -> Result<View, OpError> {
    let operator = "conv";
    let rank = windows.len();
    check_rank(operator, rank)?;
    let input = shape_with_rank(dag, x, from.before() + rank + 1, operator)?;
    let weights = shape_with_rank(dag, w, rank + 2, operator)?;
    let (channels, filters) = (from.count(&input), weights[rank + 1]);
    to.check(operator, "output channels", filters)?;
    expect_extent(dag, w, operator, "the number of input channels", channels, weights[rank])?;
    check_kernel(dag, w, operator, windows, &weights)?;
    let pixels = &input[from.before()..from.before() + rank];
    let (padded, outputs) = slide(dag, x, operator, windows, pixels)?;

    let (image_names, over_names) = window_axes(rank);
    let (inputs, results) = (from.axes("c", channels), to.axes("f", filters));
    let names = to.place(&image_names, results.iter().map(|(n, _)| n.clone()).collect());
    let extents = to.shape(input[0], &outputs, filters);
    // Blocks are outside of the window, whose taps then find a block's pixels near.
    let (blocks, inside) = inputs.split_at(inputs.len() - 1);
    let taps = over_names[..rank].iter().cloned().zip(windows.iter().map(|w| w.kernel));
    let over: Vec<(String, i64)> = blocks.iter().cloned().chain(taps).chain(inside.iter().cloned()).collect();
    let (over_names, over): (Vec<String>, Vec<i64>) = over.into_iter().unzip();
    let (tx, tw) = (dag.tensor(padded).dtype, dag.tensor(w).dtype);
    let acc = accumulator(tx);
    let name = fresh(dag, operator);
    let (outer, first) = (blocks.len(), to.before());
    let out =
        dag.reduce(&name, &axes(&names, &extents), Reducer::Sum, &axes(&over_names, &over), |at, red| {
            let at = |place: usize| at[place].clone();
            let taps = &red[outer..outer + rank];
            let pixel = |(d, w): (usize, &Window)| at(first + d) * w.stride + taps[d].clone() * w.dilation;
            let pixels: Vec<Expr> = windows.iter().enumerate().map(pixel).collect();
            let input: Vec<Expr> = red[..outer].iter().chain(red.last()).cloned().collect();
            let result: Vec<Expr> = (1..first).chain([first + rank]).map(at).collect();
            let mut weight = taps.to_vec();
            weight.extend([from.channel(&input), to.channel(&result)]);
            read_as(padded, from.indices(&at(0), pixels, &input), tx, acc) * read_as(w, weight, tw, acc)
        });
    to.view(dag, out)
}

/// `conv[n, co, oh, ow, ci] = sum[kh, kw] X.pad[n, co, oh * s + kh * d, ow * s + kw * d, ci] * W[kh, kw, co * b + ci]`: every
/// channel has its own filter, and all are in blocks.
pub fn depthwise_blocked(
    dag: &mut Dag,
    x: TensorId,
    w: TensorId,
    windows: &[Window],
) -> Result<View, OpError> {
    let operator = "depthwise";
    let rank = windows.len();
    check_rank(operator, rank)?;
    let input = shape_with_rank(dag, x, rank + 3, operator)?;
    let weights = shape_with_rank(dag, w, rank + 1, operator)?;
    let layout = Channels::Blocks(input[rank + 2]);
    expect_extent(dag, w, operator, "the number of channels", layout.count(&input), weights[rank])?;
    check_kernel(dag, w, operator, windows, &weights)?;
    let (padded, outputs) = slide(dag, x, operator, windows, &input[2..2 + rank])?;

    let (image_names, over_names) = window_axes(rank);
    let names = layout.place(&image_names, vec!["co".to_string(), "ci".to_string()]);
    let extents = layout.shape(input[0], &outputs, weights[rank]);
    let over: Vec<i64> = windows.iter().map(|w| w.kernel).collect();
    let (tx, tw) = (dag.tensor(padded).dtype, dag.tensor(w).dtype);
    let acc = accumulator(tx);
    let name = fresh(dag, "conv");
    let over = axes(&over_names[..rank], &over);
    let out = dag.reduce(&name, &axes(&names, &extents), Reducer::Sum, &over, |at, red| {
        let pixel = |(d, w): (usize, &Window)| at[2 + d].clone() * w.stride + red[d].clone() * w.dilation;
        let pixels: Vec<Expr> = windows.iter().enumerate().map(pixel).collect();
        let channel = [at[1].clone(), at[2 + rank].clone()];
        let mut weight = red.to_vec();
        weight.push(layout.channel(&channel));
        read_as(padded, layout.indices(&at[0], pixels, &channel), tx, acc) * read_as(w, weight, tw, acc)
    });
    layout.view(dag, out)
}
