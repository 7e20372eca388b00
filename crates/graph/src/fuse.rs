//! Which nodes become one task.
//!
//! 1. Every operator that reduces is an *anchor*. It takes the elementwise operators behind it as long as each is the
//!    only reader of the one before (bias, activation, residual add), and reshapes and transposes that cost nothing.
//!    The two products and the softmax of an attention are one anchor.
//! 2. Movements of elements that every reader can read through are computed nowhere ([`Groups::seen_through`]).
//! 3. What is left is elementwise: a node joins the one task that reads it, or starts a task of its own.
//!
//! A task has one output. Every path out of an anchor leads through the end of its chain, so no task waits for itself.

use std::collections::{BTreeMap, BTreeSet};

use talweg_tensor::Op;

use crate::attention::Attention;
use crate::emit::contraction::Product;
use crate::emit::task::Group;
use crate::emit::{dtype_of, elementwise, movement, reshape};
use crate::graph::{Graph, Node, NodeId, ValueId};

/// Nodes behind an anchor, at most.
const MAX_CHAIN: usize = 24;
/// Nodes of an elementwise task, at most.
const MAX_INSIDE: usize = 32;

/// How a node is best computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Reduces; the heart of a task.
    Anchor,
    /// A function of the elements at one place.
    Map,
    /// Elements at other places.
    Move,
    /// Plain code.
    Plain,
}

/// What a loop nest can say, by the operator and its types; emission may still refuse.
pub(crate) fn kind(graph: &Graph, node: &Node) -> Kind {
    let values = || node.reads().chain(node.outputs.iter().copied());
    let sayable = values().all(|v| dtype_of(graph.ty(v).element).is_some() && !graph.ty(v).is_empty());
    if !sayable || node.outputs.len() != 1 {
        return Kind::Plain;
    }
    match &node.op {
        Op::MatMul
        | Op::Conv(_)
        | Op::ConvTranspose(_)
        | Op::Einsum { .. }
        | Op::Pool(_)
        | Op::Reduce(_)
        | Op::Softmax { .. }
        | Op::LayerNorm { .. }
        | Op::RmsNorm { .. }
        | Op::Lrn { .. } => Kind::Anchor,
        op if elementwise::arity(op).is_some() => Kind::Map,
        op if movement::is_movement(op) => Kind::Move,
        _ => Kind::Plain,
    }
}

/// The tasks of a network and what lies between them.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    /// Tasks, in the order of the last node of each.
    pub groups: Vec<Group>,
    /// Movements that every reader reads through.
    pub seen_through: BTreeSet<NodeId>,
    /// Nodes of plain code.
    pub plain: Vec<NodeId>,
}

/// Cuts a graph into tasks. Nodes in `refused` are plain; those in `alone` are tasks of their own.
pub(crate) fn group(graph: &Graph, refused: &BTreeSet<NodeId>, alone: &BTreeSet<NodeId>) -> Groups {
    let kinds: Vec<Kind> = graph
        .nodes
        .iter()
        .enumerate()
        .map(|(i, n)| if refused.contains(&NodeId(i as u32)) { Kind::Plain } else { kind(graph, n) })
        .collect();
    let outputs = graph.outputs.iter().copied().collect();
    let (consumers, producers) = (graph.consumers(), graph.producers());
    let mut fuser = Fuser {
        graph,
        kinds,
        consumers,
        producers,
        outputs,
        alone,
        task: vec![None; graph.nodes.len()],
        groups: Vec::new(),
    };
    fuser.chains();
    let seen_through = fuser.see_through();
    fuser.elementwise(&seen_through);
    let mut groups = fuser.groups;
    groups.sort_by_key(|g| g.nodes().last().copied());
    let plain = (0..graph.nodes.len()).filter(|i| fuser.kinds[*i] == Kind::Plain);
    let plain = plain.map(|i| NodeId(i as u32)).collect();
    Groups { groups, seen_through, plain }
}

struct Fuser<'g> {
    graph: &'g Graph,
    kinds: Vec<Kind>,
    consumers: Vec<Vec<NodeId>>,
    producers: Vec<Option<NodeId>>,
    outputs: BTreeSet<ValueId>,
    alone: &'g BTreeSet<NodeId>,
    /// For every node, its task.
    task: Vec<Option<usize>>,
    groups: Vec<Group>,
}

