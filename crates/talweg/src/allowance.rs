//! How long sessions may take turns when they are compared.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Rounds of turns there are, however slow the sessions, unless they must be over.
const LEAST_ROUNDS: usize = 3;
/// Runs of a session in these rounds: one that does not count, and one that does.
pub(crate) const LEAST_RUNS: usize = 2 * LEAST_ROUNDS;
/// Rounds that are to be over but have only begun may take this long: those of fast sessions need no longer.
const GRACE: Duration = Duration::from_secs(1);

/// How long sessions may take turns.
#[derive(Clone, Copy, Debug)]
pub struct Allowance<'a> {
    /// For all turns together.
    pub time: Duration,
    /// When they should be over; one round there is always.
    pub until: Option<Instant>,
    /// Ends them at once when it is set; what they gave by then is incomplete, and for nobody.
    pub stop: Option<&'a AtomicBool>,
}

impl Allowance<'_> {
    /// Whether there is another round after so many, the first of which began at `start`.
    pub(crate) fn has_another(&self, rounds: usize, start: Instant) -> bool {
        let is_late = self.until.is_some_and(|until| Instant::now() >= until);
        let time = if is_late { self.time.min(GRACE) } else { self.time };
        let is_needed = rounds == 0 || (rounds < LEAST_ROUNDS && (!is_late || start.elapsed() < GRACE));
        !self.is_stopped() && (is_needed || start.elapsed() < time)
    }

    /// Whether somebody waits for the end.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.is_some_and(|stop| stop.load(Ordering::Relaxed))
    }
}

impl From<Duration> for Allowance<'_> {
    fn from(time: Duration) -> Self {
        Allowance { time, until: None, stop: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_sessions_have_one_round_when_it_is_late() {
        let now = Instant::now();
        let Some(start) = now.checked_sub(GRACE * 2) else { return };
        let rounds = |until, start| {
            let allowance = Allowance { until, ..Duration::from_secs(3600).into() };
            [0, 1, 9].map(|rounds| allowance.has_another(rounds, start))
        };
        assert_eq!(rounds(Some(now), start), [true, false, false]);
        assert_eq!(rounds(now.checked_add(GRACE * 3600), start), [true, true, true]);
        assert_eq!(rounds(None, start), [true, true, true]);
    }

    #[test]
    fn there_are_some_rounds_unless_somebody_waits() {
        let stop = AtomicBool::new(false);
        let allowance = Allowance { stop: Some(&stop), ..Duration::ZERO.into() };
        let start = Instant::now();
        assert_eq!([0, 2, 3].map(|rounds| allowance.has_another(rounds, start)), [true, true, false]);
        stop.store(true, Ordering::Relaxed);
        assert!(!allowance.has_another(0, start));
        let long = Allowance::from(Duration::from_secs(3600));
        assert!(long.has_another(9, start));
    }
}
