//! The rules of dags.

use std::collections::BTreeSet;

use super::prove::Domain;
use super::types::{Scope, Shaped, check_binder, check_int, check_positive, check_shape};
use super::{Report, Rule, Violation};
use crate::te::{Compute, Dag, Tensor};

/// Checks all rules of a dag; gives every violation found.
pub fn verify_dag(dag: &Dag) -> Result<(), Vec<Violation>> {
    let mut report = Report::default();
    let tensors: Vec<Shaped<'_>> =
        dag.tensors.iter().map(|t| Shaped { name: &t.name, dtype: t.dtype, shape: &t.shape }).collect();
    let mut names = BTreeSet::new();
    for (at, t) in dag.tensors.iter().enumerate() {
        report.place = format!("tensor `{}`", t.name);
        if t.name.is_empty() || !names.insert(&t.name) {
            report.add(Rule::Names, "the name is empty or taken", "give every tensor a name of its own");
        }
        check_shape(&t.shape, &mut report);
        if let Some(c) = t.compute() {
            compute(c, at, t, &tensors, &mut report);
        }
    }
    report.place = format!("dag `{}`", dag.name);
    if !dag.tensors.iter().any(|t| t.output) {
        report.add(Rule::Output, "no tensor is an output", "mark what the caller wants as output");
    }
    report.result()
}

fn compute(c: &Compute, at: usize, t: &Tensor, tensors: &[Shaped<'_>], report: &mut Report) {
    let mut domain = Domain::default();
    let mut seen = BTreeSet::new();
    for a in c.axes.iter().chain(c.reduce_axes()) {
        check_binder(&a.symbol, report);
        if !seen.insert(&a.symbol) {
            report.add(Rule::Axes, format!("axis `{}` occurs twice", a.symbol), "rename one of them");
        }
        if check_int(&a.extent, "extent of an axis", &|_| false, report) {
            check_positive(&a.extent, report);
        }
        domain.bind(&a.symbol, &a.extent);
    }
    if c.axes.len() != t.shape.len() || c.axes.iter().zip(&t.shape).any(|(a, e)| a.extent != *e) {
        report.add(Rule::Axes, "the shape is not the extents of the axes", "derive the shape from the axes");
    }
    if c.reduction.as_ref().is_some_and(|r| r.axes.is_empty()) {
        report.add(Rule::Axes, "the reduction has no axis", "drop the reduction");
    }
    for (id, _) in c.body.reads() {
        if id.index() >= at
            && let Some(read) = tensors.get(id.index())
        {
            report.add(
                Rule::Order,
                format!("reads `{}`, which does not stand before it", read.name),
                "put every tensor after those it reads",
            );
        }
    }
    let scope = Scope { tensors, domain };
    let dtype = scope.value(&c.body, report);
    scope.stored(dtype, t.dtype, c.reduction.as_ref().map(|r| r.reducer), report);
}
