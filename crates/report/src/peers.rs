//! Times of other runtimes, read from a file.
//!
//! Two forms are read: what `talweg bench MODEL --against ... --json` prints, which is about the whole network, and a
//! list of entries with a name, microseconds, and the name of a task if they are about one.

use serde::Deserialize;

use crate::collector::Collector;
use crate::error::ReportError;
use crate::report::Peer;

#[derive(Deserialize)]
#[serde(untagged)]
enum File {
    Bench { rows: Vec<BenchRow> },
    List(Vec<Entry>),
}

#[derive(Deserialize)]
struct BenchRow {
    name: String,
    median_ms: Option<f64>,
}

#[derive(Deserialize)]
struct Entry {
    name: String,
    us: f64,
    task: Option<String>,
}

/// Reads the peers of a file's text; tasks are looked up by their names.
pub fn peers(text: &str, collector: &Collector) -> Result<Vec<Peer>, ReportError> {
    let bad = |what: String| ReportError::Peers { what };
    let file: File =
        serde_json::from_str(text).map_err(|e| bad(format!("the peers are not as expected: {e}")))?;
    let found: Vec<Peer> = match file {
        File::Bench { rows } => {
            let others = rows.into_iter().filter(|row| row.name != "talweg");
            let timed = others.filter_map(|row| Some((row.name, row.median_ms? * 1e3)));
            timed.map(|(name, us)| Peer { name, us, task: None }).collect()
        }
        File::List(entries) => {
            let mut out = Vec::new();
            for Entry { name, us, task } in entries {
                let task = match task {
                    Some(wanted) => Some(collector.task_named(&wanted).ok_or_else(|| {
                        bad(format!(
                            "the peer `{name}` is about the task `{wanted}`, which no run of the report has"
                        ))
                    })?),
                    None => None,
                };
                out.push(Peer { name, us, task });
            }
            out
        }
    };
    match found.iter().find(|peer| !(peer.us.is_finite() && peer.us > 0.0)) {
        Some(peer) => Err(bad(format!("the time of `{}` is not above zero", peer.name))),
        None => Ok(found),
    }
}
