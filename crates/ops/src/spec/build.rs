//! [`Spec`] to DAG.

use talweg_ir::{Dag, TensorId};

use super::table::Kind;
use super::{Spec, SpecError, Value};
use crate::blocked::{Channels, conv_blocked, depthwise_blocked};
use crate::chain::{self, ChainOp};
use crate::conv::{conv, depthwise};
use crate::error::OpError;
use crate::matmul::{batch_matmul, matmul};
use crate::norm::{layer_norm, rms_norm};
use crate::pool::{PoolKind, global_average_pool, pool};
use crate::reduce::{ReduceOp, reduce};
use crate::softmax::softmax;
use crate::transpose::{conv_transpose_guarded, conv_transpose_phased, phased_kernel};
use crate::typing::result_type;
use crate::view::View;
use crate::window::{Window, spatial_letters};

/// Most elements of one tensor.
const MAX_ELEMENTS: i64 = 1 << 40;

/// What building gives.
pub(crate) struct Built {
    pub dag: Dag,
    /// The output as callers see it.
    pub output: View,
    /// Multiply-accumulates by definition, for contractions.
    pub macs: Option<f64>,
}

impl Spec {
    /// Builds the DAG and marks its output.
    pub(crate) fn built(&self) -> Result<Built, SpecError> {
        let mut dag = Dag::new(self.operator.name);
        self.append(&mut dag)
            .and_then(|(output, macs)| {
                dag.mark_output(output.tensor);
                check_sizes(&dag)?;
                Ok(Built { dag, output, macs })
            })
            .map_err(|source| SpecError::Operator { text: self.to_string(), source })
    }

    fn append(&self, dag: &mut Dag) -> Result<(View, Option<f64>), OpError> {
        let dtype = self.dtype();
        match self.operator.kind {
            Kind::Matmul => {
                let (m, n, k, tb) = (self.int("m"), self.int("n"), self.int("k"), self.int("tb") == 1);
                let a = dag.input("A", dtype, &[m, k]);
                let shape = if tb { [n, k] } else { [k, n] };
                let b = match self.word("rhs") {
                    "input" => dag.input("B", dtype, &shape),
                    _ => dag.constant("B", dtype, &shape),
                };
                let out = matmul(dag, a, b, tb)?;
                Ok((self.finish(dag, out)?, Some(product(&[m, n, k]))))
            }
            Kind::BatchMatmul => {
                let (b, m, n, k) = (self.int("b"), self.int("m"), self.int("n"), self.int("k"));
                let tb = self.int("tb") == 1;
                let lhs = dag.input("A", dtype, &[b, m, k]);
                let rhs = dag.input("B", dtype, &if tb { [b, n, k] } else { [b, k, n] });
                let out = batch_matmul(dag, lhs, rhs, tb)?;
                Ok((self.finish(dag, out)?, Some(product(&[b, m, n, k]))))
            }
            Kind::Conv(rank) => self.append_conv(dag, rank),
            Kind::Depthwise => {
                let (windows, layout) = (self.windows(2), Channels::from_block(self.int("block")));
                layout.check("depthwise", "channels", self.int("c"))?;
                let x = dag.input("X", dtype, &self.blocked_shape(2, layout));
                let w = dag.constant("W", dtype, &[windows[0].kernel, windows[1].kernel, self.int("c")]);
                let out = if layout == Channels::Last {
                    let out = depthwise(dag, x, w, &windows)?;
                    View::plain(dag, out)?
                } else {
                    depthwise_blocked(dag, x, w, &windows)?
                };
                let output = self.finish_view(dag, out)?;
                let macs = product(&output.shape) * taps(&windows);
                Ok((output, Some(macs)))
            }
            Kind::Separable => self.append_separable(dag),
            Kind::ConvTranspose(rank) => self.append_transpose(dag, rank),
            Kind::Pool(rank) => self.append_pool(dag, rank, self.word("kind") == "max"),
            Kind::MaxPool => self.append_pool(dag, 2, true),
            Kind::AveragePool => self.append_pool(dag, 2, false),
            Kind::GlobalAveragePool => {
                let x = dag.input("X", dtype, &self.image_shape(2));
                let out = global_average_pool(dag, x)?;
                plain(dag, out)
            }
            Kind::Softmax => {
                let x = self.rows(dag);
                let out = softmax(dag, x)?;
                plain(dag, out)
            }
            Kind::LayerNorm => {
                let x = self.rows(dag);
                let scale = dag.constant("scale", dtype, &[self.int("n")]);
                let bias = dag.constant("bias", dtype, &[self.int("n")]);
                let eps = self.real("eps");
                let out = layer_norm(dag, x, Some(scale), Some(bias), eps)?;
                plain(dag, out)
            }
            Kind::RmsNorm => {
                let x = self.rows(dag);
                let scale = dag.constant("scale", dtype, &[self.int("n")]);
                let eps = self.real("eps");
                let out = rms_norm(dag, x, Some(scale), eps)?;
                plain(dag, out)
            }
            Kind::Reduce => {
                let x = self.rows(dag);
                let name = self.word("op");
                let op = ReduceOp::ALL.iter().find(|(n, _)| *n == name).map_or(ReduceOp::Sum, |(_, op)| *op);
                let out = reduce(dag, x, op, &[1], false)?;
                plain(dag, out)
            }
            Kind::Elementwise => {
                let (rows, n) = (self.int("rows"), self.int("n"));
                let shape = if rows == 1 { vec![n] } else { vec![rows, n] };
                let x = dag.input("X", dtype, &shape);
                let value = View::plain(dag, x)?;
                let steps = chain::declare(dag, &value, &self.chain("chain"), dtype);
                if steps.is_empty() {
                    let problem = "is empty; name at least one operation";
                    return Err(OpError::Operand { step: "chain".to_string(), problem });
                }
                Ok((chain::apply(dag, &value, &steps, dtype)?, None))
            }
        }
    }

