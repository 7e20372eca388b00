//! Evaluates a program for a block of points at once: lanes are consecutive values of one variable.
//!
//! A value that is the same in all lanes is computed once (`uniform`), which is decided at run time: away from the
//! edges, padding guards are uniform and only one side of their select is evaluated.

use talweg_expr::BinaryOp;
use talweg_expr::subst::fold_int;

use super::InterpError;
use super::program::{AffineAccess, Linear, Node, Operand, Read};
use super::value::{binary_float, binary_int, compare_values, round, to_int, unary_float, unary_int, wrap};
use crate::dtype::DType;
use crate::scalar::ArithOp;

/// Points evaluated at once.
pub(crate) const LANES: usize = 256;

/// The elements of a tensor; 16-bit floats are expanded to f32, small integers and truth values to i32.
#[derive(Clone, Copy)]
pub(crate) enum View<'a> {
    F32(&'a [f32]),
    I32(&'a [i32]),
    I64(&'a [i64]),
}

/// The value of one node in all lanes, in `f` or `i` by the node's type; only lane 0 counts when uniform.
#[derive(Default)]
pub(crate) struct Lanes {
    pub uniform: bool,
    pub f: Vec<f64>,
    pub i: Vec<i64>,
}

/// The state of one evaluating thread.
pub(crate) struct Machine<'a> {
    pub place: &'a str,
    pub nodes: &'a [Node],
    pub operands: &'a [Operand],
    pub views: &'a [Option<View<'a>>],
    /// Values of the variables at lane 0.
    pub slots: Vec<i64>,
    /// The variable that lanes run along.
    pub lane: usize,
    /// How many lanes are in use.
    pub count: usize,
    regs: Vec<Lanes>,
    flat: Vec<i64>,
}

/// Lanes that must have a value; `None` is all of them.
type Mask<'m> = Option<&'m [bool]>;

fn active(mask: Mask<'_>, lane: usize) -> bool {
    mask.is_none_or(|m| m[lane])
}

fn is_float(node: &Node, operands: &[Operand], nodes: &[Node]) -> bool {
    match node {
        Node::Float(_)
        | Node::UnaryFloat(..)
        | Node::BinaryFloat(..)
        | Node::Round(..)
        | Node::ToFloat(..) => true,
        Node::Read(r) => operands[r.tensor.index()].dtype.is_float(),
        Node::Select { then, .. } => is_float(&nodes[*then], operands, nodes),
        _ => false,
    }
}

fn map<A: Copy, B>(out: &mut [B], a: &[A], f: impl Fn(A) -> B) {
    for (o, a) in out.iter_mut().zip(a) {
        *o = f(*a);
    }
}

/// Applies a function lane by lane, with uniform operands spread over all lanes.
#[inline(always)]
fn zip<A: Copy, B>(out: &mut [B], a: &[A], ua: bool, b: &[A], ub: bool, f: impl Fn(A, A) -> B) {
    match (ua, ub) {
        (true, false) => {
            let x = a[0];
            out.iter_mut().zip(b).for_each(|(o, y)| *o = f(x, *y));
        }
        (false, true) => {
            let y = b[0];
            out.iter_mut().zip(a).for_each(|(o, x)| *o = f(*x, y));
        }
        _ => out.iter_mut().zip(a).zip(b).for_each(|((o, x), y)| *o = f(*x, *y)),
    }
}

fn zip_float(op: ArithOp, out: &mut [f64], a: &Lanes, b: &Lanes) {
    let (ua, ub) = (a.uniform, b.uniform);
    macro_rules! each {
        ($($op:ident)*) => {
            match op {
                $(ArithOp::$op => zip(out, &a.f, ua, &b.f, ub, |x, y| binary_float(ArithOp::$op, x, y)),)*
                _ => zip(out, &a.f, ua, &b.f, ub, |x, y| binary_float(op, x, y)),
            }
        };
    }
    each!(Add Sub Mul Div Max Min);
}

