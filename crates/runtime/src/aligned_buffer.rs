//! Owned, 64-byte aligned, zeroed memory for tensors and workspaces.

use crate::abi::BUFFER_ALIGNMENT;
use std::alloc::Layout;
use std::ptr::NonNull;

/// Allocations of at least this size come straight from the kernel, aligned to a huge page.
const HUGE_PAGE: usize = 2 << 20;

/// Whether large buffers ask the kernel for transparent huge pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HugePages {
    /// Advise huge pages for buffers of 2 MiB and more: fewer TLB misses on large tensors.
    #[default]
    Advise,
    /// Leave the page size to the system's setting.
    System,
}

/// The system could not provide the memory for a buffer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "cannot allocate a buffer of {bytes} bytes: out of memory; use smaller tensors or raise the memory limit"
)]
pub struct AllocError {
    /// The size that was asked for.
    pub bytes: usize,
}

/// A number type a buffer may be viewed as.
///
/// # Safety
/// Every bit pattern must be a valid value, and the alignment at most [`BUFFER_ALIGNMENT`].
pub unsafe trait Element: Copy + 'static {}

macro_rules! elements {
    ($($type:ty),*) => { $(
        // SAFETY: a primitive number; all bit patterns are values.
        unsafe impl Element for $type {}
    )* };
}
elements!(u8, i8, u16, i16, u32, i32, u64, i64, f32, f64);

/// Owned bytes, zeroed on creation and aligned for [`KernelFn`](crate::KernelFn).
#[derive(Debug)]
pub struct AlignedBuffer {
    data: NonNull<u8>,
    len: usize,
    origin: Origin,
}

/// Where the memory came from, and so how it goes back.
#[derive(Debug)]
enum Origin {
    Empty,
    Heap(Layout),
    Map { base: NonNull<u8>, bytes: usize },
}

// SAFETY: the buffer owns its memory exclusively, like a `Vec<u8>`.
unsafe impl Send for AlignedBuffer {}
// SAFETY: shared access only reads.
unsafe impl Sync for AlignedBuffer {}

impl AlignedBuffer {
    /// A zeroed buffer of `len` bytes, on huge pages if it is large.
    pub fn zeroed(len: usize) -> Result<AlignedBuffer, AllocError> {
        AlignedBuffer::zeroed_with(len, HugePages::Advise)
    }

    /// A zeroed buffer of `len` bytes with an explicit choice about huge pages.
    pub fn zeroed_with(len: usize, pages: HugePages) -> Result<AlignedBuffer, AllocError> {
        if len == 0 {
            let data = std::ptr::without_provenance_mut(BUFFER_ALIGNMENT);
            let data = NonNull::new(data).ok_or(AllocError { bytes: len })?;
            return Ok(AlignedBuffer { data, len, origin: Origin::Empty });
        }
        if len >= HUGE_PAGE {
            return map_zeroed(len, pages).ok_or(AllocError { bytes: len });
        }
        let layout = Layout::from_size_align(len, BUFFER_ALIGNMENT).map_err(|_| AllocError { bytes: len })?;
        // SAFETY: the layout's size is not zero.
        let data = NonNull::new(unsafe { std::alloc::alloc_zeroed(layout) });
        let data = data.ok_or(AllocError { bytes: len })?;
        Ok(AlignedBuffer { data, len, origin: Origin::Heap(layout) })
    }

    /// A buffer that holds a copy of `values`.
    pub fn from_slice<T: Element>(values: &[T]) -> Result<AlignedBuffer, AllocError> {
        let mut buffer = AlignedBuffer::zeroed(std::mem::size_of_val(values))?;
        buffer.view_mut::<T>().copy_from_slice(values);
        Ok(buffer)
    }

    /// The size in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the buffer holds no bytes at all.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The start of the buffer; aligned to [`BUFFER_ALIGNMENT`] even when it is empty.
    pub fn as_ptr(&self) -> *const u8 {
        self.data.as_ptr()
    }

