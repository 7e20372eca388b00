//! From a rewritten graph to a program: tasks emitted, deduplicated, in order.

use std::collections::{BTreeMap, BTreeSet};

use talweg_ir::{Dag, verify_dag};
use talweg_tensor::Op;

use crate::emit::Network;
use crate::emit::contraction::strassen_weights;
use crate::emit::conv::{is_depthwise_node, is_pointwise_node, kernel_weights, winograd_weights};
use crate::emit::task::{Group, emit};
use crate::forks::{Algorithm, Before, Derived, Fork, Way};
use crate::fuse::{self, Groups, Kind};
use crate::graph::{Graph, GraphError, NodeId, ValueId};
use crate::program::{Program, Step, Task, Work};

/// Output tiles of Winograd's algorithm that are worth considering: larger ones hardly save work any more, and lose
/// accuracy.
const WINOGRAD_TILES: [i64; 2] = [2, 4];

/// What to fuse.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionOptions {
    /// Fuse at all; without it every operator is a task of its own, to see where a difference comes from.
    pub fuse: bool,
}

impl Default for PartitionOptions {
    fn default() -> PartitionOptions {
        PartitionOptions { fuse: true }
    }
}

/// Why a graph cannot be cut.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PartitionError {
    /// The graph is wrong.
    #[error("{0}")]
    Graph(#[from] GraphError),
}

/// Cuts a graph into tasks. What no loop nest can say is a step of plain code; a reshape that no task reads through is
/// a view.
pub fn partition(mut graph: Graph, options: &PartitionOptions) -> Result<Program, PartitionError> {
    graph.verify()?;
    let weights = add_weights(&mut graph);
    let derived = add_derived(&mut graph, &weights);
    let producers = graph.producers();
    let mut refused = BTreeSet::new();
    let mut alone: BTreeSet<NodeId> = if options.fuse {
        BTreeSet::new()
    } else {
        (0..graph.nodes.len()).map(|i| NodeId(i as u32)).collect()
    };
    // A task that cannot be emitted is taken apart, and an operator that cannot be emitted alone is plain; both
    // happen rarely, and each round settles at least one node.
    loop {
        let groups = fuse::group(&graph, &refused, &alone);
        let network = Network {
            graph: &graph,
            producers: &producers,
            weights: &weights,
            derived: &derived,
            seen_through: &groups.seen_through,
        };
        match assemble(&network, &groups) {
            Ok((tasks, steps, forks)) => return Ok(Program::new(graph, tasks, steps, forks)),
            Err(group) => {
                let nodes = group.nodes();
                let seen = seen_by(&network, &group);
                if nodes.len() == 1 && seen.is_empty() {
                    refused.extend(nodes);
                } else {
                    alone.extend(nodes);
                    alone.extend(seen);
                }
            }
        }
    }
}

/// Constants for the weights of convolutions, as kernels read them.
fn add_weights(graph: &mut Graph) -> BTreeMap<NodeId, ValueId> {
    let mut out = BTreeMap::new();
    for at in 0..graph.nodes.len() {
        let node = &graph.nodes[at];
        if let Some(tensor) = kernel_weights(graph, node) {
            let original = node.inputs[1].map_or(String::new(), |w| graph.value(w).name.clone());
            let id = graph.add_constant(format!("{original}.packed"), tensor);
            out.insert(NodeId(at as u32), id);
        }
    }
    out
}

/// Values for the weights that other algorithms read, computed when such an algorithm is chosen.
fn add_derived(graph: &mut Graph, weights: &BTreeMap<NodeId, ValueId>) -> BTreeMap<NodeId, Vec<Derived>> {
    let mut out: BTreeMap<NodeId, Vec<Derived>> = BTreeMap::new();
    for (&id, &source) in weights {
        for tile in WINOGRAD_TILES {
            let Some(ty) = winograd_weights(graph, &graph.nodes[id.index()], source, tile) else { continue };
            let name = format!("{}.winograd{tile}", graph.value(source).name);
            let value = graph.add_value(name, ty);
            let algorithm = Algorithm::Winograd { tile };
            out.entry(id).or_default().push(Derived { algorithm, value, source });
        }
    }
    for at in 0..graph.nodes.len() {
        let Some((source, ty)) = strassen_weights(graph, &graph.nodes[at]) else { continue };
        let name = format!("{}.strassen", graph.value(source).name);
        let value = graph.add_value(name, ty);
        let derived = Derived { algorithm: Algorithm::Strassen, value, source };
        out.entry(NodeId(at as u32)).or_default().push(derived);
    }
    out
}

/// The movements a task reads through.
fn seen_by(network: &Network<'_>, group: &Group) -> BTreeSet<NodeId> {
    let mut out = BTreeSet::new();
    let mut open: Vec<NodeId> = group.nodes().into_iter().collect();
    while let Some(id) = open.pop() {
        for read in network.graph.nodes[id.index()].reads() {
            if let Some(producer) = network.producers[read.index()]
                && network.seen_through.contains(&producer)
                && out.insert(producer)
            {
                open.push(producer);
            }
        }
    }
    out
}

type Assembled = (Vec<Task>, Vec<Step>, Vec<Fork>);

