//! The operators: one entry each, with parameters, defaults, ranges and help.

use std::sync::LazyLock;

use talweg_ir::DType;

use super::Value;
use crate::window::{MAX_EXTENT, MAX_WINDOW, spatial_letters};

/// An operator as the command line knows it.
#[derive(Debug)]
pub struct OperatorInfo {
    /// What a spec begins with.
    pub name: &'static str,
    /// What it computes, in one line.
    pub help: &'static str,
    /// A complete spec.
    pub example: &'static str,
    /// Its parameters, in canonical order.
    pub params: Vec<ParamInfo>,
    pub(crate) kind: Kind,
}

impl PartialEq for OperatorInfo {
    fn eq(&self, other: &OperatorInfo) -> bool {
        self.name == other.name
    }
}

/// A parameter of an operator.
#[derive(Debug)]
pub struct ParamInfo {
    /// Its name.
    pub name: &'static str,
    /// What it means, in a few words.
    pub help: &'static str,
    /// What values it takes.
    pub kind: ParamKind,
    /// What it is when left out.
    pub fallback: Fallback,
}

/// What values a parameter takes.
#[derive(Debug)]
pub enum ParamKind {
    /// Whole numbers, both ends included.
    Int {
        /// Smallest.
        min: i64,
        /// Largest.
        max: i64,
    },
    /// Real numbers, both ends included.
    Real {
        /// Smallest.
        min: f64,
        /// Largest.
        max: f64,
    },
    /// One of these words.
    Word(&'static [&'static str]),
    /// One of these element types.
    Type(&'static [DType]),
    /// Elementwise operations joined by `+`.
    Chain,
}

/// What a parameter is when left out.
#[derive(Debug)]
pub enum Fallback {
    /// It must be given.
    Required,
    /// A fixed value.
    Value(Value),
    /// The value of another parameter.
    Same(&'static str),
}

/// How the operator is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Matmul,
    BatchMatmul,
    Conv(usize),
    Depthwise,
    Separable,
    ConvTranspose(usize),
    Pool(usize),
    MaxPool,
    AveragePool,
    GlobalAveragePool,
    Softmax,
    LayerNorm,
    RmsNorm,
    Reduce,
    Elementwise,
}

/// Types of contractions.
const CONTRACTION: &[DType] =
    &[DType::F32, DType::F16, DType::BF16, DType::I8, DType::U8, DType::I32, DType::I64];
/// Types of operators that need division or transcendental functions.
const FLOATS: &[DType] = &[DType::F32, DType::F16, DType::BF16];
/// Types of operators that keep their input's type.
const NUMBERS: &[DType] = &[DType::F32, DType::F16, DType::BF16, DType::I32, DType::I64];

/// All operators.
pub fn operators() -> &'static [OperatorInfo] {
    &OPERATORS
}

