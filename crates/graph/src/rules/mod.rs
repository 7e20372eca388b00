//! The rules, one for each file. A rule looks at one node, the last of what it replaces, and says what stands there
//! instead. Order matters little: rules run until none applies.

mod bias_into_conv;
mod cancel_identity;
mod channels_last;
mod common_subexpressions;
mod div_by_constant;
mod fold_constants;
mod gather_as_slice;
mod gelu;
mod hoist_scale;
mod layer_norm;
mod merge_movements;
mod merge_products;
mod merge_scales;
mod pad_into_conv;
mod pixel_transposed;
mod rms_norm;
mod scale_into_weights;
mod silu;
mod sink_reshape;
mod sink_transpose;
mod square;
mod transpose_as_reshape;
mod transpose_through_reshape;

use crate::graph::NodeId;
use crate::rewrite::{Context, Edit};

/// A rewriting rule.
#[derive(Clone, Copy)]
pub(crate) struct Rule {
    /// Its name in reports and errors.
    pub name: &'static str,
    /// What to do about a node, when the rule applies.
    pub apply: fn(&mut Context<'_>, NodeId) -> Option<Edit>,
}

macro_rules! rules {
    ($($name:ident),* $(,)?) => {
        &[$(Rule { name: stringify!($name), apply: $name::apply }),*]
    };
}

/// Rules that hold in any layout.
pub(crate) const SIMPLIFY: &[Rule] = rules![
    fold_constants,
    cancel_identity,
    common_subexpressions,
    merge_movements,
    transpose_as_reshape,
    gather_as_slice,
    div_by_constant,
    square,
    merge_scales,
    layer_norm,
    rms_norm,
    gelu,
    silu,
    pad_into_conv,
    scale_into_weights,
    bias_into_conv,
    hoist_scale,
    sink_reshape,
];

/// Rules that move images to channels last, and transposes out of the way.
pub(crate) const LAYOUT: &[Rule] =
    rules![pixel_transposed, channels_last, sink_transpose, transpose_through_reshape];

/// Rules for a graph that has its final form: they hide products from the others.
pub(crate) const MERGE: &[Rule] = rules![merge_products];
