//! The calling convention between generated kernels and whoever calls them.
//!
//! A kernel is one C function, [`KernelFn`]. It receives its tensors as an array of pointers, one block of
//! scratch memory laid out by [`KernelMeta`], and a table, [`Parallel`], through which it runs its parallel
//! loops. Nothing else is shared between generated code and the runtime, so the same object runs on
//! [`ThreadPool`](crate::ThreadPool), on [`Parallel::serial`], or on a table the embedding program provides.
//!
//! Panics and exceptions must never leave a [`BodyFn`] or a [`KernelFn`]: a Rust `extern "C"` function that
//! panics aborts the process, and a C++ exception that crosses the boundary is undefined behaviour.

use std::ffi::c_void;

/// Alignment in bytes of every buffer and workspace handed to a kernel: one cache line and one 512-bit vector.
pub const BUFFER_ALIGNMENT: usize = 64;

/// A generated kernel: `buffers` holds the tensors in the order of the kernel's parameters, `workspace` points
/// to [`KernelMeta::workspace_bytes`] bytes, `parallel` is the table its parallel loops use.
///
/// All buffers and the workspace are aligned to [`BUFFER_ALIGNMENT`] and do not overlap. A buffer that a caller brings
/// along may be aligned to its elements only, which is slower where vectors cross cache lines and nothing else. The
/// workspace may hold anything on entry, and may be null if its size is zero.
pub type KernelFn =
    unsafe extern "C" fn(buffers: *const *mut u8, workspace: *mut u8, parallel: *const Parallel);

/// The body of a parallel loop: runs iterations `begin..end` as worker number `worker`.
pub type BodyFn = unsafe extern "C" fn(closure: *mut c_void, begin: i64, end: i64, worker: i64);

/// The function behind [`Parallel::run`]: returns when `body` has covered all of `0..n`.
pub type RunFn = unsafe extern "C" fn(ctx: *mut c_void, body: BodyFn, closure: *mut c_void, n: i64);

/// How a kernel runs a parallel loop: it calls `parallel->run(parallel->ctx, body, closure, n)`.
///
/// `run` splits `0..n` into contiguous parts and calls `body` once for each, with a `worker` in `0..threads` that no
/// other part of the same call uses at the same time; one worker may get several parts, one after the other. Worker 0
/// is the caller. With `n <= 0` it calls nothing. Writes made before `run` are visible in `body`, and writes made in
/// `body` are visible after `run`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Parallel {
    /// Runs one parallel loop to its end.
    pub run: RunFn,
    /// The first argument of `run`; its meaning is private to the table's owner.
    pub ctx: *mut c_void,
    /// The upper bound of worker numbers, which sizes the per-worker scratch; at least 1.
    pub threads: i64,
}

// SAFETY: whoever builds a table promises that `run` may be called with `ctx` from any thread at any time;
// both tables of this crate keep that promise (the pool by a lock, the serial one by having no state).
unsafe impl Send for Parallel {}
// SAFETY: as above.
unsafe impl Sync for Parallel {}

impl Parallel {
    /// A table that runs every loop on the calling thread, for single-threaded use without a pool.
    pub const fn serial() -> Parallel {
        Parallel { run: run_serial, ctx: std::ptr::null_mut(), threads: 1 }
    }
}

unsafe extern "C" fn run_serial(_ctx: *mut c_void, body: BodyFn, closure: *mut c_void, n: i64) {
    if n > 0 {
        // SAFETY: the caller of `run` promises that `body` may be called with `closure` on any part of `0..n`.
        unsafe { body(closure, 0, n, 0) }
    }
}

/// What a caller must know about a kernel besides its code: its symbol and how much workspace it needs.
///
/// The workspace is `shared_bytes` for everyone, then `scratch_bytes` for each worker, every part rounded up to
/// [`BUFFER_ALIGNMENT`] so that no two workers write to the same cache line.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KernelMeta {
    /// The kernel's symbol in its object.
    pub name: String,
    /// Bytes of workspace that all workers share.
    pub shared_bytes: usize,
    /// Bytes of workspace that each worker has for itself.
    pub scratch_bytes: usize,
}

impl KernelMeta {
    /// Where the scratch of `worker` begins, in bytes from the start of the workspace.
    pub fn scratch_offset(&self, worker: usize) -> usize {
        let per_worker = round_up(self.scratch_bytes);
        round_up(self.shared_bytes).saturating_add(per_worker.saturating_mul(worker))
    }

    /// The size of the workspace for a table with that many threads; saturates instead of wrapping, so an
    /// absurd request fails in the allocation.
    pub fn workspace_bytes(&self, threads: usize) -> usize {
        self.scratch_offset(threads)
    }
}

fn round_up(bytes: usize) -> usize {
    bytes.checked_next_multiple_of(BUFFER_ALIGNMENT).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workspace_parts_start_on_cache_lines() {
        let meta = KernelMeta { name: "k".into(), shared_bytes: 1, scratch_bytes: 65 };
        assert_eq!(meta.scratch_offset(0), 64);
        assert_eq!(meta.scratch_offset(1), 64 + 128);
        assert_eq!(meta.workspace_bytes(3), 64 + 3 * 128);
        assert_eq!(KernelMeta::default().workspace_bytes(8), 0);
    }

    #[test]
    fn absurd_workspace_saturates() {
        let meta = KernelMeta { name: "k".into(), shared_bytes: usize::MAX, scratch_bytes: usize::MAX };
        assert_eq!(meta.workspace_bytes(4), usize::MAX);
    }

    unsafe extern "C" fn record(closure: *mut c_void, begin: i64, end: i64, worker: i64) {
        // SAFETY: the tests below pass a pointer to a live vector, and the serial table calls on this thread.
        let calls = unsafe { &mut *closure.cast::<Vec<(i64, i64, i64)>>() };
        calls.push((begin, end, worker));
    }

    #[test]
    fn serial_table_runs_one_chunk_and_nothing_for_empty_loops() {
        let table = Parallel::serial();
        let mut calls: Vec<(i64, i64, i64)> = Vec::new();
        for n in [0, -3, 7] {
            // SAFETY: `record` expects exactly this vector.
            unsafe { (table.run)(table.ctx, record, (&raw mut calls).cast(), n) };
        }
        assert_eq!(calls, [(0, 7, 0)]);
        assert_eq!(table.threads, 1);
    }
}
