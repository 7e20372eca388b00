//! Random legal schedules for property tests, here and in other crates.

use talweg_expr::Expr;
use talweg_ir::{Dag, Source, ThreadAxis};

use crate::state::Schedule;
use crate::step::Step;

/// A small deterministic generator (splitmix64).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A generator with its own stream.
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        from.get(self.below(from.len()))
    }
}

/// Applies about `steps` random steps to a DAG; refused ones are skipped, so the result is always a legal schedule.
pub fn random_schedule(dag: Dag, seed: u64, steps: usize) -> Schedule {
    let mut random = Random::new(seed);
    let mut schedule = Schedule::new(dag);
    for _ in 0..steps {
        if let Some(step) = random_step(&schedule, &mut random) {
            let _refused_is_fine = schedule.apply(step);
        }
    }
    schedule
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
            let factors = (0..1 + random.below(2)).map(|_| {
                let likely = [1, 2, 3, 4, 5, 6, 7, 8, 13, 16, 17, 32, 48];
                Expr::int(likely[random.below(likely.len())])
            });
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
