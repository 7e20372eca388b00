//! Sketches and candidates, for people and for strategies that are written in Python.

use std::sync::{Arc, Mutex, PoisonError};

use numpy::{PyArray1, PyArray2, PyArrayMethods};
use pyo3::prelude::*;
use talweg_search::{Domain, Features, Machine, SpaceDomain, SpaceFeatures};
use talweg_space::{Candidate as Point, Rng, Sketch as Structure, Space as Whole};
use talweg_target::Target;

use crate::error::{input, work};

/// A candidate: the number of a sketch and a value for each of its knobs.
#[pyclass(frozen, eq, hash, ord, str = "{0}", module = "talweg")]
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Candidate(pub Point);

#[pymethods]
impl Candidate {
    /// A candidate from its parts.
    #[new]
    fn new(sketch: usize, values: Vec<i64>) -> Candidate {
        Candidate(Point { sketch, values })
    }

    /// A candidate from its text, `2:1,43,6` for example.
    #[staticmethod]
    fn parse(text: &str) -> PyResult<Candidate> {
        text.parse().map(Candidate).map_err(input)
    }

    /// The number of its sketch.
    #[getter]
    fn sketch(&self) -> usize {
        self.0.sketch
    }

    /// The values of its knobs.
    #[getter]
    fn values(&self) -> Vec<i64> {
        self.0.values.clone()
    }

    fn __repr__(&self) -> String {
        format!("Candidate({}, {:?})", self.0.sketch, self.0.values)
    }
}

/// A schedule with open knobs.
#[pyclass(frozen, module = "talweg")]
pub struct Sketch {
    text: String,
    name: String,
    schedule: String,
    knobs: Vec<(String, Vec<i64>)>,
    constraints: Vec<String>,
    size: f64,
}

impl Sketch {
    fn of(sketch: &Structure) -> Sketch {
        Sketch {
            text: sketch.to_string(),
            name: sketch.name.clone(),
            schedule: sketch.trace.to_string(),
            knobs: sketch.knobs.iter().map(|k| (k.symbol.to_string(), k.domain.clone())).collect(),
            constraints: sketch.constraints.iter().map(ToString::to_string).collect(),
            size: sketch.size(),
        }
    }
}

#[pymethods]
impl Sketch {
    /// Its structural choices.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// Its steps as text, with knobs as symbols.
    #[getter]
    fn schedule(&self) -> &str {
        &self.schedule
    }

    /// Its knobs as (name, values).
    #[getter]
    fn knobs(&self) -> Vec<(String, Vec<i64>)> {
        self.knobs.clone()
    }

    /// What the knobs must satisfy together, as text.
    #[getter]
    fn constraints(&self) -> Vec<String> {
        self.constraints.clone()
    }

    /// About how many candidates it has.
    #[getter]
    fn size(&self) -> f64 {
        self.size
    }

    fn __str__(&self) -> &str {
        &self.text
    }

    fn __repr__(&self) -> String {
        format!("Sketch({:?})", self.name)
    }
}

/// A matrix of features, and where the rows of each candidate begin.
type Rows<'py> = (Bound<'py, PyArray2<f32>>, Bound<'py, PyArray1<usize>>);

/// All candidates of an operator on a machine.
#[pyclass(frozen, module = "talweg")]
pub struct Space {
    domain: SpaceDomain,
    target: Target,
    /// Threads of the candidates' parallel loops.
    threads: usize,
    features: Mutex<Option<SpaceFeatures>>,
}

impl Space {
    /// A space for Python.
    pub fn new(space: Whole, target: Target) -> Space {
        Space::shared(Arc::new(space), Machine::from(&target))
    }

    /// The same of one that somebody else uses too.
    pub fn shared(space: Arc<Whole>, machine: Machine<'_>) -> Space {
        let (target, threads) = (machine.target.clone(), machine.threads);
        Space { domain: SpaceDomain::new(space), target, threads, features: Mutex::new(None) }
    }

    fn whole(&self) -> &Whole {
        self.domain.space()
    }
}

