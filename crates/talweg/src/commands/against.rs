//! `talweg bench MODEL --against ...`: the model in talweg and in other runtimes, in turns.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::json;
use talweg::in_place::Latency;
use talweg::peers::{PEERS, Peer, PeerError, Peers};
use talweg_runtime::model::Session;
use talweg_tensor::Tensor;

use super::model::{ModelArguments, inputs, tuned_of};
use super::{Failure, interrupt, print, turns};

/// Outputs that differ by more than this, relative to the largest element, are another computation.
const AGREES: f64 = 1e-3;
/// Lets the threads of the one before stop spinning.
const PAUSE: Duration = Duration::from_millis(250);
/// A runtime whose first run takes more seconds has no turns, which are five runs at least...
const SLOW: f64 = 2.0;
/// ... unless talweg's own first run is less than this many times quicker.
const SLOWER: f64 = 10.0;

/// Whom to compare with.
#[derive(Args)]
pub struct AgainstArguments {
    /// Also time these runtimes, in turns: onnxruntime, openvino, torch, torch-compiled, tvm; those that are not
    /// installed are named.
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub against: Vec<String>,
    /// The Python that has them.
    #[arg(long, default_value = "python3", value_name = "PATH", requires = "against")]
    pub python: String,
    /// Turns of each runtime.
    #[arg(long, default_value_t = 5, value_name = "N", requires = "against")]
    pub rounds: usize,
}

/// What was measured of one runtime.
struct Row {
    name: String,
    version: String,
    /// The median of every turn, in seconds.
    turns: Vec<f64>,
    /// All runs.
    all: Vec<f64>,
    /// The largest difference to talweg's outputs.
    difference: f64,
}

impl Row {
    fn new(name: &str, version: String, difference: f64) -> Row {
        Row { name: name.into(), version, turns: Vec::new(), all: Vec::new(), difference }
    }

    fn add(&mut self, seconds: Vec<f64>) {
        self.all.extend(&seconds);
        self.turns.extend(Latency::of(seconds).map(|l| l.median));
    }
}

/// Refuses names before anything is compiled.
pub fn check(arguments: &AgainstArguments, model: &ModelArguments) -> Result<(), Failure> {
    if arguments.against.is_empty() {
        return Ok(());
    }
    if let Some(name) = arguments.against.iter().find(|n| PEERS.iter().all(|(peer, _)| peer != n)) {
        return Err(Failure::input(PeerError::Unknown { name: name.clone() }));
    }
    if model.is_artefact() {
        return Err(Failure::input(format!(
            "{} is compiled already, and other runtimes need the ONNX file; give that, with --lock or --db",
            model.model.display()
        )));
    }
    if arguments.rounds == 0 {
        return Err(Failure::input("--rounds must be at least 1"));
    }
    Ok(())
}

/// Times a session and the other runtimes in turns of so many seconds, and prints the ratios.
pub fn run(
    arguments: &AgainstArguments,
    model: &ModelArguments,
    session: &mut Session,
    threads: usize,
    seconds: f64,
    as_json: bool,
) -> Result<(), Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    interrupt::watch(stop.clone()).map_err(Failure::work)?;
    let given = inputs(session, &[])?;
    let names = session.model().manifest().inputs.iter().map(|port| port.name.clone());
    let named: Vec<(String, Tensor)> = names.zip(given.iter().cloned()).chain(model.fixed()?).collect();
    let begin = Instant::now();
    let ours = session.run(&given).map_err(Failure::work)?;
    let slow = SLOW.max(SLOWER * begin.elapsed().as_secs_f64());
    let peers = Peers::new(&arguments.python, &model.model, threads, &named).map_err(Failure::work)?;
    let mut rows = vec![Row::new("talweg", concat!("talweg ", env!("CARGO_PKG_VERSION")).into(), 0.0)];
    let mut running: Vec<Option<Peer>> = Vec::new();
    let mut left_out: Vec<(String, String)> = Vec::new();
    for name in &arguments.against {
        go_on(&stop)?;
        match peers.start(name) {
            Ok(peer) => match agrees(&ours, &peer, slow) {
                Ok(difference) => {
                    rows.push(Row::new(name, peer.version.clone(), difference));
                    running.push(Some(peer));
                }
                Err(why) => left_out.push((name.clone(), why)),
            },
            Err(error @ PeerError::NoPython { .. }) => return Err(Failure::input(error)),
            Err(error) => left_out.push((name.clone(), error.to_string())),
        }
    }
    let each = Duration::from_secs_f64(seconds / arguments.rounds as f64);
    for _ in 0..arguments.rounds {
        go_on(&stop)?;
        std::thread::sleep(PAUSE);
        rows[0].add(turns::times(each, || turns::seconds(session))?);
        for (slot, row) in running.iter_mut().zip(&mut rows[1..]) {
            go_on(&stop)?;
            left_out.extend(turn_of(slot, row, each).map(|why| (row.name.clone(), why)));
        }
    }
    go_on(&stop)?;
    rows.retain(|row| !row.turns.is_empty());
    let (tuned, tasks) = tuned_of(session.model());
    let name = &session.model().manifest().model;
    let title = format!("{name}, {threads} threads, {tuned} of {tasks} tasks tuned");
    print(&if as_json { object(&title, &rows, &left_out) } else { table(&title, &rows, &left_out) })?;
    match rows.len() {
        1 => Err(Failure::work("no other runtime could be timed")),
        _ => Ok(()),
    }
}

/// Fails once the user wants the end, so that the peers and their folder go away.
fn go_on(stop: &AtomicBool) -> Result<(), Failure> {
    match stop.load(Ordering::Relaxed) {
        true => Err(Failure::work("interrupted; nothing was compared")),
        false => Ok(()),
    }
}

