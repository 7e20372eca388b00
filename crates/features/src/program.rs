//! Formulas compiled for many candidates at once.

use std::collections::HashMap;

use talweg_expr::{Expr, Scratch, Symbol, Tape, TapeError};
use talweg_ir::Nest;

use crate::context::{CONTEXT_WIDTH, context};
use crate::demand::Machine;
use crate::formula::number;
use crate::names::STORE_WIDTH;
use crate::relation::{RELATION_WIDTH, relations};
use crate::store::{StoreFeatures, per_store};

/// Candidates that are evaluated before their rows are written: a multiple of the tape's block whose values stay in
/// the second cache level.
const CHUNK: usize = 256;

/// Why features cannot be compiled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FeatureError {
    /// The nest has a knob that the program is not given.
    #[error(
        "the features of `{nest}` depend on `{symbol}`, which is not among the knobs: list it or substitute it"
    )]
    MissingKnob {
        /// The nest's name.
        nest: String,
        /// What is missing.
        symbol: Symbol,
    },
    /// A knob is listed twice.
    #[error("knob `{symbol}` of `{nest}` is listed twice")]
    RepeatedKnob {
        /// The nest's name.
        nest: String,
        /// The knob.
        symbol: Symbol,
    },
}

impl FeatureError {
    pub(crate) fn of(nest: &Nest, e: TapeError) -> FeatureError {
        let nest = nest.name.clone();
        match e {
            TapeError::UnknownSymbol { symbol, .. } => FeatureError::MissingKnob { nest, symbol },
            TapeError::DuplicateInput { symbol } => FeatureError::RepeatedKnob { nest, symbol },
        }
    }
}

/// Memory for evaluations, to be used again and again; any program may use any scratch.
#[derive(Debug, Default)]
pub struct FeatureScratch {
    tape: Scratch,
    values: Vec<f64>,
    seeds: Vec<f64>,
}

impl FeatureScratch {
    /// An empty scratch, which grows as needed.
    pub fn new() -> FeatureScratch {
        FeatureScratch::default()
    }
}

/// The features of one sketch as a function of its knobs: a matrix for every candidate, one row for each store (or
/// loop, or buffer). What no knob changes is not evaluated again, equal formulas are evaluated once.
#[derive(Clone, Debug)]
pub struct FeatureProgram {
    tape: Tape,
    rows: usize,
    width: usize,
    /// The matrix with its constants in place.
    template: Vec<f32>,
    /// Which output of the tape goes to which place of the matrix, in the order of places.
    moves: Vec<(u32, u32)>,
}

/// A matrix of formulas as what does not vary, the formulas that do (equal ones once), and where each of them goes.
pub(crate) struct Template {
    /// The numbers; zero where a formula belongs.
    pub values: Vec<f32>,
    /// Formulas that depend on knobs.
    pub outputs: Vec<Expr>,
    /// Which formula goes to which place.
    pub moves: Vec<(u32, u32)>,
}

impl Template {
    /// Takes a matrix apart.
    pub fn new(rows: &[Vec<Expr>], width: usize) -> Template {
        let mut values = vec![0.0; rows.len() * width];
        let mut outputs: Vec<Expr> = Vec::new();
        let mut known: HashMap<&Expr, u32> = HashMap::new();
        let mut moves = Vec::new();
        for (at, e) in rows.iter().flatten().enumerate() {
            match number(e) {
                Some(v) => values[at] = v as f32,
                None => {
                    let output = *known.entry(e).or_insert_with(|| {
                        outputs.push(e.clone());
                        outputs.len() as u32 - 1
                    });
                    moves.push((output, at as u32));
                }
            }
        }
        Template { values, outputs, moves }
    }
}

