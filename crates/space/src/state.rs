//! A sketch under construction: the schedule so far, the knobs opened, and which stages are decided.

use std::collections::BTreeSet;

use talweg_expr::{Expr, Symbol};
use talweg_ir::Dag;
use talweg_schedule::{Schedule, ScheduleError, Step, analytic};
use talweg_target::Target;

use crate::analysis::Stages;
use crate::knob::{Constraint, Knob, KnobRole};
use crate::scheme;
use crate::sketch::{Budget, Sketch};

/// Numbers about the machine that sketches depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Bytes of a vector register.
    pub vector_bytes: i64,
    /// Vector registers.
    pub registers: i64,
    /// Bytes of the second cache level.
    pub l2: i64,
    /// Physical cores.
    pub cores: i64,
}

impl Machine {
    /// The numbers of a target.
    pub fn of(target: &Target) -> Machine {
        Machine {
            vector_bytes: i64::from(target.vector_bits / 8).max(4),
            registers: i64::from(target.vector_registers).max(8),
            l2: (target.l2 as i64).max(128 << 10),
            cores: i64::from(target.cores).max(1),
        }
    }
}

/// What every step gives: the state is unchanged when a step is refused.
pub type Applied<T> = Result<T, ScheduleError>;

/// A sketch under construction.
#[derive(Clone, Debug)]
pub struct SketchState {
    /// The schedule so far, knobs as symbols.
    pub schedule: Schedule,
    /// The machine.
    pub machine: Machine,
    /// The knobs opened so far.
    pub knobs: Vec<Knob>,
    /// What they must satisfy.
    pub constraints: Vec<Constraint>,
    decided: BTreeSet<String>,
    /// Loops of other stages where undecided producers of a stage may be computed: (producer, target, loop).
    pub(crate) places: Vec<(String, String, String)>,
    choices: Vec<String>,
    /// Bytes that a local buffer may have.
    pub(crate) local_bytes: i64,
}

impl SketchState {
    /// The state before any rule: nothing decided, but for what no search needs to vary.
    pub fn new(dag: &Dag, target: &Target) -> SketchState {
        let mut starts = SketchState::starts(dag, target);
        starts.swap_remove(0)
    }

    /// The states before any rule, at least one: several where the default schedule has variants without knobs, and where
    /// stages that belong together are decided with knobs from the start.
    pub fn starts(dag: &Dag, target: &Target) -> Vec<SketchState> {
        let empty = SketchState {
            schedule: Schedule::new(dag.clone()),
            machine: Machine::of(target),
            knobs: Vec::new(),
            constraints: Vec::new(),
            decided: BTreeSet::new(),
            places: Vec::new(),
            choices: Vec::new(),
            local_bytes: Machine::of(target).l2,
        };
        let mut out = Vec::new();
        for (at, decided) in analytic::beginnings(dag, target).into_iter().enumerate() {
            let mut state = empty.clone();
            if decided.steps.into_iter().all(|step| state.step(step).is_ok()) {
                state.decided.extend(decided.stages);
                if at > 0 {
                    state.choose(format!("variant {at}"));
                }
                out.push(state);
            }
        }
        out.extend(scheme::states(dag, target, &empty));
        if out.is_empty() {
            out.push(empty);
        }
        out
    }

