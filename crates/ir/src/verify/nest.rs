//! The rules of nests.

use std::collections::BTreeSet;

use talweg_expr::{Expr, Symbol, Ty};

use super::prove::Domain;
use super::race::collision;
use super::types::{Scope, Shaped, check_binder, check_int, check_shape};
use super::{Report, Rule, Violation};
use crate::nest::{Loop, LoopKind, Nest, Pack, Role, Stmt};
use crate::scalar::{Scalar, TensorId};

/// Checks all rules of a nest; gives every violation found.
pub fn verify_nest(nest: &Nest) -> Result<(), Vec<Violation>> {
    let mut report = Report::default();
    let shaped: Vec<Shaped<'_>> =
        nest.buffers.iter().map(|b| Shaped { name: &b.name, dtype: b.dtype, shape: &b.shape }).collect();
    let mut names = BTreeSet::new();
    for b in &nest.buffers {
        report.place = format!("buffer `{}`", b.name);
        if b.name.is_empty() || !names.insert(&b.name) {
            report.add(Rule::Names, "the name is empty or taken", "give every buffer a name of its own");
        }
        check_shape(&b.shape, &mut report);
    }
    for p in &nest.packs {
        pack(p, nest, &mut report);
    }
    for id in nest.ids() {
        let b = nest.buffer(id);
        let count = nest.packs.iter().filter(|p| p.packed == id).count();
        if b.role == Role::Packed && count != 1 {
            report.place = format!("buffer `{}`", b.name);
            report.add(Rule::Packs, format!("{count} packs fill it"), "fill every packed buffer by one pack");
        }
    }
    report.place = format!("nest `{}`", nest.name);
    if !nest.buffers.iter().any(|b| b.role == Role::Output) {
        report.add(Rule::Roles, "no buffer is an output", "give the nest an output");
    }
    let mut walk = Walk {
        nest,
        scope: Scope { tensors: &shaped, domain: Domain::default() },
        loops: Vec::new(),
        bound: BTreeSet::new(),
        live: Vec::new(),
        report,
    };
    walk.block(&nest.body);
    walk.report.result()
}

fn pack(p: &Pack, nest: &Nest, report: &mut Report) {
    let found = |id: TensorId| nest.buffers.get(id.index());
    let (Some(packed), Some(source)) = (found(p.packed), found(p.source)) else {
        report.place = "a pack".into();
        report.add(Rule::Reference, "a pack of a buffer that does not exist", "use ids of this nest");
        return;
    };
    report.place = format!("pack of `{}`", packed.name);
    if packed.role != Role::Packed || source.role != Role::Const || packed.dtype != source.dtype {
        let what = format!(
            "fills role {} of {} from role {} of {}",
            packed.role, packed.dtype, source.role, source.dtype
        );
        report.add(Rule::Packs, what, "fill a packed buffer from a const of the same type");
    }
    if p.axes.len() != packed.shape.len() || p.indices.len() != source.shape.len() {
        report.add(
            Rule::Rank,
            "the axes or indices do not match the dimensions",
            "give one axis for each dimension filled and one index for each dimension read",
        );
    }
    let axes: BTreeSet<&Symbol> = p.axes.iter().collect();
    if axes.len() != p.axes.len() {
        report.add(Rule::Variables, "an axis occurs twice", "rename one of them");
    }
    for a in &p.axes {
        check_binder(a, report);
    }
    for e in &p.indices {
        if check_int(e, "index", &|s| axes.contains(s), report) && e.affine(&p.axes).is_none() {
            report.add(Rule::Packs, format!("index `{e}` is not affine"), "use sums of axes times constants");
        }
    }
}

/// The state while walking down the statements.
struct Walk<'a> {
    nest: &'a Nest,
    scope: Scope<'a>,
    /// The loops around, outermost first.
    loops: Vec<&'a Loop>,
    /// All loop variables seen so far.
    bound: BTreeSet<&'a Symbol>,
    /// Locals alive, each with the number of parallel loops around its allocation.
    live: Vec<(TensorId, usize)>,
    report: Report,
}

impl<'a> Walk<'a> {
    fn place(&mut self, what: String) {
        let path: Vec<String> = self.loops.iter().map(|l| format!("{} {}", l.kind, l.var)).collect();
        self.report.place = if path.is_empty() { what } else { format!("{}: {what}", path.join(" > ")) };
    }

