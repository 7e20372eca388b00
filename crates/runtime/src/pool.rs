//! The fork-join thread pool behind a kernel's parallel loops.
//!
//! A fork publishes the job, bumps an epoch that all workers watch, takes part on the calling thread, and
//! waits for the counter of workers that are not done to reach zero. Workers spin on the epoch for a while after each
//! job, because waking a parked thread costs a hundred times more than a fork, and then park so that an idle
//! pool costs nothing. Every worker has a share of the iterations, the same in every run, which keeps its data in that
//! core's caches. It works on a quarter of what is left of it at a time; whoever is done takes halves of what others
//! have not begun, from the end. So a core that is slower for a while, through a neighbour or its clock, does not hold
//! up the loop.

use crate::abi::{BodyFn, Parallel};
use crate::affinity::{allowed_cores, pin_current_thread};
use crate::team::Team;
use std::cell::{Cell, UnsafeCell};
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long a worker spins for the next job before it parks.
const SPIN: Duration = Duration::from_micros(800);
/// The same when there are more threads than cores, where spinning takes the core from a thread with work.
const SPIN_OVERSUBSCRIBED: Duration = Duration::from_micros(5);
/// How long the forking thread spins for the others before it offers its core to the system between polls.
const SPIN_JOIN: Duration = Duration::from_micros(50);
/// Polls between two looks at the clock.
const POLLS_PER_LOOK: u32 = 64;
/// The low bits of the epoch hold the number of workers of the job it announces.
const WORKER_BITS: u32 = 16;
/// The largest pool; bounded by `WORKER_BITS` and far above any machine.
const MAX_THREADS: usize = 4096;

/// Why a pool could not be made.
#[derive(Debug, thiserror::Error)]
pub enum PoolError {
    /// The thread count is zero or beyond reason.
    #[error("a pool cannot have {threads} threads; ask for 1 to {MAX_THREADS}")]
    ThreadCount {
        /// The count that was asked for.
        threads: usize,
    },
    /// The system refused to start a thread.
    #[error(
        "cannot start worker {worker} of the pool: {source}; ask for fewer threads or raise the process limit"
    )]
    Spawn {
        /// The worker that did not start.
        worker: usize,
        /// What the system said.
        source: std::io::Error,
    },
    /// The system refused to pin a worker.
    #[error("cannot pin worker {worker} to core {core}: {source}; use an unpinned pool")]
    Pin {
        /// The worker that was to be pinned.
        worker: usize,
        /// The core it was to run on.
        core: usize,
        /// What the system said.
        source: std::io::Error,
    },
    /// There are fewer cores to pin to than threads.
    #[error(
        "cannot pin {threads} threads: this process may use only {cores} cores; ask for fewer threads or widen the affinity mask"
    )]
    TooFewCores {
        /// The threads that were asked for.
        threads: usize,
        /// The cores the affinity mask allows.
        cores: usize,
    },
}

/// A fixed set of threads that run a kernel's parallel loops.
///
/// The pool may be shared: `run` calls from several threads take turns. A `run` from inside a body runs inline,
/// on that body's worker number. Dropping the pool joins its threads.
#[derive(Debug)]
pub struct ThreadPool {
    shared: Arc<Shared>,
    table: Parallel,
    workers: Vec<JoinHandle<()>>,
}

/// One parallel loop; written by the forking thread before it bumps the epoch, read by the workers after.
#[derive(Debug, Clone, Copy)]
struct Job {
    body: BodyFn,
    closure: *mut c_void,
    n: i64,
    /// Threads that take part.
    workers: i64,
}

/// A value alone on its cache lines (two, since neighbouring lines are fetched in pairs).
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Padded<T>(pub(crate) T);

#[derive(Debug)]
pub(crate) struct Shared {
    /// Job number in the high bits, number of workers in the low `WORKER_BITS`. A worker whose number is not
    /// below that takes no part in the job and must not look at it.
    epoch: Padded<AtomicU64>,
    /// Workers of the current job, other than the caller, that are not done with it.
    pending: Padded<AtomicUsize>,
    job: Padded<UnsafeCell<Job>>,
    /// What is left of each worker's share of the current job.
    shares: Box<[Padded<Share>]>,
    /// Workers that are parked or about to.
    parked: AtomicUsize,
    park_lock: Mutex<()>,
    park_signal: Condvar,
    stop: AtomicBool,
    /// Held by the one thread that may fork.
    turn: Mutex<()>,
    threads: usize,
    spin: Duration,
}

