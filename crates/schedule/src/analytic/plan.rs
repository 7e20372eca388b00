//! The schedule under construction, and the questions the planners ask about its stages.

use std::collections::{BTreeMap, BTreeSet};

use talweg_expr::{Expr, Symbol};
use talweg_ir::{ArithOp, Compute, Dag, MathOp, Scalar, TensorId};
use talweg_target::Target;

use crate::state::Schedule;
use crate::step::{Step, Trace};

/// Iterations of a parallel loop that share well among the threads of one machine.
const ENOUGH_FOR_THREADS: i64 = 64;

/// How a stage is best scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A reduction whose result's last axis indexes one operand but not another, with rows that reuse the first.
    Contraction,
    /// A reduction whose operands all vary along the result's last axis.
    Window,
    /// A reduction along the last axis of what it reads, and elementwise stages that read such reductions.
    Rows,
    /// No reduction.
    Elementwise,
}

/// Numbers about the machine the planners use.
#[derive(Clone, Copy, Debug)]
pub(super) struct Machine {
    pub vector_bytes: i64,
    pub registers: i64,
    pub l1: i64,
    pub l2: i64,
    pub l3: i64,
    pub cores: i64,
}

/// Bytes between addresses that fall into the same set of the first cache level, on every machine whose first level
/// finds its set while the page is still being looked up.
const WAY: i64 = 4096;

/// Bytes of a line of a cache.
const LINE: i64 = 64;

impl Machine {
    /// How many rows that lie `stride` bytes apart may be read side by side without driving each other out of the
    /// first cache level: those that share a set must leave some of its ways to others.
    pub fn rows_side_by_side(&self, stride: i64) -> i64 {
        let (mut a, mut b) = (stride.max(1), WAY);
        while b != 0 {
            (a, b) = (b, a % b);
        }
        (self.l1 / WAY * 3 / 4).max(1) * (WAY / a)
    }

    /// The same for rows along two axes, by the bytes between neighbours along each.
    pub fn tile_side_by_side(&self, (upper, row): (i64, i64), strides: (i64, i64)) -> bool {
        let starts = (0..upper).flat_map(|u| (0..row).map(move |r| u * strides.0 + r * strides.1));
        let lines: BTreeSet<i64> = starts.map(|at| at.div_euclid(LINE)).collect();
        let mut sets: BTreeMap<i64, i64> = BTreeMap::new();
        for line in lines {
            *sets.entry(line.rem_euclid(WAY / LINE)).or_default() += 1;
        }
        sets.into_values().all(|lines| lines <= (self.l1 / WAY * 3 / 4).max(1))
    }

    /// Bytes of rows that stay cached while panels pass over them: a share of the last level, which others use too.
    pub fn rows_fit(&self) -> i64 {
        (self.l3 / 8).min(32 << 20).max(self.l2 / 2)
    }
}

/// A schedule being planned.
pub(super) struct Plan {
    pub schedule: Schedule,
    pub machine: Machine,
    done: BTreeSet<String>,
}

impl Plan {
    pub fn new(dag: Dag, target: &Target) -> Plan {
        let machine = Machine {
            vector_bytes: i64::from(target.vector_bits / 8).max(4),
            registers: i64::from(target.vector_registers).max(8),
            l1: (target.l1d as i64).max(16 << 10),
            l2: (target.l2 as i64).max(128 << 10),
            l3: target.l3 as i64,
            cores: i64::from(target.cores).max(1),
        };
        Plan { schedule: Schedule::new(dag), machine, done: BTreeSet::new() }
    }

    pub fn finish(self) -> Trace {
        self.schedule.trace().clone()
    }

    /// Applies a step; a refused step is left out, which is always safe.
    pub fn step(&mut self, step: Step) -> bool {
        self.schedule.apply(step).is_ok()
    }

    pub fn id(&self, stage: &str) -> TensorId {
        self.schedule.dag.find(stage).expect("planners name stages of the schedule")
    }

    pub fn name(&self, id: TensorId) -> String {
        self.schedule.dag.tensor(id).name.clone()
    }

    pub fn compute(&self, stage: &str) -> &Compute {
        self.schedule.compute(self.id(stage))
    }

    pub fn mark(&mut self, stage: &str) {
        self.done.insert(stage.to_string());
    }

