//! How far apart the threads of a pool are: the time that a cache line takes from one to the next.
//!
//! Cores that share a cache hand lines over several times as fast as cores that do not, and where threads run changes while
//! a program does: the system moves them, or a host moves the processors of a virtual machine. Times of loops whose threads
//! hand data to each other are comparable only at the same distance.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::pool::{Padded, ThreadPool};

/// The fastest of so many groups counts, so that an interruption does not.
const GROUPS: u64 = 4;
/// Times that a line goes round in a group.
const LAPS: u64 = 8;
/// How long the threads wait for each other, the sleeping ones included.
const PATIENCE: Duration = Duration::from_micros(500);
/// Polls between two looks at the clock.
const POLLS_PER_LOOK: u32 = 64;

impl ThreadPool {
    /// Seconds that a cache line takes from one thread to the next, all threads in a ring; none for a single thread, and where
    /// the threads do not come together.
    pub fn distance(&self) -> Option<f64> {
        let threads = self.threads();
        if threads < 2 {
            return None;
        }
        let ring = Ring::new(threads);
        self.run(threads as i64, |_, _, worker| ring.take_part(worker as u64));
        let starts = ring.starts.into_inner().unwrap_or_else(PoisonError::into_inner);
        if ring.is_late.into_inner() {
            return None;
        }
        let lines = (LAPS * threads as u64) as f64;
        starts.windows(2).map(|two| (two[1] - two[0]).as_secs_f64() / lines).reduce(f64::min)
    }
}

/// A line that goes from thread to thread.
struct Ring {
    /// How often it was handed over.
    line: Padded<AtomicU64>,
    threads: u64,
    arrived: AtomicUsize,
    begin: Instant,
    /// Somebody gave up waiting.
    is_late: AtomicBool,
    /// When each group began, and when the last one ended.
    starts: Mutex<Vec<Instant>>,
}

impl Ring {
    fn new(threads: usize) -> Ring {
        Ring {
            line: Padded::default(),
            threads: threads as u64,
            arrived: AtomicUsize::new(0),
            begin: Instant::now(),
            is_late: AtomicBool::new(false),
            starts: Mutex::new(Vec::with_capacity(GROUPS as usize + 1)),
        }
    }

    /// What one thread does. A thread that takes the part of another that does not come finds that somebody is late.
    fn take_part(&self, worker: u64) {
        self.arrived.fetch_add(1, Ordering::AcqRel);
        if !self.wait(|| self.arrived.load(Ordering::Acquire) as u64 == self.threads) {
            return;
        }
        for lap in 0..=GROUPS * LAPS {
            let turn = lap * self.threads + worker;
            if lap == GROUPS * LAPS && worker > 0 {
                return;
            }
            if !self.wait(|| self.line.0.load(Ordering::Acquire) == turn) {
                return;
            }
            if worker == 0 && lap.is_multiple_of(LAPS) {
                self.starts.lock().unwrap_or_else(PoisonError::into_inner).push(Instant::now());
            }
            self.line.0.store(turn + 1, Ordering::Release);
        }
    }

    /// Polls until `done`; false if that takes too long, for this thread or another.
    fn wait(&self, done: impl Fn() -> bool) -> bool {
        let mut polls = 0u32;
        while !done() {
            polls = polls.wrapping_add(1);
            if polls.is_multiple_of(POLLS_PER_LOOK) && self.begin.elapsed() > PATIENCE {
                self.is_late.store(true, Ordering::Relaxed);
            }
            if self.is_late.load(Ordering::Relaxed) {
                return false;
            }
            std::hint::spin_loop();
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_thread_has_no_distance() {
        assert_eq!(ThreadPool::new(1).expect("a pool").distance(), None);
    }

    #[test]
    fn threads_that_run_at_once_have_one() {
        let pool = ThreadPool::new(2).expect("two threads");
        // On a busy machine the threads may miss each other often.
        let found = (0..200).find_map(|_| pool.distance()).expect("the threads meet once");
        assert!(found > 0.0 && found <= PATIENCE.as_secs_f64(), "{found}");
    }

    #[test]
    fn more_threads_than_cores_end() {
        let pool = ThreadPool::new(9).expect("nine threads");
        for _ in 0..20 {
            assert!(pool.distance().is_none_or(|seconds| seconds > 0.0));
        }
    }
}
