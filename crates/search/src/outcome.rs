//! What became of a candidate.

use crate::Candidate;

/// The result of one measurement. A failure is not a time: it trains models as speed 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Outcome {
    /// It ran, in so many seconds.
    Seconds(f64),
    /// It could not be built, run or verified.
    Failed,
}

impl Outcome {
    /// The time of a success. Times that are not positive and finite count as failures.
    pub fn seconds(self) -> Option<f64> {
        match self {
            Outcome::Seconds(s) if s.is_finite() && s > 0.0 => Some(s),
            _ => None,
        }
    }

    /// Runs per second; 0 for failures.
    pub fn speed(self) -> f64 {
        self.seconds().map_or(0.0, |s| 1.0 / s)
    }
}

/// A measured candidate.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// What was measured.
    pub candidate: Candidate,
    /// How it went.
    pub outcome: Outcome,
}

impl Sample {
    /// A sample.
    pub fn new(candidate: Candidate, outcome: Outcome) -> Sample {
        Sample { candidate, outcome }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_have_no_time_and_no_speed() {
        assert_eq!(Outcome::Seconds(0.5).speed(), 2.0);
        for bad in
            [Outcome::Failed, Outcome::Seconds(f64::NAN), Outcome::Seconds(0.0), Outcome::Seconds(-1.0)]
        {
            assert_eq!((bad.seconds(), bad.speed()), (None, 0.0), "{bad:?}");
        }
    }
}
