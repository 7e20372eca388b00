//! Random legal schedules for property tests, here and in other crates.
//!
//! Three kinds: [`random_schedule`] applies any steps in any order, [`tiled_schedule`] follows the recipe of fast kernels
//! (register tiles, packed constants, parallel outer loops) with random choices, and [`open_knobs`] replaces numbers of
//! a trace by knobs. [`is_absurd`] tells legal schedules that are not worth running from the others.

use talweg_expr::{Expr, Ranges, Symbol};
use talweg_ir::{Dag, Nest, Source, Stmt, ThreadAxis};

use crate::state::{IterKind, Schedule};
use crate::step::{Step, Trace};

/// A small deterministic generator (splitmix64).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A generator with its own stream.
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d)
    }

    /// Any number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        (self.number() % n.max(1) as u64) as usize
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        from.get(self.below(from.len()))
    }
}

/// Factors of random splits: small, powers of two, and some that divide nothing.
const FACTORS: [i64; 13] = [1, 2, 3, 4, 5, 6, 7, 8, 13, 16, 17, 32, 48];

/// Applies about `steps` random steps to a DAG; refused ones are skipped, so the result is always a legal schedule.
pub fn random_schedule(dag: Dag, seed: u64, steps: usize) -> Schedule {
    random_steps(dag, seed, steps, true)
}

/// Like [`random_schedule`], without `bind`: what a CPU can run.
pub fn random_cpu_schedule(dag: Dag, seed: u64, steps: usize) -> Schedule {
    random_steps(dag, seed, steps, false)
}

fn random_steps(dag: Dag, seed: u64, steps: usize, binds: bool) -> Schedule {
    let mut random = Random::new(seed);
    let mut schedule = Schedule::new(dag);
    for _ in 0..steps {
        match random_step(&schedule, &mut random) {
            Some(Step::Bind { .. }) if !binds => {}
            Some(step) => attempt(&mut schedule, step),
            None => {}
        }
    }
    schedule
}

/// Applies a step unless it is refused.
fn attempt(schedule: &mut Schedule, step: Step) {
    let _refused_is_fine = schedule.apply(step);
}

/// Tiles one stage the way fast kernels are: computed into a buffer of its own inside the tile loops, constants packed,
/// inner loops unrolled and one vectorised, outer ones parallel, epilogues inlined or left. All choices are random.
pub fn tiled_schedule(dag: Dag, seed: u64) -> Schedule {
    let mut random = Random::new(seed ^ 0x7469_6c65);
    let mut schedule = Schedule::new(dag);
    let stages = schedule.stage_names();
    let reductions: Vec<&String> = stages.iter().filter(|s| has_reduction(&schedule, s)).collect();
    let Some(body) = random.pick(&reductions).copied().or_else(|| stages.last()).cloned() else {
        return schedule;
    };
    for other in stages.iter().filter(|s| **s != body) {
        if random.below(3) > 0 {
            attempt(&mut schedule, Step::Inline { stage: other.clone() });
        }
    }
    // The tile is written by the stage itself or, after `cache_write`, by its copy loop.
    let mut local = body.clone();
    if random.below(4) > 0 {
        attempt(&mut schedule, Step::CacheWrite { stage: body.clone() });
        local = format!("{body}.local");
    }
    let mut outer = body.clone();
    if random.below(3) == 0
        && let Some(last) = schedule.stage_names().last()
    {
        outer.clone_from(last);
    }
    tile(&mut schedule, &outer, &mut random);
    for producer in [&body, &local].into_iter().filter(|p| **p != outer) {
        if let Some(at) = schedule.loops(&outer).as_deref().and_then(|l| random.pick(l)).cloned() {
            attempt(&mut schedule, Step::ComputeAt { stage: producer.clone(), target: outer.clone(), at });
        }
    }
    if local != outer {
        tile(&mut schedule, &local, &mut random);
    }
    let constants: Vec<String> =
        schedule.dag().tensors.iter().filter(|t| t.source == Source::Const).map(|t| t.name.clone()).collect();
    for tensor in constants {
        if random.below(3) > 0 {
            attempt(&mut schedule, Step::Pack { tensor, reader: local.clone() });
        }
    }
    for stage in schedule.stage_names() {
        mark(&mut schedule, &stage, &mut random);
    }
    schedule
}

fn has_reduction(schedule: &Schedule, stage: &str) -> bool {
    let loops = schedule.loops(stage).unwrap_or_default();
    loops.iter().any(|l| schedule.loop_kind(stage, l) == Some(IterKind::Reduce))
}

/// Splits some loops of a stage and moves the inner parts inwards.
fn tile(schedule: &mut Schedule, stage: &str, random: &mut Random) {
    let mut inner = Vec::new();
    for axis in schedule.loops(stage).unwrap_or_default() {
        if random.below(3) > 0 {
            let factor = Expr::int(FACTORS[random.below(FACTORS.len())]);
            attempt(schedule, Step::Split { stage: stage.into(), axis: axis.clone(), factors: vec![factor] });
            inner.push(format!("{axis}.1"));
        }
    }
    let loops = schedule.loops(stage).unwrap_or_default();
    let (mut order, last): (Vec<String>, Vec<String>) = loops.into_iter().partition(|l| !inner.contains(l));
    order.extend(last);
    if random.below(4) == 0 {
        let (a, b) = (random.below(order.len()), random.below(order.len()));
        if !order.is_empty() {
            order.swap(a, b);
        }
    }
    attempt(schedule, Step::Reorder { stage: stage.into(), loops: order });
}