    /// Questions about the stages.
    pub fn stages(&self) -> Stages<'_> {
        Stages(&self.schedule)
    }

    /// The last stage in topological order no rule has decided yet.
    pub fn next_stage(&self) -> Option<String> {
        self.schedule.stage_names().into_iter().rev().find(|s| !self.decided.contains(s))
    }

    /// Marks a stage as decided: rules do not visit it any more.
    pub fn decide(&mut self, stage: &str) {
        self.decided.insert(stage.to_string());
    }

    /// Whether a rule has decided the stage.
    pub fn is_decided(&self, stage: &str) -> bool {
        self.decided.contains(stage)
    }

    /// How far the state is: grows with every rule that does something.
    pub(crate) fn progress(&self) -> usize {
        self.decided.len() + self.schedule.trace().steps.len()
    }

    /// Records a structural choice in the sketch's name.
    pub fn choose(&mut self, what: impl Into<String>) {
        self.choices.push(what.into());
    }

    /// Whether no step has touched the stage's loops.
    pub fn is_untouched(&self, stage: &str) -> bool {
        let stages = self.stages();
        let plain = stages.axes(stage).into_iter().chain(stages.reduce_axes(stage)).map(|(n, _)| n);
        self.schedule.loops(stage) == Some(plain.collect())
    }

    /// The elementwise stage a reduction can be tiled together with.
    pub fn fusible_reader(&self, stage: &str) -> Option<String> {
        self.stages().matched_consumer(stage).filter(|reader| self.is_untouched(reader))
    }

    /// Lanes of a vector of the stage's elements.
    pub fn lanes(&self, stage: &str) -> i64 {
        self.stages().lanes(stage, self.machine.vector_bytes)
    }

    /// Opens a knob and gives its symbol as an expression; a domain of one value gives that value.
    pub fn open(&mut self, name: &str, domain: Vec<i64>, role: KnobRole) -> Expr {
        if let [only] = domain.as_slice() {
            return Expr::int(*only);
        }
        let mut unique = name.to_string();
        let mut count = 1;
        while self.knobs.iter().any(|k| k.symbol.name() == unique) {
            count += 1;
            unique = format!("{name}_{count}");
        }
        let symbol = Symbol::knob(&unique);
        self.knobs.push(Knob { symbol: symbol.clone(), domain, role });
        Expr::sym(&symbol)
    }

    /// Adds `lhs <= rhs`.
    pub fn limit(&mut self, name: impl Into<String>, lhs: impl Into<Expr>, rhs: impl Into<Expr>) {
        self.constraints.push(Constraint::new(name, lhs, rhs));
    }

    /// Applies a step.
    pub fn step(&mut self, step: Step) -> Applied<()> {
        self.schedule.apply(step)
    }

    /// Splits a loop and gives the names of the parts.
    pub fn split(&mut self, stage: &str, axis: &str, factors: &[Expr]) -> Applied<Vec<String>> {
        self.step(Step::Split { stage: stage.into(), axis: axis.into(), factors: factors.to_vec() })?;
        Ok((0..=factors.len()).map(|l| format!("{axis}.{l}")).collect())
    }

    /// Puts loops in order.
    pub fn reorder(&mut self, stage: &str, loops: &[String]) -> Applied<()> {
        if loops.len() < 2 {
            return Ok(());
        }
        self.step(Step::Reorder { stage: stage.into(), loops: loops.to_vec() })
    }

    /// Fuses neighbouring loops and gives the name of the result.
    pub fn fuse(&mut self, stage: &str, loops: &[String]) -> Applied<Option<String>> {
        match loops {
            [] => Ok(None),
            [one] => Ok(Some(one.clone())),
            _ => {
                self.step(Step::Fuse { stage: stage.into(), loops: loops.to_vec() })?;
                Ok(Some(loops.join("_")))
            }
        }
    }

    /// Vectorises a loop.
    pub fn vectorize(&mut self, stage: &str, axis: &str) -> Applied<()> {
        self.step(Step::Vectorize { stage: stage.into(), axis: axis.into() })
    }

    /// Unrolls loops.
    pub fn unroll(&mut self, stage: &str, loops: &[String]) -> Applied<()> {
        loops.iter().try_for_each(|l| self.step(Step::Unroll { stage: stage.into(), axis: l.clone() }))
    }

    /// Runs a loop in parallel.
    pub fn parallel(&mut self, stage: &str, axis: &str) -> Applied<()> {
        self.step(Step::Parallel { stage: stage.into(), axis: axis.into() })
    }

    /// Computes a stage at a loop of another.
    pub fn compute_at(&mut self, stage: &str, target: &str, at: &str) -> Applied<()> {
        self.step(Step::ComputeAt { stage: stage.into(), target: target.into(), at: at.into() })
    }

    /// Packs every constant a stage reads, where that is legal.
    pub fn pack_constants(&mut self, stage: &str) {
        for tensor in self.stages().constants(stage) {
            let _unpacked_is_legal_too = self.step(Step::Pack { tensor, reader: stage.into() });
        }
    }

    /// The finished sketch; `None` when it cannot be lowered.
    pub fn finish(self) -> Option<Sketch> {
        let name = if self.choices.is_empty() { "plain".to_string() } else { self.choices.join(", ") };
        let budget = Budget { local_bytes: self.local_bytes };
        Sketch::new(name, &self.schedule, self.knobs, self.constraints, budget)
    }
}
