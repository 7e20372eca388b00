//! What can go wrong while importing, and the report of everything that is unsupported.

use std::fmt;
use std::path::PathBuf;

use talweg_graph::GraphError;

/// Why a model could not be imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// A file could not be read.
    #[error("cannot read `{}`: {source}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The bytes are not an ONNX model.
    #[error("not a valid ONNX model: {0}; the file is truncated, damaged, or of another format")]
    Malformed(String),
    /// A constant's data is wrong.
    #[error("constant `{tensor}`: {reason}")]
    Weights {
        /// The constant.
        tensor: String,
        /// What is wrong.
        reason: String,
    },
    /// A constant's external data cannot be used.
    #[error("constant `{tensor}`: external data `{location}`: {reason}")]
    ExternalData {
        /// The constant.
        tensor: String,
        /// The file it names.
        location: String,
        /// What is wrong.
        reason: String,
    },
    /// Inputs have extents that nothing binds.
    #[error("the model has dynamic dimensions:{}\nbind them with {}", bullets(.0), flags(.0))]
    UnboundDimensions(Vec<UnboundInput>),
    /// The options do not fit the model.
    #[error("{0}")]
    Options(String),
    /// Nodes depend on each other in a circle.
    #[error("the graph is cyclic: {}; the model is damaged", .nodes.iter().map(|n| format!("`{n}`")).collect::<Vec<_>>().join(" -> "))]
    Cycle {
        /// The nodes of one circle, in order.
        nodes: Vec<String>,
    },
    /// A node or an output reads a value that does not exist.
    #[error(
        "{reader} reads `{value}`, which is not an input, a constant or any node's output; the model is damaged"
    )]
    Undefined {
        /// The node or output.
        reader: String,
        /// The name of the value.
        value: String,
    },
    /// Two nodes write one value.
    #[error("`{value}` is written twice, the second time by node `{node}`; the model is damaged")]
    WrittenTwice {
        /// The second writer.
        node: String,
        /// The value.
        value: String,
    },
    /// A node contradicts its operator's definition.
    #[error("node `{node}` ({op}): {reason}")]
    Node {
        /// The node.
        node: String,
        /// Its operator.
        op: String,
        /// What is wrong.
        reason: String,
    },
    /// The model asks for more than the importer allows.
    #[error("the model is too large: {0}")]
    Limit(String),
    /// Parts of the model are unsupported: all of them.
    #[error("{0}")]
    Unsupported(Report),
    /// The imported graph is not well formed: a defect of the importer.
    #[error("the imported graph is not well formed: {0}; please report this")]
    Graph(#[from] GraphError),
}

/// An input of the model with extents that nothing binds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnboundInput {
    /// The input.
    pub name: String,
    /// Its extents: numbers, names, or `?`. Absent if the model does not even give the rank.
    pub shape: Option<Vec<String>>,
    /// The named dimensions among them that nothing binds.
    pub dims: Vec<String>,
    /// True when naming dimensions does not suffice.
    pub needs_shape: bool,
}

fn bullets(inputs: &[UnboundInput]) -> String {
    let line = |input: &UnboundInput| match &input.shape {
        Some(shape) => format!("\n  input `{}` has shape [{}]", input.name, shape.join(", ")),
        None => format!("\n  input `{}` has no shape", input.name),
    };
    inputs.iter().map(line).collect()
}

fn flags(inputs: &[UnboundInput]) -> String {
    let mut flags: Vec<String> = Vec::new();
    for input in inputs {
        if input.needs_shape {
            let shape = input.shape.clone().unwrap_or_else(|| vec!["...".into()]);
            let extents: Vec<String> =
                shape.into_iter().map(|e| if e == "?" { "N".into() } else { e }).collect();
            flags.push(format!("--shape {}={}", input.name, extents.join(",")));
        } else {
            flags.extend(input.dims.iter().map(|dim| format!("--dim {dim}=N")));
        }
    }
    let mut distinct: Vec<String> = Vec::new();
    for flag in flags {
        if !distinct.contains(&flag) {
            distinct.push(flag);
        }
    }
    distinct.join(" ")
}

/// Everything in a model that is unsupported.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// One entry for each node, in the model's order.
    pub items: Vec<Unsupported>,
}

/// One thing that is unsupported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unsupported {
    /// The operator, or `input` or `constant`.
    pub op: String,
    /// The node, or the input's or constant's name.
    pub node: String,
    /// Why it is unsupported.
    pub reason: String,
    /// What the user can do.
    pub remedy: String,
    /// True when a shape depends on data that is not constant, so that fixing inputs would help.
    pub data_dependent: bool,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let s = if self.items.len() == 1 { "" } else { "s" };
        write!(f, "{} part{s} of the model unsupported:", self.items.len())?;
        for item in &self.items {
            write!(f, "\n  {} `{}`: {}; {}", item.op, item.node, item.reason, item.remedy)?;
        }
        Ok(())
    }
}

/// Why one node could not be translated; the importer adds the node's name.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The node is legal, but the importer cannot express it.
    Unsupported {
        /// Why.
        reason: String,
        /// What the user can do.
        remedy: String,
        /// A shape depends on data.
        data_dependent: bool,
    },
    /// The node contradicts its operator's definition.
    Invalid(String),
    /// Importing cannot go on.
    Fatal(ImportError),
}

impl Failure {
    pub(crate) fn unsupported(reason: impl Into<String>, remedy: impl Into<String>) -> Failure {
        Failure::Unsupported { reason: reason.into(), remedy: remedy.into(), data_dependent: false }
    }

    /// `what` must be a constant and is computed from an input of the model.
    pub(crate) fn data_dependent(what: impl fmt::Display) -> Failure {
        Failure::Unsupported {
            reason: format!("{what} depends on data that is known only at run time"),
            remedy: "give the input that determines it a fixed value".into(),
            data_dependent: true,
        }
    }

    pub(crate) fn invalid(reason: impl Into<String>) -> Failure {
        Failure::Invalid(reason.into())
    }
}

impl From<ImportError> for Failure {
    fn from(error: ImportError) -> Failure {
        Failure::Fatal(error)
    }
}
