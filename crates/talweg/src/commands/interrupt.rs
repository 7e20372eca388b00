//! Ctrl-C ends tuning with the best so far, and writing without leaving parts of files; a second one ends the process.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, OnceLock};

static STOP: OnceLock<Arc<AtomicBool>> = OnceLock::new();
/// The signal that came last, 0 for none.
static CAUGHT: AtomicI32 = AtomicI32::new(0);

const SIGNALS: [libc::c_int; 2] = [libc::SIGINT, libc::SIGTERM];

extern "C" fn handle(signal: libc::c_int) {
    CAUGHT.store(signal, Ordering::Relaxed);
    if let Some(stop) = STOP.get() {
        stop.store(true, Ordering::Relaxed);
    }
}

/// Sets the flag on SIGINT and SIGTERM. Only the flag of the first call is ever set.
pub fn watch(stop: Arc<AtomicBool>) -> io::Result<()> {
    STOP.get_or_init(|| stop);
    catch().map(drop)
}

/// Does work that leaves nothing behind when it ends by itself: a signal that comes meanwhile ends the process after it.
pub fn after<T>(work: impl FnOnce() -> T) -> io::Result<T> {
    let before = catch()?;
    let result = work();
    for (signal, action) in SIGNALS.into_iter().zip(&before) {
        // SAFETY: the action is one that the system gave for this signal.
        if unsafe { libc::sigaction(signal, action, std::ptr::null_mut()) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    let caught = CAUGHT.swap(0, Ordering::Relaxed);
    if caught != 0 {
        // SAFETY: raising a signal has no conditions.
        unsafe { libc::raise(caught) };
    }
    Ok(result)
}

/// Handles the signals, each once, and gives what was done with them before.
fn catch() -> io::Result<[libc::sigaction; 2]> {
    // SAFETY: all zero is a valid `sigaction`; the fields that matter are set below, or by the system.
    let (mut action, mut before): (libc::sigaction, [libc::sigaction; 2]) = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handle as *const () as libc::sighandler_t;
    action.sa_flags = libc::SA_RESETHAND | libc::SA_RESTART;
    for (signal, before) in SIGNALS.into_iter().zip(&mut before) {
        // SAFETY: the handler only reads and writes atomics, which is allowed in a signal handler.
        if unsafe { libc::sigaction(signal, &action, before) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(before)
}
