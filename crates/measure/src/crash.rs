//! How a worker dies: crashes for lack of memory are told apart from others.
//!
//! Code that ignores a failed allocation dies of a segmentation fault or an abort. A handler finds out whether the
//! memory limit was the reason, by trying to allocate a little, and then ends the process with a code of its own.

use std::sync::atomic::{AtomicUsize, Ordering};

/// The exit code of a worker that crashed because an allocation had failed.
pub(crate) const OUT_OF_MEMORY_EXIT: i32 = 86;
/// The environment variable that tells a worker its memory limit in bytes.
pub(crate) const LIMIT_VARIABLE: &str = "TALWEG_WORKER_MEMORY";

/// What must be allocatable at the moment of a crash for memory not to be its cause.
static RESERVE: AtomicUsize = AtomicUsize::new(0);

/// Installs the handler, if the process was started with a memory limit.
pub(crate) fn install() {
    let limit = std::env::var(LIMIT_VARIABLE).ok().and_then(|v| v.parse::<usize>().ok());
    let Some(limit) = limit else { return };
    RESERVE.store((limit / 16).max(4096), Ordering::Relaxed);
    let handler: extern "C" fn(libc::c_int) = on_crash;
    for signal in [libc::SIGSEGV, libc::SIGBUS, libc::SIGABRT, libc::SIGILL, libc::SIGFPE] {
        // SAFETY: a `sigaction` is plain data, for which zero is a value.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = handler as libc::sighandler_t;
        // After the handler the signal has its default action: the faulting instruction runs again and ends the
        // process with the signal.
        action.sa_flags = libc::SA_RESETHAND | libc::SA_ONSTACK;
        // SAFETY: the handler only makes system calls that are allowed in handlers.
        unsafe { libc::sigaction(signal, &action, std::ptr::null_mut()) };
    }
    // Should the machine itself run out of memory, a worker is the right one to lose.
    let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
}

extern "C" fn on_crash(_signal: libc::c_int) {
    let bytes = RESERVE.load(Ordering::Relaxed);
    // SAFETY: a fresh private mapping touches no existing memory, and the process ends soon.
    unsafe {
        let map = libc::mmap(
            std::ptr::null_mut(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        );
        if map == libc::MAP_FAILED {
            libc::_exit(OUT_OF_MEMORY_EXIT);
        }
        libc::munmap(map, bytes);
    }
}
