//! The playoff: everything the runs of an operator had found is timed again, in turns.
//!
//! What a run measures depends on the moment: on a machine that others use, a best so far may be a calm second rather than
//! a better program. So the programs at all points of all curves are compiled once more and timed alternately, and the
//! curves are drawn by these times: what the run had in hand at each moment, and how fast that really is.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use talweg_ops::Spec;
use talweg_target::Target;
use talweg_tuner::runner::Effort;
use talweg_tuner::{Runner, TuneOptions, Workers};

use super::run::Run;
use super::table::median;
use crate::operator::{Operator, ScheduleSource};

/// Time for the samples of a program in one round, and for waiting until nobody disturbs them.
const SAMPLING: Duration = Duration::from_millis(30);
const PATIENCE: Duration = Duration::from_millis(60);

/// The programs of all contestants on one operator with one seed, timed alternately.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Playoff {
    /// The operator's SPEC.
    pub spec: String,
    /// The seed of the runs.
    pub seed: u64,
    /// What each contestant's programs take.
    pub entries: Vec<Entry>,
}

/// The programs of one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Whose.
    pub contestant: String,
    /// Microseconds of its winner.
    pub winner_us: f64,
    /// Microseconds of the program at each point of its curve.
    pub curve_us: Vec<f64>,
    /// The seconds of these points, where they are not those of the run's own curve.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub moments: Vec<f64>,
}

impl Playoff {
    /// Times the programs of some runs of one operator and seed; why that is not possible.
    pub fn of(runs: &[Run], target: &Target, rounds: usize) -> Result<Playoff, String> {
        let Some(first) = runs.first() else { return Err("there is no run".into()) };
        let texts = runs.iter().flat_map(|r| r.curve_schedules.iter().chain([&r.schedule]));
        let times = time_all(&first.spec, texts, target, first.settings.threads, rounds)?;
        let us = |text: &String| times.get(text).copied().ok_or("a program was not timed");
        let mut entries = Vec::new();
        for run in runs {
            let curve_us = run.curve_schedules.iter().map(us).collect::<Result<_, _>>()?;
            entries.push(Entry {
                contestant: run.contestant.clone(),
                winner_us: us(&run.schedule)?,
                curve_us,
                moments: Vec::new(),
            });
        }
        Ok(Playoff { spec: first.spec.clone(), seed: first.seed, entries })
    }

    /// What the playoff says of a contestant.
    pub fn entry(&self, contestant: &str) -> Option<&Entry> {
        self.entries.iter().find(|e| e.contestant == contestant)
    }
}

impl Run {
    /// The run as the playoff saw it: at each moment the fastest of what it had found by then; of a network, what it had in
    /// hand.
    pub fn retimed(&self, playoffs: &[Playoff]) -> Run {
        let mut run = self.clone();
        let found = playoffs.iter().find(|p| p.spec == self.spec && p.seed == self.seed);
        let Some(entry) = found.and_then(|p| p.entry(&self.contestant)) else { return run };
        run.best_us = entry.winner_us;
        if !entry.moments.is_empty() {
            run.curve = entry.moments.iter().copied().zip(entry.curve_us.iter().copied()).collect();
            return run;
        }
        let mut best = f64::INFINITY;
        for (point, us) in run.curve.iter_mut().zip(&entry.curve_us) {
            best = best.min(*us);
            if Some(point.1) == self.first_batch_us {
                run.first_batch_us = Some(best);
            }
            point.1 = best;
        }
        run
    }
}

/// Microseconds of each different program: the median over the rounds.
fn time_all<'a>(
    spec: &str,
    texts: impl Iterator<Item = &'a String>,
    target: &Target,
    threads: usize,
    rounds: usize,
) -> Result<BTreeMap<String, f64>, String> {
    let spec = Spec::parse(spec).map_err(|e| e.to_string())?;
    let build =
        |source: &ScheduleSource| Operator::new(spec.clone(), source, target).map_err(|e| e.to_string());
    let mut options = TuneOptions::new(target.clone());
    options.threads = threads;
    let mut workers = Workers::new(&options).map_err(|e| e.to_string())?;
    let default = build(&ScheduleSource::Default)?;
    let data = workers.data_by(&default.dag, &default.nest).map_err(|e| e.to_string())?;
    let mut programs = BTreeMap::new();
    for text in texts {
        if !programs.contains_key(text) {
            let source = ScheduleSource::Text { name: "a run's program".into(), text: text.clone() };
            let built = workers.build(&[build(&source)?.nest]).pop();
            let (kernel, _) = built.ok_or("nothing was built")?.map_err(|f| f.text)?;
            programs.insert(text.clone(), (kernel, Vec::new()));
        }
    }
    let effort = Effort { patience: PATIENCE, ..Effort::full(SAMPLING) };
    for _ in 0..rounds.max(1) {
        for (kernel, times) in programs.values_mut() {
            let timing = workers.run(&data, kernel, &effort).map_err(|f| f.text)?;
            times.push(timing.seconds * 1e6);
        }
    }
    let medians = programs.into_iter().filter_map(|(text, (_, times))| Some((text, median(times)?)));
    Ok(medians.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contest::table::tests::run;

    #[test]
    fn curves_are_drawn_by_the_times_of_the_playoff() {
        let found = run("felix", "a", 1, 5.0, &[(1.0, 9.0), (2.0, 5.0), (3.0, 4.0)]);
        let curve_us = vec![8.0, 9.0, 7.0];
        let entry = Entry { contestant: "felix".into(), winner_us: 6.5, curve_us, moments: Vec::new() };
        let mut playoff = Playoff { spec: found.spec.clone(), seed: 1, entries: vec![entry] };
        let seen = found.retimed(std::slice::from_ref(&playoff));
        assert_eq!(seen.curve, [(1.0, 8.0), (2.0, 8.0), (3.0, 7.0)]);
        assert_eq!((seen.best_us, seen.first_batch_us), (6.5, Some(8.0)));
        let other = run("felix", "a", 2, 9.0, &[(1.0, 9.0)]);
        assert_eq!(other.retimed(&[playoff.clone()]), other, "another seed has its own playoff");
        // A network has what was in hand, at moments of its own.
        playoff.entries[0].moments = vec![0.5, 1.5, 5.0];
        assert_eq!(found.retimed(&[playoff]).curve, [(0.5, 8.0), (1.5, 9.0), (5.0, 7.0)]);
    }
}