static OPERATORS: LazyLock<Vec<OperatorInfo>> = LazyLock::new(|| {
    vec![
        entry(
            "matmul",
            "C[i, j] = sum[k] A[i, k] * B[k, j]; B is a constant unless rhs=input",
            "matmul:m=1024,n=1024,k=1024",
            Kind::Matmul,
            vec![
                extent("m", "rows of A"),
                extent("n", "columns of B"),
                extent("k", "reduction"),
                flag("tb", "B is given transposed, [n, k]"),
                word("rhs", "whether B is known at build time", &["const", "input"]),
                chain("epilogue"),
                dtype(CONTRACTION),
            ],
        ),
        entry(
            "bmm",
            "C[b, i, j] = sum[k] A[b, i, k] * B[b, k, j]; both are inputs",
            "bmm:b=12,m=128,n=128,k=64",
            Kind::BatchMatmul,
            vec![
                extent("b", "batch"),
                extent("m", "rows of A"),
                extent("n", "columns of B"),
                extent("k", "reduction"),
                flag("tb", "B is given transposed, [b, n, k]"),
                chain("epilogue"),
                dtype(CONTRACTION),
            ],
        ),
        convolution("conv1d", "convolution over [n, w, c]", "conv1d:w=128,c=64,f=64,k=3,p=1", Kind::Conv(1)),
        convolution(
            "conv2d",
            "convolution over [n, h, w, c]",
            "conv2d:n=1,h=56,w=56,c=64,f=64,k=3,s=1,p=1,epilogue=bias+relu",
            Kind::Conv(2),
        ),
        convolution(
            "conv3d",
            "convolution over [n, d, h, w, c]",
            "conv3d:n=1,d=8,h=28,w=28,c=64,f=64,k=3,s=1,p=1",
            Kind::Conv(3),
        ),
        convolution(
            "depthwise",
            "convolution over [n, h, w, c] with one filter for each channel",
            "depthwise:n=1,h=112,w=112,c=32,k=3,s=1,p=1",
            Kind::Depthwise,
        ),
        convolution(
            "separable",
            "convolution over [n, h, w, c] with one filter for each channel, then a product with f filters at every place",
            "separable:n=1,h=56,w=56,c=144,f=24,k=3,s=1,p=1,middle=bias+relu6,epilogue=bias",
            Kind::Separable,
        ),
        convolution(
            "conv1d_transpose",
            "transposed convolution over [n, w, c]",
            "conv1d_transpose:w=64,c=64,f=32,k=4,s=2,p=1",
            Kind::ConvTranspose(1),
        ),
        convolution(
            "conv2d_transpose",
            "transposed convolution over [n, h, w, c]",
            "conv2d_transpose:n=1,h=4,w=4,c=512,f=256,k=4,s=2,p=1",
            Kind::ConvTranspose(2),
        ),
        convolution(
            "conv3d_transpose",
            "transposed convolution over [n, d, h, w, c]",
            "conv3d_transpose:d=4,h=8,w=8,c=64,f=32,k=2,s=2",
            Kind::ConvTranspose(3),
        ),
        pooling("pool1d", "pooling over [n, w, c]", "pool1d:kind=max,w=128,c=64,k=2,s=2", Kind::Pool(1)),
        pooling(
            "pool2d",
            "pooling over [n, h, w, c]",
            "pool2d:kind=max,h=112,w=112,c=64,k=3,s=2,p=1",
            Kind::Pool(2),
        ),
        pooling(
            "pool3d",
            "pooling over [n, d, h, w, c]",
            "pool3d:kind=max,d=8,h=28,w=28,c=64,k=2,s=2",
            Kind::Pool(3),
        ),
        pooling("maxpool", "max pooling over [n, h, w, c]", "maxpool:h=56,w=56,c=64,k=2,s=2", Kind::MaxPool),
        pooling(
            "avgpool",
            "average pooling over [n, h, w, c]",
            "avgpool:h=56,w=56,c=64,k=2,s=2",
            Kind::AveragePool,
        ),
        entry(
            "global_avgpool",
            "mean over h and w of [n, h, w, c]",
            "global_avgpool:h=7,w=7,c=2048",
            Kind::GlobalAveragePool,
            vec![
                one("n", "batch"),
                extent("h", "height"),
                extent("w", "width"),
                extent("c", "channels"),
                dtype(NUMBERS),
            ],
        ),
        entry(
            "softmax",
            "exp(x - max) / sum along rows",
            "softmax:rows=1536,n=128",
            Kind::Softmax,
            vec![extent("rows", "rows"), extent("n", "columns"), dtype(FLOATS)],
        ),
        entry(
            "layernorm",
            "(x - mean) * rsqrt(variance + eps) * scale + bias along rows",
            "layernorm:rows=128,n=768",
            Kind::LayerNorm,
            vec![extent("rows", "rows"), extent("n", "columns"), epsilon(), dtype(FLOATS)],
        ),
        entry(
            "rmsnorm",
            "x * rsqrt(mean of squares + eps) * scale along rows",
            "rmsnorm:rows=128,n=4096",
            Kind::RmsNorm,
            vec![extent("rows", "rows"), extent("n", "columns"), epsilon(), dtype(FLOATS)],
        ),
        entry(
            "reduce",
            "sum, mean, max, min or product along rows",
            "reduce:op=sum,rows=1024,n=1024",
            Kind::Reduce,
            vec![
                word("op", "what to compute", &["sum", "mean", "max", "min", "prod"]),
                extent("rows", "rows"),
                extent("n", "columns"),
                dtype(CONTRACTION),
            ],
        ),
        entry(
            "elementwise",
            "a chain of operations on every element of [rows, n]",
            "elementwise:n=65536,chain=add+mul+relu",
            Kind::Elementwise,
            vec![
                one("rows", "rows; 1 gives a vector"),
                extent("n", "elements of a row"),
                ParamInfo {
                    name: "chain",
                    help: "operations joined by `+`; binary ones bring an input of their own",
                    kind: ParamKind::Chain,
                    fallback: Fallback::Required,
                },
                dtype(NUMBERS),
            ],
        ),
    ]
});

