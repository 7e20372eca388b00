//! Steps as data, and traces: lists of steps that print, parse and replay.
//!
//! One step a line; `#` starts a comment:
//!
//! ```text
//! cache_write C
//! split C i [8, $ti]
//! reorder C i.0 j.0 i.1 j.1
//! fuse C i.0 j.0
//! compute_at C.local C i.0_j.0
//! parallel C i.0_j.0
//! ```

use std::fmt;

use talweg_expr::{Expr, Symbol};
use talweg_ir::ThreadAxis;

use crate::error::ScheduleError;

/// One schedule step; see the module of the same name in [`crate::primitives`] for its meaning.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Step {
    Split { stage: String, axis: String, factors: Vec<Expr> },
    Fuse { stage: String, loops: Vec<String> },
    Reorder { stage: String, loops: Vec<String> },
    ComputeAt { stage: String, target: String, at: String },
    Inline { stage: String },
    CacheWrite { stage: String },
    CacheRead { tensor: String, reader: String },
    Rfactor { stage: String, axis: String },
    Vectorize { stage: String, axis: String },
    Unroll { stage: String, axis: String },
    Parallel { stage: String, axis: String },
    Bind { stage: String, axis: String, to: ThreadAxis },
    Pack { tensor: String, reader: String },
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Split { stage, axis, factors } => {
                let factors: Vec<String> = factors.iter().map(Expr::to_string).collect();
                write!(f, "split {stage} {axis} [{}]", factors.join(", "))
            }
            Step::Fuse { stage, loops } => write!(f, "fuse {stage} {}", loops.join(" ")),
            Step::Reorder { stage, loops } => write!(f, "reorder {stage} {}", loops.join(" ")),
            Step::ComputeAt { stage, target, at } => write!(f, "compute_at {stage} {target} {at}"),
            Step::Inline { stage } => write!(f, "inline {stage}"),
            Step::CacheWrite { stage } => write!(f, "cache_write {stage}"),
            Step::CacheRead { tensor, reader } => write!(f, "cache_read {tensor} {reader}"),
            Step::Rfactor { stage, axis } => write!(f, "rfactor {stage} {axis}"),
            Step::Vectorize { stage, axis } => write!(f, "vectorize {stage} {axis}"),
            Step::Unroll { stage, axis } => write!(f, "unroll {stage} {axis}"),
            Step::Parallel { stage, axis } => write!(f, "parallel {stage} {axis}"),
            Step::Bind { stage, axis, to } => write!(f, "bind {stage} {axis} {}", to.name()),
            Step::Pack { tensor, reader } => write!(f, "pack {tensor} {reader}"),
        }
    }
}

const USAGE: &[(&str, &str)] = &[
    ("split", "split STAGE LOOP [FACTOR, ...]"),
    ("fuse", "fuse STAGE LOOP LOOP ..."),
    ("reorder", "reorder STAGE LOOP ..."),
    ("compute_at", "compute_at STAGE TARGET LOOP"),
    ("inline", "inline STAGE"),
    ("cache_write", "cache_write STAGE"),
    ("cache_read", "cache_read TENSOR READER"),
    ("rfactor", "rfactor STAGE LOOP"),
    ("vectorize", "vectorize STAGE LOOP"),
    ("unroll", "unroll STAGE LOOP"),
    ("parallel", "parallel STAGE LOOP"),
    ("bind", "bind STAGE LOOP block.x|block.y|block.z|thread.x|thread.y|thread.z|vthread"),
    ("pack", "pack TENSOR READER"),
];

