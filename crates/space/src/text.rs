//! Printing a space: sketches with their traces, knobs with their domains, constraints and size.

use std::fmt;

use crate::knob::{Constraint, Knob};
use crate::sketch::Sketch;
use crate::space::Space;

impl fmt::Display for Space {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.sketches.len();
        let noun = if count == 1 { "sketch" } else { "sketches" };
        writeln!(f, "space {}: {count} {noun}, {:.3e} candidates", self.dag.name, self.size())?;
        for (at, s) in self.sketches.iter().enumerate() {
            write!(f, "\nsketch {at}: {s}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Sketch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}, {:.3e} candidates", self.name, self.size())?;
        for step in &self.trace.steps {
            writeln!(f, "  {step}")?;
        }
        for k in &self.knobs {
            writeln!(f, "  {k}")?;
        }
        for c in &self.constraints {
            writeln!(f, "  {c}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Knob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in {{{}}}", self.symbol, ranges(&self.domain))
    }
}

impl fmt::Display for Constraint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} <= {}", self.name, self.lhs, self.rhs)
    }
}

/// Numbers in increasing order, runs of neighbours as `a..b`.
fn ranges(values: &[i64]) -> String {
    let mut out: Vec<String> = Vec::new();
    let mut rest = values;
    while let Some(first) = rest.first() {
        let run = rest.iter().zip(*first..).take_while(|(v, w)| **v == *w).count();
        match run {
            1 | 2 => out.extend(rest[..run].iter().map(i64::to_string)),
            _ => out.push(format!("{first}..{}", first + run as i64 - 1)),
        }
        rest = &rest[run..];
    }
    out.join(", ")
}

#[cfg(test)]
mod tests {
    use super::ranges;

    #[test]
    fn runs_are_folded() {
        assert_eq!(ranges(&[1, 2, 3, 4, 8, 9, 16]), "1..4, 8, 9, 16");
        assert_eq!(ranges(&[]), "");
    }
}
