//! A simulated device: an analytic latency function of loop nests, so that strategies are compared exactly and fast.
//!
//! For every store it counts what a processor does: vector instructions of the register tile (the unrolled and vector
//! loops at the inside), loads the tile cannot share, dependent additions too few to hide their latency, registers
//! that run out, loop overhead, and the bytes that cross each cache level because the loops inside do not fit it.
//! The slowest of arithmetic and memory decides, the others add a share. Tiles that do not divide their loop cost as much
//! as whole ones. It is no model of any real machine; it has the valleys real machines have.

use talweg_expr::{Expr, Ranges, Symbol};
use talweg_ir::{ArithOp, Loop, LoopKind, MathOp, Nest, Role, Scalar, Stmt, TensorId};
use talweg_space::{Candidate, Space};
use talweg_target::Target;

use crate::{Outcome, Rng};

/// Seconds of a cycle.
const CYCLE: f64 = 1.0 / 3e9;
/// Seconds of a call.
const CALL: f64 = 2e-7;
/// Cycles to start and join threads.
const FORK: f64 = 6e3;
/// Cycles of one iteration of a loop that is not unrolled.
const ITERATION: f64 = 5.0;
/// Instructions of a loop body above which decoding slows down.
const LONG_BODY: f64 = 600.0;
/// Bytes a cycle from the second level, the third level, memory.
const BANDWIDTH: [f64; 3] = [24.0, 8.0, 2.5];

/// The share of the time of the less slow parts that the slowest does not hide.
const OVERLAP: f64 = 0.6;

/// A machine that exists on paper.
#[derive(Clone, Debug)]
pub struct SimulatedDevice {
    target: Target,
    threads: f64,
    noise: f64,
    seed: u64,
}

impl SimulatedDevice {
    /// One thread of a target, without noise.
    pub fn new(target: Target) -> SimulatedDevice {
        SimulatedDevice { target, threads: 1.0, noise: 0.0, seed: 0 }
    }

    /// With several threads.
    pub fn with_threads(mut self, threads: usize) -> SimulatedDevice {
        self.threads = threads.max(1) as f64;
        self
    }

    /// With noise of a relative standard deviation; the same candidate always has the same.
    pub fn with_noise(mut self, deviation: f64, seed: u64) -> SimulatedDevice {
        (self.noise, self.seed) = (deviation, seed);
        self
    }

    /// What the target can do.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Measures a candidate; what is not in its space fails.
    pub fn measure(&self, space: &Space, candidate: &Candidate) -> Outcome {
        let Ok(sketch) = space.sketch(candidate) else { return Outcome::Failed };
        let knobs: Vec<(Symbol, i64)> =
            sketch.knobs.iter().map(|k| k.symbol.clone()).zip(candidate.values.iter().copied()).collect();
        let hash = candidate.values.iter().fold(self.seed ^ candidate.sketch as u64, |hash, value| {
            (hash ^ *value as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23)
        });
        let mut rng = Rng::new(hash);
        // Twelve uniform numbers add up to a bell.
        let bell: f64 = (0..12).map(|_| rng.unit()).sum::<f64>() - 6.0;
        match self.seconds(&sketch.nest, &knobs) {
            Some(seconds) => Outcome::Seconds(seconds * (self.noise * bell).exp()),
            None => Outcome::Failed,
        }
    }

    /// Seconds of a nest with the given knobs, without noise; `None` when a knob is missing.
    pub fn seconds(&self, nest: &Nest, knobs: &[(Symbol, i64)]) -> Option<f64> {
        let mut walk = Walk { device: self, nest, knobs, loops: Vec::new(), cycles: 0.0, share: 1.0 };
        walk.block(&nest.body, 1.0)?;
        Some(CALL + walk.cycles * CYCLE)
    }
}

/// An open loop.
struct Open<'a> {
    var: &'a Symbol,
    kind: LoopKind,
    extent: i64,
}

