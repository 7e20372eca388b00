//! The pool's promises: every iteration exactly once, whatever the sizes, the nesting and the callers.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use talweg_runtime::ThreadPool;

/// Runs one loop and checks that every iteration ran once and no worker number was used twice at the same time.
fn check(pool: &ThreadPool, n: i64) {
    let hits: Vec<AtomicUsize> = (0..n.max(0)).map(|_| AtomicUsize::new(0)).collect();
    let busy: Vec<AtomicBool> = (0..pool.threads()).map(|_| AtomicBool::new(false)).collect();
    pool.run(n, |begin, end, worker| {
        assert!(begin < end);
        assert!(
            !busy[worker as usize].swap(true, Ordering::Relaxed),
            "two use the scratch of worker {worker}"
        );
        for i in begin..end {
            hits[i as usize].fetch_add(1, Ordering::Relaxed);
        }
        busy[worker as usize].store(false, Ordering::Relaxed);
    });
    assert!(hits.iter().all(|hit| hit.load(Ordering::Relaxed) == 1), "n = {n}");
}

#[test]
fn every_iteration_runs_once() {
    for threads in [1, 2, 3, 7] {
        let pool = ThreadPool::new(threads).unwrap();
        assert_eq!(pool.parallel().threads, threads as i64);
        for n in [0, -1, 1, 2, 3, 6, 7, 8, 100, 1000] {
            check(&pool, n);
        }
    }
}

#[test]
fn many_forks_give_the_right_sum() {
    let pool = ThreadPool::new(2).unwrap();
    let sum = AtomicI64::new(0);
    for _ in 0..3_000 {
        pool.run(10, |begin, end, _| {
            sum.fetch_add((begin..end).sum::<i64>(), Ordering::Relaxed);
        });
    }
    assert_eq!(sum.into_inner(), 3_000 * 45);
}

#[test]
fn plain_writes_are_visible_after_the_loop() {
    let pool = ThreadPool::new(3).unwrap();
    let mut data = vec![0u64; 3000];
    let base = data.as_mut_ptr().expose_provenance();
    for round in 1..200u64 {
        pool.run(3000, |begin, end, _| {
            for i in begin..end {
                // SAFETY: the chunks are disjoint parts of the vector, which outlives the loop.
                unsafe { *std::ptr::with_exposed_provenance_mut::<u64>(base).add(i as usize) += round };
            }
        });
    }
    assert!(data.iter().all(|&value| value == 199 * 200 / 2));
}

#[test]
fn workers_wake_up_after_parking() {
    let pool = ThreadPool::new(3).unwrap();
    for _ in 0..5 {
        std::thread::sleep(std::time::Duration::from_millis(5));
        check(&pool, 30);
    }
}

#[test]
fn nested_loops_run_inline_on_the_same_worker() {
    let pool = ThreadPool::new(3).unwrap();
    let other = ThreadPool::new(2).unwrap();
    let total = AtomicI64::new(0);
    pool.run(12, |begin, end, worker| {
        for _ in begin..end {
            let thread = std::thread::current().id();
            pool.run(5, |inner_begin, inner_end, inner_worker| {
                assert_eq!((inner_begin, inner_end, inner_worker), (0, 5, worker));
                assert_eq!(std::thread::current().id(), thread);
                total.fetch_add(5, Ordering::Relaxed);
            });
            other.run(7, |inner_begin, inner_end, inner_worker| {
                assert_eq!((inner_begin, inner_end, inner_worker), (0, 7, 0));
                total.fetch_add(7, Ordering::Relaxed);
            });
        }
    });
    assert_eq!(total.into_inner(), 12 * 12);
    check(&pool, 9);
}

#[test]
fn concurrent_callers_take_turns() {
    let pool = ThreadPool::new(2).unwrap();
    std::thread::scope(|scope| {
        for caller in 0..4 {
            let pool = &pool;
            scope.spawn(move || {
                for n in 0..300 {
                    check(pool, n % 17 + caller);
                }
            });
        }
    });
    check(&pool, 50);
}

#[test]
fn a_panic_in_a_closure_reaches_the_caller_and_leaves_the_pool_usable() {
    let pool = ThreadPool::new(2).unwrap();
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        pool.run(2, |begin, _, _| assert!(begin != 1, "chunk one fails"));
    }));
    let payload = result.unwrap_err();
    assert!(payload.downcast_ref::<&str>().is_some_and(|text| text.contains("chunk one fails")));
    check(&pool, 20);
}

#[test]
fn pinned_pools_work_and_drop_joins() {
    for _ in 0..20 {
        let pool = ThreadPool::pinned(1).unwrap();
        check(&pool, 4);
        let idle = ThreadPool::new(4).unwrap();
        drop(idle);
    }
    if talweg_runtime::affinity::allowed_cores().len() >= 2 {
        check(&ThreadPool::pinned(2).unwrap(), 10);
    }
}
