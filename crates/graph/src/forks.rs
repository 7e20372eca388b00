//! Steps that several algorithms can do, and choosing among them.
//!
//! Cutting a graph emits a task for each algorithm that applies to a node, and one for a depthwise convolution together
//! with the pointwise one that reads it; the program starts with the direct way of each.
//! [`Program::choose`] takes others, by whatever their caller knows about times and errors.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use bytes::Bytes;
use talweg_ops::{strassen, winograd};
use talweg_tensor::{ElementType, Tensor};

use crate::graph::{Graph, ValueId};
use crate::program::{Program, Step, Task, Work};

/// How the operator at the heart of a task is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Algorithm {
    /// By its definition.
    Direct,
    /// A convolution by Winograd's algorithm, with output tiles of `tile` by `tile`; a transposed one with such tiles of each
    /// phase.
    Winograd {
        /// Outputs along one axis.
        tile: i64,
    },
    /// A matrix product by Strassen's scheme, one level of it.
    Strassen,
    /// A pointwise convolution in one kernel with the depthwise one before it.
    Separable,
}

impl Algorithm {
    /// The error that is to be expected beyond rounding, relative to the scale of the result.
    pub fn expected_error(self) -> f64 {
        match self {
            Algorithm::Direct | Algorithm::Separable => 0.0,
            Algorithm::Winograd { tile } => winograd::expected_error(tile),
            Algorithm::Strassen => strassen::EXPECTED_ERROR,
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Algorithm::Direct => write!(f, "direct"),
            Algorithm::Winograd { tile } => write!(f, "winograd {tile}x{tile}"),
            Algorithm::Strassen => write!(f, "strassen"),
            Algorithm::Separable => write!(f, "separable"),
        }
    }
}

/// Weights that an algorithm reads, and those they are computed from when it is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Derived {
    pub algorithm: Algorithm,
    pub value: ValueId,
    /// The weights as the direct algorithm reads them.
    pub source: ValueId,
}

/// One algorithm for a step.
#[derive(Clone, Debug)]
pub struct Way {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// The task that computes the step by it.
    pub task: Task,
    /// The values its given tensors stand for.
    pub inputs: Vec<Option<ValueId>>,
    pub(crate) derived: Option<Derived>,
}

/// A step that some way of a later one does as well.
#[derive(Clone, Debug)]
pub struct Before {
    /// The position of the step, as the graph was cut.
    pub step: usize,
    /// Its task.
    pub task: Task,
}

/// The tasks and steps of a program as its graph was cut, every step by its direct way.
#[derive(Clone, Debug, Default)]
pub(crate) struct Direct {
    pub tasks: Vec<Task>,
    pub steps: Vec<Step>,
}

/// A step that several algorithms can do.
#[derive(Clone, Debug)]
pub struct Fork {
    /// The position of the step, as the graph was cut.
    pub step: usize,
    /// The step that all ways but the direct one do as well.
    pub before: Option<Before>,
    /// The algorithms; the first is the direct one.
    pub ways: Vec<Way>,
    /// Which of them the step uses.
    pub taken: usize,
}

impl Fork {
    /// The algorithm the step uses.
    pub fn chosen(&self) -> &Way {
        &self.ways[self.taken.min(self.ways.len() - 1)]
    }
}

impl Program {
    /// Lets every step that several algorithms can do use the one whose position `pick` gives, and computes the weights
    /// it reads.
    pub fn choose(&mut self, pick: &dyn Fn(&Fork) -> usize) {
        let Direct { mut tasks, mut steps } = self.direct.clone();
        let mut done = BTreeSet::new();
        for fork in &mut self.forks {
            fork.taken = pick(fork).min(fork.ways.len() - 1);
            let way = fork.chosen().clone();
            if let Some(derived) = way.derived {
                derive(&mut self.graph, derived);
            }
            if let Some(before) = fork.before.as_ref().filter(|_| fork.taken > 0) {
                let nodes = steps[before.step].nodes.clone();
                steps[fork.step].nodes.splice(0..0, nodes);
                done.insert(before.step);
            }
            tasks.push(way.task);
            steps[fork.step].work = Work::Kernel(tasks.len() - 1);
            steps[fork.step].inputs = way.inputs;
        }
        let left = steps.into_iter().enumerate().filter(|(at, _)| !done.contains(at));
        self.steps = left.map(|(_, step)| step).collect();
        self.tasks = tasks;
        self.renumber();
    }

