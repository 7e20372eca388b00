//! Smooth features of a sketch and their derivatives, for descent over knobs that are real numbers.
//!
//! The formulas are those of [`crate::per_store`], rewritten ([`talweg_expr::rewrite`]) and smoothed
//! ([`talweg_expr::smooth`]); the width is an input, so that it can be narrowed from step to step.

use std::ops::Range;

use talweg_expr::rewrite::smooth_cost;
use talweg_expr::{Expr, Ranges, RewriteReport, Rewriter, Scratch, Smoother, Symbol, Tape};
use talweg_ir::Nest;

use crate::demand::Machine;
use crate::names::STORE_WIDTH;
use crate::program::{FeatureError, Template};
use crate::store::per_store;

/// The width's symbol; no knob has this name.
const WIDTH: &str = "smooth width";

/// How a [`SmoothProgram`] is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SmoothOptions {
    /// Whether formulas are rewritten before they are smoothed.
    pub rewrites: bool,
}

impl Default for SmoothOptions {
    fn default() -> SmoothOptions {
        SmoothOptions { rewrites: true }
    }
}

/// Operators of a program at its stages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SmoothReport {
    /// The exact formulas as they are written.
    pub exact: usize,
    /// The exact formulas, rewritten.
    pub rewritten: usize,
    /// The smooth formulas.
    pub smooth: usize,
    /// What rewriting did, if it was asked for.
    pub rewriting: Option<RewriteReport>,
}

/// Memory for evaluations, to be used again and again; any program may use any scratch.
#[derive(Debug, Default)]
pub struct SmoothScratch {
    tape: Scratch,
    points: Vec<f64>,
    grad: Vec<f64>,
    features: Vec<f32>,
    slopes: Vec<f32>,
}

/// The smooth features of one sketch, and how much its constraints are violated.
#[derive(Clone, Debug)]
pub struct SmoothProgram {
    tape: Tape,
    penalties: Tape,
    rows: usize,
    template: Vec<f32>,
    moves: Vec<(u32, u32)>,
    report: SmoothReport,
}

/// Scores the features of some programs (each [`SmoothProgram::rows`] rows) and gives the derivatives of the scores by the
/// features.
pub type ScoreBlock<'a> = &'a mut dyn FnMut(Range<usize>, &[f32], &mut [f32]);

