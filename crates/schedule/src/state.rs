//! The state of a schedule: the DAG as rewritten so far, and for each computed tensor its loops.

use talweg_expr::Expr;
use talweg_ir::{Compute, Dag, LoopKind, Source, TensorId};

use crate::error::{Refusal, ScheduleError};
use crate::step::{Step, Trace};

/// A loop of a stage, current or already split or fused away; a position in [`Stage::iters`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct IterId(pub(crate) usize);

/// Whether a loop runs over elements of the result or over a reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IterKind {
    /// Over elements of the result.
    Space,
    /// Over a reduction.
    Reduce,
}

/// Where a loop comes from.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Origin {
    /// An axis of the compute: position in `axes`, or in the reduction's axes.
    Axis(usize),
    /// A part of a split loop; level 0 is the outermost.
    Split { parent: IterId, level: usize },
    /// Two loops made one; the second runs faster.
    Fused { outer: IterId, inner: IterId },
}

/// What became of a loop.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Fate {
    /// It is a loop of the nest.
    Leaf,
    /// Split into parts, outermost first; all but the first have the factors as extents.
    Split { parts: Vec<IterId>, factors: Vec<Expr> },
    /// Part of a fused loop.
    Fused(IterId),
}

/// One loop of a stage.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Iter {
    pub name: String,
    pub kind: IterKind,
    pub origin: Origin,
    pub fate: Fate,
    pub annotation: LoopKind,
}

/// Where a stage is computed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Attach {
    /// In a loop nest of its own.
    Root,
    /// Nowhere: its readers compute it.
    Inlined,
    /// Inside a loop of another stage, as much as that loop's body needs.
    At(TensorId, IterId),
}

/// The loops of one computed tensor.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Stage {
    pub tensor: TensorId,
    pub iters: Vec<Iter>,
    pub leaves: Vec<IterId>,
    pub attach: Attach,
}

impl Stage {
    pub fn new(tensor: TensorId, compute: &Compute) -> Stage {
        let mut iters = Vec::new();
        let mut add = |name: &str, kind, axis| {
            iters.push(Iter {
                name: name.to_string(),
                kind,
                origin: Origin::Axis(axis),
                fate: Fate::Leaf,
                annotation: LoopKind::Serial,
            });
        };
        for (at, a) in compute.axes.iter().enumerate() {
            add(a.symbol.name(), IterKind::Space, at);
        }
        for (at, a) in compute.reduce_axes().iter().enumerate() {
            add(a.symbol.name(), IterKind::Reduce, at);
        }
        let leaves = (0..iters.len()).map(IterId).collect();
        Stage { tensor, iters, leaves, attach: Attach::Root }
    }

    pub fn iter(&self, id: IterId) -> &Iter {
        &self.iters[id.0]
    }

    /// Whether no step has touched the loops yet.
    pub fn is_untouched(&self) -> bool {
        self.leaves.len() == self.iters.len()
            && self.iters.iter().all(|i| i.annotation == LoopKind::Serial)
            && self.attach == Attach::Root
    }
}

/// A schedule: a DAG, the loops of its stages, and the steps that led here.
///
/// Steps are applied one by one, each checked for legality; [`Schedule::lower`](crate::lower) turns the state into a
/// loop nest. Knobs may stand wherever a step takes a number.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    /// Tensors are appended by cache and rfactor steps, so ids stay valid; `order` is topological.
    pub(crate) dag: Dag,
    pub(crate) order: Vec<TensorId>,
    pub(crate) stages: Vec<Option<Stage>>,
    /// Constants to lay out anew for a reader.
    pub(crate) packs: Vec<(TensorId, TensorId)>,
    trace: Trace,
}

impl Schedule {
    /// The schedule without any step: every compute in its own plain loop nest.
    pub fn new(dag: Dag) -> Schedule {
        let stages = dag.ids().map(|id| dag.tensor(id).compute().map(|c| Stage::new(id, c))).collect();
        let order = dag.ids().collect();
        Schedule { dag, order, stages, packs: Vec::new(), trace: Trace::default() }
    }

    /// Applies every step of a trace to a DAG.
    pub fn replay(dag: Dag, trace: &Trace) -> Result<Schedule, ScheduleError> {
        let mut schedule = Schedule::new(dag);
        for step in &trace.steps {
            schedule.apply(step.clone())?;
        }
        Ok(schedule)
    }

    /// Applies one step; on an error the schedule is as before.
    pub fn apply(&mut self, step: Step) -> Result<(), ScheduleError> {
        let before = self.clone();
        let checked = self
            .dispatch(&step)
            .and_then(|()| self.check_readers_inside())
            .and_then(|()| self.check_parallel_loops());
        match checked {
            Ok(()) => {
                self.trace.steps.push(step);
                Ok(())
            }
            Err(message) => {
                *self = before;
                Err(ScheduleError::Illegal { step: step.to_string(), message })
            }
        }
    }

