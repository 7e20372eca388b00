//! What rules ask about the stages of a schedule: their axes, who reads them, and what kind of work they are.

use talweg_expr::{Expr, Symbol};
use talweg_ir::{ArithOp, Compute, MathOp, Scalar, Source, TensorId};
use talweg_schedule::Schedule;

/// How a stage is best scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StageKind {
    /// A reduction one operand of which varies along the result's last axis while another is broadcast.
    Contraction,
    /// A reduction whose operands all vary along the result's last axis: windows, sums over leading axes.
    Window,
    /// A reduction along the last axis of what it reads, and elementwise stages that read such reductions.
    Rows,
    /// No reduction.
    Elementwise,
}

/// Questions about the stages of a schedule.
#[derive(Clone, Copy, Debug)]
pub struct Stages<'a>(pub &'a Schedule);

impl Stages<'_> {
    fn id(self, stage: &str) -> Option<TensorId> {
        self.0.dag().find(stage)
    }

    /// The definition of a stage.
    pub fn compute(&self, stage: &str) -> Option<&Compute> {
        self.0.dag().tensor(self.0.dag().find(stage)?).compute()
    }

    /// Whether the caller wants the stage's result.
    pub fn is_output(self, stage: &str) -> bool {
        self.id(stage).is_some_and(|id| self.0.dag().tensor(id).output)
    }

    /// Whether the stage reduces.
    pub fn is_reduction(self, stage: &str) -> bool {
        self.compute(stage).is_some_and(|c| c.reduction.is_some())
    }

    /// Name and extent of the result's axes.
    pub fn axes(self, stage: &str) -> Vec<(String, i64)> {
        let axes = self.compute(stage).map(|c| c.axes.clone()).unwrap_or_default();
        axes.iter().map(|a| (a.symbol.name().to_string(), a.extent.as_int().unwrap_or(1))).collect()
    }

    /// Name and extent of the reduction's axes.
    pub fn reduce_axes(self, stage: &str) -> Vec<(String, i64)> {
        let axes = self.compute(stage).map(|c| c.reduce_axes().to_vec()).unwrap_or_default();
        axes.iter().map(|a| (a.symbol.name().to_string(), a.extent.as_int().unwrap_or(1))).collect()
    }

    /// Elements of the result.
    pub fn elements(self, stage: &str) -> i64 {
        self.axes(stage).iter().map(|(_, e)| *e).product()
    }

    /// Iterations of the stage's whole loop nest.
    pub fn iterations(self, stage: &str) -> i64 {
        self.elements(stage) * self.reduce_axes(stage).iter().map(|(_, e)| *e).product::<i64>()
    }

    /// Lanes of a vector of the stage's elements; half floats are computed as f32.
    pub fn lanes(self, stage: &str, vector_bytes: i64) -> i64 {
        let bytes = self.id(stage).map_or(4, |id| self.0.dag().tensor(id).dtype.bytes().max(4) as i64);
        (vector_bytes / bytes).max(1)
    }

    /// Stages with loops that read a stage.
    pub fn readers(self, stage: &str) -> Vec<String> {
        let Some(id) = self.id(stage) else { return Vec::new() };
        let with_loops = self.0.stage_names();
        let names = self.0.dag().consumers(id).into_iter().map(|c| self.0.dag().tensor(c).name.clone());
        names.filter(|n| with_loops.contains(n)).collect()
    }

    /// Stages with loops that a stage reads, each once.
    pub fn producers(self, stage: &str) -> Vec<String> {
        let with_loops = self.0.stage_names();
        let mut out = Vec::new();
        for (t, _) in self.compute(stage).map(|c| c.body.reads()).unwrap_or_default() {
            let name = &self.0.dag().tensor(t).name;
            if with_loops.contains(name) && !out.contains(name) {
                out.push(name.clone());
            }
        }
        out
    }

    /// What kind of work a stage is.
    pub fn kind(self, stage: &str) -> StageKind {
        let Some(compute) = self.compute(stage) else { return StageKind::Elementwise };
        if compute.reduction.is_none() {
            let reads_rows = self.producers(stage).iter().any(|p| self.kind(p) == StageKind::Rows);
            return if reads_rows { StageKind::Rows } else { StageKind::Elementwise };
        }
        let reads = compute.body.reads();
        let Some(vector) = compute.axes.last().map(|a| &a.symbol) else { return StageKind::Rows };
        let along = |r: &(TensorId, Vec<Expr>)| mentions(&r.1, vector);
        if reads.len() >= 2 && reads.iter().any(along) && !reads.iter().all(along) {
            return StageKind::Contraction;
        }
        let last_is_reduced = reads.iter().any(|(_, indices)| {
            indices.last().is_some_and(|e| compute.reduce_axes().iter().any(|a| e.mentions(&a.symbol)))
        });
        if last_is_reduced || !reads.iter().any(along) { StageKind::Rows } else { StageKind::Window }
    }

    /// Data reuse that tiling exploits: two operands that each miss some axis of the result, or one and a reduction.
    pub fn needs_tiling(self, stage: &str) -> bool {
        matches!(self.kind(stage), StageKind::Contraction | StageKind::Window)
    }

    /// Whether the body calls functions too long to repeat for every element of a register tile.
    pub fn is_expensive(self, stage: &str) -> bool {
        let mut found = false;
        let Some(compute) = self.compute(stage) else { return false };
        compute.body.visit(&mut |s| {
            use MathOp::{Cos, Erf, Exp, Log, Sigmoid, Sin, Tanh};
            found |= matches!(s, Scalar::Unary(Exp | Log | Tanh | Sigmoid | Erf | Sin | Cos, _))
                || matches!(s, Scalar::Binary(ArithOp::Pow, ..));
        });
        found
    }

    /// Whether the body is long or divides: worth storing rather than computing again for every reader.
    pub fn is_costly(self, stage: &str) -> bool {
        let mut found = self.is_expensive(stage);
        let Some(compute) = self.compute(stage) else { return false };
        compute.body.visit(&mut |s| {
            found |= matches!(s, Scalar::Unary(MathOp::Sqrt | MathOp::Rsqrt, _))
                || matches!(s, Scalar::Binary(ArithOp::Div | ArithOp::Rem, ..));
        });
        found
    }

    /// Whether the body reads under a guard, as padding does: a branch for every element when inlined.
    pub fn is_guarded(self, stage: &str) -> bool {
        let mut found = false;
        let Some(compute) = self.compute(stage) else { return false };
        compute.body.visit(&mut |s| {
            found |= matches!(s, Scalar::Select(c, ..) if matches!(**c, Scalar::Index(..)));
        });
        found
    }

    /// Whether each element of a stage is read more than once.
    pub fn is_reused(self, stage: &str) -> bool {
        let elements = self.elements(stage);
        let reads: i64 = self.readers(stage).iter().map(|r| self.iterations(r)).sum();
        reads > elements + elements / 2
    }

    /// The reader that takes every element of `stage` at the same place, when it is the only reader and elementwise.
    pub fn matched_consumer(self, stage: &str) -> Option<String> {
        let id = self.id(stage)?;
        if self.is_output(stage) {
            return None;
        }
        let [reader]: [String; 1] = self.readers(stage).try_into().ok()?;
        let compute = self.compute(&reader)?;
        let axes: Vec<Expr> = compute.axes.iter().map(|a| a.var()).collect();
        let same = compute.body.reads().iter().filter(|(t, _)| *t == id).all(|(_, idx)| *idx == axes);
        (compute.reduction.is_none() && same).then_some(reader)
    }

    /// The tiled reductions an elementwise stage could finish: it is their matched consumer.
    pub fn finishes(self, stage: &str) -> Vec<String> {
        let mut found = self.producers(stage);
        found.retain(|p| self.needs_tiling(p) && self.matched_consumer(p).as_deref() == Some(stage));
        found
    }

    /// The operand of a contraction that is read by vectors along the result's last axis.
    pub fn streamed(self, stage: &str) -> Streamed {
        let mut out = Streamed::default();
        let Some(compute) = self.compute(stage) else { return out };
        let Some((vector, others)) = compute.axes.split_last() else { return out };
        let reads = compute.body.reads();
        let (streamed, broadcast): (Vec<_>, Vec<_>) =
            reads.iter().map(|(_, indices)| indices).partition(|i| mentions(i, &vector.symbol));
        for a in others {
            if !streamed.iter().any(|indices| mentions(indices, &a.symbol)) {
                continue;
            }
            out.axes.push(a.symbol.name().to_string());
            let along_both = |e: &Expr| e.mentions(&a.symbol) && e.mentions(&vector.symbol);
            if streamed.iter().any(|indices| indices.iter().any(along_both))
                && !broadcast.iter().any(|indices| mentions(indices, &a.symbol))
            {
                out.panels.push(a.symbol.name().to_string());
            }
        }
        out
    }

    /// Constants only this stage reads: their layout may follow its loops.
    pub fn constants(self, stage: &str) -> Vec<String> {
        let dag = self.0.dag();
        let mut out = Vec::new();
        for (t, _) in self.compute(stage).map(|c| c.body.reads()).unwrap_or_default() {
            let tensor = dag.tensor(t);
            if tensor.source == Source::Const && !out.contains(&tensor.name) {
                out.push(tensor.name.clone());
            }
        }
        out
    }
}

/// The operand a contraction reads by vectors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Streamed {
    /// Axes of the result it depends on besides the last: batches, which cannot share its vectors, and panels.
    pub axes: Vec<String>,
    /// Those among them that count its columns together with the last axis, and nothing else: blocks of channels.
    pub panels: Vec<String>,
}

fn mentions(indices: &[Expr], symbol: &Symbol) -> bool {
    indices.iter().any(|e| e.mentions(symbol))
}