    fn append_conv(&self, dag: &mut Dag, rank: usize) -> Result<(View, Option<f64>), OpError> {
        let (dtype, windows, groups) = (self.dtype(), self.windows(rank), self.int("g"));
        let (channels, filters) = (self.int("c"), self.int("f"));
        if channels % groups != 0 {
            let what = "input channels";
            return Err(OpError::Groups { operator: "conv", groups, what, extent: channels });
        }
        let layouts = ["block", "fblock"].map(|name| Channels::from_block(self.int(name)));
        let is_blocked = layouts != [Channels::Last; 2];
        if is_blocked && groups > 1 {
            let what = "the number of groups of a convolution with blocks of channels".to_string();
            return Err(OpError::Range { operator: "conv", what, found: groups, min: 1, max: 1 });
        }
        layouts[0].check("conv", "input channels", channels)?;
        let x = dag.input("X", dtype, &self.blocked_shape(rank, layouts[0]));
        let mut shape: Vec<i64> = windows.iter().map(|w| w.kernel).collect();
        shape.extend([channels / groups, filters]);
        let w = dag.constant("W", dtype, &shape);
        let out = if is_blocked {
            conv_blocked(dag, x, w, &windows, layouts.into())?
        } else {
            conv(dag, x, w, &windows, groups)?
        };
        let output = self.finish_view(dag, out)?;
        let macs = product(&output.shape) * taps(&windows) * (channels / groups) as f64;
        Ok((output, Some(macs)))
    }

    fn append_separable(&self, dag: &mut Dag) -> Result<(View, Option<f64>), OpError> {
        let (dtype, windows, channels) = (self.dtype(), self.windows(2), self.int("c"));
        let x = dag.input("X", dtype, &self.image_shape(2));
        let w = dag.constant("W", dtype, &[windows[0].kernel, windows[1].kernel, channels]);
        let point = dag.constant("P", dtype, &[1, 1, channels, self.int("f")]);
        let deep = depthwise(dag, x, w, &windows)?;
        let deep = View::plain(dag, deep)?;
        let steps = chain::declare(dag, &deep, &self.chain("middle"), dtype);
        let middle = chain::apply(dag, &deep, &steps, dtype)?;
        let out = conv(dag, middle.tensor, point, &[Window::new(1), Window::new(1)], 1)?;
        let output = self.finish_view(dag, out)?;
        let macs = product(&middle.shape) * (taps(&windows) + self.int("f") as f64);
        Ok((output, Some(macs)))
    }