// SAFETY: `job` is the only field that is not `Sync` by itself. It is written only by the holder of `turn`
// while `pending` is zero, and read only by workers that `epoch` names for that job and that have not yet
// counted down `pending`; the release/acquire pairs on `epoch` and `pending` order the accesses.
unsafe impl Sync for Shared {}
// SAFETY: the pointers in `job` are used only during the `run` call that put them there, whose caller promises
// that `body` may be called with `closure` from any thread.
unsafe impl Send for Shared {}

thread_local! {
    /// The pool and worker number whose body this thread is running, if any.
    static INSIDE: Cell<Option<(*const Shared, i64)>> = const { Cell::new(None) };
}

impl ThreadPool {
    /// A pool of `threads` threads, the caller of `run` included; one thread means none is created.
    pub fn new(threads: usize) -> Result<ThreadPool, PoolError> {
        ThreadPool::build(threads, None)
    }

    /// A pool whose workers are pinned, one to each of the first `threads` cores this process may use.
    ///
    /// Worker 0 is whichever thread calls `run`, so it is not pinned here: pin it to the first allowed core
    /// with [`pin_current_thread`], after making the pool, since threads inherit the affinity of their maker.
    pub fn pinned(threads: usize) -> Result<ThreadPool, PoolError> {
        let cores = allowed_cores();
        if cores.len() < threads {
            return Err(PoolError::TooFewCores { threads, cores: cores.len() });
        }
        ThreadPool::build(threads, Some(&cores))
    }

    fn build(threads: usize, cores: Option<&[usize]>) -> Result<ThreadPool, PoolError> {
        if threads == 0 || threads > MAX_THREADS {
            return Err(PoolError::ThreadCount { threads });
        }
        let available = std::thread::available_parallelism().map_or(1, |n| n.get());
        let shared = Arc::new(Shared {
            epoch: Padded::default(),
            pending: Padded::default(),
            job: Padded(UnsafeCell::new(Job {
                body: no_body,
                closure: std::ptr::null_mut(),
                n: 0,
                workers: 0,
            })),
            shares: (0..threads).map(|_| Padded::default()).collect(),
            parked: AtomicUsize::new(0),
            park_lock: Mutex::new(()),
            park_signal: Condvar::new(),
            stop: AtomicBool::new(false),
            turn: Mutex::new(()),
            threads,
            spin: if threads <= available { SPIN } else { SPIN_OVERSUBSCRIBED },
        });
        let ctx = Arc::as_ptr(&shared).cast_mut().cast();
        let table = Parallel { run: run_on_pool, ctx, threads: threads as i64 };
        // From here on an early return drops the pool, which joins the threads already started.
        let mut pool = ThreadPool { shared, table, workers: Vec::with_capacity(threads - 1) };
        let (ready, started) = mpsc::channel();
        for worker in 1..threads {
            let shared = Arc::clone(&pool.shared);
            let core = cores.map(|cores| cores[worker]);
            let ready = ready.clone();
            let handle = std::thread::Builder::new()
                .name(format!("talweg-{worker}"))
                .spawn(move || {
                    let pinned = core.map_or(Ok(()), |core| {
                        pin_current_thread(core).map_err(|source| PoolError::Pin { worker, core, source })
                    });
                    // The receiver is gone only if another worker has failed. It waits until every sender is
                    // dropped, so ours must not live as long as the thread.
                    let _ = ready.send(pinned);
                    drop(ready);
                    shared.work(worker as i64);
                })
                .map_err(|source| PoolError::Spawn { worker, source })?;
            pool.workers.push(handle);
        }
        drop(ready);
        for result in started {
            result?;
        }
        Ok(pool)
    }

    /// The table to pass to kernels; valid as long as the pool.
    pub fn parallel(&self) -> &Parallel {
        &self.table
    }

    /// Some of the pool's threads, for loops too short for all of them.
    pub fn team(&self, limit: usize) -> Team {
        Team::new(&self.shared, self.table, limit)
    }