impl SmoothProgram {
    /// Compiles the smooth features of a nest over `knobs`, whose ranges are known, and its constraints `left <= right`.
    pub fn new<'a>(
        nest: &Nest,
        knobs: &[Symbol],
        ranges: &Ranges,
        constraints: &[(Expr, Expr)],
        machine: impl Into<Machine<'a>>,
        options: SmoothOptions,
    ) -> Result<SmoothProgram, FeatureError> {
        let rows: Vec<Vec<Expr>> = per_store(nest, machine).into_iter().map(|s| s.values).collect();
        let Template { values: template, outputs, moves } = Template::new(&rows, STORE_WIDTH);
        let tape_of = |formulas: &[Expr], inputs: &[Symbol]| {
            Tape::new(formulas, inputs).map_err(|e| FeatureError::of(nest, e))
        };
        let width = Symbol::var(WIDTH);
        let mut inputs = knobs.to_vec();
        inputs.push(width.clone());
        let mut smoother = Smoother::new(ranges.clone(), &width);
        let mut smoothed =
            |formulas: &[Expr]| -> Vec<Expr> { formulas.iter().map(|e| smoother.smooth(e)).collect() };
        let mut report = SmoothReport { exact: tape_of(&outputs, knobs)?.steps(), ..SmoothReport::default() };
        let mut smooth = smoothed(&outputs);
        report.rewritten = report.exact;
        if options.rewrites {
            let simple: Vec<Expr> = outputs.iter().map(|e| e.simplify(ranges)).collect();
            let exact = Rewriter { cost: smooth_cost, ..Rewriter::new(ranges.clone()) };
            let (new, did) = exact.rewrite(&simple);
            report.rewritten = tape_of(&new, knobs)?.steps();
            report.rewriting = Some(did);
            // Knobs are real numbers now. Fewer exact operators may be more smooth ones: the shortest form is kept.
            let real = Rewriter { whole: false, ..Rewriter::new(ranges.clone()) };
            let mut least = tape_of(&smooth, &inputs)?.steps();
            let mut consider = |formulas: Vec<Expr>| -> Result<(), FeatureError> {
                let steps = tape_of(&formulas, &inputs)?.steps();
                if steps < least {
                    (least, smooth) = (steps, formulas);
                }
                Ok(())
            };
            for formulas in [simple, new] {
                consider(smoothed(&formulas))?;
            }
            let again = real.rewrite(&smooth).0;
            if tape_of(&again, &inputs)?.steps() < least {
                smooth = again;
            }
        }
        let violations: Vec<Expr> =
            constraints.iter().map(|(left, right)| smoother.violation(left, right)).collect();
        let tape = tape_of(&smooth, &inputs)?;
        report.smooth = tape.steps();
        let penalties = tape_of(&violations, &inputs)?;
        Ok(SmoothProgram { tape, penalties, rows: rows.len(), template, moves, report })
    }

    /// Rows of a program's features, each [`STORE_WIDTH`] wide.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// How many knobs a point has.
    pub fn knobs(&self) -> usize {
        self.tape.inputs().len() - 1
    }

    /// The formulas: functions of the knobs and, last, the width. Features that no knob changes are not among them.
    pub fn tape(&self) -> &Tape {
        &self.tape
    }

    /// Operators at the stages of its making.
    pub fn report(&self) -> &SmoothReport {
        &self.report
    }

    /// The features of `n` points (`n x knobs`) at a width: `n x rows x STORE_WIDTH` numbers.
    pub fn features(&self, points: &[f64], n: usize, width: f64, scratch: &mut SmoothScratch) -> Vec<f32> {
        let mut out = vec![0.0; n * self.template.len()];
        let size = self.template.len();
        self.gradient(
            points,
            n,
            width,
            &mut |range, features, slopes| {
                out[range.start * size..range.end * size].copy_from_slice(features);
                slopes.fill(0.0);
            },
            &mut vec![0.0; points.len()],
            scratch,
        );
        out
    }

    /// The derivative of a score by the knobs at `n` points (`n x knobs`): `score` is given the features of some of them
    /// and fills in the score's derivatives by the features; `grad` is `n x knobs`.
    ///
    /// # Panics
    /// When a slice does not have the length its shape asks for.
    pub fn gradient(
        &self,
        points: &[f64],
        n: usize,
        width: f64,
        score: ScoreBlock<'_>,
        grad: &mut [f64],
        scratch: &mut SmoothScratch,
    ) {
        let (size, outputs) = (self.template.len(), self.tape.outputs());
        let SmoothScratch { tape, points: at, grad: all, features, slopes } = scratch;
        self.with_width(points, n, width, at);
        all.resize(at.len(), 0.0);
        let mut seed = |range: Range<usize>, values: &[f64], seeds: &mut [f64]| {
            features.resize(range.len() * size, 0.0);
            slopes.resize(range.len() * size, 0.0);
            // Without knobs there are no values, and the template is all there is.
            for (at, matrix) in features.chunks_exact_mut(size.max(1)).enumerate() {
                matrix.copy_from_slice(&self.template);
                for (from, to) in &self.moves {
                    matrix[*to as usize] = values[at * outputs + *from as usize] as f32;
                }
            }
            score(range, features, slopes);
            seeds.fill(0.0);
            for (slopes, seeds) in
                slopes.chunks_exact(size.max(1)).zip(seeds.chunks_exact_mut(outputs.max(1)))
            {
                for (from, to) in &self.moves {
                    seeds[*from as usize] += f64::from(slopes[*to as usize]);
                }
            }
        };
        self.tape.gradient_with(at, n, &mut seed, all, tape);
        self.without_width(all, grad);
    }

    /// The penalty of `n` points, the sum of squares of `log(left / right)` over violated constraints, and its
    /// derivative by the knobs.
    ///
    /// # Panics
    /// When a slice does not have the length its shape asks for.
    pub fn penalty(
        &self,
        points: &[f64],
        n: usize,
        width: f64,
        penalty: &mut [f64],
        grad: &mut [f64],
        scratch: &mut SmoothScratch,
    ) {
        let outputs = self.penalties.outputs();
        let SmoothScratch { tape, points: at, grad: all, .. } = scratch;
        self.with_width(points, n, width, at);
        all.resize(at.len(), 0.0);
        penalty.fill(0.0);
        let mut seed = |range: Range<usize>, values: &[f64], seeds: &mut [f64]| {
            if outputs == 0 {
                return;
            }
            for (penalty, (values, seeds)) in penalty[range]
                .iter_mut()
                .zip(values.chunks_exact(outputs).zip(seeds.chunks_exact_mut(outputs)))
            {
                for (v, s) in values.iter().zip(seeds) {
                    let over = v.max(0.0);
                    *penalty += over * over;
                    *s = 2.0 * over;
                }
            }
        };
        self.penalties.gradient_with(at, n, &mut seed, all, tape);
        self.without_width(all, grad);
    }

    fn with_width(&self, points: &[f64], n: usize, width: f64, out: &mut Vec<f64>) {
        let knobs = self.knobs();
        assert!(points.len() == n * knobs, "`points` is not {n} x {knobs} numbers");
        out.clear();
        for k in 0..n {
            out.extend_from_slice(&points[k * knobs..][..knobs]);
            out.push(width);
        }
    }

    fn without_width(&self, all: &[f64], grad: &mut [f64]) {
        let knobs = self.knobs();
        assert!(grad.len() * (knobs + 1) == all.len() * knobs, "`grad` has one number a knob");
        if knobs > 0 {
            for (to, from) in grad.chunks_exact_mut(knobs).zip(all.chunks_exact(knobs + 1)) {
                to.copy_from_slice(&from[..knobs]);
            }
        }
    }
}
