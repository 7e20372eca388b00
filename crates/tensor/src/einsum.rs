//! Subscripts of a sum of products.

use std::collections::BTreeMap;

/// A name of an axis: a letter, or an axis of the ellipsis counted from the right.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Label {
    Ellipsis(usize),
    Letter(char),
}

/// An equation applied to shapes: the labels of every axis of the inputs and the result, and their extents.
pub(crate) struct Subscripts {
    pub(crate) inputs: Vec<Vec<Label>>,
    pub(crate) output: Vec<Label>,
    pub(crate) extents: BTreeMap<Label, usize>,
}

impl Subscripts {
    /// Reads the equation for inputs of the given shapes; the error says what is wrong with it.
    pub(crate) fn new(equation: &str, shapes: &[&[usize]]) -> Result<Subscripts, String> {
        let text: String = equation.chars().filter(|c| !c.is_whitespace()).collect();
        let Some((left, right)) = text.split_once("->") else {
            return Err(format!("the equation `{equation}` has no arrow"));
        };
        let terms: Vec<&str> = left.split(',').collect();
        if terms.len() != shapes.len() {
            return Err(format!("`{equation}` has {} terms for {} inputs", terms.len(), shapes.len()));
        }
        let mut widest = 0;
        let mut inputs = Vec::new();
        let mut extents: BTreeMap<Label, usize> = BTreeMap::new();
        for (i, (term, shape)) in terms.iter().zip(shapes).enumerate() {
            let letters = term.replacen("...", "", 1).chars().count();
            let dots = term.contains("...");
            if letters > shape.len() || (!dots && letters != shape.len()) {
                return Err(format!(
                    "term `{term}` of `{equation}` does not fit input {i} of shape {shape:?}"
                ));
            }
            let hidden = shape.len() - letters;
            widest = if dots { widest.max(hidden) } else { widest };
            let found = labels(term, hidden).ok_or_else(|| not_letters(term, equation))?;
            for (&label, &extent) in found.iter().zip(*shape) {
                let known = extents.entry(label).or_insert(extent);
                if *known == 1 {
                    *known = extent;
                }
                if extent != 1 && extent != *known {
                    return Err(format!(
                        "`{equation}`: axis {label:?} of input {i} is {extent}, before {known}"
                    ));
                }
            }
            inputs.push(found);
        }
        let output = labels(right, widest).ok_or_else(|| not_letters(right, equation))?;
        for (i, label) in output.iter().enumerate() {
            if !extents.contains_key(label) || output[..i].contains(label) {
                return Err(format!("`{equation}`: axis {label:?} of the result is repeated or unknown"));
            }
        }
        Ok(Subscripts { inputs, output, extents })
    }

    /// The extents of some labels.
    pub(crate) fn shape(&self, labels: &[Label]) -> Vec<usize> {
        labels.iter().map(|label| self.extents[label]).collect()
    }
}

fn not_letters(term: &str, equation: &str) -> String {
    format!("`{term}` in `{equation}` has something other than letters and one `...`")
}

/// The labels of a term, with `hidden` axes for the ellipsis.
fn labels(term: &str, hidden: usize) -> Option<Vec<Label>> {
    let (before, after) = term.split_once("...").unwrap_or((term, ""));
    let letters = |part: &str| -> Option<Vec<Label>> {
        part.chars().map(|c| c.is_ascii_alphabetic().then_some(Label::Letter(c))).collect()
    };
    let mut out = letters(before)?;
    if term.contains("...") {
        out.extend((0..hidden).rev().map(Label::Ellipsis));
    }
    out.extend(letters(after)?);
    Some(out)
}
