//! What a legal dag and a legal nest is. These rules are the definition; every pass may rely on them, and
//! [`verify_dag`] and [`verify_nest`] check them.
//!
//! # Both
//! - **B1 names**: names of tensors and buffers are unique and not empty.
//! - **B2 reference**: every tensor id stands for a tensor that exists.
//! - **B3 symbols**: an expression mentions only symbols in scope: axes and reduction axes of its compute, variables
//!   of the enclosing loops, axes of its pack, and knobs anywhere. Shapes mention knobs only. Bound symbols are
//!   variables (not knobs), named by an identifier.
//! - **B4 extent**: extents and indices are integer expressions; constant extents of tensors, buffers and axes are
//!   positive (a loop may run zero times); conditions are truth expressions.
//! - **B5 rank**: a read, store or pack has one index for each dimension.
//! - **B6 type**: both operands of a function have one type; `and`, `or`, `not` and the condition of a select are
//!   `bool`; arithmetic and order are not defined on `bool` (`max`, `min`, `==`, `!=` are); the functions from `exp` to
//!   `round` take floats. A constant fits its type. An index value is an integer expression of a number type or a
//!   truth expression of type `bool`. What is stored has the type of where it is stored; what is reduced can be
//!   combined by the reducer.
//! - **B7 bounds**: every index of every access that is performed lies in `0..extent`, provably. A `select` whose
//!   condition is an index predicate guards its two sides, an `if` its two branches. Where knobs are involved the rule
//!   is decided only once they have values.
//!
//! # Dags
//! - **D1 order**: a compute reads only tensors that stand before it.
//! - **D2 axes**: axes and reduction axes of one compute have different names; the shape of a computed tensor is the
//!   extents of its axes; a reduction has at least one axis.
//! - **D3 output**: at least one tensor is an output.
//!
//! # Nests
//! - **N1 variables**: loop variables are unique in the nest, and so are the axes of a pack.
//! - **N2 roles**: only outputs, temps and locals are stored to; at least one output exists.
//! - **N3 locals**: a local is used only while it lives: after its `alloc`, to the end of that block, and not inside a
//!   parallel loop that starts in between. What lives is not allocated again; only locals are allocated. (Two branches,
//!   or two loops one after the other, may each allocate it.)
//! - **N4 packs**: a pack fills a `packed` buffer from a `const` one of the same type, by affine indices over its axes;
//!   every packed buffer is filled by exactly one pack. Indices outside the source give zero.
//! - **N5 constant**: extents of `vectorize` and `unroll` loops are constants, as soon as no knob is involved.
//! - **N6 nesting**: a `parallel` loop is not inside another, nor inside `vectorize` or `unroll`.
//! - **N7 race**: different iterations of a `parallel` loop store to different elements of what they share, and do not
//!   read what another one stores. The verifier refuses what is certainly wrong: one statement that stores to one
//!   element in two iterations, when there is no proof to the contrary and trying the first stores shows two that meet.
//!   Every other race is found by running the nest in the interpreter.
//!
//! Not rules: reading an element of a temp or local before it is stored (the interpreter finds it), and dead code.

mod dag;
mod linear;
mod nest;
mod prove;
mod race;
mod types;

use std::fmt;

pub use dag::verify_dag;
pub use nest::verify_nest;

/// A rule of this module's documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum Rule {
    Names,
    Reference,
    Symbols,
    Extent,
    Rank,
    Type,
    Bounds,
    Order,
    Axes,
    Output,
    Variables,
    Roles,
    Locals,
    Packs,
    Constant,
    Nesting,
    Race,
}

impl Rule {
    /// All rules, in the order of the documentation.
    pub const ALL: [Rule; 17] = [
        Rule::Names,
        Rule::Reference,
        Rule::Symbols,
        Rule::Extent,
        Rule::Rank,
        Rule::Type,
        Rule::Bounds,
        Rule::Order,
        Rule::Axes,
        Rule::Output,
        Rule::Variables,
        Rule::Roles,
        Rule::Locals,
        Rule::Packs,
        Rule::Constant,
        Rule::Nesting,
        Rule::Race,
    ];

    /// Number and name, as in the documentation.
    pub fn label(self) -> &'static str {
        match self {
            Rule::Names => "B1 names",
            Rule::Reference => "B2 reference",
            Rule::Symbols => "B3 symbols",
            Rule::Extent => "B4 extent",
            Rule::Rank => "B5 rank",
            Rule::Type => "B6 type",
            Rule::Bounds => "B7 bounds",
            Rule::Order => "D1 order",
            Rule::Axes => "D2 axes",
            Rule::Output => "D3 output",
            Rule::Variables => "N1 variables",
            Rule::Roles => "N2 roles",
            Rule::Locals => "N3 locals",
            Rule::Packs => "N4 packs",
            Rule::Constant => "N5 constant",
            Rule::Nesting => "N6 nesting",
            Rule::Race => "N7 race",
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.label())
    }
}

/// A rule that does not hold at some place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{rule}: {place}: {what}; {remedy}")]
pub struct Violation {
    /// Which rule.
    pub rule: Rule,
    /// Where: the tensor, or the loops around a statement and the statement.
    pub place: String,
    /// What is wrong.
    pub what: String,
    /// What to do about it.
    pub remedy: String,
}

/// Collects violations at the place being looked at.
#[derive(Default)]
struct Report {
    place: String,
    found: Vec<Violation>,
}

impl Report {
    fn add(&mut self, rule: Rule, what: impl Into<String>, remedy: impl Into<String>) {
        let violation =
            Violation { rule, place: self.place.clone(), what: what.into(), remedy: remedy.into() };
        if !self.found.contains(&violation) {
            self.found.push(violation);
        }
    }

    fn result(self) -> Result<(), Vec<Violation>> {
        if self.found.is_empty() { Ok(()) } else { Err(self.found) }
    }
}
