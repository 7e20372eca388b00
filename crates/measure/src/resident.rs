//! The run request: the resident task's arrays, checking a kernel's outputs, timing it.

use std::collections::VecDeque;
use std::fs::File;
use std::hint::black_box;
use std::io;
use std::os::unix::fs::FileExt;
use std::time::Instant;

use talweg_ir::{Array, DType, Nest, compare, run_pack};
use talweg_runtime::affinity::{allowed_cores, pin_current_thread};
use talweg_runtime::{KernelFn, KernelMeta, LoadedObject, Parallel, ThreadPool};
use talweg_target::fma_probe;

use crate::region::{Guarded, Layout, Region};
use crate::sampling::{Device, sample};
use crate::wire::{Argument, ArgumentKind, Difference, Kernel, Purpose, Reply, RunRequest, TaskRequest};

/// Packed constants kept for later candidates with the same layout.
const PACKED_KEPT: usize = 4;

/// What a worker keeps between requests: the resident task and the thread pool.
pub(crate) struct Machine {
    task: Option<Resident>,
    threads: Option<Threads>,
    /// The cores the process may use, from before it pinned itself.
    cores: Vec<usize>,
    /// The best probe so far: what an undisturbed core yields, as far as this process knows.
    best_probe: f64,
}

/// The arrays of a task.
struct Resident {
    id: u64,
    inputs: Vec<Input>,
    memory: Region,
    references: Vec<(String, Array, f64)>,
    packed: VecDeque<Packed>,
}

struct Input {
    name: String,
    dtype: DType,
    shape: Vec<usize>,
    offset: usize,
    bytes: usize,
}

struct Packed {
    packs: String,
    name: String,
    memory: Region,
    bytes: usize,
}

struct Threads {
    count: usize,
    pinned: bool,
    pool: ThreadPool,
}

/// Ends a request early with its reply.
type Outcome<T> = Result<T, Reply>;

fn refuse(text: impl Into<String>) -> Reply {
    Reply::Refused { text: text.into() }
}