fn zip_int(op: ArithOp, out: &mut [i64], a: &Lanes, b: &Lanes) {
    let (ua, ub) = (a.uniform, b.uniform);
    macro_rules! each {
        ($($op:ident)*) => {
            match op {
                $(ArithOp::$op => zip(out, &a.i, ua, &b.i, ub, |x, y| binary_int(ArithOp::$op, x, y)),)*
                _ => zip(out, &a.i, ua, &b.i, ub, |x, y| binary_int(op, x, y)),
            }
        };
    }
    each!(Add Sub Mul Max Min);
}

fn wrap_all(values: &mut [i64], dtype: DType) {
    macro_rules! each {
        ($($d:ident)*) => {
            match dtype {
                $(DType::$d => values.iter_mut().for_each(|v| *v = wrap(*v, DType::$d)),)*
                _ => {}
            }
        };
    }
    each!(I8 U8 I32 Bool);
}

/// Reads `out.len()` elements at `offset + stride * lane`, all inside.
fn gather<T: Copy, O>(src: &[T], offset: i64, stride: i64, out: &mut [O], f: impl Fn(T) -> O) {
    if stride == 1 {
        let start = offset as usize;
        map(out, &src[start..][..out.len()], f);
    } else {
        let mut at = offset;
        for o in out {
            *o = f(src[at as usize]);
            at += stride;
        }
    }
}

/// Reads the elements at flat positions; a negative position stands for a lane without value.
fn scatter_gather<T: Copy, O: Default>(src: &[T], at: &[i64], out: &mut [O], f: impl Fn(T) -> O) {
    for (o, at) in out.iter_mut().zip(at) {
        *o = usize::try_from(*at).ok().and_then(|at| src.get(at)).map_or_else(O::default, |v| f(*v));
    }
}

