//! Pooling, channels last.

use talweg_ir::DType;
use talweg_ops::pool::{PoolKind as OpsKind, pool as ops_pool};
use talweg_ops::{View, Window};
use talweg_tensor::op::{Layout, Pool, PoolKind};

use super::task::Anchor;
use super::{EmitError, Emitter};
use crate::graph::Node;

impl Emitter<'_> {
    /// See [`talweg_ops::pool`]. Windows that round up reach beyond the padding after.
    pub(super) fn pool(&mut self, node: &Node, pool: &Pool) -> Result<Anchor, EmitError> {
        let unsupported = |what: &str| EmitError::Unsupported(format!("Pool {what}"));
        let x = node.inputs[0].ok_or_else(|| unsupported("without input"))?;
        if pool.layout != Layout::ChannelsLast || self.dtype(x)? != DType::F32 {
            return Err(unsupported("of channels first or other types than f32"));
        }
        let kind = match pool.kind {
            PoolKind::Max => OpsKind::Max,
            PoolKind::Average { count_pad } => OpsKind::Average { count_padding: count_pad },
            PoolKind::Lp { .. } => return Err(unsupported("of a p-norm")),
        };
        let (input, output) = (self.shape(x), self.shape(node.outputs[0]));
        let mut windows = Vec::new();
        for (d, kernel) in pool.window.iter().enumerate() {
            let mut window = Window::new(*kernel as i64)
                .stride(pool.strides[d] as i64)
                .dilation(pool.dilations[d] as i64)
                .padding(pool.begin[d] as i64, pool.end[d] as i64);
            let reached = (output[d + 1] as i64 - 1) * window.stride + window.span();
            let beyond = reached - (input[d + 1] as i64 + window.before + window.after);
            if beyond > 0 {
                // What lies beyond the padding is no element, even when the padding counts.
                if matches!(pool.kind, PoolKind::Average { count_pad: true }) {
                    return Err(unsupported("that counts the padding and rounds up"));
                }
                window.after += beyond;
            }
            windows.push(window);
        }
        let x = self.store(x, "x")?;
        let out = ops_pool(&mut self.dag, x, kind, &windows)?;
        let view = View::plain(&self.dag, out)?;
        Ok(self.unfinished(&view))
    }

    /// A tensor of the operator library whose last stage, when it is elementwise, is left open for the epilogue.
    pub(super) fn unfinished(&mut self, view: &View) -> Anchor {
        let anchor = self.viewed(view);
        let last = view.tensor.index() + 1 == self.dag.tensors.len();
        let elementwise = self.dag.tensor(view.tensor).compute().filter(|c| c.reduction.is_none());
        match elementwise.map(|c| c.body.clone()) {
            Some(body) if last => {
                self.dag.tensors.pop();
                Anchor { value: body, site: anchor.site }
            }
            _ => anchor,
        }
    }
}
