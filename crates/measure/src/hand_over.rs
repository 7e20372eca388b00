//! What a kernel finds in the caches when it runs in a network: inputs and outputs with the threads, in equal parts, and
//! constants far away.
//!
//! In a network the input of a kernel was just written by the same threads, and its output lies where they wrote something
//! else before. Reading or writing what lies in another core's cache is several times slower than one's own. Alone in a
//! loop a kernel never sees that: its input is in every cache that reads it, its output in those that write it. So before
//! each run thread `t` of `n` writes the `t`-th `n`-th of every input and output: rows first, which is how kernels share
//! their work where they can, and kernels that keep to it are the ones that run well behind each other. Constants that were
//! last read a whole network ago, and do not fit the caches all together, come from memory.

use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering};

use talweg_runtime::ThreadPool;

use crate::region::Region;
use crate::resident::{Outcome, no_memory};

/// Bytes that caches pass on together.
const LINE: usize = 64;

/// The arrays that threads hand over to each other.
pub(crate) struct HandOver {
    /// Start and length of every array; all of it writable.
    arrays: Vec<(*mut u8, usize)>,
    /// What is removed from the caches.
    cold: Vec<(*const u8, usize)>,
    /// The copies of the inputs.
    _memory: Region,
}

// SAFETY: threads write disjoint parts of the arrays, and only while no kernel runs.
unsafe impl Sync for HandOver {}

impl HandOver {
    /// Copies of the inputs, given by the position of their argument and their length, in place of the inputs; they and
    /// the outputs are handed over, and what is to be cold is removed from the caches.
    pub fn new(
        pointers: &mut [*mut u8],
        inputs: &[(usize, usize)],
        outputs: impl Iterator<Item = (*mut u8, usize)>,
        cold: Vec<(*const u8, usize)>,
    ) -> Outcome<HandOver> {
        let size = |bytes: usize| bytes.next_multiple_of(LINE);
        let all = inputs.iter().map(|(_, bytes)| size(*bytes)).sum();
        let memory = Region::new(all).map_err(|e| no_memory("copies of the inputs", e))?;
        let mut arrays: Vec<(*mut u8, usize)> = outputs.collect();
        let mut at = 0;
        for (argument, bytes) in inputs {
            let copy = memory.as_ptr().wrapping_add(at);
            // SAFETY: the argument is live memory of that size, the region has room for all copies, and the two are
            // different mappings.
            unsafe { std::ptr::copy_nonoverlapping(pointers[*argument], copy, *bytes) };
            pointers[*argument] = copy;
            arrays.push((copy, *bytes));
            at += size(*bytes);
        }
        Ok(HandOver { arrays, cold, _memory: memory })
    }

    /// Every thread takes its part of every array into its caches, as if it had just written it.
    pub fn perform(&self, pool: &ThreadPool) {
        let threads = pool.threads();
        let arrived = AtomicUsize::new(0);
        pool.run(threads as i64, |_, _, worker| {
            arrived.fetch_add(1, Ordering::Relaxed);
            // Whoever came first would take over the parts of the others.
            let mut polls = 0u32;
            while arrived.load(Ordering::Relaxed) < threads {
                polls += 1;
                if polls.is_multiple_of(1 << 12) { std::thread::yield_now() } else { std::hint::spin_loop() }
            }
            for (start, bytes) in &self.cold {
                let (begin, end) = part(*bytes, worker as usize, threads);
                evict(start.wrapping_add(begin), end - begin);
            }
            for (start, bytes) in &self.arrays {
                let (begin, end) = part(*bytes, worker as usize, threads);
                for offset in (begin..end).step_by(LINE) {
                    let byte = start.wrapping_add(offset);
                    // SAFETY: the byte lies in an array that nobody else writes or reads meanwhile, and keeps its value.
                    unsafe { byte.write_volatile(byte.read_volatile()) };
                }
            }
        });
    }
}

/// The bytes of one thread, in whole lines.
fn part(bytes: usize, thread: usize, threads: usize) -> (usize, usize) {
    let cut = |at: usize| (bytes * at / threads).next_multiple_of(LINE).min(bytes);
    (cut(thread), cut(thread + 1))
}

/// Removes memory from all caches.
#[cfg(target_arch = "x86_64")]
pub(crate) fn evict(start: *const u8, bytes: usize) {
    for offset in (0..bytes).step_by(64) {
        // SAFETY: flushing a line changes no value; the address lies in live memory.
        unsafe { std::arch::x86_64::_mm_clflush(start.wrapping_add(offset)) };
    }
    // SAFETY: a fence has no requirements.
    unsafe { std::arch::x86_64::_mm_mfence() };
    black_box(start);
}

/// Pushes everything out of the caches by streaming over more memory than they hold.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn evict(_start: *const u8, _bytes: usize) {
    const STREAM: usize = 64 << 20;
    static BUFFER: std::sync::OnceLock<Vec<u8>> = std::sync::OnceLock::new();
    let buffer = BUFFER.get_or_init(|| vec![1; STREAM]);
    black_box(buffer.iter().step_by(64).map(|b| u64::from(*b)).sum::<u64>());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_tile_an_array() {
        for (bytes, threads) in [(0, 2), (5, 2), (64, 3), (1000, 2), (4096, 7)] {
            let parts: Vec<_> = (0..threads).map(|at| part(bytes, at, threads)).collect();
            assert_eq!((parts[0].0, parts[threads - 1].1), (0, bytes));
            assert!(parts.windows(2).all(|two| two[0].1 == two[1].0), "{parts:?}");
        }
        assert_eq!([part(1024, 0, 2), part(1024, 1, 2)], [(0, 512), (512, 1024)]);
    }

    #[test]
    fn inputs_are_copied_and_keep_their_values() {
        let mut input: Vec<u8> = (0..=255).cycle().take(1000).collect();
        let mut output = vec![9u8; 300];
        let constant = 7u8;
        let before = vec![input.as_mut_ptr(), (&raw const constant).cast_mut(), output.as_mut_ptr()];
        let mut pointers = before.clone();
        let outputs = [(output.as_mut_ptr(), output.len())];
        let Ok(hand_over) =
            HandOver::new(&mut pointers, &[(0, 1000)], outputs.into_iter(), vec![(&raw const constant, 1)])
        else {
            panic!("no memory")
        };
        let pool = ThreadPool::new(3).expect("three threads");
        (0..3).for_each(|_| hand_over.perform(&pool));
        assert_ne!(pointers[0], before[0]);
        assert_eq!(pointers[1..], before[1..]);
        // SAFETY: the pointer is that of a copy of a thousand bytes that the value keeps alive.
        assert_eq!(unsafe { std::slice::from_raw_parts(pointers[0], 1000) }, input);
        assert!(output.iter().all(|byte| *byte == 9) && constant == 7);
    }
}
