//! Printing tensor expressions and loop nests.

use std::fmt::{self, Write};

use talweg_expr::{Expr, Symbol};

use super::{CALLS, COMPARE, INFIX, UNARY, UNARY_MINUS, is_plain};
use crate::dtype::DType;
use crate::nest::{Buffer, LoopKind, Nest, Role, Stmt};
use crate::scalar::{ArithOp, MathOp, Reducer, Scalar, TensorId};
use crate::te::{Axis, Dag, Source, Tensor};

/// A name, in quotes when it could be taken for something else.
struct Name<'a>(&'a str);

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if is_plain(self.0) {
            return f.write_str(self.0);
        }
        f.write_char('"')?;
        for c in self.0.chars() {
            match c {
                '"' => f.write_str("\\\"")?,
                '\\' => f.write_str("\\\\")?,
                '\n' => f.write_str("\\n")?,
                '\t' => f.write_str("\\t")?,
                c => f.write_char(c)?,
            }
        }
        f.write_char('"')
    }
}

/// Items separated by commas.
struct List<'a, T>(&'a [T]);

impl<T: fmt::Display> fmt::Display for List<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, item) in self.0.iter().enumerate() {
            write!(f, "{}{item}", if at == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

impl fmt::Display for Axis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.symbol, self.extent)
    }
}

/// Prints values; knows the names of the tensors they read.
struct Values<'a> {
    names: Vec<&'a str>,
}

impl Values<'_> {
    fn name(&self, id: TensorId) -> String {
        match self.names.get(id.index()) {
            Some(n) => Name(n).to_string(),
            None => format!("?{}", id.0),
        }
    }

    fn element(&self, id: TensorId, indices: &[Expr]) -> String {
        format!("{}[{}]", self.name(id), List(indices))
    }

    fn value(&self, s: &Scalar) -> String {
        let mut out = String::new();
        self.write(s, 0, &mut out);
        out
    }

    fn call(&self, name: &str, operands: &[&Scalar], out: &mut String) {
        out.push_str(name);
        out.push('(');
        for (at, s) in operands.iter().enumerate() {
            if at > 0 {
                out.push_str(", ");
            }
            self.write(s, 0, out);
        }
        out.push(')');
    }

    fn write(&self, s: &Scalar, outer: u8, out: &mut String) {
        match s {
            Scalar::Float(v, DType::F32) => out.push_str(&float(*v)),
            Scalar::Float(v, d) => out.push_str(&format!("{d}({})", float(*v))),
            Scalar::Int(v @ (0 | 1), DType::Bool) => out.push_str(if *v == 1 { "true" } else { "false" }),
            Scalar::Int(v, d) => out.push_str(&format!("{d}({v})")),
            Scalar::Index(e, DType::Bool) => out.push_str(&format!("guard({e})")),
            Scalar::Index(e, d) => out.push_str(&format!("index.{d}({e})")),
            Scalar::Read(t, indices) => out.push_str(&self.element(*t, indices)),
            Scalar::Unary(MathOp::Neg, a) if !matches!(**a, Scalar::Float(..)) => {
                out.push('-');
                self.write(a, UNARY_MINUS, out);
            }
            Scalar::Unary(op, a) => self.call(unary_name(*op), &[a], out),
            Scalar::Binary(op, a, b) => self.binary(*op, a, b, outer, out),
            Scalar::Select(c, a, b) => self.call("select", &[c, a, b], out),
            Scalar::Cast(d, a) => self.call(&format!("cast.{d}"), &[a], out),
        }
    }

    fn binary(&self, op: ArithOp, a: &Scalar, b: &Scalar, outer: u8, out: &mut String) {
        if let Some((name, _)) = CALLS.iter().find(|(_, o)| *o == op) {
            return self.call(name, &[a, b], out);
        }
        let Some((sign, level, _)) = INFIX.iter().find(|(_, _, o)| *o == op) else { return };
        let parens = *level < outer;
        if parens {
            out.push('(');
        }
        // Comparisons do not chain.
        self.write(a, if *level == COMPARE { level + 1 } else { *level }, out);
        out.push_str(&format!(" {sign} "));
        self.write(b, level + 1, out);
        if parens {
            out.push(')');
        }
    }
}

fn unary_name(op: MathOp) -> &'static str {
    UNARY.iter().find(|(_, o)| *o == op).map_or("?", |(n, _)| n)
}