/// Gives a runtime its turn. One that dies keeps the turns it had and has no more; why is said once.
fn turn_of(slot: &mut Option<Peer>, row: &mut Row, each: Duration) -> Option<String> {
    let peer = slot.as_mut()?;
    std::thread::sleep(PAUSE);
    match peer.sample(each.as_secs_f64()) {
        Ok(seconds) => {
            row.add(seconds);
            None
        }
        Err(error) => {
            *slot = None;
            Some(format!("ended after {} turns: {error}", row.turns.len()))
        }
    }
}

/// The largest difference of a runtime's outputs if it is to be timed, or else why it is not.
fn agrees(ours: &[Tensor], peer: &Peer, slow: f64) -> Result<f64, String> {
    if peer.first > slow {
        return Err(format!(
            "a run takes {:.1} s, and runtimes that take more than {slow:.1} s have no turns",
            peer.first
        ));
    }
    match largest_difference(ours, &peer.outputs) {
        Some(difference) if difference <= AGREES => Ok(difference),
        Some(difference) => Err(format!("its outputs differ by {difference:.1e}")),
        None => Err("its outputs have other shapes".into()),
    }
}

/// The largest difference relative to the largest element, over all outputs; `None` if the shapes differ.
fn largest_difference(ours: &[Tensor], theirs: &[Tensor]) -> Option<f64> {
    if ours.len() != theirs.len() {
        return None;
    }
    let mut worst = 0.0f64;
    for (a, b) in ours.iter().zip(theirs) {
        if a.ty().shape != b.ty().shape {
            return None;
        }
        let (a, b) = (a.to_f64(), b.to_f64());
        let scale = b.iter().fold(f64::MIN_POSITIVE, |m, v| m.max(v.abs()));
        let difference = a.iter().zip(&b).map(|(x, y)| (x - y).abs()).fold(0.0, f64::max);
        let wrong = a.iter().zip(&b).any(|(x, y)| x.is_nan() != y.is_nan());
        worst = worst.max(if wrong { f64::INFINITY } else { difference / scale });
    }
    Some(worst)
}

/// The ratios to talweg, turn by turn, ascending.
fn ratios(row: &Row, ours: &Row) -> Vec<f64> {
    let mut ratios: Vec<f64> = row.turns.iter().zip(&ours.turns).map(|(peer, own)| peer / own).collect();
    ratios.sort_by(f64::total_cmp);
    ratios
}

fn table(title: &str, rows: &[Row], left_out: &[(String, String)]) -> String {
    let mut out = format!(
        "{title}\n{:<16}{:>11}{:>11}{:>24}{:>13}\n",
        "", "median ms", "fastest", "time / talweg's", "difference"
    );
    for row in rows {
        let Some(latency) = Latency::of(row.all.clone()) else { continue };
        let ratios = ratios(row, &rows[0]);
        let ratio = match (turns::median(&ratios), ratios.first(), ratios.last()) {
            (Some(middle), Some(low), Some(high)) if row.name != "talweg" => {
                format!("{middle:.2} ({low:.2} to {high:.2})")
            }
            _ => String::new(),
        };
        let difference = if row.name == "talweg" { String::new() } else { format!("{:.1e}", row.difference) };
        out += &format!(
            "{:<16}{:>11.3}{:>11.3}{:>24}{:>13}  {}\n",
            row.name,
            latency.median * 1e3,
            latency.min * 1e3,
            ratio,
            difference,
            row.version
        );
    }
    for (name, why) in left_out {
        out += &format!("{name:<16} not timed: {why}\n");
    }
    out
}

fn object(title: &str, rows: &[Row], left_out: &[(String, String)]) -> String {
    let row = |row: &Row| {
        let latency = Latency::of(row.all.clone());
        let ratios = ratios(row, &rows[0]);
        json!({
            "name": row.name, "version": row.version, "median_ms": latency.map(|l| l.median * 1e3),
            "min_ms": latency.map(|l| l.min * 1e3), "runs": row.all.len(), "difference": row.difference,
            "ratio": turns::median(&ratios), "ratio_low": ratios.first(), "ratio_high": ratios.last(),
        })
    };
    let missing = |(name, why): &(String, String)| json!({ "name": name, "why": why });
    let object = json!({
        "model": title, "rows": rows.iter().map(row).collect::<Vec<_>>(),
        "not_timed": left_out.iter().map(missing).collect::<Vec<_>>(),
    });
    format!("{object}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_those_of_turns_and_differences_are_relative() {
        let mut ours = Row::new("talweg", String::new(), 0.0);
        let mut peer = Row::new("torch", String::new(), 0.0);
        for (own, other) in [(1.0, 2.0), (2.0, 3.0), (1.0, 1.8)] {
            ours.add(vec![own; 3]);
            peer.add(vec![other, other, 100.0]);
        }
        assert_eq!(ratios(&peer, &ours), [1.5, 1.8, 2.0]);
        let text = table("net", &[ours, peer], &[("openvino".into(), "absent".into())]);
        assert!(text.contains("1.80 (1.50 to 2.00)") && text.contains("not timed: absent"), "{text}");
        let tensor = |values: &[f32]| vec![Tensor::new([values.len()], values.to_vec())];
        assert_eq!(largest_difference(&tensor(&[1.0, -4.0]), &tensor(&[1.5, -4.0])), Some(0.125));
        assert_eq!(largest_difference(&tensor(&[1.0]), &tensor(&[1.0, 2.0])), None);
        assert_eq!(largest_difference(&tensor(&[f32::NAN]), &tensor(&[1.0])), Some(f64::INFINITY));
    }
}