impl<'a> Machine<'a> {
    pub fn new(
        place: &'a str,
        nodes: &'a [Node],
        operands: &'a [Operand],
        views: &'a [Option<View<'a>>],
        (slots, lane): (usize, usize),
    ) -> Machine<'a> {
        let regs = nodes
            .iter()
            .map(|n| {
                let float = is_float(n, operands, nodes);
                let (f, i) = if float { (LANES, 0) } else { (0, LANES) };
                Lanes { uniform: true, f: vec![0.0; f], i: vec![0; i] }
            })
            .collect();
        let slots = vec![0; slots];
        Machine { place, nodes, operands, views, slots, lane, count: 1, regs, flat: vec![0; LANES] }
    }

    /// The value of a node after [`Machine::eval`].
    pub fn value(&self, node: usize) -> &Lanes {
        &self.regs[node]
    }

    /// Evaluates a node in all lanes.
    pub fn eval(&mut self, node: usize) -> Result<(), InterpError> {
        self.eval_masked(node, None)
    }

    fn eval_masked(&mut self, at: usize, mask: Mask<'_>) -> Result<(), InterpError> {
        let nodes = self.nodes;
        match &nodes[at] {
            Node::Read(read) => return self.read(at, read, mask),
            Node::Select { condition, then, otherwise, guards } => {
                return self.select(at, [*condition, *then, *otherwise], *guards, mask);
            }
            Node::Index(op, a, b, e) => {
                self.eval_masked(*a, mask)?;
                let absorbed = self.regs[*a].uniform
                    && match op {
                        BinaryOp::And => self.regs[*a].i[0] == 0,
                        BinaryOp::Or => self.regs[*a].i[0] != 0,
                        _ => false,
                    };
                if absorbed {
                    self.regs[at].i[0] = i64::from(*op == BinaryOp::Or);
                    self.regs[at].uniform = true;
                    return Ok(());
                }
                self.eval_masked(*b, mask)?;
                return self.index(at, *op, *a, *b, mask).ok_or_else(|| InterpError::Undefined {
                    place: self.place.to_string(),
                    expr: e.to_string(),
                });
            }
            Node::UnaryFloat(_, a)
            | Node::UnaryInt(_, a, _)
            | Node::Round(a, _)
            | Node::ToInt(a, _)
            | Node::ToFloat(a, _)
            | Node::Wrap(a, _)
            | Node::IndexNot(a)
            | Node::IndexAbs(a, _) => self.eval_masked(*a, mask)?,
            Node::BinaryFloat(_, a, b) | Node::BinaryInt(_, a, b, _) | Node::CompareFloat(_, a, b) => {
                self.eval_masked(*a, mask)?;
                self.eval_masked(*b, mask)?;
            }
            Node::Float(_) | Node::Int(_) | Node::Linear(_) | Node::LinearCompare(..) => {}
        }
        let mut out = std::mem::take(&mut self.regs[at]);
        self.apply(&nodes[at], &mut out);
        self.regs[at] = out;
        Ok(())
    }

    /// Applies an operation that cannot fail to operands evaluated before.
    fn apply(&self, node: &Node, out: &mut Lanes) {
        let reg = |a: &usize| &self.regs[*a];
        let lanes = |uniform: bool| if uniform { 1 } else { self.count };
        match node {
            Node::Float(v) => {
                out.uniform = true;
                out.f[0] = *v;
            }
            Node::Int(v) => {
                out.uniform = true;
                out.i[0] = *v;
            }
            Node::Linear(linear) => {
                let (mut v, step) = (linear.at(&self.slots), linear.coefficient(self.lane));
                out.uniform = step == 0;
                for o in &mut out.i[..lanes(step == 0)] {
                    *o = v;
                    v += step;
                }
            }
            Node::LinearCompare(op, linear) => self.linear_compare(*op, linear, out),
            Node::UnaryFloat(op, a) => {
                let a = reg(a);
                out.uniform = a.uniform;
                map(&mut out.f[..lanes(a.uniform)], &a.f, |v| unary_float(*op, v));
            }
            Node::UnaryInt(op, a, d) => {
                let a = reg(a);
                out.uniform = a.uniform;
                map(&mut out.i[..lanes(a.uniform)], &a.i, |v| wrap(unary_int(*op, v), *d));
            }
            Node::Round(a, d) => {
                let a = reg(a);
                out.uniform = a.uniform;
                map(&mut out.f[..lanes(a.uniform)], &a.f, |v| round(v, *d));
            }
            Node::ToInt(a, d) => {
                let a = reg(a);
                out.uniform = a.uniform;
                map(&mut out.i[..lanes(a.uniform)], &a.f, |v| to_int(v, *d));
            }
            Node::ToFloat(a, d) => {
                let a = reg(a);
                out.uniform = a.uniform;
                map(&mut out.f[..lanes(a.uniform)], &a.i, |v| round(v as f64, *d));
            }
            Node::Wrap(a, d) => {
                let a = reg(a);
                out.uniform = a.uniform;
                let n = lanes(a.uniform);
                out.i[..n].copy_from_slice(&a.i[..n]);
                wrap_all(&mut out.i[..n], *d);
            }
            Node::IndexNot(a) => {
                let a = reg(a);
                out.uniform = a.uniform;
                map(&mut out.i[..lanes(a.uniform)], &a.i, |v| i64::from(v == 0));
            }
            Node::IndexAbs(a, _) => {
                let a = reg(a);
                out.uniform = a.uniform;
                map(&mut out.i[..lanes(a.uniform)], &a.i, i64::wrapping_abs);
            }
            Node::BinaryFloat(op, a, b) => {
                let (a, b) = (reg(a), reg(b));
                out.uniform = a.uniform && b.uniform;
                zip_float(*op, &mut out.f[..lanes(out.uniform)], a, b);
            }
            Node::BinaryInt(op, a, b, d) => {
                let (a, b) = (reg(a), reg(b));
                out.uniform = a.uniform && b.uniform;
                let n = lanes(out.uniform);
                zip_int(*op, &mut out.i[..n], a, b);
                wrap_all(&mut out.i[..n], *d);
            }
            Node::CompareFloat(op, a, b) => {
                let (a, b) = (reg(a), reg(b));
                out.uniform = a.uniform && b.uniform;
                let n = lanes(out.uniform);
                zip(&mut out.i[..n], &a.f, a.uniform, &b.f, b.uniform, |x, y| {
                    i64::from(compare_values(*op, x, y))
                });
            }
            Node::Read(_) | Node::Select { .. } | Node::Index(..) => {}
        }
    }

    /// The sign of an affine value at both ends decides most blocks as a whole.
    fn linear_compare(&self, op: BinaryOp, linear: &Linear, out: &mut Lanes) {
        let (first, step) = (linear.at(&self.slots), linear.coefficient(self.lane));
        let last = first + step * (self.count as i64 - 1);
        let test = |v: i64| match op {
            BinaryOp::Lt => v < 0,
            BinaryOp::Le => v <= 0,
            BinaryOp::Eq => v == 0,
            _ => v != 0,
        };
        out.uniform = step == 0
            || match op {
                BinaryOp::Lt | BinaryOp::Le => test(first) == test(last),
                _ => first.signum() * last.signum() > 0,
            };
        let n = if out.uniform { 1 } else { self.count };
        for (l, o) in out.i[..n].iter_mut().enumerate() {
            *o = i64::from(test(first + step * l as i64));
        }
    }

    /// An operator of index expressions; `None` when an active lane has no value.
    fn index(&mut self, at: usize, op: BinaryOp, a: usize, b: usize, mask: Mask<'_>) -> Option<()> {
        let mut out = std::mem::take(&mut self.regs[at]);
        let (a, b) = (&self.regs[a], &self.regs[b]);
        out.uniform = a.uniform && b.uniform;
        let n = if out.uniform { 1 } else { self.count };
        let mut defined = true;
        for (l, o) in out.i[..n].iter_mut().enumerate() {
            let (x, y) = (a.i[if a.uniform { 0 } else { l }], b.i[if b.uniform { 0 } else { l }]);
            match fold_int(op, x, y) {
                Some(v) => *o = v,
                None if !out.uniform && !active(mask, l) => *o = 0,
                None => defined = false,
            }
        }
        self.regs[at] = out;
        defined.then_some(())
    }

    fn select(
        &mut self,
        at: usize,
        [condition, then, otherwise]: [usize; 3],
        guards: bool,
        mask: Mask<'_>,
    ) -> Result<(), InterpError> {
        self.eval_masked(condition, mask)?;
        let n = self.count;
        let uniform = self.regs[condition].uniform;
        if uniform && guards {
            let chosen = if self.regs[condition].i[0] != 0 { then } else { otherwise };
            self.eval_masked(chosen, mask)?;
            return self.copy(at, chosen);
        }
        let truth: Vec<bool> =
            (0..n).map(|l| self.regs[condition].i[if uniform { 0 } else { l }] != 0).collect();
        if guards {
            let side =
                |want: bool| -> Vec<bool> { (0..n).map(|l| active(mask, l) && truth[l] == want).collect() };
            self.eval_masked(then, Some(&side(true)))?;
            self.eval_masked(otherwise, Some(&side(false)))?;
        } else {
            self.eval_masked(then, mask)?;
            self.eval_masked(otherwise, mask)?;
        }
        let mut out = std::mem::take(&mut self.regs[at]);
        let (a, b) = (&self.regs[then], &self.regs[otherwise]);
        out.uniform = uniform && a.uniform && b.uniform;
        let n = if out.uniform { 1 } else { n };
        let lane = |r: &Lanes, l: usize| if r.uniform { 0 } else { l };
        if out.f.is_empty() {
            for (l, o) in out.i[..n].iter_mut().enumerate() {
                *o = if truth[l] { a.i[lane(a, l)] } else { b.i[lane(b, l)] };
            }
        } else {
            for (l, o) in out.f[..n].iter_mut().enumerate() {
                *o = if truth[l] { a.f[lane(a, l)] } else { b.f[lane(b, l)] };
            }
        }
        self.regs[at] = out;
        Ok(())
    }

    fn copy(&mut self, at: usize, from: usize) -> Result<(), InterpError> {
        let mut out = std::mem::take(&mut self.regs[at]);
        let from = &self.regs[from];
        out.uniform = from.uniform;
        let n = if out.uniform { 1 } else { self.count };
        if out.f.is_empty() {
            out.i[..n].copy_from_slice(&from.i[..n]);
        } else {
            out.f[..n].copy_from_slice(&from.f[..n]);
        }
        self.regs[at] = out;
        Ok(())
    }

    fn read(&mut self, at: usize, read: &Read, mask: Mask<'_>) -> Result<(), InterpError> {
        if let Some(access) = &read.affine
            && self.inside(access)
        {
            let mut out = std::mem::take(&mut self.regs[at]);
            let (offset, stride) = (access.offset.at(&self.slots), access.offset.coefficient(self.lane));
            out.uniform = stride == 0;
            let n = if out.uniform { 1 } else { self.count };
            match self.views[read.tensor.index()] {
                Some(View::F32(v)) => gather(v, offset, stride, &mut out.f[..n], f64::from),
                Some(View::I32(v)) => gather(v, offset, stride, &mut out.i[..n], i64::from),
                Some(View::I64(v)) => gather(v, offset, stride, &mut out.i[..n], |v| v),
                None => return Err(self.missing(read)),
            }
            self.regs[at] = out;
            return Ok(());
        }
        let mut flat = std::mem::take(&mut self.flat);
        let uniform = self.positions(read, &mut flat, mask);
        let result = uniform.and_then(|uniform| {
            let mut out = std::mem::take(&mut self.regs[at]);
            out.uniform = uniform;
            let n = if uniform { 1 } else { self.count };
            match self.views[read.tensor.index()] {
                Some(View::F32(v)) => scatter_gather(v, &flat, &mut out.f[..n], f64::from),
                Some(View::I32(v)) => scatter_gather(v, &flat, &mut out.i[..n], i64::from),
                Some(View::I64(v)) => scatter_gather(v, &flat, &mut out.i[..n], |v| v),
                None => return Err(self.missing(read)),
            }
            self.regs[at] = out;
            Ok(())
        });
        self.flat = flat;
        result
    }

    /// Whether every lane of an affine access lies inside; affine values are extreme at the ends.
    fn inside(&self, access: &AffineAccess) -> bool {
        access.checks.iter().all(|(linear, extent)| {
            let first = linear.at(&self.slots);
            let last = first + linear.coefficient(self.lane) * (self.count as i64 - 1);
            (0..*extent).contains(&first) && (0..*extent).contains(&last)
        })
    }

    /// Flat positions of a read in every active lane, -1 in the others; gives whether all lanes read one element.
    fn positions(&mut self, read: &Read, flat: &mut [i64], mask: Mask<'_>) -> Result<bool, InterpError> {
        let mut uniform = true;
        for dim in &read.dims {
            self.eval_masked(*dim, mask)?;
            uniform &= self.regs[*dim].uniform;
        }
        let operand = &self.operands[read.tensor.index()];
        let shape = operand.shape.as_deref().unwrap_or(&[]);
        let n = if uniform { 1 } else { self.count };
        for (l, position) in flat[..n].iter_mut().enumerate() {
            *position = -1;
            let needed = if uniform { (0..self.count).any(|l| active(mask, l)) } else { active(mask, l) };
            if !needed {
                continue;
            }
            let index = |dim: &usize| {
                let r = &self.regs[*dim];
                r.i[if r.uniform { 0 } else { l }]
            };
            let mut sum = 0;
            for (dim, extent) in read.dims.iter().zip(shape) {
                let i = index(dim);
                if !(0..*extent).contains(&i) {
                    return Err(InterpError::OutOfBounds {
                        place: self.place.to_string(),
                        tensor: operand.name.clone(),
                        index: read.dims.iter().map(index).collect(),
                        shape: shape.to_vec(),
                    });
                }
                sum = sum * extent + i;
            }
            *position = sum;
        }
        Ok(uniform)
    }

    fn missing(&self, read: &Read) -> InterpError {
        InterpError::Missing { name: self.operands[read.tensor.index()].name.clone() }
    }
}
