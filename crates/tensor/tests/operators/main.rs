//! The operators against values worked out by hand, naive definitions, and values of the ONNX reference.

mod hostile;
mod linear;
mod movement;
mod numpy;
mod quantize;
mod recurrent;
mod reductions;
mod resize;
mod types;
mod windows;

use talweg_tensor::{Op, OpError, Tensor, evaluate};

/// All results for inputs that are all present.
fn all(op: Op, inputs: &[&Tensor]) -> Result<Vec<Tensor>, OpError> {
    let inputs: Vec<Option<&Tensor>> = inputs.iter().map(|&t| Some(t)).collect();
    evaluate(&op, &inputs)
}

/// The first result.
fn try_one(op: Op, inputs: &[&Tensor]) -> Result<Tensor, OpError> {
    all(op, inputs).map(|mut out| out.remove(0))
}

/// The first result of a call that must succeed.
fn one(op: Op, inputs: &[&Tensor]) -> Tensor {
    try_one(op, inputs).unwrap()
}

/// A tensor of varied values between -1.375 and 1.375, all exact.
fn wave(shape: &[usize]) -> Tensor {
    wave_times(shape, 1.0)
}

fn wave_times(shape: &[usize], factor: f32) -> Tensor {
    let count: usize = shape.iter().product();
    Tensor::new(shape, (0..count).map(|i| ((i * 37 % 23) as f32 - 11.0) / 8.0 * factor).collect())
}

/// Checks values up to the six digits the expectations are given with.
fn assert_close(found: &Tensor, shape: &[usize], expected: &[f64]) {
    assert_eq!(found.shape(), shape);
    let values = found.to_f64();
    assert_eq!(values.len(), expected.len());
    for (i, (v, e)) in values.iter().zip(expected).enumerate() {
        assert!((v - e).abs() < 3e-6 * e.abs().max(1.0), "element {i} is {v} instead of {e}: {values:?}");
    }
}
