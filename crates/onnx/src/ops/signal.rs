//! Signals: window functions, `DFT` and `STFT` as matrix products, `MelWeightMatrix`, `AffineGrid`.

use std::f64::consts::PI;

use talweg_graph::ValueId;
use talweg_tensor::{ElementType, Op, Tensor};

use super::constants::limited;
use super::{Entry, entry};
use crate::call::{Call, Outputs, axis, size};
use crate::error::Failure;

pub(super) const ENTRIES: &[Entry] = &[
    entry("AffineGrid", 20, affine_grid),
    entry("BlackmanWindow", 17, |call| {
        window(call, |t| 0.42 - 0.5 * (2.0 * PI * t).cos() + 0.08 * (4.0 * PI * t).cos())
    }),
    entry("DFT", 17, dft),
    entry("HammingWindow", 17, |call| window(call, |t| 25.0 / 46.0 - 21.0 / 46.0 * (2.0 * PI * t).cos())),
    entry("HannWindow", 17, |call| window(call, |t| (PI * t).sin().powi(2))),
    entry("MelWeightMatrix", 17, mel),
    entry("STFT", 17, stft),
];

fn output_type(call: &Call) -> Result<ElementType, Failure> {
    Ok(call.element_attribute("output_datatype")?.unwrap_or(ElementType::F32))
}

fn window(call: &mut Call, f: fn(f64) -> f64) -> Outputs {
    let len = call.known_int(0, "the size")?.ok_or_else(|| Failure::invalid("the size is missing"))?;
    let len = limited(Some(size(len, "the size")?))?;
    let period = if call.flag("periodic", true)? { len } else { len.saturating_sub(1) } as f64;
    let element = output_type(call)?;
    let tensor = Tensor::from_f64(element, [len], (0..len).map(|i| f(i as f64 / period)));
    Ok(vec![call.builder.constant(tensor)])
}

/// The matrix `[inputs, outputs]` of the real or imaginary part of a transform of `length` points.
fn transform(
    call: &mut Call,
    element: ElementType,
    [inputs, outputs, length]: [usize; 3],
    inverse: bool,
    part: fn(f64) -> f64,
) -> Result<ValueId, Failure> {
    limited(inputs.checked_mul(outputs))?;
    let sign = if inverse { 2.0 } else { -2.0 };
    let factor = if inverse { 1.0 / length as f64 } else { 1.0 };
    let values = (0..inputs * outputs).map(|i| {
        let (n, k) = (i / outputs, i % outputs);
        part(sign * PI * ((n * k) % length) as f64 / length as f64) * factor
    });
    Ok(call.builder.constant(Tensor::from_f64(element, [inputs, outputs], values)))
}

/// Transforms the last axis of the real and imaginary parts.
fn transform_last(
    call: &mut Call,
    real: ValueId,
    imaginary: Option<ValueId>,
    outputs: usize,
    length: usize,
    inverse: bool,
) -> Result<(ValueId, ValueId), Failure> {
    let element = call.element(real);
    let inputs = call.shape(real).last().copied().unwrap_or(0);
    let extents = [inputs, outputs, length];
    let cos = transform(call, element, extents, inverse, f64::cos)?;
    let sin = transform(call, element, extents, inverse, f64::sin)?;
    let mut re = call.builder.matmul(real, cos)?;
    let mut im = call.builder.matmul(real, sin)?;
    if let Some(imaginary) = imaginary {
        let crossed = call.builder.matmul(imaginary, sin)?;
        re = call.builder.sub(re, crossed)?;
        let straight = call.builder.matmul(imaginary, cos)?;
        im = call.builder.add(im, straight)?;
    }
    Ok((re, im))
}

/// The real and the imaginary part of `[..., 1 or 2]`, without the last axis.
fn parts(call: &mut Call, x: ValueId) -> Result<(ValueId, Option<ValueId>), Failure> {
    let mut shape = call.shape(x);
    let last = shape.pop().unwrap_or(0);
    let rank = shape.len();
    match last {
        1 => Ok((call.builder.reshape(x, shape)?, None)),
        2 => {
            let real = call.builder.part(x, rank, 0, 1)?;
            let imaginary = call.builder.part(x, rank, 1, 1)?;
            let real = call.builder.reshape(real, shape.clone())?;
            Ok((real, Some(call.builder.reshape(imaginary, shape)?)))
        }
        other => Err(Failure::invalid(format!("the last axis has {other} elements, not one or two"))),
    }
}

/// Two values beside each other on a new last axis.
fn pair(call: &mut Call, a: ValueId, b: ValueId) -> Result<ValueId, Failure> {
    let mut shape = call.shape(a);
    shape.push(1);
    let axis = shape.len() - 1;
    let a = call.builder.reshape(a, shape.clone())?;
    let b = call.builder.reshape(b, shape)?;
    call.builder.concat(&[a, b], axis)
}

