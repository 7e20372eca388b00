//! Expressions flattened to a tape: evaluation and reverse-mode derivatives at many points at once.
//!
//! A tape holds every distinct subexpression once, in an order where operands come first. Points are worked on in
//! blocks of [`BLOCK`], one array of block length for each value, so that every step is a loop the compiler
//! vectorises. Values are `f64`, and every operator means what [`Expr::eval_real`] means (`log` and `exp` to within 2
//! units in the last place).
//!
//! # Derivatives
//!
//! | operator | derivative |
//! |---|---|
//! | `min`, `max` | of the active side; of the first on a tie |
//! | `a // b`, `ceildiv(a, b)` | of the real quotient `a / b` |
//! | `a % b` | 1 by `a`, `-floor(a / b)` by `b` |
//! | comparisons, `&&`, `\|\|`, `not` | 0 |
//! | `select` | of the chosen side; 0 by the condition |
//! | `abs(a)` | the sign of `a`, 0 at 0 |
//! | `pow(a, b)` | by `a`: `b * pow(a, b - 1)`, 0 where `b` is 0; by `b`: `pow(a, b) * log(a)`, 0 where `a <= 0` |
//!
//! The rest is as usual. A side that takes no part (adjoint 0) contributes 0 even where its own derivative is
//! infinite or undefined. [`Expr::derivative`] follows the same table.

use std::collections::HashMap;
use std::ops::Range;

use thiserror::Error;

use crate::kernel::{self, Lanes};
use crate::node::{BinaryOp, Expr, Node, UnaryOp};
use crate::symbol::Symbol;

/// Points that are worked on together.
pub const BLOCK: usize = 64;

/// Why a tape cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TapeError {
    /// An output depends on something that is not an input.
    #[error(
        "output {output} depends on `{symbol}`, which is not among the tape's inputs: add it or substitute it"
    )]
    UnknownSymbol {
        /// Position of the output.
        output: usize,
        /// What is missing.
        symbol: Symbol,
    },
    /// An input is listed twice.
    #[error("input `{symbol}` is listed twice")]
    DuplicateInput {
        /// The input.
        symbol: Symbol,
    },
}

/// What one step of a tape does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Unary(UnaryOp),
    Binary(BinaryOp),
    Select,
    /// Hands operand `a` out as output number `to`.
    Output,
}

/// One step. Operands that the operator does not have repeat `a`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub op: Op,
    pub to: u32,
    pub a: u32,
    pub b: u32,
    pub c: u32,
}

impl Step {
    fn operands(&self) -> &'static [fn(&Step) -> u32] {
        match self.op {
            Op::Unary(_) | Op::Output => &[|s| s.a],
            Op::Binary(_) => &[|s| s.a, |s| s.b],
            Op::Select => &[|s| s.a, |s| s.b, |s| s.c],
        }
    }
}

/// What happens to the adjoint of an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    /// Nothing: it is a constant, or the derivative is zero.
    Stop,
    /// This contribution is the first.
    Set,
    /// More of it.
    Add,
}

/// One step backwards: values by number, adjoints by slot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Back {
    pub value: Step,
    pub adjoint: Step,
    pub flow: [Flow; 3],
}

/// Memory for one evaluation, to be used again and again; any tape may use any scratch.
#[derive(Debug, Default)]
pub struct Scratch {
    values: Vec<Lanes>,
    adjoints: Vec<Lanes>,
    /// Outputs and seeds of one block, row by row.
    out: Vec<f64>,
    seeds: Vec<f64>,
}

impl Scratch {
    /// An empty scratch, which grows as needed.
    pub fn new() -> Scratch {
        Scratch::default()
    }
}

/// Fills in the seeds of some points, given their range and their values: a row of outputs for each.
pub type SeedBlock<'a> = &'a mut dyn FnMut(Range<usize>, &[f64], &mut [f64]);

