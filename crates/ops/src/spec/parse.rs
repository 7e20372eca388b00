//! Text to [`Spec`].

use talweg_ir::DType;

use super::error::SpecError;
use super::table::{Fallback, OperatorInfo, ParamInfo, ParamKind, operators};
use super::{Spec, Value, describe};
use crate::chain::ChainOp;

impl Spec {
    /// Reads `operator:name=value,name=value,...`. Order does not matter, blanks around names and values are ignored.
    /// The operator is built once, so what comes back is known to fit together.
    pub fn parse(text: &str) -> Result<Spec, SpecError> {
        let (head, rest) = match text.split_once(':') {
            Some((head, rest)) => (head, Some(rest)),
            None => (text, None),
        };
        let name = head.trim();
        let operator = operators().iter().find(|o| o.name == name).ok_or_else(|| {
            let names: Vec<&str> = operators().iter().map(|o| o.name).collect();
            SpecError::UnknownOperator {
                name: name.to_string(),
                column: column(text, head, name),
                suggestion: suggest(name, &names),
                known: names.join(", "),
            }
        })?;
        let mut spec = Spec { operator, values: vec![None; operator.params.len()] };
        let mut given = vec![false; operator.params.len()];
        if let Some(rest) = rest.filter(|r| !r.trim().is_empty()) {
            for piece in rest.split(',') {
                spec.read_piece(text, piece, &mut given)?;
            }
        }
        spec.check_missing(text)?;
        spec.drop_defaults();
        spec.build()?;
        Ok(spec)
    }

    fn read_piece(&mut self, text: &str, piece: &str, given: &mut [bool]) -> Result<(), SpecError> {
        let operator = self.operator;
        let Some((name, value)) = piece.split_once('=') else {
            return Err(SpecError::Syntax {
                piece: piece.trim().to_string(),
                column: column(text, piece, piece.trim()),
                operator: operator.name,
                accepted: accepted(operator),
            });
        };
        let (name, value) = (name.trim(), value.trim());
        let Some(at) = operator.params.iter().position(|p| p.name == name) else {
            let names: Vec<&str> = operator.params.iter().map(|p| p.name).collect();
            return Err(SpecError::UnknownParameter {
                operator: operator.name,
                name: name.to_string(),
                column: column(text, piece, name),
                suggestion: suggest(name, &names),
                accepted: accepted(operator),
            });
        };
        let param = &operator.params[at];
        if given[at] {
            return Err(SpecError::DuplicateParameter {
                name: param.name,
                column: column(text, piece, name),
            });
        }
        given[at] = true;
        self.values[at] = Some(read_value(param, value, column(text, piece, value))?);
        Ok(())
    }

    fn check_missing(&self, text: &str) -> Result<(), SpecError> {
        let mut missing: Vec<&str> = Vec::new();
        for param in &self.operator.params {
            // A value for all axes is needed only while some axis has none of its own.
            let shared = self
                .operator
                .params
                .iter()
                .any(|p| matches!(p.fallback, Fallback::Same(all) if all == param.name));
            if self.get(param.name).is_none() && !shared {
                let needed = match param.fallback {
                    Fallback::Same(all) => all,
                    _ => param.name,
                };
                if !missing.contains(&needed) {
                    missing.push(needed);
                }
            }
        }
        if missing.is_empty() {
            return Ok(());
        }
        let missing: Vec<String> = missing.iter().map(|m| format!("`{m}`")).collect();
        Err(SpecError::MissingParameter {
            operator: self.operator.name,
            missing: missing.join(", "),
            text: text.to_string(),
            example: self.operator.example,
        })
    }

    /// Forgets values that say what the fallback says anyway, so that equal specs print alike.
    fn drop_defaults(&mut self) {
        for at in 0..self.values.len() {
            let param = &self.operator.params[at];
            let fallback = match &param.fallback {
                Fallback::Required => None,
                Fallback::Value(v) => Some(v.clone()),
                Fallback::Same(all) => self.get(all),
            };
            if fallback.is_some() && self.values[at] == fallback {
                self.values[at] = None;
            }
        }
    }
}

fn read_value(param: &ParamInfo, value: &str, column: usize) -> Result<Value, SpecError> {
    let bad = || SpecError::BadValue {
        name: param.name,
        value: value.to_string(),
        column,
        expected: describe(&param.kind),
    };
    match &param.kind {
        ParamKind::Int { min, max } => {
            let v: i64 = value.parse().map_err(|_| bad())?;
            if (*min..=*max).contains(&v) { Ok(Value::Int(v)) } else { Err(bad()) }
        }
        ParamKind::Real { min, max } => {
            let v: f64 = value.parse().map_err(|_| bad())?;
            if (*min..=*max).contains(&v) { Ok(Value::Real(v)) } else { Err(bad()) }
        }
        ParamKind::Word(words) => words.iter().find(|w| **w == value).map(|w| Value::Word(w)).ok_or_else(bad),
        ParamKind::Type(types) => {
            let v: DType = value.parse().map_err(|_| bad())?;
            if types.contains(&v) { Ok(Value::Type(v)) } else { Err(bad()) }
        }
        ParamKind::Chain => read_chain(param.name, value, column),
    }
}

fn read_chain(name: &'static str, value: &str, column: usize) -> Result<Value, SpecError> {
    if value.is_empty() || value == "none" {
        return Ok(Value::Chain(Vec::new()));
    }
    let mut ops = Vec::new();
    let mut at = column;
    for piece in value.split('+') {
        let link = piece.trim();
        let op = ChainOp::parse(link).ok_or_else(|| SpecError::UnknownLink {
            name,
            link: link.to_string(),
            column: at,
            suggestion: suggest(link, &ChainOp::names()),
            known: ChainOp::names().join(", "),
        })?;
        ops.push(op);
        at += piece.chars().count() + 1;
    }
    Ok(Value::Chain(ops))
}

/// The column in `text` of `part`, a slice of `piece`, itself a slice of `text`.
fn column(text: &str, piece: &str, part: &str) -> usize {
    let offset = |inner: &str| (inner.as_ptr() as usize).checked_sub(text.as_ptr() as usize);
    let at = offset(part).or_else(|| offset(piece)).filter(|at| *at <= text.len()).unwrap_or(0);
    text.get(..at).map_or(1, |before| before.chars().count() + 1)
}

/// The parameters of an operator; those that may be left out in brackets.
fn accepted(operator: &OperatorInfo) -> String {
    let show = |p: &ParamInfo| match p.fallback {
        Fallback::Required => p.name.to_string(),
        _ => format!("[{}]", p.name),
    };
    operator.params.iter().map(show).collect::<Vec<_>>().join(", ")
}

/// ` (did you mean ..?)` when a known name is close.
fn suggest(name: &str, known: &[&str]) -> String {
    let close = known.iter().filter_map(|k| {
        let d = distance(name, k);
        (d <= (k.len() / 2).clamp(1, 3)).then_some((d, k.len().abs_diff(name.len()), *k))
    });
    match close.min() {
        Some((.., k)) => format!(" (did you mean `{k}`?)"),
        None => String::new(),
    }
}

/// Edit distance, with names cut to a length beyond which no name is close.
fn distance(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.chars().take(40).collect();
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}
