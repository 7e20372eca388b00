//! Sketch rules and templates that are written in Python.
//!
//! A rule is an object with `name`, `condition(state, stage)` and `apply(state, stage)`; a template is a function of a
//! state. Both see a [`SketchState`], whose steps are the text of schedules.

use std::sync::{Arc, Mutex, PoisonError};

use pyo3::prelude::*;
use talweg_expr::Expr;
use talweg_ir::Dag;
use talweg_schedule::Trace;
use talweg_space::{Decision, KnobRole, Sketch, SketchRule, SketchState as State, Space, cpu_rules};
use talweg_target::Target;

use crate::error::input;

/// The first exception of code that talweg calls where it cannot be raised.
#[derive(Clone, Default)]
pub struct Errors(Arc<Mutex<Option<PyErr>>>);

impl Errors {
    /// Keeps the first.
    pub fn keep(&self, error: PyErr) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }

    /// Takes it.
    pub fn take(&self) -> Option<PyErr> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Raises it.
    pub fn check(&self) -> PyResult<()> {
        self.take().map_or(Ok(()), Err)
    }
}

/// A sketch under construction.
#[pyclass(module = "talweg")]
pub struct SketchState {
    state: State,
}

#[pymethods]
impl SketchState {
    /// Applies steps, written as in a schedule, one a line: `split C i [$C.i.1]`.
    fn step(&mut self, text: &str) -> PyResult<()> {
        let trace = Trace::parse(text).map_err(input)?;
        trace.steps.into_iter().try_for_each(|step| self.state.step(step)).map_err(input)
    }

    /// Opens a knob with these values and gives what stands for it in steps; a single value stands for itself.
    fn open(&mut self, stage: String, name: &str, mut values: Vec<i64>) -> PyResult<String> {
        values.sort_unstable();
        values.dedup();
        if values.first().is_none_or(|least| *least < 1) {
            return Err(input(format!("knob `{name}`: give at least one value, and none below 1")));
        }
        let role = KnobRole::Choice { stage, what: name.to_string() };
        Ok(self.state.open(name, values, role).to_string())
    }

    /// Keeps the candidates for which `left <= right`, formulas of knobs and numbers.
    fn limit(&mut self, name: &str, left: &str, right: &str) -> PyResult<()> {
        let (left, right) = (Expr::parse(left).map_err(input)?, Expr::parse(right).map_err(input)?);
        self.state.limit(name, left, right);
        Ok(())
    }

    /// Marks a stage as done: rules do not visit it any more.
    fn decide(&mut self, stage: &str) {
        self.state.decide(stage);
    }

    /// Whether a stage is done.
    fn is_decided(&self, stage: &str) -> bool {
        self.state.is_decided(stage)
    }

    /// Records a structural choice in the sketch's name.
    fn choose(&mut self, what: String) {
        self.state.choose(what);
    }

    /// Another state that is the same.
    fn copy(&self) -> SketchState {
        SketchState { state: self.state.clone() }
    }

    /// Its stages, in the order they are computed.
    #[getter]
    fn stages(&self) -> Vec<String> {
        self.state.schedule.stage_names()
    }

    /// The loops of a stage, outermost first.
    fn loops(&self, stage: &str) -> Vec<String> {
        self.state.schedule.loops(stage).unwrap_or_default()
    }

    /// The axes of a stage's result, with their extents.
    fn axes(&self, stage: &str) -> Vec<(String, i64)> {
        self.state.stages().axes(stage)
    }

    /// The axes of a stage's reduction, with their extents.
    fn reduce_axes(&self, stage: &str) -> Vec<(String, i64)> {
        self.state.stages().reduce_axes(stage)
    }

    /// Whether a stage reduces.
    fn is_reduction(&self, stage: &str) -> bool {
        self.state.stages().is_reduction(stage)
    }

    /// The stages that read a stage.
    fn readers(&self, stage: &str) -> Vec<String> {
        self.state.stages().readers(stage)
    }

    /// The stages that a stage reads.
    fn producers(&self, stage: &str) -> Vec<String> {
        self.state.stages().producers(stage)
    }

    /// Elements of a stage in a vector register.
    fn lanes(&self, stage: &str) -> i64 {
        self.state.lanes(stage)
    }

    /// The steps so far.
    #[getter]
    fn schedule(&self) -> String {
        self.state.schedule.trace().to_string()
    }
}

/// States that Python returned: one, several, or none for the one that was changed in place.
fn states(returned: &Bound<'_, PyAny>, given: &Bound<'_, SketchState>) -> PyResult<Vec<State>> {
    if returned.is_none() {
        return Ok(vec![given.borrow().state.clone()]);
    }
    if let Ok(one) = returned.cast::<SketchState>() {
        return Ok(vec![one.borrow().state.clone()]);
    }
    let mut out = Vec::new();
    for one in returned.try_iter()? {
        out.push(one?.cast::<SketchState>()?.borrow().state.clone());
    }
    Ok(out)
}

