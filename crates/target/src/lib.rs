//! What a machine can do: vector width, caches, cores; and probing this one.
//!
//! | module | holds |
//! |---|---|
//! | [`description`] | [`Target`], the plain data that schedules and code generation work from |
//! | [`detect`] | filling it in for this machine |
//! | [`probe`] | measured peak arithmetic and bandwidth |
//! | [`disturbance`] | what on this machine would spoil a measurement, and the remedy |
//! | [`memory`] | how much memory may still be taken |
//! | [`affinity`] | pinning the calling thread to a core |

pub mod affinity;
pub mod description;
pub mod detect;
pub mod disturbance;
pub mod memory;
pub mod probe;

pub use affinity::{allowed_cores, pin_to_core};
pub use description::{Arch, Isa, Target, TargetError};
pub use disturbance::{Disturbance, disturbances};
pub use memory::available_memory;
pub use probe::{LevelBandwidth, core_probe, measure_bandwidth, measure_peak};
