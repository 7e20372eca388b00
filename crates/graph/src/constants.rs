//! Constants in another layout: what is done to weights when a network is built.

use bytes::Bytes;
use talweg_tensor::Tensor;

/// The constant with its axes in another order: axis `i` of the result is axis `perm[i]`.
pub(crate) fn transpose(tensor: &Tensor, perm: &[usize]) -> Tensor {
    let shape: Vec<usize> = perm.iter().map(|p| tensor.shape()[*p]).collect();
    match tensor.element().bytes() {
        1 => moved::<1>(tensor, perm, shape),
        2 => moved::<2>(tensor, perm, shape),
        4 => moved::<4>(tensor, perm, shape),
        _ => moved::<8>(tensor, perm, shape),
    }
}

/// Elements of `SIZE` bytes in another order. The axes innermost on either side run in square blocks, so that both
/// sides stay cached.
fn moved<const SIZE: usize>(tensor: &Tensor, perm: &[usize], shape: Vec<usize>) -> Tensor {
    const BLOCK: usize = 16;
    let (source, _) = tensor.bytes().as_chunks::<SIZE>();
    let mut out = vec![[0u8; SIZE]; source.len()];
    let rank = perm.len();
    let from: Vec<usize> = perm.iter().map(|p| strides(tensor.shape())[*p]).collect();
    let to = strides(&shape);
    // The axes of the result that are innermost in the result, and in the source.
    let written = rank.checked_sub(1);
    let read = (0..rank).find(|d| perm[*d] + 1 == rank);
    let extent = |d: Option<usize>| d.map_or(1, |d| shape[d]);
    let step = |d: Option<usize>, steps: &[usize]| d.map_or(0, |d| steps[d]);
    let other = if read == written { None } else { read };
    let rest: Vec<usize> = (0..rank).filter(|d| Some(*d) != written && Some(*d) != other).collect();
    let count: usize = rest.iter().map(|d| shape[*d]).product();
    for at in 0..if source.is_empty() { 0 } else { count } {
        let (mut left, mut base_from, mut base_to) = (at, 0, 0);
        for d in rest.iter().rev() {
            base_from += left % shape[*d] * from[*d];
            base_to += left % shape[*d] * to[*d];
            left /= shape[*d];
        }
        for r0 in (0..extent(other)).step_by(BLOCK) {
            for w0 in (0..extent(written)).step_by(BLOCK) {
                for r in r0..(r0 + BLOCK).min(extent(other)) {
                    for w in w0..(w0 + BLOCK).min(extent(written)) {
                        let place = base_to + r * step(other, &to) + w * step(written, &to);
                        let taken = base_from + r * step(other, &from) + w * step(written, &from);
                        out[place] = source[taken];
                    }
                }
            }
        }
    }
    let bytes = Bytes::from(out.into_flattened());
    Tensor::from_bytes(tensor.element(), shape, bytes).expect("as many elements as before")
}

/// The constant with zeros behind the end of its axes, up to a shape.
pub(crate) fn pad_end(tensor: &Tensor, shape: &[usize]) -> Tensor {
    if tensor.shape() == shape {
        return tensor.clone();
    }
    let size = tensor.element().bytes();
    let mut out = vec![0u8; shape.iter().product::<usize>() * size];
    let target = strides(shape);
    let row = tensor.shape().last().copied().unwrap_or(1) * size;
    let data = tensor.bytes();
    for (at, piece) in data.chunks_exact(row.max(1)).enumerate() {
        let mut rest = at;
        let mut place = 0;
        for (d, extent) in tensor.shape().iter().enumerate().rev().skip(1) {
            place += rest % extent * target[d];
            rest /= extent;
        }
        out[place * size..place * size + row].copy_from_slice(piece);
    }
    Tensor::from_bytes(tensor.element(), shape, Bytes::from(out)).expect("sized by the shape")
}

/// Distances of neighbours along every axis, in elements.
pub(crate) fn strides(shape: &[usize]) -> Vec<usize> {
    let mut out = vec![1; shape.len()];
    for d in (1..shape.len()).rev() {
        out[d - 1] = out[d] * shape[d];
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transposes_move_elements() {
        let t = Tensor::new([2, 3], vec![1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let moved = transpose(&t, &[1, 0]);
        assert_eq!(moved.shape(), [3, 2]);
        assert_eq!(moved.to_f64(), [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
        let t = Tensor::new([1, 2, 2], vec![1i64, 2, 3, 4]);
        assert_eq!(transpose(&t, &[2, 0, 1]).to_i64(), [1, 3, 2, 4]);
        let scalar = Tensor::new([], vec![7.0f32]);
        assert_eq!(transpose(&scalar, &[]).to_f64(), [7.0]);
    }

    #[test]
    fn large_transposes_agree_with_their_meaning() {
        let shape = [5, 17, 3, 33];
        let t = Tensor::new(shape, (0..5 * 17 * 3 * 33).collect::<Vec<i32>>());
        for perm in [[3, 2, 1, 0], [2, 3, 1, 0], [0, 2, 3, 1], [1, 0, 2, 3], [0, 3, 1, 2]] {
            let op = talweg_tensor::Op::Transpose { perm: perm.to_vec() };
            let expected = talweg_tensor::evaluate(&op, &[Some(&t)]).unwrap();
            assert_eq!(transpose(&t, &perm), expected[0], "{perm:?}");
        }
    }

    #[test]
    fn padding_adds_zeros_behind() {
        let t = Tensor::new([2, 1, 2], vec![1.0f32, 2.0, 3.0, 4.0]);
        let padded = pad_end(&t, &[3, 1, 3]);
        assert_eq!(padded.to_f64(), [1.0, 2.0, 0.0, 3.0, 4.0, 0.0, 0.0, 0.0, 0.0]);
    }
}
