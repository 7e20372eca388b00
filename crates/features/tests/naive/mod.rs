//! Features of a concrete nest by walking its loops with numbers: regions are found by running the loops and looking
//! where the indices go, nothing is derived from formulas.

use std::collections::{BTreeMap, BTreeSet};

use talweg_expr::{BinaryOp, Expr, Node, Symbol};
use talweg_ir::{ArithOp, DType, MathOp, Nest, Reducer, Scalar, Stmt, TensorId};

/// A store with the loops around it.
struct Place {
    buffer: TensorId,
    indices: Vec<Expr>,
    value: Scalar,
    update: Option<Reducer>,
    loops: Vec<(Symbol, i64)>,
    allocated: usize,
}

/// The features of one store before the logarithm, by name.
pub struct Naive {
    /// Values by feature name.
    pub values: BTreeMap<String, f64>,
    /// Whether all indices are of a form for which boxes are exact.
    pub exact: bool,
}

/// Stores with more iterations are not run.
const MOST_ITERATIONS: i64 = 4000;

/// The features of every store, or `None` for those that run too long.
pub fn extract(nest: &Nest, line: f64) -> Vec<Option<Naive>> {
    let mut places = Vec::new();
    walk(&nest.body, &mut Vec::new(), &mut Vec::new(), &mut places);
    (0..places.len())
        .map(|at| {
            let small =
                |p: &Place| p.loops.iter().map(|l| l.1 as f64).product::<f64>() < MOST_ITERATIONS as f64;
            (small(&places[at]) && relatives(&places, at).iter().all(|o| small(&places[*o])))
                .then(|| features(nest, &places, at, line))
        })
        .collect()
}

fn walk(
    stmts: &[Stmt],
    loops: &mut Vec<(Symbol, i64)>,
    live: &mut Vec<(TensorId, usize)>,
    out: &mut Vec<Place>,
) {
    let before = live.len();
    for s in stmts {
        match s {
            Stmt::For(l) => {
                let extent = l.extent.eval(&|_| Some(0)).expect("a concrete extent");
                loops.push((l.var.clone(), extent));
                walk(&l.body, loops, live, out);
                loops.pop();
            }
            Stmt::If { then, otherwise, .. } => {
                walk(then, loops, live, out);
                walk(otherwise, loops, live, out);
            }
            Stmt::Alloc(b) => live.push((*b, loops.len())),
            Stmt::Store { buffer, indices, value, update } => out.push(Place {
                buffer: *buffer,
                indices: indices.clone(),
                value: value.clone(),
                update: *update,
                loops: loops.clone(),
                allocated: live.iter().rev().find(|l| l.0 == *buffer).map_or(0, |l| l.1),
            }),
        }
    }
    live.truncate(before);
}

/// Buffers in order of first access, each with its index lists.
fn accesses(p: &Place) -> Vec<(TensorId, Vec<Vec<Expr>>)> {
    let mut out = vec![(p.buffer, vec![p.indices.clone()])];
    for (t, indices) in p.value.reads() {
        match out.iter_mut().find(|(b, _)| *b == t) {
            Some((_, lists)) => lists.push(indices),
            None => out.push((t, vec![indices])),
        }
    }
    out
}

fn relatives(places: &[Place], at: usize) -> Vec<usize> {
    let mine: Vec<TensorId> = accesses(&places[at]).iter().map(|a| a.0).collect();
    let touches = |o: &usize| accesses(&places[*o]).iter().any(|a| mine.contains(&a.0));
    (0..places.len()).filter(|o| *o != at).filter(touches).collect()
}