    /// The model's nodes that a step with several algorithms stands for.
    pub fn nodes_of(&self, fork: &Fork) -> &[String] {
        self.direct.steps.get(fork.step).map_or(&[], |step| &step.nodes)
    }

    /// Tasks of algorithms that are not chosen, each once, with how many steps could use it.
    pub fn alternatives(&self) -> Vec<Task> {
        let mut found: BTreeMap<&str, Task> = BTreeMap::new();
        for fork in &self.forks {
            let before = fork.before.iter().map(|before| &before.task);
            for own in fork.ways.iter().map(|way| &way.task).chain(before) {
                if self.tasks.iter().any(|task| task.text == own.text) {
                    continue;
                }
                found.entry(&own.text).or_insert_with(|| Task { uses: 0, ..own.clone() }).uses += 1;
            }
        }
        found.into_values().collect()
    }

    /// Every step that runs a kernel, as the tasks of each way to do it: one way for most. A step that some way of a later one
    /// does as well belongs to that one.
    pub fn ways_of_steps(&self) -> Vec<Vec<Vec<&Task>>> {
        let Direct { tasks, steps } = &self.direct;
        let forks: BTreeMap<usize, &Fork> = self.forks.iter().map(|fork| (fork.step, fork)).collect();
        let before: BTreeSet<usize> =
            self.forks.iter().filter_map(|f| Some(f.before.as_ref()?.step)).collect();
        let mut out = Vec::new();
        for (at, step) in steps.iter().enumerate().filter(|(at, _)| !before.contains(at)) {
            match (forks.get(&at), &step.work) {
                (Some(fork), _) => {
                    let first = fork.before.iter().map(|before| &before.task);
                    let direct = first.chain(fork.ways.first().map(|way| &way.task)).collect();
                    let others = fork.ways.iter().skip(1).map(|way| vec![&way.task]);
                    out.push(std::iter::once(direct).chain(others).collect());
                }
                (None, Work::Kernel(task)) => out.push(vec![vec![&tasks[*task]]]),
                (None, _) => {}
            }
        }
        out
    }

    /// The algorithm of a task; the direct one where there is no choice.
    pub fn algorithm(&self, task: &Task) -> Algorithm {
        let ways = self.forks.iter().flat_map(|fork| &fork.ways);
        ways.filter(|way| way.task.text == task.text)
            .map(|way| way.algorithm)
            .next()
            .unwrap_or(Algorithm::Direct)
    }

    /// Keeps the tasks that steps use, each once, in the order of their first use.
    fn renumber(&mut self) {
        let old = std::mem::take(&mut self.tasks);
        let mut known: BTreeMap<String, usize> = BTreeMap::new();
        for step in &mut self.steps {
            let Work::Kernel(task) = &mut step.work else { continue };
            let used = &old[*task];
            let at = *known.entry(used.text.clone()).or_insert_with(|| {
                self.tasks.push(Task { uses: 0, ..used.clone() });
                self.tasks.len() - 1
            });
            self.tasks[at].uses += 1;
            *task = at;
        }
    }
}

/// Computes the weights an algorithm reads, unless they are there already.
fn derive(graph: &mut Graph, derived: Derived) {
    if graph.constant(derived.value).is_some() {
        return;
    }
    let Some(source) = graph.constant(derived.source) else { return };
    let shape = source.shape();
    let (elements, _) = source.bytes().as_chunks::<4>();
    let weights: Vec<f32> = elements.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
    let Some(last) = shape.last().copied() else { return };
    let own = match derived.algorithm {
        // Two more axes: the phases of a transposed convolution.
        Algorithm::Winograd { tile } if graph.ty(derived.value).shape.len() == shape.len() + 2 => {
            winograd::transform_phases(&weights, last, tile)
        }
        Algorithm::Winograd { tile } => {
            let depth = shape[..shape.len() - 4].iter().product();
            winograd::transform_weights(&weights, depth, last, tile)
        }
        Algorithm::Strassen => strassen::combine_weights(&weights, last),
        Algorithm::Direct | Algorithm::Separable => None,
    };
    let Some(own) = own else { return };
    let bytes: Vec<u8> = own.iter().flat_map(|w| w.to_le_bytes()).collect();
    let shape = graph.ty(derived.value).shape.clone();
    let tensor = Tensor::from_bytes(ElementType::F32, shape, Bytes::from(bytes));
    graph.values[derived.value.index()].constant = tensor.ok();
}