fn no_memory(what: &str, error: io::Error) -> Reply {
    Reply::OutOfMemory { text: format!("{what}: {error}") }
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
            Err(reply) => reply,
        }
    }

    /// Checks and times a kernel.
    pub fn run(&mut self, request: &RunRequest, object: &[u8]) -> Reply {
        self.try_run(request, object).unwrap_or_else(|reply| reply)
    }

    fn try_run(&mut self, request: &RunRequest, object: &[u8]) -> Outcome<Reply> {
        self.prepare_threads(request.threads.max(1), request.pin)?;
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
        let mut call = task.arrange(kernel, function, pool.parallel(), request.threads)?;

        call.run(1);
        call.check_guards()?;
        let difference = task.verify(&call)?;
        let mut sampling = request.sampling.clone();
        if let Some(gate) = &mut sampling.gate {
            self.best_probe = self.best_probe.max(fma_probe());
            gate.reference = gate.reference.or(Some(self.best_probe));
        }
        let samples = sample(&sampling, &mut call);
        self.best_probe = samples.probes.iter().copied().fold(self.best_probe, f64::max);
        call.check_guards()?;
        Ok(Reply::Ran { samples, difference })
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
    // SAFETY: a CPU set is plain bits, for which zero is a value.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    for &core in cores.iter().filter(|c| **c < libc::CPU_SETSIZE as usize) {
        // SAFETY: the index is below the number of bits in the set.
        unsafe { libc::CPU_SET(core, &mut set) };
    }
    // SAFETY: `set` is a readable CPU set of the given size; 0 means the calling thread.
    if unsafe { libc::sched_setaffinity(0, size_of_val(&set), &set) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

impl Resident {
    fn load(request: TaskRequest) -> Outcome<Resident> {
        let path = request.file.display();
        let file = File::open(&request.file).map_err(|e| refuse(format!("cannot open {path}: {e}")))?;
        let mut layout = Layout::default();
        let mut inputs = Vec::new();
        let mut sources = Vec::new();
        let mut references = Vec::new();
        for place in request.arrays {
            let dtype: DType = place.dtype.parse().map_err(|e| refuse(format!("{}: {e}", place.name)))?;
            let bytes =
                byte_count(dtype, &place.shape).filter(|n| *n as u64 == place.bytes).ok_or_else(|| {
                    refuse(format!("{} has {} bytes, which is not its shape", place.name, place.bytes))
                })?;
            match place.purpose {
                Purpose::Input => {
                    let offset = layout.place(bytes).ok_or_else(|| refuse("the inputs are too large"))?;
                    inputs.push(Input { name: place.name, dtype, shape: place.shape, offset, bytes });
                    sources.push(place.offset);
                }
                Purpose::Reference { tolerance } => {
                    let array = Array::try_zeros(dtype, &place.shape);
                    let mut array = array.map_err(|e| Reply::OutOfMemory { text: e.to_string() })?;
                    let read = file.read_exact_at(array.bytes_mut(), place.offset);
                    read.map_err(|e| refuse(format!("cannot read {} from {path}: {e}", place.name)))?;
                    references.push((place.name, array, tolerance));
                }
            }
        }
        let size = layout.bytes().ok_or_else(|| refuse("the inputs are too large"))?;
        let mut memory = Region::new(size).map_err(|e| no_memory("the task's inputs", e))?;
        for (input, source) in inputs.iter().zip(sources) {
            let to = &mut memory.bytes_mut()[input.offset..input.offset + input.bytes];
            let read = file.read_exact_at(to, source);
            read.map_err(|e| refuse(format!("cannot read {} from {path}: {e}", input.name)))?;
        }
        memory.protect().map_err(|e| refuse(format!("cannot protect the inputs: {e}")))?;
        Ok(Resident { id: request.id, inputs, memory, references, packed: VecDeque::new() })
    }

    /// Fills a packed argument from the task's constants, unless an earlier candidate had the same.
    fn pack(&mut self, kernel: &Kernel, argument: &Argument) -> Outcome<()> {
        let name = &argument.name;
        let same = |p: &Packed| p.name == *name && p.packs == kernel.packs;
        if let Some(at) = self.packed.iter().position(same) {
            // The order is that of use, so that what is needed now is not dropped next.
            let found = self.packed.remove(at);
            self.packed.extend(found);
            return Ok(());
        }
        let nest = Nest::parse(&kernel.packs).map_err(|e| refuse(format!("the packs: {e}")))?;
        let packs = &nest.packs;
        let pack = packs.iter().find(|p| nest.buffer(p.packed).name == *name);
        let pack = pack.ok_or_else(|| refuse(format!("no pack fills `{name}`")))?;
        let source = self.constant(&nest.buffer(pack.source).name)?;
        let array = run_pack(&nest, pack, &source).map_err(|e| refuse(format!("packing `{name}`: {e}")))?;
        if array.dtype().name() != argument.dtype || array.shape() != argument.shape {
            return Err(refuse(format!("the pack of `{name}` yields another shape")));
        }
        let bytes = array.bytes();
        let mut memory = Region::new(bytes.len()).map_err(|e| no_memory("a packed constant", e))?;
        memory.bytes_mut()[..bytes.len()].copy_from_slice(bytes);
        memory.protect().map_err(|e| refuse(format!("cannot protect a packed constant: {e}")))?;
        while self.packed.len() >= PACKED_KEPT.max(kernel.arguments.len()) {
            self.packed.pop_front();
        }
        let bytes = bytes.len();
        self.packed.push_back(Packed { packs: kernel.packs.clone(), name: name.clone(), memory, bytes });
        Ok(())
    }

    /// A copy of an input, for packing.
    fn constant(&self, name: &str) -> Outcome<Array> {
        let input = self.inputs.iter().find(|i| i.name == name);
        let input = input.ok_or_else(|| refuse(format!("the task has no array `{name}`")))?;
        let mut array = Array::try_zeros(input.dtype, &input.shape)
            .map_err(|e| Reply::OutOfMemory { text: e.to_string() })?;
        array.bytes_mut().copy_from_slice(&self.memory.bytes()[input.offset..input.offset + input.bytes]);
        Ok(array)
    }

    /// Puts all pointers of a call in their places.
    fn arrange<'a>(
        &self,
        kernel: &Kernel,
        function: KernelFn,
        parallel: &'a Parallel,
        threads: usize,
    ) -> Outcome<Call<'a>> {
        let mut read = Vec::new();
        let mut sizes = Vec::new();
        let mut names = Vec::new();
        let mut slots = Vec::new();
        for argument in &kernel.arguments {
            let name = &argument.name;
            match argument.kind {
                ArgumentKind::Given => {
                    let input = self.inputs.iter().find(|i| i.name == *name);
                    let input = input.ok_or_else(|| refuse(format!("the task has no array `{name}`")))?;
                    if input.dtype.name() != argument.dtype || input.shape != argument.shape {
                        let Input { dtype, shape, .. } = input;
                        return Err(refuse(format!(
                            "`{name}` is {dtype}{shape:?} in the task and {}{:?} in the candidate",
                            argument.dtype, argument.shape
                        )));
                    }
                    let pointer = self.memory.as_ptr().wrapping_add(input.offset);
                    read.push((pointer.cast_const(), input.bytes));
                    slots.push(Slot::Fixed(pointer));
                }
                ArgumentKind::Packed => {
                    let packed = self.packed.iter().find(|p| p.name == *name && p.packs == kernel.packs);
                    let packed = packed.ok_or_else(|| refuse(format!("`{name}` was not packed")))?;
                    read.push((packed.memory.as_ptr().cast_const(), packed.bytes));
                    slots.push(Slot::Fixed(packed.memory.as_ptr()));
                }
                ArgumentKind::Output => {
                    let dtype: DType = argument.dtype.parse().map_err(|e| refuse(format!("{name}: {e}")))?;
                    let bytes = byte_count(dtype, &argument.shape);
                    let bytes = bytes.ok_or_else(|| refuse(format!("`{name}` is beyond all memory")))?;
                    slots.push(Slot::Written(sizes.len()));
                    sizes.push(bytes);
                    names.push((name.clone(), dtype, argument.shape.clone()));
                }
            }
        }
        let meta = KernelMeta {
            name: kernel.symbol.clone(),
            shared_bytes: kernel.shared_bytes,
            scratch_bytes: kernel.scratch_bytes,
        };
        sizes.push(meta.workspace_bytes(threads));
        let written = Guarded::new(&sizes).map_err(|e| no_memory("outputs and workspace", e))?;
        let pointers = slots
            .iter()
            .map(|slot| match *slot {
                Slot::Fixed(pointer) => pointer,
                Slot::Written(index) => written.pointer(index),
            })
            .collect();
        let workspace = written.pointer(sizes.len() - 1);
        Ok(Call {
            function,
            pointers,
            workspace,
            parallel,
            read,
            written,
            outputs: names,
            start: Instant::now(),
        })
    }

    /// Compares the outputs with the references; the largest difference over all of them.
    fn verify(&self, call: &Call<'_>) -> Outcome<Option<Difference>> {
        let mut worst: Option<Difference> = None;
        for (index, (name, dtype, shape)) in call.outputs.iter().enumerate() {
            let Some((_, expected, tolerance)) = self.references.iter().find(|(n, ..)| n == name) else {
                continue;
            };
            if expected.dtype() != *dtype || expected.shape() != shape {
                return Err(refuse(format!(
                    "`{name}` is {}{:?} in the task and {dtype}{shape:?} in the candidate",
                    expected.dtype(),
                    expected.shape()
                )));
            }
            let mut got =
                Array::try_zeros(*dtype, shape).map_err(|e| Reply::OutOfMemory { text: e.to_string() })?;
            got.bytes_mut().copy_from_slice(call.written.contents(index));
            let found = compare(expected, &got);
            let difference = Difference {
                output: name.clone(),
                max_rel_error: found.max_rel,
                at: found.at.clone().unwrap_or_default(),
                expected: found.expected,
                got: found.got,
            };
            if !found.within(*tolerance) {
                return Err(Reply::Wrong { difference, tolerance: *tolerance });
            }
            if worst.as_ref().is_none_or(|w| difference.max_rel_error > w.max_rel_error) {
                worst = Some(difference);
            }
        }
        Ok(worst)
    }
}

