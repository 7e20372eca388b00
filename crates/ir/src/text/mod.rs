//! The text of tensor expressions and loop nests: what is printed parses to the same thing.
//!
//! ```text
//! dag dense {                                       nest dense {
//!   input A: f32[64, 32]                              input A: f32[64, 32]
//!   const B: f32[32, 16]                              const B: f32[32, 16]
//!   output C: f32[i=64, j=16] =                       packed P: f32[16, 32]
//!     sum[k=32] A[i, k] * B[k, j]                     output C: f32[64, 16]
//! }                                                   local acc: f32[16]
//!                                                     pack P[j, k] = B[k, j]
//!                                                     parallel i in 0..64 {
//!                                                       alloc acc
//!                                                       vectorize j in 0..16 {
//!                                                         acc[j] = 0.0
//!                                                       }
//!                                                       ...
//! ```
//!
//! Line ends mean nothing, `#` starts a comment. In the grammar, `x*` is any number of `x`, `x?` at most one, and
//! `x,*` is a list separated by commas:
//!
//! ```text
//! dag       = "dag" name "{" tensor* "}"
//! tensor    = "output"? ("input" | "const") name ":" dtype "[" expr,* "]"
//!           | ("compute" | "output") name ":" dtype "[" axis,* "]" "=" reduction? value
//! reduction = ("sum" | "prod" | "max" | "min") "[" axis,* "]"
//! axis      = symbol "=" expr
//!
//! nest      = "nest" name "{" buffer* pack* stmt* "}"
//! buffer    = ("input" | "const" | "packed" | "output" | "temp" | "local") name ":" dtype "[" expr,* "]"
//! pack      = "pack" name "[" symbol,* "]" "=" name "[" expr,* "]"
//! stmt      = kind symbol "in" "0" ".." expr block
//!           | "if" expr block ("else" block)?
//!           | "alloc" name
//!           | name "[" expr,* "]" ("=" | "+=" | "*=" | "max=" | "min=") value
//! kind      = "for" | "parallel" | "vectorize" | "unroll" | "bind" "(" thread axis ")"
//! block     = "{" stmt* "}"
//!
//! value     = literal | name "[" expr,* "]" | "(" value ")" | "-" value | value infix value
//!           | function "(" value,* ")"
//!           | "cast." dtype "(" value ")"
//!           | "index." dtype "(" expr ")"       an index expression as a number
//!           | "guard" "(" expr ")"              an index predicate as a truth value; as the condition of a
//!                                               select it guards the reads of both sides
//! infix     = "||" | "&&" | "<" | "<=" | "==" | "!=" | "+" | "-" | "*" | "/" | "%"
//! function  = "max" | "min" | "pow" | "select" | "neg" | "abs" | "exp" | "log" | "sqrt" | "rsqrt" | "tanh"
//!           | "sigmoid" | "erf" | "sin" | "cos" | "floor" | "ceil" | "round" | "not"
//! literal   = float                             of type f32: `1.5`, `-1e-5`, `inf`, `-inf`, `nan`
//!           | dtype "(" number ")"              of any type: `f16(1.5)`, `i32(-3)`
//!           | "true" | "false"
//! ```
//!
//! `expr` is the language of [`talweg_expr`]. Operators bind as there: `||`, `&&`, comparisons (which do not chain),
//! `+ -`, `* / %`, and are left-associative. A minus in front of a float is part of the literal; the negation of a
//! literal is `neg(1.5)`. Names that are no identifiers, or are words of this grammar, stand in double quotes. A value
//! may read tensors that are declared later: whether that is legal is for [`crate::verify`] to say.

mod parse;
mod print;
mod scalar;

pub(crate) use print::value_text;
pub use talweg_expr::ParseError;
use talweg_expr::{Lexer, Token};

use crate::dtype::DType;
use crate::scalar::{ArithOp, MathOp};

/// Functions of one operand by name.
const UNARY: [(&str, MathOp); 15] = [
    ("neg", MathOp::Neg),
    ("abs", MathOp::Abs),
    ("exp", MathOp::Exp),
    ("log", MathOp::Log),
    ("sqrt", MathOp::Sqrt),
    ("rsqrt", MathOp::Rsqrt),
    ("tanh", MathOp::Tanh),
    ("sigmoid", MathOp::Sigmoid),
    ("erf", MathOp::Erf),
    ("sin", MathOp::Sin),
    ("cos", MathOp::Cos),
    ("floor", MathOp::Floor),
    ("ceil", MathOp::Ceil),
    ("round", MathOp::Round),
    ("not", MathOp::Not),
];

/// Functions of two operands that are written as calls.
const CALLS: [(&str, ArithOp); 3] = [("max", ArithOp::Max), ("min", ArithOp::Min), ("pow", ArithOp::Pow)];

/// How tightly operators bind.
const OR: u8 = 1;
const AND: u8 = 2;
const COMPARE: u8 = 3;
const SUM: u8 = 4;
const PRODUCT: u8 = 5;
const UNARY_MINUS: u8 = 6;

/// Infix operators with their level.
const INFIX: [(&str, u8, ArithOp); 11] = [
    ("||", OR, ArithOp::Or),
    ("&&", AND, ArithOp::And),
    ("<", COMPARE, ArithOp::Lt),
    ("<=", COMPARE, ArithOp::Le),
    ("==", COMPARE, ArithOp::Eq),
    ("!=", COMPARE, ArithOp::Ne),
    ("+", SUM, ArithOp::Add),
    ("-", SUM, ArithOp::Sub),
    ("*", PRODUCT, ArithOp::Mul),
    ("/", PRODUCT, ArithOp::Div),
    ("%", PRODUCT, ArithOp::Rem),
];

/// Words of the grammar that are neither functions nor types.
const WORDS: [&str; 26] = [
    "dag",
    "nest",
    "input",
    "const",
    "packed",
    "output",
    "temp",
    "local",
    "compute",
    "pack",
    "alloc",
    "if",
    "else",
    "for",
    "parallel",
    "vectorize",
    "unroll",
    "bind",
    "sum",
    "prod",
    "select",
    "guard",
    "true",
    "false",
    "inf",
    "nan",
];

/// Whether a text is one identifier.
pub(crate) fn is_identifier(name: &str) -> bool {
    Lexer::new(name).take() == Token::Ident(name)
}

/// Whether a name can stand without quotes.
fn is_plain(name: &str) -> bool {
    is_identifier(name)
        && !WORDS.contains(&name)
        && !UNARY.iter().any(|(n, _)| *n == name)
        && !CALLS.iter().any(|(n, _)| *n == name)
        && name.parse::<DType>().is_err()
        && !name.starts_with("cast.")
        && !name.starts_with("index.")
}
