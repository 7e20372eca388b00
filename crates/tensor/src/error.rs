//! What is wrong with an operator's inputs or attributes.

use crate::op::Op;

/// Why an operator has no result: the operator, the place, what was expected and what was found.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpError {
    /// Too few or too many inputs.
    #[error("{op} takes {expected}, but {found} were given")]
    Arity {
        /// The operator.
        op: String,
        /// How many inputs it takes.
        expected: String,
        /// How many there were.
        found: usize,
    },
    /// A required input is absent.
    #[error("{op}: input {input} is absent, but it is not optional")]
    Missing {
        /// The operator.
        op: String,
        /// The input's position.
        input: usize,
    },
    /// An input has the wrong element type, rank or extents.
    #[error("{op}: input {input} must be {expected}, but it is {found}")]
    Input {
        /// The operator.
        op: String,
        /// The input's position.
        input: usize,
        /// What it should be.
        expected: String,
        /// What it is.
        found: String,
    },
    /// An attribute does not fit the inputs.
    #[error("{op}: {what}")]
    Attribute {
        /// The operator.
        op: String,
        /// What is wrong, with the values found.
        what: String,
    },
    /// An element of an input has a value that means nothing, an index out of range for example.
    #[error("{op}: input {input} holds {found}, but its elements must be {expected}")]
    Value {
        /// The operator.
        op: String,
        /// The input's position.
        input: usize,
        /// What elements may be.
        expected: String,
        /// What one of them is.
        found: String,
    },
    /// A value does not fit the address space, or the memory there is.
    #[error("{op}: {which} of shape {shape:?} is too large")]
    TooLarge {
        /// The operator.
        op: String,
        /// Which value.
        which: String,
        /// Its shape.
        shape: Vec<usize>,
    },
    /// The result's extents depend on the elements.
    #[error("{op}: the extents of the result depend on the data, so that it must be evaluated on constants")]
    DataDependent {
        /// The operator.
        op: String,
    },
}

impl OpError {
    /// An error about an element of an input.
    pub(crate) fn value(
        op: &Op,
        input: usize,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> OpError {
        OpError::Value { op: op.name(), input, expected: expected.into(), found: found.into() }
    }
}
