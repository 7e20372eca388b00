//! What convolutions and poolings share: the window's attributes and automatic padding.

use crate::call::{Call, size};
use crate::error::Failure;

/// A window slid over the spatial axes.
pub(super) struct Windows {
    pub(super) window: Vec<usize>,
    pub(super) strides: Vec<usize>,
    pub(super) dilations: Vec<usize>,
    pub(super) begin: Vec<usize>,
    pub(super) end: Vec<usize>,
}

/// The spatial extents of `[batch, channels, spatial...]`.
pub(super) fn spatial(shape: &[usize]) -> Result<Vec<usize>, Failure> {
    match shape {
        [_, _, spatial @ ..] => Ok(spatial.to_vec()),
        _ => Err(Failure::invalid(format!("the input has the shape {shape:?}, which has no channels"))),
    }
}

/// The window over an input with the given spatial extents; its own extents are the attribute `kernel_shape`, or come
/// from the weights.
pub(super) fn windows(call: &Call, extents: &[usize], weights: Option<&[usize]>) -> Result<Windows, Failure> {
    let rank = extents.len();
    let window = match weights {
        Some(window) if !call.has("kernel_shape") => window.to_vec(),
        _ if !call.has("kernel_shape") => {
            return Err(Failure::invalid("attribute `kernel_shape` is missing"));
        }
        _ => call.sizes("kernel_shape", rank, 1)?,
    };
    let strides = call.sizes("strides", rank, 1)?;
    let dilations = call.sizes("dilations", rank, 1)?;
    if window.len() != rank || window.iter().chain(&strides).chain(&dilations).any(|&v| v == 0 || v > 1 << 31)
    {
        return Err(Failure::invalid(format!(
            "window {window:?}, strides {strides:?} and dilations {dilations:?} do not fit {rank} axes"
        )));
    }
    let (begin, end) = match call.text_or("auto_pad", "NOTSET")?.as_str() {
        "NOTSET" | "" => pads(call, rank)?,
        "VALID" => (vec![0; rank], vec![0; rank]),
        same @ ("SAME_UPPER" | "SAME_LOWER") => {
            let mut before = Vec::with_capacity(rank);
            let mut after = Vec::with_capacity(rank);
            for i in 0..rank {
                let reach = (window[i] - 1) * dilations[i] + 1;
                let last = extents[i].div_ceil(strides[i]).saturating_sub(1) * strides[i];
                let total = (last + reach).saturating_sub(extents[i]);
                let small = total / 2;
                let (b, a) =
                    if same == "SAME_UPPER" { (small, total - small) } else { (total - small, small) };
                before.push(b);
                after.push(a);
            }
            (before, after)
        }
        other => return Err(Failure::invalid(format!("`auto_pad` is `{other}`"))),
    };
    Ok(Windows { window, strides, dilations, begin, end })
}

/// The attribute `pads`: all begins, then all ends.
fn pads(call: &Call, rank: usize) -> Result<(Vec<usize>, Vec<usize>), Failure> {
    let Some(pads) = call.ints("pads")? else { return Ok((vec![0; rank], vec![0; rank])) };
    if pads.len() != 2 * rank {
        return Err(Failure::invalid(format!("`pads` has {} entries for {rank} axes", pads.len())));
    }
    let sizes = pads
        .iter()
        .map(|&pad| {
            let pad = size(pad, "a pad")?;
            if pad > 1 << 31 { Err(Failure::invalid(format!("a pad is {pad}"))) } else { Ok(pad) }
        })
        .collect::<Result<Vec<usize>, Failure>>()?;
    Ok((sizes[..rank].to_vec(), sizes[rank..].to_vec()))
}
