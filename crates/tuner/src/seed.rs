//! The default schedule as a candidate: where a search begins.
//!
//! The default's tiles are read off its steps and put into the knobs of a sketch: its innermost tile into the innermost
//! level, its sequential loops into the levels around that, its parallel loops into level 0, which is what the other
//! levels leave.
//!
//! ```text
//! split C i [14]              $C.i.3 = 14, $C.i.2 = 74, $C.i.1 = 1
//! reorder C j.0 i.0 i.1 j.1
//! parallel C j.0
//! ```
//!
//! A sketch may order its loops in another way, so the candidate need not be the same program; it is a good one nearby.

use std::collections::BTreeSet;

use talweg_schedule::{Step, Trace};
use talweg_space::{Candidate, KnobRole, Sketch, Space};

/// The candidates that stand for a schedule, one a sketch at most, of the first sketches that have one.
pub fn seeds(space: &Space, default: &Trace, most: usize) -> Vec<Candidate> {
    let tiles = Tiles::of(default);
    let candidates =
        space.sketches.iter().enumerate().map(|(sketch, s)| Candidate { sketch, values: tiles.values(s) });
    candidates.filter(|c| space.satisfies(c)).take(most).collect()
}

/// What a trace says about the loops of its stages.
struct Tiles<'a> {
    steps: &'a [Step],
    /// Stages and loops that run in parallel, the parts of fused ones included.
    parallel: BTreeSet<(&'a str, &'a str)>,
    /// Stages and loops that are vectorised or unrolled.
    inner: BTreeSet<(&'a str, &'a str)>,
}

impl<'a> Tiles<'a> {
    fn of(trace: &'a Trace) -> Tiles<'a> {
        let steps = trace.steps.as_slice();
        let mut parallel = BTreeSet::new();
        let mut inner = BTreeSet::new();
        for step in steps {
            match step {
                Step::Parallel { stage, axis } => {
                    parallel.insert((stage.as_str(), axis.as_str()));
                    for fused in steps {
                        if let Step::Fuse { stage: of, loops } = fused
                            && of == stage
                            && loops.join("_") == *axis
                        {
                            parallel.extend(loops.iter().map(|l| (stage.as_str(), l.as_str())));
                        }
                    }
                }
                Step::Vectorize { stage, axis } | Step::Unroll { stage, axis } => {
                    inner.insert((stage.as_str(), axis.as_str()));
                }
                _ => {}
            }
        }
        Tiles { steps, parallel, inner }
    }

    /// The factors an axis is split by, outermost first; none if it is not split.
    fn factors(&self, stage: &str, axis: &str) -> Vec<i64> {
        let factors = self.steps.iter().find_map(|step| match step {
            Step::Split { stage: s, axis: a, factors } if s == stage && a == axis => Some(factors),
            _ => None,
        });
        factors.into_iter().flatten().map(|f| f.as_int().unwrap_or(1).max(1)).collect()
    }

    /// A stage, and the first that is placed inside its loops, where it accumulates; what that reads is placed later.
    fn with_accumulator<'s>(&'s self, stage: &'s str) -> impl Iterator<Item = &'s str> {
        let inside = self.steps.iter().find_map(|step| match step {
            Step::ComputeAt { stage: inner, target, .. } if target == stage => Some(inner.as_str()),
            _ => None,
        });
        std::iter::once(stage).chain(inside)
    }

    /// The tiles of a reduction, outermost first, and its unrolled iterations.
    fn reduction(&self, stage: &str, axis: &str, extent: i64) -> (Vec<i64>, i64) {
        let mut splits = self.with_accumulator(stage).map(|s| (s, self.factors(s, axis)));
        let Some((of, mut factors)) = splits.find(|(_, f)| !f.is_empty()) else { return (vec![extent], 1) };
        let innermost = format!("{axis}.{}", factors.len());
        let unrolled = self.inner.contains(&(of, innermost.as_str())).then(|| factors.pop()).flatten();
        if factors.is_empty() {
            factors.push(extent / unrolled.unwrap_or(1));
        }
        (factors, unrolled.unwrap_or(1))
    }

    /// The extents of the levels of an axis, level 0 left out, innermost last.
    fn levels(&self, stage: &str, axis: &str, extent: i64, levels: usize) -> Vec<i64> {
        let mut out = vec![1; levels];
        let mut splits = self.with_accumulator(stage).map(|s| self.factors(s, axis));
        let mut factors = splits.find(|f| !f.is_empty()).unwrap_or_default();
        let is_split = !factors.is_empty();
        let outer = if is_split { format!("{axis}.0") } else { axis.to_string() };
        let covered: i64 = factors.iter().product();
        let rest = (extent + covered - 1) / covered;
        let is = |set: &BTreeSet<(&str, &str)>| set.contains(&(stage, outer.as_str()));
        if !is_split {
            factors.push(if is(&self.inner) { rest } else { 1 });
        }
        if !is(&self.parallel) && (is_split || !is(&self.inner)) {
            factors.insert(0, rest);
        }
        // What does not fit is left to level 0: loops without a level, and an outer one that would overshoot the extent
        // by more than a part of the innermost tile, which no space allows.
        let mut covered = 1;
        let innermost = factors.last().copied().unwrap_or(1);
        for (level, factor) in out.iter_mut().rev().zip(factors.into_iter().rev()) {
            if covered * factor >= extent + innermost {
                break;
            }
            covered *= factor;
            *level = factor;
        }
        out
    }

    /// A value for each knob of a sketch.
    fn values(&self, sketch: &Sketch) -> Vec<i64> {
        let depth = |of: &str, loops: &str| {
            let levels = sketch.knobs.iter().filter_map(|k| match &k.role {
                KnobRole::Tile { stage, axis, level, .. } if stage == of && axis == loops => Some(*level),
                _ => None,
            });
            levels.max().unwrap_or(1)
        };
        let wanted = |role: &KnobRole| match role {
            KnobRole::Tile { stage, axis, extent, level, reduce: true, .. } => {
                self.reduction(stage, axis, *extent).0.get(*level - 1).copied().unwrap_or(1)
            }
            KnobRole::Tile { stage, axis, extent, level, .. } => {
                let levels = self.levels(stage, axis, *extent, depth(stage, axis));
                levels.get(*level - 1).copied().unwrap_or(1)
            }
            KnobRole::Unroll { stage, axis, extent } => self.reduction(stage, axis, *extent).1,
            KnobRole::Choice { .. } => 0,
        };
        let value = |k: &talweg_space::Knob| match k.role {
            KnobRole::Choice { .. } => k.least(),
            _ => k.domain[k.nearest(wanted(&k.role) as f64)],
        };
        sketch.knobs.iter().map(value).collect()
    }
}

#[cfg(test)]
mod tests {
    use talweg_ops::Spec;
    use talweg_schedule::analytic::default_trace;
    use talweg_target::{Isa, Target};

