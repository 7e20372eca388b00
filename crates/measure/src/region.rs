//! Memory that a worker hands to kernels: page-aligned, on huge pages where they help, and able to be made read-only.

use std::io;
use std::ptr::NonNull;

/// What surrounds every array that a kernel may write. Not a power of two, so that arrays of equal size do not all
/// fall on the same cache sets.
const GUARD: usize = 4096 + 320;
/// What guards hold, and what outputs hold before the kernel runs: no plausible result in any element type.
const FILL: u8 = 0xff;

/// A private anonymous mapping.
#[derive(Debug)]
pub(crate) struct Region {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping belongs to this value alone, like a boxed slice.
unsafe impl Send for Region {}

impl Region {
    /// A zeroed region of at least one byte.
    pub fn new(bytes: usize) -> io::Result<Region> {
        let bytes = bytes.max(1);
        // SAFETY: a fresh anonymous mapping at an address of the kernel's choice touches no existing memory.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let Some(base) = NonNull::new(base.cast::<u8>()) else {
            return Err(io::ErrorKind::OutOfMemory.into());
        };
        // SAFETY: the range is the mapping made above. Failure only means ordinary pages.
        unsafe { libc::madvise(base.as_ptr().cast(), bytes, libc::MADV_HUGEPAGE) };
        Ok(Region { base, bytes })
    }

    /// The start.
    pub fn as_ptr(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    /// The contents.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the mapping is that long, readable and initialised.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.bytes) }
    }

    /// The contents, to write before the region is made read-only.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above; `&mut self` makes the access exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr(), self.bytes) }
    }

    /// Makes writing a fault, so that a kernel that writes here is blamed itself.
    pub fn protect(&self) -> io::Result<()> {
        // SAFETY: the range is this region's own mapping.
        let failed = unsafe { libc::mprotect(self.base.as_ptr().cast(), self.bytes, libc::PROT_READ) };
        if failed != 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the mapping belongs to this region alone, and no borrow outlives it.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

/// Where arrays lie in a region: aligned to cache lines, with guards between them.
#[derive(Debug, Default)]
pub(crate) struct Layout {
    end: usize,
}

impl Layout {
    /// Where the next array of that many bytes begins; `None` beyond all memory.
    pub fn place(&mut self, bytes: usize) -> Option<usize> {
        let offset = (self.end.checked_add(GUARD)?).checked_next_multiple_of(64)?;
        self.end = offset.checked_add(bytes)?;
        Some(offset)
    }

    /// The size of the region.
    pub fn bytes(&self) -> Option<usize> {
        self.end.checked_add(GUARD)
    }
}

/// A writable region whose every byte outside of its arrays is watched.
#[derive(Debug)]
pub(crate) struct Guarded {
    region: Region,
    /// Offset and length of each array, in increasing order.
    arrays: Vec<(usize, usize)>,
}

impl Guarded {
    /// Arrays of these sizes, filled with what no kernel is likely to compute.
    pub fn new(sizes: &[usize]) -> io::Result<Guarded> {
        let too_large = || io::Error::from(io::ErrorKind::OutOfMemory);
        let mut layout = Layout::default();
        let mut arrays = Vec::with_capacity(sizes.len());
        for &bytes in sizes {
            arrays.push((layout.place(bytes).ok_or_else(too_large)?, bytes));
        }
        let mut region = Region::new(layout.bytes().ok_or_else(too_large)?)?;
        region.bytes_mut().fill(FILL);
        Ok(Guarded { region, arrays })
    }

    /// The start of an array.
    pub fn pointer(&self, index: usize) -> *mut u8 {
        self.region.as_ptr().wrapping_add(self.arrays[index].0)
    }

    /// An array's contents.
    pub fn contents(&self, index: usize) -> &[u8] {
        let (offset, bytes) = self.arrays[index];
        &self.region.bytes()[offset..offset + bytes]
    }

    /// The array nearest to the first damaged guard byte, and that byte's distance from the array's start.
    pub fn damage(&self) -> Option<(usize, i64)> {
        let bytes = self.region.bytes();
        let mut begin = 0;
        for (index, &(offset, length)) in self.arrays.iter().enumerate() {
            if let Some(at) = bytes[begin..offset].iter().position(|b| *b != FILL) {
                let at = begin + at;
                return Some(match self.arrays.get(index.wrapping_sub(1)) {
                    Some((before, _)) if at - begin < offset - at => (index - 1, (at - before) as i64),
                    _ => (index, at as i64 - offset as i64),
                });
            }
            begin = offset + length;
        }
        let at = begin + bytes[begin..].iter().position(|b| *b != FILL)?;
        let (offset, _) = self.arrays.last().copied().unwrap_or_default();
        Some((self.arrays.len().saturating_sub(1), (at - offset) as i64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_are_aligned_and_filled() {
        let guarded = Guarded::new(&[5, 0, 128]).unwrap();
        for index in 0..3 {
            assert_eq!(guarded.pointer(index).addr() % 64, 0);
            assert!(guarded.contents(index).iter().all(|b| *b == FILL));
        }
        assert_eq!(guarded.contents(2).len(), 128);
    }

    #[test]
    fn damage_is_found_beside_its_array_only() {
        let mut guarded = Guarded::new(&[5, 128]).unwrap();
        let (first, second) = (guarded.arrays[0].0, guarded.arrays[1].0);
        guarded.region.bytes_mut()[first..first + 5].fill(1);
        assert_eq!(guarded.damage(), None);
        guarded.region.bytes_mut()[second + 130] = 0;
        assert_eq!(guarded.damage(), Some((1, 130)));
        guarded.region.bytes_mut()[second - 4] = 0;
        assert_eq!(guarded.damage(), Some((1, -4)));
        guarded.region.bytes_mut()[first + 9] = 0;
        assert_eq!(guarded.damage(), Some((0, 9)));
        guarded.region.bytes_mut()[first - 1] = 0;
        assert_eq!(guarded.damage(), Some((0, -1)));
    }

    #[test]
    fn impossible_sizes_are_errors() {
        assert!(Guarded::new(&[usize::MAX]).is_err());
        assert!(Guarded::new(&[1 << 62, 1 << 62, 1 << 62]).is_err());
        assert!(Region::new(1 << 60).is_err());
    }
}
