//! Convolutions and transposed convolutions, channels last, and the layout their weights have in kernels.

use talweg_expr::Expr;
use talweg_ir::{DType, TensorId};
use talweg_ops::{View, Window, conv as ops_conv, transpose as ops_transpose, winograd as ops_winograd};
use talweg_tensor::op::{Conv, ConvTranspose, Layout};
use talweg_tensor::{ElementType, Op, Tensor, TensorType};

use super::task::{Anchor, Group};
use super::{EmitError, Emitter, Site};
use crate::constants;
use crate::forks::Algorithm;
use crate::graph::{Graph, Node, NodeId, ValueId};

/// Whether every channel has a filter of its own.
fn is_depthwise(conv: &Conv, weights: &[usize]) -> bool {
    conv.groups > 1 && weights[0] == conv.groups && weights[1] == 1
}

/// Whether a node is a convolution, channels last, in which every channel has a filter of its own.
pub(crate) fn is_depthwise_node(graph: &Graph, node: &Node) -> bool {
    let Op::Conv(conv) = &node.op else { return false };
    let Some(weights) = node.inputs.get(1).copied().flatten() else { return false };
    conv.layout == Layout::ChannelsLast && is_depthwise(conv, &graph.ty(weights).shape)
}

/// Whether a node is a convolution, channels last, that multiplies what is at one place by all filters.
pub(crate) fn is_pointwise_node(graph: &Graph, node: &Node) -> bool {
    let Op::Conv(conv) = &node.op else { return false };
    let Some(weights) = node.inputs.get(1).copied().flatten() else { return false };
    let windows = conv_windows(conv, &graph.ty(weights).shape);
    let single = |w: &Window| w.kernel == 1 && w.stride == 1 && w.before == 0 && w.after == 0;
    conv.layout == Layout::ChannelsLast && conv.groups == 1 && windows.iter().all(single)
}

/// The window of a convolution along each spatial axis, given the weights' shape.
fn conv_windows(conv: &Conv, weights: &[usize]) -> Vec<Window> {
    let spatial = weights[2..].iter().enumerate();
    let window = spatial.map(|(d, kernel)| {
        Window::new(*kernel as i64)
            .stride(conv.strides[d] as i64)
            .dilation(conv.dilations[d] as i64)
            .padding(conv.begin[d] as i64, conv.end[d] as i64)
    });
    window.collect()
}

/// The windows of a transposed convolution and its output padding; `None` when the library has no such form.
fn transposed_windows(conv: &ConvTranspose, weights: &[usize]) -> Option<(Vec<Window>, Vec<i64>)> {
    let mut windows = Vec::new();
    let mut extra = Vec::new();
    for (d, kernel) in weights[2..].iter().enumerate() {
        let (stride, dilation) = (conv.strides[d] as i64, conv.dilations[d] as i64);
        if conv.begin[d] < 0 || -conv.end[d] >= stride.max(dilation) {
            return None;
        }
        let window = Window::new(*kernel as i64).stride(stride).dilation(dilation);
        windows.push(window.padding(conv.begin[d], conv.end[d].max(0)));
        extra.push((-conv.end[d]).max(0));
    }
    Some((windows, extra))
}

fn is_phased(windows: &[Window]) -> bool {
    windows.iter().all(|w| w.stride == 1 || w.dilation == 1)
}

