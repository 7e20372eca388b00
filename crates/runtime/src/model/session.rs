//! One arena and one pool: running the steps of a model.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use talweg_tensor::{Op, Tensor, TensorType};

use super::foreign::{ForeignPorts, Use};
use super::load::Model;
use super::manifest::{Operand, Place, Port, Work, Workspace};
use crate::abi::KernelFn;
use crate::aligned_buffer::{AlignedBuffer, AllocError, HugePages};
use crate::pool::{PoolError, ThreadPool};
use crate::team::Team;

/// How to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionOptions {
    /// Threads, the caller included; at least 1.
    pub threads: usize,
    /// Pin each thread to a core of its own.
    pub pin: bool,
}

impl Default for SessionOptions {
    fn default() -> SessionOptions {
        SessionOptions { threads: std::thread::available_parallelism().map_or(1, |n| n.get()), pin: false }
    }
}

/// Why a run is not possible.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// No memory for the arena or the workspace.
    #[error("{0}")]
    Memory(#[from] AllocError),
    /// No threads.
    #[error("{0}")]
    Pool(#[from] PoolError),
    /// The caller gave another number of inputs.
    #[error("the model has {wanted} inputs ({names}), {given} were given")]
    InputCount {
        /// What it has.
        wanted: usize,
        /// Their names.
        names: String,
        /// What was given.
        given: usize,
    },
    /// The caller gave another number of places.
    #[error("the model has {wanted} {name} ({names}), memory was given for {given}")]
    PortCount {
        /// Inputs or outputs.
        name: &'static str,
        /// What it has.
        wanted: usize,
        /// Their names.
        names: String,
        /// What was given.
        given: usize,
    },
    /// An input has another type.
    #[error(
        "input `{name}` is {wanted}, given was {given}; convert or reshape it, or compile the model for that shape"
    )]
    InputType {
        /// The input.
        name: String,
        /// What the model wants.
        wanted: TensorType,
        /// What was given.
        given: TensorType,
    },
    /// There is no such input.
    #[error("the model has no input `{name}`; it has {names}")]
    NoInput {
        /// What was asked for.
        name: String,
        /// What there is.
        names: String,
    },
    /// An operator that is evaluated by plain code refused its inputs.
    #[error("node `{node}`: {text}")]
    Plain {
        /// The node.
        node: String,
        /// What is wrong.
        text: String,
    },
}

/// A step with its pointers resolved.
enum Resolved {
    Kernel { kernel: usize, function: KernelFn, arguments: Vec<*mut u8>, workspace: *mut u8 },
    Plain { op: Op, inputs: Vec<Option<Operand>>, outputs: Vec<Option<Operand>>, node: usize },
}

/// A model with memory and threads of its own. Runs do not allocate, except for operators without a kernel.
pub struct Session {
    model: Arc<Model>,
    steps: Vec<Resolved>,
    arena: AlignedBuffer,
    workspace: AlignedBuffer,
    /// Where the pointers of inputs and outputs are.
    foreign: Arc<ForeignPorts>,
    /// For every kernel, the threads it runs on.
    teams: Vec<Team>,
    pool: ThreadPool,
}

// SAFETY: the pointers in `steps` lead into `arena`, `workspace` and the model's weights, which move and live with the
// session and are only used through `&mut self`.
unsafe impl Send for Session {}

impl Session {
    /// Memory and threads for a model.
    pub fn new(model: Arc<Model>, options: &SessionOptions) -> Result<Session, RunError> {
        let manifest = model.manifest();
        let threads = options.threads.max(1);
        let pool = if options.pin { ThreadPool::pinned(threads)? } else { ThreadPool::new(threads)? };
        // What was planned for fewer threads, or not at all, shares memory of its own.
        let unplanned = manifest.steps.iter().filter_map(|step| match &step.work {
            Work::Kernel { kernel, workspace, .. } if planned(workspace, threads).is_none() => {
                Some(manifest.kernels[*kernel].workspace_bytes(threads))
            }
            _ => None,
        });
        let mut workspace = AlignedBuffer::zeroed_with(unplanned.max().unwrap_or(0), HugePages::Advise)?;
        let mut arena = AlignedBuffer::zeroed_with(manifest.arena_bytes as usize, HugePages::Advise)?;
        let (base, own) = (arena.as_mut_ptr(), workspace.as_mut_ptr());
        let weights = model.weights().as_ptr().cast_mut();
        let pointer = |place: &Place| match *place {
            Place::Arena(offset) => base.wrapping_add(offset as usize),
            Place::Weight(offset) => weights.wrapping_add(offset as usize),
        };
        let resolve = |(node, step): (usize, &super::manifest::Step)| match &step.work {
            Work::Kernel { kernel, arguments, workspace } => Resolved::Kernel {
                kernel: *kernel,
                function: model.kernel(*kernel),
                arguments: arguments.iter().map(pointer).collect(),
                workspace: planned(workspace, threads).map_or(own, |place| pointer(&place)),
            },
            Work::Plain { op, inputs, outputs } => {
                Resolved::Plain { op: op.clone(), inputs: inputs.clone(), outputs: outputs.clone(), node }
            }
        };
        let steps = manifest.steps.iter().enumerate().map(resolve).collect();
        let teams = manifest.kernels.iter().map(|k| pool.team(k.threads.unwrap_or(threads))).collect();
        let foreign = Arc::new(ForeignPorts::of(manifest));
        Ok(Session { steps, arena, workspace, foreign, teams, pool, model: model.clone() })
    }

