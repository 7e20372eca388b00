//! The data a task's candidates run on: inputs and reference outputs, written once to shared memory.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use talweg_ir::Array;

use crate::wire::{ArrayPlace, Purpose, TaskRequest};

/// Inputs and reference outputs of a task. Workers map them; they are never sent with a candidate.
///
/// The memory belongs to no path: it goes away with the task, however the process ends.
#[derive(Debug)]
pub struct Task {
    id: u64,
    file: File,
    arrays: Vec<ArrayPlace>,
}

/// A task's data could not be put into shared memory.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot put {bytes} bytes of task data into shared memory: {source}; use smaller arrays or free memory"
)]
pub struct TaskError {
    /// The size of all arrays.
    pub bytes: u64,
    /// What the system said.
    pub source: io::Error,
}

impl Task {
    /// A task with the arrays that its candidates' buffers of the same names read, and what their outputs must be,
    /// each within a relative error of `tolerance`. Outputs without a reference are not checked.
    pub fn new(
        inputs: &[(&str, &Array)],
        references: &[(&str, &Array)],
        tolerance: f64,
    ) -> Result<Task, TaskError> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let reference = Purpose::Reference { tolerance };
        let all = inputs.iter().map(|(name, array)| (name, array, &Purpose::Input));
        let all = all.chain(references.iter().map(|(name, array)| (name, array, &reference)));
        let mut arrays = Vec::new();
        let mut end = 0u64;
        for (name, array, purpose) in all.clone() {
            let offset = end.next_multiple_of(64);
            let bytes = array.bytes().len() as u64;
            end = offset + bytes;
            arrays.push(ArrayPlace {
                name: name.to_string(),
                dtype: array.dtype().name().to_string(),
                shape: array.shape().to_vec(),
                purpose: purpose.clone(),
                offset,
                bytes,
            });
        }
        let write = || -> io::Result<File> {
            let mut file = memory_file()?;
            let mut at = 0;
            for ((_, array, _), place) in all.zip(&arrays) {
                file.write_all(&[0; 64][..(place.offset - at) as usize])?;
                file.write_all(array.bytes())?;
                at = place.offset + place.bytes;
            }
            seal(&file)?;
            Ok(file)
        };
        let file = write().map_err(|source| TaskError { bytes: end, source })?;
        Ok(Task { id: NEXT.fetch_add(1, Ordering::Relaxed), file, arrays })
    }

    /// Distinguishes the tasks of this process.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// How a worker finds the data, as long as the task lives.
    pub(crate) fn request(&self) -> TaskRequest {
        let file = format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd());
        TaskRequest { id: self.id, file: PathBuf::from(file), arrays: self.arrays.clone() }
    }
}

fn memory_file() -> io::Result<File> {
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // SAFETY: the name is a string with an end; the call touches no other memory.
    let fd = unsafe { libc::memfd_create(c"talweg-task".as_ptr(), flags) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and belongs to nobody else.
    Ok(unsafe { File::from_raw_fd(fd) })
}

/// Makes the contents unchangeable, so that no candidate can damage what others are compared with.
fn seal(file: &File) -> io::Result<()> {
    let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_WRITE | libc::F_SEAL_SEAL;
    // SAFETY: setting the seals of a descriptor touches no memory.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use talweg_ir::DType;

    use super::*;

    #[test]
    fn arrays_lie_aligned_in_a_file_that_cannot_change() {
        let a = Array::random(DType::F32, &[3, 5], 1);
        let b = Array::random(DType::I8, &[7], 2);
        let task = Task::new(&[("A", &a), ("B", &b)], &[("C", &a)], 1e-5).unwrap();
        let request = task.request();
        let bytes = std::fs::read(&request.file).unwrap();
        for (place, array) in request.arrays.iter().zip([&a, &b, &a]) {
            assert_eq!(place.offset % 64, 0);
            assert_eq!(&bytes[place.offset as usize..][..place.bytes as usize], array.bytes());
        }
        assert_eq!(request.arrays[2].purpose, Purpose::Reference { tolerance: 1e-5 });
        assert!(task.file.write_at(b"x", 0).is_err());
        assert!(task.file.set_len(0).is_err());
        let other = Task::new(&[], &[], 0.0).unwrap();
        assert_ne!(other.id(), task.id());
    }
}
