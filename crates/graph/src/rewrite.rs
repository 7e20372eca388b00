//! The driver of the rules: one edit at a time, each named, until none applies.

use talweg_tensor::{ElementType, Op, Tensor, TensorType};

use crate::graph::{Graph, GraphError, Node, NodeId, ValueId};
use crate::rules::{self, Rule};

/// What a rule does to the node it matched.
pub(crate) enum Edit {
    /// These nodes stand in its place; the last ones write what it wrote.
    Nodes(Vec<Node>),
    /// Its only output is this value.
    Value(ValueId),
    /// Each of several nodes is replaced by the nodes beside it.
    Places(Vec<(NodeId, Vec<Node>)>),
}

/// Why rewriting stopped early: a defect of the rule named.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RewriteError {
    /// A rule left a graph that is wrong.
    #[error("rule `{rule}` on node `{node}`: {source}; please report it with the model")]
    Broken {
        /// The rule.
        rule: &'static str,
        /// The node it matched.
        node: String,
        /// What is wrong.
        source: GraphError,
    },
    /// Rules undo each other.
    #[error(
        "rule `{rule}` on node `{node}` still finds something to do after {edits} edits; please report it with the model"
    )]
    Endless {
        /// The rule.
        rule: &'static str,
        /// The node it matched last.
        node: String,
        /// Edits made.
        edits: usize,
    },
    /// The graph was wrong to begin with.
    #[error("{0}")]
    Graph(#[from] GraphError),
}

/// How often each rule was applied, in the order of the rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RewriteReport {
    /// Names and counts, rules that never applied left out.
    pub applied: Vec<(&'static str, usize)>,
}

/// Rewrites a graph: folds, recognises patterns, moves images to channels last, cancels what cancels, merges what reads
/// the same.
pub fn optimise(graph: &mut Graph) -> Result<RewriteReport, RewriteError> {
    graph.verify()?;
    let mut report = RewriteReport::default();
    run(graph, rules::SIMPLIFY, &mut report)?;
    let all: Vec<Rule> = rules::SIMPLIFY.iter().chain(rules::LAYOUT).copied().collect();
    run(graph, &all, &mut report)?;
    run(graph, rules::MERGE, &mut report)?;
    Ok(report)
}

/// Applies rules until none applies.
pub(crate) fn run(graph: &mut Graph, rules: &[Rule], report: &mut RewriteReport) -> Result<(), RewriteError> {
    let limit = 64 * (graph.nodes.len() + 64);
    let mut edits = 0;
    graph.compact();
    loop {
        let before = edits;
        let mut context = Context::new(graph);
        let mut at = 0;
        while at < context.graph.nodes.len() {
            let id = NodeId(at as u32);
            let found = rules.iter().find_map(|rule| {
                let edit = (rule.apply)(&mut context, id)?;
                context.allows(id, &edit).then_some((rule, edit))
            });
            let Some((rule, edit)) = found else {
                at += 1;
                continue;
            };
            edits += 1;
            let node = context.graph.nodes[at].name.clone();
            context.apply(id, edit);
            match report.applied.iter_mut().find(|(name, _)| *name == rule.name) {
                Some((_, count)) => *count += 1,
                None => report.applied.push((rule.name, 1)),
            }
            if let Err(source) = context.graph.verify() {
                return Err(RewriteError::Broken { rule: rule.name, node, source });
            }
            if edits > limit {
                return Err(RewriteError::Endless { rule: rule.name, node, edits });
            }
        }
        graph.compact();
        if edits == before {
            return Ok(());
        }
    }
}

/// The graph as rules see it: who writes and who reads each value.
pub(crate) struct Context<'g> {
    pub graph: &'g mut Graph,
    producers: Vec<Option<NodeId>>,
    consumers: Vec<Vec<NodeId>>,
}

