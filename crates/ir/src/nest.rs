//! Loop nests: how to compute it. The whole IR on one screen.
//!
//! A nest is a list of buffers and a list of statements. Extents and indices are expressions over loop variables and
//! knobs, so one nest stands for every candidate of a sketch; substituting the knobs gives the concrete program that
//! is compiled. What a legal nest is, says [`crate::verify`].

use talweg_expr::{Expr, Symbol};

use crate::dtype::DType;
use crate::scalar::{Reducer, Scalar, TensorId};

/// A loop nest with its buffers.
#[derive(Clone, Debug, PartialEq)]
pub struct Nest {
    /// What it computes; also the name of the compiled function.
    pub name: String,
    /// All buffers; a [`TensorId`] in statements is a position here.
    pub buffers: Vec<Buffer>,
    /// Constants laid out anew at build time, before the body ever runs.
    pub packs: Vec<Pack>,
    /// What runs.
    pub body: Vec<Stmt>,
}

/// A row-major array.
#[derive(Clone, Debug, PartialEq)]
pub struct Buffer {
    /// Unique in its nest.
    pub name: String,
    /// Element type.
    pub dtype: DType,
    /// Extents.
    pub shape: Vec<Expr>,
    /// Who provides the memory.
    pub role: Role,
}

/// Who provides a buffer's memory, and what for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Argument, read only.
    Input,
    /// Argument known at build time, read only. Not read by the body when only a pack reads it.
    Const,
    /// Argument filled by a [`Pack`] at build time, read only.
    Packed,
    /// Argument, written.
    Output,
    /// Workspace of the whole call, shared by all threads.
    Temp,
    /// Scratch of one thread, live from its [`Stmt::Alloc`] to the end of that block.
    Local,
}

impl Role {
    /// Whether the caller passes a pointer for it.
    pub fn is_argument(self) -> bool {
        matches!(self, Role::Input | Role::Const | Role::Packed | Role::Output)
    }
}

/// `packed[axes] = source[indices]` for all axes, zero where an index lies outside the source.
#[derive(Clone, Debug, PartialEq)]
pub struct Pack {
    /// The buffer filled (role `Packed`).
    pub packed: TensorId,
    /// The constant read (role `Const`).
    pub source: TensorId,
    /// One variable for each dimension of `packed`.
    pub axes: Vec<Symbol>,
    /// One index for each dimension of `source`, affine in the axes.
    pub indices: Vec<Expr>,
}

/// One statement.
#[derive(Clone, Debug, PartialEq)]
pub enum Stmt {
    /// `for var in 0..extent { body }`; nothing runs when the extent is zero or negative.
    For(Loop),
    /// `buffer[indices] = value`, or `buffer[indices] = update(buffer[indices], value)`.
    Store {
        /// Where to.
        buffer: TensorId,
        /// One index for each dimension.
        indices: Vec<Expr>,
        /// What.
        value: Scalar,
        /// How it combines with what is there; plain assignment when `None`.
        update: Option<Reducer>,
    },
    /// Runs `then` when the condition holds, `otherwise` when not.
    If {
        /// A truth expression.
        condition: Expr,
        /// Taken when it holds.
        then: Vec<Stmt>,
        /// Taken when it does not.
        otherwise: Vec<Stmt>,
    },
    /// A `Local` buffer begins to live, with undefined contents, until the end of the enclosing block.
    Alloc(TensorId),
}

/// A loop from zero.
#[derive(Clone, Debug, PartialEq)]
pub struct Loop {
    /// The variable, unique in the nest.
    pub var: Symbol,
    /// How often it runs; may depend on outer variables (tails) and knobs.
    pub extent: Expr,
    /// How it runs.
    pub kind: LoopKind,
    /// What runs.
    pub body: Vec<Stmt>,
}

/// How a loop runs. All kinds compute what the serial loop computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LoopKind {
    /// One iteration after the other.
    Serial,
    /// Iterations spread over threads.
    Parallel,
    /// Iterations are vector lanes. Constant extent; over a reduction, lanes are combined.
    Vectorize,
    /// The body is repeated. Constant extent.
    Unroll,
    /// Bound to a GPU thread axis.
    Bind(ThreadAxis),
}

/// Thread axes of GPU targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum ThreadAxis {
    BlockX,
    BlockY,
    BlockZ,
    ThreadX,
    ThreadY,
    ThreadZ,
    /// Virtual threads: strided repetition within one thread.
    VThread,
}

impl ThreadAxis {
    /// All axes.
    pub const ALL: [ThreadAxis; 7] = [
        ThreadAxis::BlockX,
        ThreadAxis::BlockY,
        ThreadAxis::BlockZ,
        ThreadAxis::ThreadX,
        ThreadAxis::ThreadY,
        ThreadAxis::ThreadZ,
        ThreadAxis::VThread,
    ];

    /// The name used in text.
    pub fn name(self) -> &'static str {
        match self {
            ThreadAxis::BlockX => "block.x",
            ThreadAxis::BlockY => "block.y",
            ThreadAxis::BlockZ => "block.z",
            ThreadAxis::ThreadX => "thread.x",
            ThreadAxis::ThreadY => "thread.y",
            ThreadAxis::ThreadZ => "thread.z",
            ThreadAxis::VThread => "vthread",
        }
    }
}

impl Nest {
    /// The buffer behind an id.
    pub fn buffer(&self, id: TensorId) -> &Buffer {
        &self.buffers[id.index()]
    }

    /// All ids.
    pub fn ids(&self) -> impl Iterator<Item = TensorId> + use<> {
        (0..self.buffers.len() as u32).map(TensorId)
    }

    /// The buffers the caller passes pointers for, in the order of the compiled function's argument table.
    pub fn arguments(&self) -> Vec<TensorId> {
        self.ids().filter(|b| self.buffer(*b).role.is_argument()).collect()
    }

    /// Rewrites every expression of the nest.
    pub fn map_exprs(&self, f: &mut dyn FnMut(&Expr) -> Expr) -> Nest {
        let mut out = self.clone();
        for b in &mut out.buffers {
            b.shape = b.shape.iter().map(&mut *f).collect();
        }
        for p in &mut out.packs {
            p.indices = p.indices.iter().map(&mut *f).collect();
        }
        out.body = out.body.iter().map(|s| s.map_exprs(f)).collect();
        out
    }
}

impl Stmt {
    /// Rewrites every expression of the statement.
    pub fn map_exprs(&self, f: &mut dyn FnMut(&Expr) -> Expr) -> Stmt {
        match self {
            Stmt::For(l) => Stmt::For(Loop {
                var: l.var.clone(),
                extent: f(&l.extent),
                kind: l.kind,
                body: l.body.iter().map(|s| s.map_exprs(f)).collect(),
            }),
            Stmt::Store { buffer, indices, value, update } => Stmt::Store {
                buffer: *buffer,
                indices: indices.iter().map(&mut *f).collect(),
                value: value.map(f, &mut Scalar::Read),
                update: *update,
            },
            Stmt::If { condition, then, otherwise } => Stmt::If {
                condition: f(condition),
                then: then.iter().map(|s| s.map_exprs(f)).collect(),
                otherwise: otherwise.iter().map(|s| s.map_exprs(f)).collect(),
            },
            Stmt::Alloc(b) => Stmt::Alloc(*b),
        }
    }
}