    fn name(&self, id: TensorId) -> &'a str {
        self.nest.buffers.get(id.index()).map_or("?", |b| &b.name)
    }

    fn parallel_depth(&self) -> usize {
        self.loops.iter().filter(|l| l.kind == LoopKind::Parallel).count()
    }

    fn block(&mut self, body: &'a [Stmt]) {
        let alive = self.live.len();
        for s in body {
            match s {
                Stmt::For(l) => self.enter_loop(l),
                Stmt::If { condition, then, otherwise } => {
                    self.place(format!("if `{condition}`"));
                    self.scope.condition(condition, &mut self.report);
                    for (holds, branch) in [(true, then), (false, otherwise)] {
                        let outside = self.scope.domain.clone();
                        self.scope.domain.assume(condition, holds);
                        self.block(branch);
                        self.scope.domain = outside;
                    }
                }
                Stmt::Alloc(id) => self.alloc(*id),
                Stmt::Store { .. } => self.store(s),
            }
        }
        self.live.truncate(alive);
    }

    fn enter_loop(&mut self, l: &'a Loop) {
        self.place(format!("{} {}", l.kind, l.var));
        check_binder(&l.var, &mut self.report);
        if !self.bound.insert(&l.var) {
            let what = format!("variable `{}` is bound twice", l.var);
            self.report.add(Rule::Variables, what, "rename one of the loops");
        }
        let domain = &self.scope.domain;
        let legal = check_int(&l.extent, "extent", &|s| domain.binds(s), &mut self.report);
        if legal
            && matches!(l.kind, LoopKind::Vectorize | LoopKind::Unroll)
            && !domain.involves_knobs(&l.extent)
            && l.extent.as_int().is_none()
        {
            let what = format!("extent `{}` is not constant", l.extent);
            self.report.add(
                Rule::Constant,
                what,
                "make the loop serial, or split it so that its extent is constant",
            );
        }
        if l.kind == LoopKind::Parallel
            && let Some(outer) = self
                .loops
                .iter()
                .find(|o| matches!(o.kind, LoopKind::Parallel | LoopKind::Vectorize | LoopKind::Unroll))
        {
            let what = format!("a parallel loop inside the {} loop `{}`", outer.kind, outer.var);
            self.report.add(Rule::Nesting, what, "fuse the loops, or make one serial");
        }
        let outside = self.scope.domain.clone();
        self.scope.domain.bind(&l.var, &l.extent);
        self.loops.push(l);
        self.block(&l.body);
        self.loops.pop();
        self.scope.domain = outside;
    }

    fn alloc(&mut self, id: TensorId) {
        self.place(format!("alloc {}", self.name(id)));
        let Some(b) = self.nest.buffers.get(id.index()) else {
            let what = format!("buffer {} does not exist", id.0);
            self.report.add(Rule::Reference, what, "use ids of this nest");
            return;
        };
        if b.role != Role::Local {
            let what = format!("`{}` has the role {}", b.name, b.role);
            self.report.add(Rule::Locals, what, "allocate locals only");
        }
        if self.live.iter().any(|(l, _)| *l == id) {
            let what = format!("`{}` is alive already", b.name);
            self.report.add(Rule::Locals, what, "allocate it once, where it begins to live");
        }
        self.live.push((id, self.parallel_depth()));
    }

    /// Rule N3 on one access.
    fn check_alive(&mut self, id: TensorId) {
        let Some(b) = self.nest.buffers.get(id.index()).filter(|b| b.role == Role::Local) else { return };
        match self.live.iter().find(|(l, _)| *l == id) {
            None => {
                let what = format!("local `{}` is used where it does not live", b.name);
                self.report.add(Rule::Locals, what, "allocate it before, in this block or one around it");
            }
            Some((_, depth)) if *depth != self.parallel_depth() => {
                let what = format!("local `{}` is used inside a parallel loop and allocated outside", b.name);
                self.report.add(Rule::Locals, what, "allocate it inside the loop, or make it a temp");
            }
            Some(_) => {}
        }
    }

    fn store(&mut self, s: &'a Stmt) {
        let Stmt::Store { buffer, indices, value, update } = s else { return };
        self.place(format!("store to {}", self.name(*buffer)));
        let to = self.scope.access(*buffer, indices, &mut self.report);
        let dtype = self.scope.value(value, &mut self.report);
        let Some(to) = to else { return };
        self.scope.stored(dtype, to, *update, &mut self.report);
        let role = self.nest.buffer(*buffer).role;
        if !matches!(role, Role::Output | Role::Temp | Role::Local) {
            let what = format!("`{}` has the role {role}, which is read only", self.name(*buffer));
            self.report.add(Rule::Roles, what, "store to an output, a temp or a local");
        }
        self.check_alive(*buffer);
        value.visit(&mut |v| {
            if let Scalar::Read(id, _) = v {
                self.check_alive(*id);
            }
        });
        if role != Role::Local {
            self.check_race(*buffer, indices);
        }
    }

    fn check_race(&mut self, buffer: TensorId, indices: &[Expr]) {
        let Some(at) = self.loops.iter().position(|l| l.kind == LoopKind::Parallel) else { return };
        let known = |s: &Symbol| s.is_knob() || self.scope.domain.binds(s);
        if indices.iter().any(|e| e.ty() != Ty::Int || !e.symbols().iter().all(known)) {
            return;
        }
        if let Some(found) = collision(&self.scope.domain, at, indices) {
            let what = format!("{found} of `{}`", self.name(buffer));
            let remedy = "index it by the parallel variable, make it a local, or make the loop serial";
            self.report.add(Rule::Race, what, remedy);
        }
    }
}
