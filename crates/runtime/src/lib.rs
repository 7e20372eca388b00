//! Thread pool, kernel loading and C ABI; what ships to production, without LLVM.
//!
//! | module | holds |
//! |---|---|
//! | [`abi`] | the calling convention between generated kernels and their caller |
//! | [`aligned_buffer`] | owned, 64-byte aligned memory for tensors and workspaces |
//! | [`pool`] | the fork-join thread pool behind a kernel's parallel loops |
//! | [`affinity`] | which cores this process may use, and pinning a thread to one |

pub mod abi;
pub mod affinity;
pub mod aligned_buffer;
pub mod pool;

pub use abi::{BUFFER_ALIGNMENT, BodyFn, KernelFn, KernelMeta, Parallel, RunFn};
pub use aligned_buffer::{AlignedBuffer, AllocError, Element, HugePages};
pub use pool::{PoolError, ThreadPool};