/// A list of steps that evaluates several expressions, and their derivatives, at many points.
#[derive(Clone, Debug)]
pub struct Tape {
    inputs: Vec<Symbol>,
    outputs: usize,
    /// Constants are the first slots and values, inputs the next.
    constants: Vec<f64>,
    /// Steps on slots, which are used again when a value is dead.
    forward: Vec<Step>,
    slots: usize,
    /// The same steps with a place of its own for every value.
    record: Vec<Step>,
    values: usize,
    backward: Vec<Back>,
    /// Which inputs have a derivative at all.
    reached: Vec<bool>,
}

impl Tape {
    /// Flattens `outputs` as functions of `inputs`; common parts are evaluated once.
    pub fn new(outputs: &[Expr], inputs: &[Symbol]) -> Result<Tape, TapeError> {
        let mut build = Flatten::default();
        for (output, e) in outputs.iter().enumerate() {
            build.constants_of(e);
            if let Some(symbol) = build.symbols.iter().find(|s| !inputs.contains(s)) {
                return Err(TapeError::UnknownSymbol { output, symbol: symbol.clone() });
            }
        }
        for (k, symbol) in inputs.iter().enumerate() {
            let number = (build.constants.len() + k) as u32;
            if build.numbers.insert(Expr::sym(symbol), number).is_some() {
                return Err(TapeError::DuplicateInput { symbol: symbol.clone() });
            }
        }
        build.values = build.constants.len() + inputs.len();
        for (k, e) in outputs.iter().enumerate() {
            let a = build.flatten(e);
            build.steps.push(Step { op: Op::Output, to: k as u32, a, b: a, c: a });
        }
        let first = build.constants.len();
        let leaves = first + inputs.len();
        let (slot_of, slots) = assign_slots(&build.steps, build.values, leaves);
        let forward: Vec<Step> = build.steps.iter().map(|s| on_slots(s, &slot_of)).collect();
        let (backward, reached) = reverse(&build.steps, &forward, build.values, first);
        Ok(Tape {
            inputs: inputs.to_vec(),
            outputs: outputs.len(),
            constants: build.constants,
            forward,
            slots,
            record: build.steps,
            values: build.values,
            backward,
            reached: reached[first..leaves].to_vec(),
        })
    }

    /// The inputs, in the order of a point's coordinates.
    pub fn inputs(&self) -> &[Symbol] {
        &self.inputs
    }

    /// How many outputs there are.
    pub fn outputs(&self) -> usize {
        self.outputs
    }

    /// How many operators are evaluated for each point.
    pub fn steps(&self) -> usize {
        self.record.len() - self.outputs
    }

    /// How many values are held at once by [`Tape::eval`].
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// Evaluates all outputs at `n` points: `points` is `n x inputs`, `out` is `n x outputs`, both row-major.
    ///
    /// # Panics
    /// When a slice does not have the length its shape asks for.
    pub fn eval(&self, points: &[f64], n: usize, out: &mut [f64], scratch: &mut Scratch) {
        self.check("points", points.len(), n, self.inputs.len());
        self.check("out", out.len(), n, self.outputs);
        self.fill_constants(&mut scratch.values, self.slots);
        for start in (0..n).step_by(BLOCK) {
            let count = BLOCK.min(n - start);
            self.load(&points[start * self.inputs.len()..], count, &mut scratch.values);
            let block = &mut out[start * self.outputs..][..count * self.outputs];
            kernel::forward(&self.forward, &mut scratch.values[..self.slots], block, self.outputs);
        }
    }

    /// The product of a row vector with the Jacobian at each of `n` points: `grad[p, i]` is the sum over outputs `o`
    /// of `seed[p, o] * d out[p, o] / d input[p, i]`. `seed` and `out` are `n x outputs`, `points` and `grad` are
    /// `n x inputs`, all row-major; `out` receives the values.
    ///
    /// # Panics
    /// When a slice does not have the length its shape asks for.
    pub fn gradient(
        &self,
        points: &[f64],
        n: usize,
        seed: &[f64],
        out: &mut [f64],
        grad: &mut [f64],
        scratch: &mut Scratch,
    ) {
        self.check("seed", seed.len(), n, self.outputs);
        self.check("out", out.len(), n, self.outputs);
        let outputs = self.outputs;
        let mut given = |rows: Range<usize>, values: &[f64], seeds: &mut [f64]| {
            let rows = rows.start * outputs..rows.end * outputs;
            out[rows.clone()].copy_from_slice(values);
            seeds.copy_from_slice(&seed[rows]);
        };
        self.gradient_with(points, n, &mut given, grad, scratch);
    }

