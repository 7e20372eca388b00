//! Strategies and cost models that are written in Python, in the places of talweg's own.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use numpy::{PyArray1, PyArrayMethods};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use talweg_cost::{Batch, CostError, CostModel, Samples};
use talweg_features::FeatureError;
use talweg_ir::Dag;
use talweg_search::{
    Candidate as Point, Evolutionary, EvolutionaryParams, Features, ModelScorer, Sample, SharedModel,
    SpaceDomain, Strategy,
};
use talweg_space::Space as Whole;
use talweg_target::Target;
use talweg_tuner::Extension;
use talweg_tuner::strategy::{Ingredients, Learner, Search};

use crate::rule::{Errors, Rules, space};
use crate::space::{Candidate, Space};

/// Samples below which a model that is written in Python is not asked.
const NEEDED: usize = 16;
/// How often a strategy is asked when it only proposes what is known.
const PATIENCE: usize = 4;

/// What of a search is written in Python.
pub struct PythonParts {
    name: String,
    /// A function of (space, seed) that makes an object with `ask` and `tell`.
    strategy: Option<Py<PyAny>>,
    /// An object with `fit` and `predict`.
    model: Option<Py<PyAny>>,
    rules: Rules,
    /// The model is shared by all tasks.
    shared: OnceLock<SharedModel>,
    errors: Errors,
    stop: Arc<AtomicBool>,
}

impl PythonParts {
    /// The parts by their names: `name`, `strategy`, `model`, `rules`, `template`.
    pub fn new(parts: &Bound<'_, PyDict>, stop: Arc<AtomicBool>) -> PyResult<PythonParts> {
        let part = |name: &str| -> PyResult<Option<Py<PyAny>>> {
            let found = parts.get_item(name)?;
            Ok(found.filter(|part| !part.is_none()).map(Bound::unbind))
        };
        let rules = match part("rules")? {
            Some(rules) => rules.extract::<Vec<Py<PyAny>>>(parts.py())?,
            None => Vec::new(),
        };
        let rules = Rules::new(parts.py(), rules, part("template")?)?;
        let name = match part("name")? {
            Some(name) => name.extract(parts.py())?,
            None => "python".to_string(),
        };
        let errors = rules.errors.clone();
        let (strategy, model) = (part("strategy")?, part("model")?);
        Ok(PythonParts { name, strategy, model, rules, shared: OnceLock::new(), errors, stop })
    }

    /// The first exception in code that is written in Python.
    pub fn error(&self) -> Option<PyErr> {
        self.errors.take()
    }

    fn guard(&self) -> Guard {
        Guard { errors: self.errors.clone(), stop: self.stop.clone() }
    }
}

/// Ends the search at the first exception.
#[derive(Clone)]
struct Guard {
    errors: Errors,
    stop: Arc<AtomicBool>,
}

impl Guard {
    fn call<T>(&self, run: impl FnOnce(Python<'_>) -> PyResult<T>) -> Option<T> {
        match Python::attach(run) {
            Ok(value) => Some(value),
            Err(error) => {
                self.errors.keep(error);
                self.stop.store(true, Ordering::Relaxed);
                None
            }
        }
    }
}

impl Extension for PythonParts {
    fn name(&self) -> &str {
        &self.name
    }

    fn space(&self, dag: &Dag, target: &Target) -> Option<Whole> {
        if self.rules.is_empty() {
            return None;
        }
        let made = space(&self.rules, dag, target);
        if let Some(error) = self.errors.take() {
            self.stop.store(true, Ordering::Relaxed);
            self.errors.keep(error);
        }
        Some(made)
    }

    fn search(&self, ingredients: &Ingredients<'_>) -> Option<Result<Search, FeatureError>> {
        let Ingredients { space, machine, task, seed, batch, .. } = ingredients;
        if let Some(maker) = &self.strategy {
            let guard = self.guard();
            let made = guard.call(|py| {
                let space = Bound::new(py, Space::shared((*space).clone(), *machine))?;
                maker.call1(py, (space, *seed))
            });
            let (space, name) = ((*space).clone(), self.name.clone());
            let strategy =
                Box::new(PythonStrategy { strategy: made, space, known: BTreeSet::new(), name, guard });
            return Some(Ok(Search { strategy, model: None, predicts_speed: false }));
        }
        let model = self.model.as_ref()?;
        let shared = self.shared.get_or_init(|| {
            let model = Python::attach(|py| model.clone_ref(py));
            SharedModel::new(Box::new(PythonModel { model, guard: self.guard() }), NEEDED)
        });
        let scorer = match ModelScorer::new(space, *machine, Features::Stores, shared.clone(), *task) {
            Ok(scorer) => scorer,
            Err(error) => return Some(Err(error)),
        };
        let params = EvolutionaryParams { round: *batch, ..EvolutionaryParams::default() };
        let domain = Arc::new(SpaceDomain::new((*space).clone()));
        let strategy = Evolutionary::new(domain, Box::new(scorer), params, *seed).named(&self.name);
        let model = Some(Learner::Model(shared.clone()));
        Some(Ok(Search { strategy: Box::new(strategy), model, predicts_speed: false }))
    }

