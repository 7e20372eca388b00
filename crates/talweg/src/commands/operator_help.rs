//! The list of operators at the end of `talweg op --help`, from the operators' table.

use std::fmt::Write;

use talweg_ops::spec::table::{Fallback, ParamKind};
use talweg_ops::{ChainOp, OperatorInfo, ParamInfo, operators};

/// Columns of the help text.
const WIDTH: usize = 100;

/// For `-h`: the verb's examples, then one example of each operator.
pub fn short(examples: &str) -> String {
    let operators = operators().iter().map(|o| format!("  {}\n", o.example));
    format!("{examples}\nOperators; `--help` tells their parameters:\n{}", operators.collect::<String>())
}

/// For `--help`: the verb's examples, then example, meaning and parameters of each operator.
pub fn long(examples: &str) -> String {
    let mut out = format!(
        "{examples}\nOperators: an example, what it computes, its parameters; those in [] may be left out. Those in () set one axis\n\
         or side only. Activations are channels-last (NHWC), weights are constants.\n",
    );
    for o in operators() {
        let _ = writeln!(out, "\n  {}\n      {}", o.example, o.help);
        wrap(&mut out, &parameters(o));
    }
    out.push_str("\n  Operations of `epilogue` and `chain`, to be joined by `+`:\n");
    wrap(&mut out, &ChainOp::names().into_iter().map(str::to_string).collect::<Vec<_>>());
    out
}

/// One entry for each parameter, with those that refine it.
fn parameters(operator: &OperatorInfo) -> Vec<String> {
    let refines = |p: &&ParamInfo, of: &str| matches!(p.fallback, Fallback::Same(all) if all == of);
    let own = operator.params.iter().filter(|p| !matches!(p.fallback, Fallback::Same(_)));
    own.map(|p| {
        let mut text = p.name.to_string();
        match &p.kind {
            ParamKind::Word(words) => {
                let _ = write!(text, "={}", words.join("|"));
            }
            ParamKind::Type(types) => {
                let names: Vec<&str> = types.iter().map(|t| t.name()).collect();
                let _ = write!(text, "={}", names.join("|"));
            }
            _ => {}
        }
        let parts: Vec<&str> =
            operator.params.iter().filter(|other| refines(other, p.name)).map(|other| other.name).collect();
        if !parts.is_empty() {
            let _ = write!(text, " ({})", parts.join(" "));
        }
        if matches!(p.fallback, Fallback::Required) { text } else { format!("[{text}]") }
    })
    .collect()
}

/// Appends the items in indented lines of at most [`WIDTH`] columns.
fn wrap(out: &mut String, items: &[String]) {
    let indent = " ".repeat(6);
    let mut line = indent.clone();
    for (at, item) in items.iter().enumerate() {
        let item = if at + 1 < items.len() { format!("{item}, ") } else { item.clone() };
        if line.len() + item.trim_end().len() > WIDTH && line.len() > indent.len() {
            let _ = writeln!(out, "{}", line.trim_end());
            line.clone_from(&indent);
        }
        line.push_str(&item);
    }
    let _ = writeln!(out, "{}", line.trim_end());
}
