//! Printing expressions. Precedence, loosest first: `||`, `&&`, comparisons, `+ -`, `* / // %`; everything else is
//! written as a call. Infix operators are left-associative, except that comparisons do not chain. Knobs carry a `$`.
//! [`crate::parse`] reads the same text back to the same expression.

use std::fmt;

use crate::node::{BinaryOp, Expr, Node, UnaryOp};

pub(crate) const OR: u8 = 1;
pub(crate) const AND: u8 = 2;
pub(crate) const COMPARE: u8 = 3;
pub(crate) const SUM: u8 = 4;
pub(crate) const PRODUCT: u8 = 5;

fn infix(op: BinaryOp) -> Option<(&'static str, u8)> {
    Some(match op {
        BinaryOp::Add => ("+", SUM),
        BinaryOp::Mul => ("*", PRODUCT),
        BinaryOp::Div => ("/", PRODUCT),
        BinaryOp::FloorDiv => ("//", PRODUCT),
        BinaryOp::Mod => ("%", PRODUCT),
        BinaryOp::Lt => ("<", COMPARE),
        BinaryOp::Le => ("<=", COMPARE),
        BinaryOp::Eq => ("==", COMPARE),
        BinaryOp::Ne => ("!=", COMPARE),
        BinaryOp::And => ("&&", AND),
        BinaryOp::Or => ("||", OR),
        BinaryOp::CeilDiv | BinaryOp::Min | BinaryOp::Max | BinaryOp::Pow => return None,
    })
}

fn call(op: BinaryOp) -> &'static str {
    match op {
        BinaryOp::CeilDiv => "ceildiv",
        BinaryOp::Min => "min",
        BinaryOp::Max => "max",
        _ => "pow",
    }
}

fn unary_name(op: UnaryOp) -> &'static str {
    match op {
        UnaryOp::Not => "not",
        UnaryOp::Log => "log",
        UnaryOp::Exp => "exp",
        UnaryOp::Sqrt => "sqrt",
        UnaryOp::Abs => "abs",
    }
}

fn write(e: &Expr, outer: u8, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match e.node() {
        Node::Int(v) => write!(f, "{v}"),
        Node::Real(v) => {
            let v = f64::from_bits(*v);
            if v.is_nan() { f.write_str("nan") } else { write!(f, "{v:?}") }
        }
        Node::Bool(v) => write!(f, "{v}"),
        Node::Sym(s) => write!(f, "{s}"),
        Node::Unary(op, a) => {
            write!(f, "{}(", unary_name(*op))?;
            write(a, 0, f)?;
            f.write_str(")")
        }
        Node::Select(c, a, b) => {
            f.write_str("select(")?;
            write(c, 0, f)?;
            f.write_str(", ")?;
            write(a, 0, f)?;
            f.write_str(", ")?;
            write(b, 0, f)?;
            f.write_str(")")
        }
        Node::Binary(op, a, b) => match infix(*op) {
            None => {
                write!(f, "{}(", call(*op))?;
                write(a, 0, f)?;
                f.write_str(", ")?;
                write(b, 0, f)?;
                f.write_str(")")
            }
            Some((name, level)) => {
                let parens = level < outer;
                if parens {
                    f.write_str("(")?;
                }
                // Comparisons do not chain.
                write(a, if level == COMPARE { level + 1 } else { level }, f)?;
                write!(f, " {name} ")?;
                write(b, level + 1, f)?;
                if parens {
                    f.write_str(")")?;
                }
                Ok(())
            }
        },
    }
}

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write(self, 0, f)
    }
}

impl fmt::Debug for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
