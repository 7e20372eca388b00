//! All of it together: a program to an artefact.

use std::io::{self, BufWriter, Cursor};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use talweg_graph::{Program, Step, Task, ValueId, Work};
use talweg_ir::{InterpError, Role, Source};
use talweg_runtime::KernelMeta;
use talweg_runtime::model::{self, Container, Manifest, Operand, Place, Port, Workspace};
use talweg_target::Target;
use talweg_tensor::Op;
use talweg_tensor::op::Unary;

use crate::kernel::{self, Choice, CompiledTask, KernelError};
use crate::memory::{Arena, Lifetime};
use crate::threads;
use crate::weights::Weights;
use crate::whole_file::write_whole;

/// How to build.
#[derive(Clone, Debug)]
pub struct BuildOptions {
    /// The machine to build for.
    pub target: Target,
    /// Threads that compile.
    pub jobs: usize,
}

/// Why there is no artefact.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// A task has no kernel.
    #[error("the kernel for {}: {source}", .nodes.join(" + "))]
    Kernel {
        /// The model's nodes that it computes.
        nodes: Vec<String>,
        /// What is wrong.
        source: KernelError,
    },
    /// A constant cannot be laid out.
    #[error("the weights of {}: {source}", .nodes.join(" + "))]
    Weights {
        /// The model's nodes that need them.
        nodes: Vec<String>,
        /// What is wrong.
        source: InterpError,
    },
    /// The program refers to something that is not there: a defect of talweg.
    #[error("the program is inconsistent, which is a defect of talweg; please report it: {0}")]
    Inconsistent(String),
    /// The file cannot be written.
    #[error("cannot write `{}`: {source}; check the folder and the free space", .path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// A built network, not yet a file.
pub struct Artefact {
    /// What it says about itself.
    pub manifest: Manifest,
    /// The bytes that live at one time at most: what the best possible plan would need.
    pub arena_bound: u64,
    objects: Vec<u8>,
    weights: Weights,
}

/// Compiles every task by the schedule chosen for it, lays out the weights and plans the memory.
pub fn build(
    program: &Program,
    options: &BuildOptions,
    choose: &(dyn Fn(&Task) -> Choice + Sync),
) -> Result<Artefact, BuildError> {
    let compiled = compile_all(program, options, choose)?;
    let threads = options.target.cores.max(1) as usize;
    let plan = Plan::new(program, &compiled, threads);
    let mut weights = Weights::default();
    let mut steps = Vec::new();
    for (at, step) in program.steps.iter().enumerate() {
        match &step.work {
            Work::View => {}
            Work::Plain(op) => steps.push(plan.plain(program, step, op, &mut weights)?),
            Work::Kernel(task) => {
                let arguments = plan.arguments(program, step, *task, &compiled[*task], &mut weights)?;
                let workspace = plan.workspaces[at].map(|offset| Workspace { offset, threads });
                let work = model::Work::Kernel { kernel: *task, arguments, workspace };
                steps.push(model::Step { work, nodes: step.nodes.clone() });
            }
        }
    }
    for (value, copy) in &plan.copies {
        let identity = Op::Unary(Unary::Identity);
        let tensor = program.graph.constant(plan.root[value.index()]);
        let tensor = tensor.ok_or_else(|| inconsistent(program, *value, "is not a constant"))?;
        let place = Place::Weight(weights.raw(plan.root[value.index()], tensor));
        let ty = program.graph.ty(*value);
        let operand = |place| Operand { place, element: ty.element, shape: ty.shape.clone() };
        let work = model::Work::Plain {
            op: identity,
            inputs: vec![Some(operand(place))],
            outputs: vec![Some(operand(Place::Arena(*copy)))],
        };
        steps.push(model::Step { work, nodes: vec![program.graph.value(*value).name.clone()] });
    }
    let mut objects = Vec::new();
    let mut kernels = Vec::new();
    for (task, compiled) in program.tasks.iter().zip(&compiled) {
        let meta = &compiled.compiled.meta;
        kernels.push(model::Kernel {
            symbol: meta.name.clone(),
            object_offset: objects.len() as u64,
            object_bytes: compiled.compiled.object.len() as u64,
            shared_bytes: meta.shared_bytes as u64,
            scratch_bytes: meta.scratch_bytes as u64,
            argument_bytes: argument_bytes(compiled),
            label: task.dag.name.clone(),
            flops: task.dag.arithmetic(),
            schedule: compiled.schedule.to_string(),
            threads: threads::few(&task.dag, &options.target),
        });
        objects.extend(&compiled.compiled.object);
        objects.resize(objects.len().next_multiple_of(64), 0);
    }
    let port = |value: &ValueId| -> Result<Port, BuildError> {
        Ok(Port { name: program.graph.value(*value).name.clone(), operand: plan.operand(program, *value)? })
    };
    let features = options.target.llvm_features.split(',').filter_map(|f| f.strip_prefix('+'));
    let manifest = Manifest {
        model: program.graph.name.clone(),
        tool: concat!("talweg ", env!("CARGO_PKG_VERSION")).to_string(),
        arch: options.target.arch.name().to_string(),
        features: features.map(str::to_string).collect(),
        arena_bytes: plan.arena.bytes,
        inputs: program.graph.inputs.iter().map(port).collect::<Result<_, _>>()?,
        outputs: program.graph.outputs.iter().map(port).collect::<Result<_, _>>()?,
        kernels,
        steps,
    };
    manifest.check(objects.len() as u64, weights.bytes()).map_err(BuildError::Inconsistent)?;
    Ok(Artefact { manifest, arena_bound: plan.arena.bound, objects, weights })
}

