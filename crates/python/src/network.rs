//! ONNX files and artefacts: imported, compiled, loaded.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use talweg::commands::model::{database, is_compiled, jobs, winners};
use talweg::commands::{DEFAULT_DB, Failure, check_output, check_threads};
use talweg::network::{Network, NetworkError};
use talweg_artifact::Artefact;
use talweg_onnx::ImportOptions;
use talweg_runtime::model::Model as Loaded;
use talweg_target::Target;
use talweg_tensor::npy;

use crate::error::{input, raised};
use crate::model::Model;

/// How the open dimensions of a model are bound, and how exact it must be.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Bindings {
    shapes: BTreeMap<String, Vec<usize>>,
    dims: BTreeMap<String, usize>,
    /// Values of inputs that determine shapes, as the contents of .npy files.
    fixed: BTreeMap<String, Vec<u8>>,
    max_error: Option<f64>,
}

impl Bindings {
    /// An argument that only importing a model heeds.
    fn of_import(&self) -> Option<&'static str> {
        let given = [
            (!self.dims.is_empty(), "dims"),
            (!self.shapes.is_empty(), "shapes"),
            (!self.fixed.is_empty(), "fixed"),
            (self.max_error.is_some(), "max_error"),
        ];
        given.into_iter().find(|(is_given, _)| *is_given).map(|(_, name)| name)
    }

    /// Imports a model and cuts it into tasks.
    pub fn open(&self, path: &Path) -> Result<Network, Failure> {
        let shown = path.display();
        let mut fixed = BTreeMap::new();
        for (name, bytes) in &self.fixed {
            let value = npy::read_npy(bytes).map_err(|e| Failure::input(format!("input `{name}`: {e}")))?;
            fixed.insert(name.clone(), value);
        }
        let shapes = self.shapes.clone().into_iter().collect();
        let options = ImportOptions { shapes, dims: self.dims.clone().into_iter().collect(), fixed };
        let mut network = Network::open(path, &options).map_err(|e| match e {
            NetworkError::Import(e) => Failure::input(format!("{shown}: {e}")),
            e => Failure::work(format!("{shown}: {e}")),
        })?;
        if let Some(error) = self.max_error {
            if !(0.0..=1.0).contains(&error) {
                return Err(Failure::input(format!("max_error {error}: give a number from 0 to 1")));
            }
            network.max_error = error;
        }
        Ok(network)
    }
}

/// The number of threads: as given, or all cores.
pub fn threads_of(given: Option<usize>) -> Result<usize, Failure> {
    let threads = given.unwrap_or_else(jobs);
    check_threads(threads)?;
    Ok(threads)
}

/// Whether a file is an artefact, by its beginning.
fn is_artefact(path: &Path) -> bool {
    let mut start = [0; 6];
    let read = std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut start));
    read.is_ok() && &start == b"talweg"
}

/// Compiles a model by stored winners and defaults, and counts the tasks with a winner.
fn artefact(
    path: &Path,
    bindings: &Bindings,
    threads: usize,
    db: &Path,
    target: &Target,
) -> Result<(Artefact, usize), Failure> {
    let mut network = bindings.open(path)?;
    let db = database(db, db != Path::new(DEFAULT_DB))?;
    let winners = winners(db.as_ref(), &mut network, target, threads)?;
    let artefact = network.compile(target, &winners, jobs()).map_err(Failure::work)?;
    Ok((artefact, winners.count(&network.program)))
}

/// Loads an artefact, or compiles an ONNX file in memory, and makes it ready to run.
#[pyfunction]
#[pyo3(signature = (path, bindings, threads, db))]
pub fn load(
    py: Python<'_>,
    path: PathBuf,
    bindings: &Bound<'_, PyDict>,
    threads: Option<usize>,
    db: PathBuf,
) -> PyResult<Model> {
    let bindings: Bindings = bindings.extract()?;
    let threads = threads_of(threads).map_err(raised)?;
    let loaded = py.detach(|| -> Result<Loaded, Failure> {
        let shown = path.display();
        if is_artefact(&path) || path.extension().is_some_and(|e| e == "talweg") {
            if let Some(name) = bindings.of_import() {
                return Err(is_compiled(&path, name));
            }
            return Loaded::open(&path).map_err(|e| Failure::input(format!("{shown}: {e}")));
        }
        let (artefact, _) = artefact(&path, &bindings, threads, &db, &Target::host())?;
        let bytes = artefact.to_bytes().map_err(Failure::work)?;
        Loaded::from_bytes(&bytes).map_err(Failure::work)
    });
    Model::new(py, Arc::new(loaded.map_err(raised)?), threads)
}

/// Compiles an ONNX file into an artefact's file, and gives a JSON object about it.
#[pyfunction]
#[pyo3(signature = (path, output, bindings, threads, db, target))]
pub fn compile(
    py: Python<'_>,
    path: PathBuf,
    output: PathBuf,
    bindings: &Bound<'_, PyDict>,
    threads: Option<usize>,
    db: PathBuf,
    target: &str,
) -> PyResult<String> {
    let bindings: Bindings = bindings.extract()?;
    let threads = threads_of(threads).map_err(raised)?;
    let target = Target::named(target).map_err(|e| input(format!("target: {e}")))?;
    let (artefact, tuned) = py
        .detach(|| {
            check_output(&output, [&path, &db])?;
            let (artefact, tuned) = artefact(&path, &bindings, threads, &db, &target)?;
            artefact.write(&output).map_err(Failure::input)?;
            Ok((artefact, tuned))
        })
        .map_err(raised)?;
    let manifest = &artefact.manifest;
    let report = serde_json::json!({
        "model": manifest.model, "output": output, "tasks": manifest.kernels.len(), "tuned": tuned,
        "steps": manifest.steps.len(), "weights_bytes": artefact.weights_bytes(),
        "arena_bytes": manifest.arena_bytes, "threads": threads,
    });
    Ok(report.to_string())
}
