//! Descent over relaxed knobs: many points at once, each following the gradient of its score.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use talweg_cost::{Batch, Matrix};
use talweg_features::{STORE_WIDTH, SmoothProgram, SmoothScratch};
use talweg_space::{Relaxation, Rounding};

use crate::Candidate;
use crate::felix::scorer::DifferentiableScorer;

/// Parameters of a descent.
#[derive(Clone, Debug, PartialEq)]
pub struct DescentParams {
    /// The step size in logarithms at the start, and at the end.
    pub rate: (f64, f64),
    /// The width of smoothing at the start, and at the end; equal ones are a fixed width.
    pub width: (f64, f64),
    /// How much stronger than the score a violated constraint pulls, whatever the units of both.
    pub penalty: f64,
    /// Points are rounded every so many steps, and after the last.
    pub every: usize,
    /// Whether points are rounded to sizes without waste too, not only to the nearest.
    pub neat: bool,
    /// Whether rounded points that violate a constraint are repaired; they are dropped otherwise.
    pub repair: bool,
    /// Threads to use; the result is the same for any number.
    pub threads: usize,
}

impl DescentParams {
    /// The width in the middle between start and end, from the first step to the last.
    pub fn fix_width(&mut self) {
        let middle = (self.width.0 * self.width.1).sqrt();
        self.width = (middle, middle);
    }
}

impl Default for DescentParams {
    fn default() -> DescentParams {
        DescentParams {
            rate: (0.25, 0.03),
            width: (0.5, 0.05),
            penalty: 5.0,
            every: 6,
            neat: true,
            repair: true,
            threads: 2,
        }
    }
}

/// Points of one sketch that descend together.
pub struct Group<'a> {
    /// The sketch's number.
    pub sketch: usize,
    /// Its knobs as variables.
    pub relaxation: &'a Relaxation<'a>,
    /// Its smooth features.
    pub program: &'a SmoothProgram,
    /// Where the points start: one row of variables each.
    pub points: Vec<f64>,
}

/// The decay rates of Adam's two averages.
const DECAY: (f64, f64) = (0.8, 0.95);

/// Runs all groups for so many steps; the rounded candidates of each group, in the order they were met, each once.
pub fn descend(
    groups: Vec<Group<'_>>,
    steps: usize,
    scorer: &dyn DifferentiableScorer,
    params: &DescentParams,
) -> Vec<Vec<Candidate>> {
    let next = AtomicUsize::new(0);
    let slots: Vec<Mutex<(Group<'_>, Vec<Candidate>)>> =
        groups.into_iter().map(|g| Mutex::new((g, Vec::new()))).collect();
    let work = || {
        let mut scratch = SmoothScratch::default();
        while let Some(slot) = slots.get(next.fetch_add(1, Ordering::Relaxed)) {
            let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
            let (group, found) = &mut *slot;
            *found = descend_group(group, steps, scorer, params, &mut scratch);
        }
    };
    let threads = params.threads.clamp(1, slots.len().max(1));
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(work);
        }
        work();
    });
    slots.into_iter().map(|slot| slot.into_inner().unwrap_or_else(PoisonError::into_inner).1).collect()
}

/// From the first to the second, evenly in ratio.
fn between((from, to): (f64, f64), step: usize, steps: usize) -> f64 {
    let share = step as f64 / steps.saturating_sub(1).max(1) as f64;
    from * (to / from).powf(share)
}

