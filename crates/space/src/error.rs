//! What can be wrong with a candidate or a space.

use talweg_schedule::ScheduleError;

/// A candidate that does not belong to its space, or text that is no candidate.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SpaceError {
    /// The sketch does not exist.
    #[error("there is no sketch {sketch}; the space has {count}, numbered from 0")]
    NoSketch {
        /// What was asked for.
        sketch: usize,
        /// How many there are.
        count: usize,
    },
    /// The number of values is not the number of knobs.
    #[error("sketch {sketch} has {knobs} knobs, but the candidate gives {values} values")]
    WrongLength {
        /// The sketch.
        sketch: usize,
        /// Its knobs.
        knobs: usize,
        /// The values given.
        values: usize,
    },
    /// A value is not in the knob's domain.
    #[error("{value} is not in the domain of knob `{knob}`; use `repair` for the nearest legal candidate")]
    OutsideDomain {
        /// The knob.
        knob: String,
        /// The value.
        value: i64,
    },
    /// A constraint does not hold.
    #[error("constraint `{constraint}` does not hold; use `repair` for the nearest legal candidate")]
    Violated {
        /// The constraint's name.
        constraint: String,
    },
    /// A schedule step or the lowering refused.
    #[error("sketch {sketch}: {source}")]
    Schedule {
        /// The sketch.
        sketch: usize,
        /// Why.
        source: ScheduleError,
    },
    /// Text that is no candidate.
    #[error("`{text}` is no candidate; write `SKETCH:VALUE,VALUE,...`, for example `0:1,43,6`")]
    Parse {
        /// The text.
        text: String,
    },
    /// A template asked for something its DAG or configuration does not have.
    #[error("template `{template}`: {message}")]
    Template {
        /// Its name.
        template: String,
        /// What is wrong and what to do.
        message: String,
    },
}
