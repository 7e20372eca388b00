//! Transposed convolutions in one to three dimensions, channels last, in two forms.
//!
//! The *guarded* form reads the definition off: every output sums over all taps and skips those that fall between
//! inputs. The *phased* form (sub-pixel decomposition) splits outputs by their phase within the stride; each phase
//! uses every `stride`-th tap, so the reduction is affine, has no guards, and does `1 / stride` of the work per axis.

use talweg_expr::Expr;
use talweg_ir::{Dag, Reducer, Scalar, TensorId};

use crate::conv::{check_kernel, window_axes};
use crate::error::OpError;
use crate::pad::pad_spatial;
use crate::typing::{accumulator, axes, convert, expect_extent, fresh, read_as, shape_with_rank};
use crate::view::View;
use crate::window::{Window, check_rank, spatial_letters};

/// The guarded form; weights are `[kh, kw, c, f]`.
///
/// ```text
/// conv[n, oh, ow, f] = sum[kh, kw, c] select(t % s == 0 && 0 <= t && t <= (H - 1) * s && ..., X[n, t // s, .., c], 0)
///                                     * W[kh, kw, c, f]        where t = oh + p - kh * d
/// ```
pub fn conv_transpose_guarded(
    dag: &mut Dag,
    x: TensorId,
    w: TensorId,
    windows: &[Window],
    output_padding: &[i64],
) -> Result<TensorId, OpError> {
    let operator = "conv_transpose";
    let rank = windows.len();
    let (input, outputs) = output_extents(dag, x, operator, windows, output_padding)?;
    let weights = shape_with_rank(dag, w, rank + 2, operator)?;
    expect_extent(dag, w, operator, "the number of input channels", input[rank + 1], weights[rank])?;
    check_kernel(dag, w, operator, windows, &weights)?;
    let (mut names, over_names) = window_axes(rank);
    names.push("f".to_string());
    let mut extents = vec![input[0]];
    extents.extend(&outputs);
    extents.push(weights[rank + 1]);
    let mut over: Vec<i64> = windows.iter().map(|w| w.kernel).collect();
    over.push(input[rank + 1]);
    let (tx, tw) = (dag.tensor(x).dtype, dag.tensor(w).dtype);
    let acc = accumulator(tx);
    let name = fresh(dag, "conv");
    Ok(dag.reduce(&name, &axes(&names, &extents), Reducer::Sum, &axes(&over_names, &over), |at, red| {
        let mut inside = Expr::bool(true);
        let mut read = vec![at[0].clone()];
        for (d, w) in windows.iter().enumerate() {
            let t = at[d + 1].clone() + w.before - red[d].clone() * w.dilation;
            if w.stride > 1 {
                let hits = Expr::binary(talweg_expr::BinaryOp::Eq, t.rem(w.stride), Expr::int(0));
                inside = inside.and(&hits);
            }
            inside = inside.and(&Expr::int(0).le(&t)).and(&t.le(&Expr::int((input[d + 1] - 1) * w.stride)));
            read.push(t.floor_div(w.stride));
        }
        read.push(red[rank].clone());
        let mut taps = red.to_vec();
        taps.push(at[rank + 1].clone());
        let value =
            Scalar::select(Scalar::predicate(inside), Scalar::Read(x, read), Scalar::constant(0.0, tx));
        convert(value, tx, acc) * read_as(w, taps, tw, acc)
    }))
}

/// The kernel extents the phased form wants its weights in: rounded up to a multiple of the stride. Taps past the real
/// kernel must be zero.
pub fn phased_kernel(windows: &[Window]) -> Vec<i64> {
    windows.iter().map(|w| (w.kernel + w.stride - 1) / w.stride * w.stride).collect()
}

/// How one axis splits into phases.
///
/// Output `o` is coarse position `y = (o + shift) / s` and phase `r = (o + shift) % s`. It sums over `taps` taps
/// `k = tap(r) + s * j`, reading input `y + offset + rise * r - j`.
struct Phase {
    stride: i64,
    /// Outputs skipped before the first one.
    shift: i64,
    /// Coarse positions.
    extent: i64,
    taps: i64,
    offset: i64,
    /// With stride 2 and odd padding the phases run backwards through the taps, and the second reads one input further.
    flipped: bool,
    /// Distance between the taps of one phase in input elements (the dilation when the stride is 1).
    step: i64,
}

impl Phase {
    fn new(w: &Window, output: i64) -> Phase {
        let (s, p) = (w.stride, w.before);
        let flipped = s == 2 && p % 2 == 1;
        let shift = if flipped { 0 } else { p % s };
        Phase {
            stride: s,
            shift,
            extent: (output + shift + s - 1) / s,
            taps: (w.kernel + s - 1) / s,
            offset: p / s,
            flipped,
            step: if s == 1 { w.dilation } else { 1 },
        }
    }

    fn rise(&self) -> i64 {
        i64::from(self.flipped)
    }

    /// Padding the reads need before and behind an input extent.
    fn sides(&self, input: i64) -> (i64, i64) {
        let lowest = self.offset - (self.taps - 1) * self.step;
        let highest = self.extent - 1 + self.offset + self.rise();
        ((-lowest).max(0), (highest - (input - 1)).max(0))
    }

    fn exact(&self, output: i64) -> bool {
        self.shift == 0 && output == self.extent * self.stride
    }
}

