//! The nest as the emitter walks it: addresses flattened, loop kinds decided, and for every loop which buffers it
//! touches.

use talweg_expr::Expr;
use talweg_ir::{ArithOp, DType, LoopKind, MathOp, Nest, Reducer, Role, Scalar, Stmt, TensorId};

use crate::error::CodegenError;
use crate::isa::Isa;
use crate::layout::Layout;
use crate::linear::Linear;
use crate::prefetch::{Prefetch, add_prefetches};

/// A nest ready to be emitted.
pub struct Plan {
    pub name: String,
    pub symbol: String,
    pub buffers: Vec<BufferPlan>,
    pub layout: Layout,
    pub body: Vec<Step>,
}

/// What the emitter needs to know of a buffer.
pub struct BufferPlan {
    pub dtype: DType,
    pub role: Role,
    pub elements: i64,
    pub strides: Vec<i64>,
    /// A `Local` allocated outside a parallel loop that uses it: it lives in the shared workspace.
    pub crosses_threads: bool,
}

/// How a loop is emitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Serial,
    Parallel,
    Vector,
    Unroll,
}

pub enum Step {
    For(For),
    Store(Store),
    If(If),
    Alloc(TensorId),
    Prefetch(Prefetch),
}

pub struct For {
    pub var: Expr,
    pub extent: Expr,
    pub kind: Kind,
    pub body: Vec<Step>,
    pub effects: Effects,
    /// Lanes of a full register for the widest element of the body.
    pub lanes: u32,
    /// Whether partial vectors of every element type of the body can be masked.
    pub masked: bool,
    /// How many iterations of a run-time loop are done at once; divides the extent.
    pub repeat: i64,
    /// Whether each iteration adds to elements that the others add to as well.
    pub reduces: bool,
}

pub struct Store {
    pub buffer: TensorId,
    pub address: Linear,
    pub value: Value,
    pub update: Option<Reducer>,
}

pub struct If {
    pub condition: Expr,
    pub then: Vec<Step>,
    pub otherwise: Vec<Step>,
    pub effects: Effects,
}

/// A [`Scalar`] with flattened addresses and known types.
pub enum Value {
    Float(f64, DType),
    Int(i64, DType),
    Index(Expr, DType),
    Read { buffer: TensorId, address: Linear, dtype: DType },
    Unary(MathOp, Box<Value>),
    Binary(ArithOp, Box<Value>, Box<Value>),
    Select(Box<Value>, Box<Value>, Box<Value>),
    Cast(DType, Box<Value>),
}

impl Value {
    /// The type of the value.
    pub fn dtype(&self) -> DType {
        match self {
            Value::Float(_, d)
            | Value::Int(_, d)
            | Value::Index(_, d)
            | Value::Cast(d, _)
            | Value::Read { dtype: d, .. } => *d,
            Value::Unary(_, a) => a.dtype(),
            Value::Binary(op, ..) if op.is_predicate() => DType::Bool,
            Value::Binary(_, a, _) | Value::Select(_, a, _) => a.dtype(),
        }
    }

    /// Calls `f` on every read.
    pub fn visit_reads(&self, f: &mut dyn FnMut(TensorId, &Linear)) {
        match self {
            Value::Read { buffer, address, .. } => f(*buffer, address),
            Value::Unary(_, a) | Value::Cast(_, a) => a.visit_reads(f),
            Value::Binary(_, a, b) => {
                a.visit_reads(f);
                b.visit_reads(f);
            }
            Value::Select(c, a, b) => {
                c.visit_reads(f);
                a.visit_reads(f);
                b.visit_reads(f);
            }
            _ => {}
        }
    }

    fn visit_types(&self, f: &mut dyn FnMut(DType)) {
        f(self.dtype());
        match self {
            Value::Unary(_, a) | Value::Cast(_, a) => a.visit_types(f),
            Value::Binary(_, a, b) => {
                a.visit_types(f);
                b.visit_types(f);
            }
            Value::Select(c, a, b) => {
                c.visit_types(f);
                a.visit_types(f);
                b.visit_types(f);
            }
            _ => {}
        }
    }
}

/// A set of buffers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BufferSet(Vec<u64>);

impl BufferSet {
    pub fn insert(&mut self, id: TensorId) {
        let (word, bit) = (id.index() / 64, id.index() % 64);
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        self.0[word] |= 1 << bit;
    }

