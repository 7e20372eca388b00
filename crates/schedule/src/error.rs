//! What can be wrong with a schedule.

use talweg_expr::ParseError;

/// A step that cannot be applied, a trace that cannot be read, or a schedule that cannot be lowered.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ScheduleError {
    /// The text of a trace is not a step.
    #[error("line {line}: {message}")]
    Parse {
        /// Line in the trace, from 1.
        line: usize,
        /// What was found and what was expected.
        message: String,
    },
    /// A step names something the schedule does not have, or would change what is computed.
    #[error("step `{step}`: {message}")]
    Illegal {
        /// The step as text.
        step: String,
        /// Why, and what to do instead.
        message: String,
    },
    /// The schedule as a whole has no loop nest.
    #[error("stage `{stage}` cannot be lowered: {message}")]
    Lower {
        /// Where.
        stage: String,
        /// Why, and what to do instead.
        message: String,
    },
    /// A knob was left open where a concrete program is needed.
    #[error("knob `{0}` has no value; substitute every knob before the nest is made concrete")]
    OpenKnob(String),
    /// A knob's value is no tile size.
    #[error("knob `{knob}` is {value}; give it a value from 1 to {max}", max = crate::concrete::MAX_KNOB)]
    KnobRange {
        /// Its name.
        knob: String,
        /// The value.
        value: i64,
    },
}

impl ScheduleError {
    /// A parse error of an embedded expression.
    pub(crate) fn from_expr(line: usize, text: &str, error: &ParseError) -> ScheduleError {
        ScheduleError::Parse { line, message: format!("`{text}` is no expression: {error}") }
    }
}

/// Why a primitive refuses; the schedule adds the step's text.
pub(crate) type Refusal = String;