    /// Like [`Tape::gradient`], with seeds that depend on the values: for each block of points, `seed` is given their
    /// range and their values (a row for each) and fills in the seeds. Everything is evaluated once.
    ///
    /// # Panics
    /// When a slice does not have the length its shape asks for.
    pub fn gradient_with(
        &self,
        points: &[f64],
        n: usize,
        seed: SeedBlock<'_>,
        grad: &mut [f64],
        scratch: &mut Scratch,
    ) {
        let inputs = self.inputs.len();
        self.check("points", points.len(), n, inputs);
        self.check("grad", grad.len(), n, inputs);
        self.fill_constants(&mut scratch.values, self.values);
        grow(&mut scratch.adjoints, self.slots);
        scratch.out.resize(BLOCK * self.outputs, 0.0);
        scratch.seeds.resize(BLOCK * self.outputs, 0.0);
        for start in (0..n).step_by(BLOCK) {
            let count = BLOCK.min(n - start);
            self.load(&points[start * inputs..], count, &mut scratch.values);
            let out = &mut scratch.out[..count * self.outputs];
            kernel::forward(&self.record, &mut scratch.values[..self.values], out, self.outputs);
            let seeds = &mut scratch.seeds[..count * self.outputs];
            seed(start..start + count, out, seeds);
            kernel::backward(
                &self.backward,
                &scratch.values[..self.values],
                &mut scratch.adjoints[..self.slots],
                seeds,
                self.outputs,
            );
            for (k, reached) in self.reached.iter().enumerate() {
                let adjoint = &scratch.adjoints[self.constants.len() + k];
                for lane in 0..count {
                    grad[(start + lane) * inputs + k] = if *reached { adjoint.0[lane] } else { 0.0 };
                }
            }
        }
    }

    fn check(&self, what: &str, length: usize, n: usize, width: usize) {
        assert!(length == n * width, "`{what}` holds {length} numbers, expected {n} points x {width}");
    }

    fn fill_constants(&self, values: &mut Vec<Lanes>, size: usize) {
        grow(values, size);
        for (lanes, v) in values.iter_mut().zip(&self.constants) {
            lanes.0.fill(*v);
        }
    }

    /// Writes a block of points into the input slots; lanes without a point repeat the last one.
    fn load(&self, points: &[f64], count: usize, values: &mut [Lanes]) {
        let width = self.inputs.len();
        for (k, lanes) in values[self.constants.len()..][..width].iter_mut().enumerate() {
            for (lane, v) in lanes.0.iter_mut().enumerate() {
                *v = points[lane.min(count - 1) * width + k];
            }
        }
    }
}

fn grow(lanes: &mut Vec<Lanes>, size: usize) {
    if lanes.len() < size {
        lanes.resize(size, Lanes([0.0; BLOCK]));
    }
}

/// Turns shared expressions into steps.
#[derive(Default)]
struct Flatten {
    numbers: HashMap<Expr, u32>,
    seen: HashMap<Expr, ()>,
    symbols: Vec<Symbol>,
    constants: Vec<f64>,
    steps: Vec<Step>,
    values: usize,
}

fn children(e: &Expr) -> [Option<&Expr>; 3] {
    match e.node() {
        Node::Unary(_, a) => [Some(a), None, None],
        Node::Binary(_, a, b) => [Some(a), Some(b), None],
        Node::Select(c, a, b) => [Some(c), Some(a), Some(b)],
        _ => [None, None, None],
    }
}