impl Artefact {
    /// Bytes of the weights as kernels read them.
    pub fn weights_bytes(&self) -> u64 {
        self.weights.bytes()
    }

    /// The machine code of a kernel.
    pub(crate) fn object(&self, at: usize) -> &[u8] {
        let kernel = &self.manifest.kernels[at];
        let start = kernel.object_offset as usize;
        &self.objects[start..start + kernel.object_bytes as usize]
    }

    /// Writes the weights as kernels read them.
    pub(crate) fn write_weights(&self, to: &mut dyn io::Write) -> io::Result<()> {
        self.weights.write(to)?;
        to.flush()
    }

    /// Writes the file, see [`write_whole`].
    pub fn write(&self, path: &Path) -> Result<(), BuildError> {
        write_whole(path, |file| self.write_to(BufWriter::with_capacity(1 << 20, file)))
            .map_err(|source| BuildError::Write { path: path.to_path_buf(), source })
    }

    /// The file's bytes.
    pub fn to_bytes(&self) -> io::Result<Vec<u8>> {
        let mut bytes = Cursor::new(Vec::new());
        self.write_to(&mut bytes)?;
        Ok(bytes.into_inner())
    }

    fn write_to<W: io::Write + io::Seek>(&self, to: W) -> io::Result<()> {
        Container::write(to, &self.manifest, &self.objects, self.weights.bytes(), |to| self.weights.write(to))
    }
}

/// Compiles all tasks on several threads; of several errors, that of the first task is reported.
fn compile_all(
    program: &Program,
    options: &BuildOptions,
    choose: &(dyn Fn(&Task) -> Choice + Sync),
) -> Result<Vec<CompiledTask>, BuildError> {
    let next = AtomicUsize::new(0);
    let results: Vec<Mutex<Option<Result<CompiledTask, KernelError>>>> =
        program.tasks.iter().map(|_| Mutex::new(None)).collect();
    std::thread::scope(|scope| {
        for _ in 0..options.jobs.clamp(1, program.tasks.len().max(1)) {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(task) = program.tasks.get(at) else { break };
                    let result = kernel::compile(task, &choose(task), &options.target);
                    *results[at].lock().unwrap_or_else(|e| e.into_inner()) = Some(result);
                }
            });
        }
    });
    let mut compiled = Vec::with_capacity(results.len());
    for (at, result) in results.into_iter().enumerate() {
        let result = result.into_inner().unwrap_or_else(|e| e.into_inner());
        let result = result.ok_or_else(|| BuildError::Inconsistent(format!("task {at} was not compiled")))?;
        compiled.push(result.map_err(|source| BuildError::Kernel { nodes: nodes_of(program, at), source })?);
    }
    Ok(compiled)
}

fn nodes_of(program: &Program, task: usize) -> Vec<String> {
    let uses = |step: &&Step| matches!(step.work, Work::Kernel(used) if used == task);
    program.steps.iter().find(uses).map(|step| step.nodes.clone()).unwrap_or_default()
}