/// Annotates a stage: a parallel outer loop (two fused, sometimes), a vectorised inner one, unrolled ones between.
fn mark(schedule: &mut Schedule, stage: &str, random: &mut Random) {
    let stage = stage.to_string();
    let loops = schedule.loops(&stage).unwrap_or_default();
    if random.below(3) == 0 && loops.len() > 2 {
        attempt(schedule, Step::Fuse { stage: stage.clone(), loops: loops[..2].to_vec() });
    }
    let loops = schedule.loops(&stage).unwrap_or_default();
    let space: Vec<&String> =
        loops.iter().filter(|l| schedule.loop_kind(&stage, l) == Some(IterKind::Space)).collect();
    let mut steps = Vec::new();
    if let Some(axis) = space.last().filter(|_| random.below(4) > 0) {
        steps.push(Step::Vectorize { stage: stage.clone(), axis: (*axis).clone() });
    }
    if let Some(axis) = space.first().filter(|_| random.below(2) > 0) {
        steps.push(Step::Parallel { stage: stage.clone(), axis: (*axis).clone() });
    }
    for axis in loops.iter().rev().take(3) {
        if random.below(2) > 0 {
            steps.push(Step::Unroll { stage: stage.clone(), axis: axis.clone() });
        }
    }
    steps.into_iter().for_each(|s| attempt(schedule, s));
}

/// Replaces about half of a trace's split factors by knobs; gives the knobs with the values they stand for.
pub fn open_knobs(trace: &Trace, seed: u64) -> (Trace, Vec<(Symbol, i64)>) {
    let mut random = Random::new(seed ^ 0x6b6e_6f62);
    let mut knobs = Vec::new();
    let mut out = trace.clone();
    for step in &mut out.steps {
        let Step::Split { factors, .. } = step else { continue };
        for factor in factors {
            if let Some(value) = factor.as_int()
                && random.below(2) == 0
            {
                let knob = Symbol::knob(format!("k{}", knobs.len()));
                *factor = Expr::sym(&knob);
                knobs.push((knob, value));
            }
        }
    }
    (out, knobs)
}

/// Whether a concrete nest needs more memory or iterations than a test should spend: factors far beyond the extents blow
/// up packed constants and the partial results of `rfactor`.
pub fn is_absurd(nest: &Nest) -> bool {
    let elements = |shape: &[Expr]| shape.iter().map(size).product::<f64>();
    nest.buffers.iter().any(|b| elements(&b.shape) > 4e6)
        || nest.body.iter().map(|s| stores(s, 1.0, &mut Ranges::new())).sum::<f64>() > 1e7
}

fn size(extent: &Expr) -> f64 {
    extent.bounds(&Ranges::new()).hi
}

/// How many stores run at most, when the statement is reached `times`.
fn stores(stmt: &Stmt, times: f64, ranges: &mut Ranges) -> f64 {
    match stmt {
        Stmt::For(l) => {
            let most = l.extent.bounds(ranges).hi.max(0.0);
            ranges.set(&l.var, 0, most as i64 - 1);
            l.body.iter().map(|s| stores(s, times * most, ranges)).sum()
        }
        Stmt::If { then, otherwise, .. } => {
            then.iter().chain(otherwise).map(|s| stores(s, times, ranges)).sum()
        }
        Stmt::Store { .. } => times,
        Stmt::Alloc(_) => 0.0,
    }
}

fn random_step(schedule: &Schedule, random: &mut Random) -> Option<Step> {
    let stages = schedule.stage_names();
    let stage = random.pick(&stages)?.clone();
    let loops = schedule.loops(&stage)?;
    let axis = random.pick(&loops).cloned();
    let other = random.pick(&stages)?.clone();
    let tensors: Vec<_> = schedule.dag().tensors.iter().filter(|t| t.source == Source::Const).collect();
    Some(match random.below(24) {
        0..=5 => {
            let factors = (0..1 + random.below(2)).map(|_| Expr::int(FACTORS[random.below(FACTORS.len())]));
            Step::Split { stage, axis: axis?, factors: factors.collect() }
        }
        6..=7 => {
            let at = random.below(loops.len());
            let count = 2 + random.below(2);
            Step::Fuse { stage, loops: loops.get(at..at + count)?.to_vec() }
        }
        8..=10 => {
            let mut order = loops.clone();
            for at in (1..order.len()).rev() {
                order.swap(at, random.below(at + 1));
            }
            Step::Reorder { stage, loops: order }
        }
        11..=14 => {
            let at = random.pick(&schedule.loops(&other)?)?.clone();
            Step::ComputeAt { stage, target: other, at }
        }
        15 => Step::Inline { stage },
        16 => Step::CacheWrite { stage },
        17 => {
            let all: Vec<_> = schedule.dag().tensors.iter().map(|t| t.name.clone()).collect();
            Step::CacheRead { tensor: random.pick(&all)?.clone(), reader: stage }
        }
        18 => Step::Rfactor { stage, axis: axis? },
        19..=20 => Step::Vectorize { stage, axis: axis? },
        21 => Step::Unroll { stage, axis: axis? },
        22 => match random.below(4) {
            0 => Step::Bind { stage, axis: axis?, to: *random.pick(&ThreadAxis::ALL)? },
            _ => Step::Parallel { stage, axis: axis? },
        },
        _ => Step::Pack { tensor: random.pick(&tensors)?.name.clone(), reader: stage },
    })
}
