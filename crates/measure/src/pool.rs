//! The pool: builds and runs candidates on workers, one typed result each.
//!
//! Builds run in parallel on the build workers; runs happen one at a time on the run worker. The two never overlap on
//! a core, whoever calls: a build holds the phase lock for reading, a run for writing, except for builds on cores that
//! runs leave free (see [`crate::stream`]). Time-outs count from the moment a worker gets the request, so waiting for a
//! worker or for the other phase costs a candidate nothing.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use talweg_ir::{Array, DType, Nest};
use talweg_runtime::KernelMeta;
use talweg_runtime::affinity::allowed_cores;
use talweg_target::Target;

use crate::error::{MeasureError, Stage};
use crate::process::{Failure, Worker};
use crate::sampling::{Samples, Sampling};
use crate::spawn::WorkerCommand;
use crate::task::Task;
use crate::wire::{ArgumentKind, BuildRequest, Difference, Kernel, Reply, Request, RunRequest};

/// How many candidates are built before they are run; bounds the memory that waiting objects take.
const SUB_BATCH: usize = 64;

/// How to measure.
#[derive(Debug, Clone)]
pub struct MeasureOptions {
    /// What candidates are compiled for.
    pub target: Target,
    /// How they are compiled.
    pub codegen: talweg_codegen::Options,
    /// Processes that compile at the same time.
    pub build_workers: usize,
    /// Threads of a candidate's parallel loops.
    pub threads: usize,
    /// Longest time for one compilation.
    pub build_timeout: Duration,
    /// Longest time for checking and timing one candidate.
    pub run_timeout: Duration,
    /// Memory a worker may allocate, in bytes; arrays of the task included.
    pub memory_limit: u64,
    /// A worker is replaced after this many requests.
    pub recycle_after: u32,
    /// Pins the threads of a run to cores of their own.
    pub pin: bool,
    /// How to time.
    pub sampling: Sampling,
    /// How to start a worker.
    pub command: WorkerCommand,
}

impl MeasureOptions {
    /// The usual settings: one thread, a build worker for each core, this program as the worker.
    pub fn new(target: Target) -> std::io::Result<MeasureOptions> {
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
        Ok(MeasureOptions {
            target,
            codegen: talweg_codegen::Options::default(),
            build_workers: cores,
            threads: 1,
            build_timeout: Duration::from_secs(15),
            run_timeout: Duration::from_secs(10),
            memory_limit: 4 << 30,
            recycle_after: 1000,
            pin: false,
            sampling: Sampling::default(),
            command: WorkerCommand::this_program()?,
        })
    }
}

/// A compiled candidate.
#[derive(Debug, Clone, PartialEq)]
pub struct Built {
    /// The object file.
    pub object: Vec<u8>,
    /// What it holds.
    pub kernel: Kernel,
    /// How long compiling took.
    pub compile_seconds: f64,
}

impl Built {
    /// The kernel's symbol and workspace, as the runtime wants them.
    pub fn meta(&self) -> KernelMeta {
        KernelMeta {
            name: self.kernel.symbol.clone(),
            shared_bytes: self.kernel.shared_bytes,
            scratch_bytes: self.kernel.scratch_bytes,
        }
    }
}

/// A candidate's times, and how far its outputs were from the reference.
#[derive(Debug, Clone, PartialEq)]
pub struct Ran {
    /// The times.
    pub samples: Samples,
    /// The largest difference; `None` when the task has no reference.
    pub difference: Option<Difference>,
}

/// What a good candidate yields.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// The times.
    pub samples: Samples,
    /// The largest difference to the reference; `None` when the task has none.
    pub difference: Option<Difference>,
    /// How long compiling took.
    pub compile_seconds: f64,
    /// The size of the object file.
    pub object_bytes: usize,
}

/// Measures candidates on worker processes. May be shared between threads.
#[derive(Debug)]
pub struct Measurer {
    options: MeasureOptions,
    target: String,
    /// The first ones, as many as there are free cores, keep off the cores of the run worker.
    pub(crate) build_slots: Vec<Mutex<Slot>>,
    run_slot: Mutex<Slot>,
    /// Read by builds, written by runs.
    phase: RwLock<()>,
    /// Cores that runs leave free.
    pub(crate) free: Vec<usize>,
}

/// The place of one worker in the pool.
#[derive(Debug, Default)]
pub(crate) struct Slot {
    /// The cores its workers are kept to; none for all.
    cores: Vec<usize>,
    worker: Option<Worker>,
    served: u32,
    started: u32,
    resident: Option<u64>,
}

impl Slot {
    /// Makes sure that there is a worker, replacing one that is due or dead.
    fn ready(&mut self, options: &MeasureOptions) -> Result<(), MeasureError> {
        let reusable =
            self.served < options.recycle_after.max(1) && self.worker.as_mut().is_some_and(Worker::is_alive);
        if !reusable {
            let cores = std::mem::take(&mut self.cores);
            *self = Slot { cores, started: self.started, ..Slot::default() };
        }
        if self.worker.is_none() {
            self.worker = Some(Worker::start(&options.command, options.memory_limit, &self.cores)?);
            self.started += 1;
        }
        Ok(())
    }

