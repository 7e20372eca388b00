//! The operators of a network and their attributes.
//!
//! One closed set, in the meaning of the newest ONNX operator set, with everything that shapes the result as an
//! attribute: axes, extents, pads, counts. The importer resolves older operator sets, attributes that arrive as
//! constant inputs, and operators that are only a composition of these (batch, group and instance normalisation,
//! `Gemm`, `Split`, `DepthToSpace`, ...), so that everything behind it sees few and simple operators.

use serde::{Deserialize, Serialize};

use crate::element::ElementType;

/// An operator. Inputs and outputs are positional, as each variant says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Op {
    /// `y = f(x)`, element by element.
    Unary(Unary),
    /// `y = f(a, b)`, element by element, with broadcasting.
    Binary(Binary),
    /// `y = condition ? a : b`, inputs in that order, with broadcasting.
    Where,
    /// Conversion to another element type: floats to integers truncate, to `Bool` compare with zero.
    Cast {
        /// The type of the result.
        to: ElementType,
    },
    /// `y = a @ b` with numpy's rules for vectors and batches.
    MatMul,
    /// `y = conv(x, w, bias?)`; weights are `[filters, channels / groups, window...]` in either layout.
    Conv(Conv),
    /// `y = conv_transpose(x, w, bias?)`; weights are `[channels, filters / groups, window...]` in either layout.
    ConvTranspose(ConvTranspose),
    /// Sum of products by subscripts; any number of inputs.
    Einsum {
        /// Subscripts such as `bij,bjk->bik`, always with an arrow.
        equation: String,
    },
    /// A window slid over the spatial axes. `Max` with two outputs also gives the positions (ONNX `Indices`).
    Pool(Pool),
    /// A reduction over axes.
    Reduce(Reduce),
    /// The position of the largest or smallest element along an axis, as `i64`.
    ArgReduce(ArgReduce),
    /// The `k` largest or smallest elements along an axis and their positions (`i64`), in that order.
    TopK {
        /// The axis.
        axis: usize,
        /// How many.
        k: usize,
        /// The largest, or the smallest.
        largest: bool,
    },
    /// Running sum along an axis.
    CumSum {
        /// The axis.
        axis: usize,
        /// Leave out the element itself.
        exclusive: bool,
        /// From the end.
        reverse: bool,
    },
    /// `softmax`, or its logarithm, along one axis.
    Softmax {
        /// The axis.
        axis: usize,
        /// The logarithm.
        log: bool,
    },
    /// One where the (first) largest element along the axis is, zero elsewhere.
    Hardmax {
        /// The axis.
        axis: usize,
    },
    /// `y = (x - mean) / sqrt(variance + epsilon) * scale + bias?` over the axes from `axis` on; further outputs are
    /// the mean and the inverse standard deviation.
    LayerNorm {
        /// The first normalised axis.
        axis: usize,
        /// Added to the variance.
        epsilon: f32,
    },
    /// `y = x / sqrt(mean(x^2) + epsilon) * scale` over the axes from `axis` on.
    RmsNorm {
        /// The first normalised axis.
        axis: usize,
        /// Added to the mean square.
        epsilon: f32,
    },
    /// Local response normalisation across channels (axis 1).
    Lrn {
        /// Channels that are summed.
        size: usize,
        /// Scale of the sum.
        alpha: f32,
        /// The exponent.
        beta: f32,
        /// The constant added to the sum.
        bias: f32,
    },
    /// The same elements under another shape.
    Reshape {
        /// The new shape, all extents known.
        shape: Vec<usize>,
    },
    /// Axes in another order: axis `i` of the result is axis `perm[i]` of the input.
    Transpose {
        /// The order.
        perm: Vec<usize>,
    },
    /// The inputs one after the other along an axis.
    Concat {
        /// The axis.
        axis: usize,
    },
    /// A part of every axis: element `i` of the result's axis is element `begin + i * step` of the input's.
    Slice {
        /// One for each axis.
        axes: Vec<SliceAxis>,
    },
    /// Broadcast to a shape.
    Expand {
        /// The shape of the result.
        shape: Vec<usize>,
    },
    /// Repetition along every axis.
    Tile {
        /// How often, for each axis.
        repeats: Vec<usize>,
    },
    /// Elements added (or, if negative, removed) around; inputs are `x` and optionally the value.
    Pad {
        /// Before, for each axis.
        begin: Vec<i64>,
        /// After, for each axis.
        end: Vec<i64>,
        /// What they are.
        mode: PadMode,
    },
    /// Whole slices along `axis`, chosen by the integers of the second input.
    Gather {
        /// The axis.
        axis: usize,
    },
    /// Single elements along `axis`, chosen by integers of the result's shape.
    GatherElements {
        /// The axis.
        axis: usize,
    },
    /// Slices chosen by tuples of integers, the last axis of the second input.
    GatherNd {
        /// Leading axes that both inputs share.
        batch_dims: usize,
    },
    /// `x` with slices replaced: inputs are `x`, tuples of integers, updates.
    ScatterNd {
        /// How an update meets what is there.
        reduction: ScatterReduction,
    },
    /// `x` with elements replaced: inputs are `x`, integers, updates of the same shape as the integers.
    ScatterElements {
        /// The axis.
        axis: usize,
        /// How an update meets what is there.
        reduction: ScatterReduction,
    },
    /// The upper or lower triangle of the last two axes; zero elsewhere.
    Trilu {
        /// Keep the upper triangle.
        upper: bool,
        /// The diagonal it begins at.
        k: i64,
    },
    /// One at the positions of the first input's integers, along a new axis; the second input is `[off, on]`.
    OneHot {
        /// The new axis, in the result.
        axis: usize,
        /// The extent of the new axis.
        depth: usize,
    },
    /// Interpolation to another size.
    Resize(Resize),
    /// Long short-term memory: inputs and outputs as in ONNX (`X, W, R, B?, sequence_lens?, initial_h?, initial_c?,
    /// P?` to `Y, Y_h, Y_c`).
    Lstm(Recurrent),
    /// Gated recurrent unit: inputs and outputs as in ONNX (`X, W, R, B?, sequence_lens?, initial_h?` to `Y, Y_h`).
    Gru(Recurrent),
    /// Plain recurrent network: inputs and outputs as [`Op::Gru`].
    Rnn(Recurrent),
    /// `saturate(round(x / scale) + zero_point?)`.
    Quantize(Quantize),
    /// `(x - zero_point?) * scale`.
    Dequantize(Quantize),
    /// Matrix product of integers: `a, b, a_zero_point?, b_zero_point?`, giving `i32`.
    MatMulInteger,
    /// Convolution of integers: `x, w, x_zero_point?, w_zero_point?`, giving `i32`.
    ConvInteger(Conv),
    /// Boxes kept by score and overlap: inputs as in ONNX, only evaluated on constants since the number of boxes
    /// depends on the data.
    NonMaxSuppression {
        /// Boxes are given by centre and size instead of two corners.
        center_point: bool,
        /// Kept boxes for each class and batch, at most.
        max_per_class: usize,
        /// Overlap above which a box is dropped.
        iou_threshold: f32,
        /// Score a box needs.
        score_threshold: Option<f32>,
    },
    /// Positions of the elements that are not zero, `[rank, count]`; only evaluated on constants.
    NonZero,
    /// Slices along an axis (or of the flattened input) where the second input is true; only evaluated on constants.
    Compress {
        /// The axis, or none for the flattened input.
        axis: Option<usize>,
    },
}

