//! Networks timed as they run: whole, and kernel by kernel in their places.
//!
//! A kernel in a network finds its weights cold and its inputs in another core's cache; alone in a loop it does not.
//! What is better in place is only seen in place. Sessions that are compared take [turns](crate::turns).

use std::time::{Duration, Instant};

use talweg_runtime::model::{RunError, Session, Work};

use crate::allowance::Allowance;
use crate::turns::{Mode, Turns, mean};

/// The median's share.
const HALF: f64 = 0.5;

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

    /// Of the runs of a session in turns: the mean over the modes.
    fn of_turns(turns: &Turns<f64>, session: usize, modes: &[Mode]) -> Option<Latency> {
        let of =
            |mode: &Mode| Some((mode.share, Latency::of(turns.runs(session, *mode).copied().collect())?));
        let all: Vec<(f64, Latency)> = modes.iter().filter_map(of).collect();
        let whole: f64 = all.iter().map(|(share, _)| share).sum();
        let mean =
            |of: fn(&Latency) -> f64| all.iter().map(|(s, latency)| s * of(latency)).sum::<f64>() / whole;
        (!all.is_empty()).then(|| Latency {
            median: mean(|l| l.median),
            min: all.iter().map(|(_, l)| l.min).fold(f64::INFINITY, f64::min),
            low: mean(|l| l.low),
            quartile: mean(|l| l.quartile),
            high: mean(|l| l.high),
            runs: all.iter().map(|(_, l)| l.runs).sum(),
        })
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
    /// How many times as fast as the first each was: the median over the rounds, so that what disturbs all turns of a round
    /// counts for none, and the mean over the distances between threads.
    pub ahead: Vec<f64>,
}

/// Times the runs of sessions that take turns, for so long altogether.
pub fn race(sessions: &mut [&mut Session], budget: Allowance<'_>) -> Result<Race, RunError> {
    let turns = Turns::take(sessions, budget, |session| {
        let begin = Instant::now();
        session.execute()?;
        Ok(begin.elapsed().as_secs_f64())
    })?;
    Ok(Race::of(&turns, sessions.len()))
}

impl Race {
    fn of(turns: &Turns<f64>, sessions: usize) -> Race {
        let modes = turns.modes();
        let first = |mode| quantile(turns.runs(0, mode).copied().collect(), HALF);
        let ahead = |session: usize| {
            let own = mean(&modes, |mode| first(mode) / ahead(turns, session, mode));
            mean(&modes, first) / own
        };
        Race {
            latencies: (0..sessions).filter_map(|at| Latency::of_turns(turns, at, &modes)).collect(),
            ahead: (0..sessions).map(ahead).collect(),
        }
    }
}

/// How many times as fast as the first a session was in a mode, by the rounds in which both were; where a mode is turns of
/// several distances, by the rounds in which both were at the same one, if there are any.
fn ahead(turns: &Turns<f64>, session: usize, mode: Mode) -> f64 {
    let ratio = |(a, b): (&[f64], &[f64])| quantile(a.to_vec(), HALF) / quantile(b.to_vec(), HALF);
    for is_same in [true, false] {
        let ratios: Vec<f64> = turns.pairs(session, mode, is_same).map(ratio).collect();
        if !ratios.is_empty() {
            return quantile(ratios, HALF);
        }
    }
    let all = |at: usize| quantile(turns.runs(at, mode).copied().collect(), HALF);
    all(0) / all(session)
}

/// The value that a share of the others are below, between two of them by how near it is to each; zero of none.
fn quantile(mut values: Vec<f64>, share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let Some(last) = values.len().checked_sub(1) else { return 0.0 };
    let place = last as f64 * share;
    let (below, above) = (values[place.floor() as usize], values[place.ceil() as usize]);
    below + (above - below) * place.fract()
}