#[pymethods]
impl Space {
    /// Its sketches.
    #[getter]
    fn sketches(&self) -> Vec<Sketch> {
        self.whole().sketches.iter().map(Sketch::of).collect()
    }

    /// About how many candidates it has.
    #[getter]
    fn size(&self) -> f64 {
        self.domain.size()
    }

    /// Random candidates; the same for the same seed.
    #[pyo3(signature = (n = 1, seed = 0))]
    fn sample(&self, n: usize, seed: u64) -> Vec<Candidate> {
        let mut rng = Rng::new(seed);
        (0..n).filter_map(|_| self.domain.sample(&mut rng)).map(Candidate).collect()
    }

    /// A neighbour by a small structural change.
    #[pyo3(signature = (candidate, seed = 0))]
    fn mutate(&self, candidate: &Candidate, seed: u64) -> PyResult<Option<Candidate>> {
        self.whole().sketch(&candidate.0).map_err(input)?;
        Ok(self.domain.mutate(&candidate.0, &mut Rng::new(seed)).map(Candidate))
    }

    /// A child that takes each knob from one of its parents; none of candidates of different sketches.
    #[pyo3(signature = (a, b, seed = 0))]
    fn crossover(&self, a: &Candidate, b: &Candidate, seed: u64) -> PyResult<Option<Candidate>> {
        self.whole().sketch(&a.0).map_err(input)?;
        self.whole().sketch(&b.0).map_err(input)?;
        Ok(self.domain.crossover(&a.0, &b.0, &mut Rng::new(seed)).map(Candidate))
    }

    /// The nearest legal candidate; none where there is none near.
    fn repair(&self, candidate: &Candidate) -> PyResult<Option<Candidate>> {
        self.whole().sketch(&candidate.0).map_err(input)?;
        let mut point = candidate.0.clone();
        Ok((self.whole().satisfies(&point) || self.whole().repair(&mut point)).then_some(Candidate(point)))
    }

    /// Refuses a candidate that is not legal, saying why.
    fn check(&self, candidate: &Candidate) -> PyResult<()> {
        self.whole().check(&candidate.0).map_err(input)
    }

    fn __contains__(&self, candidate: &Candidate) -> bool {
        self.domain.contains(&candidate.0)
    }

    /// The steps of a candidate as text.
    fn schedule(&self, candidate: &Candidate) -> PyResult<String> {
        self.whole().check(&candidate.0).map_err(input)?;
        Ok(self.whole().trace(&candidate.0).map_err(input)?.to_string())
    }

    /// The loop nest of a candidate as text.
    fn loops(&self, candidate: &Candidate) -> PyResult<String> {
        Ok(self.whole().instantiate(&candidate.0).map_err(input)?.to_string())
    }

    /// What a cost model sees of candidates: a matrix with a row for each store, and where the rows of each candidate
    /// begin.
    fn features<'py>(&self, py: Python<'py>, candidates: Vec<PyRef<'py, Candidate>>) -> PyResult<Rows<'py>> {
        let points: Vec<Point> = candidates.iter().map(|c| c.0.clone()).collect();
        let mut features = self.features.lock().unwrap_or_else(PoisonError::into_inner);
        if features.is_none() {
            let machine = Machine::new(&self.target, self.threads);
            *features = Some(SpaceFeatures::new(self.whole(), machine, Features::Stores).map_err(work)?);
        }
        let Some(compiled) = features.as_mut() else { return Err(work("there are no features")) };
        let (matrix, offsets) = compiled.rows(&points).map_err(work)?;
        let rows = PyArray1::from_slice(py, matrix.data()).reshape([matrix.rows(), matrix.cols()])?;
        Ok((rows, PyArray1::from_vec(py, offsets)))
    }

    fn __len__(&self) -> usize {
        self.whole().sketches.len()
    }

    fn __str__(&self) -> String {
        self.whole().to_string()
    }

    fn __repr__(&self) -> String {
        format!("Space({} sketches, {:.3e} candidates)", self.whole().sketches.len(), self.domain.size())
    }
}
