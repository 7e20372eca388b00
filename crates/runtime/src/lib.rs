//! Thread pool, kernel loading and C ABI; what ships to production, without LLVM.
//!
//! | module | holds |
//! |---|---|
//! | [`abi`] | the calling convention between generated kernels and their caller |
//! | [`aligned_buffer`] | owned, 64-byte aligned memory for tensors and workspaces |
//! | [`pool`] | the fork-join thread pool behind a kernel's parallel loops |
//! | [`distance`] | how far apart a pool's threads are |
//! | [`team`] | some of a pool's threads, for short loops |
//! | [`object_loader`] | turning a compiled object into callable machine code |
//! | [`externals`], [`relocation`] | its parts: what kernels may call, how addresses are patched in |
//! | [`model`] | compiled networks: the file, loading it, running it |
//! | [`capi`] | the C interface, declared in `include/talweg_runtime.h` |
//! | [`affinity`] | which cores this process may use, and pinning a thread to one |

pub mod abi;
pub mod affinity;
pub mod aligned_buffer;
pub mod capi;
pub mod distance;
pub mod externals;
pub mod model;
pub mod object_loader;
pub mod pool;
pub mod relocation;
pub mod team;

pub use abi::{BUFFER_ALIGNMENT, BodyFn, KernelFn, KernelMeta, Parallel, RunFn};
pub use aligned_buffer::{AlignedBuffer, AllocError, Element, HugePages};
pub use object_loader::{LoadError, LoadedObject};
pub use pool::{PoolError, ThreadPool};
pub use team::Team;
