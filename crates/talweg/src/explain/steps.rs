//! The loops before and after each step of a schedule.
//!
//! Every step is applied to the schedule so far and the result is lowered; what differs between the two nests is said
//! buffer by buffer: the loops around its stores, outermost first, and where its memory is.
//!
//! ```text
//! split C i [8]        C += i:512, j:512, k:512  ->  i.0:64, i.1:8, j:512, k:512
//! ```

use serde::Serialize;
use talweg_expr::Expr;
use talweg_ir::{Dag, Loop, LoopKind, Nest, Role, Stmt, TensorId};
use talweg_schedule::{Schedule, ScheduleError, Step, Trace};

/// One step with everything it changes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StepChanges {
    /// The step.
    pub step: String,
    /// What it means, in a few words.
    pub meaning: String,
    /// What differs after it.
    pub changes: Vec<Change>,
    /// The whole nest before it.
    #[serde(skip)]
    pub before: String,
    /// The whole nest after it.
    #[serde(skip)]
    pub after: String,
}

/// Something that a step changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// A store (`C`, `C +=`) or a buffer (`memory of C`).
    pub what: String,
    /// The loops around it, or the memory, before; nothing if the step makes it.
    pub before: Option<String>,
    /// After; nothing if the step removes it.
    pub after: Option<String>,
}

/// What each step of a trace changes.
pub fn changes(dag: &Dag, trace: &Trace) -> Result<Vec<StepChanges>, ScheduleError> {
    let mut schedule = Schedule::new(dag.clone());
    let mut before = schedule.lower()?;
    let mut out = Vec::new();
    for step in &trace.steps {
        schedule.apply(step.clone())?;
        let after = schedule.lower()?;
        out.push(StepChanges {
            step: step.to_string(),
            meaning: meaning(step),
            changes: difference(&facts(&before), &facts(&after)),
            before: before.to_string(),
            after: after.to_string(),
        });
        before = after;
    }
    Ok(out)
}

fn meaning(step: &Step) -> String {
    match step {
        Step::Split { stage, axis, factors } => {
            format!("loop {axis} of {stage} is cut into {} loops", factors.len() + 1)
        }
        Step::Fuse { stage, .. } => format!("loops of {stage} become one"),
        Step::Reorder { stage, .. } => format!("loops of {stage} change places"),
        Step::ComputeAt { stage, target, at } => {
            format!("{stage} is computed inside loop {at} of {target}, as much as that needs")
        }
        Step::Inline { stage } => format!("{stage} is computed where it is read"),
        Step::CacheWrite { stage } => format!("{stage} is computed into a buffer of its own and then copied"),
        Step::CacheRead { tensor, reader } => format!("{reader} reads a copy of {tensor}"),
        Step::Rfactor { stage, axis } => format!("the reduction of {stage} is cut into parts by {axis}"),
        Step::Vectorize { stage, axis } => format!("loop {axis} of {stage} becomes vector lanes"),
        Step::Unroll { stage, axis } => format!("loop {axis} of {stage} is written out"),
        Step::Parallel { stage, axis } => format!("threads share loop {axis} of {stage}"),
        Step::Bind { stage, axis, to } => format!("loop {axis} of {stage} becomes {}", to.name()),
        Step::Pack { tensor, reader } => {
            format!("{tensor} is laid out at build time in the order in which {reader} reads it")
        }
    }
}

/// What is said about a nest: pairs of a subject and its loops or memory, subjects distinct.
fn facts(nest: &Nest) -> Vec<(String, String)> {
    let mut out = Vec::new();
    let mut around = Vec::new();
    visit(nest, &nest.body, &mut around, &mut out);
    for buffer in &nest.buffers {
        let place = match buffer.role {
            Role::Temp => "workspace",
            Role::Local => "scratch of each thread",
            Role::Packed => "laid out at build time",
            Role::Input | Role::Const | Role::Output => continue,
        };
        let shape: Vec<String> = buffer.shape.iter().map(extent).collect();
        out.push((
            format!("memory of {}", buffer.name),
            format!("{place}, {}[{}]", buffer.dtype.name(), shape.join(", ")),
        ));
    }
    out
}

fn visit<'a>(nest: &Nest, body: &'a [Stmt], around: &mut Vec<&'a Loop>, out: &mut Vec<(String, String)>) {
    for stmt in body {
        match stmt {
            Stmt::For(l) => {
                around.push(l);
                visit(nest, &l.body, around, out);
                around.pop();
            }
            Stmt::If { then, otherwise, .. } => {
                visit(nest, then, around, out);
                visit(nest, otherwise, around, out);
            }
            Stmt::Store { buffer, update, .. } => {
                // The store that starts a reduction has the same loops as the reduction, less those it runs over.
                let starts = update.is_none() && is_reduced(&nest.body, *buffer);
                let name = &nest.buffer(*buffer).name;
                let sign = if update.is_some() { " +=" } else { "" };
                let subject = distinct(out, format!("{name}{sign}"));
                if !starts {
                    out.push((subject, path(name, around)));
                }
            }
            Stmt::Alloc(_) => {}
        }
    }
}

