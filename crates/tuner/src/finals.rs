//! The finals: the fastest candidates and the default schedule run in turns, so that whatever disturbs the machine
//! disturbs them all.

use std::time::{Duration, Instant};

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
    /// Its seconds: the default's, times the median over the rounds of the ratio of both in one round.
    pub seconds: f64,
    /// The default's, as measured: the median over all rounds.
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

/// Rounds all finalists take part in.
pub const OPEN_ROUNDS: usize = 3;

/// Finalists in the rounds after that, the default schedule aside.
pub const CLOSED_FIELD: usize = 3;

/// A ratio to the default that is nearer to one is a tie, which the default wins.
const TIE: f64 = 0.005;

/// Runs the finalists in turns, the default schedule first: all of them for [`OPEN_ROUNDS`], then the default and the
/// fastest [`CLOSED_FIELD`]. Ratios within a round decide: what slows the machine down for a second says nothing about a
/// finalist. One that fails in any round is out. After the deadline there are no more rounds than the open ones. `None`
/// when the default itself fails.
pub fn compare<R: Runner>(
    runner: &mut R,
    data: &R::Data,
    finalists: &[Finalist<&R::Kernel>],
    rounds: usize,
    budget: Duration,
    deadline: Option<Instant>,
) -> Option<Verdict> {
    let effort = Effort::full(budget);
    let mut times: Vec<Option<Vec<f64>>> = vec![Some(Vec::new()); finalists.len()];
    let mut errors = vec![0.0f64; finalists.len()];
    let mut default_measured = Vec::new();
    for round in 0..rounds.max(1) {
        if round >= OPEN_ROUNDS && deadline.is_some_and(|d| Instant::now() >= d) {
            break;
        }
        if round == OPEN_ROUNDS {
            close(&mut times);
        }
        for (at, finalist) in finalists.iter().enumerate() {
            let Some(list) = &mut times[at] else { continue };
            match runner.run(data, finalist.kernel, &effort) {
                Ok(timing) if timing.seconds.is_finite() => {
                    list.push(timing.seconds);
                    if at == 0 {
                        default_measured.push(timing.measured);
                    }
                    errors[at] = errors[at].max(timing.error.unwrap_or(0.0));
                }
                _ => times[at] = None,
            }
        }
    }
    times.first()?.as_ref()?;
    let default_seconds = median(&default_measured);
    let ratios = ratios(&times);
    let all = ratios.iter().enumerate().skip(1).filter_map(|(at, ratio)| Some((at, (*ratio)?)));
    let fastest = all.min_by(|a, b| a.1.total_cmp(&b.1)).filter(|(_, ratio)| *ratio < 1.0 - TIE);
    let (winner, ratio) = fastest.unwrap_or((0, 1.0));
    Some(Verdict { winner, seconds: default_seconds * ratio, default_seconds, error: errors[winner] })
}

/// The median over the rounds of each finalist's time over the default's in the same round; `None` for those that are out.
fn ratios(times: &[Option<Vec<f64>>]) -> Vec<Option<f64>> {
    let default = times.first().and_then(|t| t.as_deref()).unwrap_or_default();
    let of = |own: &Vec<f64>| median(&own.iter().zip(default).map(|(t, d)| t / d).collect::<Vec<_>>());
    times.iter().map(|own| own.as_ref().map(of)).collect()
}

/// Takes all but the default and the fastest others out.
fn close(times: &mut [Option<Vec<f64>>]) {
    let mut order: Vec<(f64, usize)> = Vec::new();
    for (at, ratio) in ratios(times).into_iter().enumerate().skip(1) {
        order.extend(ratio.map(|ratio| (ratio, at)));
    }
    order.sort_by(|a, b| a.0.total_cmp(&b.0));
    for (_, at) in order.into_iter().skip(CLOSED_FIELD) {
        times[at] = None;
    }
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
    (sorted[last / 2] + sorted[sorted.len() / 2]) / 2.0
}

#[cfg(test)]
mod tests {
    use talweg_db::{Database, Failure, NewRecord, RunInfo, Samples, TargetKey, TaskKey};
    use talweg_ir::{Dag, Nest};

    use super::*;
    use crate::reference::ReferenceError;
    use crate::runner::Timing;

    /// Kernels are their own times; the n-th run of all is slower by its number, as on a machine that heats up.
    struct Scripted {
        runs: Vec<u32>,
    }

    impl Runner for Scripted {
        type Kernel = u32;
        type Data = ();

        fn data(&mut self, _: &Dag) -> Result<(), ReferenceError> {
            Ok(())
        }

        fn build(&mut self, _: &[Nest]) -> Vec<Result<(u32, f64), Failure>> {
            Vec::new()
        }

        fn run(&mut self, (): &(), kernel: &u32, _: &Effort) -> Result<Timing, Failure> {
            self.runs.push(*kernel);
            if *kernel == 0 {
                return Err(Failure { cause: "wrong-result".into(), text: "always".into() });
            }
            let seconds = f64::from(*kernel) + self.runs.len() as f64 * 1e-3;
            let (samples, error) = (Samples::default(), Some(f64::from(*kernel)));
            Ok(Timing { seconds, measured: seconds, samples, error, distance: None })
        }
    }

    fn verdict(kernels: &[u32]) -> (Option<Verdict>, Vec<u32>) {
        let mut db = Database::open_in_memory().expect("a database");
        let run = db.begin_run(&RunInfo::default()).expect("a run");
        let outcome = Ok(Samples { seconds: vec![1.0], ..Samples::default() });
        let new = NewRecord::new(run, &TaskKey::new("t", 1), &TargetKey::new("m"), 1, "", outcome);
        let record = db.insert_batch(&[new]).expect("a record").ids[0];
        let finalists: Vec<_> = kernels.iter().map(|kernel| Finalist { record, kernel }).collect();
        let mut runner = Scripted { runs: Vec::new() };
        let verdict = compare(&mut runner, &(), &finalists, 5, Duration::from_millis(1), None);
        (verdict, runner.runs)
    }

    #[test]
    fn the_fastest_wins_and_only_the_fastest_run_to_the_end() {
        let (verdict, runs) = verdict(&[5, 9, 0, 3, 4, 8, 7]);
        let verdict = verdict.expect("the default runs");
        assert_eq!(verdict.winner, 3);
        assert!(verdict.seconds < 3.1 && verdict.default_seconds > 5.0 && verdict.error == 3.0);
        let count = |kernel| runs.iter().filter(|k| **k == kernel).count();
        assert_eq!([5, 3, 4, 7].map(count), [5; 4]);
        assert_eq!([9, 8, 0].map(count), [3, 3, 1]);
    }

    #[test]
    fn what_slows_a_whole_round_down_decides_nothing() {
        let times = [vec![10.0, 30.0, 10.0, 30.0, 30.0], vec![9.0, 27.0, 9.0, 27.0, 27.0]].map(Some);
        let found: Vec<f64> = ratios(&times).into_iter().flatten().collect();
        assert_eq!(found, [1.0, 0.9]);
        assert_eq!(ratios(&[Some(vec![1.0]), None]), [Some(1.0), None]);
    }

    #[test]
    fn the_default_wins_unless_something_is_faster() {
        assert_eq!(verdict(&[5]).0.map(|v| v.winner), Some(0));
        assert_eq!(verdict(&[5, 6, 5]).0.map(|v| v.winner), Some(0));
        assert_eq!(verdict(&[0, 6]).0, None);
    }
}
