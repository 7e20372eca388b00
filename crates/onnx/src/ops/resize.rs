//! Interpolation: `Resize` of operator sets 10 to the newest, `Upsample`.

use talweg_tensor::Op;
use talweg_tensor::op::{Coordinates, NearestRule, Resize, ResizeMode};

use super::{Entry, entry};
use crate::call::{Call, Outputs, axis, size};
use crate::error::Failure;

pub(super) const ENTRIES: &[Entry] = &[entry("Resize", 10, resize), entry("Upsample", 7, upsample)];

/// The floats of a constant input, or `None` if it is absent or empty.
fn floats(call: &Call, index: usize, what: &str) -> Result<Option<Vec<f32>>, Failure> {
    let tensor = call.known(index, what)?.filter(|tensor| !tensor.is_empty());
    Ok(tensor.map(|tensor| tensor.to_f64().into_iter().map(|v| v as f32).collect()))
}

fn scaled(extent: usize, factor: f64) -> Result<usize, Failure> {
    let result = (extent as f64 * factor).floor();
    if (0.0..1e12).contains(&result) {
        Ok(result as usize)
    } else {
        Err(Failure::invalid(format!("an extent of {extent} is scaled by {factor}")))
    }
}

/// The oldest form: scales only, positions by division, the element before.
fn by_scales(call: &mut Call, scales: Vec<f32>) -> Outputs {
    let x = call.input(0)?;
    let shape = call.shape(x);
    if scales.len() != shape.len() {
        return Err(Failure::invalid(format!("{} scales for {} axes", scales.len(), shape.len())));
    }
    let mode = match call.text_or("mode", "nearest")?.as_str() {
        "nearest" => ResizeMode::Nearest(NearestRule::Floor),
        "linear" | "bilinear" => ResizeMode::Linear,
        other => return Err(Failure::invalid(format!("`mode` is `{other}`"))),
    };
    let extents = shape
        .iter()
        .zip(&scales)
        .map(|(&extent, &scale)| scaled(extent, f64::from(scale)))
        .collect::<Result<Vec<usize>, Failure>>()?;
    let op = Resize {
        mode,
        coordinates: Coordinates::Asymmetric,
        shape: extents,
        scales,
        roi: vec![],
        extrapolation: 0.0,
        antialias: false,
        exclude_outside: false,
    };
    Ok(vec![call.builder.one(Op::Resize(op), &[x])?])
}

fn upsample(call: &mut Call) -> Outputs {
    let scales = if call.opset < 9 { call.floats("scales")? } else { floats(call, 1, "the scales")? };
    by_scales(call, scales.ok_or_else(|| Failure::invalid("the scales are missing"))?)
}

fn resize(call: &mut Call) -> Outputs {
    if call.opset < 11 {
        let scales = floats(call, 1, "the scales")?;
        return by_scales(call, scales.ok_or_else(|| Failure::invalid("the scales are missing"))?);
    }
    let x = call.input(0)?;
    let shape = call.shape(x);
    let rank = shape.len();
    let axes: Vec<usize> = match call.ints("axes")? {
        None => (0..rank).collect(),
        Some(axes) => axes.into_iter().map(|a| axis(a, rank)).collect::<Result<Vec<usize>, Failure>>()?,
    };
    let coordinates = coordinates(call)?;
    let mut roi = vec![];
    if coordinates == Coordinates::CropAndResize {
        let given = floats(call, 1, "the region of interest")?.unwrap_or_default();
        if given.len() != 2 * axes.len() {
            return Err(Failure::invalid(format!("the region {given:?} does not fit the axes {axes:?}")));
        }
        roi = [vec![0.0; rank], vec![1.0; rank]].concat();
        for (i, &axis) in axes.iter().enumerate() {
            roi[axis] = given[i];
            roi[rank + axis] = given[axes.len() + i];
        }
    }
    let (extents, scales) = extents(call, &shape, &axes, &roi)?;
    if extents == shape && roi.is_empty() && scales.iter().all(|&s| s == 1.0) {
        return Ok(vec![x]);
    }
    let op = Resize {
        mode: mode(call)?,
        coordinates,
        shape: extents,
        scales,
        roi,
        extrapolation: call.float_or("extrapolation_value", 0.0)?,
        antialias: call.flag("antialias", false)?,
        exclude_outside: call.flag("exclude_outside", false)?,
    };
    Ok(vec![call.builder.one(Op::Resize(op), &[x])?])
}

