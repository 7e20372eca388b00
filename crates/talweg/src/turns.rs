//! Sessions that take turns, and what their turns have in common.
//!
//! Whatever disturbs the machine disturbs all sessions of a round. What lasts for many rounds and then changes is where the
//! threads run: at another distance between them everything takes another time, and what is fastest may be something
//! else. So every turn knows its distance, sessions are compared at the same one, and what is said of a session is the mean over
//! the distances by how much of the time each had.

use std::time::{Duration, Instant};

use talweg_measure::Distances;
use talweg_runtime::model::{RunError, Session};

use crate::allowance::Allowance;

/// A turn of a session lasts about this long; its first run is not counted, for the others have been in the caches.
const TURN: Duration = Duration::from_millis(40);
/// Runs of a turn that count, at most.
const MOST_RUNS: usize = 20;
/// Turns that every session has at a distance that counts.
const LEAST_TURNS: usize = 3;

/// The turns of some sessions, round by round.
pub(crate) struct Turns<R> {
    sessions: Vec<Vec<Turn<R>>>,
}

/// What a session did in a turn.
struct Turn<R> {
    /// The number of the distance between its threads, if it was the same before and after.
    distance: Option<usize>,
    runs: Vec<R>,
}

/// The turns at one distance, or all of them, as a share of the time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Mode {
    distance: Option<usize>,
    pub share: f64,
}

impl Mode {
    fn has<R>(&self, turn: &Turn<R>) -> bool {
        self.distance.is_none() || turn.distance == self.distance
    }
}

impl<R> Turns<R> {
    /// Gives sessions turns for so long altogether: a run that does not count, then some that do, which `run` does.
    pub fn take(
        sessions: &mut [&mut Session],
        budget: Allowance<'_>,
        mut run: impl FnMut(&mut Session) -> Result<R, RunError>,
    ) -> Result<Turns<R>, RunError> {
        let (start, mut seen) = (Instant::now(), Distances::default());
        let mut distance = |session: &Session| session.distance().map(|seconds| seen.number(seconds));
        let mut turns: Vec<Vec<Turn<R>>> = sessions.iter().map(|_| Vec::new()).collect();
        for round in 0.. {
            if !budget.has_another(round, start) {
                break;
            }
            for (own, session) in turns.iter_mut().zip(sessions.iter_mut()) {
                if budget.is_stopped() {
                    break;
                }
                session.execute()?;
                let before = distance(session);
                let (begin, mut runs) = (Instant::now(), Vec::new());
                while runs.is_empty() || (runs.len() < MOST_RUNS && begin.elapsed() < TURN) {
                    runs.push(run(session)?);
                }
                let after = distance(session);
                own.push(Turn { distance: before.filter(|_| before == after), runs });
            }
        }
        Ok(Turns { sessions: turns })
    }

    /// The distances at which every session had enough turns, with their shares of these turns; all turns as one, if there is
    /// no such distance or only one.
    pub fn modes(&self) -> Vec<Mode> {
        let count = |own: &Vec<Turn<R>>, at: usize| own.iter().filter(|t| t.distance == Some(at)).count();
        let known = self.sessions.iter().flatten().filter_map(|turn| turn.distance).max();
        let counts = (0..=known.unwrap_or(0)).map(|at| {
            let least = self.sessions.iter().map(|own| count(own, at)).min().unwrap_or(0);
            let all: usize = self.sessions.iter().map(|own| count(own, at)).sum();
            (at, if least >= LEAST_TURNS { all } else { 0 })
        });
        let counts: Vec<(usize, usize)> = counts.filter(|(_, count)| *count > 0).collect();
        let all: usize = counts.iter().map(|(_, count)| count).sum();
        if counts.is_empty() {
            return vec![Mode { distance: None, share: 1.0 }];
        }
        let mode =
            |(at, count): &(usize, usize)| Mode { distance: Some(*at), share: *count as f64 / all as f64 };
        counts.iter().map(mode).collect()
    }

    /// The runs of the first session and of another in the rounds in which both turns are of a mode, and at one distance if
    /// that is wanted.
    pub fn pairs(&self, session: usize, mode: Mode, is_same: bool) -> impl Iterator<Item = (&[R], &[R])> {
        let both = self.sessions[0].iter().zip(&self.sessions[session]);
        both.filter(move |(a, b)| mode.has(a) && mode.has(b) && (!is_same || a.distance == b.distance))
            .map(|(a, b)| (a.runs.as_slice(), b.runs.as_slice()))
    }

    /// All runs of a session in a mode.
    pub fn runs(&self, session: usize, mode: Mode) -> impl Iterator<Item = &R> {
        self.sessions[session].iter().filter(move |turn| mode.has(turn)).flat_map(|turn| &turn.runs)
    }
}

/// The mean over modes by their shares.
pub(crate) fn mean(modes: &[Mode], of: impl Fn(Mode) -> f64) -> f64 {
    modes.iter().map(|mode| mode.share * of(*mode)).sum()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Turns with a single run each: for every session the distances and values.
    pub fn turns(sessions: &[&[(Option<usize>, f64)]]) -> Turns<f64> {
        let turn =
            |(distance, seconds): &(Option<usize>, f64)| Turn { distance: *distance, runs: vec![*seconds] };
        Turns { sessions: sessions.iter().map(|own| own.iter().map(turn).collect()).collect() }
    }

    #[test]
    fn a_distance_counts_where_every_session_had_enough_turns_at_it() {
        let (near, far) = (Some(0), Some(1));
        let own = [(near, 1.0), (near, 1.0), (near, 1.0), (far, 2.0), (far, 2.0), (far, 2.0), (None, 9.0)];
        let both = turns(&[&own, &own]);
        let modes = both.modes();
        assert_eq!(modes.iter().map(|m| m.share).collect::<Vec<_>>(), [0.5, 0.5]);
        assert!(both.runs(1, modes[1]).eq(&[2.0, 2.0, 2.0]));
        assert_eq!(mean(&modes, |mode| both.runs(0, mode).sum()), 4.5);
        // The second session was twice far away only.
        let some = turns(&[&own, &own[..5]]);
        let modes = some.modes();
        assert_eq!((modes.len(), modes[0].share), (1, 1.0));
        assert!(some.runs(0, modes[0]).eq(&[1.0, 1.0, 1.0]));
    }

    #[test]
    fn without_a_common_distance_all_turns_count() {
        let (near, far) = ([(Some(0), 1.0); 3], [(Some(1), 2.0); 3]);
        let apart = turns(&[&near, &far]);
        let modes = apart.modes();
        assert_eq!((modes.len(), modes[0].share), (1, 1.0));
        assert_eq!(apart.runs(1, modes[0]).count(), 3);
    }
}