impl Fuser<'_> {
    fn node(&self, id: NodeId) -> &Node {
        &self.graph.nodes[id.index()]
    }

    fn shape(&self, value: ValueId) -> &[usize] {
        &self.graph.ty(value).shape
    }

    /// The only node that reads a value nobody else wants.
    fn only_reader(&self, value: ValueId) -> Option<NodeId> {
        let (first, rest) = self.consumers[value.index()].split_first()?;
        (!self.outputs.contains(&value) && rest.iter().all(|c| c == first)).then_some(*first)
    }

    /// Anchors with the chains behind them.
    fn chains(&mut self) {
        let mut attentions = self.attentions();
        let inner: BTreeSet<NodeId> = attentions.values().flat_map(Attention::nodes).collect();
        for at in 0..self.graph.nodes.len() {
            let id = NodeId(at as u32);
            if self.kinds[at] != Kind::Anchor || inner.contains(&id) {
                continue;
            }
            let attention = attentions.remove(&id);
            let node = self.node(id);
            let mut layout = Axes::of(self.graph, node);
            let mut tail = node.outputs[0];
            let mut chain = Vec::new();
            while chain.len() < MAX_CHAIN && !self.alone.contains(&id) {
                let Some(next) = self.only_reader(tail) else { break };
                if self.task[next.index()].is_some()
                    || self.alone.contains(&next)
                    || !self.extends(next, tail, &mut layout)
                {
                    break;
                }
                tail = self.node(next).outputs[0];
                chain.push(next);
            }
            let before: Vec<NodeId> = attention.iter().flat_map(Attention::nodes).collect();
            for member in before.iter().chain(&chain).chain([&id]) {
                self.task[member.index()] = Some(self.groups.len());
            }
            let order = layout.order();
            let anchor = Some(id);
            self.groups.push(Group { anchor, attention, chain, order, output: tail, ..Group::default() });
        }
    }

    /// The attentions of the graph, by their last product.
    fn attentions(&self) -> BTreeMap<NodeId, Attention> {
        let mut out = BTreeMap::new();
        let only_reader = |value| self.only_reader(value);
        for at in 0..self.graph.nodes.len() {
            let id = NodeId(at as u32);
            let usable = |id: NodeId| !self.alone.contains(&id) && self.kinds[id.index()] != Kind::Plain;
            let found = Attention::ending_in(self.graph, &self.producers, &only_reader, id);
            if let Some(found) = found.filter(|a| usable(id) && a.nodes().all(usable)) {
                out.insert(id, found);
            }
        }
        out
    }

    /// Whether a node can follow in the same pass.
    fn extends(&self, id: NodeId, tail: ValueId, layout: &mut Axes) -> bool {
        let node = self.node(id);
        let out = self.shape(node.outputs[0]);
        match (self.kinds[id.index()], &node.op) {
            (Kind::Map, _) => out == self.shape(tail),
            (Kind::Move, Op::Reshape { shape }) => layout.reshape(self.shape(tail), shape),
            (Kind::Move, Op::Transpose { perm }) => layout.transpose(perm),
            _ => false,
        }
    }

    /// Movements whose readers all read through index expressions.
    fn see_through(&self) -> BTreeSet<NodeId> {
        let mut seen = BTreeSet::new();
        for at in (0..self.graph.nodes.len()).rev() {
            let id = NodeId(at as u32);
            let node = self.node(id);
            let free = matches!(
                node.op,
                Op::Reshape { .. } | Op::Transpose { .. } | Op::Slice { .. } | Op::Expand { .. }
            );
            if self.kinds[at] != Kind::Move || !free || self.task[at].is_some() || self.alone.contains(&id) {
                continue;
            }
            let output = node.outputs[0];
            let readers = &self.consumers[output.index()];
            let all = readers.iter().all(|r| self.reads_through(*r, output, &seen));
            if all && !readers.is_empty() && !self.outputs.contains(&output) {
                seen.insert(id);
            }
        }
        seen
    }

    fn reads_through(&self, reader: NodeId, value: ValueId, seen: &BTreeSet<NodeId>) -> bool {
        let node = self.node(reader);
        match self.kinds[reader.index()] {
            Kind::Plain => false,
            Kind::Map => true,
            Kind::Move => match node.op {
                // A view by itself does nothing; whoever reads it decides.
                Op::Reshape { .. } => seen.contains(&reader) || self.task[reader.index()].is_some(),
                _ => true,
            },
            Kind::Anchor => match &node.op {
                Op::MatMul | Op::Einsum { .. } | Op::Reduce(_) | Op::Softmax { .. } => true,
                Op::LayerNorm { .. } | Op::RmsNorm { .. } => node.inputs[0] == Some(value),
                // The padding is a stage of its own that may read from anywhere.
                Op::Conv(conv) => {
                    node.inputs[0] == Some(value) && conv.begin.iter().chain(&conv.end).any(|p| *p > 0)
                }
                _ => false,
            },
        }
    }

    /// Everything else, last nodes first.
    fn elementwise(&mut self, seen: &BTreeSet<NodeId>) {
        for at in (0..self.graph.nodes.len()).rev() {
            let id = NodeId(at as u32);
            let elementwise = matches!(self.kinds[at], Kind::Map | Kind::Move);
            if !elementwise || self.task[at].is_some() || seen.contains(&id) {
                continue;
            }
            let output = self.node(id).outputs[0];
            let task = match self.joined_task(id, output, seen) {
                Some(task) => task,
                None => {
                    self.groups.push(Group { output, ..Group::default() });
                    self.groups.len() - 1
                }
            };
            self.groups[task].inside.insert(id);
            self.task[at] = Some(task);
        }
    }

    /// The task that a node can join: the only one that reads it, and reads every element about once.
    fn joined_task(&self, id: NodeId, output: ValueId, seen: &BTreeSet<NodeId>) -> Option<usize> {
        if self.outputs.contains(&output) || self.alone.contains(&id) {
            return None;
        }
        let mut readers = self.readers_behind(output, seen).into_iter();
        let first = readers.next()?;
        let task = self.task[first.index()]?;
        if !readers.all(|r| self.task[r.index()] == Some(task)) {
            return None;
        }
        let group = &self.groups[task];
        if group.inside.len() >= MAX_INSIDE {
            return None;
        }
        let elements = |v: ValueId| self.graph.ty(v).len();
        match group.anchor {
            None => {
                let only = group.inside.iter().any(|n| self.alone.contains(n));
                (!only && elements(group.output) <= 2 * elements(output)).then_some(task)
            }
            Some(anchor) => {
                let node = self.node(anchor);
                let passes = matches!(
                    node.op,
                    Op::Reduce(_) | Op::Softmax { .. } | Op::LayerNorm { .. } | Op::RmsNorm { .. }
                );
                // Both products of an attention store what they read of a head before they use it.
                let scores = group.attention.as_ref().map(|a| a.scores);
                let input = match scores {
                    Some(scores) => self.node(scores).inputs[0]?,
                    None => node.inputs[0]?,
                };
                let before = |r: NodeId| r == anchor || Some(r) == scores || group.inside.contains(&r);
                let all_before = self.readers_behind(output, seen).into_iter().all(before);
                ((passes || scores.is_some())
                    && all_before
                    && !self.alone.contains(&anchor)
                    && elements(input) <= 2 * elements(output))
                .then_some(task)
            }
        }
    }

    /// The nodes that read a value, looking through movements.
    fn readers_behind(&self, value: ValueId, seen: &BTreeSet<NodeId>) -> Vec<NodeId> {
        let mut out = Vec::new();
        for reader in &self.consumers[value.index()] {
            if seen.contains(reader) {
                out.extend(self.readers_behind(self.node(*reader).outputs[0], seen));
            } else {
                out.push(*reader);
            }
        }
        out
    }
}