impl FeatureProgram {
    /// Compiles [`per_store`]: one row for each store, [`STORE_WIDTH`] wide.
    pub fn new<'a>(
        nest: &Nest,
        knobs: &[Symbol],
        machine: impl Into<Machine<'a>>,
    ) -> Result<FeatureProgram, FeatureError> {
        FeatureProgram::of_stores(nest, knobs, per_store(nest, machine))
    }

    /// Compiles what [`per_store`] has made of the nest.
    pub fn of_stores(
        nest: &Nest,
        knobs: &[Symbol],
        stores: Vec<StoreFeatures>,
    ) -> Result<FeatureProgram, FeatureError> {
        let rows = stores.into_iter().map(|s| s.values).collect::<Vec<_>>();
        FeatureProgram::compile(nest, knobs, &rows, STORE_WIDTH)
    }

    /// Compiles [`context`]: one row for each loop, [`CONTEXT_WIDTH`] wide.
    pub fn of_context(nest: &Nest, knobs: &[Symbol]) -> Result<FeatureProgram, FeatureError> {
        let rows = context(nest).into_iter().map(|l| l.values).collect::<Vec<_>>();
        FeatureProgram::compile(nest, knobs, &rows, CONTEXT_WIDTH)
    }

    /// Compiles [`relations`]: one row for each buffer, [`RELATION_WIDTH`] wide.
    pub fn of_relations(nest: &Nest, knobs: &[Symbol]) -> Result<FeatureProgram, FeatureError> {
        let rows = relations(nest).into_iter().map(|b| b.values).collect::<Vec<_>>();
        FeatureProgram::compile(nest, knobs, &rows, RELATION_WIDTH)
    }

    fn compile(
        nest: &Nest,
        knobs: &[Symbol],
        rows: &[Vec<Expr>],
        width: usize,
    ) -> Result<FeatureProgram, FeatureError> {
        let Template { values: template, outputs, moves } = Template::new(rows, width);
        let tape = Tape::new(&outputs, knobs).map_err(|e| FeatureError::of(nest, e))?;
        Ok(FeatureProgram { tape, rows: rows.len(), width, template, moves })
    }

    /// Rows of a candidate's matrix.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Columns of a candidate's matrix.
    pub fn width(&self) -> usize {
        self.width
    }

    /// The knobs, in the order of a candidate's coordinates.
    pub fn knobs(&self) -> &[Symbol] {
        self.tape.inputs()
    }

    /// Operators evaluated for each candidate.
    pub fn steps(&self) -> usize {
        self.tape.steps()
    }

    /// Features that depend on knobs, equal ones counted once.
    pub fn varying(&self) -> usize {
        self.tape.outputs()
    }

    /// Evaluates `n` candidates: `candidates` is `n x knobs`, `out` is `n x rows x width`, both row-major.
    ///
    /// # Panics
    /// When a slice does not have the length its shape asks for.
    pub fn eval_batch(&self, candidates: &[f64], n: usize, out: &mut [f32], scratch: &mut FeatureScratch) {
        let (knobs, outputs, size) = (self.knobs().len(), self.tape.outputs(), self.template.len());
        assert!(candidates.len() == n * knobs, "`candidates` is not {n} x {knobs} numbers");
        assert!(out.len() == n * size, "`out` is not {n} x {size} numbers");
        scratch.values.resize(scratch.values.len().max(CHUNK.min(n) * outputs), 0.0);
        for start in (0..n).step_by(CHUNK) {
            let count = CHUNK.min(n - start);
            let points = &candidates[start * knobs..][..count * knobs];
            let values = &mut scratch.values[..count * outputs];
            self.tape.eval(points, count, values, &mut scratch.tape);
            for k in 0..count {
                let values = &values[k * outputs..][..outputs];
                let matrix = &mut out[(start + k) * size..][..size];
                matrix.copy_from_slice(&self.template);
                for (from, to) in &self.moves {
                    matrix[*to as usize] = values[*from as usize] as f32;
                }
            }
        }
    }

    /// Derivatives by the knobs: `seed` is `n x rows x width`, the derivative of something by each feature, and `grad`
    /// (`n x knobs`) receives its derivative by each knob. The rules at corners are those of [`talweg_expr::tape`].
    ///
    /// # Panics
    /// When a slice does not have the length its shape asks for.
    pub fn gradient_batch(
        &self,
        candidates: &[f64],
        n: usize,
        seed: &[f32],
        grad: &mut [f64],
        scratch: &mut FeatureScratch,
    ) {
        let (knobs, outputs, size) = (self.knobs().len(), self.tape.outputs(), self.template.len());
        assert!(candidates.len() == n * knobs, "`candidates` is not {n} x {knobs} numbers");
        assert!(seed.len() == n * size, "`seed` is not {n} x {size} numbers");
        assert!(grad.len() == n * knobs, "`grad` is not {n} x {knobs} numbers");
        let most = CHUNK.min(n) * outputs;
        scratch.values.resize(scratch.values.len().max(most), 0.0);
        scratch.seeds.resize(scratch.seeds.len().max(most), 0.0);
        for start in (0..n).step_by(CHUNK) {
            let count = CHUNK.min(n - start);
            let range = start * knobs..(start + count) * knobs;
            let seeds = &mut scratch.seeds[..count * outputs];
            seeds.fill(0.0);
            for k in 0..count {
                let matrix = &seed[(start + k) * size..][..size];
                for (from, to) in &self.moves {
                    seeds[k * outputs + *from as usize] += f64::from(matrix[*to as usize]);
                }
            }
            let values = &mut scratch.values[..count * outputs];
            self.tape.gradient(
                &candidates[range.clone()],
                count,
                seeds,
                values,
                &mut grad[range],
                &mut scratch.tape,
            );
        }
    }
}

/// A tape that gives `left - right` for each constraint `left <= right`: a candidate satisfies those that are not
/// positive.
pub fn constraints_tape(constraints: &[(Expr, Expr)], knobs: &[Symbol]) -> Result<Tape, TapeError> {
    let excess: Vec<Expr> = constraints.iter().map(|(left, right)| left.clone() - right).collect();
    Tape::new(&excess, knobs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constraints_are_met_when_not_positive() -> Result<(), TapeError> {
        let (a, b) = (Symbol::knob("a"), Symbol::knob("b"));
        let product = Expr::sym(&a) * Expr::sym(&b);
        let tape = constraints_tape(&[(product, Expr::int(32)), (Expr::sym(&a), Expr::sym(&b))], &[a, b])?;
        let mut out = [0.0; 4];
        tape.eval(&[4.0, 8.0, 16.0, 4.0], 2, &mut out, &mut Scratch::new());
        assert_eq!(out, [0.0, -4.0, 32.0, 12.0]);
        Ok(())
    }
}
