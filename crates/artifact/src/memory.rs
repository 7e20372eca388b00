//! Which value lies where in the arena: values that live at different times share memory.
//!
//! Threads share the work on a value: of two, one writes its first half and the other its second. Memory that is in another
//! core's cache is several times slower to read, and to write, than one's own. So memory should change hands rarely: where
//! one value takes the place of another, their middles are in the same place, and what is below and above it stays with its
//! thread. For the same reason all kernels have their workspace in one place, which no value takes.

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

/// How many times the least possible memory an arena may take for the sake of caches.
const ROOM: f64 = 1.3;
/// Smaller values are not worth a place of their own.
const SMALL: u64 = 4 << 10;

impl Arena {
    /// Places values, and the workspaces of kernels behind them in the order of the offsets.
    ///
    /// The first of these plans that does with [`ROOM`] times the least memory, or else the smallest: middles together and
    /// one place for all workspaces; middles together; whatever fits.
    pub fn plan(values: &[Lifetime], workspaces: &[Lifetime]) -> Arena {
        let all: Vec<Lifetime> = values.iter().chain(workspaces).copied().collect();
        let bound = bound(&all);
        let most = (bound as f64 * ROOM) as u64;
        let plans =
            [Arena::with_one_workspace(values, workspaces, most), place(&all, Some(most)), place(&all, None)];
        let rank = |at: usize, bytes: u64| if bytes <= most { at as u64 } else { bytes };
        let best = plans.into_iter().enumerate().min_by_key(|(at, (_, bytes))| rank(*at, *bytes));
        let (offsets, bytes) = best.map(|(_, plan)| plan).unwrap_or_default();
        Arena { offsets, bytes, bound }
    }

    fn with_one_workspace(values: &[Lifetime], workspaces: &[Lifetime], most: u64) -> (Vec<u64>, u64) {
        let last = values.iter().chain(workspaces).map(|value| value.last).max().unwrap_or(0);
        let bytes = workspaces.iter().map(|workspace| workspace.bytes).max().unwrap_or(0);
        let mut all = values.to_vec();
        all.push(Lifetime { bytes, first: 0, last });
        let (mut offsets, bytes) = place(&all, Some(most));
        let shared = offsets.pop().unwrap_or(0);
        offsets.extend(workspaces.iter().map(|_| shared));
        (offsets, bytes)
    }
}

/// What a value takes of the arena.
fn size(value: &Lifetime) -> u64 {
    value.bytes.next_multiple_of(BUFFER_ALIGNMENT as u64)
}

/// Places the largest values first: with their middle where another's is, if there is such a place; beside all others, up to
/// so many bytes; otherwise, and without a limit always, at the lowest offset where nothing that lives at the same time is. Their
/// offsets, and the size of it all.
fn place(values: &[Lifetime], limit: Option<u64>) -> (Vec<u64>, u64) {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by_key(|&i| (std::cmp::Reverse(values[i].bytes), values[i].first, i));
    let mut offsets = vec![0; values.len()];
    let mut placed: Vec<usize> = Vec::new();
    let (mut middles, mut end): (Vec<u64>, u64) = (Vec::new(), 0);
    // What lies below the middle of a value.
    let below = |value: &Lifetime| size(value) / 2 / BUFFER_ALIGNMENT as u64 * BUFFER_ALIGNMENT as u64;
    for i in order {
        let value = &values[i];
        let mut others: Vec<(u64, u64)> = placed
            .iter()
            .filter(|&&j| values[j].first <= value.last && value.first <= values[j].last)
            .map(|&j| (offsets[j], offsets[j] + size(&values[j])))
            .collect();
        others.sort_unstable();
        let mut lowest = 0;
        for (begin, end) in &others {
            if lowest + size(value) <= *begin {
                break;
            }
            lowest = lowest.max(*end);
        }
        let is_free = |at: &u64| others.iter().all(|(begin, end)| at + size(value) <= *begin || *end <= *at);
        let around = |middle: &u64| middle.checked_sub(below(value));
        let kept = match limit {
            Some(most) if value.bytes >= SMALL => {
                let shared = middles.iter().filter_map(around).find(is_free);
                shared.or_else(|| (end + size(value) <= most).then_some(end))
            }
            _ => None,
        };
        offsets[i] = kept.unwrap_or(lowest);
        if value.bytes >= SMALL && !middles.contains(&(offsets[i] + below(value))) {
            middles.push(offsets[i] + below(value));
        }
        end = end.max(offsets[i] + size(value));
        placed.push(i);
    }
    (offsets, end)
}

/// The most bytes that live at one time.
fn bound(values: &[Lifetime]) -> u64 {
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
        let arena = Arena::plan(&values, &[]);
        assert_eq!((arena.bytes, arena.bound), (1280, 1280));
        assert_eq!(overlap(&values, &arena), None);
    }

    #[test]
    fn middles_stay_where_they_are() {
        let sizes = [640u64, 256, 512, 384, 640, 256, 512];
        let lifetime = |(i, kib)| Lifetime { bytes: kib << 10, first: i, last: i + 1 };
        let values: Vec<Lifetime> = sizes.into_iter().enumerate().map(lifetime).collect();
        let workspaces = [3, 5].map(|i| Lifetime { bytes: (i as u64) << 10, first: i, last: i });
        let arena = Arena::plan(&values, &workspaces);
        let all = [&values[..], &workspaces[..]].concat();
        assert_eq!(overlap(&all, &arena), None);
        assert_eq!(arena.offsets[values.len()], arena.offsets[values.len() + 1]);
        let mut middles: Vec<u64> =
            values.iter().zip(&arena.offsets).map(|(value, offset)| offset + value.bytes / 2).collect();
        middles.sort_unstable();
        middles.dedup();
        assert_eq!(middles.len(), 2, "{arena:?}");
        assert!(arena.bytes as f64 <= ROOM * arena.bound as f64, "{arena:?}");
    }

    #[test]
    fn random_lifetimes_never_overlap() {
        let mut state = 1u64;
        let mut next = |n: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % n
        };
        let mut within = 0;
        for case in 0..200 {
            let most = [5000, 500_000][case % 2];
            let mut lifetimes = |count: usize, long: u64| -> Vec<Lifetime> {
                let lifetime = |_| {
                    let first = next(40) as usize;
                    Lifetime { bytes: next(most), first, last: first + next(long) as usize }
                };
                (0..count).map(lifetime).collect()
            };
            let (values, mut workspaces) = (lifetimes(30, 10), lifetimes(5, 1));
            // Steps follow each other.
            workspaces.iter_mut().enumerate().for_each(|(at, w)| (w.first, w.last) = (at, at));
            let arena = Arena::plan(&values, &workspaces);
            assert_eq!(overlap(&[&values[..], &workspaces[..]].concat(), &arena), None);
            assert!(arena.bytes >= arena.bound);
            assert!(arena.offsets.iter().all(|o| o.is_multiple_of(64)));
            within += usize::from(arena.bytes as f64 <= ROOM * arena.bound as f64);
        }
        assert!(within > 190, "{within} of 200 arenas have a reasonable size");
    }

    #[test]
    fn nothing_needs_nothing() {
        assert_eq!(Arena::plan(&[], &[]), Arena { offsets: Vec::new(), bytes: 0, bound: 0 });
    }
}
