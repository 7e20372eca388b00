//! A loaded kernel with its arguments, as the device that sampling drives.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use talweg_ir::DType;
use talweg_runtime::{KernelFn, ThreadPool};
use talweg_target::core_probe;

use crate::region::Guarded;
use crate::resident::Outcome;
use crate::rotation::Rotation;
use crate::sampling::Device;
use crate::wire::Reply;

/// A kernel with everything it is called with.
pub(crate) struct Call<'a> {
    pub function: KernelFn,
    /// The arguments' pointers; constants may take turns.
    pub rotation: Rotation,
    /// Whose turn it is.
    pub turn: usize,
    pub workspace: *mut u8,
    pub pool: &'a ThreadPool,
    /// What the kernel reads: start and length.
    pub read: Vec<(*const u8, usize)>,
    /// The outputs in order, then the workspace.
    pub written: Guarded,
    pub outputs: Vec<(String, DType, Vec<usize>)>,
    pub start: Instant,
}

impl Call<'_> {
    /// Whether the kernel wrote outside of its outputs and workspace.
    pub fn check_guards(&self) -> Outcome<()> {
        let Some((index, distance)) = self.written.damage() else { return Ok(()) };
        let name = self.outputs.get(index).map_or("the workspace", |(name, ..)| name.as_str());
        let length = self.written.contents(index).len();
        let text = format!("byte {distance} of {name}, which has {length} bytes");
        Err(Box::new(Reply::Overrun { text }))
    }
}

impl Device for Call<'_> {
    fn now(&mut self) -> f64 {
        self.start.elapsed().as_secs_f64()
    }

    fn run(&mut self, times: u32) {
        for _ in 0..times {
            // SAFETY: the pointers are those of the kernel's arguments, of the sizes it was compiled for, and the
            // workspace is as large as its description says. A kernel that goes astray ends this process only.
            unsafe {
                (self.function)(self.rotation.sets[self.turn].as_ptr(), self.workspace, self.pool.parallel())
            };
            self.turn = if self.turn + 1 == self.rotation.sets.len() { 0 } else { self.turn + 1 };
        }
    }

    fn flush(&mut self) {
        for &(start, bytes) in &self.read {
            evict(start, bytes);
        }
        for index in 0..=self.outputs.len() {
            evict(self.written.pointer(index), self.written.contents(index).len());
        }
    }

    /// The slowest core counts: a kernel ends when its last thread does.
    fn probe(&mut self) -> f64 {
        // The bits of positive numbers are in the order of the numbers.
        let slowest = AtomicU64::new(f64::INFINITY.to_bits());
        let probe = |_, _, _| {
            slowest.fetch_min(core_probe().to_bits(), Ordering::Relaxed);
        };
        self.pool.run(self.pool.threads() as i64, probe);
        f64::from_bits(slowest.into_inner())
    }
}

/// Removes memory from all caches.
#[cfg(target_arch = "x86_64")]
fn evict(start: *const u8, bytes: usize) {
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
fn evict(_start: *const u8, _bytes: usize) {
    const STREAM: usize = 64 << 20;
    static BUFFER: std::sync::OnceLock<Vec<u8>> = std::sync::OnceLock::new();
    let buffer = BUFFER.get_or_init(|| vec![1; STREAM]);
    black_box(buffer.iter().step_by(64).map(|b| u64::from(*b)).sum::<u64>());
}
