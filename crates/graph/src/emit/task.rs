//! A whole task: what is computed before the anchor, the anchor, and the epilogue behind it.

use std::collections::BTreeSet;

use talweg_expr::{BinaryOp, Expr, Node as ExprNode, Symbol};
use talweg_ir::{Axis, Dag, Scalar, TensorId};
use talweg_tensor::Op;
use talweg_tensor::op::Layout;

use super::{EmitError, Emitter, Network, Site, broadcast_index, elementwise, node_count, reshape};
use crate::attention::Attention;
use crate::forks::Algorithm;
use crate::graph::{NodeId, ValueId};

/// A stage is cut when its body would hold more nodes than this, since functions that use their operand twice would
/// let it grow exponentially.
const MAX_NODES: usize = 160;
/// A value used several times is stored when its body holds more nodes than this.
const MAX_REPEATED: usize = 12;

/// Nodes that become one task.
#[derive(Clone, Debug, Default)]
pub(crate) struct Group {
    /// The operator that reduces; none when all is elementwise.
    pub anchor: Option<NodeId>,
    /// What comes before the anchor when it is the last product of an attention.
    pub attention: Option<Attention>,
    /// The task whose result the anchor reads, when both are one.
    pub before: Option<Box<Group>>,
    /// What follows the anchor, in order: each reads the one before.
    pub chain: Vec<NodeId>,
    /// Elementwise operators and movements before the anchor, or all of them.
    pub inside: BTreeSet<NodeId>,
    /// For a matrix product, the order of its axes in memory.
    pub order: Vec<usize>,
    /// The value it writes.
    pub output: ValueId,
}

impl Group {
    /// All nodes of the task, in order.
    pub fn nodes(&self) -> BTreeSet<NodeId> {
        let own = self.inside.iter().chain(&self.anchor).chain(&self.chain).copied();
        let before = self.before.iter().flat_map(|group| group.nodes());
        own.chain(self.attention.iter().flat_map(Attention::nodes)).chain(before).collect()
    }
}

/// A task's tensor expression and the values its given tensors stand for.
pub(crate) struct Emitted {
    pub dag: Dag,
    pub inputs: Vec<ValueId>,
}

/// A value about to be stored: what it is at the indices of a site.
pub(crate) struct Anchor {
    pub value: Scalar,
    pub site: Site,
}

impl Anchor {
    /// A stage read where it was computed.
    pub fn stage(tensor: TensorId, site: Site) -> Anchor {
        Anchor { value: Scalar::Read(tensor, site.vars()), site }
    }
}

