//! A simulated device: an analytic latency function of loop nests, so that strategies are compared exactly and fast.
//!
//! For every store it counts what a processor does: vector instructions of the register tile (the unrolled and vector
//! loops at the inside), loads the tile cannot share, dependent additions too few to hide their latency, registers
//! that run out, loop overhead, and the bytes that cross each cache level because the loops inside do not fit it.
//! The slowest of arithmetic and memory decides, the others add a share. It is no model of any real machine; it has the
//! valleys real machines have.

use talweg_expr::{Expr, Ranges, Symbol};
use talweg_ir::{ArithOp, Loop, LoopKind, MathOp, Nest, Role, Scalar, Stmt, TensorId};
use talweg_space::{Candidate, Space};
use talweg_target::Target;

use crate::{Outcome, Rng};

/// Points of the iteration space at which tails and conditions are looked at.
const POINTS: usize = 16;
/// Seconds of a cycle.
const CYCLE: f64 = 1.0 / 3e9;
/// Seconds of a call.
const CALL: f64 = 2e-7;
/// Cycles to start and join threads.
const FORK: f64 = 6e3;
/// Cycles of one iteration of a loop that is not unrolled.
const ITERATION: f64 = 1.5;
/// Instructions of a loop body above which decoding slows down.
const LONG_BODY: f64 = 600.0;
/// Bytes a cycle from the second level, the third level, memory.
const BANDWIDTH: [f64; 3] = [40.0, 16.0, 5.0];

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
        walk.block(&nest.body, &[1.0; POINTS])?;
        Some(CALL + walk.cycles * CYCLE)
    }
}

/// An open loop, seen at every point.
struct Open<'a> {
    var: &'a Symbol,
    kind: LoopKind,
    /// The variable at each point.
    at: [i64; POINTS],
    /// Mean iterations.
    extent: f64,
    /// Most iterations.
    most: i64,
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

/// How often each point stands for an execution.
type Weights = [f64; POINTS];

impl<'a> Walk<'a> {
    fn value(&self, e: &Expr, point: usize) -> Option<i64> {
        e.eval(&|s| {
            let var = self.loops.iter().find(|l| l.var == s).map(|l| l.at[point]);
            var.or_else(|| self.knobs.iter().find(|k| k.0 == *s).map(|k| k.1))
        })
    }

    fn block(&mut self, body: &'a [Stmt], weights: &Weights) -> Option<()> {
        for stmt in body {
            match stmt {
                Stmt::For(inner) => self.repeat(inner, weights)?,
                Stmt::If { condition, then, otherwise } => {
                    let mut sides = [*weights; 2];
                    for point in 0..POINTS {
                        let holds = weights[point] > 0.0 && self.value(condition, point)? != 0;
                        sides[usize::from(holds)][point] = 0.0;
                    }
                    self.block(then, &sides[0])?;
                    self.block(otherwise, &sides[1])?;
                }
                Stmt::Store { buffer, indices, value, update } => {
                    self.store((*buffer, indices), value, update.is_some(), weights)?;
                }
                Stmt::Alloc(_) => {}
            }
        }
        Some(())
    }

    fn repeat(&mut self, inner: &'a Loop, weights: &Weights) -> Option<()> {
        let (mut inside, mut at, mut most) = (*weights, [0; POINTS], 0);
        for point in 0..POINTS {
            if weights[point] > 0.0 {
                let extent = self.value(&inner.extent, point)?.max(0);
                // Points are spread by a golden ratio sequence of the depth's own.
                let spread = ((point + 1) as f64 * 0.618_034 * (1 + self.loops.len()) as f64).fract();
                at[point] = (spread * extent as f64) as i64;
                inside[point] *= extent as f64;
                most = most.max(extent);
            }
        }
        let (before, after) = (weights.iter().sum::<f64>(), inside.iter().sum::<f64>());
        if after <= 0.0 {
            return Some(());
        }
        let extent = after / before;
        let share = self.share;
        if inner.kind == LoopKind::Parallel && share == 1.0 {
            let chunks = (extent / self.device.threads).ceil();
            self.share = chunks / extent;
            if self.device.threads > 1.0 {
                self.cycles += before / POINTS as f64 * FORK;
            }
        }
        self.loops.push(Open { var: &inner.var, kind: inner.kind, at, extent, most });
        let done = self.block(&inner.body, &inside);
        self.loops.pop();
        self.share = share;
        done
    }

    /// Elements of a buffer reached while the loops from `level` inwards run.
    fn footprint(&self, access: &(TensorId, &[Expr]), level: usize) -> f64 {
        let mut ranges = Ranges::new();
        for (symbol, value) in self.knobs {
            ranges.set(symbol, *value, *value);
        }
        for (at, open) in self.loops.iter().enumerate() {
            ranges.set(open.var, 0, if at >= level { open.most - 1 } else { 0 });
        }
        let width = |e: &Expr| {
            let bounds = e.bounds(&ranges);
            (bounds.hi - bounds.lo + 1.0).clamp(1.0, 1e9)
        };
        access.1.iter().map(width).product()
    }

