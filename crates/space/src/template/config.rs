//! The configuration a template is written against.

use talweg_expr::Expr;
use talweg_schedule::{ScheduleError, Step};

use super::Shape;
use crate::domain;
use crate::error::SpaceError;
use crate::knob::KnobRole;
use crate::rules::{Decision, cpu_rules};
use crate::state::SketchState;

/// Which sizes a split offers.
#[derive(Clone, Debug, PartialEq)]
pub enum Sizes {
    /// Divisors whose product divides the extent.
    Divisors,
    /// Powers of two; the last tile may be smaller.
    PowersOfTwo,
    /// Every useful size; the last tile may be smaller.
    All,
    /// Whole vectors along the innermost level, every useful size outside it.
    Vectors,
    /// These lists of sizes, one size for each inner level, chosen together.
    Candidates(Vec<Vec<i64>>),
}

/// How a loop is split.
#[derive(Clone, Debug)]
pub struct SplitPolicy {
    /// Sizes on offer.
    pub sizes: Sizes,
    /// Largest size of the innermost level.
    pub max_factor: i64,
    /// Keeps the sizes of a level (from 1, counted inwards) for which it holds.
    pub filter: fn(usize, i64) -> bool,
}

impl SplitPolicy {
    /// A policy without limits.
    pub fn new(sizes: Sizes) -> SplitPolicy {
        SplitPolicy { sizes, max_factor: i64::MAX, filter: |_, _| true }
    }

    /// The same with a largest size of the innermost level.
    pub fn max_factor(mut self, most: i64) -> SplitPolicy {
        self.max_factor = most.max(1);
        self
    }
}

/// A split loop.
#[derive(Clone, Debug, PartialEq)]
pub struct Split {
    /// The resulting loops, outermost first.
    pub loops: Vec<String>,
    /// The extents of all but the outermost, as formulas of knobs.
    pub sizes: Vec<Expr>,
}

impl Split {
    /// The innermost loop.
    pub fn inner(&self) -> String {
        self.loops.last().cloned().unwrap_or_default()
    }

    /// The extent of the innermost loop; one when nothing was split.
    pub fn inner_size(&self) -> Expr {
        self.sizes.last().cloned().unwrap_or_else(|| Expr::int(1))
    }
}

/// Which orders of loops are on offer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReorderPolicy {
    /// As given.
    Identity,
    /// Every permutation.
    All,
    /// These permutations, as positions in the given list.
    Candidates(Vec<Vec<usize>>),
}

/// How a loop runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Annotation {
    /// As it is.
    None,
    /// Unrolled.
    Unroll,
    /// As vector lanes.
    Vectorize,
}

/// Which annotations of some loops are on offer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnnotatePolicy {
    /// Nothing unrolled, or the innermost loop, or the two innermost, and so on.
    TryUnroll,
    /// Nothing vectorised, or the innermost loop.
    TryVectorize,
    /// These lists, one annotation for each loop.
    Candidates(Vec<Vec<Annotation>>),
}

/// The schedule of a template under one combination of structural choices.
#[derive(Clone, Debug)]
pub struct Config {
    /// The schedule so far, for steps that leave nothing open.
    pub state: SketchState,
    /// What the DAG computes.
    pub shape: Shape,
    given: Vec<usize>,
    /// Position taken and number of options of every structural choice met so far.
    taken: Vec<(usize, usize)>,
}

impl Config {
    pub(super) fn new(state: SketchState, shape: Shape, given: Vec<usize>) -> Config {
        Config { state, shape, given, taken: Vec::new() }
    }

    pub(super) fn into_state(self) -> SketchState {
        self.state
    }

    /// The combination after this one, in mixed-radix order; `None` after the last.
    pub(super) fn next_choices(&self) -> Option<Vec<usize>> {
        let at = self.taken.iter().rposition(|(chosen, options)| chosen + 1 < *options)?;
        let mut out: Vec<usize> = self.taken[..=at].iter().map(|(chosen, _)| *chosen).collect();
        out[at] += 1;
        Some(out)
    }

    /// A structural choice among `options`; the first when the template meets it for the first time.
    fn choose(&mut self, options: usize) -> usize {
        let chosen = self.given.get(self.taken.len()).copied().unwrap_or(0).min(options.saturating_sub(1));
        self.taken.push((chosen, options.max(1)));
        chosen
    }

    /// An error of this template.
    pub fn error(&self, source: &ScheduleError) -> SpaceError {
        SpaceError::Template { template: self.shape.stage.clone(), message: source.to_string() }
    }

