//! Some of a pool's threads, for parallel loops that are too short for all of them.

use std::ffi::c_void;
use std::sync::Arc;

use crate::abi::{BodyFn, Parallel};
use crate::pool::Shared;

/// The first threads of a [`ThreadPool`](crate::ThreadPool). A team of one runs loops on the calling thread without
/// waking anybody.
#[derive(Debug)]
pub struct Team {
    table: Parallel,
    /// What the table's context points to, unless it is the pool's own or the serial one.
    _members: Option<Box<Members>>,
}

#[derive(Debug)]
struct Members {
    shared: Arc<Shared>,
    limit: i64,
}

// SAFETY: the table's context is the boxed `Members`, which is never changed, or the pool's own, which is `Sync`; the
// pool itself is used under its lock.
unsafe impl Send for Team {}

impl Team {
    /// The first `limit` threads of a pool whose table for all of them is `whole`.
    pub(crate) fn new(shared: &Arc<Shared>, whole: Parallel, limit: usize) -> Team {
        if limit <= 1 {
            return Team { table: Parallel::serial(), _members: None };
        }
        if limit as i64 >= whole.threads {
            let members = Box::new(Members { shared: shared.clone(), limit: whole.threads });
            return Team { table: whole, _members: Some(members) };
        }
        let mut members = Box::new(Members { shared: shared.clone(), limit: limit as i64 });
        let ctx = (&raw mut *members).cast();
        Team { table: Parallel { run: run_on_team, ctx, threads: limit as i64 }, _members: Some(members) }
    }

    /// The table to pass to kernels; valid as long as the team.
    pub fn parallel(&self) -> &Parallel {
        &self.table
    }
}

unsafe extern "C" fn run_on_team(ctx: *mut c_void, body: BodyFn, closure: *mut c_void, n: i64) {
    // SAFETY: `ctx` is the team's `Members`, which live as long as the table may be used.
    let members = unsafe { &*ctx.cast_const().cast::<Members>() };
    // SAFETY: the caller of `run` promises that `body` may be called with `closure` from any thread.
    unsafe { members.shared.fork(body, closure, n, members.limit) }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::ThreadPool;

    unsafe extern "C" fn note(closure: *mut c_void, begin: i64, end: i64, worker: i64) {
        // SAFETY: the test passes a list that outlives the loop.
        let seen = unsafe { &*closure.cast_const().cast::<Mutex<Vec<(i64, i64, i64)>>>() };
        seen.lock().expect("no panic").push((worker, begin, end));
    }

    #[test]
    fn a_team_has_no_more_workers_than_asked_for_and_covers_the_loop() {
        let pool = ThreadPool::new(3).expect("a pool");
        for (limit, workers) in [(0, 1), (1, 1), (2, 2), (3, 3), (9, 3)] {
            let team = pool.team(limit);
            let table = team.parallel();
            assert_eq!(table.threads, workers, "limit {limit}");
            let seen: Mutex<Vec<(i64, i64, i64)>> = Mutex::default();
            // SAFETY: `note` expects this list, which lives until the loop is over.
            unsafe { (table.run)(table.ctx, note, (&raw const seen).cast_mut().cast(), 10) };
            let mut seen = seen.into_inner().expect("no panic");
            assert!(seen.iter().all(|(worker, ..)| (0..workers).contains(worker)), "limit {limit}: {seen:?}");
            seen.sort_unstable_by_key(|(_, begin, _)| *begin);
            let ends = seen
                .iter()
                .scan(0, |at, (_, begin, end)| (*begin == std::mem::replace(at, *end)).then_some(*end));
            assert_eq!(ends.last(), Some(10), "limit {limit}: {seen:?}");
        }
    }
}