    /// The start of the buffer, for a kernel's buffer list.
    pub fn as_mut_ptr(&mut self) -> *mut u8 {
        self.data.as_ptr()
    }

    /// The bytes as numbers of type `T`; a remainder shorter than one number is left out.
    pub fn view<T: Element>(&self) -> &[T] {
        // SAFETY: the memory is initialised, aligned beyond `T`, long enough, and any bits are a `T`.
        unsafe { std::slice::from_raw_parts(self.data.as_ptr().cast(), self.len / size_of::<T>()) }
    }

    /// The bytes as numbers of type `T`, to write; a remainder shorter than one number is left out.
    pub fn view_mut<T: Element>(&mut self) -> &mut [T] {
        // SAFETY: as in `view`, and `&mut self` makes the access exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.data.as_ptr().cast(), self.len / size_of::<T>()) }
    }
}

fn map_zeroed(len: usize, pages: HugePages) -> Option<AlignedBuffer> {
    let bytes = len.checked_next_multiple_of(HUGE_PAGE)?.checked_add(HUGE_PAGE)?;
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
        return None;
    }
    let base: *mut u8 = base.cast();
    let slack = base.addr().next_multiple_of(HUGE_PAGE) - base.addr();
    // SAFETY: `slack < HUGE_PAGE`, and the mapping is one huge page longer than the rounded length.
    let data = unsafe { base.add(slack) };
    #[cfg(target_os = "linux")]
    if pages == HugePages::Advise {
        // The last, partly used page would cost memory for nothing.
        // SAFETY: the range lies in the mapping made above. Failure only means ordinary pages.
        unsafe { libc::madvise(data.cast(), len / HUGE_PAGE * HUGE_PAGE, libc::MADV_HUGEPAGE) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = pages;
    let origin = Origin::Map { base: NonNull::new(base)?, bytes };
    Some(AlignedBuffer { data: NonNull::new(data)?, len, origin })
}

impl Drop for AlignedBuffer {
    fn drop(&mut self) {
        match self.origin {
            Origin::Empty => {}
            // SAFETY: `data` was allocated with exactly this layout.
            Origin::Heap(layout) => unsafe { std::alloc::dealloc(self.data.as_ptr(), layout) },
            // SAFETY: the mapping belongs to this buffer alone, and no view outlives it.
            Origin::Map { base, bytes } => unsafe {
                libc::munmap(base.as_ptr().cast(), bytes);
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_of_all_sizes_are_aligned_and_zero() {
        for len in [0, 1, 63, 64, 4097, HUGE_PAGE - 1, HUGE_PAGE, 3 * HUGE_PAGE + 5] {
            let mut buffer = AlignedBuffer::zeroed(len).unwrap();
            assert_eq!(buffer.len(), len);
            assert_eq!(buffer.as_ptr().addr() % BUFFER_ALIGNMENT, 0);
            assert!(buffer.view::<u8>().iter().all(|&byte| byte == 0));
            buffer.view_mut::<u8>().fill(7);
            assert!(buffer.view::<u8>().iter().all(|&byte| byte == 7));
        }
    }

    #[test]
    fn views_have_whole_numbers_only() {
        let buffer = AlignedBuffer::from_slice(&[1.5f32, -2.0, 3.0]).unwrap();
        assert_eq!(buffer.view::<f32>(), [1.5, -2.0, 3.0]);
        assert_eq!(buffer.view::<u64>().len(), 1);
        assert_eq!(buffer.view::<u32>()[0], 1.5f32.to_bits());
    }

    #[test]
    fn impossible_sizes_are_errors() {
        for len in [usize::MAX, usize::MAX / 2, 1 << 60] {
            let error = AlignedBuffer::zeroed_with(len, HugePages::System).unwrap_err();
            assert!(error.to_string().contains(&len.to_string()));
        }
    }
}