/// The phased form; weights are `[kh, kw, c, f]` with kernel extents from [`phased_kernel`], zero past the real kernel.
///
/// ```text
/// conv[n, y, ph, x, pw, f] = sum[kh, kw, c] X.pad[n, y + e - kh, x + e - kw, c] * W[ph + s * kh, pw + s * kw, c, f]
/// ```
///
/// An axis of stride 1 has no phase axis. When the coarse axes cover the output exactly, `conv` is the output: its
/// bytes are those of `[n, oh, ow, f]`. Otherwise a stage `crop` reads it at `(oh + shift) // s, (oh + shift) % s`.
/// Dilation with a stride above 1 is refused, since phases then no longer share one set of taps.
pub fn conv_transpose_phased(
    dag: &mut Dag,
    x: TensorId,
    w: TensorId,
    windows: &[Window],
    output_padding: &[i64],
) -> Result<View, OpError> {
    let operator = "conv_transpose";
    let rank = windows.len();
    let (input, outputs) = output_extents(dag, x, operator, windows, output_padding)?;
    if let Some(w) = windows.iter().find(|w| w.stride > 1 && w.dilation > 1) {
        let what = "the dilation of the phased form with a stride above 1".to_string();
        return Err(OpError::Range { operator, what, found: w.dilation, min: 1, max: 1 });
    }
    let weights = shape_with_rank(dag, w, rank + 2, operator)?;
    expect_extent(dag, w, operator, "the number of input channels", input[rank + 1], weights[rank])?;
    for (d, k) in phased_kernel(windows).into_iter().enumerate() {
        let what = format!("the kernel extent along spatial axis {d}, rounded up to the stride,");
        expect_extent(dag, w, operator, &what, k, weights[d])?;
    }
    let phases: Vec<Phase> = windows.iter().zip(&outputs).map(|(w, o)| Phase::new(w, *o)).collect();
    let sides: Vec<(i64, i64)> = phases.iter().zip(&input[1..]).map(|(p, i)| p.sides(*i)).collect();
    let zero = Scalar::constant(0.0, dag.tensor(x).dtype);
    let padded = pad_spatial(dag, x, &sides, zero)?;

    let letters = spatial_letters(rank);
    let (_, over_names) = window_axes(rank);
    let mut names = vec!["n".to_string()];
    let mut extents = vec![input[0]];
    let mut parts = vec![1];
    // Where each spatial axis finds its coarse position and its phase among the axes.
    let mut places = Vec::new();
    for (letter, phase) in letters.iter().zip(&phases) {
        let coarse = names.len();
        names.push(format!("o{letter}"));
        extents.push(phase.extent);
        if phase.stride > 1 {
            names.push(format!("p{letter}"));
            extents.push(phase.stride);
        }
        parts.push(if phase.stride > 1 { 2 } else { 1 });
        places.push((coarse, (phase.stride > 1).then_some(coarse + 1)));
    }
    names.push("f".to_string());
    extents.push(weights[rank + 1]);
    parts.push(1);
    let mut over: Vec<i64> = phases.iter().map(|p| p.taps).collect();
    over.push(input[rank + 1]);
    let (tx, tw) = (dag.tensor(x).dtype, dag.tensor(w).dtype);
    let acc = accumulator(tx);
    let name = fresh(dag, "conv");
    let out =
        dag.reduce(&name, &axes(&names, &extents), Reducer::Sum, &axes(&over_names, &over), |at, red| {
            let mut read = vec![at[0].clone()];
            let mut taps = Vec::new();
            for (d, phase) in phases.iter().enumerate() {
                let (coarse, fine) = places[d];
                let r = fine.map_or(Expr::int(0), |a| at[a].clone());
                let index = at[coarse].clone() + phase.offset + r.clone() * phase.rise();
                read.push(index - red[d].clone() * phase.step + sides[d].0);
                let first = if phase.flipped { -r + 1 } else { r };
                taps.push(first + red[d].clone() * phase.stride);
            }
            read.push(red[rank].clone());
            taps.push(red[rank].clone());
            taps.push(at[at.len() - 1].clone());
            read_as(padded, read, tx, acc) * read_as(w, taps, tw, acc)
        });
    if phases.iter().zip(&outputs).all(|(p, o)| p.exact(*o)) {
        return View::merged(dag, out, parts);
    }
    let (mut names, _) = window_axes(rank);
    names.push("f".to_string());
    let mut extents = vec![input[0]];
    extents.extend(&outputs);
    extents.push(weights[rank + 1]);
    let name = fresh(dag, "crop");
    let crop = dag.compute(&name, &axes(&names, &extents), |at| {
        let mut read = vec![at[0].clone()];
        for (d, phase) in phases.iter().enumerate() {
            let shifted = at[d + 1].clone() + phase.shift;
            if phase.stride == 1 {
                read.push(shifted);
            } else {
                read.push(shifted.floor_div(phase.stride));
                read.push(shifted.rem(phase.stride));
            }
        }
        read.push(at[rank + 1].clone());
        Scalar::Read(out, read)
    });
    View::plain(dag, crop)
}

/// The input's shape and the output's spatial extents.
pub(crate) fn output_extents(
    dag: &Dag,
    x: TensorId,
    operator: &'static str,
    windows: &[Window],
    output_padding: &[i64],
) -> Result<(Vec<i64>, Vec<i64>), OpError> {
    let rank = windows.len();
    check_rank(operator, rank)?;
    let input = shape_with_rank(dag, x, rank + 2, operator)?;
    let mut outputs = Vec::new();
    for (d, w) in windows.iter().enumerate() {
        let extra = output_padding.get(d).copied().unwrap_or(0);
        outputs.push(w.transposed_output(operator, d, input[d + 1], extra)?);
    }
    Ok((input, outputs))
}
