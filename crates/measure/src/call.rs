//! A loaded kernel with its arguments, as the device that sampling drives.

use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use talweg_ir::DType;
use talweg_runtime::{KernelFn, ThreadPool};
use talweg_target::core_probe;

use crate::region::Guarded;
use crate::resident::Outcome;
use crate::rotation::Rotation;
use crate::sampling::Device;
use crate::wire::Reply;

/// How long the threads wait for each other before they probe their cores.
const MEETING: Duration = Duration::from_micros(50);

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

    /// The mean over the cores, all probed at once, since they may be one core's two hardware threads: threads that are
    /// done take over what others have not begun, so that a kernel is as fast as its cores on average.
    fn probe(&mut self) -> f64 {
        let threads = self.pool.threads();
        let (arrived, speeds) = (AtomicUsize::new(0), Mutex::new(Vec::with_capacity(threads)));
        let probe = |_, _, _| {
            let begin = Instant::now();
            arrived.fetch_add(1, Ordering::Relaxed);
            // One thread may have to take the place of another that does not come.
            while arrived.load(Ordering::Relaxed) < threads && begin.elapsed() < MEETING {
                std::hint::spin_loop();
            }
            let speed = core_probe();
            speeds.lock().unwrap_or_else(PoisonError::into_inner).push(speed);
        };
        self.pool.run(threads as i64, probe);
        let speeds = speeds.into_inner().unwrap_or_else(PoisonError::into_inner);
        speeds.iter().sum::<f64>() / speeds.len().max(1) as f64
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