/// Runs the loops from `level` inwards, the others at zero, and reports the values of each index.
fn reached(p: &Place, level: usize, indices: &[Expr]) -> Vec<BTreeSet<i64>> {
    let mut counter = vec![0i64; p.loops.len()];
    let mut out = vec![BTreeSet::new(); indices.len()];
    loop {
        let at = |s: &Symbol| p.loops.iter().position(|l| l.0 == *s).map(|k| counter[k]);
        for (values, e) in out.iter_mut().zip(indices) {
            values.insert(e.eval(&at).expect("a concrete index"));
        }
        let mut k = p.loops.len();
        loop {
            if k == level {
                return out;
            }
            k -= 1;
            counter[k] += 1;
            if counter[k] < p.loops[k].1 {
                break;
            }
            counter[k] = 0;
        }
    }
}

fn shape(nest: &Nest, buffer: TensorId) -> Vec<i64> {
    nest.buffer(buffer).shape.iter().map(|e| e.as_int().expect("a concrete shape")).collect()
}

/// The box around everything a store reaches in a buffer; how many values each index takes, where boxes are not exact.
fn cover(nest: &Nest, p: &Place, level: usize, buffer: TensorId, lists: &[Vec<Expr>]) -> Vec<i64> {
    let all: Vec<Vec<BTreeSet<i64>>> = lists.iter().map(|l| reached(p, level, l)).collect();
    let shape = shape(nest, buffer);
    (0..shape.len())
        .map(|d| {
            let values: BTreeSet<i64> = all.iter().flat_map(|access| &access[d]).copied().collect();
            let (low, high) = (values.first().expect("an access"), values.last().expect("an access"));
            let count = if is_exact(lists) { high - low + 1 } else { values.len() as i64 };
            count.min(shape[d])
        })
        .collect()
}

fn bytes_at(nest: &Nest, p: &Place, level: usize) -> f64 {
    accesses(p)
        .iter()
        .map(|(b, lists)| {
            let elements: i64 = cover(nest, p, level, *b, lists).iter().product();
            (elements * nest.buffer(*b).dtype.bytes() as i64) as f64
        })
        .sum()
}

fn address(nest: &Nest, buffer: TensorId, indices: &[Expr], at: &dyn Fn(&Symbol) -> Option<i64>) -> i64 {
    let shape = shape(nest, buffer);
    indices.iter().zip(shape).fold(0, |a, (e, n)| a * n + e.eval(at).expect("a concrete index"))
}

/// Lines under a box at the buffer's origin: the box is filled in, and every contiguous run counted.
fn lines_of_box(shape: &[i64], cover: &[i64], per_line: f64) -> f64 {
    let mut addresses = vec![0i64];
    for (n, c) in shape.iter().zip(cover) {
        addresses = addresses.iter().flat_map(|a| (0..*c).map(move |i| a * n + i)).collect();
    }
    let (mut lines, mut run) = (0.0, 0.0);
    for (k, a) in addresses.iter().enumerate() {
        run += 1.0;
        if addresses.get(k + 1) != Some(&(a + 1)) {
            lines += f64::ceil(run / per_line);
            run = 0.0;
        }
    }
    lines
}

