//! The reference meaning of tensor expressions and loop nests.
//!
//! Floats are computed in f64 and rounded to the element type when stored (and by casts and constants); integers wrap
//! at their width at every operation; arithmetic on truth values gives 1 for any result but 0. Nothing here panics on
//! a bad program: every fault is an [`InterpError`].
//!
//! | module | holds |
//! |---|---|
//! | [`te`] | evaluates tensor expressions, fast enough for real sizes |
//! | [`nest`] | runs loop nests and checks bounds, initialisation and races |
//! | `program` | scalars and index expressions compiled to nodes over numbered variables |
//! | `lanes` | evaluates a program for a block of points at once |
//! | `dot` | the inner loop of sums of products |
//! | `track` | who wrote and read which element |
//! | `value` | the meaning of every operation on single values |

mod dot;
mod lanes;
pub mod nest;
mod program;
pub mod te;
mod track;
mod value;

use talweg_expr::Symbol;

pub use nest::{RunOptions, run_nest, run_nest_with};
pub use te::{EvalOptions, eval_dag, eval_dag_all, eval_dag_with};

use crate::data::DataError;
use crate::dtype::DType;

/// Why a program cannot be interpreted.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum InterpError {
    /// An index outside its tensor.
    #[error("{place}: `{tensor}`{index:?} is outside its shape {shape:?}; guard the access or fix the index")]
    OutOfBounds {
        /// The compute or statement.
        place: String,
        /// The tensor accessed.
        tensor: String,
        /// The index.
        index: Vec<i64>,
        /// The tensor's extents.
        shape: Vec<i64>,
    },
    /// An element that nothing has written yet.
    #[error("{place}: read of uninitialised element `{buffer}`{index:?}; write it first")]
    Uninitialised {
        /// The statement.
        place: String,
        /// The buffer read.
        buffer: String,
        /// The index.
        index: Vec<i64>,
    },
    /// Two iterations of a parallel loop touch one element, and at least one of them writes.
    #[error("{0}")]
    Race(Box<Race>),
    /// A local buffer used outside the block that allocates it.
    #[error(
        "{place}: local buffer `{buffer}` is not allocated here; put its alloc before the use, in a block around it"
    )]
    NotAllocated {
        /// The statement.
        place: String,
        /// The buffer.
        buffer: String,
    },
    /// A store to a read-only buffer.
    #[error("{place}: `{buffer}` is read-only; store to an output, temp or local buffer")]
    ReadOnly {
        /// The statement.
        place: String,
        /// The buffer.
        buffer: String,
    },
    /// A knob without value, or a variable nothing binds.
    #[error("{place}: `{symbol}` has no value; substitute knobs, and use variables only inside their loop")]
    Open {
        /// Where it occurs.
        place: String,
        /// The symbol.
        symbol: Symbol,
    },
    /// An index expression without value.
    #[error("{place}: index expression `{expr}` has no value (division by zero, overflow or a real number)")]
    Undefined {
        /// Where it occurs.
        place: String,
        /// The expression.
        expr: String,
    },
    /// Operands of the wrong type.
    #[error("{place}: {what}")]
    IllTyped {
        /// Where it occurs.
        place: String,
        /// What is wrong.
        what: String,
    },
    /// A wrong number of indices, or a tensor that does not exist or stands later.
    #[error("{place}: {what}")]
    BadAccess {
        /// Where it occurs.
        place: String,
        /// What is wrong.
        what: String,
    },
    /// An argument that was not passed.
    #[error("no array for `{name}`; pass one for every input, constant and output")]
    Missing {
        /// The tensor.
        name: String,
    },
    /// An argument of another type or shape.
    #[error("the array for `{name}` is {got}{got_shape:?}, expected {expected}{expected_shape:?}")]
    WrongArgument {
        /// The tensor.
        name: String,
        /// The type declared.
        expected: DType,
        /// The shape declared.
        expected_shape: Vec<usize>,
        /// The type passed.
        got: DType,
        /// The shape passed.
        got_shape: Vec<usize>,
    },
    /// A tensor that cannot be stored.
    #[error("`{name}`: {source}")]
    Storage {
        /// The tensor.
        name: String,
        /// Why.
        source: DataError,
    },
}

/// Two accesses of different iterations of a parallel loop to one element.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error(
    "{place}: race on `{buffer}`{index:?}: {first} by iteration {first_iteration} and {second} by iteration \
     {second_iteration} of parallel loop `{var}`; make the loop serial or give each iteration its own elements"
)]
pub struct Race {
    /// The statement of the second access.
    pub place: String,
    /// The buffer.
    pub buffer: String,
    /// The index.
    pub index: Vec<i64>,
    /// The parallel loop's variable.
    pub var: Symbol,
    /// What the earlier access did: `read` or `written`.
    pub first: &'static str,
    /// The iteration of the earlier access.
    pub first_iteration: i64,
    /// What the later access did.
    pub second: &'static str,
    /// The iteration of the later access.
    pub second_iteration: i64,
}
