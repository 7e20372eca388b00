//! The arrays of the task a worker has resident: copied once, packed, handed to kernels, compared with their outputs.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Instant;

use talweg_ir::{Array, DType, Nest, run_pack_into};
use talweg_runtime::{KernelFn, KernelMeta, ThreadPool};

use crate::call::Call;
use crate::check::{Reference, Verdict};
use crate::region::{Guarded, Layout, Region};
use crate::wire::{Argument, ArgumentKind, Difference, Kernel, Purpose, Reply, RunRequest, TaskRequest};

/// Packed constants kept for later candidates with the same layout.
const PACKED_KEPT: usize = 4;

/// The arrays of a task.
pub(crate) struct Resident {
    pub id: u64,
    inputs: Vec<Input>,
    memory: Region,
    references: Vec<Reference>,
    packed: VecDeque<Packed>,
    /// Inputs that were packed, as packing wants them.
    constants: BTreeMap<String, Array>,
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

/// Ends a request early with its reply.
pub(crate) type Outcome<T> = Result<T, Box<Reply>>;

pub(crate) fn refuse(text: impl Into<String>) -> Box<Reply> {
    Box::new(Reply::Refused { text: text.into() })
}

pub(crate) fn no_memory(what: &str, error: impl std::fmt::Display) -> Box<Reply> {
    Box::new(Reply::OutOfMemory { text: format!("{what}: {error}") })
}

impl Resident {
    /// Copies a task's arrays out of its file.
    pub fn load(request: TaskRequest) -> Outcome<Resident> {
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
                    let mut array = array.map_err(|e| no_memory("an array of the task", e))?;
                    let read = file.read_exact_at(array.bytes_mut(), place.offset);
                    read.map_err(|e| refuse(format!("cannot read {} from {path}: {e}", place.name)))?;
                    references.push(Reference::new(place.name, array, tolerance));
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
        let (packed, constants) = (VecDeque::new(), BTreeMap::new());
        Ok(Resident { id: request.id, inputs, memory, references, packed, constants })
    }

    /// Fills a packed argument from the task's constants, unless an earlier candidate had the same.
    pub fn pack(&mut self, kernel: &Kernel, argument: &Argument) -> Outcome<()> {
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
        let packed = nest.buffer(pack.packed);
        let dtype: DType = argument.dtype.parse().map_err(|e| refuse(format!("{name}: {e}")))?;
        let extents = packed.shape.iter().map(|e| e.as_int().and_then(|n| usize::try_from(n).ok()));
        if packed.dtype != dtype || extents.collect::<Option<Vec<_>>>().as_ref() != Some(&argument.shape) {
            return Err(refuse(format!("the pack of `{name}` yields another shape")));
        }
        let bytes = byte_count(dtype, &argument.shape);
        let bytes = bytes.ok_or_else(|| refuse(format!("`{name}` is beyond all memory")))?;
        while self.packed.len() >= PACKED_KEPT.max(kernel.arguments.len()) {
            self.packed.pop_front();
        }
        let mut memory = Region::new(bytes).map_err(|e| no_memory("a packed constant", e))?;
        let source = self.constant(&nest.buffer(pack.source).name)?;
        run_pack_into(&nest, pack, source, &mut memory.bytes_mut()[..bytes])
            .map_err(|e| refuse(format!("packing `{name}`: {e}")))?;
        memory.protect().map_err(|e| refuse(format!("cannot protect a packed constant: {e}")))?;
        self.packed.push_back(Packed { packs: kernel.packs.clone(), name: name.clone(), memory, bytes });
        Ok(())
    }

    /// A copy of an input, for packing; made once.
    fn constant(&mut self, name: &str) -> Outcome<&Array> {
        if !self.constants.contains_key(name) {
            let input = self.inputs.iter().find(|i| i.name == name);
            let input = input.ok_or_else(|| refuse(format!("the task has no array `{name}`")))?;
            let mut array = Array::try_zeros(input.dtype, &input.shape)
                .map_err(|e| no_memory("an array of the task", e))?;
            let from = &self.memory.bytes()[input.offset..input.offset + input.bytes];
            array.bytes_mut().copy_from_slice(from);
            self.constants.insert(name.to_string(), array);
        }
        self.constants.get(name).ok_or_else(|| refuse(format!("the task has no array `{name}`")))
    }

    /// Puts all pointers of a call in their places.
    pub fn arrange<'a>(
        &self,
        request: &RunRequest,
        function: KernelFn,
        pool: &'a ThreadPool,
        threads: usize,
    ) -> Outcome<Call<'a>> {
        let kernel = &request.kernel;
        let mut read = Vec::new();
        let mut constants = Vec::new();
        let mut given = Vec::new();
        let mut sizes = Vec::new();
        let mut names = Vec::new();
        let mut slots = Vec::new();
        for (at, argument) in kernel.arguments.iter().enumerate() {
            let name = &argument.name;
            match argument.kind {
                ArgumentKind::Given | ArgumentKind::Constant => {
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
                    match argument.kind {
                        ArgumentKind::Constant => {
                            constants.push((pointer.cast_const(), input.bytes));
                        }
                        _ => given.push((at, input.bytes)),
                    }
                    slots.push(Slot::Fixed(pointer));
                }
                ArgumentKind::Packed => {
                    let packed = self.packed.iter().find(|p| p.name == *name && p.packs == kernel.packs);
                    let packed = packed.ok_or_else(|| refuse(format!("`{name}` was not packed")))?;
                    let start = packed.memory.as_ptr().cast_const();
                    read.push((start, packed.bytes));
                    constants.push((start, packed.bytes));
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
            pool,
            read,
            written,
            outputs: names,
            given,
            constants,
            hand_over: None,
            start: Instant::now(),
        })
    }

    /// Compares the outputs with the references; the largest difference, `None` without references.
    pub fn verify(&self, call: &Call<'_>) -> Outcome<Option<Difference>> {
        let mut worst: Option<Difference> = None;
        for (index, (name, dtype, shape)) in call.outputs.iter().enumerate() {
            let Some(reference) = self.references.iter().find(|r| r.name() == name) else { continue };
            if reference.dtype() != *dtype || reference.shape() != shape {
                return Err(refuse(format!(
                    "`{name}` is {}{:?} in the task and {dtype}{shape:?} in the candidate",
                    reference.dtype(),
                    reference.shape()
                )));
            }
            let verdict = reference.check(call.written.contents(index));
            match verdict.ok_or_else(|| no_memory("checking", "an output cannot be copied"))? {
                Verdict::Wrong(difference) => {
                    let tolerance = reference.tolerance();
                    return Err(Box::new(Reply::Wrong { difference, tolerance }));
                }
                Verdict::Right(difference) => worst = larger(worst, Some(difference)),
            }
        }
        Ok(worst)
    }
}

/// The larger of two differences, the first of equal ones.
pub(crate) fn larger(a: Option<Difference>, b: Option<Difference>) -> Option<Difference> {
    match (a, b) {
        (Some(a), Some(b)) => Some(if b.max_rel_error > a.max_rel_error { b } else { a }),
        (a, b) => a.or(b),
    }
}

/// Where an argument's pointer comes from.
enum Slot {
    Fixed(*mut u8),
    Written(usize),
}

fn byte_count(dtype: DType, shape: &[usize]) -> Option<usize> {
    shape.iter().try_fold(dtype.bytes(), |n, e| n.checked_mul(*e))
}