fn argument_bytes(task: &CompiledTask) -> Vec<u64> {
    let size = |id| {
        let buffer = task.nest.buffer(id);
        if buffer.role == Role::Const && !kernel::reads(&task.nest, id) {
            return 0;
        }
        let elements: i64 = buffer.shape.iter().map(|e| e.as_int().unwrap_or(0)).product();
        elements.max(0) as u64 * buffer.dtype.bytes() as u64
    };
    task.compiled.arguments.iter().map(|id| size(*id)).collect()
}

fn inconsistent(program: &Program, value: ValueId, what: &str) -> BuildError {
    BuildError::Inconsistent(format!("`{}` {what}", program.graph.value(value).name))
}

/// Where every value is.
struct Plan {
    /// For every value, the value whose memory it is.
    root: Vec<ValueId>,
    /// For every root in the arena, its position among the planned.
    planned: Vec<Option<usize>>,
    arena: Arena,
    /// For every step that needs workspace, where in the arena it is.
    workspaces: Vec<Option<u64>>,
    /// Outputs of the network that are constants, and where in the arena they are copied to.
    copies: Vec<(ValueId, u64)>,
}

impl Plan {
    /// Plans all values, and the workspace of kernels for a number of threads.
    fn new(program: &Program, compiled: &[CompiledTask], threads: usize) -> Plan {
        let graph = &program.graph;
        let mut root: Vec<ValueId> = (0..graph.values.len() as u32).map(ValueId).collect();
        for step in &program.steps {
            if let (Work::View, [Some(input)], [output]) = (&step.work, &step.inputs[..], &step.outputs[..]) {
                root[output.index()] = root[input.index()];
            }
        }
        let end = program.steps.len() + 1;
        let mut lives: Vec<Option<(usize, usize)>> = vec![None; graph.values.len()];
        for input in &graph.inputs {
            lives[input.index()] = Some((0, end));
        }
        for (at, step) in program.steps.iter().enumerate() {
            if matches!(step.work, Work::View) {
                continue;
            }
            for value in step.inputs.iter().flatten() {
                if let Some((_, last)) = &mut lives[root[value.index()].index()] {
                    *last = (*last).max(at + 1);
                }
            }
            for value in &step.outputs {
                lives[root[value.index()].index()] = Some((at + 1, at + 1));
            }
        }
        let mut copied = Vec::new();
        for &output in &graph.outputs {
            match &mut lives[root[output.index()].index()] {
                Some((_, last)) => *last = end,
                None => copied.push(output),
            }
        }
        let mut planned = vec![None; graph.values.len()];
        let mut values = Vec::new();
        for (at, life) in lives.iter().enumerate() {
            if let Some((first, last)) = *life {
                planned[at] = Some(values.len());
                values.push(Lifetime { bytes: graph.values[at].ty.bytes() as u64, first, last });
            }
        }
        let first_copy = values.len();
        for output in &copied {
            values.push(Lifetime { bytes: graph.ty(*output).bytes() as u64, first: end, last: end });
        }
        let first_workspace = values.len();
        let (mut needy, mut needed) = (Vec::new(), Vec::new());
        for (at, step) in program.steps.iter().enumerate() {
            let Work::Kernel(task) = step.work else { continue };
            let meta = &compiled[task].compiled.meta;
            let (shared_bytes, scratch_bytes) = (meta.shared_bytes, meta.scratch_bytes);
            let meta = KernelMeta { name: String::new(), shared_bytes, scratch_bytes };
            let bytes = meta.workspace_bytes(threads) as u64;
            if bytes > 0 {
                needy.push(at);
                needed.push(Lifetime { bytes, first: at + 1, last: at + 1 });
            }
        }
        let arena = Arena::plan(&values, &needed);
        let mut workspaces = vec![None; program.steps.len()];
        for (at, offset) in needy.into_iter().zip(&arena.offsets[first_workspace..]) {
            workspaces[at] = Some(*offset);
        }
        let offsets = arena.offsets[first_copy..first_workspace].to_vec();
        Plan { root, planned, arena, workspaces, copies: copied.into_iter().zip(offsets).collect() }
    }