/// Functions of one element.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum Unary {
    Identity,
    Abs,
    Neg,
    Sign,
    Reciprocal,
    Sqrt,
    Exp,
    Log,
    Ceil,
    Floor,
    /// Ties to even.
    Round,
    Sin,
    Cos,
    Tan,
    Asin,
    Acos,
    Atan,
    Sinh,
    Cosh,
    Tanh,
    Asinh,
    Acosh,
    Atanh,
    Erf,
    Not,
    BitNot,
    IsNan,
    IsInf {
        negative: bool,
        positive: bool,
    },
    Relu,
    Sigmoid,
    Softplus,
    Softsign,
    Mish,
    HardSwish,
    LeakyRelu {
        alpha: f32,
    },
    ThresholdedRelu {
        alpha: f32,
    },
    Elu {
        alpha: f32,
    },
    Celu {
        alpha: f32,
    },
    Selu {
        alpha: f32,
        gamma: f32,
    },
    HardSigmoid {
        alpha: f32,
        beta: f32,
    },
    /// By the error function, or by `tanh`.
    Gelu {
        tanh: bool,
    },
    /// `x * sigmoid(alpha * x)`.
    Swish {
        alpha: f32,
    },
    Shrink {
        bias: f32,
        lambda: f32,
    },
    /// To the range, where given. Of integers, the bounds are exact up to 2^53.
    Clip {
        min: Option<f64>,
        max: Option<f64>,
    },
}

