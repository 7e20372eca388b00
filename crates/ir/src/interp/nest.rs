//! Runs loop nests one element at a time, and checks what a compiled kernel cannot: bounds, that every element read
//! was written, and that iterations of parallel loops do not touch each other's elements.

use talweg_expr::subst::fold_int;
use talweg_expr::{BinaryOp, Expr, Symbol};

use super::program::{Compiler, Node, Operand, Read};
use super::te::{check_argument, constant_extents};
use super::track::{Iterations, Marks, Violation, variable};
use super::value::{binary_float, binary_int, compare_values, round, to_int, unary_float, unary_int, wrap};
use super::{InterpError, Race};
use crate::data::Array;
use crate::dtype::DType;
use crate::nest::{LoopKind, Nest, Role, Stmt};
use crate::pack::run_pack;
use crate::scalar::{Reducer, TensorId};

/// How to run a nest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunOptions {
    /// Whether to report reads of elements never written and races between parallel iterations. Bounds are always
    /// checked.
    pub check: bool,
}

impl Default for RunOptions {
    fn default() -> RunOptions {
        RunOptions { check: true }
    }
}

/// Runs a concrete nest with all checks. `args` holds an array for every input, constant and output; outputs are
/// overwritten, and what they hold at the start counts as undefined.
///
/// Packed buffers are filled from their constants; an array passed for one receives the packed values. When the
/// constant is not passed, the packed array must be, and is used as it is.
pub fn run_nest(nest: &Nest, args: &mut [(TensorId, Array)]) -> Result<(), InterpError> {
    run_nest_with(nest, args, &RunOptions::default())
}

/// Like [`run_nest`], with options.
pub fn run_nest_with(
    nest: &Nest,
    args: &mut [(TensorId, Array)],
    options: &RunOptions,
) -> Result<(), InterpError> {
    let operands: Vec<Operand> = nest
        .buffers
        .iter()
        .map(|b| Operand { name: b.name.clone(), dtype: b.dtype, rank: b.shape.len(), shape: None })
        .collect();
    let mut builder = Builder { nest, operands: &operands, vars: Vec::new(), names: Vec::new() };
    let body = builder.block(&nest.body)?;
    let names = builder.names;
    let mut memories = prepare(nest, args, options)?;
    let mut runner =
        Runner { memories: &mut memories, slots: Vec::new(), iterations: Iterations::new(), names: &names };
    let result = runner.block(&body);
    for (id, array) in args {
        if let Some(memory) = memories.get_mut(id.index()) {
            std::mem::swap(array, &mut memory.array);
        }
    }
    result.map_err(|e| *e)
}

/// Moves the arguments in, runs the packs and allocates workspaces. Leaves `args` as they are on error.
fn prepare(
    nest: &Nest,
    args: &mut [(TensorId, Array)],
    options: &RunOptions,
) -> Result<Vec<Memory>, InterpError> {
    for (at, (id, _)) in args.iter().enumerate() {
        let known = nest.buffers.get(id.index()).is_some_and(|b| b.role.is_argument());
        if !known || args[..at].iter().any(|(other, _)| other == id) {
            let what = format!("buffer {} is passed twice or is not an argument", id.0);
            return Err(InterpError::BadAccess { place: format!("arguments of `{}`", nest.name), what });
        }
    }
    let mut memories = Vec::new();
    for (id, buffer) in nest.ids().zip(&nest.buffers) {
        let given = args.iter().find(|(i, _)| *i == id).map(|(_, a)| a);
        let local = buffer.role == Role::Local;
        let shape = if local { Vec::new() } else { constant_extents(&buffer.name, &buffer.shape)? };
        let extents: Vec<usize> = shape.iter().map(|e| *e as usize).collect();
        let storage = |source| InterpError::Storage { name: buffer.name.clone(), source };
        let pack = nest.packs.iter().find(|p| p.packed == id);
        let source = pack.and_then(|p| args.iter().find(|(i, _)| *i == p.source).map(|(_, a)| (p, a)));
        let read_by_body = buffer.role != Role::Const || body_reads(&nest.body, id);
        let array = match (given, source) {
            _ if matches!(buffer.role, Role::Temp | Role::Local) => {
                Array::try_zeros(buffer.dtype, if local { &[0] } else { &extents }).map_err(storage)?
            }
            (_, Some((pack, source))) => run_pack(nest, pack, source)?,
            (Some(array), None) => {
                check_argument(&buffer.name, buffer.dtype, &extents, array)?;
                Array::zeros(buffer.dtype, &[0])
            }
            (None, None) if !read_by_body => Array::zeros(buffer.dtype, &[0]),
            (None, None) => return Err(InterpError::Missing { name: buffer.name.clone() }),
        };
        let written = matches!(buffer.role, Role::Output | Role::Temp | Role::Local);
        memories.push(Memory {
            name: buffer.name.clone(),
            dtype: buffer.dtype,
            shape,
            array,
            marks: (written && options.check).then(Marks::default),
            live: !local,
            writable: written,
        });
    }
    for (id, array) in args {
        let memory = &mut memories[id.index()];
        let packed = nest.packs.iter().any(|p| p.packed == *id);
        if !packed || memory.array.is_empty() {
            std::mem::swap(array, &mut memory.array);
        }
    }
    for (buffer, memory) in nest.buffers.iter().zip(&mut memories) {
        if matches!(buffer.role, Role::Output | Role::Temp) {
            memory.begin();
        }
    }
    Ok(memories)
}