    pub fn contains(&self, id: TensorId) -> bool {
        self.0.get(id.index() / 64).is_some_and(|w| w >> (id.index() % 64) & 1 == 1)
    }

    pub fn union(&mut self, other: &BufferSet) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        for (a, b) in self.0.iter_mut().zip(&other.0) {
            *a |= b;
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = TensorId> + '_ {
        (0..self.0.len() * 64).map(|i| TensorId(i as u32)).filter(|id| self.contains(*id))
    }
}

/// What a statement, or all of a loop, does.
#[derive(Clone, Debug, Default)]
pub struct Effects {
    pub reads: BufferSet,
    pub writes: BufferSet,
    pub allocs: BufferSet,
    /// Buffers into whose elements some vector loop combines its lanes.
    pub horizontal: BufferSet,
    /// Holds loops or branches that exist at run time.
    pub control: bool,
}

impl Effects {
    pub fn touches(&self, id: TensorId) -> bool {
        self.reads.contains(id) || self.writes.contains(id)
    }

    fn union(&mut self, other: &Effects) {
        self.reads.union(&other.reads);
        self.writes.union(&other.writes);
        self.allocs.union(&other.allocs);
        self.horizontal.union(&other.horizontal);
        self.control |= other.control;
    }
}

impl Step {
    /// Adds what the step does.
    pub fn add_effects(&self, out: &mut Effects) {
        match self {
            Step::For(l) => {
                out.union(&l.effects);
                out.control |= matches!(l.kind, Kind::Serial | Kind::Parallel);
            }
            Step::If(i) => {
                out.union(&i.effects);
                out.control = true;
            }
            Step::Store(s) => {
                out.writes.insert(s.buffer);
                if s.update.is_some() {
                    out.reads.insert(s.buffer);
                }
                s.value.visit_reads(&mut |b, _| out.reads.insert(b));
            }
            Step::Alloc(b) => out.allocs.insert(*b),
            Step::Prefetch(_) => {}
        }
    }

    /// Whether the step reads or writes the buffer.
    pub fn touches(&self, id: TensorId) -> bool {
        match self {
            Step::For(l) => l.effects.touches(id),
            Step::If(i) => i.effects.touches(id),
            Step::Store(_) => {
                let mut e = Effects::default();
                self.add_effects(&mut e);
                e.touches(id)
            }
            Step::Alloc(_) | Step::Prefetch(_) => false,
        }
    }
}

/// What all steps do together.
pub fn effects_of(steps: &[Step]) -> Effects {
    let mut out = Effects::default();
    steps.iter().for_each(|s| s.add_effects(&mut out));
    out
}

#[derive(Clone, Copy, Default)]
struct Around {
    parallel: bool,
    vector: bool,
}

struct Planner<'n> {
    nest: &'n Nest,
    isa: &'n Isa,
    buffers: Vec<BufferPlan>,
    allocated_outside: Vec<Option<bool>>,
}

impl Plan {
    /// Reads a nest.
    pub fn new(nest: &Nest, isa: &Isa) -> Result<Plan, CodegenError> {
        let mut buffers = Vec::new();
        for b in &nest.buffers {
            let mut strides = vec![1; b.shape.len()];
            let mut elements = 1i64;
            for (at, extent) in b.shape.iter().enumerate().rev() {
                strides[at] = elements;
                let extent = extent.as_int().ok_or_else(|| CodegenError::NotConcrete {
                    kernel: nest.name.clone(),
                    what: format!("extent `{extent}` of buffer `{}`", b.name),
                })?;
                elements = elements.checked_mul(extent.max(0)).filter(|e| *e < 1 << 48).ok_or_else(|| {
                    CodegenError::Unsupported {
                        kernel: nest.name.clone(),
                        what: format!("buffer `{}` is larger than any memory", b.name),
                    }
                })?;
            }
            buffers.push(BufferPlan {
                dtype: b.dtype,
                role: b.role,
                elements,
                strides,
                crosses_threads: false,
            });
        }
        let allocated_outside = vec![None; buffers.len()];
        let mut planner = Planner { nest, isa, buffers, allocated_outside };
        let mut body = planner.steps(&nest.body, Around::default())?;
        add_prefetches(&mut body, &planner.buffers);
        let layout = Layout::new(&planner.buffers);
        let symbol: String =
            nest.name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
        let symbol = match symbol.chars().next() {
            Some(c) if !c.is_ascii_digit() => symbol,
            _ => format!("k{symbol}"),
        };
        Ok(Plan { name: nest.name.clone(), symbol, buffers: planner.buffers, layout, body })
    }