/// Emits a task; the algorithm is that of its anchor.
pub(crate) fn emit(network: &Network<'_>, group: &Group, algorithm: Algorithm) -> Result<Emitted, EmitError> {
    let Some(id) = group.anchor else { return emit_elementwise(network, group) };
    let node = &network.graph.nodes[id.index()];
    let flat = group.chain.is_empty();
    let named = |name: &str, squeeze: bool| Emitter::new(network, &group.inside, name, squeeze);
    let (mut emitter, anchor) = match &node.op {
        Op::MatMul => match &group.attention {
            Some(attention) => {
                let mut e = named("attention", true);
                let anchor = e.attention(node, attention, &group.order)?;
                (e, anchor)
            }
            None if algorithm == Algorithm::Strassen => {
                let mut e = named("matmul_strassen", true);
                let anchor = e.strassen(id, node, &group.order)?;
                (e, anchor)
            }
            None => {
                let mut e = named("matmul", true);
                let anchor = e.matmul(node, &group.order)?;
                (e, anchor)
            }
        },
        Op::Einsum { equation } => {
            let mut e = named("einsum", true);
            let anchor = e.einsum(node, equation)?;
            (e, anchor)
        }
        Op::Conv(conv) if conv.layout == Layout::ChannelsLast => {
            let (mut e, anchor) = match algorithm {
                Algorithm::Direct | Algorithm::Separable | Algorithm::Strassen => {
                    let mut e = named(if group.before.is_some() { "separable" } else { "conv" }, false);
                    if let Some(before) = &group.before {
                        e.conv_before(before)?;
                    }
                    let anchor = e.conv(id, node, conv)?;
                    (e, anchor)
                }
                Algorithm::Winograd { .. } => {
                    let mut e = named(&format!("conv {algorithm}").replace(' ', "_"), false);
                    let anchor = e.winograd(id, node, algorithm)?;
                    (e, anchor)
                }
            };
            let anchor = e.biased(anchor, node.inputs.get(2).copied().flatten())?;
            (e, anchor)
        }
        Op::ConvTranspose(conv) if conv.layout == Layout::ChannelsLast => {
            let (mut e, anchor) = match algorithm {
                Algorithm::Winograd { .. } => {
                    let mut e = named(&format!("conv_transpose {algorithm}").replace(' ', "_"), false);
                    let anchor = e.winograd(id, node, algorithm)?;
                    (e, anchor)
                }
                _ => {
                    let mut e = named("conv_transpose", false);
                    let anchor = e.conv_transpose(id, node, conv)?;
                    (e, anchor)
                }
            };
            let anchor = e.biased(anchor, node.inputs.get(2).copied().flatten())?;
            (e, anchor)
        }
        Op::Pool(pool) => {
            let mut e = named("pool", false);
            let anchor = e.pool(node, pool)?;
            (e, anchor)
        }
        Op::Reduce(reduce) => {
            let mut e = named("reduce", true);
            let anchor = e.reduce(node, reduce)?;
            (e, anchor)
        }
        Op::Softmax { axis, log } => {
            let mut e = named("softmax", true);
            let anchor = e.softmax(node, *axis, *log, flat)?;
            (e, anchor)
        }
        Op::LayerNorm { axis, epsilon } => {
            let mut e = named("layer_norm", true);
            let anchor = e.norm(node, (*axis, *epsilon, true), flat)?;
            (e, anchor)
        }
        Op::RmsNorm { axis, epsilon } => {
            let mut e = named("rms_norm", true);
            let anchor = e.norm(node, (*axis, *epsilon, false), flat)?;
            (e, anchor)
        }
        Op::Lrn { size, alpha, beta, bias } => {
            let mut e = named("lrn", false);
            let anchor = e.lrn(node, *size, [*alpha, *beta, *bias])?;
            (e, anchor)
        }
        other => return Err(EmitError::Unsupported(other.name())),
    };
    let anchor = emitter.epilogue(anchor, node.outputs[0], &group.chain)?;
    Ok(emitter.finish(anchor))
}

impl Emitter<'_> {
    /// Adds a bias along the last dimension.
    pub(super) fn biased(&mut self, mut anchor: Anchor, bias: Option<ValueId>) -> Result<Anchor, EmitError> {
        if let Some(bias) = bias {
            let last = anchor.site.index.last().cloned().into_iter().collect();
            let read = self.at(bias, last, &anchor.site.ranges)?;
            anchor.value = anchor.value + read;
        }
        Ok(anchor)
    }

    /// Applies what follows the anchor. Transposes and reshapes only change what the axes are called: the anchor's axes
    /// are in the order of the last value already.
    pub(super) fn epilogue(
        &mut self,
        anchor: Anchor,
        mut tail: ValueId,
        chain: &[NodeId],
    ) -> Result<Anchor, EmitError> {
        let Anchor { mut value, mut site } = anchor;
        for id in chain {
            let node = &self.graph().nodes[id.index()];
            match &node.op {
                Op::Transpose { perm } => {
                    site.index = perm.iter().map(|p| site.index[*p].clone()).collect();
                }
                Op::Reshape { shape } => {
                    site.index = reshape::reindex(&site.index, self.shape(tail), shape, &site.ranges)
                        .ok_or_else(|| EmitError::Unsupported("Reshape".into()))?;
                }
                op => {
                    if node_count(&value) * elementwise::uses(op) > MAX_NODES {
                        let tensor = self.push("part", site.axes.clone(), None, value);
                        value = Scalar::Read(tensor, site.vars());
                    }
                    let mut operands = Vec::new();
                    for input in node.reads() {
                        operands.push(if input == tail {
                            value.clone()
                        } else {
                            let at = broadcast_index(&site.index, self.shape(input));
                            self.at(input, at, &site.ranges)?
                        });
                    }
                    value = self.combine(node, operands)?;
                }
            }
            tail = node.outputs[0];
        }
        Ok(Anchor { value, site })
    }

    /// Stores the result, unless it is a stage already.
    fn finish(mut self, anchor: Anchor) -> Emitted {
        let output = self.stage("Y", anchor);
        self.dag.mark_output(output);
        Emitted { dag: self.dag, inputs: self.given.into_iter().map(|(v, _)| v).collect() }
    }

    /// The stage that holds a value: the one it is read from as it is, or a new one.
    pub(super) fn stage(&mut self, name: &str, anchor: Anchor) -> TensorId {
        let Anchor { value, site } = anchor;
        match &value {
            Scalar::Read(tensor, index)
                if *index == site.vars() && self.dag.tensor(*tensor).compute().is_some() =>
            {
                *tensor
            }
            _ => self.push(name, site.axes, None, value),
        }
    }

    /// How often nodes inside the task read a value.
    fn reads_inside(&self, value: ValueId) -> usize {
        let nodes = self.inside.iter().chain(self.network.seen_through);
        let reads = nodes.map(|n| self.graph().nodes[n.index()].reads().filter(|r| *r == value).count());
        reads.sum()
    }
}

