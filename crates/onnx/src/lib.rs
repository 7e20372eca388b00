//! ONNX files as graphs: decoding, operator sets, folding, and a full report of what is unsupported.
//!
//! Everything a model computes is expressed in the operators of [`talweg_tensor::Op`], in their newest meaning and
//! with all extents known. Older operator sets, compositions, functions, constant branches and loops are resolved
//! here, and whatever depends on constants only is evaluated.
//!
//! | module | holds |
//! |---|---|
//! | [`proto`] | the ONNX messages |
//! | [`options`] | how the inputs of a model are bound |
//! | [`error`] | what can go wrong, and the report of everything unsupported |
//! | `importer` | scopes, nodes, functions |
//! | `control` | `If`, `Loop` and `Scan` |
//! | `order` | the nodes that outputs need, in order |
//! | `inputs` | binding the extents of inputs |
//! | `file`, `weights` | mapped files, constants as tensors |
//! | `builder` | appending operators, with inference and folding |
//! | `call` | a node's inputs and attributes |
//! | `ops` | one file for each family of operators |

mod builder;
mod call;
mod control;
pub mod error;
mod file;
mod importer;
mod inputs;
mod ops;
pub mod options;
mod order;
pub mod proto;
mod weights;

pub use error::{ImportError, Report, UnboundInput, Unsupported};
pub use importer::{NEWEST_OPSET, import, import_bytes};
pub use options::ImportOptions;
pub use weights::read_tensor;
