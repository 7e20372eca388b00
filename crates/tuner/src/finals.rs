//! The finals: the fastest candidates and the default schedule run in turns, so that whatever disturbs the machine
//! disturbs them all.

use std::time::Duration;

use talweg_db::{NewBest, RecordId};

use crate::runner::{Effort, Runner};

/// What the finals compare.
pub struct Finalist<K> {
    /// Its record.
    pub record: RecordId,
    /// Its kernel.
    pub kernel: K,
}

/// How the finals ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Verdict {
    /// The position of the winner; 0 is the default schedule.
    pub winner: usize,
    /// Its seconds: the median over all rounds.
    pub seconds: f64,
    /// The default's.
    pub default_seconds: f64,
    /// The winner's largest relative error in any round.
    pub error: f64,
}

impl Verdict {
    /// What is stored.
    pub fn best(&self, record: RecordId) -> NewBest {
        let ab_ratio = self.default_seconds / self.seconds;
        NewBest { record, default_seconds: self.default_seconds, ab_ratio }
    }
}

/// Runs all finalists in turns, the default schedule first. One that fails in any round is out. `None` when the
/// default itself fails.
pub fn compare<R: Runner>(
    runner: &mut R,
    data: &R::Data,
    finalists: &[Finalist<&R::Kernel>],
    rounds: usize,
    budget: Duration,
) -> Option<Verdict> {
    let effort = Effort { budget, slower_than: None };
    let mut times: Vec<Option<Vec<f64>>> = vec![Some(Vec::new()); finalists.len()];
    let mut errors = vec![0.0f64; finalists.len()];
    for _ in 0..rounds.max(1) {
        for (at, finalist) in finalists.iter().enumerate() {
            let Some(list) = &mut times[at] else { continue };
            match runner.run(data, finalist.kernel, &effort) {
                Ok(timing) if timing.seconds.is_finite() => {
                    list.push(timing.seconds);
                    errors[at] = errors[at].max(timing.error.unwrap_or(0.0));
                }
                _ => times[at] = None,
            }
        }
    }
    let medians: Vec<Option<f64>> = times.iter_mut().map(|t| t.as_mut().map(|t| median(t))).collect();
    let default_seconds = (*medians.first()?)?;
    // Ties go to the default, which comes first.
    let faster = |best: (usize, f64), (at, seconds): (usize, f64)| {
        if seconds < best.1 { (at, seconds) } else { best }
    };
    let all = medians.iter().enumerate().filter_map(|(at, m)| Some((at, (*m)?)));
    let (winner, seconds) = all.fold((0, default_seconds), faster);
    Some(Verdict { winner, seconds, default_seconds, error: errors[winner] })
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    let (low, high) = (values[(values.len() - 1) / 2], values[values.len() / 2]);
    (low + high) / 2.0
}
