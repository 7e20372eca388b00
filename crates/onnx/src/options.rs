//! What the caller says about a model's inputs.

use std::collections::BTreeMap;

use talweg_tensor::Tensor;

/// How the inputs of a model are bound.
#[derive(Clone, Debug, Default)]
pub struct ImportOptions {
    /// Whole shapes by input name (`--shape x=1,3,224,224`).
    pub shapes: BTreeMap<String, Vec<usize>>,
    /// Named dimensions (`--dim batch=1`).
    pub dims: BTreeMap<String, usize>,
    /// Inputs that become constants, for those that determine shapes.
    pub fixed: BTreeMap<String, Tensor>,
}
