//! Work on every item of a list, shared between threads.

/// What `work` makes of every item, in the order of the items. With one thread, or one item, none is started.
///
/// A panic of `work` goes on in the caller.
pub fn map<T: Sync, U: Send>(items: &[T], threads: usize, work: &(dyn Fn(&T) -> U + Sync)) -> Vec<U> {
    let threads = threads.clamp(1, items.len().max(1));
    let share = |first: usize| -> Vec<(usize, U)> {
        (first..items.len()).step_by(threads).map(|at| (at, work(&items[at]))).collect()
    };
    let mut done = std::thread::scope(|scope| {
        let share = &share;
        let others: Vec<_> = (1..threads).map(|thread| scope.spawn(move || share(thread))).collect();
        let mut done = share(0);
        for other in others {
            done.extend(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        done
    });
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, made)| made).collect()
}

/// As many threads as this process may use.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, |n| n.get())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_order_whatever_the_threads() {
        let items: Vec<u32> = (0..17).collect();
        for threads in [0, 1, 2, 3, 40] {
            assert_eq!(map(&items, threads, &|x| x * x), items.iter().map(|x| x * x).collect::<Vec<_>>());
        }
        assert!(map(&[], 2, &|x: &u32| *x).is_empty());
    }
}