    /// The number of threads, the caller of `run` included.
    pub fn threads(&self) -> usize {
        self.shared.threads
    }

    /// Runs `body(begin, end, worker)` on parts that tile `0..n`, one after the other on each worker, and returns when
    /// all are done.
    ///
    /// If parts panic, the others still finish, and one of the panics continues on the calling thread.
    pub fn run<F: Fn(i64, i64, i64) + Sync>(&self, n: i64, body: F) {
        let call = ClosureCall { body, panic: Mutex::new(None) };
        let threads = self.shared.threads as i64;
        // SAFETY: `call_closure::<F>` expects exactly this value, which lives until `fork` returns; `F: Sync`
        // and the lock make it usable from all workers at once.
        unsafe { self.shared.fork(call_closure::<F>, (&raw const call).cast_mut().cast(), n, threads) };
        let panic = call.panic.into_inner().unwrap_or_else(PoisonError::into_inner);
        if let Some(payload) = panic {
            resume_unwind(payload);
        }
    }
}

impl Drop for ThreadPool {
    fn drop(&mut self) {
        let turn = lock(&self.shared.turn);
        self.shared.stop.store(true, Ordering::Relaxed);
        self.shared.announce(0);
        drop(turn);
        for worker in self.workers.drain(..) {
            // A worker only calls bodies, and a panic in one of those aborts, so there is no panic to pass on.
            let _ = worker.join();
        }
    }
}

/// A Rust closure on its way through the C interface, and the first panic it raised.
struct ClosureCall<F> {
    body: F,
    panic: Mutex<Option<Box<dyn std::any::Any + Send>>>,
}

unsafe extern "C" fn call_closure<F: Fn(i64, i64, i64) + Sync>(
    closure: *mut c_void,
    begin: i64,
    end: i64,
    worker: i64,
) {
    // SAFETY: `ThreadPool::run` passes a `ClosureCall<F>` that outlives the fork.
    let call = unsafe { &*closure.cast_const().cast::<ClosureCall<F>>() };
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| (call.body)(begin, end, worker))) {
        lock(&call.panic).get_or_insert(payload);
    }
}

unsafe extern "C" fn no_body(_: *mut c_void, _: i64, _: i64, _: i64) {}

unsafe extern "C" fn run_on_pool(ctx: *mut c_void, body: BodyFn, closure: *mut c_void, n: i64) {
    // SAFETY: `ctx` is the pool's `Shared`, which lives as long as the table may be used.
    let shared = unsafe { &*ctx.cast_const().cast::<Shared>() };
    // SAFETY: the caller of `run` promises that `body` may be called with `closure` from any thread.
    unsafe { shared.fork(body, closure, n, shared.threads as i64) }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Iterations that nobody has begun, counted in units: the first in the low half, the end in the high half.
#[derive(Debug, Default)]
struct Share(AtomicU64);

impl Share {
    fn set(&self, begin: u32, end: u32) {
        // The epoch publishes it.
        self.0.store(u64::from(end) << 32 | u64::from(begin), Ordering::Relaxed);
    }

    /// Takes a part of what is left: its owner a quarter from the front, others half from the end, at least one.
    /// `None` when nothing is left.
    fn take(&self, owner: bool) -> Option<(u32, u32)> {
        let mut taken = (0, 0);
        // Nothing but the numbers themselves is passed on by them.
        let update = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
            let (begin, end) = (left as u32, (left >> 32) as u32);
            if begin >= end {
                return None;
            }
            let part = ((end - begin) / if owner { 4 } else { 2 }).max(1);
            let cut = if owner { begin + part } else { end - part };
            let (rest, part) = if owner { ((cut, end), (begin, cut)) } else { ((begin, cut), (cut, end)) };
            taken = part;
            Some(u64::from(rest.1) << 32 | u64::from(rest.0))
        });
        update.is_ok().then_some(taken)
    }
}

impl Job {
    /// Iterations in one unit of the shares: one, unless there are more than shares can count.
    fn unit(&self) -> i64 {
        (self.n >> 31) + 1
    }

