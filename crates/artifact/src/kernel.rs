//! A task with its schedule, lowered and compiled.

use talweg_codegen::{CodegenError, Compiled, Options};
use talweg_graph::Task;
use talweg_ir::{Nest, Stmt, TensorId, Violation, verify_nest};
use talweg_schedule::concrete::concretize;
use talweg_schedule::{Schedule, ScheduleError, Trace, analytic};
use talweg_target::Target;

/// Where a task's schedule comes from.
#[derive(Clone, Debug, PartialEq)]
pub enum Choice {
    /// The analytic default.
    Default,
    /// A trace that search found.
    Tuned(Trace),
}

impl Choice {
    /// How artefacts and reports name it.
    pub fn name(&self) -> &'static str {
        match self {
            Choice::Default => "default",
            Choice::Tuned(_) => "tuned",
        }
    }
}

/// Why a task has no kernel.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// The schedule is illegal for the task.
    #[error("{0}")]
    Schedule(#[from] ScheduleError),
    /// The lowered program breaks a rule: a defect of talweg.
    #[error("the schedule lowers to an illegal program, which is a defect of talweg; please report it: {}", .0.first().map(ToString::to_string).unwrap_or_default())]
    Illegal(Vec<Violation>),
    /// The code generator refuses it.
    #[error("{0}")]
    Codegen(#[from] CodegenError),
}

/// A compiled task.
#[derive(Clone, Debug)]
pub struct CompiledTask {
    /// Its program.
    pub nest: Nest,
    /// Its machine code.
    pub compiled: Compiled,
    /// Where its schedule comes from.
    pub schedule: &'static str,
}

/// Lowers a task by its schedule and compiles it.
pub fn compile(task: &Task, choice: &Choice, target: &Target) -> Result<CompiledTask, KernelError> {
    let trace = match choice {
        Choice::Default => analytic::default_trace(&task.dag, target),
        Choice::Tuned(trace) => trace.clone(),
    };
    let schedule = Schedule::replay(task.dag.clone(), &trace)?;
    let nest = schedule.lower().and_then(|nest| concretize(&nest, &|_| None))?;
    verify_nest(&nest).map_err(KernelError::Illegal)?;
    let compiled = talweg_codegen::compile(&nest, target, &Options::default())?;
    Ok(CompiledTask { nest, compiled, schedule: choice.name() })
}

/// Whether the program's body reads a buffer; a constant that only packs read is not read.
pub fn reads(nest: &Nest, buffer: TensorId) -> bool {
    fn block(body: &[Stmt], buffer: TensorId) -> bool {
        body.iter().any(|stmt| match stmt {
            Stmt::For(inner) => block(&inner.body, buffer),
            Stmt::If { then, otherwise, .. } => block(then, buffer) || block(otherwise, buffer),
            Stmt::Store { value, .. } => value.reads().iter().any(|(read, _)| *read == buffer),
            Stmt::Alloc(_) => false,
        })
    }
    block(&nest.body, buffer)
}