impl Flatten {
    /// Numbers the constants below `e` and lists its symbols.
    fn constants_of(&mut self, e: &Expr) {
        let mut stack = vec![e];
        while let Some(e) = stack.pop() {
            if self.seen.insert(e.clone(), ()).is_some() {
                continue;
            }
            let value = match e.node() {
                Node::Int(v) => *v as f64,
                Node::Real(v) => f64::from_bits(*v),
                Node::Bool(v) => f64::from(u8::from(*v)),
                Node::Sym(s) => {
                    self.symbols.push(s.clone());
                    continue;
                }
                _ => {
                    stack.extend(children(e).into_iter().flatten());
                    continue;
                }
            };
            self.numbers.insert(e.clone(), self.constants.len() as u32);
            self.constants.push(value);
        }
    }

    /// The number of the value of `e`, with steps appended for what is new. No recursion: expressions may be deep.
    fn flatten(&mut self, e: &Expr) -> u32 {
        let mut stack = vec![e];
        while let Some(top) = stack.last().copied() {
            if self.numbers.contains_key(top) {
                stack.pop();
                continue;
            }
            let operands = children(top).map(|c| c.map(|c| self.numbers.get(c).copied().ok_or(c)));
            let missing: Vec<&Expr> = operands.iter().flatten().filter_map(|r| r.err()).collect();
            if !missing.is_empty() {
                stack.extend(missing.into_iter().rev());
                continue;
            }
            stack.pop();
            let at = |k: usize| operands[k].and_then(Result::ok).or(operands[0].and_then(Result::ok));
            let (Some(a), Some(b), Some(c)) = (at(0), at(1), at(2)) else { continue };
            let op = match top.node() {
                Node::Unary(op, _) => Op::Unary(*op),
                Node::Binary(op, ..) => Op::Binary(*op),
                _ => Op::Select,
            };
            let to = self.values as u32;
            self.values += 1;
            self.steps.push(Step { op, to, a, b, c });
            self.numbers.insert(top.clone(), to);
        }
        self.numbers[e]
    }
}

/// Gives every value a slot, using a slot again after the last use of its value. A step's result never shares a slot
/// with its operands, and leaves (constants and inputs) have the slots of their numbers.
fn assign_slots(steps: &[Step], values: usize, leaves: usize) -> (Vec<u32>, usize) {
    let mut last_use = vec![0usize; values];
    for (k, s) in steps.iter().enumerate() {
        for operand in s.operands() {
            last_use[operand(s) as usize] = k;
        }
    }
    let mut slot_of: Vec<u32> = (0..values as u32).collect();
    let mut free: Vec<u32> = Vec::new();
    let mut slots = leaves;
    for (k, s) in steps.iter().enumerate() {
        if s.op != Op::Output {
            slot_of[s.to as usize] = free.pop().unwrap_or_else(|| {
                slots += 1;
                (slots - 1) as u32
            });
        }
        let mut done: Vec<u32> = s.operands().iter().map(|o| o(s)).collect();
        done.sort_unstable();
        done.dedup();
        for v in done {
            if v as usize >= leaves && last_use[v as usize] == k {
                free.push(slot_of[v as usize]);
            }
        }
    }
    (slot_of, slots)
}

fn on_slots(s: &Step, slot_of: &[u32]) -> Step {
    let slot = |v: u32| slot_of[v as usize];
    let to = if s.op == Op::Output { s.to } else { slot(s.to) };
    Step { op: s.op, to, a: slot(s.a), b: slot(s.b), c: slot(s.c) }
}

/// The steps backwards, and which values have an adjoint. The adjoint of a value lives from the value's last use back
/// to its definition, so adjoints share slots exactly as values do.
fn reverse(steps: &[Step], on_slots: &[Step], values: usize, constants: usize) -> (Vec<Back>, Vec<bool>) {
    let mut has = vec![false; values];
    let mut out = Vec::new();
    for (value, adjoint) in steps.iter().zip(on_slots).rev() {
        if value.op != Op::Output && !has[value.to as usize] {
            continue;
        }
        let mut flow = [Flow::Stop; 3];
        for (k, operand) in value.operands().iter().enumerate() {
            let v = operand(value) as usize;
            if v >= constants && differentiable(value.op, k) {
                flow[k] = if has[v] { Flow::Add } else { Flow::Set };
                has[v] = true;
            }
        }
        if flow != [Flow::Stop; 3] {
            out.push(Back { value: *value, adjoint: *adjoint, flow });
        }
    }
    (out, has)
}