    fn store(
        &mut self,
        target: (TensorId, &[Expr]),
        value: &Scalar,
        is_update: bool,
        weights: &Weights,
    ) -> Option<()> {
        let runs = weights.iter().sum::<f64>() / POINTS as f64;
        if runs <= 0.0 {
            return Some(());
        }
        let reads = value.reads();
        let mut accesses: Vec<(TensorId, &[Expr])> = vec![target];
        accesses.extend(reads.iter().map(|(buffer, indices)| (*buffer, indices.as_slice())));
        let arithmetic = self.arithmetic(&accesses, operations(value), is_update, runs);
        let memory = self.memory(&accesses, runs);
        let all = memory.iter().chain([&arithmetic]);
        let slowest = all.clone().fold(0.0, |a: f64, b| a.max(*b));
        self.cycles += self.share * (slowest + 0.2 * (all.sum::<f64>() - slowest));
        Some(())
    }

    /// Cycles of the instructions of a store, its data being at hand.
    fn arithmetic(
        &self,
        accesses: &[(TensorId, &[Expr])],
        operations: f64,
        is_update: bool,
        runs: f64,
    ) -> f64 {
        let target = &self.device.target;
        let bytes = self.nest.buffer(accesses[0].0).dtype.bytes() as u32;
        let lanes = f64::from(target.lanes(bytes));
        let is_inside = |l: &Open<'_>| matches!(l.kind, LoopKind::Unroll | LoopKind::Vectorize);
        let tile = self.loops.len() - self.loops.iter().rev().take_while(|l| is_inside(l)).count();
        let body: f64 = self.loops[tile..].iter().map(|l| l.extent).product();
        let vector = self.loops[tile..].iter().rposition(|l| l.kind == LoopKind::Vectorize).map(|at| tile + at);
        let length = vector.map_or(1.0, |at| self.loops[at].extent);
        // Instructions of the tile for each element of a vector loop's rows.
        let per_row = vector.map_or(1.0, |_| (length / lanes).ceil());
        let vectors = body / length * per_row;
        let tiles = runs / body.max(1.0);
        let stride = |access: &(TensorId, &[Expr])| vector.map_or(0.0, |at| self.stride(access, at));
        let loads: f64 = accesses[1..]
            .iter()
            .map(|access| match stride(access) {
                0.0 => self.footprint(access, tile).min(body),
                s if s <= 1.0 => (self.footprint(access, tile) / lanes).max(1.0).ceil(),
                _ => 2.0 * self.footprint(access, tile),
            })
            .sum();
        // Accumulators stay in registers while the loop around the tile does not change them and they fit.
        let results = if stride(&accesses[0]) > 1.0 { body } else { (self.footprint(&accesses[0], tile) / lanes).ceil() };
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
    fn stride(&self, access: &(TensorId, &[Expr]), vector: usize) -> f64 {
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
    fn memory(&self, accesses: &[(TensorId, &[Expr])], runs: f64) -> [f64; 3] {
        let target = &self.device.target;
        let line = f64::from(target.line);
        // Short rows bring whole lines.
        let bytes = |access: &(TensorId, &[Expr]), level: usize| {
            let size = self.nest.buffer(access.0).dtype.bytes() as f64;
            let rows = access.1.split_last().map_or(0.0, |(last, _)| {
                let row = self.footprint(&(access.0, std::slice::from_ref(last)), level) * size;
                (row / line).ceil() * line / row
            });
            self.footprint(access, level) * size * rows.max(1.0)
        };
        let levels = self.loops.len();
        let sizes: Vec<Vec<f64>> =
            (0..=levels).map(|level| accesses.iter().map(|a| bytes(a, level)).collect()).collect();
        let mut out = [0.0; 3];
        let inner = |level: usize| self.loops[level..].iter().map(|l| l.extent).product::<f64>().max(1.0);
        for (cache, capacity) in [target.l1d, target.l2, target.l3].into_iter().enumerate() {
            let fits = |level: &usize| sizes[*level].iter().sum::<f64>() <= 0.8 * capacity as f64;
            let level = (0..=levels).find(fits).unwrap_or(levels);
            let visits = runs / inner(level);
            let traffic: f64 = accesses.iter().zip(&sizes[level]).map(|(access, size)| {
                let is_scratch = self.nest.buffer(access.0).role == Role::Local;
                if is_scratch && level > 0 { 0.0 } else { visits * size }
            }).sum();
            out[cache] = traffic / BANDWIDTH[cache];
        }
        out
    }
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
