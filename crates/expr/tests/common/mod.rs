//! Random expressions as plain trees, with an evaluator of their own that shares nothing with the crate.

#![allow(dead_code)]

use proptest::prelude::*;
use talweg_expr::{BinaryOp, Expr, Symbol, UnaryOp};

/// Variables `x y z` may have any sign, knobs `$k $m` are positive.
pub const NAMES: [&str; 5] = ["x", "y", "z", "k", "m"];

/// The symbol number `at` of [`NAMES`].
pub fn symbol(at: usize) -> Symbol {
    if at < 3 { Symbol::var(NAMES[at]) } else { Symbol::knob(NAMES[at]) }
}

/// All symbols.
pub fn symbols() -> Vec<Symbol> {
    (0..NAMES.len()).map(symbol).collect()
}

/// The position of a symbol in [`NAMES`].
pub fn position(s: &Symbol) -> Option<usize> {
    (0..NAMES.len()).find(|at| symbol(*at) == *s)
}

/// A tree as generated, nothing simplified.
#[derive(Clone, Debug)]
pub enum Raw {
    Int(i64),
    Real(f64),
    Bool(bool),
    Sym(usize),
    Unary(UnaryOp, Box<Raw>),
    Binary(BinaryOp, Box<Raw>, Box<Raw>),
    Select(Box<Raw>, Box<Raw>, Box<Raw>),
}

impl Raw {
    /// Builds the tree with the crate's constructors.
    pub fn build(&self) -> Expr {
        match self {
            Raw::Int(v) => Expr::int(*v),
            Raw::Real(v) => Expr::real(*v),
            Raw::Bool(v) => Expr::bool(*v),
            Raw::Sym(at) => Expr::sym(&symbol(*at)),
            Raw::Unary(op, a) => Expr::unary(*op, a.build()),
            Raw::Binary(op, a, b) => Expr::binary(*op, a.build(), b.build()),
            Raw::Select(c, a, b) => Expr::select(c.build(), a.build(), b.build()),
        }
    }

    /// The value over the integers; `None` when a divisor is zero or a number leaves 100 bits.
    pub fn eval(&self, at: &[i64]) -> Option<i128> {
        let v = match self {
            Raw::Int(v) => i128::from(*v),
            Raw::Bool(v) => i128::from(*v),
            Raw::Real(_) => return None,
            Raw::Sym(s) => i128::from(at[*s]),
            Raw::Unary(UnaryOp::Not, a) => i128::from(a.eval(at)? == 0),
            Raw::Unary(UnaryOp::Abs, a) => a.eval(at)?.abs(),
            Raw::Unary(..) => return None,
            Raw::Binary(op, a, b) => {
                let (a, b) = (a.eval(at)?, b.eval(at)?);
                match op {
                    BinaryOp::Add => a + b,
                    BinaryOp::Mul => a.checked_mul(b)?,
                    BinaryOp::FloorDiv | BinaryOp::CeilDiv | BinaryOp::Mod if b == 0 => return None,
                    // Euclid's remainder lies in 0..|b|; the others follow from it.
                    BinaryOp::FloorDiv => (a - floor_mod(a, b)) / b,
                    BinaryOp::CeilDiv => -((-a - floor_mod(-a, b)) / b),
                    BinaryOp::Mod => floor_mod(a, b),
                    BinaryOp::Min => a.min(b),
                    BinaryOp::Max => a.max(b),
                    BinaryOp::Lt => i128::from(a < b),
                    BinaryOp::Le => i128::from(a <= b),
                    BinaryOp::Eq => i128::from(a == b),
                    BinaryOp::Ne => i128::from(a != b),
                    BinaryOp::And => i128::from(a != 0 && b != 0),
                    BinaryOp::Or => i128::from(a != 0 || b != 0),
                    BinaryOp::Div | BinaryOp::Pow => return None,
                }
            }
            Raw::Select(c, a, b) => {
                if c.eval(at)? != 0 {
                    a.eval(at)?
                } else {
                    b.eval(at)?
                }
            }
        };
        (v.abs() < 1 << 100).then_some(v)
    }

