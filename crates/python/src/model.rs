//! A loaded model that runs on NumPy arrays.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use talweg_runtime::model::{Model as Loaded, RunError, Session, SessionOptions};

use crate::arrays::{PyPort, pointer};
use crate::error::{input, work};

/// A compiled model with memory and threads of its own.
#[pyclass(frozen, module = "talweg")]
pub struct Model {
    model: Arc<Loaded>,
    session: Mutex<Session>,
    inputs: Vec<PyPort>,
    outputs: Vec<PyPort>,
    threads: usize,
}

/// Pointers that go with the interpreter's lock released.
struct Pointers {
    inputs: Vec<*const u8>,
    outputs: Vec<*mut u8>,
}

// SAFETY: the pointers lead into arrays that the caller of the run keeps alive; they are only passed on.
unsafe impl Send for Pointers {}

impl Model {
    /// Memory and threads for a model.
    pub fn new(py: Python<'_>, model: Arc<Loaded>, threads: usize) -> PyResult<Model> {
        let session = py.detach(|| Session::new(model.clone(), &SessionOptions { threads, pin: false }));
        let manifest = model.manifest();
        let ports = |ports: &[talweg_runtime::model::Port]| {
            ports.iter().map(|port| PyPort::new(py, port)).collect::<PyResult<Vec<_>>>()
        };
        let (inputs, outputs) = (ports(&manifest.inputs)?, ports(&manifest.outputs)?);
        let session = Mutex::new(session.map_err(work)?);
        Ok(Model { session, inputs, outputs, threads, model })
    }

    /// Runs on what is fed and gives all outputs, in order.
    fn outputs<'py>(&self, py: Python<'py>, feed: &Bound<'py, PyDict>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let mut kept = Vec::with_capacity(self.inputs.len());
        let mut pointers = Pointers {
            inputs: Vec::with_capacity(self.inputs.len()),
            outputs: Vec::with_capacity(self.outputs.len()),
        };
        for port in &self.inputs {
            let Some(value) = feed.get_item(port.name.bind(py))? else { return Err(self.misnamed(py, feed)) };
            let array = port.given(&value)?;
            pointers.inputs.push(pointer(&array).cast_const());
            kept.push(array);
        }
        if feed.len() != self.inputs.len() {
            return Err(self.misnamed(py, feed));
        }
        let mut arrays = Vec::with_capacity(self.outputs.len());
        for port in &self.outputs {
            let (array, memory) = port.empty(py)?;
            pointers.outputs.push(memory);
            arrays.push(array);
        }
        py.detach(move || {
            let Pointers { inputs, outputs } = { pointers };
            let mut session = self.session.lock().unwrap_or_else(PoisonError::into_inner);
            // SAFETY: `given` and `empty` made sure of type, shape and contiguity; the arrays live in `kept` and `arrays`
            // until after the run, and those of outputs are new.
            unsafe { session.run_on(&inputs, &outputs) }
        })
        .map_err(input)?;
        drop(kept);
        Ok(arrays)
    }

    fn names(&self) -> String {
        self.inputs.iter().map(|port| format!("`{}`", port.name)).collect::<Vec<_>>().join(", ")
    }

    /// What is wrong with the names: one that the model does not have, or one that is missing.
    fn misnamed(&self, py: Python<'_>, feed: &Bound<'_, PyDict>) -> PyErr {
        let is_known = |key: &Bound<'_, PyAny>| {
            self.inputs.iter().any(|port| key.eq(port.name.bind(py)).unwrap_or(false))
        };
        let names = self.names();
        match feed.keys().iter().find(|key| !is_known(key)) {
            Some(stranger) => input(RunError::NoInput { name: stranger.to_string(), names }),
            None => input(RunError::InputCount { wanted: self.inputs.len(), names, given: feed.len() }),
        }
    }
}

