//! The command line inside of Python, and how this program is started once more.
//!
//! Measuring happens in worker processes. Python's executable knows nothing of talweg, so they are started as Python
//! with a script that loads this module and nothing else.

use std::ffi::OsString;
use std::path::PathBuf;

use pyo3::prelude::*;
use talweg_measure::WorkerCommand;

/// Runs a command line, the program's name first, and returns its exit code.
#[pyfunction]
pub fn command_line(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    py.detach(|| talweg::cli::run(arguments))
}

/// Says which program and arguments are this program once more; arguments of the command line follow them.
#[pyfunction]
pub fn start_again_by(program: PathBuf, args: Vec<String>) {
    WorkerCommand::start_again_by(WorkerCommand { program, args });
}