    /// The value over the reals.
    pub fn eval_real(&self, at: &[f64]) -> f64 {
        let truth = |v: bool| f64::from(u8::from(v));
        match self {
            Raw::Int(v) => *v as f64,
            Raw::Bool(v) => truth(*v),
            Raw::Real(v) => *v,
            Raw::Sym(s) => at[*s],
            Raw::Unary(op, a) => {
                let a = a.eval_real(at);
                match op {
                    UnaryOp::Not => truth(a == 0.0),
                    UnaryOp::Log => a.ln(),
                    UnaryOp::Exp => a.exp(),
                    UnaryOp::Sqrt => a.sqrt(),
                    UnaryOp::Abs => a.abs(),
                }
            }
            Raw::Binary(op, a, b) => {
                let (a, b) = (a.eval_real(at), b.eval_real(at));
                match op {
                    BinaryOp::Add => a + b,
                    BinaryOp::Mul => a * b,
                    BinaryOp::Div => a / b,
                    BinaryOp::FloorDiv => (a / b).floor(),
                    BinaryOp::CeilDiv => (a / b).ceil(),
                    BinaryOp::Mod => a - (a / b).floor() * b,
                    BinaryOp::Min => a.min(b),
                    BinaryOp::Max => a.max(b),
                    BinaryOp::Pow => a.powf(b),
                    BinaryOp::Lt => truth(a < b),
                    BinaryOp::Le => truth(a <= b),
                    BinaryOp::Eq => truth(a == b),
                    BinaryOp::Ne => truth(a != b),
                    BinaryOp::And => truth(a != 0.0 && b != 0.0),
                    BinaryOp::Or => truth(a != 0.0 || b != 0.0),
                }
            }
            Raw::Select(c, a, b) => {
                if c.eval_real(at) != 0.0 {
                    a.eval_real(at)
                } else {
                    b.eval_real(at)
                }
            }
        }
    }
}

/// The remainder with the sign of `b`.
fn floor_mod(a: i128, b: i128) -> i128 {
    let r = a.rem_euclid(b);
    if b < 0 && r != 0 { r + b } else { r }
}

fn boxed(op: BinaryOp) -> impl Fn((Raw, Raw)) -> Raw + Clone {
    move |(a, b)| Raw::Binary(op, Box::new(a), Box::new(b))
}

fn one_of(ops: &'static [BinaryOp]) -> impl Strategy<Value = BinaryOp> {
    prop::sample::select(ops)
}

const ARITHMETIC: &[BinaryOp] = &[
    BinaryOp::Add,
    BinaryOp::Add,
    BinaryOp::Mul,
    BinaryOp::Mul,
    BinaryOp::FloorDiv,
    BinaryOp::CeilDiv,
    BinaryOp::Mod,
    BinaryOp::Min,
    BinaryOp::Max,
];
const COMPARISONS: &[BinaryOp] = &[BinaryOp::Lt, BinaryOp::Le, BinaryOp::Eq, BinaryOp::Ne];
const LOGIC: &[BinaryOp] = &[BinaryOp::And, BinaryOp::Or];

/// A truth value from comparisons of `of`.
fn condition(of: impl Strategy<Value = Raw> + Clone + 'static) -> BoxedStrategy<Raw> {
    let compare = (one_of(COMPARISONS), of.clone(), of).prop_map(|(op, a, b)| boxed(op)((a, b)));
    prop_oneof![8 => compare, 1 => any::<bool>().prop_map(Raw::Bool)]
        .prop_recursive(2, 6, 2, |inner| {
            prop_oneof![
                (one_of(LOGIC), inner.clone(), inner.clone()).prop_map(|(op, a, b)| boxed(op)((a, b))),
                inner.prop_map(|a| Raw::Unary(UnaryOp::Not, Box::new(a))),
            ]
        })
        .boxed()
}

/// Integer trees of every operator; divisors are often constants and knobs, as in real index arithmetic.
pub fn integer() -> BoxedStrategy<Raw> {
    let leaf = prop_oneof![
        3 => (-12i64..=12).prop_map(Raw::Int),
        5 => (0..NAMES.len()).prop_map(Raw::Sym),
    ];
    leaf.prop_recursive(5, 48, 3, |inner| {
        let divisor = prop_oneof![
            4 => (1i64..=9).prop_map(Raw::Int),
            1 => (-5i64..=-1).prop_map(Raw::Int),
            4 => (3usize..5).prop_map(Raw::Sym),
            2 => (2i64..5, 3usize..5).prop_map(|(c, k)| boxed(BinaryOp::Mul)((Raw::Sym(k), Raw::Int(c)))),
            1 => Just(boxed(BinaryOp::Mul)((Raw::Sym(3), Raw::Sym(4)))),
        ];
        let rounding = one_of(&[BinaryOp::FloorDiv, BinaryOp::CeilDiv, BinaryOp::Mod]);
        prop_oneof![
            8 => (one_of(ARITHMETIC), inner.clone(), inner.clone()).prop_map(|(op, a, b)| boxed(op)((a, b))),
            6 => (rounding, inner.clone(), divisor).prop_map(|(op, a, b)| boxed(op)((a, b))),
            1 => (condition(inner.clone()), inner.clone(), inner.clone())
                .prop_map(|(c, a, b)| Raw::Select(Box::new(c), Box::new(a), Box::new(b))),
            1 => inner.clone().prop_map(|a| Raw::Unary(UnaryOp::Abs, Box::new(a))),
            // A truth value used as a number.
            1 => condition(inner),
        ]
    })
    .boxed()
}