/// The shortest text that reads back as the same number.
fn float(v: f64) -> String {
    if v.is_nan() { "nan".into() } else { format!("{v:?}") }
}

fn reducer_name(r: Reducer) -> &'static str {
    match r {
        Reducer::Sum => "sum",
        Reducer::Prod => "prod",
        Reducer::Max => "max",
        Reducer::Min => "min",
    }
}

fn assign(update: Option<Reducer>) -> &'static str {
    match update {
        None => "=",
        Some(Reducer::Sum) => "+=",
        Some(Reducer::Prod) => "*=",
        Some(Reducer::Max) => "max=",
        Some(Reducer::Min) => "min=",
    }
}

/// A value as text, with the names of the tensors it reads; for messages.
pub(crate) fn value_text(names: &[&str], value: &Scalar) -> String {
    Values { names: names.to_vec() }.value(value)
}

impl fmt::Display for Dag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let values = Values { names: self.tensors.iter().map(|t| t.name.as_str()).collect() };
        writeln!(f, "dag {} {{", Name(&self.name))?;
        for t in &self.tensors {
            writeln!(f, "  {}", tensor(t, &values))?;
        }
        f.write_str("}\n")
    }
}

fn tensor(t: &Tensor, values: &Values<'_>) -> String {
    let (name, dtype) = (Name(&t.name), t.dtype);
    let wanted = if t.output { "output " } else { "" };
    match &t.source {
        Source::Input => format!("{wanted}input {name}: {dtype}[{}]", List(&t.shape)),
        Source::Const => format!("{wanted}const {name}: {dtype}[{}]", List(&t.shape)),
        Source::Compute(c) => {
            let word = if t.output { "output" } else { "compute" };
            let reduction = match &c.reduction {
                None => String::new(),
                Some(r) => format!("{}[{}] ", reducer_name(r.reducer), List(&r.axes)),
            };
            format!("{word} {name}: {dtype}[{}] = {reduction}{}", List(&c.axes), values.value(&c.body))
        }
    }
}

impl fmt::Display for Nest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let values = Values { names: self.buffers.iter().map(|b| b.name.as_str()).collect() };
        writeln!(f, "nest {} {{", Name(&self.name))?;
        for b in &self.buffers {
            writeln!(f, "  {b}")?;
        }
        for p in &self.packs {
            let axes: &[Symbol] = &p.axes;
            let (packed, source) = (values.name(p.packed), values.element(p.source, &p.indices));
            writeln!(f, "  pack {packed}[{}] = {source}", List(axes))?;
        }
        block(&self.body, 1, &values, f)?;
        f.write_str("}\n")
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Role::Input => "input",
            Role::Const => "const",
            Role::Packed => "packed",
            Role::Output => "output",
            Role::Temp => "temp",
            Role::Local => "local",
        })
    }
}

impl fmt::Display for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}[{}]", self.role, Name(&self.name), self.dtype, List(&self.shape))
    }
}

impl fmt::Display for LoopKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoopKind::Serial => f.write_str("for"),
            LoopKind::Parallel => f.write_str("parallel"),
            LoopKind::Vectorize => f.write_str("vectorize"),
            LoopKind::Unroll => f.write_str("unroll"),
            LoopKind::Bind(axis) => write!(f, "bind({})", axis.name()),
        }
    }
}

fn block(body: &[Stmt], depth: usize, values: &Values<'_>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let indent = depth * 2;
    for s in body {
        match s {
            Stmt::For(l) => {
                writeln!(f, "{:indent$}{} {} in 0..{} {{", "", l.kind, l.var, l.extent)?;
                block(&l.body, depth + 1, values, f)?;
                writeln!(f, "{:indent$}}}", "")?;
            }
            Stmt::If { condition, then, otherwise } => {
                writeln!(f, "{:indent$}if {condition} {{", "")?;
                block(then, depth + 1, values, f)?;
                if !otherwise.is_empty() {
                    writeln!(f, "{:indent$}}} else {{", "")?;
                    block(otherwise, depth + 1, values, f)?;
                }
                writeln!(f, "{:indent$}}}", "")?;
            }
            Stmt::Alloc(b) => writeln!(f, "{:indent$}alloc {}", "", values.name(*b))?,
            Stmt::Store { buffer, indices, value, update } => {
                let (to, value) = (values.element(*buffer, indices), values.value(value));
                writeln!(f, "{:indent$}{to} {} {value}", "", assign(*update))?;
            }
        }
    }
    Ok(())
}