/// Any mapping as a dictionary.
fn dictionary<'py>(feed: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyDict>> {
    if let Ok(dict) = feed.cast::<PyDict>() {
        return Ok(dict.clone());
    }
    let py = feed.py();
    let made = py.get_type::<PyDict>().call1((feed,));
    let made = made.map_err(|_| input("inputs are given as a dictionary from names to arrays"))?;
    Ok(made.cast_into::<PyDict>()?)
}

#[pymethods]
impl Model {
    /// Runs on a dictionary from names to arrays, and gives one.
    fn run<'py>(&self, py: Python<'py>, feed: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyDict>> {
        let arrays = self.outputs(py, &dictionary(feed)?)?;
        let out = PyDict::new(py);
        for (port, array) in self.outputs.iter().zip(arrays) {
            out.set_item(port.name.bind(py), array)?;
        }
        Ok(out)
    }

    /// Runs and gives the named outputs, all of them without names, as a list.
    #[pyo3(signature = (output_names, feed))]
    fn run_list<'py>(
        &self,
        py: Python<'py>,
        output_names: Option<Vec<String>>,
        feed: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyList>> {
        let arrays = match output_names.filter(|names| !names.is_empty()) {
            None => self.outputs(py, &dictionary(feed)?)?,
            Some(names) => {
                let mut places = Vec::with_capacity(names.len());
                for name in &names {
                    let is_this = |port: &PyPort| *port.name.bind(py) == name.as_str();
                    places.push(self.outputs.iter().position(is_this).ok_or_else(|| {
                        let all = self.outputs.iter().map(|port| format!("`{}`", port.name));
                        let all = all.collect::<Vec<_>>().join(", ");
                        input(format!("the model has no output `{name}`; it has {all}"))
                    })?);
                }
                let arrays = self.outputs(py, &dictionary(feed)?)?;
                places.into_iter().map(|at| arrays[at].clone()).collect()
            }
        };
        PyList::new(py, arrays)
    }

    /// Seconds of each of so many runs on what the memory of the inputs holds, without Python in between.
    fn time_runs(&self, py: Python<'_>, runs: usize) -> PyResult<Vec<f64>> {
        py.detach(|| {
            let mut session = self.session.lock().unwrap_or_else(PoisonError::into_inner);
            let mut seconds = Vec::with_capacity(runs);
            for _ in 0..runs {
                let begin = Instant::now();
                session.execute()?;
                seconds.push(begin.elapsed().as_secs_f64());
            }
            Ok(seconds)
        })
        .map_err(|e: RunError| work(e))
    }

    /// Inputs as (name, shape, element type).
    #[getter]
    fn inputs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        describe(py, &self.inputs)
    }

    /// Outputs as (name, shape, element type).
    #[getter(output_ports)]
    fn output_ports<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        describe(py, &self.outputs)
    }

    /// The model's name.
    #[getter]
    fn name(&self) -> &str {
        &self.model.manifest().model
    }

    /// Threads it runs with.
    #[getter]
    fn threads(&self) -> usize {
        self.threads
    }

    /// Its kernels as (what they compute, operations, `default` or `tuned`).
    #[getter]
    fn kernels(&self) -> Vec<(String, f64, String)> {
        let kernels = self.model.manifest().kernels.iter();
        kernels.map(|k| (k.label.clone(), k.flops, k.schedule.clone())).collect()
    }

    /// Bytes of memory: weights, arena and workspace.
    #[getter]
    fn memory_bytes(&self) -> usize {
        let session = self.session.lock().unwrap_or_else(PoisonError::into_inner);
        self.model.weights().len() + session.memory_bytes()
    }
}

/// Ports for people and for type checks.
fn describe<'py>(py: Python<'py>, ports: &[PyPort]) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    for port in ports {
        let dtype = port.dtype(py).getattr(intern!(py, "name"))?;
        list.append((port.name.bind(py), port.ty.shape.clone(), dtype, port.ty.element.name()))?;
    }
    Ok(list)
}
