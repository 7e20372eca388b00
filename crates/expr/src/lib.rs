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
//! | [`text`] | printing |
//! | [`lexer`] | tokens with positions, for every text form of the project |
//! | [`parse`] | parsing, the inverse of printing |
//! | [`tape`] | evaluation and reverse-mode derivatives at many points at once |
//! | `kernel` | the inner loops of the tape |
//! | [`smooth`] | differentiable stand-ins, with a width |
//! | [`rewrite`] | simplification by equality saturation |
//! | [`rules`] | its rules, a table |
//! | `elementary` | logarithm and exponential that vectorise |
//! | [`mod@derive`] | symbolic derivatives |

pub mod bounds;
pub mod build;
pub mod derive;
mod elementary;
mod kernel;
pub mod lexer;
pub mod linear;
pub mod node;
pub mod parse;
pub mod rewrite;
pub mod rules;
pub mod smooth;
pub mod subst;
pub mod symbol;
pub mod tape;
pub mod text;

pub use bounds::{Interval, Ranges};
pub use lexer::{Lexer, ParseError, Position, Token};
pub use linear::Affine;
pub use node::{BinaryOp, Expr, Node, Ty, UnaryOp};
pub use parse::parse_expr;
pub use rewrite::{RewriteReport, Rewriter};
pub use smooth::Smoother;
pub use symbol::{Symbol, SymbolKind};
pub use tape::{Scratch, Tape, TapeError};
