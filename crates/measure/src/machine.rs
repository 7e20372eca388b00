//! What a worker keeps between requests, and how it answers those about running.

use std::io;

use talweg_runtime::affinity::{allowed_cores, pin_current_thread};
use talweg_runtime::{LoadedObject, ThreadPool};
use talweg_target::core_probe;

use crate::distances::Distances;
use crate::resident::{Outcome, Resident, larger, refuse};
use crate::sampling::{Device, sample};
use crate::spawn::core_set;
use crate::wire::{ArgumentKind, Reply, RunRequest, TaskRequest};

/// What a worker keeps between requests: the resident task and the thread pool.
pub(crate) struct Machine {
    task: Option<Resident>,
    threads: Option<Threads>,
    /// The cores the process may use, from before it pinned itself.
    cores: Vec<usize>,
    /// The best probe so far: what an undisturbed core yields, as far as this process knows.
    best_probe: f64,
}

struct Threads {
    count: usize,
    pinned: bool,
    pool: ThreadPool,
}

impl Machine {
    pub fn new() -> Machine {
        Machine { task: None, threads: None, cores: allowed_cores(), best_probe: 0.0 }
    }

    /// Makes a task the resident one.
    pub fn load_task(&mut self, request: TaskRequest) -> Reply {
        self.task = None;
        match Resident::load(request) {
            Ok(task) => {
                self.task = Some(task);
                Reply::TaskReady
            }
            Err(reply) => *reply,
        }
    }

    /// Checks and times a kernel, or just runs it for its outputs.
    pub fn run(&mut self, request: &RunRequest, object: &[u8]) -> (Reply, Vec<u8>) {
        self.try_run(request, object).unwrap_or_else(|reply| (*reply, Vec::new()))
    }

    fn try_run(&mut self, request: &RunRequest, object: &[u8]) -> Outcome<(Reply, Vec<u8>)> {
        let threads = request.threads.max(1);
        self.prepare_threads(threads, request.pin)?;
        let Some(Threads { pool, .. }) = &self.threads else { return Err(refuse("there are no threads")) };
        let task = self.task.as_mut().filter(|t| t.id == request.task);
        let Some(task) = task else { return Err(refuse("the task is not resident")) };
        let kernel = &request.kernel;
        for argument in kernel.arguments.iter().filter(|a| a.kind == ArgumentKind::Packed) {
            task.pack(kernel, argument)?;
        }
        let loaded = LoadedObject::load(object).map_err(|e| refuse(format!("the object: {e}")))?;
        // SAFETY: the pool vouches that the object holds a kernel of this name; should it not, this process is the
        // one that pays. The object lives to the end of this function.
        let function = unsafe { loaded.kernel(&kernel.symbol) };
        let function = function.map_err(|e| refuse(format!("the object: {e}")))?;
        let mut call = task.arrange(request, function, pool, threads)?;

        let first = call.run(1);
        call.check_guards()?;
        if request.outputs {
            let outputs = (0..call.outputs.len()).map(|at| call.written.contents(at));
            return Ok((Reply::Outputs, outputs.collect::<Vec<_>>().concat()));
        }
        let before = task.verify(&call)?;
        let mut sampling = request.sampling.clone();
        let is_handed = sampling.hand_over && threads > 1;
        if is_handed || sampling.cold_constants {
            call.begin_hand_over(is_handed, sampling.cold_constants)?;
        }
        if let Some(gate) = &mut sampling.gate {
            // The first time long enough to see the core at its best at least once.
            let probes = if self.best_probe == 0.0 { 100 } else { 1 };
            self.best_probe = (0..probes).map(|_| core_probe()).fold(self.best_probe, f64::max);
            gate.reference = gate.reference.or(Some(self.best_probe));
        }
        let distance = pool.distance();
        let mut samples = sample(&sampling, &mut call, Some(first));
        let is_same = |after: &f64| distance.is_some_and(|before| Distances::are_same(before, *after));
        samples.distance = pool.distance().filter(is_same);
        self.best_probe = samples.probes.iter().copied().fold(self.best_probe, f64::max);
        call.check_guards()?;
        // Once more after many runs, which finds races and what depends on earlier runs.
        let difference = larger(before, task.verify(&call)?);
        Ok((Reply::Ran { samples, difference }, Vec::new()))
    }

    fn prepare_threads(&mut self, count: usize, pinned: bool) -> Outcome<()> {
        if self.threads.as_ref().is_some_and(|t| t.count == count && t.pinned == pinned) {
            return Ok(());
        }
        self.threads = None;
        // Threads inherit the affinity of their maker, so the maker must not be pinned yet.
        allow_cores(&self.cores).map_err(|e| refuse(format!("cannot choose cores: {e}")))?;
        let pool = if pinned { ThreadPool::pinned(count) } else { ThreadPool::new(count) };
        let pool = pool.map_err(|e| refuse(e.to_string()))?;
        if let (true, Some(core)) = (pinned, self.cores.first()) {
            pin_current_thread(*core).map_err(|e| refuse(format!("cannot pin to core {core}: {e}")))?;
        }
        self.threads = Some(Threads { count, pinned, pool });
        Ok(())
    }
}

/// Lets this thread run on these cores.
fn allow_cores(cores: &[usize]) -> io::Result<()> {
    let Some(set) = core_set(cores) else { return Ok(()) };
    // SAFETY: `set` is a readable CPU set of the given size; 0 means the calling thread.
    if unsafe { libc::sched_setaffinity(0, size_of_val(&set), &set) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