    /// Applies a step that leaves nothing open.
    pub fn step(&mut self, step: Step) -> Result<(), SpaceError> {
        self.state.step(step).map_err(|e| self.error(&e))
    }

    /// Splits a loop into `levels` loops whose inner extents are knobs. `stage` is
    /// the stage whose loops are split; `owner` the one the knobs are named after.
    pub fn split(
        &mut self,
        stage: &str,
        owner: &str,
        axis: &str,
        levels: usize,
        policy: &SplitPolicy,
    ) -> Result<Split, SpaceError> {
        let (extent, reduce) = self.extent(stage, axis);
        let inner = levels.saturating_sub(1);
        if inner == 0 {
            return Ok(Split { loops: vec![axis.to_string()], sizes: Vec::new() });
        }
        let factors = match &policy.sizes {
            Sizes::Candidates(lists) => self.candidates(owner, axis, inner, lists),
            _ => self.open_levels(stage, owner, (axis, extent, reduce), inner, policy),
        };
        let loops = self.state.split(stage, axis, &factors).map_err(|e| self.error(&e))?;
        Ok(Split { loops, sizes: factors })
    }

    fn extent(&self, stage: &str, axis: &str) -> (i64, bool) {
        let stages = self.state.stages();
        let find = |axes: Vec<(String, i64)>| axes.into_iter().find(|(n, _)| n == axis).map(|(_, e)| e);
        match find(stages.axes(stage)) {
            Some(e) => (e, false),
            None => (find(stages.reduce_axes(stage)).unwrap_or(1), true),
        }
    }

    fn open_levels(
        &mut self,
        stage: &str,
        owner: &str,
        (axis, extent, reduce): (&str, i64, bool),
        inner: usize,
        policy: &SplitPolicy,
    ) -> Vec<Expr> {
        let lanes = self.state.lanes(stage);
        let mut factors: Vec<Expr> = Vec::new();
        for level in 1..=inner {
            let innermost = level == inner;
            let vector = innermost && policy.sizes == Sizes::Vectors;
            let mut sizes = match &policy.sizes {
                Sizes::Divisors => domain::divisors(extent, extent),
                Sizes::PowersOfTwo => {
                    (0..40).map(|p| 1 << p).take_while(|p| *p == 1 || *p <= extent).collect()
                }
                _ if vector => domain::vector_sizes(extent, lanes, i64::MAX),
                _ => domain::tile_sizes(extent),
            };
            sizes.retain(|v| (!innermost || *v <= policy.max_factor) && (policy.filter)(level, *v));
            if sizes.is_empty() {
                sizes.push(if vector { lanes } else { 1 });
            }
            let role = KnobRole::Tile {
                stage: owner.to_string(),
                axis: axis.to_string(),
                extent,
                level,
                vector,
                reduce,
            };
            factors.push(self.state.open(&format!("{owner}.{axis}.{level}"), sizes, role));
        }
        let product = factors.iter().fold(Expr::int(1), |p, f| p * f);
        let name = format!("tiles of {owner}.{axis}");
        match (&policy.sizes, factors.last()) {
            (Sizes::Divisors, _) => self.state.limit(name, Expr::int(extent).rem(&product), 0),
            (_, Some(last)) => self.state.limit(name, product, last.clone() + (extent - 1)),
            _ => {}
        }
        factors
    }

    /// Sizes chosen together: one knob numbers the lists, each factor picks its entry.
    fn candidates(&mut self, owner: &str, axis: &str, inner: usize, lists: &[Vec<i64>]) -> Vec<Expr> {
        let role = KnobRole::Choice { stage: owner.to_string(), what: format!("sizes of {axis}") };
        let numbers: Vec<i64> = (1..=lists.len().max(1) as i64).collect();
        let number = self.state.open(&format!("{owner}.{axis}.sizes"), numbers, role);
        let entry = |list: Option<&Vec<i64>>, level: usize| {
            Expr::int(list.and_then(|l| l.get(level)).copied().unwrap_or(1).max(1))
        };
        (0..inner)
            .map(|level| {
                let first = entry(lists.first(), level);
                lists.iter().enumerate().skip(1).fold(first, |other, (at, list)| {
                    let is_this = number.eq_expr(&Expr::int(at as i64 + 1));
                    Expr::select(is_this, entry(Some(list), level), other)
                })
            })
            .collect()
    }

