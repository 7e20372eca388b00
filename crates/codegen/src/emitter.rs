//! The state of emission: one module, the function being written, and what is known at the current statement.

use std::collections::HashMap;

use inkwell::values::{FunctionValue, InstructionValue, IntValue, PointerValue};
use talweg_expr::Expr;
use talweg_ir::TensorId;

use crate::cache::Cache;
use crate::env::Env;
use crate::error::CodegenError;
use crate::guard::Guards;
use crate::isa::Isa;
use crate::ops::{Ops, T, V};
use crate::plan::{BufferSet, Plan, Step};
use crate::promote::Promotion;

/// LLVM's time grows with the square of a block's length, so one block may only have this part of the instructions.
const BLOCK_SHARE: usize = 4;

/// Result of an emission step.
pub type Emit<R> = Result<R, CodegenError>;

/// Writes one nest into one LLVM module.
pub struct Emitter<'c, 'p> {
    pub o: Ops<'c>,
    pub plan: &'p Plan,
    pub isa: &'p Isa,
    pub env: Env,
    pub frame: Frame<'c, 'p>,
    pub sums: Sums,
    pub limit: usize,
    /// How many parallel loops were outlined.
    pub outlined: usize,
}

/// The lanes of the vector loop around the current statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vector {
    /// Lanes of the values.
    pub lanes: u32,
    /// How many of them are iterations; the others compute nothing of meaning.
    pub active: u32,
}

/// The function being written.
pub struct Frame<'c, 'p> {
    pub function: FunctionValue<'c>,
    /// Pointer parameters by buffer.
    pub bases: Vec<Option<PointerValue<'c>>>,
    /// The workspace and the table of parallel functions, in functions that may start parallel loops.
    pub workspace: Option<PointerValue<'c>>,
    pub parallel: Option<PointerValue<'c>>,
    /// Loops that exist at run time, outermost first; the first is the function itself.
    pub scopes: Vec<Scope<'c, 'p>>,
    /// Which scope defines a run-time variable, and its value.
    pub variables: HashMap<Expr, (usize, IntValue<'c>)>,
    pub vector: Option<Vector>,
    pub guards: Guards<'c>,
    pub cache: Cache<'c>,
    /// Values that live in registers, of the promotions in force.
    pub slots: Vec<Slot<'c>>,
    pub promoted: HashMap<TensorId, Vec<Promotion>>,
    /// A block of zeros to read from when a guarded read must not happen.
    pub zeros: Option<PointerValue<'c>>,
}

/// A run-time loop, or the function.
pub struct Scope<'c, 'p> {
    /// Code that depends on this scope's variable but on no inner one goes before this.
    pub marker: InstructionValue<'c>,
    /// The end of the block that runs once before the loop, when it runs at all.
    pub preheader: Option<InstructionValue<'c>>,
    /// What the loop writes; `None` for the function, out of which nothing moves.
    pub writes: Option<&'p BufferSet>,
    pub values: HashMap<Expr, V<'c>>,
    pub sums: HashMap<u32, V<'c>>,
    pub pointers: HashMap<(TensorId, u32), PointerValue<'c>>,
    /// How many more invariant loads may be kept in registers across this loop.
    pub budget: usize,
}

/// A value that lives in a register; phis carry it through loops and branches.
pub struct Slot<'c> {
    pub buffer: TensorId,
    pub ty: T<'c>,
    /// `None` until the first update of an accumulator in straight-line code.
    pub value: Option<V<'c>>,
}

/// Numbers for sums of terms, so that addresses can be compared and hashed cheaply. The empty sum is 0.
pub struct Sums {
    ids: HashMap<Vec<(Expr, i64)>, u32>,
    terms: Vec<Vec<(Expr, i64)>>,
}

impl Sums {
    pub fn new() -> Sums {
        let mut sums = Sums { ids: HashMap::new(), terms: Vec::new() };
        sums.id(&[]);
        sums
    }

    pub fn id(&mut self, terms: &[(Expr, i64)]) -> u32 {
        if let Some(id) = self.ids.get(terms) {
            return *id;
        }
        let id = self.terms.len() as u32;
        self.terms.push(terms.to_vec());
        self.ids.insert(terms.to_vec(), id);
        id
    }

    pub fn terms(&self, id: u32) -> &[(Expr, i64)] {
        &self.terms[id as usize]
    }
}

impl<'c, 'p> Scope<'c, 'p> {
    pub fn new(
        marker: InstructionValue<'c>,
        preheader: Option<InstructionValue<'c>>,
        writes: Option<&'p BufferSet>,
        budget: usize,
    ) -> Scope<'c, 'p> {
        Scope {
            marker,
            preheader,
            writes,
            values: HashMap::new(),
            sums: HashMap::new(),
            pointers: HashMap::new(),
            budget,
        }
    }
}

impl<'c, 'p> Frame<'c, 'p> {
    pub fn new(function: FunctionValue<'c>, buffers: usize) -> Frame<'c, 'p> {
        Frame {
            function,
            bases: vec![None; buffers],
            workspace: None,
            parallel: None,
            scopes: Vec::new(),
            variables: HashMap::new(),
            vector: None,
            guards: Guards::default(),
            cache: Cache::default(),
            slots: Vec::new(),
            promoted: HashMap::new(),
            zeros: None,
        }
    }
}

impl<'c, 'p> Emitter<'c, 'p> {
    /// Emits statements of one block; locals allocated in it end with it.
    pub fn block(&mut self, steps: &'p [Step]) -> Emit<()> {
        let mut promoted = Vec::new();
        let slots = self.frame.slots.len();
        for (at, step) in steps.iter().enumerate() {
            match step {
                Step::For(l) => self.for_loop(l)?,
                Step::If(i) => self.branch(i)?,
                Step::Store(s) => self.store(s)?,
                Step::Prefetch(p) => self.prefetch(p)?,
                Step::Alloc(b) => {
                    self.frame.cache.forget(*b);
                    if self.promote_local(*b, &steps[at + 1..])? {
                        promoted.push(*b);
                    }
                }
            }
            if self.o.count() > self.limit || self.o.count_in_block() > self.limit / BLOCK_SHARE {
                return Err(CodegenError::TooLarge { kernel: self.plan.name.clone(), limit: self.limit });
            }
        }
        for b in promoted {
            self.unpromote(b);
        }
        self.frame.slots.truncate(slots);
        Ok(())
    }

    pub fn internal(&self, what: impl Into<String>) -> CodegenError {
        self.plan.internal(what)
    }
}
