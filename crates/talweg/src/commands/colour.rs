//! Colours of the output: only on a terminal, never against NO_COLOR, and as `--color` says.

use std::io::IsTerminal;
use std::sync::OnceLock;

use clap::{ColorChoice, ValueEnum};

/// When to colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum When {
    /// On a terminal, unless NO_COLOR is set.
    #[default]
    Auto,
    /// Also into files and pipes.
    Always,
    /// Not at all.
    Never,
}

impl When {
    /// What clap is told for its own texts.
    pub fn for_clap(self) -> ColorChoice {
        match self {
            When::Auto => ColorChoice::Auto,
            When::Always => ColorChoice::Always,
            When::Never => ColorChoice::Never,
        }
    }
}

static CHOSEN: OnceLock<When> = OnceLock::new();

/// Decides for the rest of the process; the first decision stands.
pub fn choose(when: When) {
    let _ = CHOSEN.set(when);
}

/// Whether a stream is coloured.
fn is_on(when: When, is_terminal: bool, no_color: Option<&str>, term: Option<&str>) -> bool {
    match when {
        When::Always => true,
        When::Never => false,
        When::Auto => is_terminal && no_color.is_none_or(str::is_empty) && term != Some("dumb"),
    }
}

fn now(is_terminal: bool) -> bool {
    let variable = |name| std::env::var(name).ok();
    let when = CHOSEN.get().copied().unwrap_or_default();
    is_on(when, is_terminal, variable("NO_COLOR").as_deref(), variable("TERM").as_deref())
}

/// Paints texts, or leaves them as they are.
#[derive(Clone, Copy)]
pub struct Paint(bool);

impl Paint {
    /// For standard output.
    pub fn stdout() -> Paint {
        Paint(now(std::io::stdout().is_terminal()))
    }

    /// For standard error.
    pub fn stderr() -> Paint {
        Paint(now(std::io::stderr().is_terminal()))
    }

    fn with(self, code: &str, text: &str) -> String {
        if self.0 { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_string() }
    }

    /// A heading.
    pub fn bold(self, text: &str) -> String {
        self.with("1", text)
    }

    /// What matters less.
    pub fn faint(self, text: &str) -> String {
        self.with("2", text)
    }

    /// What went well.
    pub fn good(self, text: &str) -> String {
        self.with("32", text)
    }

    /// What wants attention.
    pub fn warn(self, text: &str) -> String {
        self.with("33", text)
    }

    /// What is wrong.
    pub fn bad(self, text: &str) -> String {
        self.with("1;31", text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_need_a_terminal_and_no_objection() {
        assert!(is_on(When::Auto, true, None, Some("xterm")));
        assert!(is_on(When::Auto, true, Some(""), None));
        assert!(!is_on(When::Auto, true, Some("1"), Some("xterm")));
        assert!(!is_on(When::Auto, true, None, Some("dumb")));
        assert!(!is_on(When::Auto, false, None, Some("xterm")));
        assert!(is_on(When::Always, false, Some("1"), None));
        assert!(!is_on(When::Never, true, None, None));
    }
}