    pub fn buffer(&self, id: TensorId) -> &BufferPlan {
        &self.buffers[id.index()]
    }

    pub fn internal(&self, what: impl Into<String>) -> CodegenError {
        CodegenError::Internal { kernel: self.name.clone(), what: what.into() }
    }
}

impl Planner<'_> {
    fn steps(&mut self, stmts: &[Stmt], around: Around) -> Result<Vec<Step>, CodegenError> {
        stmts.iter().map(|s| self.step(s, around)).collect()
    }

    fn step(&mut self, stmt: &Stmt, around: Around) -> Result<Step, CodegenError> {
        Ok(match stmt {
            Stmt::Alloc(b) => {
                self.allocated_outside[b.index()] = Some(!around.parallel);
                Step::Alloc(*b)
            }
            Stmt::If { condition, then, otherwise } => {
                let (then, otherwise) = (self.steps(then, around)?, self.steps(otherwise, around)?);
                let mut effects = effects_of(&then);
                effects.union(&effects_of(&otherwise));
                Step::If(If { condition: condition.clone(), then, otherwise, effects })
            }
            Stmt::Store { buffer, indices, value, update } => {
                self.touch(*buffer, around);
                let address = self.address(*buffer, indices);
                Step::Store(Store {
                    buffer: *buffer,
                    address,
                    value: self.value(value, around),
                    update: *update,
                })
            }
            Stmt::For(l) => {
                let mut kind = match l.kind {
                    LoopKind::Serial => Kind::Serial,
                    LoopKind::Parallel => Kind::Parallel,
                    LoopKind::Vectorize => Kind::Vector,
                    LoopKind::Unroll => Kind::Unroll,
                    LoopKind::Bind(axis) => {
                        return Err(CodegenError::Unsupported {
                            kernel: self.nest.name.clone(),
                            what: format!(
                                "loop `{}` is bound to {}, which CPU targets do not have",
                                l.var,
                                axis.name()
                            ),
                        });
                    }
                };
                if kind == Kind::Parallel && (around.parallel || around.vector) {
                    kind = Kind::Serial;
                }
                // Only the innermost of nested vector loops becomes lanes, and lanes do not share a local buffer.
                if kind == Kind::Vector && holds_vector_or_alloc(&l.body) {
                    kind =
                        if l.extent.as_int().is_some_and(|e| e <= 16) { Kind::Unroll } else { Kind::Serial };
                }
                let inner = Around {
                    parallel: around.parallel || kind == Kind::Parallel,
                    vector: around.vector || kind == Kind::Vector,
                };
                let body = self.steps(&l.body, inner)?;
                let mut effects = effects_of(&body);
                let mut shared = BufferSet::default();
                add_shared(&body, &Expr::sym(&l.var), &mut shared);
                let reduces = shared.iter().next().is_some();
                if kind == Kind::Vector {
                    effects.horizontal.union(&shared);
                }
                let (lanes, masked) =
                    if kind == Kind::Vector { self.vector_shape(&body) } else { (1, false) };
                let repeat = match l.extent.as_int() {
                    Some(n) if kind == Kind::Serial => repetition(n, &body, &effects),
                    _ => 1,
                };
                Step::For(For {
                    var: Expr::sym(&l.var),
                    extent: l.extent.clone(),
                    kind,
                    body,
                    effects,
                    lanes,
                    masked,
                    repeat,
                    reduces,
                })
            }
        })
    }

    fn touch(&mut self, id: TensorId, around: Around) {
        if around.parallel && self.allocated_outside[id.index()] == Some(true) {
            self.buffers[id.index()].crosses_threads = true;
        }
    }

    fn address(&self, id: TensorId, indices: &[Expr]) -> Linear {
        Linear::flatten(indices, &self.buffers[id.index()].strides)
    }

    fn value(&mut self, s: &Scalar, around: Around) -> Value {
        let dtype = s.dtype(&|t| self.nest.buffer(t).dtype);
        match s {
            Scalar::Float(v, d) => Value::Float(*v, *d),
            Scalar::Int(v, d) => Value::Int(*v, *d),
            Scalar::Index(e, _) => Value::Index(e.clone(), dtype),
            Scalar::Read(t, idx) => {
                self.touch(*t, around);
                Value::Read { buffer: *t, address: self.address(*t, idx), dtype }
            }
            Scalar::Unary(op, a) => Value::Unary(*op, Box::new(self.value(a, around))),
            Scalar::Binary(op, a, b) => {
                Value::Binary(*op, Box::new(self.value(a, around)), Box::new(self.value(b, around)))
            }
            Scalar::Select(c, a, b) => Value::Select(
                Box::new(self.value(c, around)),
                Box::new(self.value(a, around)),
                Box::new(self.value(b, around)),
            ),
            Scalar::Cast(d, a) => Value::Cast(*d, Box::new(self.value(a, around))),
        }
    }

    /// Lanes of a vector loop, from the widest element its body computes with.
    fn vector_shape(&self, body: &[Step]) -> (u32, bool) {
        let (mut widest, mut narrowest) = (1, 8);
        visit_types(body, &self.buffers, &mut |d| {
            let computed = if d.is_float() { 4 } else { d.bytes() };
            widest = widest.max(computed);
            narrowest = narrowest.min(d.bytes());
        });
        ((self.isa.vector_bytes / widest) as u32, narrowest >= self.isa.narrowest_masked)
    }
}

