//! Which value lies where in the arena: values that live at different times share memory.

use talweg_runtime::BUFFER_ALIGNMENT;

/// A value's size, and the steps from which and until which it must keep its bytes, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetime {
    /// Its size.
    pub bytes: u64,
    /// The step that writes it.
    pub first: usize,
    /// The last step that reads it.
    pub last: usize,
}

/// Offsets for values, none overlapping another that lives at the same time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arena {
    /// One for each value, in the order given.
    pub offsets: Vec<u64>,
    /// The arena's size.
    pub bytes: u64,
    /// No plan can do with less: the most bytes that live at one time.
    pub bound: u64,
}

impl Arena {
    /// Places the largest values first, each at the lowest offset where nothing that lives at the same time is.
    pub fn plan(values: &[Lifetime]) -> Arena {
        let size = |value: &Lifetime| value.bytes.next_multiple_of(BUFFER_ALIGNMENT as u64);
        let mut order: Vec<usize> = (0..values.len()).collect();
        order.sort_by_key(|&i| (std::cmp::Reverse(values[i].bytes), values[i].first, i));
        let mut offsets = vec![0; values.len()];
        let mut placed: Vec<usize> = Vec::new();
        for i in order {
            let value = &values[i];
            let mut others: Vec<(u64, u64)> = placed
                .iter()
                .filter(|&&j| values[j].first <= value.last && value.first <= values[j].last)
                .map(|&j| (offsets[j], offsets[j] + size(&values[j])))
                .collect();
            others.sort_unstable();
            let mut offset = 0;
            for (begin, end) in others {
                if offset + size(value) <= begin {
                    break;
                }
                offset = offset.max(end);
            }
            offsets[i] = offset;
            placed.push(i);
        }
        let bytes =
            values.iter().zip(&offsets).map(|(value, offset)| offset + size(value)).max().unwrap_or(0);
        Arena { offsets, bytes, bound: bound(values, size) }
    }
}

/// The most bytes that live at one time.
fn bound(values: &[Lifetime], size: impl Fn(&Lifetime) -> u64) -> u64 {
    let steps = values.iter().map(|value| value.last + 1).max().unwrap_or(0);
    let mut live = vec![0i128; steps + 1];
    for value in values {
        live[value.first] += i128::from(size(value));
        live[value.last + 1] -= i128::from(size(value));
    }
    let mut sum = 0;
    live.into_iter()
        .map(|change| {
            sum += change;
            sum
        })
        .max()
        .unwrap_or(0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn overlap(values: &[Lifetime], arena: &Arena) -> Option<(usize, usize)> {
        for i in 0..values.len() {
            for j in 0..i {
                let (a, b) = (values[i], values[j]);
                let together = a.first <= b.last && b.first <= a.last;
                let apart = arena.offsets[i] + a.bytes <= arena.offsets[j]
                    || arena.offsets[j] + b.bytes <= arena.offsets[i];
                if together && !apart && a.bytes > 0 && b.bytes > 0 {
                    return Some((i, j));
                }
            }
        }
        None
    }

    #[test]
    fn a_chain_needs_two_buffers() {
        let values: Vec<Lifetime> = (0..10).map(|i| Lifetime { bytes: 640, first: i, last: i + 1 }).collect();
        let arena = Arena::plan(&values);
        assert_eq!(arena.bytes, 1280);
        assert_eq!(arena.bound, 1280);
        assert_eq!(overlap(&values, &arena), None);
    }

    #[test]
    fn random_lifetimes_never_overlap() {
        let mut state = 1u64;
        let mut next = |n: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % n
        };
        for _ in 0..200 {
            let values: Vec<Lifetime> = (0..30)
                .map(|_| {
                    let first = next(40) as usize;
                    Lifetime { bytes: next(5000), first, last: first + next(10) as usize }
                })
                .collect();
            let arena = Arena::plan(&values);
            assert_eq!(overlap(&values, &arena), None);
            assert!(arena.bytes >= arena.bound);
            assert!(arena.offsets.iter().all(|o| o.is_multiple_of(64)));
        }
    }

    #[test]
    fn nothing_needs_nothing() {
        assert_eq!(Arena::plan(&[]), Arena { offsets: Vec::new(), bytes: 0, bound: 0 });
    }
}
