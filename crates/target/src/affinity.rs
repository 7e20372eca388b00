//! Pinning the calling thread to a core, so that a measurement is not moved between caches.

use crate::description::TargetError;

/// The cores the calling thread may run on, in increasing order; empty if the system does not say.
pub fn allowed_cores() -> Vec<usize> {
    #[cfg(target_os = "linux")]
    {
        // SAFETY: a CPU set is plain bits, for which zero is a value.
        let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        // SAFETY: `set` is a writable CPU set of the given size; 0 means the calling thread.
        if unsafe { libc::sched_getaffinity(0, size_of_val(&set), &mut set) } == 0 {
            let is_set = |core: &usize| {
                // SAFETY: the index is below the number of bits in the set.
                unsafe { libc::CPU_ISSET(*core, &set) }
            };
            return (0..libc::CPU_SETSIZE as usize).filter(is_set).collect();
        }
    }
    Vec::new()
}

/// Pins the calling thread to `core`; threads it starts afterwards inherit that.
pub fn pin_to_core(core: usize) -> Result<(), TargetError> {
    #[cfg(target_os = "linux")]
    {
        if core >= libc::CPU_SETSIZE as usize {
            return Err(TargetError::Pin { core, reason: "no such core".to_string() });
        }
        // SAFETY: a CPU set is plain bits, for which zero is a value.
        let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        // SAFETY: `core` is below the number of bits in the set, checked above.
        unsafe { libc::CPU_SET(core, &mut set) };
        // SAFETY: `set` is a readable CPU set of the given size; 0 means the calling thread.
        if unsafe { libc::sched_setaffinity(0, size_of_val(&set), &set) } != 0 {
            return Err(TargetError::Pin { core, reason: std::io::Error::last_os_error().to_string() });
        }
        Ok(())
    }
    #[cfg(not(target_os = "linux"))]
    Err(TargetError::Pin { core, reason: "this system has no thread affinity".to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pinning_leaves_exactly_one_core() {
        let pinned = std::thread::spawn(|| {
            let core = allowed_cores()[0];
            pin_to_core(core).map(|()| allowed_cores() == [core])
        });
        assert_eq!(pinned.join().unwrap(), Ok(true));
        let error = pin_to_core(1 << 20).unwrap_err();
        assert!(error.to_string().contains("core 1048576"), "{error}");
    }
}