    fn append_transpose(&self, dag: &mut Dag, rank: usize) -> Result<(View, Option<f64>), OpError> {
        let (dtype, windows) = (self.dtype(), self.windows(rank));
        let extra: Vec<i64> = spatial_letters(rank).iter().map(|l| self.int(&format!("op{l}"))).collect();
        let image = self.image_shape(rank);
        let x = dag.input("X", dtype, &image);
        // Phases do not share taps when both stride and dilation exceed 1.
        let phased =
            self.word("form") == "phased" && windows.iter().all(|w| w.stride == 1 || w.dilation == 1);
        let mut shape: Vec<i64> =
            if phased { phased_kernel(&windows) } else { windows.iter().map(|w| w.kernel).collect() };
        shape.extend([self.int("c"), self.int("f")]);
        let w = dag.constant("W", dtype, &shape);
        let out = if phased {
            conv_transpose_phased(dag, x, w, &windows, &extra)?
        } else {
            let out = conv_transpose_guarded(dag, x, w, &windows, &extra)?;
            View::plain(dag, out)?
        };
        let output = self.finish_view(dag, out)?;
        let macs = product(&image) * taps(&windows) * self.int("f") as f64;
        Ok((output, Some(macs)))
    }

    fn append_pool(&self, dag: &mut Dag, rank: usize, max: bool) -> Result<(View, Option<f64>), OpError> {
        let kind = if max {
            PoolKind::Max
        } else {
            PoolKind::Average { count_padding: self.int("count_include_pad") == 1 }
        };
        let x = dag.input("X", self.dtype(), &self.image_shape(rank));
        let windows = self.windows(rank);
        let out = pool(dag, x, kind, &windows)?;
        plain(dag, out)
    }

    /// Epilogue and conversion to the result's type.
    fn finish(&self, dag: &mut Dag, out: TensorId) -> Result<View, OpError> {
        let view = View::plain(dag, out)?;
        self.finish_view(dag, view)
    }

    fn finish_view(&self, dag: &mut Dag, value: View) -> Result<View, OpError> {
        let steps = chain::declare(dag, &value, &self.chain("epilogue"), self.dtype());
        chain::apply(dag, &value, &steps, result_type(self.dtype()))
    }

    fn rows(&self, dag: &mut Dag) -> TensorId {
        dag.input("X", self.dtype(), &[self.int("rows"), self.int("n")])
    }

    fn image_shape(&self, rank: usize) -> Vec<i64> {
        self.blocked_shape(rank, Channels::Last)
    }

    fn blocked_shape(&self, rank: usize, layout: Channels) -> Vec<i64> {
        let pixels: Vec<i64> = spatial_letters(rank).iter().map(|l| self.int(l)).collect();
        layout.shape(self.int("n"), &pixels, self.int("c"))
    }

    fn windows(&self, rank: usize) -> Vec<Window> {
        let sides: &[(&str, &str)] = &[("pf", "pk"), ("pt", "pb"), ("pl", "pr")];
        spatial_letters(rank)
            .iter()
            .zip(&sides[3 - rank..])
            .map(|(l, (before, after))| Window {
                kernel: self.int(&format!("k{l}")),
                stride: self.int(&format!("s{l}")),
                dilation: self.int(&format!("d{l}")),
                before: self.int(before),
                after: self.int(after),
            })
            .collect()
    }

    /// A number the table guarantees; 1 would only stand in for a parameter the table does not have.
    fn int(&self, name: &str) -> i64 {
        match self.get(name) {
            Some(Value::Int(v)) => v,
            _ => 1,
        }
    }

    fn real(&self, name: &str) -> f64 {
        match self.get(name) {
            Some(Value::Real(v)) => v,
            _ => 0.0,
        }
    }

    fn word(&self, name: &str) -> &'static str {
        match self.get(name) {
            Some(Value::Word(v)) => v,
            _ => "",
        }
    }

    fn chain(&self, name: &str) -> Vec<ChainOp> {
        match self.get(name) {
            Some(Value::Chain(v)) => v,
            _ => Vec::new(),
        }
    }
}

/// A result seen as it is, whose arithmetic is counted stage by stage.
fn plain(dag: &Dag, out: TensorId) -> Result<(View, Option<f64>), OpError> {
    Ok((View::plain(dag, out)?, None))
}

fn product(extents: &[i64]) -> f64 {
    extents.iter().map(|e| *e as f64).product()
}

fn taps(windows: &[Window]) -> f64 {
    windows.iter().map(|w| w.kernel as f64).product()
}

/// Refuses tensors no machine could hold.
fn check_sizes(dag: &Dag) -> Result<(), OpError> {
    for tensor in &dag.tensors {
        let shape = tensor.const_shape().unwrap_or_default();
        let elements = shape.iter().try_fold(1_i64, |n, e| n.checked_mul(*e));
        if elements.is_none_or(|n| n > MAX_ELEMENTS) {
            return Err(OpError::TooLarge { tensor: tensor.name.clone(), shape, limit: MAX_ELEMENTS });
        }
    }
    Ok(())
}
