//! Constants in another layout: what is done to weights when a network is built.

use bytes::Bytes;
use talweg_tensor::Tensor;

/// The constant with its axes in another order: axis `i` of the result is axis `perm[i]`.
pub(crate) fn transpose(tensor: &Tensor, perm: &[usize]) -> Tensor {
    let shape: Vec<usize> = perm.iter().map(|p| tensor.shape()[*p]).collect();
    let source = strides(tensor.shape());
    let steps: Vec<usize> = perm.iter().map(|p| source[*p]).collect();
    gather(tensor, shape.clone(), &shape, &steps)
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

fn gather(tensor: &Tensor, shape: Vec<usize>, extents: &[usize], steps: &[usize]) -> Tensor {
    let size = tensor.element().bytes();
    let data = tensor.bytes();
    let total: usize = extents.iter().product();
    let mut out = Vec::with_capacity(total * size);
    let (rows, (columns, step)) = match (extents.split_last(), steps.split_last()) {
        (Some((c, rows)), Some((s, _))) => (rows, (*c, *s)),
        _ => (&[][..], (1, 1)),
    };
    let mut position = vec![0usize; rows.len()];
    let mut base = 0usize;
    if total > 0 {
        loop {
            for c in 0..columns {
                let at = (base + c * step) * size;
                out.extend_from_slice(&data[at..at + size]);
            }
            let mut d = rows.len();
            loop {
                if d == 0 {
                    let bytes = Bytes::from(out);
                    return Tensor::from_bytes(tensor.element(), shape, bytes).expect("sized by the shape");
                }
                d -= 1;
                position[d] += 1;
                base += steps[d];
                if position[d] < rows[d] {
                    break;
                }
                base -= steps[d] * rows[d];
                position[d] = 0;
            }
        }
    }
    Tensor::from_bytes(tensor.element(), shape, Bytes::from(out)).expect("sized by the shape")
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
    }

    #[test]
    fn padding_adds_zeros_behind() {
        let t = Tensor::new([2, 1, 2], vec![1.0f32, 2.0, 3.0, 4.0]);
        let padded = pad_end(&t, &[3, 1, 3]);
        assert_eq!(padded.to_f64(), [1.0, 2.0, 0.0, 3.0, 4.0, 0.0, 0.0, 0.0, 0.0]);
    }
}