fn entry(
    name: &'static str,
    help: &'static str,
    example: &'static str,
    kind: Kind,
    params: Vec<ParamInfo>,
) -> OperatorInfo {
    OperatorInfo { name, help, example, params, kind }
}

fn convolution(name: &'static str, help: &'static str, example: &'static str, kind: Kind) -> OperatorInfo {
    let rank = match kind {
        Kind::Conv(rank) | Kind::ConvTranspose(rank) => rank,
        _ => 2,
    };
    let mut params = images(rank);
    if kind != Kind::Depthwise {
        params.push(extent("f", "output channels"));
    }
    params.extend(windows(rank));
    match kind {
        Kind::Conv(_) => {
            params.push(ParamInfo {
                name: "g",
                help: "groups; divides c and f",
                kind: ParamKind::Int { min: 1, max: MAX_EXTENT },
                fallback: Fallback::Value(Value::Int(1)),
            });
            params.push(block("block", Fallback::Value(Value::Int(0))));
            let help = "the same for the output";
            params.push(ParamInfo { help, ..block("fblock", Fallback::Same("block")) });
        }
        Kind::Depthwise => params.push(block("block", Fallback::Value(Value::Int(0)))),
        Kind::ConvTranspose(_) => {
            params.push(window("op", "output padding, every axis", 0, Fallback::Value(Value::Int(0))));
            let names: &[&'static str] = &["opd", "oph", "opw"];
            for name in &names[3 - rank..] {
                params.push(window(name, "output padding along one axis", 0, Fallback::Same("op")));
            }
            let help = "phases without guards (weights zero-padded to a multiple of the stride; guarded when both \
                        stride and dilation exceed 1), or guarded reads";
            params.push(word("form", help, &["phased", "guarded"]));
        }
        Kind::Separable => params.push(ParamInfo { help: "operations between the two", ..chain("middle") }),
        _ => {}
    }
    params.push(chain("epilogue"));
    params.push(dtype(CONTRACTION));
    entry(name, help, example, kind, params)
}

fn pooling(name: &'static str, help: &'static str, example: &'static str, kind: Kind) -> OperatorInfo {
    let rank = match kind {
        Kind::Pool(rank) => rank,
        _ => 2,
    };
    let mut params = Vec::new();
    if let Kind::Pool(_) = kind {
        params.push(word("kind", "how a window becomes one value", &["max", "avg"]));
    }
    params.extend(images(rank));
    params.extend(windows(rank));
    if kind != Kind::MaxPool {
        params.push(flag("count_include_pad", "whether averages count padding"));
    }
    params.push(dtype(NUMBERS));
    entry(name, help, example, kind, params)
}

/// Batch, spatial extents and channels.
fn images(rank: usize) -> Vec<ParamInfo> {
    let mut params = vec![one("n", "batch")];
    for letter in spatial_letters(rank) {
        params.push(extent(letter, "input extent along one axis"));
    }
    params.push(extent("c", "input channels"));
    params
}

/// Kernel, stride, dilation and padding: one for all axes, then one for each.
fn windows(rank: usize) -> Vec<ParamInfo> {
    let one = || Fallback::Value(Value::Int(1));
    let zero = || Fallback::Value(Value::Int(0));
    let axis = 3 - rank;
    let mut params = vec![window("k", "kernel, every axis", 1, Fallback::Required)];
    let each = |names: [&'static str; 3], help, min, all: &'static str| -> Vec<ParamInfo> {
        names[axis..].iter().map(|n| window(n, help, min, Fallback::Same(all))).collect()
    };
    let kernels = each(["kd", "kh", "kw"], "kernel along one axis", 1, "k");
    let strides = each(["sd", "sh", "sw"], "stride along one axis", 1, "s");
    let dilations = each(["dd", "dh", "dw"], "dilation along one axis", 1, "dil");
    let before = each(["pf", "pt", "pl"], "padding before the front, top or left", 0, "p");
    let after = each(["pk", "pb", "pr"], "padding behind the back, bottom or right", 0, "p");
    params.extend(kernels);
    params.push(window("s", "stride, every axis", 1, one()));
    params.extend(strides);
    params.push(window("dil", "dilation, every axis", 1, one()));
    params.extend(dilations);
    params.push(window("p", "padding, every side", 0, zero()));
    params.extend(before);
    params.extend(after);
    params
}

fn extent(name: &'static str, help: &'static str) -> ParamInfo {
    ParamInfo { name, help, kind: ParamKind::Int { min: 1, max: MAX_EXTENT }, fallback: Fallback::Required }
}

fn one(name: &'static str, help: &'static str) -> ParamInfo {
    ParamInfo { fallback: Fallback::Value(Value::Int(1)), ..extent(name, help) }
}

fn window(name: &'static str, help: &'static str, min: i64, fallback: Fallback) -> ParamInfo {
    ParamInfo { name, help, kind: ParamKind::Int { min, max: MAX_WINDOW }, fallback }
}

fn block(name: &'static str, fallback: Fallback) -> ParamInfo {
    let help = "channels of a block, as [n, c / block, h, w, block]; 0 for channels last";
    ParamInfo { name, help, kind: ParamKind::Int { min: 0, max: MAX_EXTENT }, fallback }
}

fn flag(name: &'static str, help: &'static str) -> ParamInfo {
    ParamInfo {
        name,
        help,
        kind: ParamKind::Int { min: 0, max: 1 },
        fallback: Fallback::Value(Value::Int(0)),
    }
}

/// The first word is the default.
fn word(name: &'static str, help: &'static str, words: &'static [&'static str]) -> ParamInfo {
    ParamInfo { name, help, kind: ParamKind::Word(words), fallback: Fallback::Value(Value::Word(words[0])) }
}

fn chain(name: &'static str) -> ParamInfo {
    ParamInfo {
        name,
        help: "operations on the result, joined by `+`",
        kind: ParamKind::Chain,
        fallback: Fallback::Value(Value::Chain(Vec::new())),
    }
}

fn dtype(types: &'static [DType]) -> ParamInfo {
    ParamInfo {
        name: "dtype",
        help: "element type; half floats accumulate in f32, bytes in i32",
        kind: ParamKind::Type(types),
        fallback: Fallback::Value(Value::Type(DType::F32)),
    }
}

fn epsilon() -> ParamInfo {
    ParamInfo {
        name: "eps",
        help: "added before the square root",
        kind: ParamKind::Real { min: 0.0, max: 1.0 },
        fallback: Fallback::Value(Value::Real(1e-5)),
    }
}