    /// The steps applied so far.
    pub fn trace(&self) -> &Trace {
        &self.trace
    }

    /// The DAG as the steps have rewritten it. Its tensors are not in topological order once caches were added.
    pub fn dag(&self) -> &Dag {
        &self.dag
    }

    /// The names of a stage's loops, outermost first; `None` for inputs, constants, inlined and unknown stages.
    pub fn loops(&self, stage: &str) -> Option<Vec<String>> {
        let stage = self.stages[self.dag.find(stage)?.index()].as_ref()?;
        if stage.attach == Attach::Inlined {
            return None;
        }
        Some(stage.leaves.iter().map(|l| stage.iter(*l).name.clone()).collect())
    }

    /// Whether a stage's loop runs over space or reduction.
    pub fn loop_kind(&self, stage: &str, name: &str) -> Option<IterKind> {
        let stage = self.stages[self.dag.find(stage)?.index()].as_ref()?;
        stage.leaves.iter().map(|l| stage.iter(*l)).find(|i| i.name == name).map(|i| i.kind)
    }

    /// The names of the stages that have loops, in topological order.
    pub fn stage_names(&self) -> Vec<String> {
        self.order
            .iter()
            .filter(|id| self.stages[id.index()].as_ref().is_some_and(|s| s.attach != Attach::Inlined))
            .map(|id| self.dag.tensor(*id).name.clone())
            .collect()
    }

    pub(crate) fn find_tensor(&self, name: &str) -> Result<TensorId, Refusal> {
        self.dag.find(name).ok_or_else(|| {
            let all: Vec<TensorId> = self.dag.ids().collect();
            format!("there is no tensor `{name}`; the tensors are {}", self.names(&all))
        })
    }

    /// Names of tensors for a message.
    pub(crate) fn names(&self, ids: &[TensorId]) -> String {
        let names: Vec<String> = ids.iter().map(|id| format!("`{}`", self.dag.tensor(*id).name)).collect();
        if names.is_empty() { "nothing".into() } else { names.join(", ") }
    }

    /// A stage that has loops.
    pub(crate) fn find_stage(&self, name: &str) -> Result<TensorId, Refusal> {
        let id = self.find_tensor(name)?;
        match &self.stages[id.index()] {
            None => Err(format!(
                "`{name}` is an input or a constant, so it has no loops; `cache_read` gives it some"
            )),
            Some(s) if s.attach == Attach::Inlined => {
                Err(format!("`{name}` is inlined, so it has no loops; apply the step before `inline`"))
            }
            Some(_) => Ok(id),
        }
    }

    pub(crate) fn stage(&self, id: TensorId) -> &Stage {
        self.stages[id.index()].as_ref().expect("find_stage checked that the tensor is computed")
    }

    pub(crate) fn stage_mut(&mut self, id: TensorId) -> &mut Stage {
        self.stages[id.index()].as_mut().expect("find_stage checked that the tensor is computed")
    }

    pub(crate) fn compute(&self, id: TensorId) -> &Compute {
        self.dag.tensor(id).compute().expect("stages belong to computed tensors")
    }

    pub(crate) fn compute_mut(&mut self, id: TensorId) -> &mut Compute {
        match &mut self.dag.tensors[id.index()].source {
            Source::Compute(c) => c,
            _ => unreachable!("stages belong to computed tensors"),
        }
    }

    pub(crate) fn find_leaf(&self, stage: TensorId, name: &str) -> Result<IterId, Refusal> {
        let s = self.stage(stage);
        s.leaves.iter().copied().find(|l| s.iter(*l).name == name).ok_or_else(|| {
            let names: Vec<_> = s.leaves.iter().map(|l| format!("`{}`", s.iter(*l).name)).collect();
            format!(
                "`{}` has no loop `{name}`; its loops are {}",
                self.dag.tensor(stage).name,
                names.join(", ")
            )
        })
    }

    /// Adds a computed tensor right before another in the topological order.
    pub(crate) fn insert_before(
        &mut self,
        name: &str,
        compute: Compute,
        before: TensorId,
    ) -> Result<TensorId, Refusal> {
        if self.dag.find(name).is_some() {
            return Err(format!("there is a tensor `{name}` already; each cache step can be applied once"));
        }
        let id = self.dag.push_compute(name, compute);
        self.stages.push(Some(Stage::new(id, self.compute(id))));
        let at = self.order.iter().position(|t| *t == before).unwrap_or(self.order.len());
        self.order.insert(at, id);
        Ok(id)
    }

    /// Computed, not inlined readers of a tensor.
    pub(crate) fn readers(&self, id: TensorId) -> Vec<TensorId> {
        self.dag
            .consumers(id)
            .into_iter()
            .filter(|c| self.stages[c.index()].as_ref().is_some_and(|s| s.attach != Attach::Inlined))
            .collect()
    }
}