/// Trees of every operator and type.
pub fn any_expr() -> BoxedStrategy<Raw> {
    let constants = prop::sample::select(vec![0.5, -0.5, 2.0, -3.25, 1e-5, 1e20, 0.0, -0.0, 7.0]);
    let leaf = prop_oneof![2 => constants.prop_map(Raw::Real), 5 => integer()];
    leaf.prop_recursive(4, 24, 3, |inner| {
        let real = one_of(&[
            BinaryOp::Add,
            BinaryOp::Mul,
            BinaryOp::Div,
            BinaryOp::Pow,
            BinaryOp::Min,
            BinaryOp::Max,
            BinaryOp::FloorDiv,
            BinaryOp::Mod,
        ]);
        let unary =
            prop::sample::select(vec![UnaryOp::Log, UnaryOp::Exp, UnaryOp::Sqrt, UnaryOp::Abs, UnaryOp::Not]);
        prop_oneof![
            4 => (real, inner.clone(), inner.clone()).prop_map(|(op, a, b)| boxed(op)((a, b))),
            2 => (unary, inner.clone()).prop_map(|(op, a)| Raw::Unary(op, Box::new(a))),
            1 => (condition(inner.clone()), inner.clone(), inner.clone())
                .prop_map(|(c, a, b)| Raw::Select(Box::new(c), Box::new(a), Box::new(b))),
            1 => condition(inner),
        ]
    })
    .boxed()
}

/// Trees without kinks or poles: differentiable wherever the symbols are positive.
pub fn smooth() -> BoxedStrategy<Raw> {
    let leaf = prop_oneof![
        1 => (1i64..=4).prop_map(Raw::Int),
        1 => (0.25f64..2.0).prop_map(Raw::Real),
        5 => (0..NAMES.len()).prop_map(Raw::Sym),
    ];
    leaf.prop_recursive(4, 24, 2, |inner| {
        let safe = |a: Raw| {
            // 1 + a * a: never near zero.
            let square = boxed(BinaryOp::Mul)((a.clone(), a));
            Box::new(boxed(BinaryOp::Add)((square, Raw::Int(1))))
        };
        prop_oneof![
            3 => (one_of(&[BinaryOp::Add, BinaryOp::Mul]), inner.clone(), inner.clone())
                .prop_map(|(op, a, b)| boxed(op)((a, b))),
            1 => (inner.clone(), inner.clone())
                .prop_map(move |(a, b)| Raw::Binary(BinaryOp::Div, Box::new(a), safe(b))),
            1 => inner.clone().prop_map(move |a| Raw::Unary(UnaryOp::Log, safe(a))),
            1 => inner.clone().prop_map(move |a| Raw::Unary(UnaryOp::Sqrt, safe(a))),
            1 => (inner.clone(), inner.clone()).prop_map(move |(a, b)| {
                let small = Raw::Binary(BinaryOp::Div, Box::new(b.clone()), safe(b));
                Raw::Binary(BinaryOp::Pow, safe(a), Box::new(small))
            }),
            1 => inner.prop_map(move |a| {
                Raw::Unary(UnaryOp::Exp, Box::new(Raw::Binary(BinaryOp::Div, Box::new(a.clone()), safe(a))))
            }),
        ]
    })
    .boxed()
}

/// A point: variables of any sign, knobs positive.
pub fn point() -> impl Strategy<Value = Vec<i64>> {
    (prop::collection::vec(-30i64..=30, 3), prop::collection::vec(1i64..=12, 2))
        .prop_map(|(vars, knobs)| vars.into_iter().chain(knobs).collect())
}

/// Whether a rounding error in some part may change the value by much: comparisons and rounding of real numbers.
pub fn jumps(raw: &Raw) -> bool {
    match raw {
        Raw::Int(_) | Raw::Bool(_) | Raw::Real(_) | Raw::Sym(_) => false,
        Raw::Unary(_, a) => jumps(a),
        Raw::Binary(op, a, b) => {
            let rounds = matches!(
                op,
                BinaryOp::FloorDiv
                    | BinaryOp::CeilDiv
                    | BinaryOp::Mod
                    | BinaryOp::Lt
                    | BinaryOp::Le
                    | BinaryOp::Eq
                    | BinaryOp::Ne
                    | BinaryOp::Pow
            );
            rounds || jumps(a) || jumps(b)
        }
        Raw::Select(..) => true,
    }
}