/// Functions of two elements of one type; comparisons give `Bool`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum Binary {
    Add,
    Sub,
    Mul,
    /// Truncates towards zero for integers.
    Div,
    /// With the sign of the divisor, or of the dividend if `truncated` (C's `fmod`).
    Mod {
        truncated: bool,
    },
    /// The exponent may have another type than the base, whose type the result has.
    Pow,
    Max,
    Min,
    And,
    Or,
    Xor,
    BitAnd,
    BitOr,
    BitXor,
    ShiftLeft,
    ShiftRight,
    Equal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    /// `x < 0 ? slope * x : x`, with the slope as second operand.
    PRelu,
}

impl Binary {
    /// True when the result is `Bool` whatever the operands are.
    pub fn is_comparison(self) -> bool {
        use Binary::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual};
        matches!(self, Equal | Less | LessOrEqual | Greater | GreaterOrEqual)
    }
}

/// Where the channels of an image are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Layout {
    /// `[batch, channels, spatial...]`, as ONNX has it.
    ChannelsFirst,
    /// `[batch, spatial..., channels]`, as kernels want it.
    ChannelsLast,
}

/// The attributes of a convolution; one entry for each spatial axis.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Conv {
    /// Steps of the window.
    pub strides: Vec<usize>,
    /// Distances within the window.
    pub dilations: Vec<usize>,
    /// Zeros before.
    pub begin: Vec<usize>,
    /// Zeros after.
    pub end: Vec<usize>,
    /// Groups of channels; a depthwise convolution has as many as channels.
    pub groups: usize,
    /// The layout of the activations, in and out.
    pub layout: Layout,
}

/// The attributes of a transposed convolution; one entry for each spatial axis.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConvTranspose {
    /// Steps of the window, in the result.
    pub strides: Vec<usize>,
    /// Distances within the window.
    pub dilations: Vec<usize>,
    /// Elements cut before; negative adds.
    pub begin: Vec<i64>,
    /// Elements cut after; negative adds. The output padding is resolved into it.
    pub end: Vec<i64>,
    /// Groups of channels.
    pub groups: usize,
    /// The layout of the activations, in and out.
    pub layout: Layout,
}

/// What a pooling window computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PoolKind {
    /// The largest element.
    Max,
    /// The mean of the elements, `count_pad` counting those of the padding.
    Average {
        /// Count the padding.
        count_pad: bool,
    },
    /// The p-norm.
    Lp {
        /// The exponent.
        p: u32,
    },
}

/// The attributes of a pooling; one entry for each spatial axis.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pool {
    /// What the window computes.
    pub kind: PoolKind,
    /// The window.
    pub window: Vec<usize>,
    /// Steps of the window.
    pub strides: Vec<usize>,
    /// Distances within the window.
    pub dilations: Vec<usize>,
    /// Padding before.
    pub begin: Vec<usize>,
    /// Padding after, as the model gives it.
    pub end: Vec<usize>,
    /// Round the number of windows up instead of down; a window that would start in the padding after does not count.
    pub ceil: bool,
    /// Positions count columns first (ONNX `storage_order`).
    pub column_major: bool,
    /// The layout of the activations, in and out.
    pub layout: Layout,
}

/// What a reduction computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum ReduceKind {
    Sum,
    Mean,
    Prod,
    Max,
    Min,
    L1,
    L2,
    SumSquare,
    LogSum,
    LogSumExp,
}

/// A reduction over axes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reduce {
    /// What it computes.
    pub kind: ReduceKind,
    /// The axes, ascending, resolved (never "all" by being empty; empty means none).
    pub axes: Vec<usize>,
    /// Keep the axes with extent one.
    pub keep: bool,
}

