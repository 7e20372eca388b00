//! What an artefact says about itself. These are the file's own types: nothing of the compiler is serialised.

use serde::{Deserialize, Serialize};
use talweg_tensor::{ElementType, Op, TensorType};

use crate::abi::{BUFFER_ALIGNMENT, KernelMeta};

/// The contents of an artefact, apart from machine code and weights.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// The model's name.
    pub model: String,
    /// The version of talweg that made it.
    pub tool: String,
    /// Processor family of the machine code, `x86-64` for example.
    pub arch: String,
    /// Processor features the machine code uses, by LLVM's names.
    pub features: Vec<String>,
    /// Bytes of the arena, which holds everything but the weights.
    pub arena_bytes: u64,
    /// What the caller gives.
    pub inputs: Vec<Port>,
    /// What the caller gets.
    pub outputs: Vec<Port>,
    /// Compiled kernels.
    pub kernels: Vec<Kernel>,
    /// What is done, in order.
    pub steps: Vec<Step>,
}

/// A named tensor at the network's edge, in the arena.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Port {
    /// Its name in the model.
    pub name: String,
    /// Where and what it is.
    pub operand: Operand,
}

/// A tensor in memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Operand {
    /// Where it is.
    pub place: Place,
    /// Its element type.
    pub element: ElementType,
    /// Its extents.
    pub shape: Vec<usize>,
}

/// Where a tensor is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Place {
    /// That many bytes into the arena.
    Arena(u64),
    /// That many bytes into the weights.
    Weight(u64),
}

/// A compiled kernel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Kernel {
    /// Its symbol in its object.
    pub symbol: String,
    /// Where its object begins in the section of objects.
    pub object_offset: u64,
    /// How long its object is.
    pub object_bytes: u64,
    /// Workspace that all workers share.
    pub shared_bytes: u64,
    /// Workspace of each worker.
    pub scratch_bytes: u64,
    /// The size of every argument.
    pub argument_bytes: Vec<u64>,
    /// What it computes, in one line for people.
    pub label: String,
    /// Floating-point operations of one call.
    pub flops: f64,
    /// Where its schedule comes from: `default` or `tuned`.
    pub schedule: String,
    /// Threads its loops run on at most; all of them if not given. A kernel that takes a few microseconds is faster
    /// on one thread than with the others woken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<usize>,
}

/// One step of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// The work.
    pub work: Work,
    /// The model's nodes it stands for.
    pub nodes: Vec<String>,
}

/// The work of a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Work {
    /// Call a kernel.
    Kernel {
        /// Its position among the kernels.
        kernel: usize,
        /// One place for each argument.
        arguments: Vec<Place>,
        /// Where its workspace lies, when it was planned.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        workspace: Option<Workspace>,
    },
    /// Evaluate an operator by plain code.
    Plain {
        /// The operator.
        op: Op,
        /// What it reads.
        inputs: Vec<Option<Operand>>,
        /// What it writes; outputs that nobody reads are absent.
        outputs: Vec<Option<Operand>>,
    },
}

/// Workspace of a kernel in the arena, where nothing lives while it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workspace {
    /// That many bytes into the arena.
    pub offset: u64,
    /// Threads it suffices for; a run on more of them needs memory of its own.
    pub threads: usize,
}

impl Kernel {
    /// Bytes of workspace for a run on so many threads.
    pub fn workspace_bytes(&self, threads: usize) -> usize {
        let bytes = |size: u64| usize::try_from(size).unwrap_or(usize::MAX);
        let meta = KernelMeta {
            name: String::new(),
            shared_bytes: bytes(self.shared_bytes),
            scratch_bytes: bytes(self.scratch_bytes),
        };
        meta.workspace_bytes(threads)
    }
}

impl Operand {
    /// The tensor's type.
    pub fn ty(&self) -> TensorType {
        TensorType::new(self.element, self.shape.clone())
    }

    /// The size in bytes; `None` if it does not fit.
    pub fn bytes(&self) -> Option<u64> {
        let start = self.element.bytes() as u64;
        self.shape.iter().try_fold(start, |acc, &extent| acc.checked_mul(extent as u64))
    }
}

impl Manifest {
    /// Checks that everything lies where it may: a broken file must not become a wild pointer. Returns what is wrong.
    pub fn check(&self, objects_bytes: u64, weights_bytes: u64) -> Result<(), String> {
        let limit = |place: Place| match place {
            Place::Arena(offset) => (offset, self.arena_bytes, "arena"),
            Place::Weight(offset) => (offset, weights_bytes, "weights"),
        };
        let inside = |place: Place, bytes: u64, what: &dyn Fn() -> String| {
            let (offset, size, name) = limit(place);
            let end = offset.checked_add(bytes);
            if end.is_none_or(|end| end > size) {
                return Err(format!("{} lies outside the {name} of {size} bytes", what()));
            }
            if !offset.is_multiple_of(BUFFER_ALIGNMENT as u64) {
                return Err(format!("{} is not aligned", what()));
            }
            Ok(())
        };
        let operand = |operand: &Operand, written: bool, what: &dyn Fn() -> String| {
            let bytes = operand.bytes().ok_or_else(|| format!("{} is too large", what()))?;
            if written && matches!(operand.place, Place::Weight(_)) {
                return Err(format!("{} would be written into the weights", what()));
            }
            inside(operand.place, bytes, what)
        };
        for port in &self.inputs {
            operand(&port.operand, true, &|| format!("input `{}`", port.name))?;
        }
        for port in &self.outputs {
            operand(&port.operand, true, &|| format!("output `{}`", port.name))?;
        }
        for kernel in &self.kernels {
            let end = kernel.object_offset.checked_add(kernel.object_bytes);
            if end.is_none_or(|end| end > objects_bytes) {
                return Err(format!("the code of kernel `{}` lies outside its section", kernel.symbol));
            }
            if kernel.shared_bytes.max(kernel.scratch_bytes) > 1 << 40 {
                return Err(format!("kernel `{}` asks for an absurd workspace", kernel.symbol));
            }
        }
        for (i, step) in self.steps.iter().enumerate() {
            match &step.work {
                Work::Kernel { kernel, arguments, workspace } => {
                    let Some(called) = self.kernels.get(*kernel) else {
                        return Err(format!("step {i} calls kernel {kernel}, which is not there"));
                    };
                    if called.argument_bytes.len() != arguments.len() {
                        return Err(format!("step {i} passes {} arguments", arguments.len()));
                    }
                    for (at, (place, bytes)) in arguments.iter().zip(&called.argument_bytes).enumerate() {
                        inside(*place, *bytes, &|| format!("argument {at} of step {i}"))?;
                    }
                    if let Some(planned) = workspace {
                        let bytes = called.workspace_bytes(planned.threads) as u64;
                        inside(Place::Arena(planned.offset), bytes, &|| {
                            format!("the workspace of step {i}")
                        })?;
                    }
                }
                Work::Plain { inputs, outputs, .. } => {
                    for input in inputs.iter().flatten() {
                        operand(input, false, &|| format!("an input of step {i}"))?;
                    }
                    for output in outputs.iter().flatten() {
                        operand(output, true, &|| format!("an output of step {i}"))?;
                    }
                }
            }
        }
        Ok(())
    }
}
