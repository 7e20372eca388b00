//! The native half of the Python package `talweg`; the other half is `python/talweg`.
//!
//! | module | holds |
//! |---|---|
//! | `error` | exceptions, with the texts of the command line |
//! | `arrays` | NumPy arrays as inputs and outputs, without copies where that is possible |
//! | `model` | a loaded model that runs |
//! | `network` | ONNX files: imported, compiled |
//! | `tune` | tuning, with progress and Ctrl-C |
//! | `event` | what happens while tuning, as dictionaries |
//! | `operator` | operators by SPEC or tensor expression, their loop nests |
//! | `space` | sketches and candidates |
//! | `rule` | sketch rules and templates that are written in Python |
//! | `extension` | strategies and cost models that are written in Python |
//! | `start` | the command line, and how this program is started once more |

mod arrays;
mod error;
mod event;
mod extension;
mod model;
mod network;
mod operator;
mod rule;
mod space;
mod start;
mod tune;

use pyo3::prelude::*;

/// The module `talweg._native`.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("Error", py.get_type::<error::Error>())?;
    module.add("InputError", py.get_type::<error::InputError>())?;
    module.add("WorkError", py.get_type::<error::WorkError>())?;
    module.add_class::<model::Model>()?;
    module.add_class::<operator::Operator>()?;
    module.add_class::<space::Space>()?;
    module.add_class::<space::Sketch>()?;
    module.add_class::<space::Candidate>()?;
    module.add_class::<rule::SketchState>()?;
    module.add_function(wrap_pyfunction!(network::load, module)?)?;
    module.add_function(wrap_pyfunction!(network::compile, module)?)?;
    module.add_function(wrap_pyfunction!(tune::tune, module)?)?;
    module.add_function(wrap_pyfunction!(start::command_line, module)?)?;
    module.add_function(wrap_pyfunction!(start::start_again_by, module)?)?;
    Ok(())
}