struct Walk<'a> {
    device: &'a SimulatedDevice,
    nest: &'a Nest,
    knobs: &'a [(Symbol, i64)],
    loops: Vec<Open<'a>>,
    cycles: f64,
    /// The share of the cycles that count: one over the speed-up of the threads at work.
    share: f64,
}

/// A buffer and where it is touched.
type Access<'a> = (TensorId, &'a [Expr]);

impl<'a> Walk<'a> {
    /// The value of an expression in the first iteration of all loops, which has full tiles.
    fn value(&self, e: &Expr) -> Option<i64> {
        e.eval(&|s| match self.knobs.iter().find(|k| k.0 == *s) {
            Some((_, value)) => Some(*value),
            None => self.loops.iter().any(|l| l.var == s).then_some(0),
        })
    }

    /// Walks statements that run so many times.
    fn block(&mut self, body: &'a [Stmt], runs: f64) -> Option<()> {
        for stmt in body {
            match stmt {
                Stmt::For(inner) => self.repeat(inner, runs)?,
                Stmt::If { condition, then, otherwise } => {
                    let taken = if self.value(condition)? != 0 { then } else { otherwise };
                    self.block(taken, runs)?;
                }
                Stmt::Store { buffer, indices, value, update } => {
                    self.store((*buffer, indices), value, update.is_some(), runs);
                }
                Stmt::Alloc(_) => {}
            }
        }
        Some(())
    }

    fn repeat(&mut self, inner: &'a Loop, runs: f64) -> Option<()> {
        let extent = self.value(&inner.extent)?;
        if extent <= 0 {
            return Some(());
        }
        let share = self.share;
        if inner.kind == LoopKind::Parallel && share == 1.0 && self.device.threads > 1.0 {
            self.share = (extent as f64 / self.device.threads).ceil() / extent as f64;
            self.cycles += runs * FORK;
        }
        self.loops.push(Open { var: &inner.var, kind: inner.kind, extent });
        let done = self.block(&inner.body, runs * extent as f64);
        self.loops.pop();
        self.share = share;
        done
    }

    /// For each level, the ranges of all symbols while the loops from that level inwards run and the others stand.
    fn ranges(&self) -> Vec<Ranges> {
        let mut ranges = Ranges::new();
        self.knobs.iter().for_each(|(symbol, value)| ranges.set(symbol, *value, *value));
        self.loops.iter().for_each(|open| ranges.set(open.var, 0, open.extent - 1));
        let mut out = vec![ranges.clone()];
        for open in &self.loops {
            ranges.set(open.var, 0, 0);
            out.push(ranges.clone());
        }
        out
    }

    fn store(&mut self, target: Access<'_>, value: &Scalar, is_update: bool, runs: f64) {
        let reads = value.reads();
        let mut accesses: Vec<Access<'_>> = vec![target];
        accesses.extend(reads.iter().map(|(buffer, indices)| (*buffer, indices.as_slice())));
        let ranges = self.ranges();
        let arithmetic = self.arithmetic(&accesses, &ranges, operations(value), is_update, runs);
        let memory = self.memory(&accesses, &ranges, runs);
        let all = memory.iter().chain([&arithmetic]);
        let slowest = all.clone().fold(0.0, |a: f64, b| a.max(*b));
        self.cycles += self.share * (slowest + OVERLAP * (all.sum::<f64>() - slowest));
    }