fn dft(call: &mut Call) -> Outputs {
    let x = call.input(0)?;
    let shape = call.shape(x);
    let rank = shape.len();
    let given =
        if call.opset < 20 { call.int_or("axis", 1)? } else { call.known_int(2, "the axis")?.unwrap_or(-2) };
    let axis = axis(given, rank)?;
    if axis + 1 == rank {
        return Err(Failure::invalid("the last axis holds the real and imaginary parts"));
    }
    let (inverse, onesided) = (call.flag("inverse", false)?, call.flag("onesided", false)?);
    let extent = shape[axis];
    let length = match call.known_int(1, "the length")? {
        Some(length) => size(length, "the length")?,
        None if inverse && onesided => 2 * extent.saturating_sub(1),
        None => extent,
    };
    if length == 0 {
        return Err(Failure::invalid("the length is 0"));
    }
    let (mut real, mut imaginary) = parts(call, x)?;
    let mut order: Vec<usize> = (0..rank - 1).filter(|&a| a != axis).collect();
    order.push(axis);
    let used = if inverse && onesided { extent.min(length / 2 + 1) } else { extent.min(length) };
    let prepare = |call: &mut Call, value: ValueId| {
        let value = call.builder.part(value, axis, 0, used)?;
        call.builder.transpose(value, order.clone())
    };
    real = prepare(call, real)?;
    if let Some(value) = imaginary {
        imaginary = Some(prepare(call, value)?);
    }
    if inverse && onesided {
        let (full_real, full_imaginary) = mirrored(call, real, imaginary, length)?;
        (real, imaginary) = (full_real, full_imaginary);
    }
    let outputs = if onesided && !inverse { length / 2 + 1 } else { length };
    let (re, im) = transform_last(call, real, imaginary, outputs, length, inverse)?;
    let mut back: Vec<usize> = (0..rank - 2).collect();
    back.insert(axis, rank - 2);
    let re = call.builder.transpose(re, back.clone())?;
    if inverse && onesided {
        let mut shape = call.shape(re);
        shape.push(1);
        return Ok(vec![call.builder.reshape(re, shape)?]);
    }
    let im = call.builder.transpose(im, back)?;
    Ok(vec![pair(call, re, im)?])
}

/// The whole spectrum of a real signal from its first half: the rest is the conjugate, backwards.
fn mirrored(
    call: &mut Call,
    real: ValueId,
    imaginary: Option<ValueId>,
    length: usize,
) -> Result<(ValueId, Option<ValueId>), Failure> {
    let shape = call.shape(real);
    let last = shape.len() - 1;
    let have = shape[last];
    let indices: Vec<i64> = (0..length)
        .map(|k| if k <= length / 2 { k } else { length - k }.min(have.saturating_sub(1)) as i64)
        .collect();
    let beyond = |k: usize| (if k <= length / 2 { k } else { length - k }) >= have;
    let mask: Vec<f64> = (0..length).map(|k| if beyond(k) { 0.0 } else { 1.0 }).collect();
    let signs: Vec<f64> = (0..length)
        .map(|k| match k {
            _ if beyond(k) || k == 0 || 2 * k == length => 0.0,
            k if k > length / 2 => -1.0,
            _ => 1.0,
        })
        .collect();
    let element = call.element(real);
    let indices = call.builder.ints(indices);
    let mask = call.builder.constant(Tensor::from_f64(element, [length], mask));
    let signs = call.builder.constant(Tensor::from_f64(element, [length], signs));
    let real = call.builder.one(Op::Gather { axis: last }, &[real, indices])?;
    let real = call.builder.mul(real, mask)?;
    let imaginary = match imaginary {
        Some(imaginary) => {
            let imaginary = call.builder.one(Op::Gather { axis: last }, &[imaginary, indices])?;
            Some(call.builder.mul(imaginary, signs)?)
        }
        None => None,
    };
    Ok((real, imaginary))
}

/// Frames of the signal, windowed and transformed.
fn stft(call: &mut Call) -> Outputs {
    let signal = call.input(0)?;
    let step = call.known_int(1, "the step")?.ok_or_else(|| Failure::invalid("the step is missing"))?;
    let step = size(step, "the step")?;
    let window = call.optional(2);
    let mut shape = call.shape(signal);
    if shape.len() == 2 {
        shape.push(1);
    }
    let signal = call.builder.reshape(signal, shape.clone())?;
    let &[batch, samples, _] = shape.as_slice() else {
        return Err(Failure::invalid(format!("the signal has the shape {shape:?}")));
    };
    let length = match (call.known_int(3, "the frame's length")?, window) {
        (Some(length), _) => size(length, "the frame's length")?,
        (None, Some(window)) => call.shape(window).first().copied().unwrap_or(0),
        (None, None) => return Err(Failure::invalid("neither a window nor a frame length is given")),
    };
    if step == 0 || length == 0 || length > samples {
        return Err(Failure::invalid(format!("frames of {length} by {step} in {samples} samples")));
    }
    let frames = (samples - length) / step + 1;
    limited(frames.checked_mul(length))?;
    let onesided = call.flag("onesided", true)?;
    let indices: Vec<i64> =
        (0..frames).flat_map(|f| (0..length).map(move |i| (f * step + i) as i64)).collect();
    let indices = call.builder.constant(Tensor::new([frames * length], indices));
    let (real, imaginary) = parts(call, signal)?;
    let cut = |call: &mut Call, value: ValueId| {
        let value = call.builder.one(Op::Gather { axis: 1 }, &[value, indices])?;
        let value = call.builder.reshape(value, vec![batch, frames, length])?;
        match window {
            Some(window) => call.builder.mul(value, window),
            None => Ok(value),
        }
    };
    let real = cut(call, real)?;
    let imaginary = match imaginary {
        Some(imaginary) => Some(cut(call, imaginary)?),
        None => None,
    };
    let outputs = if onesided { length / 2 + 1 } else { length };
    let (re, im) = transform_last(call, real, imaginary, outputs, length, false)?;
    Ok(vec![pair(call, re, im)?])
}