    /// The share of a worker in units: sizes differ by at most one, larger ones first.
    fn share(&self, worker: i64) -> (u32, u32) {
        let units = (self.n + self.unit() - 1) / self.unit();
        let (size, rest) = (units / self.workers, units % self.workers);
        let begin = worker * size + worker.min(rest);
        (begin as u32, (begin + size + i64::from(worker < rest)) as u32)
    }

    /// Works on one's own share, then on what others have not begun; marks this thread as inside a body meanwhile.
    ///
    /// # Safety
    /// `body` may be called with `closure` on this thread, and the shares are those of this job.
    unsafe fn take_part(&self, shared: &Shared, worker: i64) {
        INSIDE.set(Some((shared, worker)));
        for of in (worker..self.workers).chain(0..worker) {
            while let Some((begin, end)) = shared.shares[of as usize].0.take(of == worker) {
                let (begin, end) = (i64::from(begin) * self.unit(), i64::from(end) * self.unit());
                // SAFETY: promised by the caller.
                unsafe { (self.body)(self.closure, begin, end.min(self.n), worker) };
            }
        }
        INSIDE.set(None);
    }

    /// Runs all of it on this thread.
    ///
    /// # Safety
    /// `body` may be called with `closure` on this thread.
    unsafe fn run_alone(&self, shared: &Shared) {
        INSIDE.set(Some((shared, 0)));
        // SAFETY: promised by the caller.
        unsafe { (self.body)(self.closure, 0, self.n, 0) };
        INSIDE.set(None);
    }
}

impl Shared {
    /// Runs one parallel loop to its end, on the first `limit` threads at most.
    ///
    /// # Safety
    /// `body` may be called with `closure` on any part of `0..n` from any thread until this returns.
    pub(crate) unsafe fn fork(&self, body: BodyFn, closure: *mut c_void, n: i64, limit: i64) {
        if n <= 0 {
            return;
        }
        if let Some((pool, worker)) = INSIDE.get() {
            // Waiting for a turn here could wait for ourselves. The scratch of our own worker number is the one
            // nobody else uses; another pool's numbers are free, as this call is the only one with this closure.
            let worker = if std::ptr::eq(pool, self) { worker } else { 0 };
            // SAFETY: promised by the caller.
            unsafe { body(closure, 0, n, worker) };
            return;
        }
        let workers = n.min(limit).clamp(1, self.threads as i64);
        let job = Job { body, closure, n, workers };
        if workers == 1 {
            // SAFETY: promised by the caller.
            unsafe { job.run_alone(self) };
            return;
        }
        let turn = lock(&self.turn);
        // SAFETY: we hold the turn and no worker is pending, so none reads the job or takes from a share.
        unsafe { *self.job.0.get() = job };
        for worker in 0..workers {
            let (begin, end) = job.share(worker);
            self.shares[worker as usize].0.set(begin, end);
        }
        self.pending.0.store(workers as usize - 1, Ordering::Relaxed);
        self.announce(workers as u64);
        // SAFETY: promised by the caller; the shares have just been set.
        unsafe { job.take_part(self, 0) };
        self.wait_for_workers();
        drop(turn);
    }

    /// Bumps the epoch, which publishes everything written before, and wakes parked workers.
    fn announce(&self, workers: u64) {
        let next = (self.epoch.0.load(Ordering::Relaxed) >> WORKER_BITS).wrapping_add(1);
        // Sequentially consistent with the accesses in `park`: either we see the worker as parked, or it sees
        // the new epoch before it sleeps.
        self.epoch.0.store((next << WORKER_BITS) | workers, Ordering::SeqCst);
        if self.parked.load(Ordering::SeqCst) > 0 {
            drop(lock(&self.park_lock));
            self.park_signal.notify_all();
        }
    }

    fn wait_for_workers(&self) {
        spin_until(self.spin.min(SPIN_JOIN), || self.pending.0.load(Ordering::Acquire) == 0);
        while self.pending.0.load(Ordering::Acquire) != 0 {
            std::thread::yield_now();
        }
    }

