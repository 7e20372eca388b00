//! An operator with its schedule, lowered to the nest that is compiled.

use std::path::PathBuf;

use talweg_ir::{Dag, Nest, Violation, verify_nest};
use talweg_ops::Spec;
use talweg_ops::spec::SpecError;
use talweg_schedule::concrete::concretize;
use talweg_schedule::{Schedule, ScheduleError, Trace, analytic};
use talweg_target::Target;

/// Where an operator's schedule comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScheduleSource {
    /// The analytic default.
    Default,
    /// A trace in a file.
    File(PathBuf),
    /// A trace at hand, for example a stored winner.
    Text {
        /// What messages call it.
        name: String,
        /// The steps.
        text: String,
    },
}

impl ScheduleSource {
    /// Reads the command-line form: `default` or a path.
    pub fn parse(text: &str) -> ScheduleSource {
        match text {
            "default" => ScheduleSource::Default,
            path => ScheduleSource::File(PathBuf::from(path)),
        }
    }
}

/// Why an operator cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum OperatorError {
    /// The SPEC is not an operator.
    #[error("{0}")]
    Spec(#[from] SpecError),
    /// The schedule file cannot be read.
    #[error("cannot read the schedule `{}`: {source}; give `default` or the path of a trace", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The schedule does not parse or is illegal for the operator.
    #[error("schedule `{name}`: {source}")]
    Schedule {
        /// The file, or `default`.
        name: String,
        /// What is wrong with it.
        source: ScheduleError,
    },
    /// The lowered nest breaks a rule: a defect of talweg.
    #[error("the schedule lowers to an illegal program, which is a defect of talweg; please report it with the SPEC and the schedule: {}", join(.0))]
    Illegal(Vec<Violation>),
}

fn join(violations: &[Violation]) -> String {
    violations.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// An operator ready to be compiled.
#[derive(Clone, Debug)]
pub struct Operator {
    /// What it computes, as text.
    pub spec: Spec,
    /// What it computes.
    pub dag: Dag,
    /// The schedule's steps.
    pub trace: Trace,
    /// The program.
    pub nest: Nest,
}

impl Operator {
    /// Builds the tensor expression, applies the schedule, lowers and verifies.
    pub fn new(spec: Spec, source: &ScheduleSource, target: &Target) -> Result<Operator, OperatorError> {
        let dag = spec.build()?;
        let (name, trace) = match source {
            ScheduleSource::Default => ("default".to_string(), Ok(analytic::default_trace(&dag, target))),
            ScheduleSource::File(path) => {
                let text = std::fs::read_to_string(path)
                    .map_err(|source| OperatorError::Unreadable { path: path.clone(), source })?;
                (path.display().to_string(), Trace::parse(&text))
            }
            ScheduleSource::Text { name, text } => (name.clone(), Trace::parse(text)),
        };
        let wrong = |source| OperatorError::Schedule { name: name.clone(), source };
        let trace = trace.map_err(wrong)?;
        let schedule = Schedule::replay(dag.clone(), &trace).map_err(wrong)?;
        let nest = schedule.lower().and_then(|nest| concretize(&nest, &|_| None)).map_err(wrong)?;
        verify_nest(&nest).map_err(OperatorError::Illegal)?;
        Ok(Operator { spec, dag, trace, nest })
    }

    /// The largest relative error against the reference that is accepted.
    pub fn tolerance(&self) -> f64 {
        talweg_tuner::reference::tolerance(&self.dag)
    }
}