    /// Asks the worker that [`Slot::ready`] has provided.
    fn call(
        &mut self,
        options: &MeasureOptions,
        stage: Stage,
        request: &Request,
        payload: &[u8],
    ) -> Result<(Reply, Vec<u8>), MeasureError> {
        let timeout = match stage {
            Stage::Build => options.build_timeout,
            Stage::Run => options.run_timeout,
        };
        let Some(worker) = &mut self.worker else {
            let text = "the worker is gone".into();
            return Err(MeasureError::Protocol { text, stderr: String::new() });
        };
        self.served += 1;
        worker.call(request, payload, timeout).map_err(|failure: Failure| {
            self.worker = None;
            failure.into_error(stage, timeout, options.memory_limit)
        })
    }
}

impl Measurer {
    /// A pool; its workers start when they are first needed.
    pub fn new(options: MeasureOptions) -> Result<Measurer, MeasureError> {
        let target = serde_json::to_string(&options.target)
            .map_err(|e| MeasureError::Protocol { text: e.to_string(), stderr: String::new() })?;
        let free = free_cores(&options);
        let slot = |at: usize| {
            let cores = if at < free.len() { free.clone() } else { Vec::new() };
            Mutex::new(Slot { cores, ..Slot::default() })
        };
        let build_slots = (0..options.build_workers.max(1)).map(slot).collect();
        let (run_slot, phase) = (Mutex::default(), RwLock::default());
        Ok(Measurer { options, target, build_slots, run_slot, phase, free })
    }

    /// The settings.
    pub fn options(&self) -> &MeasureOptions {
        &self.options
    }

    /// Starts all workers now, so that the first batch need not wait for them.
    pub fn start(&self) -> Result<(), MeasureError> {
        std::thread::scope(|scope| {
            let slots = self.build_slots.iter().chain([&self.run_slot]);
            let starts: Vec<_> =
                slots.map(|slot| scope.spawn(move || lock(slot).ready(&self.options))).collect();
            let gone = || MeasureError::Spawn {
                command: self.options.command.to_string(),
                text: "the thread that waited for it panicked".into(),
            };
            starts.into_iter().try_for_each(|start| start.join().unwrap_or_else(|_| Err(gone())))
        })
    }

    /// The process ids of the workers that run at the moment.
    pub fn worker_pids(&self) -> Vec<u32> {
        let slots = self.build_slots.iter().chain([&self.run_slot]);
        slots.filter_map(|slot| lock(slot).worker.as_ref().map(Worker::pid)).collect()
    }

    /// How many workers were started so far, replacements included.
    pub fn workers_started(&self) -> u32 {
        self.build_slots.iter().chain([&self.run_slot]).map(|slot| lock(slot).started).sum()
    }

    /// Builds, checks and times candidates. The results stand in the order of the candidates.
    pub fn measure_batch(&self, task: &Task, candidates: &[Nest]) -> Vec<Result<Measured, MeasureError>> {
        let mut results = Vec::with_capacity(candidates.len());
        for part in candidates.chunks(SUB_BATCH) {
            for built in self.build_batch(part) {
                results.push(built.and_then(|built| {
                    let Ran { samples, difference } = self.run(task, &built)?;
                    let object_bytes = built.object.len();
                    let compile_seconds = built.compile_seconds;
                    Ok(Measured { samples, difference, compile_seconds, object_bytes })
                }));
            }
        }
        results
    }

