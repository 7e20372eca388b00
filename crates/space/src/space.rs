//! A space: sketches of one DAG, and what is done with its candidates.

use talweg_ir::{Dag, Nest};
use talweg_schedule::concrete::concretize;
use talweg_schedule::{Schedule, Trace, analytic};
use talweg_target::Target;

use crate::candidate::Candidate;
use crate::error::SpaceError;
use crate::rules::{self, SketchRule};
use crate::sketch::{Budget, Sketch};
use crate::state::Machine;

/// All the ways to schedule a DAG that a search considers.
#[derive(Clone, Debug, PartialEq)]
pub struct Space {
    /// What is computed.
    pub dag: Dag,
    /// The structures, at least one.
    pub sketches: Vec<Sketch>,
}

impl Space {
    /// The sketches that rules derive from a DAG; [`crate::cpu_rules`] are the default ones.
    ///
    /// Where the rules give none, the analytic default schedule, which has no knobs, stands in.
    pub fn sketches_of(dag: &Dag, target: &Target, rules: &[Box<dyn SketchRule>]) -> Space {
        let mut sketches = rules::derive(dag, target, rules);
        if sketches.is_empty() {
            sketches.extend(Space::default_sketch(dag, target));
        }
        Space { dag: dag.clone(), sketches }
    }

    /// The space of the default rules.
    pub fn of(dag: &Dag, target: &Target) -> Space {
        Space::sketches_of(dag, target, &rules::cpu_rules())
    }

    /// The analytic default schedule as a sketch without knobs.
    fn default_sketch(dag: &Dag, target: &Target) -> Option<Sketch> {
        let schedule = Schedule::replay(dag.clone(), &analytic::default_trace(dag, target)).ok()?;
        let budget = Budget { local_bytes: Machine::of(target).l2 };
        Sketch::new("default".into(), &schedule, Vec::new(), Vec::new(), budget)
    }

    /// The sketch of a candidate.
    pub fn sketch(&self, candidate: &Candidate) -> Result<&Sketch, SpaceError> {
        let count = self.sketches.len();
        let sketch = self
            .sketches
            .get(candidate.sketch)
            .ok_or(SpaceError::NoSketch { sketch: candidate.sketch, count })?;
        if sketch.knobs.len() != candidate.values.len() {
            return Err(SpaceError::WrongLength {
                sketch: candidate.sketch,
                knobs: sketch.knobs.len(),
                values: candidate.values.len(),
            });
        }
        Ok(sketch)
    }

    /// Whether a candidate is in the space and legal.
    pub fn satisfies(&self, candidate: &Candidate) -> bool {
        self.sketch(candidate).is_ok_and(|s| s.satisfies(&candidate.values))
    }

    /// Like [`Space::satisfies`], saying what is wrong.
    pub fn check(&self, candidate: &Candidate) -> Result<(), SpaceError> {
        let sketch = self.sketch(candidate)?;
        for (k, v) in sketch.knobs.iter().zip(&candidate.values) {
            if k.domain.binary_search(v).is_err() {
                return Err(SpaceError::OutsideDomain { knob: k.symbol.to_string(), value: *v });
            }
        }
        let lookup = sketch.lookup(&candidate.values);
        match sketch.constraints.iter().find(|c| !c.holds(&lookup)) {
            Some(c) => Err(SpaceError::Violated { constraint: c.name.clone() }),
            None => Ok(()),
        }
    }

    /// The concrete program of a candidate: the sketch's nest with its knobs substituted, ready for code generation.
    pub fn instantiate(&self, candidate: &Candidate) -> Result<Nest, SpaceError> {
        self.check(candidate)?;
        let sketch = self.sketch(candidate)?;
        concretize(&sketch.nest, &sketch.lookup(&candidate.values))
            .map_err(|source| SpaceError::Schedule { sketch: candidate.sketch, source })
    }

    /// The steps of a candidate without knobs: what is stored, and replays to the same program.
    pub fn trace(&self, candidate: &Candidate) -> Result<Trace, SpaceError> {
        Ok(self.sketch(candidate)?.trace_at(&candidate.values))
    }
}
