//! A network cut into tasks: what is compiled, what plain code does, and in which order.

use talweg_ir::Dag;
use talweg_tensor::Op;

use crate::forks::{Direct, Fork};
use crate::graph::{Graph, ValueId};

/// A network ready to be compiled: the rewritten graph, its distinct tasks, and the steps in order.
#[derive(Clone, Debug)]
pub struct Program {
    /// The rewritten graph; steps refer to its values. Constants that steps read are values too.
    pub graph: Graph,
    /// Distinct tasks, in the order of their first use.
    pub tasks: Vec<Task>,
    /// What is done, in order.
    pub steps: Vec<Step>,
    /// Steps that several algorithms can do; see [`Program::choose`].
    pub forks: Vec<Fork>,
    pub(crate) direct: Direct,
}

impl Program {
    /// A program whose steps all go the direct way of their forks.
    pub fn new(graph: Graph, tasks: Vec<Task>, steps: Vec<Step>, forks: Vec<Fork>) -> Program {
        let direct = Direct { tasks: tasks.clone(), steps: steps.clone() };
        Program { graph, tasks, steps, forks, direct }
    }
}

/// A fused subgraph to optimise, shared by every step that computes the same thing on other values.
#[derive(Clone, Debug)]
pub struct Task {
    /// What it computes. Its given tensors (inputs and constants) and its outputs are bound by each step.
    pub dag: Dag,
    /// The text of `dag`, which tells tasks apart; equal texts are one task.
    pub text: String,
    /// How many steps use it.
    pub uses: usize,
}

/// One step of a network.
#[derive(Clone, Debug)]
pub struct Step {
    /// What does the work.
    pub work: Work,
    /// Values read: for a kernel one for each given tensor of its dag in the dag's order, for plain code as the
    /// operator has them.
    pub inputs: Vec<Option<ValueId>>,
    /// Values written: for a kernel one for each output tensor of its dag in the dag's order.
    pub outputs: Vec<ValueId>,
    /// The model's nodes it stands for, for messages and profiles.
    pub nodes: Vec<String>,
}

/// Who does a step's work.
#[derive(Clone, Debug)]
pub enum Work {
    /// A compiled kernel: the position of its task.
    Kernel(usize),
    /// Plain code of the runtime: operators that depend on data in ways no loop nest can say, and rare types.
    Plain(Op),
    /// Nothing: the output is the input's bytes under another shape.
    View,
}