impl Step {
    /// Reads one step; `line` is only for the error.
    pub fn parse(text: &str, line: usize) -> Result<Step, ScheduleError> {
        let fail = |message: String| Err(ScheduleError::Parse { line, message });
        let mut words = text.split_whitespace();
        let verb = words.next().unwrap_or("");
        let Some((_, usage)) = USAGE.iter().find(|(name, _)| *name == verb) else {
            let names: Vec<_> = USAGE.iter().map(|(n, _)| *n).collect();
            return fail(format!("`{verb}` is no step; the steps are {}", names.join(", ")));
        };
        let rest: Vec<String> = words.map(str::to_string).collect();
        if verb == "split" {
            return Step::parse_split(text, line, usage);
        }
        let step = match (verb, rest.as_slice()) {
            ("fuse", [stage, loops @ ..]) if loops.len() >= 2 => {
                Step::Fuse { stage: stage.clone(), loops: loops.to_vec() }
            }
            ("reorder", [stage, loops @ ..]) if !loops.is_empty() => {
                Step::Reorder { stage: stage.clone(), loops: loops.to_vec() }
            }
            ("compute_at", [stage, target, at]) => {
                Step::ComputeAt { stage: stage.clone(), target: target.clone(), at: at.clone() }
            }
            ("inline", [stage]) => Step::Inline { stage: stage.clone() },
            ("cache_write", [stage]) => Step::CacheWrite { stage: stage.clone() },
            ("cache_read", [tensor, reader]) => {
                Step::CacheRead { tensor: tensor.clone(), reader: reader.clone() }
            }
            ("rfactor", [stage, axis]) => Step::Rfactor { stage: stage.clone(), axis: axis.clone() },
            ("vectorize", [stage, axis]) => Step::Vectorize { stage: stage.clone(), axis: axis.clone() },
            ("unroll", [stage, axis]) => Step::Unroll { stage: stage.clone(), axis: axis.clone() },
            ("parallel", [stage, axis]) => Step::Parallel { stage: stage.clone(), axis: axis.clone() },
            ("pack", [tensor, reader]) => Step::Pack { tensor: tensor.clone(), reader: reader.clone() },
            ("bind", [stage, axis, to]) => match ThreadAxis::ALL.into_iter().find(|a| a.name() == to) {
                Some(to) => Step::Bind { stage: stage.clone(), axis: axis.clone(), to },
                None => return fail(format!("`{to}` is no thread axis; write `{usage}`")),
            },
            _ => return fail(format!("`{}` has the wrong number of words; write `{usage}`", text.trim())),
        };
        Ok(step)
    }

    fn parse_split(text: &str, line: usize, usage: &str) -> Result<Step, ScheduleError> {
        let fail = |message: String| Err(ScheduleError::Parse { line, message });
        let body = text.trim();
        let (Some(open), Some(close)) = (body.find('['), body.rfind(']')) else {
            return fail(format!("`{body}` has no factors in brackets; write `{usage}`"));
        };
        let head: Vec<&str> = body[..open].split_whitespace().collect();
        let ([_, stage, axis], true) = (head.as_slice(), body[close + 1..].trim().is_empty() && open < close)
        else {
            return fail(format!("`{body}` is not of the form `{usage}`"));
        };
        let mut factors = Vec::new();
        for part in split_commas(&body[open + 1..close]) {
            if part.trim().is_empty() {
                return fail(format!("`{body}` lacks a factor; write `{usage}`"));
            }
            match Expr::parse(part) {
                Ok(e) => factors.push(e),
                Err(e) => return Err(ScheduleError::from_expr(line, part.trim(), &e)),
            }
        }
        Ok(Step::Split { stage: stage.to_string(), axis: axis.to_string(), factors })
    }

    /// Replaces knobs by expressions, usually by their values.
    pub fn subst(&self, by: &dyn Fn(&Symbol) -> Option<Expr>) -> Step {
        match self {
            Step::Split { stage, axis, factors } => Step::Split {
                stage: stage.clone(),
                axis: axis.clone(),
                factors: factors.iter().map(|e| e.subst(by)).collect(),
            },
            other => other.clone(),
        }
    }
}

/// Splits at commas outside parentheses.
fn split_commas(text: &str) -> Vec<&str> {
    let (mut depth, mut from, mut out) = (0, 0, Vec::new());
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                out.push(&text[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    out.push(&text[from..]);
    out
}

/// A list of steps.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trace {
    /// In the order they apply.
    pub steps: Vec<Step>,
}

impl Trace {
    /// Reads a trace: one step a line, `#` comments, blank lines ignored.
    pub fn parse(text: &str) -> Result<Trace, ScheduleError> {
        let mut steps = Vec::new();
        for (at, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or("").trim();
            if !line.is_empty() {
                steps.push(Step::parse(line, at + 1)?);
            }
        }
        Ok(Trace { steps })
    }

    /// Replaces knobs in every step.
    pub fn subst(&self, by: &dyn Fn(&Symbol) -> Option<Expr>) -> Trace {
        Trace { steps: self.steps.iter().map(|s| s.subst(by)).collect() }
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for step in &self.steps {
            writeln!(f, "{step}")?;
        }
        Ok(())
    }
}
