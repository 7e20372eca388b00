//! Elements put where indices say: `ScatterElements`, `ScatterND`, `TensorScatter`, `Col2Im`.

use talweg_tensor::op::{Binary, ScatterReduction};
use talweg_tensor::{Op, Tensor};

use super::constants::limited;
use super::{Entry, entry};
use crate::call::{Call, Outputs, size};
use crate::error::Failure;

pub(super) const ENTRIES: &[Entry] = &[
    entry("Col2Im", 18, col2im),
    entry("Scatter", 9, scatter_elements),
    entry("ScatterElements", 11, scatter_elements),
    entry("ScatterND", 11, scatter_nd),
    entry("TensorScatter", 24, tensor_scatter),
];

fn reduction(call: &Call) -> Result<ScatterReduction, Failure> {
    Ok(match call.text_or("reduction", "none")?.as_str() {
        "none" => ScatterReduction::Replace,
        "add" => ScatterReduction::Add,
        "mul" => ScatterReduction::Mul,
        "max" => ScatterReduction::Max,
        "min" => ScatterReduction::Min,
        other => return Err(Failure::invalid(format!("`reduction` is `{other}`"))),
    })
}

fn scatter_elements(call: &mut Call) -> Outputs {
    let (x, indices, updates) = (call.input(0)?, call.input(1)?, call.input(2)?);
    let axis = call.axis(0, call.rank(x))?;
    let op = Op::ScatterElements { axis, reduction: reduction(call)? };
    Ok(vec![call.builder.one(op, &[x, indices, updates])?])
}

fn scatter_nd(call: &mut Call) -> Outputs {
    let (x, indices, updates) = (call.input(0)?, call.input(1)?, call.input(2)?);
    let op = Op::ScatterNd { reduction: reduction(call)? };
    Ok(vec![call.builder.one(op, &[x, indices, updates])?])
}

/// An update of a cache along one axis, beginning at an index for each element of the batch.
fn tensor_scatter(call: &mut Call) -> Outputs {
    let (cache, update) = (call.input(0)?, call.input(1)?);
    let (shape, part) = (call.shape(cache), call.shape(update));
    let axis = call.axis(-2, shape.len())?;
    if axis == 0 || part.len() != shape.len() {
        return Err(Failure::invalid(format!("an update {part:?} of a cache {shape:?} along axis {axis}")));
    }
    let mut along = vec![1; shape.len()];
    along[axis] = part[axis];
    let steps = call.builder.ints((0..part[axis] as i64).collect());
    let mut indices = call.builder.reshape(steps, along)?;
    if let Some(begin) = call.optional(2) {
        let mut batch = vec![1; shape.len()];
        batch[0] = shape[0];
        let begin = call.builder.reshape(begin, batch)?;
        indices = call.builder.add(indices, begin)?;
    }
    if call.text_or("mode", "linear")? == "circular" {
        let extent = call.builder.scalar_like(indices, shape[axis] as f64);
        indices = call.builder.binary(Binary::Mod { truncated: false }, indices, extent)?;
    }
    let indices = call.builder.expand(indices, part)?;
    let op = Op::ScatterElements { axis, reduction: ScatterReduction::Replace };
    Ok(vec![call.builder.one(op, &[cache, indices, update])?])
}

/// Columns of windows summed into an image: a scatter whose indices are known.
fn col2im(call: &mut Call) -> Outputs {
    let x = call.input(0)?;
    let sizes = |call: &Call, index: usize, what: &str| {
        call.known_ints(index, what)?
            .ok_or_else(|| Failure::invalid(format!("{what} is missing")))?
            .into_iter()
            .map(|v| size(v, what))
            .collect::<Result<Vec<usize>, Failure>>()
    };
    let image = sizes(call, 1, "the image's shape")?;
    let block = sizes(call, 2, "the block's shape")?;
    let rank = image.len();
    let dilations = call.sizes("dilations", rank, 1)?;
    let strides = call.sizes("strides", rank, 1)?;
    let pads = call.sizes("pads", 2 * rank, 0)?;
    let shape = call.shape(x);
    let &[batch, rows, columns] = shape.as_slice() else {
        return Err(Failure::invalid(format!("the input has the shape {shape:?}, not three axes")));
    };
    let window: usize = limited(block.iter().try_fold(1usize, |n, &e| n.checked_mul(e)))?;
    let pixels: usize = limited(image.iter().try_fold(1usize, |n, &e| n.checked_mul(e)))?;
    if block.len() != rank || window == 0 || !rows.is_multiple_of(window) || strides.contains(&0) {
        return Err(Failure::invalid(format!("blocks {block:?} do not fit {rows} rows")));
    }
    let channels = rows / window;
    let mut places = Vec::with_capacity(rank);
    for i in 0..rank {
        let reach = dilations[i].saturating_mul(block[i] - 1).saturating_add(1);
        let padded = image[i].saturating_add(pads[i]).saturating_add(pads[rank + i]);
        places.push(padded.checked_sub(reach).map_or(0, |free| free / strides[i] + 1));
    }
    if places.iter().try_fold(1usize, |n, &e| n.checked_mul(e)) != Some(columns) {
        return Err(Failure::invalid(format!("{columns} columns are not those of {places:?} windows")));
    }
    limited(window.checked_mul(columns))?;
    let mut indices = Vec::with_capacity(window * columns);
    for offset in 0..window {
        for place in 0..columns {
            let (mut o, mut p, mut flat, mut scale) = (offset, place, 0usize, 1usize);
            let mut inside = true;
            for i in (0..rank).rev() {
                let at = (p % places[i]) * strides[i] + (o % block[i]) * dilations[i];
                (o, p) = (o / block[i], p / places[i]);
                inside &= at >= pads[i] && at - pads[i] < image[i];
                flat += at.saturating_sub(pads[i]).min(image[i].saturating_sub(1)) * scale;
                scale *= image[i];
            }
            indices.push(if inside { flat as i64 } else { pixels as i64 });
        }
    }
    let lists = batch * channels;
    let values = call.builder.reshape(x, vec![lists, window * columns])?;
    let indices = call.builder.constant(Tensor::new([1, window * columns], indices));
    let indices = call.builder.expand(indices, vec![lists, window * columns])?;
    let zero = Tensor::from_f64(call.element(x), [], [0.0]);
    let zeros = call.builder.filled(zero, vec![lists, pixels + 1])?;
    let op = Op::ScatterElements { axis: 1, reduction: ScatterReduction::Add };
    let sums = call.builder.one(op, &[zeros, indices, values])?;
    let sums = call.builder.part(sums, 1, 0, pixels)?;
    let mut result = vec![batch, channels];
    result.extend(image);
    Ok(vec![call.builder.reshape(sums, result)?])
}
