//! Convolutions: `Conv`, `ConvTranspose`, `ConvInteger`.

use talweg_graph::ValueId;
use talweg_tensor::Op;
use talweg_tensor::op::{Conv, ConvTranspose, Layout};

use super::windows::{spatial, windows};
use super::{Entry, entry};
use crate::call::{Call, Outputs, size};
use crate::error::Failure;

pub(super) const ENTRIES: &[Entry] = &[
    entry("Conv", 1, conv),
    entry("ConvInteger", 10, conv_integer),
    entry("ConvTranspose", 1, conv_transpose),
];

/// The attributes of a convolution of `x` with weights `w`.
pub(super) fn attributes(call: &Call, x: ValueId, w: ValueId) -> Result<Conv, Failure> {
    let extents = spatial(&call.shape(x))?;
    let kernel = spatial(&call.shape(w))?;
    let windows = windows(call, &extents, Some(&kernel))?;
    if windows.window != kernel {
        return Err(Failure::invalid(format!(
            "`kernel_shape` is {:?}, but the weights have {kernel:?}",
            windows.window
        )));
    }
    Ok(Conv {
        strides: windows.strides,
        dilations: windows.dilations,
        begin: windows.begin,
        end: windows.end,
        groups: size(call.int_or("group", 1)?, "`group`")?,
        layout: Layout::ChannelsFirst,
    })
}

fn conv(call: &mut Call) -> Outputs {
    let (x, w) = (call.input(0)?, call.input(1)?);
    let conv = attributes(call, x, w)?;
    let bias = call.optional(2);
    Ok(vec![call.builder.one_of(Op::Conv(conv), &[Some(x), Some(w), bias])?])
}

fn conv_integer(call: &mut Call) -> Outputs {
    let (x, w) = (call.input(0)?, call.input(1)?);
    let conv = attributes(call, x, w)?;
    let inputs = [Some(x), Some(w), call.optional(2), call.optional(3)];
    Ok(vec![call.builder.one_of(Op::ConvInteger(conv), &inputs)?])
}

/// Output padding and a given output shape become elements that are cut.
fn conv_transpose(call: &mut Call) -> Outputs {
    let (x, w) = (call.input(0)?, call.input(1)?);
    let extents = spatial(&call.shape(x))?;
    let kernel = spatial(&call.shape(w))?;
    let rank = extents.len();
    let strides = call.sizes("strides", rank, 1)?;
    let dilations = call.sizes("dilations", rank, 1)?;
    let output_padding = call.sizes("output_padding", rank, 0)?;
    let groups = size(call.int_or("group", 1)?, "`group`")?;
    let limits = strides.iter().chain(&dilations).chain(&output_padding).chain(&kernel).chain(&extents);
    if kernel.len() != rank || kernel.contains(&0) || limits.into_iter().any(|&v| v > 1 << 31) {
        return Err(Failure::invalid(format!("weights of window {kernel:?} do not fit {rank} axes")));
    }
    let auto_pad = call.text_or("auto_pad", "NOTSET")?;
    let shape = match call.ints("output_shape")? {
        Some(shape) if shape.len() == rank => Some(shape),
        Some(shape) if shape.len() == rank + 2 => Some(shape[2..].to_vec()),
        Some(shape) => {
            return Err(Failure::invalid(format!("`output_shape` is {shape:?} for {rank} axes")));
        }
        None if auto_pad.starts_with("SAME") => {
            Some(extents.iter().zip(&strides).map(|(&e, &s)| (e * s) as i64).collect())
        }
        None => None,
    };
    let mut begin = Vec::with_capacity(rank);
    let mut end = Vec::with_capacity(rank);
    let pads = call.ints("pads")?.unwrap_or_else(|| vec![0; 2 * rank]);
    if pads.len() != 2 * rank || pads.iter().any(|&pad| !(-(1 << 31)..=1 << 31).contains(&pad)) {
        return Err(Failure::invalid(format!("`pads` is {pads:?} for {rank} axes")));
    }
    for i in 0..rank {
        let extra = output_padding[i] as i64;
        match &shape {
            Some(shape) => {
                let reach = (kernel[i] - 1) * dilations[i] + 1;
                let full = (strides[i] * extents[i].saturating_sub(1) + reach) as i64 + extra;
                let total = full
                    .checked_sub(shape[i])
                    .filter(|total| total.abs() <= 1 << 32)
                    .ok_or_else(|| Failure::invalid(format!("`output_shape` is {shape:?}")))?;
                let total = total.max(0);
                let small = total / 2;
                let before = if auto_pad == "SAME_UPPER" { small } else { total - small };
                begin.push(before);
                end.push(full - before - shape[i] - extra);
            }
            None if auto_pad == "VALID" => {
                begin.push(0);
                end.push(-extra);
            }
            None => {
                begin.push(pads[i]);
                end.push(pads[rank + i] - extra);
            }
        }
    }
    let op = ConvTranspose { strides, dilations, begin, end, groups, layout: Layout::ChannelsFirst };
    let bias = call.optional(2);
    Ok(vec![call.builder.one_of(Op::ConvTranspose(op), &[Some(x), Some(w), bias])?])
}