    /// The life of one worker.
    fn work(&self, worker: i64) {
        let mut seen = 0;
        loop {
            seen = self.next_epoch(seen);
            if self.stop.load(Ordering::Relaxed) {
                return;
            }
            let workers = (seen & ((1 << WORKER_BITS) - 1)) as i64;
            if worker < workers {
                // SAFETY: the epoch names us for this job, so it stays as it is until we count down.
                let job = unsafe { *self.job.0.get() };
                // SAFETY: promised by the caller of `fork`, which waits for us and has set the shares.
                unsafe { job.take_part(self, worker) };
                self.pending.0.fetch_sub(1, Ordering::Release);
            }
        }
    }

    fn next_epoch(&self, seen: u64) -> u64 {
        if !spin_until(self.spin, || self.epoch.0.load(Ordering::Acquire) != seen) {
            let mut guard = lock(&self.park_lock);
            self.parked.fetch_add(1, Ordering::SeqCst);
            while self.epoch.0.load(Ordering::SeqCst) == seen {
                guard = self.park_signal.wait(guard).unwrap_or_else(PoisonError::into_inner);
            }
            self.parked.fetch_sub(1, Ordering::SeqCst);
        }
        self.epoch.0.load(Ordering::Acquire)
    }
}

/// Polls with the processor's pause instruction until `done`; false if `limit` ran out first.
fn spin_until(limit: Duration, done: impl Fn() -> bool) -> bool {
    let mut start = None;
    loop {
        for _ in 0..POLLS_PER_LOOK {
            if done() {
                return true;
            }
            std::hint::spin_loop();
        }
        if start.get_or_insert_with(Instant::now).elapsed() > limit {
            return false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_tile_the_range_evenly() {
        let of = |n, workers| Job { body: no_body, closure: std::ptr::null_mut(), n, workers };
        for n in 1..40 {
            for workers in 1..=n.min(9) {
                let job = of(n, workers);
                let mut next = 0;
                for worker in 0..workers {
                    let (begin, end) = job.share(worker);
                    assert_eq!(begin, next);
                    assert!((n / workers..=n / workers + 1).contains(&i64::from(end - begin)));
                    next = end;
                }
                assert_eq!(i64::from(next), n);
            }
        }
        // More than shares can count one by one.
        let many = of(i64::MAX / 2, 3);
        assert!(many.share(2).1 > 1 << 30 && i64::from(many.share(2).1) * many.unit() >= many.n);
    }

    #[test]
    fn owner_and_thieves_take_parts_until_nothing_is_left() {
        let share = Share::default();
        share.set(10, 18);
        let taken = [true, false, true, false, true, false].map(|owner| share.take(owner));
        assert_eq!(
            taken,
            [Some((10, 12)), Some((15, 18)), Some((12, 13)), Some((14, 15)), Some((13, 14)), None]
        );
        assert_eq!(share.take(true), None);
    }

    #[test]
    fn what_a_slow_worker_has_not_begun_is_done_by_others() {
        let pool = ThreadPool::new(2).expect("a pool");
        let n = 64;
        for _ in 0..20 {
            let done: Vec<AtomicUsize> = (0..n).map(|_| AtomicUsize::new(0)).collect();
            let waited_in_vain = AtomicBool::new(false);
            pool.run(n, |begin, end, worker| {
                for at in begin..end {
                    done[at as usize].fetch_add(1, Ordering::Relaxed);
                }
                // Worker 1 is stuck in its first part until all others are done.
                let is_left = |at: &AtomicUsize| at.load(Ordering::Relaxed) == 0;
                let limit = Instant::now() + Duration::from_secs(20);
                while worker == 1 && done.iter().any(is_left) {
                    std::thread::yield_now();
                    if Instant::now() > limit {
                        waited_in_vain.store(true, Ordering::Relaxed);
                        break;
                    }
                }
            });
            assert!(!waited_in_vain.load(Ordering::Relaxed), "nobody helped");
            assert!(done.iter().all(|at| at.load(Ordering::Relaxed) == 1), "each iteration runs once");
        }
    }

    #[test]
    fn bad_thread_counts_are_errors() {
        for threads in [0, MAX_THREADS + 1] {
            let text = ThreadPool::new(threads).unwrap_err().to_string();
            assert!(text.contains(&format!("{threads} threads")), "{text}");
        }
        let cores = allowed_cores().len();
        assert!(matches!(ThreadPool::pinned(cores + 1), Err(PoolError::TooFewCores { .. })));
    }
}