/// The weights of a channels-last convolution as kernels read them: `[window..., channels, filters]`, without the
/// channels when each has its own filter, and with zeros up to a multiple of the stride for a transposed one. `None`
/// when the node is no such convolution or its weights are no constant.
pub(crate) fn kernel_weights(graph: &Graph, node: &Node) -> Option<Tensor> {
    let weights = graph.constant(node.inputs.get(1).copied().flatten()?)?;
    let shape = weights.shape().to_vec();
    let rank = shape.len();
    let spatial: Vec<usize> = (2..rank).collect();
    match &node.op {
        Op::Conv(conv) if conv.layout == Layout::ChannelsLast => {
            let perm: Vec<usize> = spatial.into_iter().chain([1, 0]).collect();
            let moved = constants::transpose(weights, &perm);
            if is_depthwise(conv, &shape) {
                let mut kept: Vec<usize> = shape[2..].to_vec();
                kept.push(shape[0]);
                return Some(moved.reshaped(kept));
            }
            Some(moved)
        }
        Op::ConvTranspose(conv) if conv.layout == Layout::ChannelsLast && conv.groups == 1 => {
            let (windows, _) = transposed_windows(conv, &shape)?;
            let perm: Vec<usize> = spatial.into_iter().chain([0, 1]).collect();
            let moved = constants::transpose(weights, &perm);
            if !is_phased(&windows) {
                return Some(moved);
            }
            let mut padded: Vec<usize> =
                ops_transpose::phased_kernel(&windows).iter().map(|k| *k as usize).collect();
            padded.extend([shape[0], shape[1]]);
            Some(constants::pad_end(&moved, &padded))
        }
        _ => None,
    }
}

/// The type of the weights that Winograd's algorithm reads, for output tiles of one size: `[positions, positions,
/// depth, channels, filters]`, the depth only in three dimensions; with the phases in front and a position less for
/// transposed convolutions. `None` when the algorithm does not apply, or the convolution is too small to gain by it.
pub(crate) fn winograd_weights(graph: &Graph, node: &Node, packed: ValueId, tile: i64) -> Option<TensorType> {
    let original = graph.ty(node.inputs.get(1).copied().flatten()?);
    let output = &graph.ty(node.outputs[0]).shape;
    let [.., height, width, _] = output[..] else { return None };
    let [depth @ .., _, _, channels, filters] = &graph.ty(packed).shape[..] else { return None };
    let (tile, positions) = (tile as usize, tile as usize + 2);
    let (front, least) = match &node.op {
        Op::Conv(conv) if conv.groups == 1 => {
            let windows = conv_windows(conv, &original.shape);
            (ops_winograd::applies(&windows).then_some(vec![positions; 2])?, tile)
        }
        Op::ConvTranspose(conv) => {
            let (windows, _) = transposed_windows(conv, &original.shape)?;
            let front = vec![2, 2, positions - 1, positions - 1];
            (ops_winograd::phases::applies(&windows).then_some(front)?, 2 * tile)
        }
        _ => return None,
    };
    let is_large = *channels.min(filters) >= FEWEST_CHANNELS && height.min(width) >= least;
    (original.element == ElementType::F32 && is_large).then(|| TensorType {
        element: ElementType::F32,
        shape: [&front[..], depth, &[*channels, *filters]].concat(),
    })
}

/// Fewer channels leave nothing to gain between the transforms.
const FEWEST_CHANNELS: usize = 8;

impl<'g> Emitter<'g> {
    /// The activations and the weights as tensors, and the shape of the weights as the model has them.
    fn activations(
        &mut self,
        id: NodeId,
        node: &Node,
    ) -> Result<(TensorId, TensorId, &'g [usize]), EmitError> {
        let weights = self.network.weights.get(&id).copied();
        let (Some(weights), Some(x), Some(original)) = (weights, node.inputs[0], node.inputs[1]) else {
            return Err(EmitError::Unsupported("a convolution with weights that are no constant".into()));
        };
        if self.dtype(x)? != DType::F32 {
            return Err(EmitError::Unsupported("a convolution of other types than f32".into()));
        }
        Ok((self.store(x, "x")?, self.given(weights)?, self.shape(original)))
    }

    /// See [`talweg_ops::conv`].
    pub(super) fn conv(&mut self, id: NodeId, node: &Node, conv: &Conv) -> Result<Anchor, EmitError> {
        let (x, w, shape) = self.activations(id, node)?;
        let windows = conv_windows(conv, shape);
        let view = if is_depthwise(conv, shape) {
            let out = ops_conv::depthwise(&mut self.dag, x, w, &windows)?;
            View::plain(&self.dag, out)?
        } else {
            ops_conv::conv(&mut self.dag, x, w, &windows, conv.groups as i64)?
        };
        Ok(self.viewed(&view))
    }

