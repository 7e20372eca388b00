//! Exceptions, with the texts of the command line.

use std::fmt::Display;

use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use talweg::commands::Failure;

pyo3::create_exception!(talweg, Error, PyException, "Whatever talweg refuses or fails at.");
pyo3::create_exception!(talweg, InputError, Error, "Bad input: the text says what to change.");
pyo3::create_exception!(talweg, WorkError, Error, "Good input could not be worked on.");

/// The user must change the input.
pub fn input(error: impl Display) -> PyErr {
    InputError::new_err(error.to_string())
}

/// Something went wrong while working on good input.
pub fn work(error: impl Display) -> PyErr {
    WorkError::new_err(error.to_string())
}

/// A failure of the command line as an exception.
pub fn raised(failure: Failure) -> PyErr {
    match failure {
        Failure::Input(text) => InputError::new_err(text),
        Failure::Work(text) | Failure::Differs(text) => WorkError::new_err(text),
    }
}