/// Where an argument's pointer comes from.
enum Slot {
    Fixed(*mut u8),
    Written(usize),
}

/// A kernel with everything it is called with.
struct Call<'a> {
    function: KernelFn,
    pointers: Vec<*mut u8>,
    workspace: *mut u8,
    parallel: &'a Parallel,
    /// What the kernel reads: start and length.
    read: Vec<(*const u8, usize)>,
    /// The outputs in order, then the workspace.
    written: Guarded,
    outputs: Vec<(String, DType, Vec<usize>)>,
    start: Instant,
}

impl Call<'_> {
    fn check_guards(&self) -> Outcome<()> {
        let Some((index, distance)) = self.written.damage() else { return Ok(()) };
        let name = self.outputs.get(index).map_or("the workspace", |(name, ..)| name.as_str());
        let length = self.written.contents(index).len();
        Err(Reply::Overrun { text: format!("byte {distance} of {name}, which has {length} bytes") })
    }
}

impl Device for Call<'_> {
    fn now(&mut self) -> f64 {
        self.start.elapsed().as_secs_f64()
    }

    fn run(&mut self, times: u32) {
        for _ in 0..times {
            // SAFETY: the pointers are those of the kernel's arguments, of the sizes it was compiled for, and the
            // workspace is as large as its description says. A kernel that goes astray ends this process only.
            unsafe { (self.function)(self.pointers.as_ptr(), self.workspace, self.parallel) };
        }
    }

    fn flush(&mut self) {
        for &(start, bytes) in &self.read {
            evict(start, bytes);
        }
        for index in 0..=self.outputs.len() {
            evict(self.written.pointer(index), self.written.contents(index).len());
        }
    }

    fn probe(&mut self) -> f64 {
        fma_probe()
    }
}

/// Removes memory from all caches.
#[cfg(target_arch = "x86_64")]
fn evict(start: *const u8, bytes: usize) {
    for offset in (0..bytes).step_by(64) {
        // SAFETY: flushing a line changes no value; the address lies in live memory.
        unsafe { std::arch::x86_64::_mm_clflush(start.wrapping_add(offset)) };
    }
    // SAFETY: a fence has no requirements.
    unsafe { std::arch::x86_64::_mm_mfence() };
    black_box(start);
}

/// Pushes everything out of the caches by streaming over more memory than they hold.
#[cfg(not(target_arch = "x86_64"))]
fn evict(_start: *const u8, _bytes: usize) {
    const STREAM: usize = 64 << 20;
    static BUFFER: std::sync::OnceLock<Vec<u8>> = std::sync::OnceLock::new();
    let buffer = BUFFER.get_or_init(|| vec![1; STREAM]);
    black_box(buffer.iter().step_by(64).map(|b| u64::from(*b)).sum::<u64>());
}

fn byte_count(dtype: DType, shape: &[usize]) -> Option<usize> {
    shape.iter().try_fold(dtype.bytes(), |n, e| n.checked_mul(*e))
}
