//! What can be wrong with the text of a spec.

use crate::error::OpError;

/// A spec that cannot be read or built: what, where, and what to do. Columns count characters from 1.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// No operator has this name.
    #[error("unknown operator `{name}` at column {column}{suggestion}; the operators are {known}")]
    UnknownOperator {
        /// The name as written.
        name: String,
        /// Where it stands.
        column: usize,
        /// ` (did you mean ..?)`, or empty.
        suggestion: String,
        /// All names.
        known: String,
    },
    /// A piece between commas is not `name=value`.
    #[error("`{piece}` at column {column} is not `name=value`; {operator} takes {accepted}")]
    Syntax {
        /// The piece as written.
        piece: String,
        /// Where it stands.
        column: usize,
        /// The operator.
        operator: &'static str,
        /// Its parameters.
        accepted: String,
    },
    /// The operator has no such parameter.
    #[error("{operator} has no parameter `{name}` at column {column}{suggestion}; it takes {accepted}")]
    UnknownParameter {
        /// The operator.
        operator: &'static str,
        /// The name as written.
        name: String,
        /// Where it stands.
        column: usize,
        /// ` (did you mean ..?)`, or empty.
        suggestion: String,
        /// Its parameters.
        accepted: String,
    },
    /// A parameter without a default is absent.
    #[error("{operator} needs {missing}, missing from `{text}`; for example `{example}`")]
    MissingParameter {
        /// The operator.
        operator: &'static str,
        /// The names, in the table's order.
        missing: String,
        /// The text as written.
        text: String,
        /// A complete spec.
        example: &'static str,
    },
    /// A parameter is given twice.
    #[error("parameter `{name}` is given again at column {column}; keep one of the two")]
    DuplicateParameter {
        /// The name.
        name: &'static str,
        /// Where the second stands.
        column: usize,
    },
    /// A value cannot be read.
    #[error("`{name}={value}` at column {column}: `{value}` is not {expected}")]
    BadValue {
        /// The parameter.
        name: &'static str,
        /// The value as written.
        value: String,
        /// Where it stands.
        column: usize,
        /// What would be accepted.
        expected: String,
    },
    /// A link of a chain has no meaning.
    #[error(
        "unknown operation `{link}` in `{name}` at column {column}{suggestion}; the operations are {known}"
    )]
    UnknownLink {
        /// The parameter.
        name: &'static str,
        /// The link as written.
        link: String,
        /// Where it stands.
        column: usize,
        /// ` (did you mean ..?)`, or empty.
        suggestion: String,
        /// All names.
        known: String,
    },
    /// The parameters do not fit together.
    #[error("`{text}`: {source}")]
    Operator {
        /// The spec.
        text: String,
        /// Why.
        source: OpError,
    },
}
