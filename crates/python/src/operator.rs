//! Operators by SPEC or tensor expression: their text, default schedule and loop nests.

use pyo3::prelude::*;
use talweg_ir::{Dag, Nest, verify_dag, verify_nest};
use talweg_ops::Spec;
use talweg_schedule::concrete::concretize;
use talweg_schedule::{Schedule, Trace, analytic};
use talweg_target::Target;
use talweg_tuner::TaskSpec;

use crate::error::{input, work};
use crate::rule::{self, Rules};
use crate::space::Space;

/// Something to be computed: inputs, constants, and expressions over them.
#[pyclass(frozen, module = "talweg")]
pub struct Operator {
    name: String,
    dag: Dag,
    flops: f64,
}

impl Operator {
    /// The operator as a task.
    pub fn task(&self) -> TaskSpec {
        TaskSpec { name: self.name.clone(), dag: self.dag.clone(), weight: 1.0, flops: self.flops }
    }

    fn program(&self, trace: &Trace) -> PyResult<Nest> {
        let wrong = |e: talweg_schedule::ScheduleError| input(format!("schedule: {e}"));
        let schedule = Schedule::replay(self.dag.clone(), trace).map_err(wrong)?;
        let nest = schedule.lower().and_then(|nest| concretize(&nest, &|_| None)).map_err(wrong)?;
        verify_nest(&nest).map_err(|violations| {
            let all: Vec<String> = violations.iter().map(ToString::to_string).collect();
            work(format!(
                "the schedule lowers to an illegal program, which is a defect of talweg: {}",
                all.join("; ")
            ))
        })?;
        Ok(nest)
    }
}

/// The machine by its name.
pub fn target_named(name: &str) -> PyResult<Target> {
    Target::named(name).map_err(|e| input(format!("target: {e}")))
}

#[pymethods]
impl Operator {
    /// An operator by its SPEC, `matmul:m=64,n=64,k=64` for example, or by the text of its tensor expressions,
    /// `dag NAME { ... }`.
    #[new]
    fn new(text: &str) -> PyResult<Operator> {
        if !text.trim_start().starts_with("dag") {
            let spec = Spec::parse(text).map_err(input)?;
            let dag = spec.build().map_err(input)?;
            return Ok(Operator { name: spec.to_string(), flops: spec.flops(), dag });
        }
        let dag = Dag::parse(text).map_err(input)?;
        verify_dag(&dag).map_err(|violations| {
            let all: Vec<String> = violations.iter().map(ToString::to_string).collect();
            input(all.join("; "))
        })?;
        Ok(Operator { name: dag.name.clone(), flops: dag.arithmetic(), dag })
    }

    /// Its SPEC, or its name.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// Useful operations of one run.
    #[getter]
    fn flops(&self) -> f64 {
        self.flops
    }

    /// Its tensor expressions as text.
    #[getter]
    fn te(&self) -> String {
        self.dag.to_string()
    }

    /// The analytic default schedule as text.
    #[pyo3(signature = (target = "host"))]
    fn default_schedule(&self, target: &str) -> PyResult<String> {
        Ok(analytic::default_trace(&self.dag, &target_named(target)?).to_string())
    }

    /// The loop nest that a schedule makes of it, as text; without a schedule by the default.
    #[pyo3(signature = (schedule = None, target = "host"))]
    fn loops(&self, schedule: Option<&str>, target: &str) -> PyResult<String> {
        let trace = match schedule {
            Some(text) => Trace::parse(text).map_err(|e| input(format!("schedule: {e}")))?,
            None => analytic::default_trace(&self.dag, &target_named(target)?),
        };
        Ok(self.program(&trace)?.to_string())
    }

    /// What is searched for it: by talweg's rules, by rules of one's own before these, or by a template.
    #[pyo3(signature = (target = "host", rules = None, template = None))]
    fn space(
        &self,
        py: Python<'_>,
        target: &str,
        rules: Option<Vec<Py<PyAny>>>,
        template: Option<Py<PyAny>>,
    ) -> PyResult<Space> {
        let target = target_named(target)?;
        let own = Rules::new(py, rules.unwrap_or_default(), template)?;
        let space = py.detach(|| rule::space(&own, &self.dag, &target));
        own.errors.check()?;
        Ok(Space::new(space, target))
    }

    fn __repr__(&self) -> String {
        format!("Operator({:?})", self.name)
    }
}