    fn takes_seeds(&self) -> bool {
        self.strategy.is_none()
    }
}

/// A strategy that is written in Python; none when it could not be made.
struct PythonStrategy {
    strategy: Option<Py<PyAny>>,
    space: Arc<Whole>,
    /// What was asked for or told: nothing is measured twice.
    known: BTreeSet<Point>,
    name: String,
    guard: Guard,
}

impl Strategy for PythonStrategy {
    fn name(&self) -> &str {
        &self.name
    }

    fn ask(&mut self, n: usize) -> Vec<Point> {
        let Some(strategy) = &self.strategy else { return Vec::new() };
        for _ in 0..PATIENCE {
            let asked = self.guard.call(|py| {
                let mut out = Vec::new();
                for one in strategy.call_method1(py, "ask", (n,))?.bind(py).try_iter()? {
                    let point = one?.cast::<Candidate>()?.get().0.clone();
                    self.space.check(&point).map_err(crate::error::input)?;
                    out.push(point);
                }
                Ok(out)
            });
            let Some(mut asked) = asked.filter(|asked| !asked.is_empty()) else { return Vec::new() };
            asked.retain(|point| self.known.insert(point.clone()));
            asked.truncate(n);
            if !asked.is_empty() {
                return asked;
            }
        }
        Vec::new()
    }

    fn tell(&mut self, samples: &[Sample]) {
        self.known.extend(samples.iter().map(|sample| sample.candidate.clone()));
        let Some(strategy) = &self.strategy else { return };
        self.guard.call(|py| {
            let told = PyList::empty(py);
            for sample in samples {
                told.append((Candidate(sample.candidate.clone()), sample.outcome.seconds()))?;
            }
            strategy.call_method1(py, "tell", (told,)).map(drop)
        });
    }
}

/// A cost model that is written in Python.
struct PythonModel {
    model: Py<PyAny>,
    guard: Guard,
}

/// What the search hears when Python failed; the exception itself is raised when the search has ended.
fn failed() -> CostError {
    CostError::Empty { what: "answer of the model in Python" }
}

fn matrix<'py>(py: Python<'py>, batch: &Batch<'_>) -> PyResult<Bound<'py, PyAny>> {
    let Batch { features, .. } = batch;
    Ok(PyArray1::from_slice(py, features.data()).reshape([features.rows(), features.cols()])?.into_any())
}

impl CostModel for PythonModel {
    fn fit(&mut self, samples: &Samples<'_>) -> Result<(), CostError> {
        let fitted = self.guard.call(|py| {
            let offsets = PyArray1::from_slice(py, samples.programs.offsets);
            let labels = PyArray1::from_slice(py, samples.labels);
            let features = matrix(py, &samples.programs)?;
            self.model.call_method1(py, "fit", (features, offsets, labels)).map(drop)
        });
        fitted.ok_or_else(failed)
    }

    fn predict(&self, batch: &Batch<'_>) -> Result<Vec<f32>, CostError> {
        let expected = batch.offsets.len().saturating_sub(1);
        let scores = self.guard.call(|py| {
            let offsets = PyArray1::from_slice(py, batch.offsets);
            let scores = self.model.call_method1(py, "predict", (matrix(py, batch)?, offsets))?;
            let scores: Vec<f32> =
                scores.bind(py).try_iter()?.map(|s| s?.extract()).collect::<PyResult<_>>()?;
            if scores.len() != expected {
                return Err(crate::error::input(format!(
                    "the model's predict gave {} scores for {expected} candidates; give one for each",
                    scores.len()
                )));
            }
            Ok(scores)
        });
        scores.ok_or_else(failed)
    }
}