    use super::*;

    /// The first seed of a trace: the knobs of a stage that are not 1.
    fn seed(spec: &str, stage: &str, trace: &str) -> String {
        let dag = Spec::parse(spec).expect("an operator").build().expect("a program");
        let space = Space::of(&dag, &Target::generic(Isa::Avx512));
        let found = seeds(&space, &Trace::parse(trace).expect("a trace"), 3);
        knobs_of(&space, found.first().expect("the schedule is in the space"), stage)
    }

    /// The knobs of a stage that are not 1, as `knob=value`.
    fn knobs_of(space: &Space, candidate: &Candidate, stage: &str) -> String {
        let knobs = space.sketches[candidate.sketch].knobs.iter().zip(&candidate.values);
        let of_stage = knobs.filter(|(k, v)| k.role.stage() == stage && **v != 1);
        of_stage.map(|(k, v)| format!("{}={v}", k.symbol)).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn sequential_loops_go_around_the_innermost_tile_and_parallel_ones_to_level_0() {
        let steps = "cache_write matmul\nsplit matmul i [14]\nsplit matmul j [32]\n\
            reorder matmul j.0 i.0 i.1 j.1\ncompute_at matmul.local matmul i.0\n";
        let spec = "matmul:m=1024,n=1024,k=1024";
        let by_columns = seed(spec, "matmul", &format!("{steps}parallel matmul j.0"));
        assert_eq!(by_columns, "$matmul.i.2=74 $matmul.i.3=14 $matmul.j.3=32");
        let fused = format!("{steps}fuse matmul j.0 i.0\nparallel matmul j.0_i.0");
        assert_eq!(seed(spec, "matmul", &fused), "$matmul.i.3=14 $matmul.j.3=32");
        let split = steps.replace("[14]", "[5, 14]") + "parallel matmul j.0";
        // Fifteen times five tiles would be more than the extent needs.
        assert_eq!(seed(spec, "matmul", &split), "$matmul.i.2=5 $matmul.i.3=14 $matmul.j.3=32");
    }

    #[test]
    fn blocks_of_the_reduction_go_around_the_tiles_of_the_accumulator() {
        let steps = "split Y j [3, 64]\nreorder Y j.0 i j.1 j.2\ncompute_at matmul Y j.0\n\
            split matmul k [128, 2]\nsplit matmul i [6]\nsplit matmul j [64]\n\
            reorder matmul k.0 j.0 i.0 k.1 k.2 i.1 j.1\nunroll matmul k.2\nunroll matmul i.1\n\
            vectorize matmul j.1\nvectorize Y j.2\nparallel Y j.0";
        let spec = "matmul:m=128,n=768,k=3072,epilogue=bias+gelu";
        let dag = Spec::parse(spec).expect("an operator").build().expect("a program");
        let space = Space::of(&dag, &Target::generic(Isa::Avx512));
        let found = seeds(&space, &Trace::parse(steps).expect("a trace"), 3);
        let texts: Vec<String> = found.iter().map(|c| knobs_of(&space, c, "Y")).collect();
        let blocked = "$Y.i.2=22 $Y.i.3=6 $Y.j.2=3 $Y.j.3=64 $Y.k.1=128 $Y.k.u=2";
        assert!(texts.iter().any(|t| t == blocked), "{texts:?}");
    }

    #[test]
    fn operators_without_tiles_have_seeds_too() {
        for spec in ["softmax:rows=64,n=32", "bmm:b=4,m=32,n=32,k=16", "maxpool:h=56,w=56,c=64,k=2,s=2"] {
            let dag = Spec::parse(spec).expect("an operator").build().expect("a program");
            let target = Target::generic(Isa::Avx2);
            let space = Space::of(&dag, &target);
            for candidate in seeds(&space, &default_trace(&dag, &target), 3) {
                assert!(space.instantiate(&candidate).is_ok(), "{spec}: {candidate}");
            }
        }
    }
}
