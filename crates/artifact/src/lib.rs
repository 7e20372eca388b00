//! A network's program to one file: kernels compiled, weights laid out, memory planned.
//!
//! | module | holds |
//! |---|---|
//! | [`kernel`] | a task with its schedule, lowered and compiled |
//! | [`memory`] | which value lies where in the arena |
//! | [`weights`] | constants as kernels read them, each stored once |
//! | [`threads`] | which kernels are too short for several threads |
//! | [`library`] | an artefact as a shared library with a C header |
//! | [`whole_file`] | files that are whole or not there |
//! | [`build`] | all of it together: a [`Program`](talweg_graph::Program) to an [`Artefact`] |

pub mod build;
pub mod kernel;
pub mod library;
pub mod memory;
pub mod threads;
pub mod weights;
pub mod whole_file;

pub use build::{Artefact, BuildError, BuildOptions, build};
pub use kernel::{Choice, CompiledTask, KernelError};
pub use library::{Library, LibraryError};
pub use memory::{Arena, Lifetime};
pub use whole_file::{check_writable, write_whole};
