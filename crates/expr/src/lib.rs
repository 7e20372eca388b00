//! Hash-consed integer and real expressions over knobs and loop variables.
//!
//! | module | holds |
//! |---|---|
//! | [`symbol`] | names: knobs and variables |
//! | [`node`] | the expression type, interned so that equality is pointer equality |
//! | [`build`] | constructors that keep integer expressions in canonical polynomial form |
//! | [`linear`] | sums as constant + coefficient * term; affine decomposition |
//! | [`bounds`] | interval arithmetic, and simplification under known ranges |
//! | [`subst`] | substitution, free symbols, evaluation at one point |
//! | [`text`] | printing and parsing |

pub mod bounds;
pub mod build;
pub mod linear;
pub mod node;
pub mod subst;
pub mod symbol;
pub mod text;

pub use bounds::{Interval, Ranges};
pub use linear::Affine;
pub use node::{BinaryOp, Expr, Node, Ty, UnaryOp};
pub use symbol::{Symbol, SymbolKind};