fn mel(call: &mut Call) -> Outputs {
    let number = |index: usize, what: &str| -> Result<f64, Failure> {
        let tensor =
            call.known(index, what)?.ok_or_else(|| Failure::invalid(format!("{what} is missing")))?;
        tensor.to_f64().first().copied().ok_or_else(|| Failure::invalid(format!("{what} is empty")))
    };
    let bins = size(number(0, "the number of bins")? as i64, "the number of bins")?;
    let length = number(1, "the length")?;
    let rate = number(2, "the sample rate")?;
    let (low, high) = (number(3, "the lower edge")?, number(4, "the upper edge")?);
    let spectrum = limited(Some(size(length as i64, "the length")?))? / 2 + 1;
    limited(spectrum.checked_mul(bins))?;
    let to_mel = |hertz: f64| 2595.0 * (hertz / 700.0).ln_1p() / 10f64.ln();
    let (low, high) = (to_mel(low), to_mel(high));
    let step = (high - low) / (bins + 2) as f64;
    let edges: Vec<usize> = (0..bins + 2)
        .map(|i| 700.0 * ((i as f64 * step + low) / 2595.0 * 10f64.ln()).exp_m1())
        .map(|hertz| ((length + 1.0) * hertz / rate).floor().max(0.0) as usize)
        .collect();
    if edges.iter().any(|&edge| edge >= spectrum) {
        return Err(Failure::invalid("a band lies beyond the spectrum"));
    }
    let mut values = vec![0.0; spectrum * bins];
    for i in 0..bins {
        let (left, centre, right) = (edges[i], edges[i + 1], edges[i + 2]);
        if left == centre {
            values[centre * bins + i] = 1.0;
        }
        for j in left..=centre.max(left) {
            if centre > left {
                values[j * bins + i] = (j - left) as f64 / (centre - left) as f64;
            }
        }
        for j in centre..right {
            values[j * bins + i] = (right - j) as f64 / (right - centre) as f64;
        }
    }
    let element = output_type(call)?;
    Ok(vec![call.builder.constant(Tensor::from_f64(element, [spectrum, bins], values))])
}

/// A regular grid of positions from -1 to 1, transformed by a matrix for each element of the batch.
fn affine_grid(call: &mut Call) -> Outputs {
    let theta = call.input(0)?;
    let given = call.known_ints(1, "the size")?.ok_or_else(|| Failure::invalid("the size is missing"))?;
    let extents = given.iter().map(|&e| size(e, "an extent")).collect::<Result<Vec<usize>, Failure>>()?;
    let [batch, _, spatial @ ..] = extents.as_slice() else {
        return Err(Failure::invalid(format!("the size is {given:?}")));
    };
    let corners = call.flag("align_corners", false)?;
    let points = limited(spatial.iter().try_fold(1usize, |n, &e| n.checked_mul(e)))?;
    let rank = spatial.len();
    let mut values = vec![1.0f64; (rank + 1) * points];
    for point in 0..points {
        let mut rest = point;
        for axis in (0..rank).rev() {
            let (at, extent) = ((rest % spatial[axis]) as f64, spatial[axis] as f64);
            rest /= spatial[axis];
            let position = match corners {
                true if extent > 1.0 => -1.0 + 2.0 * at / (extent - 1.0),
                true => -1.0,
                false => (2.0 * at + 1.0) / extent - 1.0,
            };
            values[(rank - 1 - axis) * points + point] = position;
        }
    }
    let element = call.element(theta);
    let grid = call.builder.constant(Tensor::from_f64(element, [rank + 1, points], values));
    let moved = call.builder.matmul(theta, grid)?;
    let moved = call.builder.transpose(moved, vec![0, 2, 1])?;
    let mut shape = vec![*batch];
    shape.extend_from_slice(spatial);
    shape.push(rank);
    Ok(vec![call.builder.reshape(moved, shape)?])
}