/// Accumulators that keep both multiply-add units busy for the time one addition takes, or nearly.
const BUSY: i64 = 4;

/// How many iterations of a short reduction over lanes to do at once, so that it has several accumulators to add to.
fn repetition(extent: i64, body: &[Step], effects: &Effects) -> i64 {
    if effects.control || effects.horizontal.iter().next().is_none() {
        return 1;
    }
    let vectors = vectors_of(body);
    if vectors == 0 || vectors >= BUSY {
        return 1;
    }
    (2..=2 * BUSY).find(|r| extent % r == 0 && r * vectors >= BUSY).unwrap_or(1)
}

/// How many vectors a straight-line body works on at most.
fn vectors_of(steps: &[Step]) -> i64 {
    let count = |s: &Step| match s {
        Step::For(l) if l.kind == Kind::Vector => {
            let extent = l.extent.as_int().unwrap_or(0);
            (extent + i64::from(l.lanes) - 1) / i64::from(l.lanes)
        }
        Step::For(l) => l.extent.as_int().unwrap_or(0).saturating_mul(vectors_of(&l.body)),
        _ => 0,
    };
    steps.iter().map(count).max().unwrap_or(0)
}

/// Buffers updated at places that do not mention a loop's variable.
fn add_shared(steps: &[Step], var: &Expr, out: &mut BufferSet) {
    for s in steps {
        match s {
            Step::For(l) => add_shared(&l.body, var, out),
            Step::If(i) => {
                add_shared(&i.then, var, out);
                add_shared(&i.otherwise, var, out);
            }
            Step::Store(s) => {
                let moves = |(t, _): &(Expr, i64)| var.as_sym().is_some_and(|v| t.mentions(v));
                if s.update.is_some() && !s.address.terms.iter().any(moves) {
                    out.insert(s.buffer);
                }
            }
            Step::Alloc(_) | Step::Prefetch(_) => {}
        }
    }
}

fn holds_vector_or_alloc(stmts: &[Stmt]) -> bool {
    stmts.iter().any(|s| match s {
        Stmt::For(l) => l.kind == LoopKind::Vectorize || holds_vector_or_alloc(&l.body),
        Stmt::If { then, otherwise, .. } => holds_vector_or_alloc(then) || holds_vector_or_alloc(otherwise),
        Stmt::Alloc(_) => true,
        Stmt::Store { .. } => false,
    })
}

fn visit_types(steps: &[Step], buffers: &[BufferPlan], f: &mut dyn FnMut(DType)) {
    for s in steps {
        match s {
            Step::For(l) => visit_types(&l.body, buffers, f),
            Step::If(i) => {
                visit_types(&i.then, buffers, f);
                visit_types(&i.otherwise, buffers, f);
            }
            Step::Store(s) => {
                f(buffers[s.buffer.index()].dtype);
                s.value.visit_types(f);
            }
            Step::Alloc(_) | Step::Prefetch(_) => {}
        }
    }
}