/// Steps in order, or the first task that cannot be emitted.
fn assemble(network: &Network<'_>, groups: &Groups) -> Result<Assembled, Box<Group>> {
    let graph = network.graph;
    let mut tasks: Vec<Task> = Vec::new();
    let mut known: BTreeMap<String, usize> = BTreeMap::new();
    let mut steps: Vec<(NodeId, Step, Vec<Way>)> = Vec::new();
    let pairs = separable_pairs(graph, groups);
    for group in &groups.groups {
        let members = group.nodes();
        let last = members.last().copied().unwrap_or(NodeId(0));
        let all: BTreeSet<NodeId> = members.iter().copied().chain(seen_by(network, group)).collect();
        let nodes = all.iter().map(|n| graph.nodes[n.index()].name.clone()).collect();
        if let Some(input) = viewed(network, group) {
            let (inputs, outputs) = (vec![Some(input)], vec![group.output]);
            steps.push((last, Step { work: Work::View, inputs, outputs, nodes }, Vec::new()));
            continue;
        }
        let direct = way(network, group, Algorithm::Direct, None).ok_or_else(|| Box::new(group.clone()))?;
        let text = &direct.task.text;
        let at = *known.entry(text.clone()).or_insert_with(|| {
            tasks.push(direct.task.clone());
            tasks.len() - 1
        });
        tasks[at].uses += 1;
        let step = Step {
            work: Work::Kernel(at),
            inputs: direct.inputs.clone(),
            outputs: vec![group.output],
            nodes,
        };
        let derived = group.anchor.and_then(|id| network.derived.get(&id)).map_or(&[][..], Vec::as_slice);
        let others = derived.iter().filter_map(|d| way(network, group, d.algorithm, Some(*d)));
        let mut ways: Vec<Way> = others.collect();
        if let Some(before) = pairs.get(&group.output) {
            ways.extend(way(network, &joined(before, group), Algorithm::Separable, None));
        }
        if !ways.is_empty() {
            ways.insert(0, direct);
        }
        steps.push((last, step, ways));
    }
    for id in &groups.plain {
        let node = &graph.nodes[id.index()];
        let work = Work::Plain(node.op.clone());
        let nodes = vec![node.name.clone()];
        let (inputs, outputs) = (node.inputs.clone(), node.outputs.clone());
        steps.push((*id, Step { work, inputs, outputs, nodes }, Vec::new()));
    }
    steps.sort_by_key(|(id, ..)| *id);
    let (mut ordered, mut forks) = (Vec::new(), Vec::new());
    for (at, (_, step, ways)) in steps.into_iter().enumerate() {
        if !ways.is_empty() {
            forks.push(Fork { step: at, before: None, ways, taken: 0 });
        }
        ordered.push(step);
    }
    for fork in &mut forks {
        let Some(before) = ordered[fork.step].outputs.first().and_then(|output| pairs.get(output)) else {
            continue;
        };
        let writes = |step: &Step| step.outputs.contains(&before.output);
        let step = ordered.iter().position(writes).unwrap_or(fork.step);
        if let Work::Kernel(task) = ordered[step].work {
            fork.before = Some(Before { step, task: tasks[task].clone() });
        }
    }
    Ok((tasks, ordered, forks))
}

/// Depthwise convolutions whose results only a pointwise one reads, by what the task of that one writes.
fn separable_pairs<'a>(graph: &Graph, groups: &'a Groups) -> BTreeMap<ValueId, &'a Group> {
    let written: BTreeMap<ValueId, &Group> = groups.groups.iter().map(|g| (g.output, g)).collect();
    let readers = graph.consumers();
    let mut out = BTreeMap::new();
    for group in &groups.groups {
        let Some(anchor) = group.anchor else { continue };
        let node = &graph.nodes[anchor.index()];
        let Some(read) = node.inputs.first().copied().flatten() else { continue };
        let Some(before) = written.get(&read).filter(|_| is_pointwise_node(graph, node)) else { continue };
        let first = before.anchor.map(|id| &graph.nodes[id.index()]);
        let is_deep = first.is_some_and(|n| is_depthwise_node(graph, n));
        let maps = before.chain.iter().all(|id| fuse::kind(graph, &graph.nodes[id.index()]) == Kind::Map);
        let alone = readers[read.index()] == [anchor] && !graph.outputs.contains(&read);
        if is_deep && maps && alone {
            out.insert(group.output, *before);
        }
    }
    out
}

/// Two tasks as one.
fn joined(before: &Group, group: &Group) -> Group {
    let inside = before.inside.union(&group.inside).copied().collect();
    Group { before: Some(Box::new(before.clone())), inside, ..group.clone() }
}

/// A task emitted for an algorithm; `None` when it cannot be.
fn way(network: &Network<'_>, group: &Group, algorithm: Algorithm, derived: Option<Derived>) -> Option<Way> {
    let emitted = emit(network, group, algorithm).ok()?;
    if verify_dag(&emitted.dag).is_err() || unused_input(&emitted.dag) {
        return None;
    }
    let text = emitted.dag.to_string();
    let inputs = emitted.inputs.into_iter().map(Some).collect();
    Some(Way { algorithm, task: Task { dag: emitted.dag, text, uses: 0 }, inputs, derived })
}

/// The value whose bytes a task's output are, when it does nothing but reshape.
fn viewed(network: &Network<'_>, group: &Group) -> Option<ValueId> {
    let graph = network.graph;
    if group.anchor.is_some() {
        return None;
    }
    let mut value = group.output;
    loop {
        let id = network.producers[value.index()];
        let inside = |id: &NodeId| group.inside.contains(id) || network.seen_through.contains(id);
        let Some(node) = id.filter(inside).map(|id| &graph.nodes[id.index()]) else {
            return (value != group.output).then_some(value);
        };
        match &node.op {
            Op::Reshape { .. } | Op::Unary(talweg_tensor::op::Unary::Identity) => value = node.inputs[0]?,
            _ => return None,
        }
    }
}

/// Whether a given tensor is never read: a dag that only looked at it.
fn unused_input(dag: &Dag) -> bool {
    dag.ids().any(|id| dag.tensor(id).compute().is_none() && dag.consumers(id).is_empty())
}
