//! Networks timed as they run: whole, and kernel by kernel in their places.
//!
//! A kernel in a network finds its weights cold and its inputs in another core's cache; alone in a loop it does not.
//! What is better in place is only seen in place. Sessions that are compared take turns, so that whatever disturbs the
//! machine disturbs them all.

use std::time::{Duration, Instant};

use talweg_runtime::model::{RunError, Session, Work};

use crate::allowance::Allowance;

/// A turn of a session lasts about this long; its first run is not counted, for the others have been in the caches.
const TURN: Duration = Duration::from_millis(40);
/// Runs of a turn that count, at most.
const MOST_RUNS: usize = 20;

/// How long single runs of a network took, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Latency {
    /// The middle.
    pub median: f64,
    /// The fastest.
    pub min: f64,
    /// A tenth is faster.
    pub low: f64,
    /// A quarter is faster: what a run takes when little disturbs it.
    pub quartile: f64,
    /// A tenth is slower.
    pub high: f64,
    /// How many runs.
    pub runs: usize,
}

impl Latency {
    /// Of seconds in any order; `None` of no seconds.
    pub fn of(mut seconds: Vec<f64>) -> Option<Latency> {
        seconds.sort_by(f64::total_cmp);
        let last = seconds.len().checked_sub(1)?;
        let at = |q: f64| seconds[(last as f64 * q).round() as usize];
        let (median, quartile) = (at(0.5), at(0.25));
        Some(Latency { median, min: at(0.0), low: at(0.1), quartile, high: at(0.9), runs: seconds.len() })
    }
}

/// Where the time of a run goes, in seconds.
#[derive(Clone, Debug, PartialEq)]
pub struct InPlace {
    /// Each kernel with all its uses, when little disturbs it: the lower quartile of every step over many runs.
    pub kernels: Vec<f64>,
    /// The same as it is most of the time, by medians. A kernel that is faster alone may suffer more from others.
    pub typical: Vec<f64>,
    /// Steps without a kernel.
    pub plain: f64,
}

impl InPlace {
    /// All steps together.
    pub fn total(&self) -> f64 {
        self.kernels.iter().sum::<f64>() + self.plain
    }
}

/// What a race of sessions gave.
#[derive(Clone, Debug, PartialEq)]
pub struct Race {
    /// The runs of each.
    pub latencies: Vec<Latency>,
    /// How many times as fast as the first each was: the median over the turns, so that what disturbs a turn of all of
    /// them counts for none.
    pub ahead: Vec<f64>,
}

/// Times the runs of sessions that take turns, for so long altogether.
pub fn race(sessions: &mut [&mut Session], budget: Allowance<'_>) -> Result<Race, RunError> {
    // For every session and turn, its runs.
    let mut seconds: Vec<Vec<Vec<f64>>> = vec![Vec::new(); sessions.len()];
    take_turns(sessions, budget, &mut |at, turn, session| {
        let begin = Instant::now();
        session.execute()?;
        seconds[at].resize(turn + 1, Vec::new());
        seconds[at][turn].push(begin.elapsed().as_secs_f64());
        Ok(())
    })?;
    let turns: Vec<Vec<f64>> =
        seconds.iter().map(|turns| turns.iter().map(|runs| quantile(runs.clone(), 0.5)).collect()).collect();
    let ahead = |own: &Vec<f64>| quantile(turns[0].iter().zip(own).map(|(a, b)| a / b).collect(), 0.5);
    let ahead = turns.iter().map(ahead).collect();
    let latencies = seconds.into_iter().filter_map(|turns| Latency::of(turns.concat())).collect();
    Ok(Race { latencies, ahead })
}

/// The value that a share of the others are below; zero of none.
fn quantile(mut values: Vec<f64>, share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get((values.len() as f64 * share) as usize).copied().unwrap_or(0.0)
}

/// Times the steps of sessions that take turns, for so long altogether.
pub fn profile(sessions: &mut [&mut Session], budget: Allowance<'_>) -> Result<Vec<InPlace>, RunError> {
    let mut times: Vec<Vec<Vec<f64>>> =
        sessions.iter().map(|s| vec![Vec::new(); s.model().manifest().steps.len()]).collect();
    take_turns(sessions, budget, &mut |at, _, session| {
        let run = session.execute_profiled()?;
        times[at].iter_mut().zip(run).for_each(|(step, time)| step.push(time.as_secs_f64()));
        Ok(())
    })?;
    let of = |(session, times): (&&mut Session, Vec<Vec<f64>>)| {
        let manifest = session.model().manifest();
        let none = vec![0.0; manifest.kernels.len()];
        let mut found = InPlace { kernels: none.clone(), typical: none, plain: 0.0 };
        for (step, times) in manifest.steps.iter().zip(times) {
            let typical = quantile(times.clone(), 0.5);
            let seconds = quantile(times, 0.25);
            match &step.work {
                Work::Kernel { kernel, .. } => {
                    found.kernels[*kernel] += seconds;
                    found.typical[*kernel] += typical;
                }
                Work::Plain { .. } => found.plain += seconds,
            }
        }
        found
    };
    Ok(sessions.iter().zip(times).map(of).collect())
}

/// Gives every session its turns: a run that does not count, then some that do. `run` is told the session, the turn, and
/// does one.
fn take_turns(
    sessions: &mut [&mut Session],
    budget: Allowance<'_>,
    run: &mut dyn FnMut(usize, usize, &mut Session) -> Result<(), RunError>,
) -> Result<(), RunError> {
    let start = Instant::now();
    let mut turns = 0;
    while budget.has_another(turns, start) {
        for (at, session) in sessions.iter_mut().enumerate() {
            if budget.is_stopped() {
                return Ok(());
            }
            session.execute()?;
            let turn = Instant::now();
            let mut runs = 0;
            while runs == 0 || (runs < MOST_RUNS && turn.elapsed() < TURN) {
                run(at, turns, session)?;
                runs += 1;
            }
        }
        turns += 1;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_are_quantiles() {
        let found = Latency::of((0..=100).rev().map(f64::from).collect()).expect("seconds");
        assert_eq!((found.min, found.low, found.median, found.high), (0.0, 10.0, 50.0, 90.0));
        assert_eq!((found.quartile, found.runs), (25.0, 101));
        assert_eq!(Latency::of(Vec::new()), None);
    }
}
