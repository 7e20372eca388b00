//! What happens while tuning, as dictionaries.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use talweg_tuner::Event;

/// A dictionary of values by their names, with the kind of event they are of.
macro_rules! event {
    ($py:expr, $kind:literal, $($name:ident),+) => {{
        let out = PyDict::new($py);
        out.set_item("kind", $kind)?;
        $(out.set_item(stringify!($name), $name)?;)+
        out
    }};
}

/// An event with its kind; `None` for kinds that Python does not know yet.
pub fn dictionary<'py>(py: Python<'py>, event: &Event) -> PyResult<Option<Bound<'py, PyDict>>> {
    Ok(Some(match event {
        Event::TaskStarted { task, name, sketches, size, resumed, default_seconds, best_seconds } => {
            event!(py, "task_started", task, name, sketches, size, resumed, default_seconds, best_seconds)
        }
        Event::GivenUp { task, text } => event!(py, "given_up", task, text),
        Event::Asked { task, count, predicted, seconds } => {
            event!(py, "asked", task, count, predicted, seconds)
        }
        Event::ModelFailed { task, text } => event!(py, "model_failed", task, text),
        Event::SampleMeasured { task, candidate, seconds, cause, predicted, trace: schedule, at } => {
            event!(py, "sample_measured", task, candidate, seconds, cause, predicted, schedule, at)
        }
        Event::NewBest { task, candidate, seconds, at } => {
            event!(py, "new_best", task, candidate, seconds, at)
        }
        Event::Saved { task, records, trials } => event!(py, "saved", task, records, trials),
        Event::Forecast { latency, gain, rounds, ends } => {
            event!(py, "forecast", latency, gain, rounds, ends)
        }
        Event::Verified { task, seconds, default_seconds, .. } => {
            event!(py, "verified", task, seconds, default_seconds)
        }
        Event::Finished { reason, trials } => {
            let reason = reason.name();
            event!(py, "finished", reason, trials)
        }
        _ => return Ok(None),
    }))
}
