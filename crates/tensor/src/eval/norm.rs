//! Normalisations.

use super::Call;
use crate::element::ElementType;
use crate::error::OpError;
use crate::tensor::Tensor;
use crate::walk::{broadcast_strides, copy_strided};

/// A scale or bias, repeated to the normalised axes.
fn spread(tensor: &Tensor, inner: &[usize]) -> Vec<f64> {
    copy_strided(&tensor.to_f64(), 0, inner, &broadcast_strides(tensor.shape(), inner))
}

pub(super) fn layer(call: &Call, axis: usize, epsilon: f32) -> Result<Vec<Tensor>, OpError> {
    let x = call.get(0)?;
    let inner = &x.shape()[axis..];
    let length: usize = inner.iter().product();
    let scale = spread(call.get(1)?, inner);
    let bias = call.maybe(2).map_or(vec![0.0; length], |bias| spread(bias, inner));
    let count = call.outputs[1].len();
    let (mut means, mut inverses) = (Vec::with_capacity(count), Vec::with_capacity(count));
    let mut values = x.to_f64();
    for row in 0..count {
        let row = &mut values[row * length..][..length];
        let mean = row.iter().sum::<f64>() / length as f64;
        let variance = row.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / length as f64;
        let inverse = 1.0 / (variance + f64::from(epsilon)).sqrt();
        for ((v, scale), bias) in row.iter_mut().zip(&scale).zip(&bias) {
            *v = (*v - mean) * inverse * scale + bias;
        }
        means.push(mean);
        inverses.push(inverse);
    }
    let statistics = |values| Tensor::from_f64(ElementType::F32, call.outputs[1].shape.clone(), values);
    Ok(vec![Tensor::from_f64(x.element(), x.shape(), values), statistics(means), statistics(inverses)])
}

pub(super) fn rms(call: &Call, axis: usize, epsilon: f32) -> Result<Tensor, OpError> {
    let x = call.get(0)?;
    let inner = &x.shape()[axis..];
    let length: usize = inner.iter().product();
    let scale = spread(call.get(1)?, inner);
    let mut values = x.to_f64();
    for row in values.chunks_exact_mut(length.max(1)) {
        let square = row.iter().map(|v| v * v).sum::<f64>() / length as f64;
        let inverse = 1.0 / (square + f64::from(epsilon)).sqrt();
        row.iter_mut().zip(&scale).for_each(|(v, scale)| *v *= inverse * scale);
    }
    Ok(Tensor::from_f64(x.element(), x.shape(), values))
}

pub(super) fn lrn(call: &Call, size: usize, [alpha, beta, bias]: [f32; 3]) -> Result<Tensor, OpError> {
    let x = call.get(0)?;
    let (batch, channels) = (x.shape()[0], x.shape()[1]);
    let inner: usize = x.shape()[2..].iter().product();
    let source = x.to_f64();
    let mut values = Vec::with_capacity(source.len());
    let (before, after) = ((size - 1) / 2, size / 2);
    for n in 0..batch {
        for c in 0..channels {
            let near = c.saturating_sub(before)..c.saturating_add(after).saturating_add(1).min(channels);
            for i in 0..inner {
                let at = |c: usize| source[(n * channels + c) * inner + i];
                let squares: f64 = near.clone().map(|c| at(c) * at(c)).sum();
                let scale = f64::from(bias) + f64::from(alpha) / size as f64 * squares;
                values.push(at(c) / scale.powf(f64::from(beta)));
            }
        }
    }
    Ok(Tensor::from_f64(x.element(), x.shape(), values))
}
