//! Ctrl-C ends tuning with the best so far; a second one ends the process.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

static STOP: OnceLock<Arc<AtomicBool>> = OnceLock::new();

extern "C" fn handle(_: libc::c_int) {
    if let Some(stop) = STOP.get() {
        stop.store(true, Ordering::Relaxed);
    }
}

/// Sets the flag on SIGINT and SIGTERM. Only the flag of the first call is ever set.
pub fn watch(stop: Arc<AtomicBool>) -> io::Result<()> {
    STOP.get_or_init(|| stop);
    for signal in [libc::SIGINT, libc::SIGTERM] {
        // SAFETY: all zero is a valid `sigaction`; the fields that matter are set below.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = handle as *const () as libc::sighandler_t;
        action.sa_flags = libc::SA_RESETHAND | libc::SA_RESTART;
        // SAFETY: the handler only reads and writes atomics, which is allowed in a signal handler.
        if unsafe { libc::sigaction(signal, &action, std::ptr::null_mut()) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}
