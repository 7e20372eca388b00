//! How long sessions may take turns when they are compared.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Rounds of turns there are, however slow the sessions.
pub(crate) const LEAST_ROUNDS: usize = 3;

/// How long sessions may take turns.
#[derive(Clone, Copy, Debug)]
pub struct Allowance<'a> {
    /// For all turns together.
    pub time: Duration,
    /// Ends them at once when it is set; what they gave by then is incomplete, and for nobody.
    pub stop: Option<&'a AtomicBool>,
}

impl Allowance<'_> {
    /// Whether there is another round after so many, the first of which began at `start`.
    pub(crate) fn has_another(&self, rounds: usize, start: Instant) -> bool {
        !self.is_stopped() && (rounds < LEAST_ROUNDS || start.elapsed() < self.time)
    }

    /// Whether somebody waits for the end.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.is_some_and(|stop| stop.load(Ordering::Relaxed))
    }
}

impl From<Duration> for Allowance<'_> {
    fn from(time: Duration) -> Self {
        Allowance { time, stop: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