/// The position of an extreme element.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ArgReduce {
    /// The largest, or the smallest.
    pub largest: bool,
    /// The axis.
    pub axis: usize,
    /// Keep the axis with extent one.
    pub keep: bool,
    /// Of several, the last.
    pub last: bool,
}

/// A part of one axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SliceAxis {
    /// The first element.
    pub begin: usize,
    /// The distance to the next, not zero; negative goes backwards.
    pub step: i64,
    /// How many.
    pub count: usize,
}

/// What padding is filled with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PadMode {
    /// The value of the second input, or zero.
    Constant,
    /// The nearest element.
    Edge,
    /// Mirrored without repeating the border.
    Reflect,
    /// From the other side.
    Wrap,
}

/// How an update meets what is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum ScatterReduction {
    Replace,
    Add,
    Mul,
    Max,
    Min,
}

/// Interpolation to another size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Resize {
    /// How values between elements come about.
    pub mode: ResizeMode,
    /// How a position of the result maps to one of the input.
    pub coordinates: Coordinates,
    /// The shape of the result, all axes.
    pub shape: Vec<usize>,
    /// The scale of every axis; what the model gave, which need not be the quotient of the extents.
    pub scales: Vec<f32>,
    /// The region of interest, begins then ends, for [`Coordinates::CropAndResize`]; empty otherwise.
    pub roi: Vec<f32>,
    /// The value outside, for [`Coordinates::CropAndResize`].
    pub extrapolation: f32,
    /// Widen the filter when shrinking.
    pub antialias: bool,
    /// Leave weights outside out and renormalise.
    pub exclude_outside: bool,
}

/// How values between elements come about.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum ResizeMode {
    /// The nearest element, by a rounding rule.
    Nearest(NearestRule),
    /// Linear along every axis.
    Linear,
    /// Cubic along every axis.
    Cubic {
        /// The coefficient, usually -0.75.
        a: f32,
    },
}

/// Which element is nearest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum NearestRule {
    RoundPreferFloor,
    RoundPreferCeil,
    Floor,
    Ceil,
}

/// How a position of the result maps to one of the input, as ONNX names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum Coordinates {
    HalfPixel,
    HalfPixelSymmetric,
    PytorchHalfPixel,
    AlignCorners,
    Asymmetric,
    CropAndResize,
}

/// A recurrent layer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Recurrent {
    /// The size of the state.
    pub hidden: usize,
    /// Which way time runs.
    pub direction: Direction,
    /// The activation functions, in ONNX's order, for every direction.
    pub activations: Vec<Activation>,
    /// Limit on what the activations see.
    pub clip: Option<f32>,
    /// Axis 0 is the batch instead of time (ONNX `layout = 1`).
    pub batch_first: bool,
    /// GRU: the linear transformation comes before the reset gate is applied.
    pub linear_before_reset: bool,
    /// LSTM: couple the input and forget gates.
    pub input_forget: bool,
}

/// Which way time runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum Direction {
    Forward,
    Reverse,
    Bidirectional,
}

/// An activation function of a recurrent layer.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum Activation {
    Unary(Unary),
    /// `alpha * x + beta`.
    Affine {
        alpha: f32,
        beta: f32,
    },
    /// `alpha * tanh(beta * x)`.
    ScaledTanh {
        alpha: f32,
        beta: f32,
    },
}

/// Linear quantisation; inputs are `x, scale, zero_point?`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quantize {
    /// The axis that the scale belongs to, if it is not a scalar.
    pub axis: usize,
    /// Elements along the axis that share a scale; 0 for one scale for each position.
    pub block: usize,
    /// The type of the result.
    pub to: ElementType,
}

impl Op {
    /// The operator's name in messages and tables.
    pub fn name(&self) -> String {
        let text = format!("{self:?}");
        match self {
            Op::Unary(_) | Op::Binary(_) => {
                let inner = text.split_once('(').map_or("", |(_, inner)| inner);
                inner.split([' ', '{', ')']).next().unwrap_or("").to_string()
            }
            _ => text.split([' ', '(', '{']).next().unwrap_or("").to_string(),
        }
    }
}