/// The shape of the result and the scale of every axis, from scales or from sizes.
fn extents(
    call: &Call,
    shape: &[usize],
    axes: &[usize],
    roi: &[f32],
) -> Result<(Vec<usize>, Vec<f32>), Failure> {
    let rank = shape.len();
    let mut extents = shape.to_vec();
    let mut scales = vec![1.0f32; rank];
    if let Some(given) = floats(call, 2, "the scales")? {
        if given.len() != axes.len() {
            return Err(Failure::invalid(format!("{} scales for {} axes", given.len(), axes.len())));
        }
        for (&axis, &scale) in axes.iter().zip(&given) {
            let part = if roi.is_empty() { 1.0 } else { f64::from(roi[rank + axis]) - f64::from(roi[axis]) };
            extents[axis] = scaled(shape[axis], part * f64::from(scale))?;
            scales[axis] = scale;
        }
        return Ok((extents, scales));
    }
    let given = call.known_ints(3, "the sizes")?.filter(|sizes| !sizes.is_empty());
    let given = given.ok_or_else(|| Failure::invalid("neither scales nor sizes are given"))?;
    if given.len() != axes.len() {
        return Err(Failure::invalid(format!("{} sizes for {} axes", given.len(), axes.len())));
    }
    let sizes = given.iter().map(|&s| size(s, "a size")).collect::<Result<Vec<usize>, Failure>>()?;
    let ratio = |i: usize| sizes[i] as f64 / shape[axes[i]].max(1) as f64;
    let ratios = (0..axes.len()).map(ratio);
    let common = match call.text_or("keep_aspect_ratio_policy", "stretch")?.as_str() {
        "stretch" => None,
        "not_larger" => ratios.reduce(f64::min),
        "not_smaller" => ratios.reduce(f64::max),
        other => return Err(Failure::invalid(format!("`keep_aspect_ratio_policy` is `{other}`"))),
    };
    for (i, &axis) in axes.iter().enumerate() {
        match common {
            None => {
                extents[axis] = sizes[i];
                scales[axis] = ratio(i) as f32;
            }
            Some(common) => {
                extents[axis] = scaled(1, (common * shape[axis] as f64 + 0.5).floor())?;
                scales[axis] = common as f32;
            }
        }
    }
    Ok((extents, scales))
}

fn coordinates(call: &Call) -> Result<Coordinates, Failure> {
    Ok(match call.text_or("coordinate_transformation_mode", "half_pixel")?.as_str() {
        "half_pixel" => Coordinates::HalfPixel,
        "half_pixel_symmetric" => Coordinates::HalfPixelSymmetric,
        "pytorch_half_pixel" => Coordinates::PytorchHalfPixel,
        "align_corners" => Coordinates::AlignCorners,
        "asymmetric" => Coordinates::Asymmetric,
        "tf_crop_and_resize" => Coordinates::CropAndResize,
        "tf_half_pixel_for_nn" => {
            return Err(Failure::unsupported(
                "the coordinates `tf_half_pixel_for_nn` are not supported",
                "convert the model to operator set 13 or newer, which does not have them",
            ));
        }
        other => return Err(Failure::invalid(format!("`coordinate_transformation_mode` is `{other}`"))),
    })
}

fn mode(call: &Call) -> Result<ResizeMode, Failure> {
    Ok(match call.text_or("mode", "nearest")?.as_str() {
        "nearest" => {
            ResizeMode::Nearest(match call.text_or("nearest_mode", "round_prefer_floor")?.as_str() {
                "round_prefer_floor" => NearestRule::RoundPreferFloor,
                "round_prefer_ceil" => NearestRule::RoundPreferCeil,
                "floor" => NearestRule::Floor,
                "ceil" => NearestRule::Ceil,
                other => return Err(Failure::invalid(format!("`nearest_mode` is `{other}`"))),
            })
        }
        "linear" => ResizeMode::Linear,
        "cubic" => ResizeMode::Cubic { a: call.float_or("cubic_coeff_a", -0.75)? },
        other => return Err(Failure::invalid(format!("`mode` is `{other}`"))),
    })
}