/// Whether an operator's derivative by its operand number `k` can be other than zero.
fn differentiable(op: Op, k: usize) -> bool {
    use BinaryOp::{And, Eq, Le, Lt, Ne, Or};
    match op {
        Op::Output => true,
        Op::Unary(op) => op != UnaryOp::Not,
        Op::Binary(op) => !matches!(op, Lt | Le | Eq | Ne | And | Or),
        Op::Select => k > 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_parts_are_evaluated_once_and_slots_are_used_again() -> Result<(), TapeError> {
        let (x, y) = (Expr::var("x"), Expr::var("y"));
        let common = x.max(&y);
        let a = Expr::unary(UnaryOp::Log, common.clone());
        let b = Expr::unary(UnaryOp::Exp, common);
        let tape = Tape::new(&[a.clone(), b, a], &[Symbol::var("x"), Symbol::var("y")])?;
        assert_eq!(tape.steps(), 3);
        let mut chain = x.clone();
        for _ in 0..100 {
            chain = Expr::unary(UnaryOp::Sqrt, Expr::unary(UnaryOp::Exp, chain));
        }
        let tape = Tape::new(&[chain], &[Symbol::var("x")])?;
        assert_eq!(tape.steps(), 200);
        assert!(tape.slots() <= 3, "{} slots", tape.slots());
        Ok(())
    }

    #[test]
    fn missing_and_repeated_inputs_are_errors() {
        let (x, k) = (Symbol::var("x"), Symbol::knob("k"));
        let e = Expr::sym(&x) * Expr::sym(&k);
        assert_eq!(
            Tape::new(&[Expr::int(1), e.clone()], std::slice::from_ref(&x)).map(|t| t.steps()),
            Err(TapeError::UnknownSymbol { output: 1, symbol: k.clone() })
        );
        assert_eq!(
            Tape::new(&[e], &[x.clone(), k, x.clone()]).map(|t| t.steps()),
            Err(TapeError::DuplicateInput { symbol: x })
        );
    }

    #[test]
    fn constants_inputs_and_no_points_at_all() -> Result<(), TapeError> {
        let x = Symbol::var("x");
        let tape = Tape::new(&[Expr::int(7), Expr::sym(&x), Expr::sym(&x)], &[x])?;
        let mut scratch = Scratch::new();
        tape.eval(&[], 0, &mut [], &mut scratch);
        let (mut out, mut grad) = ([0.0; 6], [0.0; 2]);
        tape.gradient(&[3.0, 4.0], 2, &[9.0, 1.0, 2.0, 9.0, 0.5, 0.0], &mut out, &mut grad, &mut scratch);
        assert_eq!(out, [7.0, 3.0, 3.0, 7.0, 4.0, 4.0]);
        assert_eq!(grad, [3.0, 0.5]);
        Tape::new(&[], &[])?.gradient(&[], 3, &[], &mut [], &mut [], &mut scratch);
        let mut out = [0.0; 100];
        Tape::new(&[Expr::real(2.5)], &[])?.gradient(&[], 100, &[1.0; 100], &mut out, &mut [], &mut scratch);
        assert_eq!(out, [2.5; 100]);
        Ok(())
    }

    #[test]
    fn an_undefined_side_that_is_not_chosen_does_not_spoil_the_gradient() -> Result<(), TapeError> {
        let x = Symbol::var("x");
        let e = Expr::parse("select(0 < x, log(x) * sqrt(x) / x, x * 2)").unwrap_or_else(|e| panic!("{e}"));
        let tape = Tape::new(&[e], &[x])?;
        let (mut out, mut grad) = ([0.0; 1], [0.0; 1]);
        tape.gradient(&[0.0], 1, &[1.0], &mut out, &mut grad, &mut Scratch::new());
        assert_eq!((out, grad), ([0.0], [2.0]));
        Ok(())
    }
}
