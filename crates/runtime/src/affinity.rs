//! Which cores this process may use, and pinning a thread to one of them.

/// The cores the calling thread may run on, in increasing order.
///
/// Where the system has no notion of affinity this is `0..available_parallelism`.
pub fn allowed_cores() -> Vec<usize> {
    #[cfg(target_os = "linux")]
    {
        // SAFETY: a CPU set is plain bits, for which zero is a value.
        let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        // SAFETY: `set` is a writable CPU set of the given size; 0 means the calling thread.
        if unsafe { libc::sched_getaffinity(0, size_of_val(&set), &mut set) } == 0 {
            // SAFETY: the index is below the number of bits in the set.
            return (0..libc::CPU_SETSIZE as usize)
                .filter(|&c| unsafe { libc::CPU_ISSET(c, &set) })
                .collect();
        }
    }
    (0..std::thread::available_parallelism().map_or(1, |n| n.get())).collect()
}

/// Pins the calling thread to `core`; fails if the core does not exist, is not allowed, or pinning is not
/// supported here.
pub fn pin_current_thread(core: usize) -> std::io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        if core >= libc::CPU_SETSIZE as usize {
            return Err(std::io::ErrorKind::InvalidInput.into());
        }
        // SAFETY: a CPU set is plain bits, for which zero is a value.
        let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        // SAFETY: `core` is below the number of bits in the set, checked above.
        unsafe { libc::CPU_SET(core, &mut set) };
        // SAFETY: `set` is a readable CPU set of the given size; 0 means the calling thread.
        if unsafe { libc::sched_setaffinity(0, size_of_val(&set), &set) } != 0 {
            return Err(std::io::Error::last_os_error());
        }
        Ok(())
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = core;
        Err(std::io::ErrorKind::Unsupported.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_can_pin_itself_to_an_allowed_core_only() {
        let result = std::thread::spawn(|| {
            let core = allowed_cores()[0];
            pin_current_thread(core).map(|()| (core, allowed_cores()))
        });
        let (core, after) = result.join().unwrap().unwrap();
        assert_eq!(after, [core]);
        assert!(std::thread::spawn(|| pin_current_thread(100_000)).join().unwrap().is_err());
    }
}
