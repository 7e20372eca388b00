//! Evaluates tensor expressions: every compute block by block along its best axis, on several threads when large.

use std::borrow::Cow;
use std::ops::Range;

use talweg_expr::{Expr, Symbol};

use super::InterpError;
use super::dot::{Factor, Term, accumulate};
use super::lanes::{LANES, Machine, View};
use super::program::{AffineAccess, Compiler, Node, Operand};
use super::value::{binary_float, binary_int, start_float, start_int};
use crate::data::Array;
use crate::dtype::DType;
use crate::scalar::{ArithOp, Reducer, Scalar, TensorId};
use crate::te::{Axis, Compute, Dag, Source};

/// How to evaluate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EvalOptions {
    /// How many threads large computes use; results do not depend on it.
    pub threads: usize,
}

impl Default for EvalOptions {
    fn default() -> EvalOptions {
        EvalOptions { threads: std::thread::available_parallelism().map_or(1, usize::from) }
    }
}

/// Evaluates a DAG; gives the tensors marked as outputs, in order. `inputs` holds every input and constant.
pub fn eval_dag(dag: &Dag, inputs: &[(TensorId, Array)]) -> Result<Vec<(TensorId, Array)>, InterpError> {
    eval_dag_with(dag, inputs, &EvalOptions::default())
}

/// Like [`eval_dag`], with options.
pub fn eval_dag_with(
    dag: &Dag,
    inputs: &[(TensorId, Array)],
    options: &EvalOptions,
) -> Result<Vec<(TensorId, Array)>, InterpError> {
    let all = evaluate(dag, inputs, options)?;
    let wanted = dag.ids().zip(all).filter(|(id, _)| dag.tensor(*id).output);
    Ok(wanted.map(|(id, a)| (id, a.into_owned())).collect())
}

/// Like [`eval_dag_with`], but gives every tensor of the DAG, inputs included.
pub fn eval_dag_all(
    dag: &Dag,
    inputs: &[(TensorId, Array)],
    options: &EvalOptions,
) -> Result<Vec<(TensorId, Array)>, InterpError> {
    let all = evaluate(dag, inputs, options)?;
    Ok(dag.ids().zip(all).map(|(id, a)| (id, a.into_owned())).collect())
}

fn evaluate<'a>(
    dag: &Dag,
    inputs: &'a [(TensorId, Array)],
    options: &EvalOptions,
) -> Result<Vec<Cow<'a, Array>>, InterpError> {
    let mut operands: Vec<Operand> = Vec::new();
    let mut arrays: Vec<Cow<'a, Array>> = Vec::new();
    let mut expanded: Vec<Expanded> = Vec::new();
    for id in dag.ids() {
        let tensor = dag.tensor(id);
        let shape = constant_extents(&tensor.name, &tensor.shape)?;
        let extents: Vec<usize> = shape.iter().map(|e| *e as usize).collect();
        let array = match &tensor.source {
            Source::Input | Source::Const => {
                let given = inputs.iter().find(|(i, _)| *i == id);
                let (_, array) = given.ok_or_else(|| InterpError::Missing { name: tensor.name.clone() })?;
                check_argument(&tensor.name, tensor.dtype, &extents, array)?;
                Cow::Borrowed(array)
            }
            Source::Compute(compute) => {
                let views: Vec<_> = arrays.iter().zip(&expanded).map(|(a, e)| view(a, e)).collect();
                let plan = Plan::new(&tensor.name, compute, tensor.dtype, &shape, &operands)?;
                let mut out = Array::try_zeros(tensor.dtype, &extents)
                    .map_err(|source| InterpError::Storage { name: tensor.name.clone(), source })?;
                plan.run(&operands, &views, &mut out, options.threads)?;
                Cow::Owned(out)
            }
        };
        expanded.push(expand(&array));
        arrays.push(array);
        let rank = shape.len();
        operands.push(Operand { name: tensor.name.clone(), dtype: tensor.dtype, rank, shape: Some(shape) });
    }
    Ok(arrays)
}

/// Checks that an argument has the declared type and shape.
pub(crate) fn check_argument(
    name: &str,
    dtype: DType,
    shape: &[usize],
    array: &Array,
) -> Result<(), InterpError> {
    if array.dtype() == dtype && array.shape() == shape {
        return Ok(());
    }
    Err(InterpError::WrongArgument {
        name: name.to_string(),
        expected: dtype,
        expected_shape: shape.to_vec(),
        got: array.dtype(),
        got_shape: array.shape().to_vec(),
    })
}

