//! Recurrent layers, against the ONNX reference.

use talweg_tensor::op::{Activation, Direction, Recurrent, Unary};
use talweg_tensor::{Op, Tensor, evaluate};

use crate::{assert_close, wave, wave_times};

fn layer(activations: &[Unary]) -> Recurrent {
    Recurrent {
        hidden: 2,
        direction: Direction::Forward,
        activations: activations.iter().map(|&unary| Activation::Unary(unary)).collect(),
        clip: None,
        batch_first: false,
        linear_before_reset: false,
        input_forget: false,
    }
}

fn lstm() -> Recurrent {
    layer(&[Unary::Sigmoid, Unary::Tanh, Unary::Tanh])
}

fn run(op: Op, gates: usize) -> Vec<Tensor> {
    let hidden = wave(&[1, 2, 2]);
    let cell = wave_times(&[1, 2, 2], 0.5);
    let peepholes = wave_times(&[1, 6], 0.25);
    let parameters = [
        wave(&[3, 2, 2]),
        wave_times(&[1, gates * 2, 2], 0.5),
        wave_times(&[1, gates * 2, 2], 0.25),
        wave_times(&[1, gates * 4], 0.125),
    ];
    let mut inputs: Vec<Option<&Tensor>> = parameters.iter().map(Some).collect();
    inputs.extend([None, Some(&hidden)]);
    if matches!(op, Op::Lstm(_)) {
        inputs.extend([Some(&cell), Some(&peepholes)]);
    }
    evaluate(&op, &inputs).unwrap()
}

#[test]
fn long_short_term_memory() {
    let y = run(Op::Lstm(lstm()), 4);
    assert_eq!(y.len(), 3);
    assert_close(
        &y[0],
        &[3, 1, 2, 2],
        &[
            0.16063, -0.09457, 0.112232, -0.083554, -0.016908, 0.021577, 0.077985, -0.020992, -0.032638,
            -0.02764, 0.153522, -0.148811,
        ],
    );
    assert_close(&y[1], &[1, 2, 2], &[-0.032638, -0.02764, 0.153522, -0.148811]);
    assert_close(&y[2], &[1, 2, 2], &[-0.076693, -0.044985, 0.478118, -0.378066]);
}

#[test]
fn gated_recurrent_unit() {
    let gru = layer(&[Unary::Sigmoid, Unary::Tanh]);
    let y = run(Op::Gru(gru.clone()), 3);
    assert_eq!(y.len(), 2);
    assert_close(&y[1], &[1, 2, 2], &[-0.108761, -0.228846, -0.405689, 0.3603]);
    let y = run(Op::Gru(Recurrent { linear_before_reset: true, ..gru }), 3);
    assert_close(&y[1], &[1, 2, 2], &[-0.057551, -0.260004, -0.358459, 0.337464]);
}

#[test]
fn plain_recurrence() {
    let y = run(Op::Rnn(layer(&[Unary::Tanh])), 1);
    assert_close(
        &y[0],
        &[3, 1, 2, 2],
        &[
            0.85046, 0.841579, 0.657878, 0.87257, -0.556335, -0.341082, -0.701833, -0.22919, -0.706318,
            -0.226937, 0.688327, 0.753302,
        ],
    );
}

/// Both directions are the two single ones side by side, and a sequence that ends early keeps its state.
#[test]
fn directions_and_lengths() {
    let single = |direction| Recurrent { direction, ..layer(&[Unary::Tanh]) };
    let (x, w, r) = (wave(&[3, 2, 2]), wave(&[1, 2, 2]), wave_times(&[1, 2, 2], 0.5));
    let lengths = Tensor::new([2], vec![3i32, 1]);
    let run = |op: Recurrent, w: &Tensor, r: &Tensor| {
        evaluate(&Op::Rnn(op), &[Some(&x), Some(w), Some(r), None, Some(&lengths)]).unwrap()
    };
    let forward = run(single(Direction::Forward), &w, &r);
    let reverse = run(single(Direction::Reverse), &w, &r);
    let twice = |t: &Tensor| Tensor::new([2, 2, 2], [t.values::<f32>(), t.values::<f32>()].concat());
    let both = Recurrent {
        activations: vec![Activation::Unary(Unary::Tanh); 2],
        ..single(Direction::Bidirectional)
    };
    let both = run(both, &twice(&w), &twice(&r));
    let last = [forward[1].to_f64(), reverse[1].to_f64()].concat();
    assert_eq!(both[1].to_f64(), last);
    assert_eq!(both[0].shape(), [3, 2, 2, 2]);
    let y = forward[0].to_f64();
    assert_eq!(y[4 + 2..8], [0.0, 0.0]);
    assert_eq!(forward[1].to_f64()[2..], y[2..4]);
    let wrong = Tensor::new([2], vec![4i32, 1]);
    let error =
        evaluate(&Op::Rnn(single(Direction::Forward)), &[Some(&x), Some(&w), Some(&r), None, Some(&wrong)]);
    assert!(
        error.unwrap_err().to_string().contains("holds 4, but its elements must be lengths of at most 3")
    );
}

#[test]
fn batch_first_is_a_transposition() {
    let x = wave(&[3, 2, 2]);
    let (w, r) = (wave(&[1, 8, 2]), wave(&[1, 8, 2]));
    let plain = evaluate(&Op::Lstm(lstm()), &[Some(&x), Some(&w), Some(&r)]).unwrap();
    let transposed = crate::one(Op::Transpose { perm: vec![1, 0, 2] }, &[&x]);
    let op = Op::Lstm(Recurrent { batch_first: true, ..lstm() });
    let y = evaluate(&op, &[Some(&transposed), Some(&w), Some(&r)]).unwrap();
    assert_eq!(y[0].shape(), [2, 3, 1, 2]);
    let back = crate::one(Op::Transpose { perm: vec![1, 2, 0, 3] }, &[&y[0]]);
    assert_eq!(back.to_f64(), plain[0].to_f64());
}
