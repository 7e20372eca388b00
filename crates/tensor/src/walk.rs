//! Walking over strided operands row by row.

/// The strides of a row-major tensor.
pub(crate) fn strides(shape: &[usize]) -> Vec<isize> {
    let mut strides = vec![0; shape.len()];
    let mut next = 1isize;
    for (stride, &extent) in strides.iter_mut().zip(shape).rev() {
        *stride = next;
        next *= extent.max(1) as isize;
    }
    strides
}

/// The strides with which a row-major tensor of `shape` is read as one of shape `to`, which it broadcasts to.
pub(crate) fn broadcast_strides(shape: &[usize], to: &[usize]) -> Vec<isize> {
    let own = strides(shape);
    let missing = to.len() - shape.len();
    let axis = |i: usize| if i < missing || shape[i - missing] == 1 { 0 } else { own[i - missing] };
    (0..to.len()).map(axis).collect()
}

/// Nested loops over a shape with `K` operands that each have their own strides. Extents of one are dropped, and
/// neighbouring axes that all operands walk evenly are merged, so that rows are as long as possible.
pub(crate) struct Loops<const K: usize> {
    shape: Vec<usize>,
    strides: Vec<[isize; K]>,
    empty: bool,
}

impl<const K: usize> Loops<K> {
    /// Loops over `shape`; each operand has a stride for every axis.
    pub(crate) fn new(shape: &[usize], strides: [&[isize]; K]) -> Loops<K> {
        let mut loops = Loops { shape: Vec::new(), strides: Vec::new(), empty: shape.contains(&0) };
        if loops.empty {
            return loops;
        }
        for (axis, &extent) in shape.iter().enumerate().filter(|(_, extent)| **extent != 1) {
            let here: [isize; K] = std::array::from_fn(|k| strides[k][axis]);
            match (loops.shape.last_mut(), loops.strides.last_mut()) {
                (Some(outer), Some(last)) if (0..K).all(|k| last[k] == here[k] * extent as isize) => {
                    *outer *= extent;
                    *last = here;
                }
                _ => {
                    loops.shape.push(extent);
                    loops.strides.push(here);
                }
            }
        }
        loops
    }

    /// The length of a row, and the operands' strides within it.
    pub(crate) fn row(&self) -> (usize, [isize; K]) {
        match (self.shape.last(), self.strides.last()) {
            (Some(&extent), Some(&strides)) => (extent, strides),
            _ => (1, [0; K]),
        }
    }

    /// Calls `body` with the operands' offsets at the beginning of every row, in order.
    pub(crate) fn for_each_row(&self, mut body: impl FnMut([isize; K])) {
        if self.empty {
            return;
        }
        let outer = self.shape.len().saturating_sub(1);
        let mut position = vec![0usize; outer];
        let mut offsets = [0isize; K];
        loop {
            body(offsets);
            let mut axis = outer;
            loop {
                if axis == 0 {
                    return;
                }
                axis -= 1;
                position[axis] += 1;
                let wrapped = position[axis] == self.shape[axis];
                let steps = if wrapped { 1 - self.shape[axis] as isize } else { 1 };
                for (offset, stride) in offsets.iter_mut().zip(self.strides[axis]) {
                    *offset += steps * stride;
                }
                if !wrapped {
                    break;
                }
                position[axis] = 0;
            }
        }
    }
}

/// The elements of a strided part of `source`, in row-major order of `shape`.
pub(crate) fn copy_strided<T: Copy>(
    source: &[T],
    begin: isize,
    shape: &[usize],
    strides: &[isize],
) -> Vec<T> {
    let loops = Loops::new(shape, [strides]);
    let (length, [stride]) = loops.row();
    let mut out = Vec::with_capacity(shape.iter().product());
    loops.for_each_row(|[offset]| {
        let at = begin + offset;
        match stride {
            1 => out.extend_from_slice(&source[at as usize..at as usize + length]),
            0 => out.extend(std::iter::repeat_n(source[at as usize], length)),
            _ => out.extend((0..length as isize).map(|i| source[(at + i * stride) as usize])),
        }
    });
    out
}

/// `f` of every pair of elements, broadcast to `shape`.
pub(crate) fn zip_map<A: Copy, B: Copy, R>(
    (a, a_shape): (&[A], &[usize]),
    (b, b_shape): (&[B], &[usize]),
    shape: &[usize],
    f: impl Fn(A, B) -> R,
) -> Vec<R> {
    let (a_strides, b_strides) = (broadcast_strides(a_shape, shape), broadcast_strides(b_shape, shape));
    let loops = Loops::new(shape, [&a_strides, &b_strides]);
    let (n, [a_step, b_step]) = loops.row();
    let mut out = Vec::with_capacity(shape.iter().product());
    loops.for_each_row(|[i, j]| {
        let (i, j) = (i as usize, j as usize);
        match (a_step, b_step) {
            (1, 1) => out.extend(a[i..i + n].iter().zip(&b[j..j + n]).map(|(&x, &y)| f(x, y))),
            (1, 0) => {
                let y = b[j];
                out.extend(a[i..i + n].iter().map(|&x| f(x, y)));
            }
            (0, 1) => {
                let x = a[i];
                out.extend(b[j..j + n].iter().map(|&y| f(x, y)));
            }
            (s, t) => out.extend((0..n).map(|k| f(a[i + k * s as usize], b[j + k * t as usize]))),
        }
    });
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_that_are_walked_evenly_are_merged() {
        let loops = Loops::new(&[2, 3, 1, 4], [&strides(&[2, 3, 1, 4])]);
        assert_eq!(loops.row(), (24, [1]));
        let transposed = Loops::new(&[2, 3, 4], [&[1, 8, 2]]);
        assert_eq!(transposed.row(), (12, [2]));
    }

    #[test]
    fn rows_come_in_order() {
        let mut seen = Vec::new();
        Loops::new(&[2, 2, 3], [&[1, 10, 100]]).for_each_row(|[offset]| seen.push(offset));
        assert_eq!(seen, [0, 10, 1, 11]);
    }

    #[test]
    fn nothing_is_visited_when_an_extent_is_zero() {
        let mut rows = 0;
        Loops::new(&[3, 0], [&[1, 1]]).for_each_row(|_| rows += 1);
        assert_eq!(rows, 0);
        Loops::<1>::new(&[], [&[]]).for_each_row(|_| rows += 1);
        assert_eq!(rows, 1);
    }

    #[test]
    fn pairs_broadcast() {
        let column = [10, 20];
        let row = [1, 2, 3];
        let out = zip_map((&column, &[2, 1]), (&row, &[3]), &[2, 3], |a, b| a + b);
        assert_eq!(out, [11, 12, 13, 21, 22, 23]);
    }
}