/// Extents as numbers; negative ones count as zero.
pub(crate) fn constant_extents(place: &str, shape: &[Expr]) -> Result<Vec<i64>, InterpError> {
    shape
        .iter()
        .map(|e| match (e.as_int(), e.symbols().pop_first()) {
            (Some(v), _) => Ok(v.max(0)),
            (None, Some(symbol)) => Err(InterpError::Open { place: place.to_string(), symbol }),
            (None, None) => Err(InterpError::Undefined { place: place.to_string(), expr: e.to_string() }),
        })
        .collect()
}

/// Elements widened for reading.
enum Expanded {
    No,
    F32(Vec<f32>),
    I32(Vec<i32>),
}

fn expand(array: &Array) -> Expanded {
    let all = 0..array.len();
    match array.dtype() {
        DType::F16 | DType::BF16 => Expanded::F32(all.map(|at| array.get_f64(at) as f32).collect()),
        DType::I8 | DType::U8 | DType::Bool => {
            Expanded::I32(all.map(|at| array.get_i64(at) as i32).collect())
        }
        DType::F32 | DType::I32 | DType::I64 => Expanded::No,
    }
}

fn view<'v>(array: &'v Array, expanded: &'v Expanded) -> Option<View<'v>> {
    match expanded {
        Expanded::F32(v) => Some(View::F32(v)),
        Expanded::I32(v) => Some(View::I32(v)),
        Expanded::No => array
            .as_slice()
            .map(View::F32)
            .or_else(|| array.as_slice().map(View::I32))
            .or_else(|| array.as_slice().map(View::I64)),
    }
}

/// A compute ready to run. Variables are the axes, then the reduction axes.
struct Plan {
    place: String,
    dtype: DType,
    extents: Vec<i64>,
    /// How many of the variables are axes of the tensor.
    spatial: usize,
    reducer: Option<Reducer>,
    nodes: Vec<Node>,
    body: usize,
    /// The variable lanes run along.
    lane: usize,
    /// The two reads, when the compute sums products of float reads, or of reads cast to i32, that are never out of
    /// bounds.
    product: Option<[(TensorId, AffineAccess); 2]>,
}

/// The output while several threads write to it.
struct Shared(*mut u8);

// SAFETY: threads write disjoint elements; see `Plan::run`.
unsafe impl Sync for Shared {}

impl Plan {
    fn new(
        name: &str,
        compute: &Compute,
        dtype: DType,
        shape: &[i64],
        operands: &[Operand],
    ) -> Result<Plan, InterpError> {
        let place = format!("compute `{name}`");
        let axes: Vec<&Axis> = compute.axes.iter().chain(compute.reduce_axes()).collect();
        let vars: Vec<Symbol> = axes.iter().map(|a| a.symbol.clone()).collect();
        let lengths: Vec<Expr> = axes.iter().map(|a| a.extent.clone()).collect();
        let mut extents = constant_extents(&place, &lengths)?;
        let spatial = compute.axes.len();
        if extents[..spatial] != *shape {
            let what = format!("axes {:?} do not match the shape {shape:?}", &extents[..spatial]);
            return Err(InterpError::BadAccess { place, what });
        }
        let mut vars = vars;
        if spatial == 0 {
            // A scalar has no axis to run along; a variable of extent one stands in.
            vars.insert(0, Symbol::var(""));
            extents.insert(0, 1);
        }
        let spatial = spatial.max(1);
        let mut compiler = Compiler {
            place: place.clone(),
            vars: &vars,
            extents: Some(&extents),
            operands,
            nodes: Vec::new(),
        };
        let (body, body_dtype) = compiler.scalar(&compute.body)?;
        if body_dtype != dtype {
            let what = format!("the body is of type {body_dtype} but the tensor of type {dtype}");
            return Err(InterpError::IllTyped { place, what });
        }
        let nodes = compiler.nodes;
        let reducer = compute.reduction.as_ref().map(|r| r.reducer);
        let lane = best_lane(&compute.body, &nodes, &extents, spatial, reducer.is_some(), &vars);
        let product = match &nodes[body] {
            Node::BinaryFloat(ArithOp::Mul, a, b) | Node::BinaryInt(ArithOp::Mul, a, b, DType::I32)
                if reducer == Some(Reducer::Sum) && lane < spatial && extents.len() > spatial =>
            {
                unchecked(&nodes, *a).zip(unchecked(&nodes, *b)).map(|(a, b)| [a, b])
            }
            _ => None,
        };
        Ok(Plan { place, dtype, extents, spatial, reducer, nodes, body, lane, product })
    }