    /// A convolution and what follows it as a stage of the task that reads it.
    pub(super) fn conv_before(&mut self, group: &Group) -> Result<(), EmitError> {
        let unsupported = || EmitError::Unsupported("a convolution within another task".into());
        let id = group.anchor.ok_or_else(unsupported)?;
        let node = &self.graph().nodes[id.index()];
        let Op::Conv(conv) = &node.op else { return Err(unsupported()) };
        let anchor = self.conv(id, node, conv)?;
        let anchor = self.biased(anchor, node.inputs.get(2).copied().flatten())?;
        let anchor = self.epilogue(anchor, node.outputs[0], &group.chain)?;
        let tensor = self.stage("middle", anchor);
        self.stages.insert(group.output, tensor);
        Ok(())
    }

    /// A convolution or a transposed one by Winograd's algorithm: see [`talweg_ops::winograd`].
    pub(super) fn winograd(
        &mut self,
        id: NodeId,
        node: &Node,
        algorithm: Algorithm,
    ) -> Result<Anchor, EmitError> {
        let unsupported = || EmitError::Unsupported(format!("a convolution by {algorithm}"));
        let Algorithm::Winograd { tile } = algorithm else { return Err(unsupported()) };
        let derived =
            self.network.derived.get(&id).and_then(|all| all.iter().find(|d| d.algorithm == algorithm));
        let (Some(derived), Some(x), Some(original)) = (derived, node.inputs[0], node.inputs[1]) else {
            return Err(unsupported());
        };
        if self.dtype(x)? != DType::F32 {
            return Err(unsupported());
        }
        let x = self.store(x, "x")?;
        // The value becomes a constant when the algorithm is chosen.
        let shape = self.stored_shape(derived.value);
        let u = self.dag.constant(&self.fresh("w0"), DType::F32, &shape);
        self.given.push((derived.value, u));
        let shape = self.shape(original);
        let out = match &node.op {
            Op::Conv(conv) => ops_winograd::winograd(&mut self.dag, x, u, &conv_windows(conv, shape), tile)?,
            Op::ConvTranspose(conv) => {
                let (windows, extra) = transposed_windows(conv, shape).ok_or_else(unsupported)?;
                ops_winograd::winograd_transpose(&mut self.dag, x, u, &windows, &extra, tile)?
            }
            _ => return Err(unsupported()),
        };
        let view = View::plain(&self.dag, out)?;
        Ok(self.viewed(&view))
    }

    /// See [`talweg_ops::transpose`]; by phases where the library has them.
    pub(super) fn conv_transpose(
        &mut self,
        id: NodeId,
        node: &Node,
        conv: &ConvTranspose,
    ) -> Result<Anchor, EmitError> {
        let (x, w, shape) = self.activations(id, node)?;
        let unsupported = || EmitError::Unsupported("this transposed convolution".into());
        let (windows, extra) = transposed_windows(conv, shape).ok_or_else(unsupported)?;
        let view = if is_phased(&windows) {
            ops_transpose::conv_transpose_phased(&mut self.dag, x, w, &windows, &extra)?
        } else {
            let out = ops_transpose::conv_transpose_guarded(&mut self.dag, x, w, &windows, &extra)?;
            View::plain(&self.dag, out)?
        };
        Ok(self.viewed(&view))
    }

    /// A tensor of the operator library as an anchor.
    pub(super) fn viewed(&self, view: &View) -> Anchor {
        let compute = self.dag.tensor(view.tensor).compute();
        let axes = compute.map(|c| c.axes.clone()).unwrap_or_default();
        let vars: Vec<Expr> = axes.iter().map(talweg_ir::Axis::var).collect();
        let index = view.indices(&vars);
        Anchor::stage(view.tensor, Site::new(axes, index))
    }
}
