//! Between channels and space: `DepthToSpace`, `SpaceToDepth`.

use super::{Entry, entry};
use crate::call::{Call, Outputs, size};
use crate::error::Failure;

pub(super) const ENTRIES: &[Entry] =
    &[entry("DepthToSpace", 1, depth_to_space), entry("SpaceToDepth", 1, space_to_depth)];

/// `[batch, channels, height, width]`, the block, and whether channels are outermost within the depth (`CRD`).
fn parts(call: &Call) -> Result<([usize; 4], usize, bool), Failure> {
    let shape = call.shape(call.input(0)?);
    let shape: [usize; 4] = shape
        .as_slice()
        .try_into()
        .map_err(|_| Failure::invalid(format!("the input has the shape {shape:?}, not four axes")))?;
    let block = call.int("blocksize")?.ok_or_else(|| Failure::invalid("`blocksize` is missing"))?;
    let block = size(block, "`blocksize`")?;
    if block == 0 || block > 1 << 20 {
        return Err(Failure::invalid(format!("`blocksize` is {block}")));
    }
    match call.text_or("mode", "DCR")?.as_str() {
        "DCR" => Ok((shape, block, false)),
        "CRD" => Ok((shape, block, true)),
        other => Err(Failure::invalid(format!("`mode` is `{other}`"))),
    }
}

fn depth_to_space(call: &mut Call) -> Outputs {
    let ([n, c, h, w], block, channels_first) = parts(call)?;
    if !c.is_multiple_of(block * block) {
        return Err(Failure::invalid(format!("{c} channels do not divide into blocks of {block}x{block}")));
    }
    let depth = c / (block * block);
    let (split, perm) = if channels_first {
        (vec![n, depth, block, block, h, w], vec![0, 1, 4, 2, 5, 3])
    } else {
        (vec![n, block, block, depth, h, w], vec![0, 3, 4, 1, 5, 2])
    };
    let x = call.input(0)?;
    let x = call.builder.reshape(x, split)?;
    let x = call.builder.transpose(x, perm)?;
    Ok(vec![call.builder.reshape(x, vec![n, depth, h * block, w * block])?])
}

fn space_to_depth(call: &mut Call) -> Outputs {
    let ([n, c, h, w], block, channels_first) = parts(call)?;
    if !h.is_multiple_of(block) || !w.is_multiple_of(block) {
        return Err(Failure::invalid(format!("{h}x{w} does not divide into blocks of {block}x{block}")));
    }
    let perm = if channels_first { vec![0, 1, 3, 5, 2, 4] } else { vec![0, 3, 5, 1, 2, 4] };
    let x = call.input(0)?;
    let x = call.builder.reshape(x, vec![n, c, h / block, block, w / block, block])?;
    let x = call.builder.transpose(x, perm)?;
    Ok(vec![call.builder.reshape(x, vec![n, c * block * block, h / block, w / block])?])
}