/// The axes of an anchor's result while reshapes and transposes follow: for each dimension the axes that make it up.
struct Axes {
    dims: Vec<Vec<usize>>,
    extents: Vec<usize>,
    /// Whether the axes may come in another order; the last one never moves, since vectors run along it.
    movable: bool,
}

impl Axes {
    fn of(graph: &Graph, node: &Node) -> Axes {
        let shape = &graph.ty(node.outputs[0]).shape;
        let mut axes = Axes { dims: Vec::new(), extents: Vec::new(), movable: false };
        let dims: Vec<Option<usize>> = match (&node.op, node.inputs.as_slice()) {
            (Op::MatMul, [Some(a), Some(b)]) => {
                let product = Product::of(&graph.ty(*a).shape, &graph.ty(*b).shape);
                axes.movable = product.as_ref().is_some_and(|p| p.columns.is_some());
                product.map_or(Vec::new(), |p| p.axes().into_iter().map(|a| a.map(|(_, e)| e)).collect())
            }
            _ => shape.iter().map(|e| Some(*e)).collect(),
        };
        for extent in dims {
            axes.dims.push(extent.map(|_| axes.extents.len()).into_iter().collect());
            axes.extents.extend(extent);
        }
        axes
    }

    fn order(&self) -> Vec<usize> {
        self.dims.iter().flatten().copied().collect()
    }

    fn transpose(&mut self, perm: &[usize]) -> bool {
        let dims: Vec<Vec<usize>> = perm.iter().map(|p| self.dims[*p].clone()).collect();
        let order: Vec<usize> = dims.iter().flatten().copied().collect();
        let wide = |order: &[usize]| -> Vec<usize> {
            order.iter().copied().filter(|a| self.extents[*a] != 1).collect()
        };
        let (before, after) = (wide(&self.order()), wide(&order));
        let legal = before == after || (self.movable && before.last() == after.last());
        if legal {
            self.dims = dims;
        }
        legal
    }

    /// Dimensions may be merged, and those of extent one come and go; no axis is split.
    fn reshape(&mut self, from: &[usize], to: &[usize]) -> bool {
        let Some(groups) = reshape::matching(from, to) else { return false };
        let mut dims = vec![Vec::new(); to.len()];
        for (f, t) in groups {
            let axes: Vec<usize> = f.flat_map(|d| self.dims[d].clone()).collect();
            let mut axes = axes.into_iter().peekable();
            for d in t.clone() {
                let mut extent = 1;
                while extent < to[d] {
                    let Some(axis) = axes.next() else { return false };
                    extent *= self.extents[axis];
                    dims[d].push(axis);
                }
                if extent != to[d] {
                    return false;
                }
            }
            // What is left has extent one.
            if let Some(last) = t.last() {
                dims[last].extend(axes);
            } else if axes.peek().is_some() {
                return false;
            }
        }
        self.dims = dims;
        true
    }
}