fn body_reads(body: &[Stmt], id: TensorId) -> bool {
    body.iter().any(|s| match s {
        Stmt::For(l) => body_reads(&l.body, id),
        Stmt::Store { value, .. } => value.reads().iter().any(|(t, _)| *t == id),
        Stmt::If { then, otherwise, .. } => body_reads(then, id) || body_reads(otherwise, id),
        Stmt::Alloc(_) => false,
    })
}

/// A buffer while the nest runs.
struct Memory {
    name: String,
    dtype: DType,
    shape: Vec<i64>,
    array: Array,
    marks: Option<Marks>,
    live: bool,
    writable: bool,
}

impl Memory {
    /// Makes the contents undefined: not-a-number for floats, all bits set for integers.
    fn begin(&mut self) {
        let poison = if self.dtype == DType::Bool { 1 } else { 0xff };
        self.array.bytes_mut().fill(poison);
        let len = self.array.len();
        if let Some(marks) = &mut self.marks {
            marks.reset(len);
        }
    }
}

/// Nodes of one statement and where it stands.
struct Code {
    place: String,
    nodes: Vec<Node>,
    root: usize,
}

struct Block {
    ops: Vec<Op>,
    /// Local buffers that end with the block.
    locals: Vec<TensorId>,
}

enum Op {
    For { slot: usize, extent: Code, parallel: bool, var: u32, body: Block },
    Store { code: Code, buffer: TensorId, dims: Vec<usize>, float: bool, update: Option<Reducer> },
    If { condition: Code, then: Block, otherwise: Block },
    Alloc { buffer: TensorId, shape: Vec<Code> },
}

/// Compiles statements; the slot of a loop variable is the depth of its loop.
struct Builder<'a> {
    nest: &'a Nest,
    operands: &'a [Operand],
    vars: Vec<Symbol>,
    names: Vec<Symbol>,
}