fn descend_group(
    group: &mut Group<'_>,
    steps: usize,
    scorer: &dyn DifferentiableScorer,
    params: &DescentParams,
    scratch: &mut SmoothScratch,
) -> Vec<Candidate> {
    let variables = group.relaxation.variables();
    let knobs = variables.len();
    let mut found = Found::default();
    if knobs == 0 {
        found.offer(group.relaxation.round(group.sketch, &[], Rounding::Nearest));
        return found.candidates;
    }
    let n = group.points.len() / knobs;
    let mut values = vec![0.0; n * knobs];
    let (mut climb, mut fall) = (vec![0.0; n * knobs], vec![0.0; n * knobs]);
    let mut penalties = vec![0.0; n];
    let mut mean = vec![0.0; n * knobs];
    let mut square = vec![0.0; n * knobs];
    for step in 0..steps {
        let width = between(params.width, step, steps);
        let rate = between(params.rate, step, steps);
        values.iter_mut().zip(&group.points).for_each(|(v, x)| *v = x.exp());
        score_gradient(group.program, &values, n, width, scorer, &mut climb, scratch);
        group.program.penalty(&values, n, width, &mut penalties, &mut fall, scratch);
        let corrections = (1.0 - DECAY.0.powi(step as i32 + 1), 1.0 - DECAY.1.powi(step as i32 + 1));
        for (p, penalty) in penalties.iter().enumerate() {
            let row = p * knobs..(p + 1) * knobs;
            // Derivatives by logarithms are derivatives by values times the values.
            let scale = |g: &mut [f64]| {
                for ((g, v), variable) in g.iter_mut().zip(&values[row.clone()]).zip(variables) {
                    *g = if variable.moves && g.is_finite() { *g * v } else { 0.0 };
                }
                g.iter().map(|g| g * g).sum::<f64>().sqrt()
            };
            let (up, down) = (scale(&mut climb[row.clone()]), scale(&mut fall[row.clone()]));
            let weight = match *penalty > 0.0 && down > 0.0 {
                true => params.penalty * up.max(1e-6) / down,
                false => 0.0,
            };
            for (k, variable) in row.zip(variables) {
                let g = climb[k] - weight * fall[k];
                mean[k] = DECAY.0 * mean[k] + (1.0 - DECAY.0) * g;
                square[k] = DECAY.1 * square[k] + (1.0 - DECAY.1) * g * g;
                let step = rate * (mean[k] / corrections.0) / ((square[k] / corrections.1).sqrt() + 1e-9);
                group.points[k] = (group.points[k] + step).clamp(variable.lo, variable.hi);
            }
        }
        let is_last = step + 1 == steps;
        if is_last || (step + 1).is_multiple_of(params.every.max(1)) {
            let (sketch, relaxation) = (group.sketch, group.relaxation);
            let roundings: &[Rounding] =
                if params.neat { &[Rounding::Nearest, Rounding::Neat] } else { &[Rounding::Nearest] };
            for point in group.points.chunks_exact(knobs) {
                for rounding in roundings {
                    match params.repair {
                        true => found.offer(relaxation.round(sketch, point, *rounding)),
                        false => relaxation
                            .round_or_reject(sketch, point, *rounding)
                            .into_iter()
                            .for_each(|c| found.offer(c)),
                    }
                }
            }
        }
    }
    found.candidates
}

/// The derivative of the scores at `n` points by the knobs. Where the model fails there is nothing to follow.
pub fn score_gradient(
    program: &SmoothProgram,
    values: &[f64],
    n: usize,
    width: f64,
    scorer: &dyn DifferentiableScorer,
    grad: &mut [f64],
    scratch: &mut SmoothScratch,
) {
    let rows = program.rows();
    let mut score = |range: std::ops::Range<usize>, features: &[f32], slopes: &mut [f32]| {
        let offsets: Vec<usize> = (0..=range.len()).map(|p| p * rows).collect();
        let matrix = Matrix::new(range.len() * rows, STORE_WIDTH, features.to_vec());
        let result = matrix.and_then(|m| scorer.gradient(&Batch { features: &m, offsets: &offsets }));
        match result {
            Ok((_, derivatives)) => slopes.copy_from_slice(derivatives.data()),
            Err(_) => slopes.fill(0.0),
        }
    };
    program.gradient(values, n, width, &mut score, grad, scratch);
}

/// Distinct candidates in the order they were met.
#[derive(Default)]
struct Found {
    seen: HashSet<Candidate>,
    candidates: Vec<Candidate>,
}

impl Found {
    fn offer(&mut self, candidate: Candidate) {
        if self.seen.insert(candidate.clone()) {
            self.candidates.push(candidate);
        }
    }
}