    pub fn is_scheduled(&self, stage: &str) -> bool {
        self.done.contains(stage)
    }

    /// Stages with loops, readers before producers.
    pub fn stages_from_outputs(&self) -> Vec<String> {
        self.schedule.stage_names().into_iter().rev().collect()
    }

    pub fn lanes(&self, stage: &str) -> i64 {
        // Half floats are computed as f32.
        let bytes = self.schedule.dag.tensor(self.id(stage)).dtype.bytes().max(4) as i64;
        (self.machine.vector_bytes / bytes).max(1)
    }

    /// Name and extent of the result's axes.
    pub fn axes(&self, stage: &str) -> Vec<(String, i64)> {
        let axes = &self.compute(stage).axes;
        axes.iter().map(|a| (a.symbol.name().to_string(), a.extent.as_int().unwrap_or(1))).collect()
    }

    /// Name and extent of the reduction's axes.
    pub fn reduce_axes(&self, stage: &str) -> Vec<(String, i64)> {
        let axes = self.compute(stage).reduce_axes();
        axes.iter().map(|a| (a.symbol.name().to_string(), a.extent.as_int().unwrap_or(1))).collect()
    }

    /// Iterations of the stage's whole loop nest.
    pub fn iterations(&self, stage: &str) -> i64 {
        self.axes(stage).iter().chain(&self.reduce_axes(stage)).map(|(_, e)| *e).product()
    }

    pub fn readers(&self, stage: &str) -> Vec<String> {
        self.schedule.readers(self.id(stage)).into_iter().map(|r| self.name(r)).collect()
    }

    /// Computed, not inlined tensors a stage reads, each once.
    pub fn producers(&self, stage: &str) -> Vec<String> {
        let with_loops = self.schedule.stage_names();
        let mut out = Vec::new();
        for (t, _) in self.compute(stage).body.reads() {
            let name = self.name(t);
            if with_loops.contains(&name) && !out.contains(&name) {
                out.push(name);
            }
        }
        out
    }

    pub fn kind(&self, stage: &str) -> Kind {
        let compute = self.compute(stage);
        if compute.reduction.is_none() {
            let reads_rows = self.producers(stage).iter().any(|p| self.kind(p) == Kind::Rows);
            return if reads_rows { Kind::Rows } else { Kind::Elementwise };
        }
        let reads = compute.body.reads();
        let depends = |indices: &[Expr], s: &Symbol| indices.iter().any(|e| e.mentions(s));
        let Some(vector) = compute.axes.last().map(|a| &a.symbol) else { return Kind::Rows };
        let along = |r: &(TensorId, Vec<Expr>)| depends(&r.1, vector);
        // One operand varies along the last axis, another does not and is therefore broadcast.
        if reads.len() >= 2 && reads.iter().any(along) && !reads.iter().all(along) {
            return Kind::Contraction;
        }
        // The operand's last dimension runs with a reduction axis: lanes must be combined.
        let last_is_reduced = reads.iter().any(|(_, indices)| {
            indices.last().is_some_and(|e| compute.reduce_axes().iter().any(|a| e.mentions(&a.symbol)))
        });
        if last_is_reduced || !reads.iter().any(along) { Kind::Rows } else { Kind::Window }
    }

    /// Whether the body calls functions too long to repeat for every element of a register tile.
    pub fn is_expensive(&self, stage: &str) -> bool {
        let mut found = false;
        self.compute(stage).body.visit(&mut |s| {
            if let Scalar::Unary(op, _) = s {
                use MathOp::{Cos, Erf, Exp, Log, Sigmoid, Sin, Tanh};
                found |= matches!(op, Exp | Log | Tanh | Sigmoid | Erf | Sin | Cos);
            }
            if let Scalar::Binary(ArithOp::Pow, ..) = s {
                found = true;
            }
        });
        found
    }

    /// Whether the body is long or divides: worth storing rather than computing again for every reader.
    pub fn is_costly(&self, stage: &str) -> bool {
        let mut found = self.is_expensive(stage);
        self.compute(stage).body.visit(&mut |s| {
            found |= matches!(
                s,
                Scalar::Unary(MathOp::Sqrt | MathOp::Rsqrt, _)
                    | Scalar::Binary(ArithOp::Div | ArithOp::Rem, ..)
            );
        });
        found
    }