    /// Runs the kernels on so many threads at most, one number a kernel, instead of what the artefact says: for finding
    /// out what it should say.
    pub fn limit_threads(&mut self, limits: &[usize]) {
        for (team, limit) in self.teams.iter_mut().zip(limits) {
            *team = self.pool.team(*limit);
        }
    }

    /// How far apart its threads are at this moment, see [`ThreadPool::distance`].
    pub fn distance(&self) -> Option<f64> {
        self.pool.distance()
    }

    /// The model it runs.
    pub fn model(&self) -> &Arc<Model> {
        &self.model
    }

    /// Bytes of memory beside the weights.
    pub fn memory_bytes(&self) -> usize {
        self.arena.len() + self.workspace.len()
    }

    /// The memory of an input, to be filled before [`Session::execute`]; it is kept between runs.
    pub fn input_mut(&mut self, at: usize) -> &mut [u8] {
        let operand = &self.model.manifest().inputs[at].operand;
        let (start, bytes) = arena_range(operand);
        &mut self.arena.view_mut::<u8>()[start..start + bytes]
    }

    /// The bytes of an output of the last run.
    pub fn output(&self, at: usize) -> &[u8] {
        let (start, bytes) = arena_range(&self.model.manifest().outputs[at].operand);
        &self.arena.view::<u8>()[start..start + bytes]
    }

    /// Runs all steps on what the inputs' memory holds.
    pub fn execute(&mut self) -> Result<(), RunError> {
        for at in 0..self.steps.len() {
            self.step(at)?;
        }
        Ok(())
    }

    /// Runs all steps and says how long each took.
    pub fn execute_profiled(&mut self) -> Result<Vec<Duration>, RunError> {
        let mut times = Vec::with_capacity(self.steps.len());
        for at in 0..self.steps.len() {
            let start = Instant::now();
            self.step(at)?;
            times.push(start.elapsed());
        }
        Ok(times)
    }

    /// Copies the inputs in, runs, and copies the outputs out.
    pub fn run(&mut self, inputs: &[Tensor]) -> Result<Vec<Tensor>, RunError> {
        let model = self.model.clone();
        let manifest = model.manifest();
        if inputs.len() != manifest.inputs.len() {
            return Err(RunError::InputCount {
                wanted: manifest.inputs.len(),
                names: names(&manifest.inputs),
                given: inputs.len(),
            });
        }
        for (port, input) in manifest.inputs.iter().zip(inputs) {
            if port.operand.ty() != *input.ty() {
                return Err(RunError::InputType {
                    name: port.name.clone(),
                    wanted: port.operand.ty(),
                    given: input.ty().clone(),
                });
            }
        }
        for (at, input) in inputs.iter().enumerate() {
            self.input_mut(at).copy_from_slice(input.bytes());
        }
        self.execute()?;
        Ok((0..manifest.outputs.len()).map(|at| self.tensor(&manifest.outputs[at].operand)).collect())
    }

    /// Runs on memory of the caller, one pointer for each input and each output. Memory that is aligned to its elements
    /// is used where it lies, unless plain code touches the port or ports share memory; those are copied.
    ///
    /// # Safety
    /// Every pointer leads to as many bytes as its port has, to be read or to be written; no output overlaps anything
    /// else.
    pub unsafe fn run_on(&mut self, inputs: &[*const u8], outputs: &[*mut u8]) -> Result<(), RunError> {
        let model = self.model.clone();
        let manifest = model.manifest();
        let foreign = self.foreign.clone();
        for (name, wanted, given) in
            [("inputs", &manifest.inputs, inputs.len()), ("outputs", &manifest.outputs, outputs.len())]
        {
            if wanted.len() != given {
                return Err(RunError::PortCount { name, wanted: wanted.len(), names: names(wanted), given });
            }
        }
        let is_aligned =
            |pointer: *const u8, port: &Port| pointer.addr().is_multiple_of(port.operand.element.bytes());
        for (at, (port, &pointer)) in manifest.inputs.iter().zip(inputs).enumerate() {
            match &foreign.inputs[at] {
                Some(uses) if is_aligned(pointer, port) => self.point(uses, pointer.cast_mut()),
                _ => {
                    let memory = self.input_mut(at);
                    // SAFETY: the caller promises that many readable bytes; the arena is nobody else's.
                    unsafe { std::ptr::copy_nonoverlapping(pointer, memory.as_mut_ptr(), memory.len()) };
                }
            }
        }
        for (at, (port, &pointer)) in manifest.outputs.iter().zip(outputs).enumerate() {
            if let Some(uses) = foreign.outputs[at].as_ref().filter(|_| is_aligned(pointer, port)) {
                self.point(uses, pointer);
            }
        }
        let result = self.execute();
        for (at, (port, &pointer)) in manifest.outputs.iter().zip(outputs).enumerate() {
            if result.is_ok() && (foreign.outputs[at].is_none() || !is_aligned(pointer, port)) {
                let memory = self.output(at);
                // SAFETY: the caller promises that many bytes to be written, none of which are the arena's.
                unsafe { std::ptr::copy_nonoverlapping(memory.as_ptr(), pointer, memory.len()) };
            }
        }
        let ports = manifest.inputs.iter().zip(&foreign.inputs);
        for (port, uses) in ports.chain(manifest.outputs.iter().zip(&foreign.outputs)) {
            let (start, _) = arena_range(&port.operand);
            let home = self.arena.as_mut_ptr().wrapping_add(start);
            self.point(uses.as_deref().unwrap_or(&[]), home);
        }
        result
    }