/// Times the steps of sessions that take turns, for so long altogether.
pub fn profile(sessions: &mut [&mut Session], budget: Allowance<'_>) -> Result<Vec<InPlace>, RunError> {
    let turns = Turns::take(sessions, budget, |session| {
        let run = session.execute_profiled()?;
        Ok(run.iter().map(Duration::as_secs_f64).collect::<Vec<f64>>())
    })?;
    let modes = turns.modes();
    let of = |(at, session): (usize, &&mut Session)| {
        let manifest = session.model().manifest();
        let none = vec![0.0; manifest.kernels.len()];
        let mut found = InPlace { kernels: none.clone(), typical: none, plain: 0.0 };
        for (number, step) in manifest.steps.iter().enumerate() {
            let at_share = |share: f64| {
                let of = |mode| quantile(turns.runs(at, mode).map(|run| run[number]).collect(), share);
                mean(&modes, of)
            };
            match &step.work {
                Work::Kernel { kernel, .. } => {
                    found.kernels[*kernel] += at_share(0.25);
                    found.typical[*kernel] += at_share(0.5);
                }
                Work::Plain { .. } => found.plain += at_share(0.25),
            }
        }
        found
    };
    Ok(sessions.iter().enumerate().map(of).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::turns::tests::turns;

    #[test]
    fn latencies_are_quantiles() {
        let found = Latency::of((0..=100).rev().map(f64::from).collect()).expect("seconds");
        assert_eq!((found.min, found.low, found.median, found.high), (0.0, 10.0, 50.0, 90.0));
        assert_eq!((found.quartile, found.runs), (25.0, 101));
        assert_eq!(Latency::of(Vec::new()), None);
    }

    #[test]
    fn quantiles_lie_between_values() {
        assert_eq!(quantile(vec![4.0, 1.0], 0.5), 2.5);
        assert_eq!(quantile(vec![4.0, 1.0, 2.0, 3.0, 5.0], 0.25), 2.0);
        assert_eq!((quantile(vec![7.0], 0.25), quantile(Vec::new(), 0.5)), (7.0, 0.0));
    }

    #[test]
    fn few_rounds_are_compared_where_both_were_at_one_distance() {
        let (near, far) = (Some(0), Some(1));
        // Slower by a tenth at either distance, and twice in the other's worse place.
        let first = [(far, 1.2), (far, 1.2), (near, 1.0)];
        let second = [(near, 1.1), (far, 1.32), (far, 1.32)];
        let race = Race::of(&turns(&[&first, &second]), 2);
        assert!((race.ahead[1] - 1.0 / 1.1).abs() < 1e-9, "{:?}", race.ahead);
        let apart = Race::of(&turns(&[&[(far, 1.2)], &[(near, 1.0)]]), 2);
        assert!((apart.ahead[1] - 1.2).abs() < 1e-9, "nothing else is known: {:?}", apart.ahead);
    }

    #[test]
    fn races_are_at_equal_distances_and_count_by_their_time() {
        let (near, far) = (Some(0), Some(1));
        // Near, the second is faster; far away, where most of the time was spent, the first. It had more of the near turns.
        let first: Vec<_> = [(near, 10.0); 3].into_iter().chain([(far, 14.0); 9]).collect();
        let second: Vec<_> = [(near, 9.0); 6].into_iter().chain([(far, 16.0); 6]).collect();
        let race = Race::of(&turns(&[&first, &second]), 2);
        assert_eq!(race.ahead[0], 1.0);
        let (near, far) = (9.0 / 24.0, 15.0 / 24.0);
        let expected = (near * 10.0 + far * 14.0) / (near * 9.0 + far * 16.0);
        assert!((race.ahead[1] - expected).abs() < 1e-9 && expected < 1.0, "{:?}", race.ahead);
        let medians: Vec<f64> = race.latencies.iter().map(|l| l.median).collect();
        assert!((medians[0] - (near * 10.0 + far * 14.0)).abs() < 1e-9, "{medians:?}");
        assert!((medians[1] - (near * 9.0 + far * 16.0)).abs() < 1e-9, "{medians:?}");
    }
}