    /// Cycles of the instructions of a store, its data being at hand.
    fn arithmetic(
        &self,
        accesses: &[Access<'_>],
        ranges: &[Ranges],
        operations: f64,
        is_update: bool,
        runs: f64,
    ) -> f64 {
        let target = &self.device.target;
        let bytes = self.nest.buffer(accesses[0].0).dtype.bytes() as u32;
        let lanes = f64::from(target.lanes(bytes));
        let is_inside = |l: &Open<'_>| matches!(l.kind, LoopKind::Unroll | LoopKind::Vectorize);
        let tile = self.loops.len() - self.loops.iter().rev().take_while(|l| is_inside(l)).count();
        let body: f64 = self.loops[tile..].iter().map(|l| l.extent as f64).product();
        let vector =
            self.loops[tile..].iter().rposition(|l| l.kind == LoopKind::Vectorize).map(|at| tile + at);
        let length = vector.map_or(1.0, |at| self.loops[at].extent as f64);
        // Instructions of the tile for each element of a vector loop's rows.
        let per_row = vector.map_or(1.0, |_| (length / lanes).ceil());
        let vectors = body / length * per_row;
        let tiles = runs / body.max(1.0);
        let stride = |access: &Access<'_>| vector.map_or(0.0, |at| self.stride(access, at));
        let loads: f64 = accesses[1..]
            .iter()
            .map(|access| match stride(access) {
                0.0 => footprint(access.1, &ranges[tile]).min(body),
                s if s <= 1.0 => (footprint(access.1, &ranges[tile]) / lanes).max(1.0).ceil(),
                _ => 2.0 * footprint(access.1, &ranges[tile]),
            })
            .sum();
        // Accumulators stay in registers while the loop around the tile does not change them and they fit.
        let results = if stride(&accesses[0]) > 1.0 {
            body
        } else {
            (footprint(accesses[0].1, &ranges[tile]) / lanes).ceil()
        };
        let registers = f64::from(target.vector_registers) - 2.0;
        let is_kept = tile
            .checked_sub(1)
            .is_some_and(|at| is_update && !accesses[0].1.iter().any(|e| e.mentions(self.loops[at].var)));
        let moves = match is_update {
            true if is_kept && results <= registers => 0.0,
            true if is_kept => 2.0 * (results - registers).max(4.0),
            true => 2.0 * results,
            false => results,
        };
        let ports = f64::from(target.fma_ports);
        let chains = if is_update { results.min(vectors) } else { f64::INFINITY };
        let latency = vectors / chains.max(1.0) * f64::from(target.fma_latency);
        let work = (operations * vectors / ports).max(loads / 2.0 + moves).max(latency);
        let length_penalty = 1.0 + 0.15 * ((vectors * operations + loads) / LONG_BODY).max(1.0).log2();
        tiles * (work * length_penalty + ITERATION)
    }

    /// How far apart the elements are that neighbouring lanes touch.
    fn stride(&self, access: &Access<'_>, vector: usize) -> f64 {
        let at = |lane: i64, e: &Expr| {
            e.eval(&|s| {
                let var = self.loops.iter().position(|l| l.var == s);
                var.map(|v| if v == vector { lane } else { 0 })
                    .or_else(|| self.knobs.iter().find(|k| k.0 == *s).map(|k| k.1))
            })
        };
        let steps = access.1.iter().enumerate().rev().map(|(dim, e)| {
            let step = at(1, e).zip(at(0, e)).map_or(1, |(one, zero)| (one - zero).abs());
            if dim + 1 == access.1.len() { step as f64 } else { step as f64 * 64.0 }
        });
        steps.sum()
    }

    /// Cycles of the bytes that cross each level above the first.
    fn memory(&self, accesses: &[Access<'_>], ranges: &[Ranges], runs: f64) -> [f64; 3] {
        let target = &self.device.target;
        let line = f64::from(target.line);
        // Short rows bring whole lines.
        let bytes = |access: &Access<'_>, level: usize| {
            let size = self.nest.buffer(access.0).dtype.bytes() as f64;
            let rows = access.1.split_last().map_or(0.0, |(last, _)| {
                let row = footprint(std::slice::from_ref(last), &ranges[level]) * size;
                (row / line).ceil() * line / row
            });
            footprint(access.1, &ranges[level]) * size * rows.max(1.0)
        };
        let levels = self.loops.len();
        let sizes: Vec<Vec<f64>> =
            (0..=levels).map(|level| accesses.iter().map(|a| bytes(a, level)).collect()).collect();
        let mut out = [0.0; 3];
        let inner =
            |level: usize| self.loops[level..].iter().map(|l| l.extent as f64).product::<f64>().max(1.0);
        for (cache, capacity) in [target.l1d, target.l2, target.l3].into_iter().enumerate() {
            let fits = |level: &usize| sizes[*level].iter().sum::<f64>() <= 0.6 * capacity as f64;
            let level = (0..=levels).find(fits).unwrap_or(levels);
            let visits = runs / inner(level);
            let traffic: f64 = accesses
                .iter()
                .zip(&sizes[level])
                .map(|(access, size)| {
                    let is_scratch = self.nest.buffer(access.0).role == Role::Local;
                    if is_scratch && level > 0 { 0.0 } else { visits * size }
                })
                .sum();
            out[cache] = traffic / BANDWIDTH[cache];
        }
        out
    }
}

/// Elements an access reaches under some ranges.
fn footprint(indices: &[Expr], ranges: &Ranges) -> f64 {
    let width = |e: &Expr| {
        let bounds = e.bounds(ranges);
        (bounds.hi - bounds.lo + 1.0).clamp(1.0, 1e9)
    };
    indices.iter().map(width).product()
}

/// Instructions of one element, a multiplication that is added on counting once.
fn operations(value: &Scalar) -> f64 {
    let mut count = 0.0;
    value.visit(&mut |s| match s {
        Scalar::Binary(ArithOp::Div | ArithOp::Rem | ArithOp::Pow, ..) => count += 8.0,
        Scalar::Binary(..) | Scalar::Select(..) | Scalar::Cast(..) => count += 1.0,
        Scalar::Unary(MathOp::Neg | MathOp::Abs | MathOp::Floor | MathOp::Ceil, _) => count += 1.0,
        Scalar::Unary(..) => count += 12.0,
        _ => {}
    });
    f64::max(count, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use talweg_ops::Spec;
    use talweg_target::Isa;

    fn space() -> (Space, Target) {
        let target = Target::generic(Isa::Avx512);
        let dag = Spec::parse("matmul:m=256,n=256,k=256").expect("an operator").build().expect("a legal one");
        (Space::of(&dag, &target), target)
    }

    #[test]
    fn no_candidate_is_faster_than_the_machine() {
        let (space, target) = space();
        let device = SimulatedDevice::new(target);
        let mut rng = Rng::new(1);
        let peak = 256f64.powi(3) / (16.0 * 2.0) * CYCLE;
        for _ in 0..200 {
            let seconds = device.measure(&space, &space.sample(&mut rng)).seconds().expect("a time");
            assert!((peak..1000.0 * peak).contains(&seconds), "{seconds} {peak}");
        }
    }

    #[test]
    fn noise_belongs_to_the_candidate_and_the_seed() {
        let (space, target) = space();
        let candidate = space.sample(&mut Rng::new(2));
        let exact = SimulatedDevice::new(target);
        let noisy = |seed| exact.clone().with_noise(0.05, seed).measure(&space, &candidate);
        assert_eq!(noisy(1), noisy(1));
        assert_ne!(noisy(1), noisy(2));
        let ratio = noisy(1).speed() / exact.measure(&space, &candidate).speed();
        assert!((0.7..1.4).contains(&ratio) && ratio != 1.0, "{ratio}");
    }

    #[test]
    fn strangers_fail() {
        let (space, target) = space();
        let stranger = Candidate { sketch: 0, values: vec![] };
        assert_eq!(SimulatedDevice::new(target).measure(&space, &stranger), Outcome::Failed);
    }

    #[test]
    fn threads_help_large_work() {
        let (space, target) = space();
        let (one, four) =
            (SimulatedDevice::new(target.clone()), SimulatedDevice::new(target).with_threads(4));
        let mut rng = Rng::new(3);
        let drawn: Vec<Candidate> = (0..50).map(|_| space.sample(&mut rng)).collect();
        let best = |device: &SimulatedDevice| {
            drawn.iter().map(|c| device.measure(&space, c).speed()).fold(0.0, f64::max)
        };
        assert!(best(&four) > 2.0 * best(&one));
    }
}