impl Builder<'_> {
    fn compiler(&self, place: String) -> Compiler<'_> {
        Compiler { place, vars: &self.vars, extents: None, operands: self.operands, nodes: Vec::new() }
    }

    fn index(&self, place: String, e: &Expr) -> Result<Code, InterpError> {
        let mut compiler = self.compiler(place);
        let root = compiler.index(e)?;
        Ok(Code { place: compiler.place, nodes: compiler.nodes, root })
    }

    fn operand(&self, id: TensorId) -> Result<&Operand, InterpError> {
        self.operands.get(id.index()).ok_or_else(|| InterpError::BadAccess {
            place: format!("nest `{}`", self.nest.name),
            what: format!("there is no buffer {}", id.0),
        })
    }

    fn block(&mut self, stmts: &[Stmt]) -> Result<Block, InterpError> {
        let mut out = Block { ops: Vec::new(), locals: Vec::new() };
        for stmt in stmts {
            if let Stmt::Alloc(b) = stmt {
                out.locals.push(*b);
            }
            let op = self.stmt(stmt)?;
            out.ops.push(op);
        }
        Ok(out)
    }

    fn stmt(&mut self, stmt: &Stmt) -> Result<Op, InterpError> {
        match stmt {
            Stmt::For(l) => {
                let extent = self.index(format!("extent of loop `{}`", l.var), &l.extent)?;
                let slot = self.vars.len();
                self.vars.push(l.var.clone());
                self.names.push(l.var.clone());
                let var = self.names.len() as u32 - 1;
                let body = self.block(&l.body);
                self.vars.pop();
                Ok(Op::For { slot, extent, parallel: l.kind == LoopKind::Parallel, var, body: body? })
            }
            Stmt::Store { buffer, indices, value, update } => {
                let operand = self.operand(*buffer)?;
                let place = format!("store to `{}`", operand.name);
                let mut compiler = self.compiler(place.clone());
                let dims = compiler.indices(operand, indices)?;
                let (root, dtype) = compiler.scalar(value)?;
                if dtype != operand.dtype {
                    let what =
                        format!("the value is of type {dtype} but the buffer of type {}", operand.dtype);
                    return Err(InterpError::IllTyped { place, what });
                }
                let code = Code { place, nodes: compiler.nodes, root };
                Ok(Op::Store { code, buffer: *buffer, dims, float: dtype.is_float(), update: *update })
            }
            Stmt::If { condition, then, otherwise } => {
                let condition = self.index(format!("condition `{condition}`"), condition)?;
                let then = self.block(then)?;
                Ok(Op::If { condition, then, otherwise: self.block(otherwise)? })
            }
            Stmt::Alloc(b) => {
                let name = self.operand(*b)?.name.clone();
                let buffer = self.nest.buffer(*b);
                if buffer.role != Role::Local {
                    let what = format!("`{name}` is not a local buffer");
                    return Err(InterpError::BadAccess { place: format!("alloc of `{name}`"), what });
                }
                let shape = buffer.shape.iter().map(|e| self.index(format!("shape of `{name}`"), e));
                Ok(Op::Alloc { buffer: *b, shape: shape.collect::<Result<_, _>>()? })
            }
        }
    }
}

/// Errors are boxed while running, so that results stay small.
type Outcome<T> = Result<T, Box<InterpError>>;

struct Runner<'a> {
    memories: &'a mut [Memory],
    slots: Vec<i64>,
    iterations: Iterations,
    names: &'a [Symbol],
}

