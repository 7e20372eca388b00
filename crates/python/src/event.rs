//! What happens while tuning, as dictionaries.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use talweg_tuner::Event;

/// An event with its kind; `None` for kinds that Python does not know yet.
pub fn dictionary<'py>(py: Python<'py>, event: &Event) -> PyResult<Option<Bound<'py, PyDict>>> {
    let out = PyDict::new(py);
    let kind = match event {
        Event::TaskStarted { task, name, sketches, size, resumed, default_seconds, best_seconds } => {
            out.set_item("best_seconds", best_seconds)?;
            out.set_item("task", task)?;
            out.set_item("name", name)?;
            out.set_item("sketches", sketches)?;
            out.set_item("size", size)?;
            out.set_item("resumed", resumed)?;
            out.set_item("default_seconds", default_seconds)?;
            "task_started"
        }
        Event::Asked { task, count, predicted, seconds } => {
            out.set_item("task", task)?;
            out.set_item("count", count)?;
            out.set_item("predicted", predicted)?;
            out.set_item("seconds", seconds)?;
            "asked"
        }
        Event::ModelFailed { task, text } => {
            out.set_item("task", task)?;
            out.set_item("text", text)?;
            "model_failed"
        }
        Event::SampleMeasured { task, candidate, seconds, cause, predicted, trace, at } => {
            out.set_item("predicted", predicted)?;
            out.set_item("schedule", trace)?;
            out.set_item("at", at)?;
            out.set_item("task", task)?;
            out.set_item("candidate", candidate)?;
            out.set_item("seconds", seconds)?;
            out.set_item("cause", cause)?;
            "sample_measured"
        }
        Event::NewBest { task, candidate, seconds, at } => {
            out.set_item("task", task)?;
            out.set_item("candidate", candidate)?;
            out.set_item("seconds", seconds)?;
            out.set_item("at", at)?;
            "new_best"
        }
        Event::Saved { task, records, trials } => {
            out.set_item("task", task)?;
            out.set_item("records", records)?;
            out.set_item("trials", trials)?;
            "saved"
        }
        Event::Forecast { latency, gain, rounds, ends } => {
            out.set_item("latency", latency)?;
            out.set_item("gain", gain)?;
            out.set_item("rounds", rounds)?;
            out.set_item("ends", ends)?;
            "forecast"
        }
        Event::Verified { task, seconds, default_seconds, .. } => {
            out.set_item("task", task)?;
            out.set_item("seconds", seconds)?;
            out.set_item("default_seconds", default_seconds)?;
            "verified"
        }
        Event::Finished { reason, trials } => {
            out.set_item("reason", reason.name())?;
            out.set_item("trials", trials)?;
            "finished"
        }
        _ => return Ok(None),
    };
    out.set_item("kind", kind)?;
    Ok(Some(out))
}