fn features(nest: &Nest, places: &[Place], at: usize, line: f64) -> Naive {
    let p = &places[at];
    let mut values = BTreeMap::new();
    let product = |loops: &[(Symbol, i64)]| loops.iter().map(|l| l.1 as f64).product::<f64>();
    let iterations = product(&p.loops);
    for (name, count) in operations(nest, p) {
        values.insert(name, count * iterations);
    }
    let elements = shape(nest, p.buffer).iter().product::<i64>() as f64;
    let outer = product(&p.loops[..p.allocated]);
    values.insert("alloc.bytes".into(), elements * nest.buffer(p.buffer).dtype.bytes() as f64);
    values.insert("alloc.elements_by_outer".into(), elements * outer);
    values.insert("alloc.outer".into(), outer);
    values.insert("alloc.inner".into(), iterations / outer);
    values.insert("outer.product".into(), iterations);
    values.insert("outer.loops".into(), p.loops.len() as f64);
    for (k, (buffer, lists)) in accesses(p).iter().enumerate().take(5) {
        let mut set = |name: &str, v: f64| values.insert(format!("b{k}.{name}"), v);
        let element = nest.buffer(*buffer).dtype.bytes() as f64;
        let all = cover(nest, p, 0, *buffer, lists);
        let unique = all.iter().product::<i64>() as f64 * element;
        let origin = address(nest, *buffer, &lists[0], &|_| Some(0));
        let (mut stride, mut trips) = (0.0, 0.0);
        for (level, (var, extent)) in p.loops.iter().enumerate().rev() {
            let next = address(nest, *buffer, &lists[0], &|s| Some(i64::from(s == var)));
            if *extent > 1 && next != origin {
                (stride, trips) = ((next - origin).abs() as f64, product(&p.loops[..=level]));
                break;
            }
        }
        let lines = f64::max(1.0, trips * f64::min(1.0, stride * element / line));
        let unique_lines = lines_of_box(&shape(nest, *buffer), &all, line / element);
        let (kind, distance, reach, count) = reuse(nest, places, at, *buffer, lists);
        let per = if kind == "none" { 0.5 } else { count };
        for (name, v) in [
            ("bytes", iterations * element),
            ("unique_bytes", unique),
            ("lines", lines),
            ("unique_lines", unique_lines),
        ] {
            set(name, v);
            set(&format!("{name}_per_reuse"), v / per);
        }
        set("stride", stride);
        for name in ["by_loop", "by_statement", "none"] {
            set(&format!("reuse_{name}"), f64::from(u8::from(name == kind)));
        }
        set("reuse_iterations", distance);
        set("reuse_bytes", reach);
        set("reuse_count", count);
    }
    let related: Vec<usize> = relatives(places, at).into_iter().chain([at]).collect();
    let exact = related.iter().all(|o| accesses(&places[*o]).iter().all(|a| is_exact(&a.1)));
    Naive { values, exact }
}

fn reuse(
    nest: &Nest,
    places: &[Place],
    at: usize,
    buffer: TensorId,
    lists: &[Vec<Expr>],
) -> (&'static str, f64, f64, f64) {
    let p = &places[at];
    let inner = |p: &Place, level: usize| p.loops[level..].iter().map(|l| l.1 as f64).product::<f64>();
    for (level, (var, extent)) in p.loops.iter().enumerate().rev() {
        let value = |e: &Expr, v: i64| e.eval(&|s| Some(if s == var { v } else { 0 }));
        let stays = lists.iter().flatten().all(|e| (0..*extent).all(|v| value(e, v) == value(e, 0)));
        if *extent > 1 && stays {
            return ("by_loop", inner(p, level + 1), bytes_at(nest, p, level + 1), *extent as f64);
        }
    }
    let shared = |o: &usize| p.loops.iter().zip(&places[*o].loops).take_while(|(a, b)| a.0 == b.0).count();
    let others: Vec<usize> = (0..places.len())
        .filter(|o| *o != at && accesses(&places[*o]).iter().any(|a| a.0 == buffer))
        .collect();
    let Some(most) = others.iter().map(shared).max() else { return ("none", 0.0, 0.0, 0.0) };
    // Of equally near ones the later statement comes last and wins.
    let closest =
        others.iter().filter(|o| shared(o) == most).map(|o| o.abs_diff(at)).min().expect("one exists");
    let o = *others.iter().rfind(|o| shared(o) == most && o.abs_diff(at) == closest).expect("one exists");
    (
        "by_statement",
        inner(p, most) + inner(&places[o], most),
        bytes_at(nest, p, most) + bytes_at(nest, &places[o], most),
        others.len() as f64,
    )
}