/// A rule that is written in Python.
struct PythonRule {
    rule: Py<PyAny>,
    name: &'static str,
    errors: Errors,
}

impl SketchRule for PythonRule {
    fn name(&self) -> &'static str {
        self.name
    }

    fn condition(&self, state: &State, stage: &str) -> Decision {
        let asked = Python::attach(|py| -> PyResult<Decision> {
            let state = Bound::new(py, SketchState { state: state.clone() })?;
            let answer = self.rule.call_method1(py, "condition", (state, stage))?;
            let answer = answer.bind(py);
            if let Ok(text) = answer.extract::<String>() {
                return match text.as_str() {
                    "skip" => Ok(Decision::Skip),
                    "apply" => Ok(Decision::Apply),
                    "only" => Ok(Decision::ApplyAndSkipRest),
                    _ => Err(input(format!(
                        "rule `{}`: condition gave `{text}`; give skip, apply or only",
                        self.name
                    ))),
                };
            }
            Ok(if answer.is_truthy()? { Decision::Apply } else { Decision::Skip })
        });
        asked.unwrap_or_else(|error| {
            self.errors.keep(error);
            Decision::Skip
        })
    }

    fn apply(&self, state: &State, stage: &str) -> Vec<State> {
        let made = Python::attach(|py| -> PyResult<Vec<State>> {
            let state = Bound::new(py, SketchState { state: state.clone() })?;
            let returned = self.rule.call_method1(py, "apply", (&state, stage))?;
            states(returned.bind(py), &state)
        });
        made.unwrap_or_else(|error| {
            self.errors.keep(error);
            Vec::new()
        })
    }
}

/// Rules and a template of a space that is made in Python.
pub struct Rules {
    rules: Vec<(Py<PyAny>, &'static str)>,
    template: Option<Py<PyAny>>,
    /// What went wrong in them.
    pub errors: Errors,
}

impl Rules {
    /// Rules by their objects. Names live as long as the process, as those of talweg's own rules do.
    pub fn new(py: Python<'_>, rules: Vec<Py<PyAny>>, template: Option<Py<PyAny>>) -> PyResult<Rules> {
        let mut named = Vec::new();
        for rule in rules {
            let name: String = match rule.getattr(py, "name") {
                Ok(name) => name.extract(py)?,
                Err(_) => rule.bind(py).get_type().name()?.to_string(),
            };
            named.push((rule, &*Box::leak(name.into_boxed_str())));
        }
        Ok(Rules { rules: named, template, errors: Errors::default() })
    }

    /// Whether there is nothing of Python in it.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty() && self.template.is_none()
    }
}

/// The space of an operator by talweg's rules with those of Python before them, or by a template.
pub fn space(own: &Rules, dag: &Dag, target: &Target) -> Space {
    if let Some(template) = &own.template {
        return templated(template, &own.errors, dag, target);
    }
    let mut rules: Vec<Box<dyn SketchRule>> = Vec::new();
    for (rule, name) in &own.rules {
        let rule = Python::attach(|py| rule.clone_ref(py));
        rules.push(Box::new(PythonRule { rule, name, errors: own.errors.clone() }));
    }
    rules.extend(cpu_rules());
    Space::sketches_of(dag, target, &rules)
}

/// The sketches that a template makes; stages it leaves alone take the first way that talweg's rules offer.
fn templated(template: &Py<PyAny>, errors: &Errors, dag: &Dag, target: &Target) -> Space {
    let made = Python::attach(|py| -> PyResult<Vec<State>> {
        let state = Bound::new(py, SketchState { state: State::new(dag, target) })?;
        let returned = template.call1(py, (&state,))?;
        states(returned.bind(py), &state)
    });
    let made = made.unwrap_or_else(|error| {
        errors.keep(error);
        Vec::new()
    });
    let mut sketches: Vec<Sketch> = Vec::new();
    for state in made {
        if let Some(sketch) = finished(state).finish()
            && sketches.iter().all(|other| other.trace != sketch.trace)
        {
            sketches.push(sketch);
        }
    }
    if sketches.is_empty() {
        errors.keep(input("the template makes no schedule that can be lowered; look at its steps"));
        return Space::of(dag, target);
    }
    Space { dag: dag.clone(), sketches }
}

/// The state with all stages decided.
fn finished(mut state: State) -> State {
    let rules = cpu_rules();
    while let Some(stage) = state.next_stage() {
        let applicable =
            rules.iter().filter(|r| !r.is_early() && r.condition(&state, &stage) != Decision::Skip);
        let first = applicable.flat_map(|r| r.apply(&state, &stage)).next();
        match first {
            Some(next) => state = next,
            None => state.decide(&stage),
        }
    }
    state
}