    /// Runs all blocks. A block is one range of lanes at one point of the other axes, so blocks write disjoint
    /// elements and may run on any thread.
    fn run(
        &self,
        operands: &[Operand],
        views: &[Option<View<'_>>],
        out: &mut Array,
        threads: usize,
    ) -> Result<(), InterpError> {
        if out.is_empty() {
            return Ok(());
        }
        let blocks = self.lane_blocks() * self.outer_points();
        let work: i64 = self.extents.iter().fold(1, |n, e| n.saturating_mul(*e));
        const WORTH_A_THREAD: i64 = 1 << 18;
        let threads = threads.min((work / WORTH_A_THREAD) as usize).min(blocks).max(1);
        let target = Shared(out.as_mut_ptr());
        let per_thread = blocks.div_ceil(threads);
        let run = |range: Range<usize>| self.run_blocks(operands, views, &target, range);
        if threads == 1 {
            return run(0..blocks);
        }
        std::thread::scope(|scope| {
            let handles: Vec<_> = (1..threads)
                .map(|t| (t * per_thread).min(blocks)..((t + 1) * per_thread).min(blocks))
                .map(|range| scope.spawn(|| run(range)))
                .collect();
            let mut result = run(0..per_thread.min(blocks));
            for handle in handles {
                match handle.join() {
                    Ok(r) => result = result.and(r),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            result
        })
    }

    fn lane_blocks(&self) -> usize {
        if self.lane < self.spatial { (self.extents[self.lane] as usize).div_ceil(LANES) } else { 1 }
    }

    fn outer_points(&self) -> usize {
        (0..self.spatial).filter(|a| *a != self.lane).map(|a| self.extents[a] as usize).product()
    }

    fn run_blocks(
        &self,
        operands: &[Operand],
        views: &[Option<View<'_>>],
        target: &Shared,
        range: Range<usize>,
    ) -> Result<(), InterpError> {
        let size = (self.extents.len(), self.lane);
        let mut machine = Machine::new(&self.place, &self.nodes, operands, views, size);
        let mut strides = vec![1usize; self.spatial];
        for axis in (1..self.spatial).rev() {
            strides[axis - 1] = strides[axis] * self.extents[axis] as usize;
        }
        let outer = self.outer_points();
        let (mut floats, mut ints) = (vec![0.0; LANES], vec![0; LANES]);
        for block in range {
            let mut point = block % outer;
            machine.slots.fill(0);
            for axis in (0..self.spatial).rev().filter(|a| *a != self.lane) {
                machine.slots[axis] = (point % self.extents[axis] as usize) as i64;
                point /= self.extents[axis] as usize;
            }
            let (mut lanes, mut stride) = (1, 1);
            if self.lane < self.spatial {
                let start = (block / outer) * LANES;
                lanes = (self.extents[self.lane] as usize - start).min(LANES);
                machine.slots[self.lane] = start as i64;
                stride = strides[self.lane];
            }
            machine.count = lanes;
            let base: usize =
                machine.slots[..self.spatial].iter().zip(&strides).map(|(i, s)| *i as usize * s).sum();
            if self.dtype.is_float() {
                self.floats(&mut machine, &mut floats[..lanes])?;
            } else {
                self.ints(&mut machine, &mut ints[..lanes])?;
            }
            // SAFETY: the block covers elements `base + stride * lane` for lanes below `lanes`, which lie inside the
            // tensor, and no other block covers them. The pointer is to an array of `self.dtype`.
            unsafe { store(self.dtype, target.0, base, stride, &floats[..lanes], &ints[..lanes]) };
        }
        Ok(())
    }

    fn floats(&self, machine: &mut Machine<'_>, out: &mut [f64]) -> Result<(), InterpError> {
        let Some(reducer) = self.reducer else {
            machine.eval(self.body)?;
            let value = machine.value(self.body);
            if value.uniform {
                out.fill(value.f[0])
            } else {
                out.copy_from_slice(&value.f[..out.len()])
            }
            return Ok(());
        };
        out.fill(start_float(reducer));
        if let Some([a, b]) = &self.product
            && let (Some(View::F32(x)), Some(View::F32(y))) =
                (machine.views[a.0.index()], machine.views[b.0.index()])
        {
            return self.products(machine, out, (x, &a.1), (y, &b.1));
        }
        let op = reducer.op();
        self.each_reduction_point(machine, None, |m| {
            m.eval(self.body)?;
            let value = m.value(self.body);
            let count = m.count;
            if self.lane >= self.spatial {
                out[0] = if value.uniform {
                    (0..count).fold(out[0], |acc, _| binary_float(op, acc, value.f[0]))
                } else {
                    value.f[..count].iter().fold(out[0], |acc, v| binary_float(op, acc, *v))
                };
                return Ok(());
            }
            combine(out, &value.f, value.uniform, op, binary_float);
            Ok(())
        })
    }

    fn ints(&self, machine: &mut Machine<'_>, out: &mut [i64]) -> Result<(), InterpError> {
        let Some(reducer) = self.reducer else {
            machine.eval(self.body)?;
            let value = machine.value(self.body);
            if value.uniform {
                out.fill(value.i[0])
            } else {
                out.copy_from_slice(&value.i[..out.len()])
            }
            return Ok(());
        };
        if let Some([a, b]) = &self.product
            && let (Some(View::I32(x)), Some(View::I32(y))) =
                (machine.views[a.0.index()], machine.views[b.0.index()])
        {
            let mut sums = [0i32; LANES];
            self.products(machine, &mut sums[..out.len()], (x, &a.1), (y, &b.1))?;
            out.iter_mut().zip(sums).for_each(|(o, s)| *o = i64::from(s));
            return Ok(());
        }
        // Sums and products may wrap once at the end: they agree modulo the width.
        out.fill(start_int(reducer, self.dtype));
        let op = reducer.op();
        self.each_reduction_point(machine, None, |m| {
            m.eval(self.body)?;
            let value = m.value(self.body);
            let count = m.count;
            if self.lane >= self.spatial {
                let lane = |l: usize| value.i[if value.uniform { 0 } else { l }];
                out[0] = (0..count).fold(out[0], |acc, l| self.combine_int(op, acc, lane(l)));
                return Ok(());
            }
            combine(out, &value.i, value.uniform, op, |op, a, b| self.combine_int(op, a, b));
            Ok(())
        })
    }

    /// Adds the products of two affine reads at every reduction point.
    fn products<T: Term>(
        &self,
        machine: &mut Machine<'_>,
        out: &mut [T::Sum],
        (x, a): (&[T], &AffineAccess),
        (y, b): (&[T], &AffineAccess),
    ) -> Result<(), InterpError> {
        let inner = self.extents.len() - 1;
        self.each_reduction_point(machine, Some(inner), |m| {
            let offset = |access: &AffineAccess| access.offset.at(&m.slots);
            let lane = |access: &AffineAccess| access.offset.coefficient(self.lane);
            let step = |access: &AffineAccess| access.offset.coefficient(inner);
            let x = Factor { data: x, offset: offset(a), lane: lane(a), step: step(a) };
            let y = Factor { data: y, offset: offset(b), lane: lane(b), step: step(b) };
            accumulate(out, x, y, self.extents[inner] as usize);
            Ok(())
        })
    }

    /// Truth values have no width to wrap at: they are normalised at every step.
    fn combine_int(&self, op: ArithOp, a: i64, b: i64) -> i64 {
        let v = binary_int(op, a, b);
        if self.dtype == DType::Bool { i64::from(v != 0) } else { v }
    }

    /// Calls `f` at every point of the reduction axes but `skip`, in order; in blocks along the lane axis when that
    /// is one of them.
    fn each_reduction_point(
        &self,
        machine: &mut Machine<'_>,
        skip: Option<usize>,
        mut f: impl FnMut(&mut Machine<'_>) -> Result<(), InterpError>,
    ) -> Result<(), InterpError> {
        let axes: Vec<usize> = (self.spatial..self.extents.len()).filter(|a| Some(*a) != skip).collect();
        if axes.iter().any(|a| self.extents[*a] == 0) {
            return Ok(());
        }
        let step = |a: usize| if a == self.lane { LANES as i64 } else { 1 };
        machine.slots[self.spatial..].fill(0);
        loop {
            if self.lane >= self.spatial {
                machine.count =
                    (self.extents[self.lane] - machine.slots[self.lane]).min(LANES as i64) as usize;
            }
            f(machine)?;
            let mut moved = false;
            for a in axes.iter().rev() {
                machine.slots[*a] += step(*a);
                if machine.slots[*a] < self.extents[*a] {
                    moved = true;
                    break;
                }
                machine.slots[*a] = 0;
            }
            if !moved {
                return Ok(());
            }
        }
    }
}

/// Combines values into accumulators lane by lane.
fn combine<T: Copy>(out: &mut [T], values: &[T], uniform: bool, op: ArithOp, f: impl Fn(ArithOp, T, T) -> T) {
    macro_rules! each {
        ($($op:ident)*) => {
            match op {
                $(ArithOp::$op if uniform => out.iter_mut().for_each(|o| *o = f(ArithOp::$op, *o, values[0])),
                ArithOp::$op => out.iter_mut().zip(values).for_each(|(o, v)| *o = f(ArithOp::$op, *o, *v)),)*
                _ => {}
            }
        };
    }
    each!(Add Mul Max Min);
}

/// Rounds or wraps values to the element type and writes them at `base + stride * lane`.
///
/// # Safety
/// `target` points to elements of type `dtype`, and all positions written lie inside and belong to the caller.
unsafe fn store(dtype: DType, target: *mut u8, base: usize, stride: usize, floats: &[f64], ints: &[i64]) {
    macro_rules! write {
        ($values:expr, $rust:ty, $f:expr) => {
            for (l, v) in $values.iter().enumerate() {
                // SAFETY: guaranteed by the caller.
                unsafe { target.cast::<$rust>().add(base + stride * l).write($f(*v)) };
            }
        };
    }
    match dtype {
        DType::F32 => write!(floats, f32, |v| v as f32),
        DType::F16 => write!(floats, half::f16, half::f16::from_f64),
        DType::BF16 => write!(floats, half::bf16, half::bf16::from_f64),
        DType::I8 => write!(ints, i8, |v| v as i8),
        DType::U8 => write!(ints, u8, |v| v as u8),
        DType::I32 => write!(ints, i32, |v| v as i32),
        DType::I64 => write!(ints, i64, |v| v),
        DType::Bool => write!(ints, u8, |v| u8::from(v != 0)),
    }
}

/// The read behind a node or behind its cast to i32, when it is affine and in bounds everywhere.
fn unchecked(nodes: &[Node], at: usize) -> Option<(TensorId, AffineAccess)> {
    match &nodes[at] {
        Node::Read(r) => {
            let access = r.affine.as_ref().filter(|a| a.checks.is_empty())?;
            Some((r.tensor, access.clone()))
        }
        Node::Wrap(a, DType::I32) => unchecked(nodes, *a),
        _ => None,
    }
}

/// The axis to run lanes along: long, and with reads that are contiguous or the same in all lanes.
fn best_lane(
    body: &Scalar,
    nodes: &[Node],
    extents: &[i64],
    spatial: usize,
    reduces: bool,
    vars: &[Symbol],
) -> usize {
    let candidates = if reduces { 0..extents.len() } else { 0..spatial };
    let mut predicates = Vec::new();
    body.visit(&mut |s| {
        if let Scalar::Index(e, _) = s {
            predicates.push(e.clone());
        }
    });
    // Estimated nanoseconds for one element.
    let cost = |axis: usize| {
        let block = extents[axis].clamp(1, LANES as i64) as f64;
        let mut cost = 40.0 * nodes.len() as f64 / block;
        for node in nodes {
            if let Node::Read(read) = node {
                cost += match &read.affine {
                    Some(a) if a.offset.coefficient(axis) == 0 => 0.0,
                    Some(a) if a.offset.coefficient(axis) == 1 => 0.3,
                    Some(_) => 2.0,
                    None => 5.0,
                };
            }
        }
        cost += predicates.iter().filter(|e| e.mentions(&vars[axis])).count() as f64;
        if axis >= spatial { cost + 1.5 } else { cost }
    };
    candidates.min_by(|a, b| cost(*a).total_cmp(&cost(*b))).unwrap_or(0)
}