impl Runner<'_> {
    fn block(&mut self, block: &Block) -> Outcome<()> {
        for op in &block.ops {
            self.op(op)?;
        }
        for local in &block.locals {
            self.memories[local.index()].live = false;
        }
        Ok(())
    }

    fn op(&mut self, op: &Op) -> Outcome<()> {
        match op {
            Op::For { slot, extent, parallel, var, body } => {
                let n = self.int(extent, extent.root)?;
                let execution = if *parallel { self.iterations.begin_loop() } else { 0 };
                self.slots.resize((slot + 1).max(self.slots.len()), 0);
                for i in 0..n {
                    self.slots[*slot] = i;
                    if *parallel {
                        let outer = self.iterations.enter(execution, *var, i);
                        self.block(body)?;
                        self.iterations.leave(outer);
                    } else {
                        self.block(body)?;
                    }
                }
                Ok(())
            }
            Op::Store { code, buffer, dims, float, update } => {
                let at = self.position(code, *buffer, dims)?;
                if *float {
                    let value = self.float(code, code.root)?;
                    let value = match update {
                        None => value,
                        Some(r) => {
                            self.note(code, *buffer, at, false)?;
                            binary_float(r.op(), self.memories[buffer.index()].array.get_f64(at), value)
                        }
                    };
                    self.note(code, *buffer, at, true)?;
                    self.memories[buffer.index()].array.set_f64(at, value);
                } else {
                    let value = self.int(code, code.root)?;
                    let value = match update {
                        None => value,
                        Some(r) => {
                            self.note(code, *buffer, at, false)?;
                            binary_int(r.op(), self.memories[buffer.index()].array.get_i64(at), value)
                        }
                    };
                    self.note(code, *buffer, at, true)?;
                    self.memories[buffer.index()].array.set_i64(at, value);
                }
                Ok(())
            }
            Op::If { condition, then, otherwise } => {
                let holds = self.int(condition, condition.root)? != 0;
                self.block(if holds { then } else { otherwise })
            }
            Op::Alloc { buffer, shape } => {
                let mut extents = Vec::with_capacity(shape.len());
                for code in shape {
                    extents.push(self.int(code, code.root)?.max(0));
                }
                let memory = &mut self.memories[buffer.index()];
                if memory.shape != extents || memory.array.shape().len() != extents.len() {
                    let sizes: Vec<usize> = extents.iter().map(|e| *e as usize).collect();
                    memory.array = Array::try_zeros(memory.dtype, &sizes)
                        .map_err(|source| InterpError::Storage { name: memory.name.clone(), source })?;
                    memory.shape = extents;
                }
                memory.live = true;
                memory.begin();
                Ok(())
            }
        }
    }

    /// Notes an access to an element and checks it.
    fn note(&mut self, code: &Code, buffer: TensorId, at: usize, write: bool) -> Outcome<()> {
        let memory = &mut self.memories[buffer.index()];
        if write && !memory.writable {
            let (place, buffer) = (code.place.clone(), memory.name.clone());
            return Err(Box::new(InterpError::ReadOnly { place, buffer }));
        }
        let Some(marks) = &mut memory.marks else { return Ok(()) };
        let result = if write { marks.write(at, &self.iterations) } else { marks.read(at, &self.iterations) };
        result.map_err(|violation| {
            let index = memory.array.indices(at).iter().map(|i| *i as i64).collect();
            let (place, buffer) = (code.place.clone(), memory.name.clone());
            Box::new(match violation {
                Violation::Uninitialised => InterpError::Uninitialised { place, buffer, index },
                Violation::Race { first, second, conflict } => InterpError::Race(Box::new(Race {
                    place,
                    buffer,
                    index,
                    var: variable(self.names, conflict.var),
                    first,
                    first_iteration: conflict.first,
                    second,
                    second_iteration: conflict.second,
                })),
            })
        })
    }

    /// The flat position of an access.
    fn position(&mut self, code: &Code, buffer: TensorId, dims: &[usize]) -> Outcome<usize> {
        if !self.memories[buffer.index()].live {
            let (place, buffer) = (code.place.clone(), self.memories[buffer.index()].name.clone());
            return Err(Box::new(InterpError::NotAllocated { place, buffer }));
        }
        let mut flat = 0;
        let mut inside = true;
        for (d, dim) in dims.iter().enumerate() {
            let i = self.int(code, *dim)?;
            let extent = self.memories[buffer.index()].shape[d];
            inside &= (0..extent).contains(&i);
            flat = flat * extent + i.clamp(0, extent.max(1) - 1);
        }
        if inside {
            return Ok(flat as usize);
        }
        let index = dims.iter().map(|d| self.int(code, *d)).collect::<Outcome<Vec<i64>>>()?;
        let memory = &self.memories[buffer.index()];
        Err(Box::new(InterpError::OutOfBounds {
            place: code.place.clone(),
            tensor: memory.name.clone(),
            index,
            shape: memory.shape.clone(),
        }))
    }

    fn element(&mut self, code: &Code, read: &Read) -> Outcome<usize> {
        let at = self.position(code, read.tensor, &read.dims)?;
        self.note(code, read.tensor, at, false)?;
        Ok(at)
    }

    /// Both sides of a select that does not guard are evaluated, so that their faults show.
    fn chosen(&mut self, code: &Code, node: &Node) -> Outcome<usize> {
        let Node::Select { condition, then, otherwise, guards } = node else { return Ok(0) };
        let holds = self.int(code, *condition)? != 0;
        let (taken, other) = if holds { (*then, *otherwise) } else { (*otherwise, *then) };
        if !guards {
            self.touch(code, other)?;
        }
        Ok(taken)
    }

    /// Evaluates a node of either type for its faults.
    fn touch(&mut self, code: &Code, at: usize) -> Outcome<()> {
        if self.is_float(code, at) { self.float(code, at).map(drop) } else { self.int(code, at).map(drop) }
    }

    fn is_float(&self, code: &Code, at: usize) -> bool {
        match &code.nodes[at] {
            Node::Float(_)
            | Node::UnaryFloat(..)
            | Node::BinaryFloat(..)
            | Node::Round(..)
            | Node::ToFloat(..) => true,
            Node::Read(r) => self.memories[r.tensor.index()].dtype.is_float(),
            Node::Select { then, .. } => self.is_float(code, *then),
            _ => false,
        }
    }

    fn float(&mut self, code: &Code, at: usize) -> Outcome<f64> {
        Ok(match &code.nodes[at] {
            Node::Float(v) => *v,
            Node::Read(read) => {
                let at = self.element(code, read)?;
                self.memories[read.tensor.index()].array.get_f64(at)
            }
            Node::UnaryFloat(op, a) => unary_float(*op, self.float(code, *a)?),
            Node::BinaryFloat(op, a, b) => {
                let a = self.float(code, *a)?;
                binary_float(*op, a, self.float(code, *b)?)
            }
            node @ Node::Select { .. } => {
                let taken = self.chosen(code, node)?;
                self.float(code, taken)?
            }
            Node::Round(a, d) => round(self.float(code, *a)?, *d),
            Node::ToFloat(a, d) => round(self.int(code, *a)? as f64, *d),
            _ => self.int(code, at)? as f64,
        })
    }

    fn int(&mut self, code: &Code, at: usize) -> Outcome<i64> {
        let undefined =
            |e: &Expr| Box::new(InterpError::Undefined { place: code.place.clone(), expr: e.to_string() });
        Ok(match &code.nodes[at] {
            Node::Int(v) => *v,
            Node::Linear(linear) => linear.at(&self.slots),
            Node::LinearCompare(op, linear) => {
                let v = linear.at(&self.slots);
                i64::from(match op {
                    BinaryOp::Lt => v < 0,
                    BinaryOp::Le => v <= 0,
                    BinaryOp::Eq => v == 0,
                    _ => v != 0,
                })
            }
            Node::Index(op, a, b, e) => {
                let a = self.int(code, *a)?;
                match op {
                    BinaryOp::And if a == 0 => return Ok(0),
                    BinaryOp::Or if a != 0 => return Ok(1),
                    _ => {}
                }
                let b = self.int(code, *b)?;
                fold_int(*op, a, b).ok_or_else(|| undefined(e))?
            }
            Node::IndexNot(a) => i64::from(self.int(code, *a)? == 0),
            Node::IndexAbs(a, e) => self.int(code, *a)?.checked_abs().ok_or_else(|| undefined(e))?,
            Node::Read(read) => {
                let at = self.element(code, read)?;
                self.memories[read.tensor.index()].array.get_i64(at)
            }
            Node::UnaryInt(op, a, d) => wrap(unary_int(*op, self.int(code, *a)?), *d),
            Node::BinaryInt(op, a, b, d) => {
                let a = self.int(code, *a)?;
                wrap(binary_int(*op, a, self.int(code, *b)?), *d)
            }
            Node::CompareFloat(op, a, b) => {
                let a = self.float(code, *a)?;
                i64::from(compare_values(*op, a, self.float(code, *b)?))
            }
            node @ Node::Select { .. } => {
                let taken = self.chosen(code, node)?;
                self.int(code, taken)?
            }
            Node::ToInt(a, d) => to_int(self.float(code, *a)?, *d),
            Node::Wrap(a, d) => wrap(self.int(code, *a)?, *d),
            Node::Float(_)
            | Node::UnaryFloat(..)
            | Node::BinaryFloat(..)
            | Node::Round(..)
            | Node::ToFloat(..) => self.float(code, at)? as i64,
        })
    }
}