    /// Compiles candidates on all build workers.
    pub fn build_batch(&self, candidates: &[Nest]) -> Vec<Result<Built, MeasureError>> {
        let _phase = self.phase.read().unwrap_or_else(PoisonError::into_inner);
        let results: Vec<OnceLock<Result<Built, MeasureError>>> =
            candidates.iter().map(|_| OnceLock::new()).collect();
        let next = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for slot in self.build_slots.iter().take(candidates.len()) {
                let (next, results) = (&next, &results);
                scope.spawn(move || {
                    let mut slot = lock(slot);
                    while let Some(at) = Some(next.fetch_add(1, Ordering::Relaxed))
                        && let Some(nest) = candidates.get(at)
                    {
                        // Each position is handed out once, so the cell is empty.
                        let _ = results[at].set(self.build_on(&mut slot, nest));
                    }
                });
            }
        });
        let lost = || MeasureError::Protocol { text: "no worker took it".into(), stderr: String::new() };
        results.into_iter().map(|cell| cell.into_inner().unwrap_or_else(|| Err(lost()))).collect()
    }

    /// Compiles one candidate.
    pub fn build(&self, candidate: &Nest) -> Result<Built, MeasureError> {
        let _phase = self.phase.read().unwrap_or_else(PoisonError::into_inner);
        let free = self.build_slots.iter().find_map(|slot| slot.try_lock().ok());
        let mut slot = free.unwrap_or_else(|| lock(&self.build_slots[0]));
        self.build_on(&mut slot, candidate)
    }

    pub(crate) fn build_on(&self, slot: &mut Slot, candidate: &Nest) -> Result<Built, MeasureError> {
        let request = BuildRequest {
            nest: candidate.to_string(),
            target: self.target.clone(),
            instruction_limit: self.options.codegen.instruction_limit,
            verify: self.options.codegen.verify,
        };
        slot.ready(&self.options)?;
        match slot.call(&self.options, Stage::Build, &Request::Build(request), &[])? {
            (Reply::Built { kernel, seconds }, object) => {
                Ok(Built { object, kernel, compile_seconds: seconds })
            }
            (Reply::BuildFailed { text }, _) => Err(MeasureError::Build { text }),
            (other, _) => Err(self.unexpected(Stage::Build, other)),
        }
    }

    /// Checks and times a compiled candidate. Nothing is compiled meanwhile.
    pub fn run(&self, task: &Task, built: &Built) -> Result<Ran, MeasureError> {
        self.run_with(task, built, &self.options.sampling)
    }

    /// [`Measurer::run`] with other sampling settings, for instance to compare winners more closely.
    pub fn run_with(&self, task: &Task, built: &Built, sampling: &Sampling) -> Result<Ran, MeasureError> {
        match self.run_request(task, built, sampling, false)? {
            (Reply::Ran { samples, difference }, _) => Ok(Ran { samples, difference }),
            (Reply::Wrong { difference, tolerance }, _) => Err(MeasureError::WrongResult {
                output: difference.output,
                max_rel_error: difference.max_rel_error,
                at: difference.at,
                expected: difference.expected,
                got: difference.got,
                tolerance,
            }),
            (other, _) => Err(self.unexpected(Stage::Run, other)),
        }
    }

    /// Runs a compiled candidate once for its outputs, by name. Nothing is compared with references.
    pub fn evaluate(&self, task: &Task, built: &Built) -> Result<Vec<(String, Array)>, MeasureError> {
        let payload = match self.run_request(task, built, &self.options.sampling, true)? {
            (Reply::Outputs, payload) => payload,
            (other, _) => return Err(self.unexpected(Stage::Run, other)),
        };
        let short = || MeasureError::Protocol { text: "outputs are missing".into(), stderr: String::new() };
        let mut rest = payload.as_slice();
        let mut outputs = Vec::new();
        for argument in built.kernel.arguments.iter().filter(|a| a.kind == ArgumentKind::Output) {
            let wrong = |text: String| MeasureError::Protocol { text, stderr: String::new() };
            let dtype: DType =
                argument.dtype.parse().map_err(|e| wrong(format!("{}: {e}", argument.name)))?;
            let mut array = Array::try_zeros(dtype, &argument.shape).map_err(|e| wrong(e.to_string()))?;
            let bytes = array.bytes_mut();
            let (own, others) = rest.split_at_checked(bytes.len()).ok_or_else(short)?;
            bytes.copy_from_slice(own);
            rest = others;
            outputs.push((argument.name.clone(), array));
        }
        Ok(outputs)
    }

    /// Asks the run worker, with the task resident. A worker whose kernel wrote where it must not is not used again.
    fn run_request(
        &self,
        task: &Task,
        built: &Built,
        sampling: &Sampling,
        outputs: bool,
    ) -> Result<(Reply, Vec<u8>), MeasureError> {
        let _phase = self.phase.write().unwrap_or_else(PoisonError::into_inner);
        let mut slot = lock(&self.run_slot);
        let options = &self.options;
        slot.ready(options)?;
        if slot.resident != Some(task.id()) {
            slot.resident = None;
            match slot.call(options, Stage::Run, &Request::Task(task.request()), &[])? {
                (Reply::TaskReady, _) => slot.resident = Some(task.id()),
                (other, _) => return Err(self.unexpected(Stage::Run, other)),
            }
        }
        let request = RunRequest {
            task: task.id(),
            kernel: built.kernel.clone(),
            threads: options.threads,
            pin: options.pin,
            sampling: sampling.finite(),
            outputs,
        };
        match slot.call(options, Stage::Run, &Request::Run(request), &built.object)? {
            (Reply::Overrun { text }, _) => {
                // Whatever else it damaged goes away with the process.
                slot.worker = None;
                Err(MeasureError::Overrun { text })
            }
            answered => Ok(answered),
        }
    }

    fn unexpected(&self, stage: Stage, reply: Reply) -> MeasureError {
        match reply {
            Reply::OutOfMemory { text } => {
                MeasureError::OutOfMemory { stage, limit: self.options.memory_limit, text }
            }
            Reply::Refused { text } => MeasureError::Mismatch { text },
            other => MeasureError::Protocol { text: format!("{other:?}"), stderr: String::new() },
        }
    }
}

/// The cores that are left when the threads of a run have one each; none when they are not pinned.
fn free_cores(options: &MeasureOptions) -> Vec<usize> {
    let cores = if options.pin { allowed_cores() } else { Vec::new() };
    cores.into_iter().skip(options.threads.max(1)).collect()
}

pub(crate) fn lock(slot: &Mutex<Slot>) -> MutexGuard<'_, Slot> {
    slot.lock().unwrap_or_else(PoisonError::into_inner)
}