impl<'g> Context<'g> {
    fn new(graph: &'g mut Graph) -> Context<'g> {
        let (producers, consumers) = (graph.producers(), graph.consumers());
        Context { graph, producers, consumers }
    }

    fn refresh(&mut self) {
        self.producers = self.graph.producers();
        self.consumers = self.graph.consumers();
    }

    pub fn node(&self, id: NodeId) -> &Node {
        &self.graph.nodes[id.index()]
    }

    /// The node that writes a value.
    pub fn producer(&self, value: ValueId) -> Option<&Node> {
        self.producers.get(value.index()).copied().flatten().map(|id| self.node(id))
    }

    /// The nodes that read a value.
    pub fn consumers(&self, value: ValueId) -> &[NodeId] {
        self.consumers.get(value.index()).map_or(&[], Vec::as_slice)
    }

    /// Whether exactly one node reads a value, once, and the network does not give it out.
    pub fn single_use(&self, value: ValueId) -> bool {
        self.consumers(value).len() == 1 && !self.graph.outputs.contains(&value)
    }

    pub fn shape(&self, value: ValueId) -> &[usize] {
        &self.graph.ty(value).shape
    }

    pub fn is_f32(&self, value: ValueId) -> bool {
        self.graph.ty(value).element == ElementType::F32
    }

    pub fn constant(&self, value: ValueId) -> Option<&Tensor> {
        self.graph.constant(value)
    }

    /// The only element of a float constant.
    pub fn scalar(&self, value: ValueId) -> Option<f64> {
        let tensor = self.constant(value)?;
        (tensor.len() == 1 && tensor.element().is_float()).then(|| tensor.to_f64()[0])
    }

    /// A new value like another, in another shape.
    pub fn add_like(&mut self, value: ValueId, suffix: &str, shape: Vec<usize>) -> ValueId {
        let source = self.graph.value(value);
        let (name, ty) = (format!("{}.{suffix}", source.name), TensorType::new(source.ty.element, shape));
        self.graph.add_value(name, ty)
    }

    /// A new constant named after a value.
    pub fn add_constant(&mut self, like: ValueId, suffix: &str, tensor: Tensor) -> ValueId {
        let name = format!("{}.{suffix}", self.graph.value(like).name);
        self.graph.add_constant(name, tensor)
    }

    /// The two operands of a commutative operator with a constant second, and the constant's id.
    pub fn with_constant(&self, node: &Node) -> Option<(ValueId, ValueId)> {
        let [Some(a), Some(b)] = node.inputs[..] else { return None };
        match (self.constant(a).is_some(), self.constant(b).is_some()) {
            (false, true) => Some((a, b)),
            (true, false) => Some((b, a)),
            _ => None,
        }
    }

    /// Whether an edit keeps the names of the network's interface.
    fn allows(&self, id: NodeId, edit: &Edit) -> bool {
        let Edit::Value(value) = edit else { return true };
        let [output] = self.node(id).outputs[..] else { return false };
        !self.graph.outputs.contains(&output)
            || !(self.graph.inputs.contains(value) || self.graph.outputs.contains(value))
    }

    fn apply(&mut self, id: NodeId, edit: Edit) {
        match edit {
            Edit::Nodes(nodes) => {
                self.graph.nodes.splice(id.index()..=id.index(), nodes);
            }
            Edit::Value(value) => {
                let node = self.graph.nodes.remove(id.index());
                self.graph.replace_uses(node.outputs[0], value);
            }
            Edit::Places(mut places) => {
                places.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
                for (at, nodes) in places {
                    self.graph.nodes.splice(at.index()..=at.index(), nodes);
                }
            }
        }
        self.refresh();
    }
}

/// A node with one output.
pub(crate) fn node(name: impl Into<String>, op: Op, inputs: &[ValueId], output: ValueId) -> Node {
    Node { name: name.into(), op, inputs: inputs.iter().map(|i| Some(*i)).collect(), outputs: vec![output] }
}

/// The name of a node that replaces several.
pub(crate) fn joined(names: &[&str]) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in names.iter().flat_map(|n| n.split('+')) {
        if !parts.contains(&part) {
            parts.push(part);
        }
    }
    parts.join("+")
}