    /// Puts a pointer where kernels find it.
    fn point(&mut self, uses: &[Use], pointer: *mut u8) {
        for Use { step, argument } in uses {
            if let Resolved::Kernel { arguments, .. } = &mut self.steps[*step] {
                arguments[*argument] = pointer;
            }
        }
    }

    /// The position of an input by its name.
    pub fn input_index(&self, name: &str) -> Result<usize, RunError> {
        let inputs = &self.model.manifest().inputs;
        inputs
            .iter()
            .position(|port| port.name == name)
            .ok_or_else(|| RunError::NoInput { name: name.to_string(), names: names(inputs) })
    }

    fn step(&mut self, at: usize) -> Result<(), RunError> {
        match &self.steps[at] {
            Resolved::Kernel { kernel, function, arguments, workspace } => {
                // SAFETY: loading checked that every argument and the planned workspace lie within arena or weights
                // with the size the kernel was compiled for; other workspace suits the largest kernel that uses it;
                // `&mut self` keeps other runs out.
                unsafe { function(arguments.as_ptr(), *workspace, self.teams[*kernel].parallel()) };
                Ok(())
            }
            Resolved::Plain { op, inputs, outputs, node } => {
                let given: Vec<Option<Tensor>> =
                    inputs.iter().map(|input| input.as_ref().map(|operand| self.tensor(operand))).collect();
                let borrowed: Vec<Option<&Tensor>> = given.iter().map(Option::as_ref).collect();
                let refuse = |text: String| RunError::Plain { node: self.node_name(*node), text };
                let results = talweg_tensor::evaluate(op, &borrowed).map_err(|e| refuse(e.to_string()))?;
                let writes: Vec<(Operand, Tensor)> = outputs
                    .iter()
                    .zip(results)
                    .filter_map(|(operand, tensor)| operand.clone().map(|operand| (operand, tensor)))
                    .collect();
                for (operand, tensor) in &writes {
                    if operand.ty() != *tensor.ty() {
                        return Err(refuse(format!("gives {}, planned was {}", tensor.ty(), operand.ty())));
                    }
                }
                for (operand, tensor) in writes {
                    let (start, bytes) = arena_range(&operand);
                    self.arena.view_mut::<u8>()[start..start + bytes].copy_from_slice(tensor.bytes());
                }
                Ok(())
            }
        }
    }

    fn node_name(&self, step: usize) -> String {
        self.model.manifest().steps[step].nodes.join("+")
    }

    /// A copy of a tensor in arena or weights.
    fn tensor(&self, operand: &Operand) -> Tensor {
        let bytes = operand.bytes().unwrap_or(0) as usize;
        let source = match operand.place {
            Place::Arena(offset) => &self.arena.view::<u8>()[offset as usize..][..bytes],
            Place::Weight(offset) => &self.model.weights()[offset as usize..][..bytes],
        };
        Tensor::from_bytes(operand.element, operand.shape.clone(), Bytes::copy_from_slice(source))
            .expect("loading checked the operand's size")
    }
}

/// The workspace that was planned, when it suffices for so many threads.
fn planned(workspace: &Option<Workspace>, threads: usize) -> Option<Place> {
    workspace.filter(|planned| threads <= planned.threads).map(|planned| Place::Arena(planned.offset))
}

fn names(ports: &[Port]) -> String {
    ports.iter().map(|port| format!("`{}`", port.name)).collect::<Vec<_>>().join(", ")
}

/// Where an operand lies in the arena; loading checked that ports and written operands do.
fn arena_range(operand: &Operand) -> (usize, usize) {
    let Place::Arena(offset) = operand.place else { unreachable!("ports and outputs lie in the arena") };
    (offset as usize, operand.bytes().unwrap_or(0) as usize)
}
