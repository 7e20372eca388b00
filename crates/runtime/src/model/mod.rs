//! Compiled networks: the artefact's file format, loading it, and running it.
//!
//! | module | holds |
//! |---|---|
//! | [`manifest`] | what an artefact says about itself: ports, kernels, steps, places in memory |
//! | [`container`] | the file around it: sections, version, checksums |
//! | [`cpu`] | which processor features are here |
//! | [`load`] | a file to callable kernels and weights in memory |
//! | [`capi`] | the C interface |
//! | `foreign` | which arguments of kernels are the network's inputs and outputs |
//! | [`session`] | one arena and one pool: running the steps |

pub mod capi;
pub mod container;
pub mod cpu;
mod foreign;
pub mod load;
pub mod manifest;
pub mod session;

pub use container::{Container, ContainerError};
pub use load::{Model, ModelError};
pub use manifest::{Kernel, Manifest, Operand, Place, Port, Step, Work, Workspace};
pub use session::{RunError, Session, SessionOptions};