    /// The reduction whose register tile this elementwise stage finishes, when there is one.
    pub fn finishes(&self, stage: &str) -> Option<String> {
        let tiled = |p: &String| matches!(self.kind(p), Kind::Contraction | Kind::Window);
        let mut found = self.producers(stage).into_iter().filter(|p| !self.is_scheduled(p) && tiled(p));
        found.find(|p| self.epilogue(p).as_deref() == Some(stage))
    }

    /// The reader that takes every element of `stage` at the same place, when there is exactly one reader and it is
    /// elementwise over the same axes.
    pub fn epilogue(&self, stage: &str) -> Option<String> {
        let id = self.id(stage);
        if self.schedule.dag.tensor(id).output {
            return None;
        }
        let [reader] = self.readers(stage).try_into().ok()?;
        let compute = self.compute(&reader);
        let axes: Vec<Expr> = compute.axes.iter().map(|a| a.var()).collect();
        let same = compute.body.reads().iter().filter(|(t, _)| *t == id).all(|(_, idx)| *idx == axes);
        (compute.reduction.is_none() && same).then_some(reader)
    }

    /// Splits a loop, leaving out splits that do nothing; gives the names of the resulting loops.
    pub fn split(&mut self, stage: &str, axis: &str, extent: i64, factors: &[i64]) -> Vec<String> {
        let whole: i64 = factors.iter().product();
        if factors.is_empty() || (whole >= extent && factors.len() == 1 && factors[0] >= extent) {
            return vec![axis.to_string()];
        }
        let step = Step::Split {
            stage: stage.to_string(),
            axis: axis.to_string(),
            factors: factors.iter().map(|f| Expr::int(*f)).collect(),
        };
        if self.step(step) {
            (0..=factors.len()).map(|l| format!("{axis}.{l}")).collect()
        } else {
            vec![axis.to_string()]
        }
    }

    /// The same where factors may be open.
    pub fn split_by(&mut self, stage: &str, axis: &str, extent: i64, factors: &[Expr]) -> Vec<String> {
        if let Some(numbers) = factors.iter().map(Expr::as_int).collect::<Option<Vec<i64>>>() {
            return self.split(stage, axis, extent, &numbers);
        }
        let split = Step::Split { stage: stage.into(), axis: axis.into(), factors: factors.to_vec() };
        match self.step(split) {
            true => (0..=factors.len()).map(|l| format!("{axis}.{l}")).collect(),
            false => vec![axis.to_string()],
        }
    }

    pub fn reorder(&mut self, stage: &str, loops: &[String]) {
        if loops.len() > 1 {
            self.step(Step::Reorder { stage: stage.to_string(), loops: loops.to_vec() });
        }
    }

    /// Fuses leading loops until there is enough to share among threads, and gives the name of the result.
    pub fn fuse_for_threads(&mut self, stage: &str, loops: &[(String, i64)]) -> Option<String> {
        let mut iterations = 1;
        let mut together = Vec::new();
        for (name, extent) in loops {
            if iterations >= ENOUGH_FOR_THREADS {
                break;
            }
            iterations *= extent;
            together.push(name.clone());
        }
        self.fuse(stage, &together)
    }

    /// Fuses neighbouring loops and gives the name of the result.
    pub fn fuse(&mut self, stage: &str, loops: &[String]) -> Option<String> {
        match loops {
            [] => None,
            [one] => Some(one.clone()),
            _ => self
                .step(Step::Fuse { stage: stage.to_string(), loops: loops.to_vec() })
                .then(|| loops.join("_")),
        }
    }

    pub fn vectorize(&mut self, stage: &str, axis: &str) {
        self.step(Step::Vectorize { stage: stage.to_string(), axis: axis.to_string() });
    }

    pub fn unroll(&mut self, stage: &str, axis: &str) {
        self.step(Step::Unroll { stage: stage.to_string(), axis: axis.to_string() });
    }

    pub fn parallel(&mut self, stage: &str, axis: &str) {
        self.step(Step::Parallel { stage: stage.to_string(), axis: axis.to_string() });
    }

    pub fn compute_at(&mut self, stage: &str, target: &str, at: &str) -> bool {
        self.step(Step::ComputeAt {
            stage: stage.to_string(),
            target: target.to_string(),
            at: at.to_string(),
        })
    }
}