/// One compute over the dimensions of the result; dimensions that are read in parts are axes for each part.
fn emit_elementwise(network: &Network<'_>, group: &Group) -> Result<Emitted, EmitError> {
    let mut emitter = Emitter::new(network, &group.inside, "elementwise", true);
    for id in &group.inside {
        let node = &network.graph.nodes[id.index()];
        let value = node.outputs[0];
        if value == group.output || elementwise::arity(&node.op).is_none() || emitter.reads_inside(value) < 2
        {
            continue;
        }
        let site = Site::of_shape(emitter.shape(value), true);
        let body = emitter.at(value, site.index.clone(), &site.ranges)?;
        if node_count(&body) > MAX_REPEATED {
            emitter.store(value, "part")?;
        }
    }
    let mut site = Site::of_shape(emitter.shape(group.output), true);
    let mut value = emitter.at(group.output, site.index.clone(), &site.ranges)?;
    while let Some((axis, inner)) = divided_axis(&value, &site) {
        site = split_axis(&site, axis, inner);
        value = emitter.at(group.output, site.index.clone(), &site.ranges)?;
    }
    Ok(emitter.finish(Anchor { value, site }))
}

/// An axis that is read by quotient and remainder, and the divisor.
fn divided_axis(value: &Scalar, site: &Site) -> Option<(usize, i64)> {
    let mut found = None;
    value.visit(&mut |s| {
        if let Scalar::Read(_, index) = s {
            index.iter().for_each(|e| find_division(e, &mut found));
        }
    });
    let (symbol, divisor): (Symbol, i64) = found?;
    let axis = site.axes.iter().position(|a| a.symbol == symbol)?;
    let extent = site.axes[axis].extent.as_int()?;
    (extent % divisor == 0 && extent > divisor).then_some((axis, divisor))
}

fn find_division(e: &Expr, found: &mut Option<(Symbol, i64)>) {
    match e.node() {
        ExprNode::Binary(op, a, b) => {
            if matches!(op, BinaryOp::FloorDiv | BinaryOp::Mod)
                && let (Some(symbol), Some(divisor)) = (a.as_sym(), b.as_int())
                && found.is_none()
            {
                *found = Some((symbol.clone(), divisor));
            }
            find_division(a, found);
            find_division(b, found);
        }
        ExprNode::Unary(_, a) => find_division(a, found),
        _ => {}
    }
}

/// The same site with one axis in two parts.
fn split_axis(site: &Site, at: usize, inner: i64) -> Site {
    let axis = &site.axes[at];
    let name = axis.symbol.name();
    let outer_extent = axis.extent.as_int().unwrap_or(inner) / inner;
    let parts = [Axis::new(&format!("{name}o"), outer_extent), Axis::new(&format!("{name}i"), inner)];
    let whole = parts[0].var() * inner + parts[1].var();
    let by = |s: &Symbol| (*s == axis.symbol).then(|| whole.clone());
    let index = site.index.iter().map(|e| e.subst(&by)).collect();
    let mut axes = site.axes.clone();
    axes.splice(at..=at, parts);
    Site::new(axes, index)
}