/// Whether some statement updates a buffer.
fn is_reduced(body: &[Stmt], buffer: TensorId) -> bool {
    body.iter().any(|stmt| match stmt {
        Stmt::For(l) => is_reduced(&l.body, buffer),
        Stmt::If { then, otherwise, .. } => is_reduced(then, buffer) || is_reduced(otherwise, buffer),
        Stmt::Store { buffer: to, update, .. } => *to == buffer && update.is_some(),
        Stmt::Alloc(_) => false,
    })
}

/// The subject, with a number if there is one of that name already.
fn distinct(known: &[(String, String)], subject: String) -> String {
    let taken = |name: &str| known.iter().any(|(k, _)| k == name);
    let mut name = subject.clone();
    let mut number = 2;
    while taken(&name) {
        name = format!("{subject} ({number})");
        number += 1;
    }
    name
}

/// Loops, outermost first: how each runs, its name without the stage it belongs to if that is the store's own, and its
/// extent on a full tile.
fn path(stage: &str, around: &[&Loop]) -> String {
    let own = format!("{stage}.");
    let loops = around.iter().map(|l| {
        let kind = match l.kind {
            LoopKind::Serial => "",
            LoopKind::Parallel => "parallel ",
            LoopKind::Vectorize => "vectorize ",
            LoopKind::Unroll => "unroll ",
            LoopKind::Bind(axis) => axis.name(),
        };
        let space = if matches!(l.kind, LoopKind::Bind(_)) { " " } else { "" };
        let name = l.var.name();
        format!("{kind}{space}{}:{}", name.strip_prefix(&own).unwrap_or(name), extent(&l.extent))
    });
    let text = loops.collect::<Vec<_>>().join(", ");
    if text.is_empty() { "no loop".into() } else { text }
}

/// An extent as a number; that of a full tile where it depends on other loops; a formula where knobs are open.
fn extent(e: &Expr) -> String {
    e.as_int()
        .or_else(|| e.eval(&|s| (!s.is_knob()).then_some(0)))
        .map_or_else(|| e.to_string(), |n| n.to_string())
}

fn difference(before: &[(String, String)], after: &[(String, String)]) -> Vec<Change> {
    let find = |facts: &[(String, String)], what: &str| {
        facts.iter().find(|(subject, _)| subject == what).map(|(_, fact)| fact.clone())
    };
    let mut out = Vec::new();
    for (what, fact) in after {
        let old = find(before, what);
        if old.as_ref() != Some(fact) {
            out.push(Change { what: what.clone(), before: old, after: Some(fact.clone()) });
        }
    }
    for (what, fact) in before {
        if find(after, what).is_none() {
            out.push(Change { what: what.clone(), before: Some(fact.clone()), after: None });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use talweg_ops::Spec;

    use super::*;

    fn changed(steps: &str) -> Vec<StepChanges> {
        let dag = Spec::parse("matmul:m=64,n=64,k=32").expect("an operator").build().expect("a program");
        changes(&dag, &Trace::parse(steps).expect("steps")).expect("a legal schedule")
    }

    #[test]
    fn a_split_shows_the_loop_and_its_parts() {
        let steps = changed("split matmul i [14]");
        let change = &steps[0].changes[0];
        assert_eq!(change.what, "matmul +=");
        assert_eq!(change.before.as_deref(), Some("i:64, j:64, k:32"));
        assert_eq!(change.after.as_deref(), Some("i.0:5, i.1:14, j:64, k:32"));
        assert_eq!(steps[0].changes.len(), 1, "{:?}", steps[0].changes);
    }

    #[test]
    fn annotations_caches_and_layouts_are_named() {
        let steps = changed(
            "cache_write matmul\nsplit matmul i [8]\ncompute_at matmul.local matmul i.0\npack B matmul.local\n\
             vectorize matmul j\nparallel matmul i.0",
        );
        let said = |at: usize| format!("{:?}", steps[at].changes);
        assert!(
            said(0).contains("matmul.local +=") && said(0).contains("memory of matmul.local"),
            "{}",
            said(0)
        );
        assert!(said(2).contains("scratch of each thread"), "{}", said(2));
        assert!(said(3).contains("memory of B.packed"), "{}", said(3));
        assert!(said(4).contains("vectorize j:64"), "{}", said(4));
        assert!(said(5).contains("parallel i.0:8"), "{}", said(5));
        assert!(steps.windows(2).all(|w| w[0].after == w[1].before));
    }

    #[test]
    fn what_is_inlined_goes_away() {
        let spec = "conv2d:h=8,w=8,c=4,f=4,k=3,p=1";
        let dag = Spec::parse(spec).expect("an operator").build().expect("a program");
        let steps = changes(&dag, &Trace::parse("inline X.pad").expect("a step")).expect("a legal schedule");
        let gone = |c: &&Change| c.what == "X.pad" && c.before.is_some() && c.after.is_none();
        assert_eq!(steps[0].changes.iter().filter(gone).count(), 1, "{:?}", steps[0].changes);
    }
}