    /// Puts loops in one of the orders on offer and gives that order.
    pub fn reorder(
        &mut self,
        stage: &str,
        loops: &[String],
        policy: &ReorderPolicy,
    ) -> Result<Vec<String>, SpaceError> {
        let orders = match policy {
            ReorderPolicy::Identity => vec![(0..loops.len()).collect()],
            ReorderPolicy::All => permutations(loops.len()),
            ReorderPolicy::Candidates(orders) => orders.clone(),
        };
        let chosen = self.choose(orders.len());
        let order: Vec<String> = match orders.get(chosen) {
            Some(order) => order.iter().filter_map(|at| loops.get(*at)).cloned().collect(),
            None => loops.to_vec(),
        };
        self.state.reorder(stage, &order).map_err(|e| self.error(&e))?;
        if orders.len() > 1 {
            self.state.choose(format!("order {}", order.join(" ")));
        }
        Ok(order)
    }

    /// Annotates loops in one of the ways on offer.
    pub fn annotate(
        &mut self,
        stage: &str,
        loops: &[String],
        policy: &AnnotatePolicy,
    ) -> Result<Vec<Annotation>, SpaceError> {
        let innermost = |count: usize, kind: Annotation| {
            let annotation = |at: usize| if at + count >= loops.len() { kind } else { Annotation::None };
            (0..loops.len()).map(annotation).collect::<Vec<_>>()
        };
        let ways = match policy {
            AnnotatePolicy::TryUnroll => {
                (0..=loops.len()).map(|n| innermost(n, Annotation::Unroll)).collect()
            }
            AnnotatePolicy::TryVectorize => (0..=1).map(|n| innermost(n, Annotation::Vectorize)).collect(),
            AnnotatePolicy::Candidates(ways) => ways.clone(),
        };
        let chosen = self.choose(ways.len());
        let Some(way) = ways.get(chosen).cloned() else { return Ok(Vec::new()) };
        for (name, annotation) in loops.iter().zip(&way) {
            let applied = match annotation {
                Annotation::None => Ok(()),
                Annotation::Unroll => self.state.unroll(stage, std::slice::from_ref(name)),
                Annotation::Vectorize => self.state.vectorize(stage, name),
            };
            applied.map_err(|e| self.error(&e))?;
        }
        if ways.len() > 1 {
            let words: Vec<String> =
                loops.iter().zip(&way).map(|(l, a)| format!("{l} {a:?}").to_lowercase()).collect();
            self.state.choose(words.join(" "));
        }
        Ok(way)
    }

    /// A value the template branches on: every value is a structure of its own.
    pub fn knob(&mut self, name: &str, values: &[i64]) -> i64 {
        let chosen = self.choose(values.len());
        let value = values.get(chosen).copied().unwrap_or(0);
        if values.len() > 1 {
            self.state.choose(format!("{name} {value}"));
        }
        value
    }

    /// Excludes combinations of knobs: only those with `lhs <= rhs` stay. A formula, so that it is printed with the
    /// space and gradient search can use it.
    pub fn filter(&mut self, name: &str, lhs: impl Into<Expr>, rhs: impl Into<Expr>) {
        self.state.limit(name, lhs, rhs);
    }

    /// Stages the template left alone take the ways the sketch rules offer; several are a structural choice.
    pub(super) fn finish_other_stages(&mut self) {
        let rules = cpu_rules();
        while let Some(stage) = self.state.next_stage() {
            let ways = rules
                .iter()
                .filter(|r| !r.is_early() && r.condition(&self.state, &stage) != Decision::Skip)
                .map(|r| r.apply(&self.state, &stage));
            match ways.into_iter().find(|w| !w.is_empty()) {
                Some(mut ways) => {
                    let chosen = self.choose(ways.len());
                    self.state = ways.swap_remove(chosen);
                }
                None => self.state.decide(&stage),
            }
        }
    }
}

/// All orders of `n` things, the identity first.
fn permutations(n: usize) -> Vec<Vec<usize>> {
    if n == 0 {
        return vec![Vec::new()];
    }
    let mut out = Vec::new();
    for order in permutations(n - 1) {
        for at in (0..=order.len()).rev() {
            let mut longer = order.clone();
            longer.insert(at, n - 1);
            out.push(longer);
        }
    }
    out.sort();
    out
}

#[cfg(test)]
mod tests {
    use super::permutations;

    #[test]
    fn permutations_are_complete() {
        assert_eq!(permutations(0), [Vec::<usize>::new()]);
        let all = permutations(4);
        assert_eq!(all.len(), 24);
        assert_eq!(all[0], [0, 1, 2, 3]);
        assert!(all.windows(2).all(|w| w[0] < w[1]));
    }
}