    /// Where a value that is not a constant is.
    fn place(&self, program: &Program, value: ValueId) -> Result<Place, BuildError> {
        if let Some((_, offset)) = self.copies.iter().find(|(copied, _)| *copied == value) {
            return Ok(Place::Arena(*offset));
        }
        let planned = self.planned[self.root[value.index()].index()];
        let planned = planned.ok_or_else(|| inconsistent(program, value, "is read and never written"))?;
        Ok(Place::Arena(self.arena.offsets[planned]))
    }

    fn operand(&self, program: &Program, value: ValueId) -> Result<Operand, BuildError> {
        let ty = program.graph.ty(value);
        Ok(Operand { place: self.place(program, value)?, element: ty.element, shape: ty.shape.clone() })
    }

    fn plain(
        &self,
        program: &Program,
        step: &Step,
        op: &Op,
        weights: &mut Weights,
    ) -> Result<model::Step, BuildError> {
        let mut inputs = Vec::new();
        for input in &step.inputs {
            let Some(value) = *input else {
                inputs.push(None);
                continue;
            };
            let root = self.root[value.index()];
            let ty = program.graph.ty(value);
            inputs.push(Some(match program.graph.constant(root) {
                Some(tensor) => {
                    let place = Place::Weight(weights.raw(root, tensor));
                    Operand { place, element: ty.element, shape: ty.shape.clone() }
                }
                None => self.operand(program, value)?,
            }));
        }
        let outputs = step.outputs.iter().map(|value| self.operand(program, *value).map(Some));
        let work = model::Work::Plain { op: op.clone(), inputs, outputs: outputs.collect::<Result<_, _>>()? };
        Ok(model::Step { work, nodes: step.nodes.clone() })
    }

    /// The places of a kernel's arguments, constants laid out as its packs ask.
    fn arguments(
        &self,
        program: &Program,
        step: &Step,
        task: usize,
        compiled: &CompiledTask,
        weights: &mut Weights,
    ) -> Result<Vec<Place>, BuildError> {
        let dag = &program.tasks[task].dag;
        let given: Vec<&str> = dag
            .tensors
            .iter()
            .filter(|t| !matches!(t.source, Source::Compute(_)))
            .map(|t| t.name.as_str())
            .collect();
        let written: Vec<&str> = dag.tensors.iter().filter(|t| t.output).map(|t| t.name.as_str()).collect();
        let missing =
            |name: &str| BuildError::Inconsistent(format!("no value is bound to `{name}` of {}", dag.name));
        let bound = |name: &str| -> Result<ValueId, BuildError> {
            let at = given.iter().position(|n| *n == name).ok_or_else(|| missing(name))?;
            step.inputs.get(at).copied().flatten().ok_or_else(|| missing(name))
        };
        let nest = &compiled.nest;
        let mut places = Vec::new();
        for id in &compiled.compiled.arguments {
            let buffer = nest.buffer(*id);
            places.push(match buffer.role {
                Role::Output => {
                    let at = written
                        .iter()
                        .position(|n| *n == buffer.name)
                        .ok_or_else(|| missing(&buffer.name))?;
                    let value = step.outputs.get(at).ok_or_else(|| missing(&buffer.name))?;
                    self.place(program, *value)?
                }
                Role::Packed => {
                    let pack = nest.packs.iter().find(|pack| pack.packed == *id);
                    let pack = pack.ok_or_else(|| missing(&buffer.name))?;
                    let value = self.root[bound(&nest.buffer(pack.source).name)?.index()];
                    let tensor = program.graph.constant(value);
                    let tensor = tensor.ok_or_else(|| inconsistent(program, value, "is not a constant"))?;
                    let offset = weights.packed(value, tensor, nest, pack);
                    let failed = |source| BuildError::Weights { nodes: step.nodes.clone(), source };
                    Place::Weight(offset.map_err(failed)?)
                }
                Role::Const if !kernel::reads(nest, *id) => Place::Weight(0),
                _ => {
                    let value = bound(&buffer.name)?;
                    let root = self.root[value.index()];
                    match program.graph.constant(root) {
                        Some(tensor) => Place::Weight(weights.raw(root, tensor)),
                        None => self.place(program, value)?,
                    }
                }
            });
        }
        Ok(places)
    }
}
