//! The playoff of a network: what each run had in hand at some moments, compiled as a whole and timed in turns.
//!
//! The times of a search say little about a network: each is the fastest moment of many, and kernels find other caches in a
//! network than alone. So for some moments of each run the fastest programs of all tasks by then are compiled into an
//! artefact, and each artefact runs in turns with what the reference settled on at its end.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use talweg_artifact::{Artefact, Choice};
use talweg_db::Database;
use talweg_onnx::ImportOptions;
use talweg_runtime::model::Session;
use talweg_target::Target;

use super::playoff::{Entry, Playoff};
use super::run::{Folder, Run};
use super::table::median;
use crate::in_place::race;
use crate::lock::Lock;
use crate::network::{Network, Winners};
use crate::network_tuning::{load, session};

/// Moments of a run that are looked at, its end included.
const MOMENTS: usize = 16;
/// Time for the turns of an artefact with the reference's, for each round that is asked for.
const ROUND: Duration = Duration::from_millis(300);
/// How often a result is loaded, and the reference's with it: the same artefact differs by per cents from one loading to the
/// next, since its memory lies elsewhere.
const LOADINGS: u32 = 5;
/// What the turns of a result take in each loading, as a multiple of those of an artefact along the way.
const RESULT: u32 = 2;

impl Playoff {
    /// Times what some runs of one network and seed had in hand, against what `reference` settled on; why that is not
    /// possible.
    pub fn of_network(
        runs: &[Run],
        reference: &str,
        folder: &Folder,
        target: &Target,
        rounds: usize,
    ) -> Result<Playoff, String> {
        let Some(first) = runs.first() else { return Err("there is no run".into()) };
        let leader = runs.iter().find(|r| r.contestant == reference).unwrap_or(first);
        let options = ImportOptions::default();
        let mut network = Network::open(Path::new(&first.spec), &options).map_err(|e| e.to_string())?;
        let settled = locked(&mut network, leader, folder, target)?;
        let mut field = Field::new(settled, first.settings.threads, ROUND * rounds.max(1) as u32)?;
        let mut entries = Vec::new();
        for run in runs {
            let threads = run.settings.threads;
            let path = folder.database(&run.spec, &run.contestant, run.seed);
            let db = Database::open_existing(&path).map_err(|e| e.to_string())?;
            let id = db.runs().map_err(|e| e.to_string())?.pop().ok_or("its database has no run")?.id;
            let (mut moments, mut curve_us) = (Vec::new(), Vec::new());
            for moment in moments_of(run) {
                let winners = Winners::as_of(&db, &network.program, target, threads, (id, moment));
                let winners = winners.map_err(|e| e.to_string())?;
                network.choose(target, &winners);
                let build = || network.compile(target, &winners, threads).map_err(|e| e.to_string());
                curve_us.push(field.time(key(&network, &winners), build)?);
                moments.push(moment);
            }
            let winner_us = match run.contestant == leader.contestant {
                true => field.leader_us,
                false => field.time_result(&locked(&mut network, run, folder, target)?)?,
            };
            moments.push(run.end());
            curve_us.push(winner_us);
            entries.push(Entry { contestant: run.contestant.clone(), winner_us, curve_us, moments });
        }
        Ok(Playoff { spec: first.spec.clone(), seed: first.seed, entries })
    }
}

/// Moments of a run, each later than the one before by the same factor, from its first result on; the end is not among them.
fn moments_of(run: &Run) -> Vec<f64> {
    let first = run.curve.first().map_or(run.end(), |point| point.0).max(1e-3);
    let factor = (run.end() / first).max(1.0);
    (0..MOMENTS - 1).map(|at| first * factor.powf(at as f64 / (MOMENTS - 1) as f64)).collect()
}

/// What a run settled on.
fn locked(network: &mut Network, run: &Run, folder: &Folder, target: &Target) -> Result<Artefact, String> {
    let lock = Lock::read(&folder.lock(&run.spec, &run.contestant, run.seed)).map_err(|e| e.to_string())?;
    lock.check_target(target).map_err(|e| e.to_string())?;
    lock.compile(network, run.settings.threads).map_err(|e| e.to_string())
}

/// What tells artefacts of a network apart: the tasks with their schedules.
fn key(network: &Network, winners: &Winners) -> String {
    let of = |task: &talweg_graph::Task| match winners.choice(task) {
        Choice::Default => task.text.clone(),
        Choice::Tuned(trace) => format!("{}{trace}", task.text),
    };
    network.program.tasks.iter().map(of).collect()
}

/// Artefacts that are timed against one of them, two at a time: weights of many would not fit into memory.
struct Field {
    settled: Artefact,
    leader: Session,
    leader_us: f64,
    threads: usize,
    budget: Duration,
    known: BTreeMap<String, f64>,
}

impl Field {
    fn new(settled: Artefact, threads: usize, budget: Duration) -> Result<Field, String> {
        let mut leader = loaded(&settled, threads)?;
        let alone = race(&mut [&mut leader], budget.into()).map_err(|e| e.to_string())?;
        let leader_us = alone.latencies[0].median * 1e6;
        Ok(Field { settled, leader, leader_us, threads, budget, known: BTreeMap::new() })
    }

    /// Microseconds of an artefact, by how far it is ahead of the leader; each different one is timed once.
    fn time(&mut self, key: String, build: impl FnOnce() -> Result<Artefact, String>) -> Result<f64, String> {
        if let Some(us) = self.known.get(&key) {
            return Ok(*us);
        }
        let mut own = loaded(&build()?, self.threads)?;
        let us = self.leader_us / ahead(&mut self.leader, &mut own, self.budget)?;
        self.known.insert(key, us);
        Ok(us)
    }

    /// Microseconds of what another run settled on: the median over several loadings.
    fn time_result(&self, artefact: &Artefact) -> Result<f64, String> {
        let one = |_| {
            let mut leader = loaded(&self.settled, self.threads)?;
            ahead(&mut leader, &mut loaded(artefact, self.threads)?, self.budget * RESULT)
        };
        let all: Vec<f64> = (0..LOADINGS).map(one).collect::<Result<_, String>>()?;
        Ok(self.leader_us / median(all).ok_or("a result was not timed")?)
    }
}

/// A session of an artefact.
fn loaded(artefact: &Artefact, threads: usize) -> Result<Session, String> {
    let model = load(artefact).map_err(|e| e.to_string())?;
    session(&model, threads).map_err(|e| e.to_string())
}

/// How many times as fast as the first the other is, in turns.
fn ahead(first: &mut Session, other: &mut Session, budget: Duration) -> Result<f64, String> {
    Ok(race(&mut [first, other], budget.into()).map_err(|e| e.to_string())?.ahead[1])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contest::table::tests::run;

    #[test]
    fn moments_are_spread_by_their_logarithms() {
        let moments = moments_of(&run("felix", "a.onnx", 0, 1.0, &[(0.5, 9.0), (3.0, 8.0)]));
        assert_eq!((moments.len(), moments[0]), (MOMENTS - 1, 0.5));
        let factors: Vec<f64> = moments.windows(2).map(|pair| pair[1] / pair[0]).collect();
        assert!(factors.iter().all(|f| (f - factors[0]).abs() < 1e-9 && *f > 1.0), "{factors:?}");
        assert!((moments[MOMENTS - 2] * factors[0] - 9.5).abs() < 1e-9, "the end follows: {moments:?}");
    }
}
