//! What a store asks of the machine: 13 features that Ansor does not have.
//!
//! The *body* of a store, the innermost loops around it that are unrolled or vectorised, becomes straight code whose operands
//! are registers: its loads and accumulators decide what limits it. The rest is what the caches and the other threads make
//! of it.

use talweg_expr::Expr;
use talweg_ir::LoopKind;
use talweg_target::Target;

use crate::formula::{add, ceil_quotient, divide, log_feature, log2, mul, number, one, product, scale, zero};
use crate::region::{Regions, stride};
use crate::site::{Level, Site};

/// Bytes that come from the second cache level in a cycle, and from beyond it: what servers have, roughly. A model that
/// learns from times corrects the rest.
const L2_BYTES: f64 = 48.0;
const FAR_BYTES: f64 = 10.0;
/// Vector instructions of a cycle.
const PORTS: f64 = 2.0;

/// What programs run on: a target, and how many threads their parallel loops have.
#[derive(Clone, Copy, Debug)]
pub struct Machine<'a> {
    /// The target.
    pub target: &'a Target,
    /// Threads, at least one.
    pub threads: usize,
}

impl<'a> Machine<'a> {
    /// A target with so many threads.
    pub fn new(target: &'a Target, threads: usize) -> Machine<'a> {
        Machine { target, threads: threads.max(1) }
    }
}

impl<'a> From<&'a Target> for Machine<'a> {
    /// One thread.
    fn from(target: &'a Target) -> Machine<'a> {
        Machine::new(target, 1)
    }
}

/// The features of all stores, in the order of [`crate::feature_names`].
pub(crate) fn features(sites: &[Site<'_>], regions: &[Regions], machine: Machine<'_>) -> Vec<Vec<Expr>> {
    let each: Vec<Demand> =
        sites.iter().zip(regions).map(|(site, region)| Demand::of(site, region, machine)).collect();
    let program = each.iter().fold(zero(), |sum, demand| add(&sum, &demand.cycles));
    each.iter().map(|demand| demand.features(&program)).collect()
}

/// The demand of one store.
struct Demand {
    /// Vector instructions it becomes.
    instructions: Expr,
    /// The share of their lanes that does something.
    lanes: Expr,
    /// Registers that one pass through the body stores to.
    accumulators: Expr,
    /// Registers that one pass through the body loads.
    loads: Expr,
    /// The same for each of its instructions.
    loads_each: Expr,
    /// Bytes that come from beyond the first cache level.
    l1_misses: Expr,
    /// Bytes that come from beyond the second.
    l2_misses: Expr,
    /// Iterations of parallel loops.
    parallel: Expr,
    /// How much longer the busiest thread works than the mean one.
    balance: Expr,
    /// Instructions or loads, whichever are more.
    slots: Expr,
    /// Cycles, by whatever of all this takes longest.
    cycles: Expr,
}

impl Demand {
    fn of(site: &Site<'_>, region: &Regions, machine: Machine<'_>) -> Demand {
        let Machine { target, threads } = machine;
        let width = f64::from(target.lanes(site.element_bytes(site.buffer) as u32));
        let issued = |l: &Level| match l.kind {
            LoopKind::Vectorize => parts(&l.extent, width),
            _ => l.extent.clone(),
        };
        let instructions = product(&site.loops.iter().map(issued).collect::<Vec<_>>());
        let lanes = divide(site.iterations(), &scale(&instructions, width));

        let is_body = |l: &Level| matches!(l.kind, LoopKind::Unroll | LoopKind::Vectorize);
        let body = site.loops.iter().rposition(|l| !is_body(l)).map_or(0, |at| at + 1);
        let vector = site.loops.iter().rposition(|l| l.kind == LoopKind::Vectorize).filter(|at| *at >= body);
        let registers = |touched: usize| {
            let elements = region.elements(touched, body);
            let Some(at) = vector else { return elements.clone() };
            let step = stride(site, &site.touched[touched], at);
            let whole = || scale(elements, 1.0 / width).max(one());
            match number(&step) {
                Some(1.0) => whole(),
                // One element for all lanes, or lanes that are gathered one by one.
                Some(_) => elements.clone(),
                None => Expr::select(step.eq_expr(&one()), whole(), elements.clone()),
            }
        };
        let accumulators = registers(0);
        let loads = (0..site.touched.len())
            .filter(|t| site.touched[*t].read && !site.touched[*t].written)
            .fold(zero(), |sum, t| add(&sum, &registers(t)));
        let pass = product(&site.loops[body..].iter().map(issued).collect::<Vec<_>>());
        let loads_each = divide(&loads, &pass);

        let l1_misses = misses(site, region, target.l1d);
        let l2_misses = misses(site, region, target.l2);
        let parallel = product(site.loops.iter().filter(|l| l.kind == LoopKind::Parallel).map(|l| &l.extent));
        let balance = match threads {
            1 => one(),
            n => divide(&scale(&parts(&parallel, n as f64), n as f64), &parallel),
        };
        let slots = mul(&instructions, &loads_each.max(one()));
        let cycles = scale(&slots, 1.0 / PORTS)
            .max(scale(&l1_misses, 1.0 / L2_BYTES))
            .max(scale(&l2_misses, 1.0 / FAR_BYTES));
        let cycles = mul(&cycles, &balance);
        Demand {
            instructions,
            lanes,
            accumulators,
            loads,
            loads_each,
            l1_misses,
            l2_misses,
            parallel,
            balance,
            slots,
            cycles,
        }
    }

    /// The features, given the cycles of all stores together.
    fn features(&self, program: &Expr) -> Vec<Expr> {
        let per_instruction = |e: &Expr| log_feature(&divide(e, &self.instructions));
        vec![
            log_feature(&self.instructions),
            log2(&self.lanes),
            log_feature(&self.accumulators),
            log_feature(&self.loads),
            log_feature(&self.loads_each),
            per_instruction(&self.l1_misses),
            per_instruction(&self.l2_misses),
            log_feature(&self.l2_misses),
            log2(&self.balance),
            log_feature(&divide(&self.instructions, &self.parallel)),
            log_feature(&self.slots),
            log_feature(&self.cycles),
            log_feature(program),
        ]
    }
}

/// Bytes that come from beyond a cache of this size: what the innermost loop whose data does not fit touches, as often as
/// the loops around it run. Data that stays in place while that loop goes on is met again in the cache, for what comes in
/// between fits.
fn misses(site: &Site<'_>, region: &Regions, capacity: u64) -> Expr {
    let depth = site.depth();
    let touched = |level: usize| mul(&site.outside[level], region.bytes(level));
    let fits = |level: usize| region.bytes(level).le(&Expr::real(capacity as f64));
    let innermost = touched(depth.saturating_sub(1));
    let beyond = (1..depth)
        .rev()
        .fold(innermost, |further_in, level| Expr::select(fits(level), touched(level - 1), further_in));
    Expr::select(fits(0), touched(0), beyond)
}

/// How many parts of a size a whole number has, the last perhaps smaller. A quarter less has as many parts, and so has a number
/// that is not quite whole, as those of smooth formulas are.
fn parts(whole: &Expr, size: f64) -> Expr {
    ceil_quotient(&add(whole, &Expr::real(-0.25)), &Expr::real(size))
}