/// Whether the span of every index is attained: sums of multiples of a variable, of its quotient or remainder, each
/// variable once; several accesses only with the same or growing terms.
fn is_exact(lists: &[Vec<Expr>]) -> bool {
    fn chain(e: &Expr) -> bool {
        match e.node() {
            Node::Sym(_) => true,
            Node::Binary(BinaryOp::FloorDiv | BinaryOp::Mod, a, b) => chain(a) && b.as_int().is_some(),
            _ => false,
        }
    }
    fn sum(e: &Expr, falling: &mut bool) -> bool {
        match e.node() {
            Node::Int(_) => true,
            Node::Binary(BinaryOp::Add, a, b) => sum(a, falling) && sum(b, falling),
            Node::Binary(BinaryOp::Mul, a, b) => {
                *falling |= b.as_int().is_some_and(|c| c < 0);
                b.as_int().is_some() && chain(a)
            }
            _ => chain(e),
        }
    }
    let once = |e: &Expr| {
        let mut occurrences = 0;
        e.visit_symbols(&mut |_| occurrences += 1);
        occurrences == e.symbols().len()
    };
    let mut falling = false;
    lists.iter().flatten().all(|e| once(e) && sum(e, &mut falling)) && (lists.len() == 1 || !falling)
}

/// Operations of one run of the store, by feature name.
fn operations(nest: &Nest, p: &Place) -> BTreeMap<String, f64> {
    let mut found: Vec<(&str, DType)> = Vec::new();
    // `buffer = update(buffer, value)` is counted as the expression it stands for.
    let whole = match p.update {
        Some(r) => Scalar::binary(r.op(), Scalar::Read(p.buffer, p.indices.clone()), p.value.clone()),
        None => p.value.clone(),
    };
    let of = |t: TensorId| nest.buffer(t).dtype;
    collect(&whole, &of, &mut found);
    let mut out = BTreeMap::new();
    for name in ["multiply_add", "add_sub", "mul", "div_mod", "compare", "math", "other"] {
        let count = |is: fn(DType) -> bool| found.iter().filter(|(n, d)| *n == name && is(*d)).count() as f64;
        out.insert(format!("float.{name}"), count(DType::is_float));
        out.insert(format!("int.{name}"), count(DType::is_int));
    }
    let truth = found.iter().filter(|(n, d)| *n == "bool" || (*d == DType::Bool && *n != "select")).count();
    out.insert("bool".into(), truth as f64);
    out.insert("select".into(), found.iter().filter(|(n, _)| *n == "select").count() as f64);
    out
}

fn collect(s: &Scalar, of: &dyn Fn(TensorId) -> DType, out: &mut Vec<(&'static str, DType)>) {
    use ArithOp::{Add, And, Div, Mul, Or, Pow, Rem, Sub};
    match s {
        Scalar::Float(..) | Scalar::Int(..) | Scalar::Read(..) => {}
        Scalar::Index(..) => out.extend((s.dtype(of) == DType::Bool).then_some(("bool", DType::Bool))),
        Scalar::Unary(op, a) => {
            let name = match op {
                MathOp::Not => "bool",
                MathOp::Neg => "add_sub",
                MathOp::Abs | MathOp::Floor | MathOp::Ceil | MathOp::Round => "other",
                _ => "math",
            };
            out.push((name, a.dtype(of)));
            collect(a, of, out);
        }
        Scalar::Binary(op, a, b) => {
            let name = match op {
                Add | Sub => "add_sub",
                Mul => "mul",
                Div | Rem => "div_mod",
                Pow => "math",
                And | Or => "bool",
                _ => "compare",
            };
            let dtype = a.dtype(of);
            let is_product = |s: &Scalar| matches!(s, Scalar::Binary(Mul, ..));
            let merged = matches!(op, Add | Sub) && (is_product(a) || is_product(b));
            out.push((if merged { "multiply_add" } else { name }, dtype));
            let mut dropped = !merged;
            for side in [a, b] {
                let from = out.len();
                collect(side, of, out);
                if !dropped && is_product(side) {
                    out.remove(from);
                    dropped = true;
                }
            }
        }
        Scalar::Select(c, a, b) => {
            out.push(("select", DType::Bool));
            [c, a, b].into_iter().for_each(|s| collect(s, of, out));
        }
        Scalar::Cast(d, a) => {
            out.push(("other", *d));
            collect(a, of, out);
        }
    }
}
