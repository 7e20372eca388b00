//! Names that stand for numbers: knobs a search chooses, and loop variables a nest binds.

use std::fmt;
use std::sync::Arc;

/// What a symbol stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SymbolKind {
    /// A loop variable or an axis of a tensor expression, bound by the program.
    Var,
    /// A free parameter of a schedule, chosen by search. Knobs are positive integers.
    Knob,
}

/// A named integer. Two symbols are the same when kind and name are.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Symbol {
    kind: SymbolKind,
    name: Arc<str>,
}

impl Symbol {
    /// A loop variable or axis.
    pub fn var(name: impl AsRef<str>) -> Symbol {
        Symbol { kind: SymbolKind::Var, name: Arc::from(name.as_ref()) }
    }

    /// A knob.
    pub fn knob(name: impl AsRef<str>) -> Symbol {
        Symbol { kind: SymbolKind::Knob, name: Arc::from(name.as_ref()) }
    }

    /// The name, without the `$` that marks a knob in text.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether this is a knob or a variable.
    pub fn kind(&self) -> SymbolKind {
        self.kind
    }

    /// True for knobs.
    pub fn is_knob(&self) -> bool {
        self.kind == SymbolKind::Knob
    }
}

impl fmt::Display for Symbol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            SymbolKind::Var => f.write_str(&self.name),
            SymbolKind::Knob => write!(f, "${}", self.name),
        }
    }
}

impl fmt::Debug for Symbol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
