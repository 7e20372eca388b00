//! Builds and times candidates in worker processes that can be killed.
//!
//! A [`Measurer`] keeps a pool of workers. A candidate that does not compile, hangs, crashes, eats memory or computes
//! something wrong costs one [`MeasureError`] and nothing else: the worker is replaced and the batch goes on. No
//! worker survives the process that started it.
//!
//! | module | holds |
//! |---|---|
//! | [`pool`] | the pool and its phases: build in parallel, run alone |
//! | [`stream`] | compiling the next candidates while one is timed |
//! | [`task`] | inputs and reference outputs in shared memory |
//! | [`distances`] | distances between threads, told apart |
//! | [`sampling`] | when to take samples and when to stop |
//! | [`error`] | every way a candidate can fail |
//! | [`wire`] | the frames between pool and worker |
//! | `process` | one worker seen from the pool: deadlines, death and its explanation |
//! | `spawn` | starting workers that cannot outlive this process |
//! | `worker` | the worker's side: answering requests |
//! | `compile` | the build request: nest text to object |
//! | `machine` | the run request: threads, checking, timing |
//! | `resident` | the task's arrays in the worker |
//! | `call` | a loaded kernel with its arguments |
//! | `hand_over` | caches as a network leaves them: inputs and outputs with the threads, constants far away |
//! | `check` | comparing outputs with their references |
//! | `region` | memory handed to kernels, with guards |
//! | `crash` | telling a lack of memory from other crashes |

#[cfg(not(target_os = "linux"))]
compile_error!("measuring needs Linux: it relies on parent-death signals and memory files");

mod call;
mod check;
mod compile;
mod crash;
pub mod distances;
pub mod error;
mod hand_over;
mod machine;
pub mod pool;
mod process;
mod region;
mod resident;
pub mod sampling;
mod spawn;
pub mod stream;
pub mod task;
pub mod wire;
mod worker;

#[doc(hidden)]
pub use compile::{build as compile_nest, describe};
pub use distances::Distances;
pub use error::{MeasureError, Stage};
pub use pool::{Built, MeasureOptions, Measured, Measurer, Ran};
pub use sampling::{Gate, SENSITIVITY, Samples, Sampling, Stop};
pub use spawn::WorkerCommand;
pub use stream::{Finished, Phases, Sink};
pub use task::{Task, TaskError};
pub use wire::Difference;
pub use worker::worker_main;
#[doc(hidden)]
pub use worker::{Builder, worker_main_with};
